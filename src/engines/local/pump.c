/* SPDX-License-Identifier: Apache-2.0 */
/* What is due is given, and what is dead is cleared away, by whoever comes by. "Free, with waiters"
 * is a legal state of a lock, so each grant is a transaction of its own. */
#include "base/testing.h"
#include "local.h"

#include <string.h>

enum {
    OFFER_MS = 1000,   /* an offer that nobody fetched for so long goes to the next */
    STALE_WAKE_MS = 5, /* who was woken so long ago and has not come may have been stopped */
    ANNOUNCE_MOST = 16,
    DEADLINES_MOST = 64
};

/* The event comes when the guard has been left, and the lock may have another name. */
static void remember_name(struct visit *visit)
{
    uint32_t length;
    const char *bytes = hf__visit_name_bytes(visit, &length);
    if (!bytes)
        return;
    memcpy(visit->name_copy, bytes, length);
    visit->name_copy[length] = 0;
    visit->name = visit->name_copy;
}

void hf__visit_clear(struct visit *visit, struct local_node *node)
{
    uint64_t state = local_get(&node->state), session = local_get(&node->session);
    /* A detached one is ours until it is gone: nobody would look for it if we died in here. */
    if (session == LOCAL_DETACHED)
        local_put(&node->session, session = visit->local->session);
    if (local_state_state(state) == LOCAL_HELD) {
        visit->took_over = true;
        visit->took_over_token = local_get(&node->token);
        if (!visit->name && hf__host_wants_events(visit->local->base.host))
            remember_name(visit);
        hf__visit_drop(visit, node, LOCAL_FREE, 0);
    } else if (local_state_state(state) == LOCAL_WAITING) {
        hf__visit_leave_queue(visit, node, LOCAL_FREE, 0);
    }
    HF_POINT("local:clear");
    if (!visit->damaged)
        atomic_compare_exchange_strong(&node->session, &session, 0);
}

static bool cleared_if_dead(struct visit *visit, struct local_node *node)
{
    if (hf__local_alive(visit->local, local_get(&node->session)))
        return false;
    hf__visit_clear(visit, node);
    return true;
}

static void offer(struct visit *visit, struct local_node *node)
{
    int64_t now_ms = hf__visit_now(visit);
    hf_mode mode = local_state_mode(local_get(&node->state));
    unsigned flags = local_state_flags(local_get(&node->state)) & LOCAL_ASYNCHRONOUS;
    node->since_ms = (uint64_t)now_ms;
    hf__visit_grant(visit, node, mode, (uint64_t)now_ms + OFFER_MS, flags | LOCAL_OFFERED);
    HF_POINT("local:offered");
    if (!visit->damaged)
        hf__visit_wake(visit, node);
}

/* Twice: the mutex is handed to it, and nobody barges. */
static bool came_too_late(uint64_t state)
{
    return (local_state_flags(state) & LOCAL_LOSSES) >= 2 * LOCAL_LOSS;
}

/* A mutex barges: it is not given to a waiter, one is told that it is free. Those who were told and
 * have not come yet are passed over for a while, those who seem stopped for good. */
static void announce(struct visit *visit)
{
    struct local_node *node = hf__queue_first(visit, &visit->lock->waiters), *next;
    int64_t now_ms = hf__visit_now(visit);
    for (unsigned seen = 0; node && seen < ANNOUNCE_MOST; node = next, seen++) {
        next = hf__queue_next(visit, node);
        if (cleared_if_dead(visit, node))
            continue;
        uint64_t state = local_get(&node->state);
        unsigned flags = local_state_flags(state);
        uint64_t woken_ms = local_get(&node->deadline_ms);
        if (flags & LOCAL_WOKEN && (uint64_t)now_ms - woken_ms < STALE_WAKE_MS)
            return;
        if (flags & LOCAL_WOKEN && next)
            continue;
        if (came_too_late(state)) {
            offer(visit, node);
            return;
        }
        local_put(&node->deadline_ms, (uint64_t)now_ms);
        local_put(&node->state, local_with_flags(state, flags | LOCAL_WOKEN));
        HF_POINT("local:announced");
        hf__visit_wake(visit, node);
        return;
    }
}

static bool pump_upgrade(struct visit *visit)
{
    uint32_t strong = local_high(local_get(&visit->lock->shape));
    struct local_node *node = strong ? hf__visit_node(visit, strong) : NULL;
    if (!node || !(local_state_flags(local_get(&node->state)) & LOCAL_PENDING))
        return false;
    if (hf__visit_raise(visit, node)) {
        HF_POINT("local:raised");
        hf__visit_wake(visit, node);
    }
    return true;
}

/* One step; false: nothing more is due. */
static bool pump_one(struct visit *visit)
{
    struct local_node *node = hf__queue_first(visit, &visit->lock->waiters);
    if (!node)
        return false;
    uint64_t state = local_get(&node->state);
    hf_mode mode = local_state_mode(state);
    if (!hf__visit_may_grant(visit, mode, node->permits))
        return false;
    if (cleared_if_dead(visit, node))
        return true;
    if (mode == HF_MUTEX && !came_too_late(state)) {
        announce(visit);
        return false;
    }
    offer(visit, node);
    return true;
}

void hf__visit_pump(struct visit *visit)
{
    if (local_high(local_get(&visit->lock->shape)) && pump_upgrade(visit))
        return;
    while (!visit->damaged && local_get(&visit->lock->waiters) && pump_one(visit))
        continue;
}

void hf__visit_turn_away(struct visit *visit, uint32_t total)
{
    struct local_node *node = hf__queue_first(visit, &visit->lock->waiters), *next;
    for (; node; node = next) {
        next = hf__queue_next(visit, node);
        if (node->permits <= total)
            continue;
        unsigned flags = local_state_flags(local_get(&node->state)) & LOCAL_ASYNCHRONOUS;
        hf__visit_leave_queue(visit, node, LOCAL_LOST, flags | LOCAL_OFFERED);
        HF_POINT("local:turned_away");
        if (!visit->damaged)
            hf__visit_wake(visit, node);
    }
}

/* Past its deadline: an offer goes back to the queue's end, a detached hold goes for good, and of
 * any other the owner has yet to hear. */
static void expire(struct visit *visit, struct local_node *node)
{
    uint64_t state = local_get(&node->state);
    unsigned flags = local_state_flags(state);
    if (local_get(&node->session) == LOCAL_DETACHED)
        hf__visit_clear(visit, node);
    else if (flags & LOCAL_OFFERED)
        hf__visit_drop(visit, node, LOCAL_WAITING, flags & LOCAL_ASYNCHRONOUS);
    else
        hf__visit_drop(visit, node, LOCAL_LOST, 0);
}

void hf__visit_reap(struct visit *visit)
{
    struct local_node *node = hf__queue_first(visit, &visit->lock->holders), *next;
    uint64_t alive = visit->local->session;
    for (; node; node = next) {
        next = hf__queue_next(visit, node);
        uint64_t deadline_ms = local_get(&node->deadline_ms);
        uint64_t session = local_get(&node->session);
        if (session != alive && cleared_if_dead(visit, node))
            continue;
        alive = session;
        if (deadline_ms && (int64_t)deadline_ms <= hf__visit_now(visit))
            expire(visit, node);
    }
    /* A dead waiter at the head may ask for more than is free for long. */
    while ((node = hf__queue_first(visit, &visit->lock->waiters)) != NULL)
        if (!cleared_if_dead(visit, node))
            break;
}

void hf__visit_reap_before(struct visit *visit, const struct local_node *own)
{
    uint32_t previous = local_high(local_get(&own->link));
    for (unsigned i = 0; previous && i < LOCAL_WANTED; i++) {
        struct local_node *node = hf__visit_node(visit, previous);
        if (!node)
            return;
        previous = local_high(local_get(&node->link));
        cleared_if_dead(visit, node);
    }
}

int64_t hf__visit_next_deadline(struct visit *visit)
{
    int64_t earliest_ms = HF_NEVER;
    struct local_node *node = hf__queue_first(visit, &visit->lock->holders);
    for (unsigned seen = 0; node && seen < DEADLINES_MOST; seen++) {
        int64_t deadline_ms = (int64_t)local_get(&node->deadline_ms);
        if (deadline_ms > 0 && deadline_ms < earliest_ms)
            earliest_ms = deadline_ms;
        node = hf__queue_next(visit, node);
    }
    return earliest_ms;
}
