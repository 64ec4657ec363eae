/* SPDX-License-Identifier: Apache-2.0 */
/* Locks that nobody else wants, past the guard. Who gives such a lock back leaves its node in the
 * holders, *parked*: one exchange of the node's state word, and one more takes it again. To all
 * others a parked node means that the lock is free; each transaction on the lock takes it out
 * first.
 *
 *        HELD  <---- take, leave: the owner, outside the guard ---->  PARKED
 *          |                                                             |
 *          | pin, unpin: a visitor, inside                               | pin: a visitor
 *          v                                                             v
 *        HELD, PINNED                                         PARKED, PINNED ---> EVICTED
 *
 * The state word decides between the owner and the visitor, since both exchange it: a pinned node
 * is changed inside the guard only. It stays pinned as long as somebody waits, so that giving the
 * lock back goes through the guard, where the next one is told. */
#include "base/testing.h"
#include "local.h"

static bool is_exclusive(uint64_t state)
{
    unsigned mode = local_state_mode(state);
    return mode == HF_MUTEX || mode == HF_FAIR || mode == HF_WRITE;
}

static bool is(uint64_t state, enum local_state what)
{
    return local_state_state(state) == what;
}

/* The only one in the holders, if it is one that may go past the guard. */
static struct local_node *exclusive_holder(struct local *local, const struct local_lock *lock)
{
    uint64_t holders = local_get(&lock->holders);
    if (!holders || local_low(holders) != local_high(holders))
        return NULL;
    struct local_node *node = hf__local_node(local, local_low(holders));
    return node && is_exclusive(local_get(&node->state)) ? node : NULL;
}

bool hf__local_seems_free(struct local *local, const struct local_lock *lock)
{
    const struct local_node *node = exclusive_holder(local, lock);
    bool parked = node && is(local_get(&node->state), LOCAL_PARKED);
    return !local_get(&lock->waiters) && (parked || !local_get(&lock->holders));
}

void hf__txn_pin(struct txn *txn)
{
    struct local_node *node = exclusive_holder(txn->local, txn->lock);
    if (!node)
        return;
    uint64_t state = atomic_load_explicit(&node->state, memory_order_acquire), pinned;
    do {
        if (!is(state, LOCAL_HELD) && !is(state, LOCAL_PARKED)) /* mutant: holder-past-guard */
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
    if (is(pinned, LOCAL_PARKED)) /* mutant: what-is-parked-passes-for-held */
        hf__txn_evict(txn, node);
}

void hf__txn_unpin(struct txn *txn)
{
    struct local_node *node = exclusive_holder(txn->local, txn->lock);
    if (!node)
        return;
    uint64_t state = local_get(&node->state);
    unsigned flags = local_state_flags(state) & ~LOCAL_PINNED;
    if (local_get(&txn->lock->waiters)) /* mutant: holder-is-unpinned-though */
        flags |= LOCAL_PINNED;
    if (is(state, LOCAL_HELD) && flags != local_state_flags(state))
        local_put(&node->state, local_with_flags(state, flags));
}

/* ---- the owner ---- */

static struct local_node *kept_node(struct local *local, uint64_t kept)
{
    return kept ? hf__local_node(local, (uint32_t)kept) : NULL;
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
    struct local_node *node = kept_node(local, *kept);
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
    struct local_node *node = kept_node(local, *kept);
    uint64_t state = node ? atomic_load_explicit(&node->state, memory_order_acquire) : 0;
    uint32_t lock = local_state_lock(state);
    if (hf__local_is_removed(local, op->in.asked_at_ms))
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
    local_op_set(op, (uint32_t)*kept, 0);
    op->out.rests_on = NULL;
    *kept = 0;
    return true;
}

bool hf__local_fast_release(struct hf_engine *engine, struct hf_op *op, uint64_t *kept)
{
    struct local *local = (struct local *)engine;
    uint32_t reference = local_op_node(op);
    struct local_node *node = reference ? hf__local_node(local, reference) : NULL;
    uint64_t state = node ? local_get(&node->state) : 0;
    /* mutant: lease-is-parked */
    if (!is(state, LOCAL_HELD) || local_state_flags(state) || !is_exclusive(state) ||
        local_get(&node->deadline_ms))
        return false;
    if (*kept && !hf__local_fast_drop(engine, kept))
        return false;
    uint64_t parked =
        local_state(local_state_lock(state), local_state_mode(state), LOCAL_PARKED, 0);
    HF_POINT("local:park");
    if (!atomic_compare_exchange_strong_explicit(&node->state, &state, parked, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return false;
    HF_POINT("local:parked");
    local_op_set(op, 0, 0);
    *kept = reference;
    return true;
}
