/* SPDX-License-Identifier: Apache-2.0 */
/* Transactions on one lock: entering its guard, and leaving it. What goes past the guard
 * (fast_path.c) is pinned inside. */
#include "base/clock.h"
#include "base/testing.h"
#include "file.h"
#include "local.h"

int64_t hf__txn_now(struct txn *txn)
{
    if (!txn->now_ms)
        txn->now_ms = hf__clock_ms();
    return txn->now_ms;
}

/* ---- the holder that goes past the guard ---- */

/* The only one in the holders, if it is one that may go past the guard. */
static struct local_node *exclusive_holder(struct local *local, const struct local_lock *lock)
{
    uint64_t holders = local_get(&lock->holders);
    if (!holders || local_low(holders) != local_high(holders))
        return NULL;
    struct local_node *node = hf__local_node(local, local_low(holders));
    return node && local_is_exclusive(local_get(&node->state)) ? node : NULL;
}

bool hf__local_seems_free(struct local *local, const struct local_lock *lock)
{
    const struct local_node *node = exclusive_holder(local, lock);
    bool parked = node && local_state_state(local_get(&node->state)) == LOCAL_PARKED;
    return !local_get(&lock->waiters) && (parked || !local_get(&lock->holders));
}

/* From here on the exclusive holder, if there is one, does nothing outside the guard, and what was
 * parked is out of the way. */
static void pin(struct txn *txn)
{
    struct local_node *node = exclusive_holder(txn->local, txn->lock);
    if (!node)
        return;
    uint64_t state = atomic_load_explicit(&node->state, memory_order_acquire), pinned;
    do {
        /* mutant: holder-past-guard */
        if (local_state_state(state) != LOCAL_HELD && local_state_state(state) != LOCAL_PARKED)
            return;
        pinned = local_with_flags(state, local_state_flags(state) | LOCAL_PINNED);
    } while (state != pinned &&
             !atomic_compare_exchange_weak_explicit(&node->state, &state, pinned,
                                                    memory_order_acquire, memory_order_acquire));
    HF_POINT("local:pinned");
    /* Outside the guard, the last token is the node's alone. */
    /* mutant: token-that-was-given-past */
    if (local_get(&node->token) > local_get(&txn->lock->token))
        local_put(&txn->lock->token, local_get(&node->token));
    HF_POINT("local:pinned:token");
    if (local_state_state(pinned) == LOCAL_PARKED) /* mutant: what-is-parked-passes-for-held */
        hf__txn_evict(txn, node);
}

/* The holder may go past the guard again, unless a claim waits. */
static void unpin(struct txn *txn)
{
    struct local_node *node = exclusive_holder(txn->local, txn->lock);
    if (!node)
        return;
    uint64_t state = local_get(&node->state);
    unsigned flags = local_state_flags(state) & ~LOCAL_PINNED;
    if (local_get(&txn->lock->waiters)) /* mutant: holder-is-unpinned-though */
        flags |= LOCAL_PINNED;
    if (local_state_state(state) == LOCAL_HELD && flags != local_state_flags(state))
        local_put(&node->state, local_with_flags(state, flags));
}

/* ---- entering and leaving ---- */

static void begin_txn(struct txn *txn, struct local *local, uint32_t reference,
                      struct local_lock *lock)
{
    txn->local = local;
    txn->lock = lock;
    txn->reference = reference;
    txn->now_ms = 0;
    txn->name = NULL;
    txn->damaged = txn->took_over = false;
    txn->wake_count = txn->steps = 0;
}

int hf__txn_enter(struct txn *txn, struct local *local, uint32_t reference, hf_error **error)
{
    struct local_lock *lock = hf__local_lock(local, reference);
    if (!lock)
        return hf__local_damaged(local, error, "a lock is referred to that cannot be");
    begin_txn(txn, local, reference, lock);
    bool stolen;
    int code = hf__local_guard(local, &lock->guard, &stolen, error);
    if (code)
        return code;
    HF_POINT("local:guard");
    /* Not only after a theft: a thief that then died itself may have left some of it. */
    /* mutant: what-dead-one-had-begun */
    if (atomic_load_explicit(&lock->journal_count, memory_order_relaxed))
        hf__txn_undo(txn);
    pin(txn);
    return HF_OK;
}

bool hf__txn_try(struct txn *txn, struct local *local, uint32_t reference)
{
    struct local_lock *lock = hf__local_lock(local, reference);
    if (!lock || !hf__local_guard_try(local, &lock->guard))
        return false;
    begin_txn(txn, local, reference, lock);
    if (atomic_load_explicit(&lock->journal_count, memory_order_relaxed))
        hf__txn_undo(txn);
    pin(txn);
    return true;
}

void hf__txn_leave(struct txn *txn)
{
    struct local *local = txn->local;
    if (txn->damaged)
        hf__txn_undo(txn);
    else
        unpin(txn);
    HF_POINT("local:unguard");
    hf__local_unguard(&txn->lock->guard);
    HF_POINT("local:tell");
    if (txn->wake_count)
        hf__local_tell(local, txn->wakes, txn->wake_count);
    if (txn->took_over && hf__host_wants_events(local->base.host))
        hf__host_event(local->base.host, HF_EVENT_TAKEOVER, txn->name ? txn->name : "",
                       txn->took_over_token, "taken back from a holder that is gone");
}
