/* SPDX-License-Identifier: Apache-2.0 */
/* Requests on one connection that are answered in the order in which they were sent, and the memory
 * of requests. An engine's request begins with a struct hf_pipeline_item.
 *
 * An item is in at most one list: `waiting` until it is sent, `out` until its reply comes. It
 * leaves its list before it is completed, so that it may be queued anew inside its own completion.
 * Each item is completed exactly once: by the reply that the engine matches with it
 * (hf__pipeline_replied), or without a reply, by `unanswered`.
 *
 * Thread: the loop. Nothing here calls back but `unanswered`, which may do anything but free the
 * pipeline. The pipeline knows no connection: peer.h's `oldest` is hf__pipeline_oldest_ms. */
#ifndef HF_ENGINES_COMMON_PIPELINE_H
#define HF_ENGINES_COMMON_PIPELINE_H

#include "base/list.h"
#include "base/loop.h"

struct hf_pipeline_item {
    struct hf_link link;
    int64_t sent_at_ms; /* when it was sent last */
    bool sent;          /* the server may have it */
};

struct hf_pipeline {
    struct hf_link waiting; /* for the connection, in the order of asking */
    struct hf_link out;     /* sent, in the order of their replies */
    /* Completes an item that gets no reply. */
    void (*unanswered)(struct hf_pipeline *pipeline, struct hf_pipeline_item *item);
};

void hf__pipeline_init(struct hf_pipeline *pipeline,
                       void (*unanswered)(struct hf_pipeline *pipeline,
                                          struct hf_pipeline_item *item));

/* The connection is not ready: the item is sent later. */
static inline void hf__pipeline_wait(struct hf_pipeline *pipeline, struct hf_pipeline_item *item)
{
    item->sent = false;
    hf__list_append(&pipeline->waiting, &item->link);
}

/* The item is being sent now, and expects a reply. */
static inline void hf__pipeline_sent(struct hf_pipeline *pipeline, struct hf_pipeline_item *item,
                                     int64_t now_ms)
{
    item->sent = true;
    item->sent_at_ms = now_ms;
    hf__list_append(&pipeline->out, &item->link);
}

/* The connection is ready: takes out the item that has waited longest; NULL: none waits. */
struct hf_pipeline_item *hf__pipeline_next(struct hf_pipeline *pipeline);
/* The item that the next reply belongs to; NULL: no request is out. It stays in `out`. */
struct hf_pipeline_item *hf__pipeline_first_out(struct hf_pipeline *pipeline);
/* The same, taken out of `out`: its reply has come. */
struct hf_pipeline_item *hf__pipeline_replied(struct hf_pipeline *pipeline);
/* When the oldest item without a reply was sent; HF_NEVER: no request is out. */
int64_t hf__pipeline_oldest_ms(struct hf_pipeline *pipeline);

/* Completes what was sent, and with `waiting_too` then what waits, without replies. What the
 * completions queue meanwhile stays for the next connection. */
void hf__pipeline_fail(struct hf_pipeline *pipeline, bool waiting_too);
/* The same for a list of the engine's own, such as requests whose session has ended. */
void hf__pipeline_abandon(struct hf_pipeline *pipeline, struct hf_link *items);

/* ---- Memory: a free list of items of one size ---- */

struct hf_free_list {
    struct hf_link items;
    size_t size; /* of the engine's request */
};

void hf__free_list_init(struct hf_free_list *list, size_t size);
/* New memory is zeroed; a used item is as it was put back, with its link unlinked. NULL: out of
 * memory. */
struct hf_pipeline_item *hf__free_list_take(struct hf_free_list *list);
/* The item is in no other list. */
void hf__free_list_put(struct hf_free_list *list, struct hf_pipeline_item *item);
/* Frees the items; `empty` (or NULL) first frees what each one owns. */
void hf__free_list_end(struct hf_free_list *list, void (*empty)(struct hf_pipeline_item *item));

#endif
