/* SPDX-License-Identifier: Apache-2.0 */
/* Which claims may be held together, and what a grant changes. A lock's `numbers` are, by kind:
 *   semaphore  value: permits that are taken   total: permits in all
 *   counter    value: its value                total: 1 if it exists
 *   latch      value: its count                total: 0
 *   rate       both are one number: when its whole burst is there again, in microseconds */
#include "base/clock.h"
#include "file.h"
#include "local.h"

hf_kind hf__mode_kind(hf_mode mode)
{
    static const hf_kind kinds[] = {
        [HF_MUTEX] = HF_KIND_MUTEX,     [HF_FAIR] = HF_KIND_FAIR,   [HF_READ] = HF_KIND_RW,
        [HF_UPGRADE] = HF_KIND_RW,      [HF_WRITE] = HF_KIND_RW,    [HF_PERMIT] = HF_KIND_SEMAPHORE,
        [HF_COUNTER] = HF_KIND_COUNTER, [HF_LATCH] = HF_KIND_LATCH,
    };
    return (unsigned)mode < sizeof(kinds) / sizeof(kinds[0]) ? kinds[mode] : HF_KIND_FREE;
}

hf_kind hf__txn_kind(const struct txn *txn)
{
    uint32_t kind = local_low(local_get(&txn->lock->shape));
    return kind <= HF_KIND_RATE ? (hf_kind)kind : HF_KIND_FREE;
}

bool hf__txn_in_use(const struct txn *txn)
{
    const struct local_lock *lock = txn->lock;
    uint64_t numbers = local_get(&lock->numbers);
    hf_kind kind = hf__txn_kind(txn);
    if (local_get(&lock->holders) || local_get(&lock->waiters))
        return true;
    if (kind == HF_KIND_LATCH)
        return local_low(numbers) > 0;
    if (kind == HF_KIND_RATE)
        return (int64_t)numbers > hf__clock_us();
    return (kind == HF_KIND_SEMAPHORE || kind == HF_KIND_COUNTER) && local_high(numbers) > 0;
}

static struct local_node *strong_holder(struct txn *txn)
{
    uint32_t reference = local_high(local_get(&txn->lock->shape));
    return reference ? hf__txn_node(txn, reference) : NULL;
}

/* Readers share with an UPGRADE that has not asked for more. */
static bool may_read(struct txn *txn)
{
    struct local_node *strong = strong_holder(txn);
    if (!strong)
        return !txn->damaged;
    uint64_t state = local_get(&strong->state);
    /* mutant: new-readers-come-while-upgrade */
    return local_state_mode(state) == HF_UPGRADE && !(local_state_flags(state) & LOCAL_PENDING);
}

bool hf__txn_may_grant(struct txn *txn, hf_mode mode, uint32_t permits)
{
    const struct local_lock *lock = txn->lock;
    uint64_t numbers = local_get(&lock->numbers);
    switch (mode) {
    case HF_MUTEX:
    case HF_FAIR:
    case HF_LEADER: /* as HF_FAIR by then */
    case HF_WRITE:  /* mutant: writer-does-not-mind-readers */
        return !local_get(&lock->holders);
    case HF_READ:
        return may_read(txn);
    case HF_UPGRADE:
        return !local_high(local_get(&lock->shape)); /* mutant: second-upgrader-is-let-in */
    case HF_PERMIT:
        return (uint64_t)local_low(numbers) + permits <= local_high(numbers);
    case HF_COUNTER:
        return local_low(numbers) >= permits;
    case HF_LATCH:
        return local_low(numbers) == 0;
    }
    return false;
}

/* ---- tokens ---- */

void hf__local_raise_floor(struct local *local, uint64_t token)
{
    _Atomic uint64_t *floor = &local_header(local)->token_floor;
    uint64_t before = local_get(floor);
    /* No clock gets so far: the file is damaged there, and a floor of it would stop all tokens. */
    if (token > INT64_MAX)
        return;
    while (before < token && !atomic_compare_exchange_weak(floor, &before, token))
        continue;
}

/* Tokens follow the clock in sixteenths of a microsecond since 2025: a name cannot be granted often
 * enough for them to run ahead of it, and a program that keeps numbers as doubles holds them
 * exactly until 2042. */
#define TICKS 16000000u
#define TICKS_SINCE 1735689600 /* 2025-01-01T00:00:00Z */

void hf__local_raise_floor_to_clock(struct local *local)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec > TICKS_SINCE)
        hf__local_raise_floor(local, (uint64_t)(now.tv_sec - TICKS_SINCE) * TICKS +
                                         (uint64_t)now.tv_nsec * (TICKS / 1000000) / 1000);
}

/* Larger than any token of this name, of any name that was forgotten, and of any earlier file: the
 * floor has been the clock, in ticks, when a client last opened this one, and no name is granted
 * more often than once a tick for long. */
static uint64_t next_token(struct txn *txn)
{
    uint64_t floor = local_get(&local_header(txn->local)->token_floor);
    uint64_t token = local_get(&txn->lock->token);
    return (token > floor ? token : floor) + 1; /* mutant: tokens-of-new-names-begin */
}

/* The token that a grant carries. */
static uint64_t raise_token(struct txn *txn, bool exclusive)
{
    uint64_t token = local_get(&txn->lock->token);
    if (exclusive || !token) { /* mutant: grant-does-not-raise-token */
        token = next_token(txn);
        hf__txn_set(txn, &txn->lock->token, token);
    }
    return token;
}

/* ---- changes ---- */

static void set_value(struct txn *txn, uint32_t value)
{
    uint64_t numbers = local_get(&txn->lock->numbers);
    hf__txn_set(txn, &txn->lock->numbers, local_pair(value, local_high(numbers)));
}

static uint32_t value_of(const struct txn *txn)
{
    return local_low(local_get(&txn->lock->numbers));
}

static void set_strong(struct txn *txn, uint32_t reference)
{
    uint32_t kind = local_low(local_get(&txn->lock->shape));
    hf__txn_set(txn, &txn->lock->shape, local_pair(kind, reference));
}

static void hold(struct txn *txn, struct local_node *node, hf_mode mode)
{
    hf__wait_list_append(txn, &txn->lock->holders, node);
    if (mode == HF_UPGRADE || mode == HF_WRITE)
        set_strong(txn, local_reference(txn->local, node));
    if (mode == HF_PERMIT)
        set_value(txn, value_of(txn) + node->permits);
    /* Undone with the rest, it means nothing again. */
    local_put(&node->token, raise_token(txn, mode != HF_READ && mode != HF_UPGRADE));
}

void hf__txn_grant(struct txn *txn, struct local_node *node, hf_mode mode, uint64_t deadline_ms,
                   unsigned flags)
{
    uint64_t state = local_get(&node->state);
    bool waiting = local_state_state(state) == LOCAL_WAITING;
    bool takes = mode == HF_COUNTER || mode == HF_LATCH;
    if (waiting)
        hf__wait_list_remove(txn, &txn->lock->waiters, node);
    if (mode == HF_COUNTER)
        set_value(txn, value_of(txn) - node->permits);
    if (!takes)
        hold(txn, node, mode);
    local_put(&node->deadline_ms, deadline_ms);
    hf__txn_set(txn, &node->state,
                local_state(txn->reference, mode, takes ? LOCAL_TAKEN : LOCAL_HELD, flags));
    hf__txn_commit(txn);
}

bool hf__txn_raise(struct txn *txn, struct local_node *node)
{
    uint32_t reference = local_reference(txn->local, node);
    /* mutant: upgrade-does-not-wait */
    if (local_get(&txn->lock->holders) != local_pair(reference, reference))
        return false;
    hf__txn_set(txn, &node->token, raise_token(txn, true));
    unsigned flags = local_state_flags(local_get(&node->state)) & LOCAL_ASYNCHRONOUS;
    hf__txn_set(txn, &node->state, local_state(txn->reference, HF_WRITE, LOCAL_HELD, flags));
    hf__txn_commit(txn);
    return !txn->damaged;
}

void hf__txn_drop(struct txn *txn, struct local_node *node, enum local_state state, unsigned flags)
{
    unsigned mode = local_state_mode(local_get(&node->state));
    uint32_t taken = value_of(txn);
    hf__wait_list_remove(txn, &txn->lock->holders, node);
    if (local_high(local_get(&txn->lock->shape)) == local_reference(txn->local, node))
        set_strong(txn, 0);
    if (mode == HF_PERMIT)
        /* mutant: permits-are-not-counted-back */
        set_value(txn, taken > node->permits ? taken - node->permits : 0);
    if (state == LOCAL_WAITING)
        hf__wait_list_append(txn, &txn->lock->waiters, node);
    hf__txn_set(txn, &node->state, local_state(txn->reference, mode, state, flags));
    hf__txn_commit(txn);
}

/* The node is its owner's to reuse once it says that it is out, so it must not say so before there
 * is nothing left to undo. */
void hf__txn_evict(struct txn *txn, struct local_node *node)
{
    hf__wait_list_remove(txn, &txn->lock->holders, node);
    if (local_high(local_get(&txn->lock->shape)) == local_reference(txn->local, node))
        set_strong(txn, 0);
    hf__txn_commit(txn); /* mutant: parked-node-says */
    uint64_t state = local_get(&node->state);
    if (!txn->damaged)
        local_put(&node->state,
                  local_state(txn->reference, local_state_mode(state), LOCAL_EVICTED, 0));
}

void hf__txn_leave_queue(struct txn *txn, struct local_node *node, enum local_state state,
                         unsigned flags)
{
    unsigned mode = local_state_mode(local_get(&node->state));
    hf__wait_list_remove(txn, &txn->lock->waiters, node); /* mutant: place-in-queue-stays */
    /* mutant: owner-leaves-queue */
    hf__txn_set(txn, &node->state, local_state(txn->reference, mode, state, flags));
    hf__txn_commit(txn);
}

void hf__txn_lower(struct txn *txn, struct local_node *node, hf_mode mode)
{
    unsigned flags = local_state_flags(local_get(&node->state)) & LOCAL_ASYNCHRONOUS;
    if (mode == HF_READ)
        set_strong(txn, 0);
    hf__txn_set(txn, &node->state, local_state(txn->reference, mode, LOCAL_HELD, flags));
    hf__txn_commit(txn);
}
