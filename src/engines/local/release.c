/* SPDX-License-Identifier: Apache-2.0 */
/* The one way out: unlocking, giving up a wait, handing back a late grant. */
#include "base/testing.h"
#include "file.h"
#include "local.h"

/* What a counter gave to a call that will never hear of it goes back. */
static void give_back(struct txn *txn, const struct hf_op *op, uint32_t units)
{
    uint64_t numbers = local_get(&txn->lock->numbers);
    uint64_t hash =
        op->in.name_hash <= LOCAL_HASH_RENAMED ? op->in.name_hash + 2 : op->in.name_hash;
    uint64_t value = (uint64_t)local_low(numbers) + units;
    if (hf__txn_kind(txn) == HF_KIND_COUNTER && local_get(&txn->lock->hash) == hash &&
        value <= UINT32_MAX)
        hf__txn_set(txn, &txn->lock->numbers, local_pair((uint32_t)value, local_high(numbers)));
}

static void local_let_go(struct txn *txn, struct hf_op *op, struct local_node *node)
{
    uint64_t state = local_get(&node->state);
    switch ((enum local_state)local_state_state(state)) {
    case LOCAL_HELD:
        hf__txn_drop(txn, node, LOCAL_FREE, 0);
        break;
    case LOCAL_WAITING:
        hf__txn_leave_queue(txn, node, LOCAL_FREE, 0);
        break;
    case LOCAL_TAKEN:
        if (local_state_mode(state) == HF_COUNTER)
            give_back(txn, op, node->permits);
        hf__txn_set(txn, &node->state,
                    local_state(txn->reference, local_state_mode(state), LOCAL_FREE, 0));
        hf__txn_commit(txn);
        break;
    case LOCAL_FREE:
    case LOCAL_LOST:
    case LOCAL_PARKED:
    case LOCAL_EVICTED:
        break;
    }
}

static void explain_loss(struct hf_op *op, uint64_t state)
{
    if (local_state_state(state) != LOCAL_LOST || local_state_flags(state) & LOCAL_OFFERED)
        return;
    op->out.lost = true;
    hf__explain(&op->out.error, HF_LOST, 0, "'%.80s' had been lost before it was released: %s",
                op->in.name,
                local_state_flags(state) & LOCAL_BROKEN ? "it was broken" : "its lease ran out");
}

static void lower_node(struct txn *txn, struct hf_op *op, struct local_node *node)
{
    uint64_t state = local_get(&node->state);
    unsigned mode = local_state_mode(state);
    bool strong = mode == HF_UPGRADE || mode == HF_WRITE;
    if (local_state_state(state) == LOCAL_HELD && strong &&
        (op->in.keep == HF_READ || op->in.keep == HF_UPGRADE))
        hf__txn_lower(txn, node, (hf_mode)op->in.keep);
}

static enum hf_verdict release_node(struct local *local, struct hf_op *op, struct local_node *node)
{
    struct txn txn;
    uint64_t state = local_get(&node->state);
    bool keeps = op->in.keep != HF_KEEP_NOTHING;
    int code = hf__txn_enter(&txn, local, local_state_lock(state), &op->out.error);
    if (code)
        return code == HF_UNREACHABLE ? HF_NO_ANSWER : HF_FAILED;
    state = local_get(&node->state);
    if (keeps)
        lower_node(&txn, op, node);
    else
        local_let_go(&txn, op, node);
    HF_POINT("local:released");
    hf__txn_pump(&txn); /* mutant: release-gives-nothing-to-those */
    bool broken = txn.damaged;
    if (broken)
        hf__local_damaged(local, &op->out.error, "a lock's lists do not fit together");
    hf__txn_leave(&txn);
    if (broken)
        return HF_FAILED;
    explain_loss(op, state);
    if (!keeps || local_state_state(state) == LOCAL_LOST) {
        local_op_set(op, 0, 0);
        local_put(&node->state, 0);
        hf__node_pool_give(local, node);
    }
    return HF_GONE;
}

/* The counter was taken from, and then it turned out that no call waits for the answer. */
static enum hf_verdict return_units(struct local *local, struct hf_op *op)
{
    struct txn txn;
    int code = hf__txn_name(&txn, local, op->in.name, op->in.name_length, op->in.name_hash, false,
                            &op->out.error);
    if (code)
        return code == HF_UNREACHABLE ? HF_NO_ANSWER : HF_FAILED;
    op->engine.pointer = NULL;
    if (txn.lock) {
        give_back(&txn, op, op->in.permits);
        hf__txn_commit(&txn);
        hf__txn_pump(&txn);
        hf__txn_leave(&txn);
    }
    return HF_GONE;
}

enum hf_verdict hf__local_release(struct local *local, struct hf_op *op)
{
    uint32_t reference = local_op_node(op);
    struct local_node *node = hf__local_node(local, reference);
    if (reference)
        hf__local_note(local, reference, NULL);
    op->out.verdict = node                               ? release_node(local, op, node)
                      : op->engine.pointer == LOCAL_TOOK ? return_units(local, op)
                                                         : HF_GONE;
    return op->out.verdict;
}
