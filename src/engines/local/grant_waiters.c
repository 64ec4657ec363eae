/* SPDX-License-Identifier: Apache-2.0 */
/* What is due is given by each visitor. "Free, with waiters" is a legal state of a lock, so each
 * grant is a transaction of its own. */
#include "base/clock.h"
#include "base/testing.h"
#include "local.h"

enum {
    OFFER_MS = 1000, /* an offer not fetched for this time goes to the next */
    ANNOUNCE_MAX = 16
};

static void offer(struct txn *txn, struct local_node *node)
{
    int64_t now_ms = hf__txn_now(txn);
    hf_mode mode = local_state_mode(local_get(&node->state));
    unsigned flags = local_state_flags(local_get(&node->state)) & LOCAL_ASYNCHRONOUS;
    node->since_ms = (uint64_t)now_ms;
    local_put(&txn->lock->turn_us, (uint64_t)hf__clock_us());
    /* mutant: offer-never-lapses */
    hf__txn_grant(txn, node, mode, (uint64_t)now_ms + OFFER_MS, flags | LOCAL_OFFERED);
    HF_POINT("local:offered");
    if (!txn->damaged)
        hf__txn_wake(txn, node);
}

/* The mutex is handed to it, and no claim barges. */
static bool is_due(const struct local_node *node)
{
    /* mutant: mutex-is-never-handed-over */
    return local_state_flags(local_get(&node->state)) & LOCAL_DUE;
}

/* A mutex barges: it is not given to a waiter, one is told that it is free. This is the one, or
 * NULL. Waiters that were told and have not come yet are passed over for a while (*comes: one of
 * them is on its way), those that seem stopped for good. */
static struct local_node *next_to_tell(struct txn *txn, bool *comes)
{
    struct local_node *node = hf__wait_list_first(txn, &txn->lock->waiters), *next;
    uint64_t now_ms = (uint64_t)hf__txn_now(txn);
    *comes = false;
    for (unsigned seen = 0; node && seen < ANNOUNCE_MAX; node = next, seen++) {
        next = hf__wait_list_next(txn, node);
        bool told = local_state_flags(local_get(&node->state)) & LOCAL_WOKEN;
        *comes = told && now_ms - local_get(&node->deadline_ms) < LOCAL_STALE_WAKE_MS;
        if (*comes)
            return NULL;
        if (hf__txn_clear_if_dead(txn, node))
            continue;
        if (!told || !next)
            return node;
    }
    return NULL;
}

static void announce_to(struct txn *txn, struct local_node *node)
{
    uint64_t state = local_get(&node->state);
    local_put(&node->deadline_ms, (uint64_t)hf__txn_now(txn));
    local_put(&node->state, local_with_flags(state, local_state_flags(state) | LOCAL_WOKEN));
    HF_POINT("local:announced");
    hf__txn_wake(txn, node);
}

static void announce(struct txn *txn)
{
    bool comes;
    struct local_node *node = next_to_tell(txn, &comes);
    if (!node)
        return;
    if (is_due(node)) /* mutant: stopped-waiter-at-head-keeps */
        offer(txn, node);
    else
        announce_to(txn, node);
}

bool hf__txn_lend(struct txn *txn)
{
    bool comes;
    struct local_node *node = next_to_tell(txn, &comes);
    if (!node)
        return !txn->damaged && (comes || !local_get(&txn->lock->waiters));
    /* To tell a loop may be a cancellation point. */
    if (is_due(node) || local_state_flags(local_get(&node->state)) & LOCAL_ASYNCHRONOUS)
        return false;
    announce_to(txn, node); /* mutant: mutex-is-lent-though-no-waiter */
    return !txn->damaged;
}

static bool pump_upgrade(struct txn *txn)
{
    uint32_t strong = local_high(local_get(&txn->lock->shape));
    struct local_node *node = strong ? hf__txn_node(txn, strong) : NULL;
    if (!node || !(local_state_flags(local_get(&node->state)) & LOCAL_PENDING))
        return false;
    if (hf__txn_raise(txn, node)) {
        HF_POINT("local:raised");
        hf__txn_wake(txn, node);
    }
    return true;
}

/* One step; false: nothing more is due. */
static bool pump_one(struct txn *txn)
{
    struct local_node *node = hf__wait_list_first(txn, &txn->lock->waiters);
    if (!node)
        return false;
    hf_mode mode = local_state_mode(local_get(&node->state));
    if (!hf__txn_may_grant(txn, mode, node->permits))
        return false;
    if (hf__txn_clear_if_dead(txn, node))
        return true;
    if (mode == HF_MUTEX && !is_due(node)) {
        announce(txn);
        return false;
    }
    offer(txn, node);
    return true;
}

void hf__txn_pump(struct txn *txn)
{
    if (local_high(local_get(&txn->lock->shape)) && pump_upgrade(txn))
        return;
    while (!txn->damaged && local_get(&txn->lock->waiters) && pump_one(txn))
        continue;
}

void hf__txn_turn_away(struct txn *txn, uint32_t total)
{
    struct local_node *node = hf__wait_list_first(txn, &txn->lock->waiters), *next;
    for (; node; node = next) {
        next = hf__wait_list_next(txn, node);
        if (node->permits <= total) /* mutant: owner-waits-for-all-there */
            continue;
        unsigned flags = local_state_flags(local_get(&node->state)) & LOCAL_ASYNCHRONOUS;
        /* mutant: owner-is-turned-away-is-told */
        hf__txn_leave_queue(txn, node, LOCAL_LOST, flags | LOCAL_OFFERED);
        HF_POINT("local:turned_away");
        if (!txn->damaged)
            hf__txn_wake(txn, node);
    }
}
