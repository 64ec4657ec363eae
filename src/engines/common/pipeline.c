/* SPDX-License-Identifier: Apache-2.0 */
/* Requests in flight on one connection, and their memory. */
#include "pipeline.h"

#include "base/testing.h"

#include <stdlib.h>

static struct hf_pipeline_item *item_of(struct hf_link *link)
{
    return link ? HF_CONTAINER(link, struct hf_pipeline_item, link) : NULL;
}

void hf__pipeline_init(struct hf_pipeline *pipeline,
                       void (*unanswered)(struct hf_pipeline *pipeline,
                                          struct hf_pipeline_item *item))
{
    hf__link_init(&pipeline->waiting);
    hf__link_init(&pipeline->out);
    pipeline->unanswered = unanswered;
}

struct hf_pipeline_item *hf__pipeline_next(struct hf_pipeline *pipeline)
{
    return item_of(hf__list_pop(&pipeline->waiting));
}

struct hf_pipeline_item *hf__pipeline_first_out(struct hf_pipeline *pipeline)
{
    return item_of(hf__list_first(&pipeline->out));
}

struct hf_pipeline_item *hf__pipeline_replied(struct hf_pipeline *pipeline)
{
    return item_of(hf__list_pop(&pipeline->out));
}

int64_t hf__pipeline_oldest_ms(struct hf_pipeline *pipeline)
{
    const struct hf_pipeline_item *first = hf__pipeline_first_out(pipeline);
    return first ? first->sent_at_ms : HF_NEVER;
}

void hf__pipeline_abandon(struct hf_pipeline *pipeline, struct hf_link *items)
{
    struct hf_link abandoned, *link;
    hf__link_init(&abandoned);
    hf__list_append_all(&abandoned, items);
    while ((link = hf__list_pop(&abandoned)))
        pipeline->unanswered(pipeline, item_of(link));
}

void hf__pipeline_fail(struct hf_pipeline *pipeline, bool waiting_too)
{
    struct hf_link failed;
    hf__link_init(&failed);
    hf__list_append_all(&failed, &pipeline->out); /* mutant: request-queued-anew-fails */
    if (waiting_too)
        hf__list_append_all(&failed, &pipeline->waiting);
    hf__pipeline_abandon(pipeline, &failed);
}

/* ---- memory ---- */

void hf__free_list_init(struct hf_free_list *list, size_t size)
{
    hf__link_init(&list->items);
    list->size = size;
}

struct hf_pipeline_item *hf__free_list_take(struct hf_free_list *list)
{
    struct hf_pipeline_item *item = item_of(hf__list_pop(&list->items));
    if (!item && (item = hf__calloc(1, list->size)))
        hf__link_init(&item->link);
    return item;
}

void hf__free_list_put(struct hf_free_list *list, struct hf_pipeline_item *item)
{
    hf__list_append(&list->items, &item->link);
}

void hf__free_list_end(struct hf_free_list *list, void (*empty)(struct hf_pipeline_item *item))
{
    struct hf_link *link;
    while ((link = hf__list_pop(&list->items))) {
        if (empty)
            empty(item_of(link));
        free(item_of(link));
    }
}
