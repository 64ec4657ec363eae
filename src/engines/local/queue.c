/* SPDX-License-Identifier: Apache-2.0 */
/* The two lists of a lock. Whatever is read from the file is checked before it is followed. */
#include "local.h"

struct local_node *hf__visit_node(struct visit *visit, uint32_t reference)
{
    struct local_node *node = hf__local_node(visit->local, reference);
    if (!node || local_state_lock(local_get(&node->state)) != visit->reference) {
        visit->damaged = true;
        return NULL;
    }
    return node;
}

/* Changes one half of a node's link. */
static void link_half(struct visit *visit, uint32_t reference, bool next, uint32_t value)
{
    struct local_node *node = hf__visit_node(visit, reference);
    if (!node)
        return;
    uint64_t link = local_get(&node->link);
    hf__visit_set(visit, &node->link,
                  next ? local_pair(value, local_high(link)) : local_pair(local_low(link), value));
}

void hf__queue_append(struct visit *visit, _Atomic uint64_t *list, struct local_node *node)
{
    uint64_t ends = local_get(list);
    uint32_t reference = local_reference(visit->local, node);
    hf__visit_set(visit, &node->link, local_pair(0, local_high(ends)));
    if (local_high(ends))
        link_half(visit, local_high(ends), true, reference);
    hf__visit_set(visit, list, local_pair(ends ? local_low(ends) : reference, reference));
}

void hf__queue_remove(struct visit *visit, _Atomic uint64_t *list, struct local_node *node)
{
    uint64_t ends = local_get(list), link = local_get(&node->link);
    uint32_t reference = local_reference(visit->local, node);
    uint32_t next = local_low(link), previous = local_high(link);
    uint32_t first = local_low(ends), last = local_high(ends);
    if ((previous == 0) != (first == reference) || (next == 0) != (last == reference)) {
        visit->damaged = true;
        return;
    }
    if (previous)
        link_half(visit, previous, true, next);
    else
        first = next;
    if (next)
        link_half(visit, next, false, previous);
    else
        last = previous;
    if (!previous || !next)
        hf__visit_set(visit, list, local_pair(first, last));
}

/* A damaged file may hold circles. */
static struct local_node *step(struct visit *visit, uint32_t reference)
{
    uint32_t total = LOCAL_NODES * ((1u << atomic_load(&visit->local->segments)) - 1);
    if (!reference || visit->damaged)
        return NULL;
    if (visit->steps++ > 2 * total + 1000) {
        visit->damaged = true;
        return NULL;
    }
    return hf__visit_node(visit, reference);
}

struct local_node *hf__queue_first(struct visit *visit, const _Atomic uint64_t *list)
{
    return step(visit, local_low(local_get(list)));
}

struct local_node *hf__queue_next(struct visit *visit, const struct local_node *node)
{
    return step(visit, local_low(local_get(&node->link)));
}
