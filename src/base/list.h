/* SPDX-License-Identifier: Apache-2.0 */
/* Intrusive doubly linked list: a circle through a head. An unlinked link points to itself. */
#ifndef HF_BASE_LIST_H
#define HF_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct hf_link {
    struct hf_link *next, *prev;
};

#define HF_CONTAINER(pointer, type, member)                                                        \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* Safe against removal of `link` itself in the body. */
#define HF_LIST_FOREACH(link, following, head)                                                     \
    for (struct hf_link *link = (head)->next, *following = link->next; link != (head);             \
         link = following, following = link->next)

static inline void hf__link_init(struct hf_link *link)
{
    link->next = link->prev = link;
}

static inline bool hf__link_linked(const struct hf_link *link)
{
    return link->next != link;
}

static inline bool hf__list_empty(const struct hf_link *head)
{
    return head->next == head;
}

static inline void hf__list_append(struct hf_link *head, struct hf_link *link)
{
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

static inline void hf__link_remove(struct hf_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->next = link->prev = link;
}

/* All that is in `from`, to the end of `head`. */
static inline void hf__list_append_all(struct hf_link *head, struct hf_link *from)
{
    if (hf__list_empty(from))
        return;
    from->next->prev = head->prev;
    from->prev->next = head;
    head->prev->next = from->next;
    head->prev = from->prev;
    hf__link_init(from);
}

static inline struct hf_link *hf__list_first(struct hf_link *head)
{
    return head->next == head ? NULL : head->next;
}

static inline struct hf_link *hf__list_pop(struct hf_link *head)
{
    struct hf_link *link = head->next;
    if (link == head)
        return NULL;
    hf__link_remove(link);
    return link;
}

#endif
