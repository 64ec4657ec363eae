/* SPDX-License-Identifier: Apache-2.0 */
/* The one-shot verbs: semaphores, counters, latches, rate limiters, breaking, renewing, detaching.
 */
#include "base/clock.h"
#include "base/testing.h"
#include "engines/common/other_kind.h"
#include "file.h"
#include "local.h"

#include <string.h>

/* Makes an idle name `kind`; what is in use must be that already. */
static int become(struct txn *txn, struct hf_oneshot *change, hf_kind kind)
{
    if (hf__txn_kind(txn) == kind)
        return HF_OK;
    if (hf__txn_in_use(txn)) {
        hf__txn_reap(txn);
        hf__txn_pump(txn);
    }
    if (hf__txn_in_use(txn))
        return hf__refuse_other_kind(&change->error, change->name, hf__txn_kind(txn), kind);
    local_put(&txn->lock->numbers, 0);
    local_put(&txn->lock->shape, local_pair((uint32_t)kind, 0));
    HF_POINT("local:kind");
    return HF_OK;
}

/* A transaction of one word needs no journal. */
static void set_numbers(struct txn *txn, uint32_t value, uint32_t total)
{
    local_put(&txn->lock->numbers, local_pair(value, total));
    HF_POINT("local:numbers");
    hf__txn_pump(txn);
}

static uint32_t value_of(const struct txn *txn)
{
    return local_low(local_get(&txn->lock->numbers));
}

static int semaphore_set(struct txn *txn, struct hf_oneshot *change)
{
    int code = become(txn, change, HF_KIND_SEMAPHORE);
    if (code)
        return code;
    if (!change->value) {
        hf__txn_reap(txn);
        if (local_get(&txn->lock->holders))
            return HF_BUSY;
    }
    hf__txn_turn_away(txn, change->value); /* mutant: smaller-semaphore-leaves-those */
    set_numbers(txn, value_of(txn), change->value);
    return HF_OK;
}

static int counter_change(struct txn *txn, struct hf_oneshot *change)
{
    int code = become(txn, change, HF_KIND_COUNTER);
    uint64_t value = value_of(txn);
    if (code)
        return code;
    if (change->verb == HF_ONESHOT_COUNTER_REMOVE) {
        set_numbers(txn, 0, 0);
        return HF_OK;
    }
    if (change->verb == HF_ONESHOT_COUNTER_GET) {
        change->result = (uint32_t)value;
        return HF_OK;
    }
    value = change->verb == HF_ONESHOT_COUNTER_SET ? change->value : value + change->value;
    if (value > UINT32_MAX) {
        hf__explain(&change->error, HF_ELIMIT, 0,
                    "the counter \"%.200s\" would exceed %u; add less", change->name, UINT32_MAX);
        return HF_ELIMIT;
    }
    set_numbers(txn, (uint32_t)value, 1);
    change->result = value_of(txn);
    return HF_OK;
}

static int latch_change(struct txn *txn, struct hf_oneshot *change)
{
    int code = become(txn, change, HF_KIND_LATCH);
    uint32_t count = value_of(txn);
    if (code)
        return code;
    if (change->verb == HF_ONESHOT_LATCH_GET) {
        change->result = count;
        return HF_OK;
    }
    if (change->verb == HF_ONESHOT_LATCH_SET) {
        if (count)
            return HF_BUSY;
        set_numbers(txn, change->value, 0);
        return HF_OK;
    }
    change->result = count > change->value ? count - change->value : 0;
    set_numbers(txn, change->result, 0);
    return HF_OK;
}

static int rate_take(struct txn *txn, struct hf_oneshot *change)
{
    int code = become(txn, change, HF_KIND_RATE);
    int64_t now_us = hf__clock_us(), full_us = (int64_t)local_get(&txn->lock->numbers);
    if (code)
        return code;
    change->delay_us = hf__rate_delay_us(&change->rate, now_us, &full_us);
    if (change->delay_us > change->rate.wait_us)
        return HF_BUSY;
    local_put(&txn->lock->numbers, (uint64_t)full_us);
    HF_POINT("local:numbers");
    return HF_OK;
}

/* ---- breaking ---- */

static bool is_owner(const struct local_node *node, const char *key)
{
    uint64_t id[2], owner;
    return !key || (hf__local_key_parse(key, id, &owner) && node->id[0] == id[0] &&
                    node->id[1] == id[1] && node->owner == owner);
}

static void break_one(struct txn *txn, struct local_node *node)
{
    unsigned offered = local_state_flags(local_get(&node->state)) & LOCAL_OFFERED;
    if (local_get(&node->session) == LOCAL_DETACHED)
        hf__txn_clear(txn, node);
    else
        hf__txn_drop(txn, node, LOCAL_LOST, LOCAL_BROKEN | offered);
    HF_POINT("local:broken");
}

/* One round tells at most this number of sessions; *more: there are others. */
static int break_some(struct txn *txn, struct hf_oneshot *change, uint64_t told[LOCAL_WANTED],
                      unsigned *count, bool *more)
{
    struct local_node *node, *next;
    hf__txn_reap(txn);
    bool held = local_get(&txn->lock->holders) != 0;
    *count = 0;
    for (node = hf__wait_list_first(txn, &txn->lock->holders); node; node = next) {
        next = hf__wait_list_next(txn, node);
        if (!is_owner(node, change->key))
            continue;
        if (*count == LOCAL_WANTED) {
            *more = true;
            break;
        }
        told[(*count)++] = local_get(&node->session);
        break_one(txn, node);
    }
    change->result += *count;
    /* A claim that is granted now must not be broken in the next round. */
    if (!*more) /* mutant: break-takes-what-is-granted */
        hf__txn_pump(txn);
    return held && !change->result ? HF_BUSY : HF_OK;
}

static int change_break(struct local *local, struct hf_oneshot *change)
{
    uint64_t told[LOCAL_WANTED];
    int code = HF_OK;
    change->result = 0;
    for (bool more = true; more && code == HF_OK;) {
        struct txn txn;
        unsigned count = 0;
        more = false;
        code = hf__txn_name(&txn, local, change->name, change->name_length, change->name_hash,
                            false, &change->error);
        if (code || !txn.lock)
            return code;
        code = break_some(&txn, change, told, &count, &more);
        if (txn.damaged)
            code = hf__local_damaged(local, &change->error, "a lock's lists do not fit together");
        hf__txn_leave(&txn);
        for (unsigned i = 0; i < count; i++)
            hf__local_tell_recheck(local, told[i]); /* mutant: break-does-not-tell-its-victim */
    }
    return code;
}

/* ---- a hold with a lease of its own ---- */

static int renew_held(struct local_node *node, struct hf_oneshot *change)
{
    uint64_t deadline_ms = (uint64_t)hf__clock_add(change->asked_at_ms, change->lease_ms);
    if (!local_get(&node->deadline_ms)) {
        hf__explain(&change->error, HF_EINVAL, 0, "'%.80s' is held without a lease of its own",
                    change->op->in.name);
        return HF_EINVAL;
    }
    if (deadline_ms > local_get(&node->deadline_ms))
        local_put(&node->deadline_ms, deadline_ms);
    return HF_OK;
}

static int detach_held(struct local *local, struct local_node *node, struct hf_oneshot *change)
{
    if (!local_get(&node->deadline_ms)) {
        hf__explain(&change->error, HF_EINVAL, 0,
                    "'%.80s' is held without a lease of its own, so it cannot outlive its process; "
                    "lock it with lease_ms",
                    change->op->in.name);
        return HF_EINVAL;
    }
    hf__local_key(node, change->key_out);
    local_put(&node->session, LOCAL_DETACHED);
    atomic_fetch_sub(&local->nodes, 1);
    HF_POINT("local:detached");
    local_op_set(change->op, 0, 0);
    return HF_OK;
}

static int change_hold(struct local *local, struct hf_oneshot *change)
{
    uint32_t reference = local_op_node(change->op);
    struct local_node *node = hf__local_node(local, reference);
    struct txn txn;
    if (!node)
        return HF_LOST;
    int code =
        hf__txn_enter(&txn, local, local_state_lock(local_get(&node->state)), &change->error);
    if (code)
        return code;
    hf__txn_reap(&txn);
    hf__txn_pump(&txn);
    if (local_state_state(local_get(&node->state)) != LOCAL_HELD)
        code = HF_LOST;
    else if (change->verb == HF_ONESHOT_RENEW)
        code = renew_held(node, change);
    else
        code = detach_held(local, node, change);
    hf__txn_leave(&txn);
    return code;
}

/* ---- all of them ---- */

static int forget_name(struct txn *txn)
{
    if (hf__txn_in_use(txn))
        return HF_BUSY;
    hf__txn_forget(txn);
    return HF_OK;
}

static bool only_looks(const struct hf_oneshot *change)
{
    return change->verb == HF_ONESHOT_COUNTER_GET || change->verb == HF_ONESHOT_LATCH_GET ||
           change->verb == HF_ONESHOT_COUNTER_REMOVE || change->verb == HF_ONESHOT_FORGET ||
           (change->verb == HF_ONESHOT_SEMAPHORE_SET && !change->value);
}

static int change_name(struct local *local, struct hf_oneshot *change)
{
    struct txn txn;
    change->result = 0;
    int code = hf__txn_name(&txn, local, change->name, change->name_length, change->name_hash,
                            !only_looks(change), &change->error);
    if (code || !txn.lock)
        return code;
    txn.name = change->name;
    if (change->verb == HF_ONESHOT_SEMAPHORE_SET)
        code = semaphore_set(&txn, change);
    else if (change->verb == HF_ONESHOT_FORGET)
        code = forget_name(&txn);
    else if (change->verb >= HF_ONESHOT_LATCH_SET && change->verb <= HF_ONESHOT_LATCH_GET)
        code = latch_change(&txn, change);
    else if (change->verb == HF_ONESHOT_RATE_TAKE)
        code = rate_take(&txn, change);
    else
        code = counter_change(&txn, change);
    if (txn.damaged)
        code = hf__local_damaged(local, &change->error, "a lock's lists do not fit together");
    hf__txn_leave(&txn);
    return code;
}

void hf__local_change(struct hf_engine *engine, struct hf_oneshot *change)
{
    struct local *local = (struct local *)engine;
    if (hf__local_is_removed(local, hf__clock_ms()))
        change->code = hf__local_explain_removed(local, &change->error);
    else if (change->verb == HF_ONESHOT_BREAK)
        change->code = change_break(local, change);
    else if (change->verb == HF_ONESHOT_RENEW || change->verb == HF_ONESHOT_DETACH)
        change->code = change_hold(local, change);
    else
        change->code = change_name(local, change);
    hf__oneshot_done(engine, change);
}
