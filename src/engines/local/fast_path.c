/* SPDX-License-Identifier: Apache-2.0 */
/* Locks that no other claim wants, past the guard. An owner that gives such a lock back leaves its
 * node in the holders, *parked*: one exchange of the node's state word, and one more takes it
 * again. To all others a parked node means that the lock is free; each transaction on the lock
 * takes it out first.
 *
 *        HELD  <---- take, leave: the owner, outside the guard ---->  PARKED
 *          |                                                             |
 *          | pin, unpin: a visitor, inside                               | pin: a visitor
 *          v                                                             v
 *        HELD, PINNED                                         PARKED, PINNED ---> EVICTED
 *
 * The state word decides between the owner and the visitor, since both exchange it: a pinned node
 * is changed inside the guard only. It stays pinned as long as a claim waits, so that giving the
 * lock back goes through the guard, where the next one is told.
 *
 * A mutex may be taken before its waiters. So its owner parks it in the guard too, if one of them
 * has been told, and goes past the guard until that one comes, finds the mutex held, and pins it
 * again. If none comes for a while, the owner looks after them.
 *
 * `kept` and the op's word are alike: the node's reference, and in the high half since when a
 * waiter has been told, in milliseconds, or 0. */
#include "base/testing.h"
#include "file.h"
#include "local.h"

static bool is(uint64_t state, enum local_state what)
{
    return local_state_state(state) == what;
}

/* Makes sure that no list has the node, and no journal that may yet be undone. */
static bool is_out(struct local *local, struct local_node *node)
{
    uint64_t state = atomic_load_explicit(&node->state, memory_order_acquire);
    if (is(state, LOCAL_EVICTED))
        return true;
    struct txn txn;
    if (!hf__txn_try(&txn, local, local_state_lock(state))) /* mutant: parked-node-is-given-up */
        return false;
    bool damaged = txn.damaged;
    hf__txn_leave(&txn);
    return !damaged;
}

bool hf__local_fast_drop(struct hf_engine *engine, uint64_t *kept)
{
    struct local *local = (struct local *)engine;
    struct local_node *node = hf__local_node(local, local_low(*kept));
    if (node && !is_out(local, node))
        return false;
    *kept = 0;
    if (node) { /* mutant: evicted-node-is-never-used */
        local_put(&node->state, 0);
        hf__node_pool_give(local, node);
    }
    return true;
}

bool hf__local_fast_acquire(struct hf_engine *engine, struct hf_op *op, uint64_t *kept)
{
    struct local *local = (struct local *)engine;
    struct local_node *node = hf__local_node(local, local_low(*kept));
    uint64_t state = node ? atomic_load_explicit(&node->state, memory_order_acquire) : 0;
    uint32_t lock = local_state_lock(state), told_ms = local_high(*kept);
    /* mutant: owner-looks-after-waiter-that */
    bool late = told_ms && (int32_t)((uint32_t)op->in.asked_at_ms - told_ms) >= LOCAL_STALE_WAKE_MS;
    if (late || hf__local_is_removed(local, op->in.asked_at_ms))
        return false;
    if (state != local_state(lock, op->in.mode, LOCAL_PARKED, 0)) {
        if (is(state, LOCAL_EVICTED))
            hf__local_fast_drop(engine, kept);
        return false;
    }
    uint64_t floor = local_get(&local_header(local)->token_floor);
    uint64_t last = local_get(&node->token);
    op->out.token = (last > floor ? last : floor) + 1;
    hf__local_sign(node, op);
    local_put(&node->token, op->out.token);
    HF_POINT("local:unpark");
    /* mutant: what-was-parked-is-taken */
    if (!atomic_compare_exchange_strong_explicit(&node->state, &state,
                                                 local_state(lock, op->in.mode, LOCAL_HELD, 0),
                                                 memory_order_acq_rel, memory_order_relaxed))
        return false;
    HF_POINT("local:unparked");
    __atomic_store_n(&op->engine.word[0], *kept, __ATOMIC_RELAXED);
    op->out.rests_on = NULL;
    *kept = 0;
    return true;
}

static bool may_park(const struct local_node *node, uint64_t state, unsigned flags)
{
    /* mutant: lease-is-parked */
    return is(state, LOCAL_HELD) && local_state_flags(state) == flags &&
           local_is_exclusive(state) && !local_get(&node->deadline_ms);
}

static uint64_t parked(uint64_t state)
{
    return local_state(local_state_lock(state), local_state_mode(state), LOCAL_PARKED, 0);
}

static bool park_before_waiters(struct local *local, struct local_node *node, uint64_t state)
{
    struct txn txn;
    if (local_state_mode(state) != HF_MUTEX || !may_park(node, state, LOCAL_PINNED) ||
        !hf__txn_try(&txn, local, local_state_lock(state)))
        return false;
    bool parks = local_get(&node->state) == state && hf__txn_lend(&txn);
    HF_POINT("local:lend");
    if (parks)
        local_put(&node->state, parked(state));
    HF_POINT("local:lent");
    hf__txn_leave(&txn);
    return parks;
}

bool hf__local_fast_release(struct hf_engine *engine, struct hf_op *op, uint64_t *kept)
{
    struct local *local = (struct local *)engine;
    uint64_t reference = __atomic_load_n(&op->engine.word[0], __ATOMIC_RELAXED);
    struct local_node *node = hf__local_node(local, local_low(reference));
    uint64_t state = node ? local_get(&node->state) : 0;
    bool pinned = local_state_flags(state) & LOCAL_PINNED;
    if (!node || !may_park(node, state, pinned ? LOCAL_PINNED : 0))
        return false;
    if (*kept && !hf__local_fast_drop(engine, kept))
        return false;
    HF_POINT("local:park");
    if (pinned && !park_before_waiters(local, node, state))
        return false;
    if (pinned)
        reference = local_pair(local_low(reference), (uint32_t)op->in.asked_at_ms | 1);
    else if (!atomic_compare_exchange_strong_explicit(&node->state, &state, parked(state),
                                                      memory_order_acq_rel, memory_order_relaxed))
        return false;
    HF_POINT("local:parked");
    local_op_set(op, 0, 0);
    *kept = reference;
    return true;
}
