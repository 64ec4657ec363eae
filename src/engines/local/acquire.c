/* SPDX-License-Identifier: Apache-2.0 */
/* Attempt and release: what an owner has on a name is raised, and lowered. */
#include "base/clock.h"
#include "base/error.h"
#include "base/testing.h"
#include "engines/common/other_kind.h"
#include "file.h"
#include "local.h"

#include <string.h>

/* A mutex is handed over to a waiter that comes too late this time after the last hand-over. */
enum { LOOK_AGAIN_MS = 50, LOOK_AGAIN_MAX_MS = 1000, TURN_US = 250 };

static enum hf_verdict local_failed(int code)
{
    return code == HF_UNREACHABLE ? HF_NO_ANSWER : HF_FAILED;
}

static enum hf_verdict damaged(struct txn *txn, struct hf_op *op)
{
    hf__local_damaged(txn->local, &op->out.error, "a lock's lists do not fit together");
    return HF_FAILED;
}

static uint64_t op_deadline(const struct hf_op *op)
{
    return op->in.lease_ms > 0 ? (uint64_t)hf__clock_add(op->in.asked_at_ms, op->in.lease_ms) : 0;
}

static enum hf_verdict grant_node(struct local *local, struct hf_op *op, struct local_node *node)
{
    op->out.token = local_get(&node->token);
    local_op_set(op, local_reference(local, node), 0);
    return HF_GRANTED;
}

/* What is granted anew begins its lease; what is held already goes on resting on the one it has. */
static enum hf_verdict granted_anew(struct local *local, struct hf_op *op, struct local_node *node)
{
    op->out.rests_on = NULL;
    if (op->in.lease_ms > 0) {
        op->engine.own_lease.engine = &local->base;
        op->engine.own_lease.fixed = true;
        op->engine.own_lease.lease_ms = op->in.lease_ms;
        op->engine.own_lease.asked_at_ms = op->in.asked_at_ms;
        op->out.rests_on = &op->engine.own_lease;
    }
    return grant_node(local, op, node);
}

/* Counters and latches leave no node. */
static enum hf_verdict granted_and_gone(struct local *local, struct hf_op *op,
                                        struct local_node *node)
{
    local_put(&node->state, 0);
    hf__node_pool_give(local, node);
    local_op_set(op, 0, 0);
    op->engine.pointer = op->in.mode == HF_COUNTER ? LOCAL_TOOK : NULL;
    op->out.token = 0;
    op->out.rests_on = NULL;
    return HF_GRANTED;
}

static enum hf_verdict refuse_node(struct txn *txn, struct hf_op *op, struct local_node *node,
                                   bool asynchronous)
{
    uint64_t waited_ms = (uint64_t)op->in.asked_at_ms - node->since_ms;
    int64_t again_ms = waited_ms > LOOK_AGAIN_MAX_MS ? LOOK_AGAIN_MAX_MS : (int64_t)waited_ms;
    if (again_ms < LOOK_AGAIN_MS)
        again_ms = LOOK_AGAIN_MS;
    int64_t deadline_ms = hf__txn_next_deadline(txn);
    op->out.retry_at_ms = op->in.asked_at_ms + again_ms;
    if (deadline_ms < op->out.retry_at_ms)
        op->out.retry_at_ms = deadline_ms;
    uint64_t state = local_get(&node->state);
    unsigned flags = local_state_flags(state) & ~LOCAL_ASYNCHRONOUS;
    local_put(&node->state,
              local_with_flags(state, flags | (asynchronous ? LOCAL_ASYNCHRONOUS : 0)));
    local_op_set(op, local_reference(txn->local, node), atomic_load(&node->futex) & ~1u);
    return HF_REFUSED;
}

/* ---- the first question ---- */

static int admit_permits(struct txn *txn, struct hf_op *op)
{
    uint64_t numbers = local_get(&txn->lock->numbers);
    uint32_t total = local_high(numbers);
    if (!total && !op->in.limit) {
        hf__explain(&op->out.error, HF_EKIND, 0,
                    "\"%.200s\" does not exist; set how many permits it has, or name a limit",
                    op->in.name);
        return HF_EKIND;
    }
    if (total && op->in.limit && total != op->in.limit) {
        hf__explain(&op->out.error, HF_EKIND, 0, "\"%.200s\" has %u permit%s, not %u", op->in.name,
                    total, hf__plural(total), op->in.limit);
        return HF_EKIND;
    }
    uint32_t most = total ? total : op->in.limit;
    if (op->in.permits > most) {
        hf__explain(&op->out.error, HF_EINVAL, 0,
                    "\"%.200s\" has %u permit%s: %u can never be had; ask for fewer", op->in.name,
                    most, hf__plural(most), op->in.permits);
        return HF_EINVAL;
    }
    if (!total)
        local_put(&txn->lock->numbers, local_pair(local_low(numbers), op->in.limit));
    return HF_OK;
}

/* Is the name what the question takes it for? What is idle becomes that. */
static int admit(struct txn *txn, struct hf_op *op)
{
    hf_kind kind = hf__mode_kind(op->in.mode);
    if (hf__txn_kind(txn) != kind) {
        if (hf__txn_in_use(txn)) {
            hf__txn_reap(txn);
            hf__txn_pump(txn);
        }
        if (hf__txn_in_use(txn))
            return hf__refuse_other_kind(&op->out.error, op->in.name, hf__txn_kind(txn), kind);
        local_put(&txn->lock->numbers, 0);
        local_put(&txn->lock->shape, local_pair((uint32_t)kind, 0));
        HF_POINT("local:kind");
    }
    return kind == HF_KIND_SEMAPHORE ? admit_permits(txn, op) : HF_OK;
}

/* Only a mutex may be taken past its waiters. */
static bool its_turn(struct txn *txn, const struct hf_op *op)
{
    /* mutant: newcomers-overtake-those-owner */
    return (op->in.mode == HF_MUTEX || !local_get(&txn->lock->waiters)) &&
           hf__txn_may_grant(txn, op->in.mode, op->in.permits);
}

void hf__local_sign(struct local_node *node, const struct hf_op *op)
{
    const char *text = op->in.owner_text ? op->in.owner_text : "";
    size_t length = strnlen(text, sizeof(node->text) - 1);
    node->since_ms = (uint64_t)op->in.asked_at_ms;
    node->permits = op->in.permits;
    node->owner = op->in.owner;
    memcpy(node->text, text, length);
    node->text[length] = 0;
}

static void prepare(struct txn *txn, struct hf_op *op, struct local_node *node)
{
    local_put(&node->state, local_state(txn->reference, op->in.mode, LOCAL_FREE, 0));
    local_put(&node->deadline_ms, 0);
    local_put(&node->token, 0);
    hf__local_sign(node, op);
    HF_POINT("local:prepared");
}

static void enqueue(struct txn *txn, struct hf_op *op, struct local_node *node)
{
    if (!local_get(&txn->lock->waiters))
        local_put(&txn->lock->turn_us, (uint64_t)hf__clock_us());
    hf__wait_list_append(txn, &txn->lock->waiters, node);
    hf__txn_set(txn, &node->state, local_state(txn->reference, op->in.mode, LOCAL_WAITING, 0));
    hf__txn_commit(txn);
}

static enum hf_verdict grant_own(struct txn *txn, struct hf_op *op, struct local_node *node)
{
    hf__txn_grant(txn, node, op->in.mode, op_deadline(op), 0);
    if (txn->damaged)
        return damaged(txn, op);
    return op->in.mode == HF_COUNTER || op->in.mode == HF_LATCH
               ? granted_and_gone(txn->local, op, node)
               : granted_anew(txn->local, op, node);
}

/* The client's token_floor: each later grant of the name, by any process, counts on from there. It
 * only rises, so a crash behind it does no harm. */
static void raise_to_floor(struct txn *txn)
{
    uint64_t floor = txn->local->base.host->token_floor;
    if (floor && local_get(&txn->lock->token) <= floor)
        local_put(&txn->lock->token, floor + 1);
}

/* *used: the node is the op's from here on. */
static enum hf_verdict ask_inside(struct txn *txn, struct hf_op *op, struct local_node *node,
                                  bool asynchronous, bool *used)
{
    *used = true;
    op->out.rests_on = NULL;
    prepare(txn, op, node);
    int code = admit(txn, op);
    if (code == HF_OK)
        raise_to_floor(txn);
    if (code == HF_OK && !its_turn(txn, op)) {
        hf__txn_reap(txn);
        hf__txn_pump(txn);
    }
    bool now = code == HF_OK && !txn->damaged && its_turn(txn, op);
    if (now) /* mutant: bare-try-is-granted-though */
        return grant_own(txn, op, node);
    if (code == HF_OK && !txn->damaged && op->in.enqueue)
        enqueue(txn, op, node);
    if (code == HF_OK && !txn->damaged) {
        enum hf_verdict verdict = refuse_node(txn, op, node, asynchronous);
        *used = op->in.enqueue;
        return verdict;
    }
    *used = false;
    return code ? HF_FAILED : damaged(txn, op);
}

static enum hf_verdict ask_first(struct local *local, struct hf_op *op, bool asynchronous)
{
    int code = HF_OK;
    bool used = false;
    struct txn txn;
    struct local_node *node = hf__node_pool_take(local, &op->out.error, &code);
    if (!node)
        return local_failed(code);
    code = hf__txn_name(&txn, local, op->in.name, op->in.name_length, op->in.name_hash, true,
                        &op->out.error);
    enum hf_verdict verdict = local_failed(code);
    if (code == HF_OK) {
        verdict = ask_inside(&txn, op, node, asynchronous, &used);
        hf__txn_leave(&txn);
    }
    if (!used) {
        local_op_set(op, 0, 0);
        local_put(&node->state, 0);
        hf__node_pool_give(local, node);
    }
    return verdict;
}

/* ---- asking again ---- */

static enum hf_verdict ask_waiting(struct txn *txn, struct hf_op *op, struct local_node *node,
                                   bool asynchronous)
{
    bool barges = op->in.mode == HF_MUTEX;
    bool told = local_state_flags(local_get(&node->state)) & LOCAL_WOKEN;
    /* Others lived when a waiter was told; one that sleeps for long looks at them then. */
    if (!told && (!barges || local_get(&txn->lock->holders))) {
        hf__txn_reap(txn);
        if (local_state_state(local_get(&node->state)) == LOCAL_WAITING)
            hf__txn_reap_before(txn, node);
        hf__txn_pump(txn);
    }
    uint64_t state = local_get(&node->state);
    if (local_state_state(state) != LOCAL_WAITING || txn->damaged)
        return HF_REFUSED;
    if (barges && !local_get(&txn->lock->holders))
        return grant_own(txn, op, node);
    unsigned flags = local_state_flags(state);
    if (flags & LOCAL_WOKEN) {
        flags &= ~LOCAL_WOKEN;
        if (hf__clock_us() - (int64_t)local_get(&txn->lock->turn_us) >= TURN_US)
            flags |= LOCAL_DUE;
        local_put(&node->state, local_with_flags(state, flags));
    }
    return refuse_node(txn, op, node, asynchronous);
}

static enum hf_verdict ask_upgrade(struct txn *txn, struct hf_op *op, struct local_node *node,
                                   bool asynchronous)
{
    uint64_t deadline_ms = local_get(&node->deadline_ms);
    bool over = deadline_ms && (int64_t)deadline_ms <= hf__txn_now(txn);
    bool raised = !over && hf__txn_raise(txn, node);
    if (!raised) {
        hf__txn_reap(txn);
        raised =
            local_state_state(local_get(&node->state)) == LOCAL_HELD && hf__txn_raise(txn, node);
    }
    uint64_t state = local_get(&node->state);
    if (raised || txn->damaged || local_state_state(state) != LOCAL_HELD)
        return raised ? grant_node(txn->local, op, node) : HF_REFUSED;
    if (op->in.enqueue)
        local_put(&node->state, local_with_flags(state, local_state_flags(state) | LOCAL_PENDING));
    HF_POINT("local:pending");
    return refuse_node(txn, op, node, asynchronous);
}

static enum hf_verdict ask_held(struct txn *txn, struct hf_op *op, struct local_node *node,
                                bool asynchronous)
{
    uint64_t state = local_get(&node->state);
    if (op->in.mode == HF_WRITE && local_state_mode(state) == HF_UPGRADE)
        return ask_upgrade(txn, op, node, asynchronous);
    if (!(local_state_flags(state) & LOCAL_OFFERED))
        return grant_node(txn->local, op, node);
    local_put(&node->deadline_ms, op_deadline(op)); /* mutant: offer-that-was-fetched-lapses */
    local_put(&node->state, local_with_flags(state, 0));
    HF_POINT("local:accepted");
    return granted_anew(txn->local, op, node);
}

/* What had been offered was broken before it was fetched, or the semaphore has become too small:
 * nothing was lost, the wait begins anew. */
static enum hf_verdict ask_lost(struct local *local, struct hf_op *op, struct local_node *node,
                                bool asynchronous)
{
    bool offered = local_state_flags(local_get(&node->state)) & LOCAL_OFFERED;
    if (!offered) {
        op->out.lost = true;
        hf__explain(&op->out.error, HF_LOST, 0,
                    "'%.80s' has been lost: its lease ran out, or it was "
                    "broken",
                    op->in.name);
        return HF_FAILED;
    }
    local_op_set(op, 0, 0);
    local_put(&node->state, 0);
    hf__node_pool_give(local, node);
    return ask_first(local, op, asynchronous);
}

/* What an op that was asked about may find its node in. Any other state is damage; to ask again
 * would change nothing. */
static void check_state(struct txn *txn, const struct local_node *node)
{
    unsigned state = local_state_state(local_get(&node->state));
    if (state != LOCAL_WAITING && state != LOCAL_HELD && state != LOCAL_TAKEN &&
        state != LOCAL_LOST)
        txn->damaged = true;
}

static enum hf_verdict local_ask_again(struct local *local, struct hf_op *op,
                                       struct local_node *node, bool asynchronous)
{
    struct txn txn;
    int code =
        hf__txn_enter(&txn, local, local_state_lock(local_get(&node->state)), &op->out.error);
    if (code)
        return local_failed(code);
    txn.name = op->in.name;
    enum hf_verdict verdict = HF_REFUSED;
    if (local_state_state(local_get(&node->state)) == LOCAL_WAITING)
        verdict = ask_waiting(&txn, op, node, asynchronous);
    if (verdict != HF_GRANTED) /* mutant: node-state-that-cannot */
        check_state(&txn, node);
    /* Looking may have changed it: it was granted, or found expired. */
    unsigned state = local_state_state(local_get(&node->state));
    bool lost = state == LOCAL_LOST;
    if (verdict != HF_GRANTED && !txn.damaged) {
        if (state == LOCAL_HELD)
            verdict = ask_held(&txn, op, node, asynchronous);
        else if (state == LOCAL_TAKEN)
            verdict = granted_and_gone(local, op, node);
        lost = verdict != HF_GRANTED && local_state_state(local_get(&node->state)) == LOCAL_LOST;
    }
    if (txn.damaged)
        verdict = damaged(&txn, op);
    hf__txn_leave(&txn);
    return lost ? ask_lost(local, op, node, asynchronous) : verdict;
}

/* ---- taking over what another process left ---- */

static struct local_node *find_detached(struct txn *txn, const char *key)
{
    uint64_t id[2], owner;
    if (!hf__local_key_parse(key, id, &owner))
        return NULL;
    struct local_node *node = hf__wait_list_first(txn, &txn->lock->holders);
    for (; node; node = hf__wait_list_next(txn, node)) {
        if (local_state_mode(local_get(&node->state)) > HF_PERMIT)
            txn->damaged = true;
        else if (local_get(&node->session) == LOCAL_DETACHED && node->id[0] == id[0] &&
                 node->id[1] == id[1] && node->owner == owner)
            return node;
    }
    return NULL;
}

static enum hf_verdict attach(struct local *local, struct hf_op *op)
{
    struct txn txn;
    int code = hf__txn_name(&txn, local, op->in.name, op->in.name_length, op->in.name_hash, false,
                            &op->out.error);
    if (code)
        return local_failed(code);
    struct local_node *node = NULL;
    if (txn.lock) {
        hf__txn_reap(&txn);
        hf__txn_pump(&txn);
        node = find_detached(&txn, op->in.attach_key);
        if (node) {
            op->in.mode = local_state_mode(local_get(&node->state));
            op->in.permits = node->permits;
            op->in.lease_ms = (int64_t)local_get(&node->deadline_ms) - op->in.asked_at_ms;
            local_put(&node->session, local->session);
            atomic_fetch_add(&local->nodes, 1);
            HF_POINT("local:attached");
        }
        hf__txn_leave(&txn);
    }
    if (node)
        return granted_anew(local, op, node);
    op->out.lost = true;
    return HF_FAILED;
}

enum hf_verdict hf__local_attempt(struct local *local, struct hf_op *op, bool asynchronous)
{
    uint32_t reference = local_op_node(op);
    struct local_node *node = hf__local_node(local, reference);
    if (hf__local_is_removed(local, op->in.asked_at_ms)) {
        hf__local_explain_removed(local, &op->out.error);
        return op->out.verdict = HF_FAILED;
    }
    enum hf_verdict verdict = node                ? local_ask_again(local, op, node, asynchronous)
                              : op->in.attach_key ? attach(local, op)
                                                  : ask_first(local, op, asynchronous);
    op->out.verdict = verdict;
    return verdict;
}
