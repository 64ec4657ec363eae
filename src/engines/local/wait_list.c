/* SPDX-License-Identifier: Apache-2.0 */
/* The two lists of a lock. Whatever is read from the file is checked before it is followed. */
#include "file.h"
#include "local.h"

struct local_node *hf__txn_node(struct txn *txn, uint32_t reference)
{
    struct local_node *node = hf__local_node(txn->local, reference);
    /* mutant: references-are-followed */
    if (!node || local_state_lock(local_get(&node->state)) != txn->reference) {
        txn->damaged = true;
        return NULL;
    }
    return node;
}

/* Changes one half of a node's link. */
static void link_half(struct txn *txn, uint32_t reference, bool next, uint32_t value)
{
    struct local_node *node = hf__txn_node(txn, reference);
    if (!node)
        return;
    uint64_t link = local_get(&node->link);
    hf__txn_set(txn, &node->link,
                next ? local_pair(value, local_high(link)) : local_pair(local_low(link), value));
}

void hf__wait_list_append(struct txn *txn, _Atomic uint64_t *list, struct local_node *node)
{
    uint64_t ends = local_get(list);
    uint32_t reference = local_reference(txn->local, node);
    hf__txn_set(txn, &node->link, local_pair(0, local_high(ends)));
    if (local_high(ends))
        link_half(txn, local_high(ends), true, reference);
    hf__txn_set(txn, list, local_pair(ends ? local_low(ends) : reference, reference));
}

void hf__wait_list_remove(struct txn *txn, _Atomic uint64_t *list, struct local_node *node)
{
    uint64_t ends = local_get(list), link = local_get(&node->link);
    uint32_t reference = local_reference(txn->local, node);
    uint32_t next = local_low(link), previous = local_high(link);
    uint32_t first = local_low(ends), last = local_high(ends);
    if ((previous == 0) != (first == reference) || (next == 0) != (last == reference)) {
        txn->damaged = true;
        return;
    }
    if (previous)
        link_half(txn, previous, true, next);
    else
        first = next;
    if (next)
        link_half(txn, next, false, previous);
    else
        last = previous;
    if (!previous || !next)
        hf__txn_set(txn, list, local_pair(first, last));
}

/* A damaged file may hold circles. */
static struct local_node *step(struct txn *txn, uint32_t reference)
{
    uint32_t total = LOCAL_NODES * ((1u << atomic_load(&txn->local->segments)) - 1);
    if (!reference || txn->damaged)
        return NULL;
    if (txn->steps++ > 2 * total + 1000) {
        txn->damaged = true;
        return NULL;
    }
    return hf__txn_node(txn, reference);
}

struct local_node *hf__wait_list_first(struct txn *txn, const _Atomic uint64_t *list)
{
    return step(txn, local_low(local_get(list)));
}

struct local_node *hf__wait_list_next(struct txn *txn, const struct local_node *node)
{
    return step(txn, local_low(local_get(&node->link)));
}
