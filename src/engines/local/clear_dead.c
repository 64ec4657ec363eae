/* SPDX-License-Identifier: Apache-2.0 */
/* Dead holders and waiters, and holds that have expired, are cleared away by each visitor. */
#include "base/testing.h"
#include "local.h"

#include <string.h>

enum { DEADLINES_MAX = 64 };

/* The event comes when the guard has been left, and the lock may have another name. */
static void remember_name(struct txn *txn)
{
    uint32_t length;
    const char *bytes = hf__txn_name_bytes(txn, &length);
    if (!bytes)
        return;
    memcpy(txn->name_copy, bytes, length);
    txn->name_copy[length] = 0;
    txn->name = txn->name_copy;
}

void hf__txn_clear(struct txn *txn, struct local_node *node)
{
    uint64_t state = local_get(&node->state), session = local_get(&node->session);
    /* A detached one is ours until it is gone: no visitor would look for it if we died in here. */
    if (session == LOCAL_DETACHED)
        local_put(&node->session, session = txn->local->session);
    if (local_state_state(state) == LOCAL_HELD) {
        txn->took_over = true;
        txn->took_over_token = local_get(&node->token);
        /* mutant: dead-one-permits-are-not-given */
        if (!txn->name && hf__host_wants_events(txn->local->base.host))
            remember_name(txn);
        hf__txn_drop(txn, node, LOCAL_FREE, 0);
    } else if (local_state_state(state) == LOCAL_WAITING) {
        hf__txn_leave_queue(txn, node, LOCAL_FREE, 0);
    }
    HF_POINT("local:clear");
    if (!txn->damaged)
        atomic_compare_exchange_strong(&node->session, &session, 0);
}

bool hf__txn_clear_if_dead(struct txn *txn, struct local_node *node)
{
    if (hf__local_alive(txn->local, local_get(&node->session)))
        return false;
    hf__txn_clear(txn, node);
    return true;
}

/* Past its deadline: an offer goes back to the queue's end, a detached hold goes for good, and of
 * any other the owner has yet to hear. */
static void expire(struct txn *txn, struct local_node *node)
{
    uint64_t state = local_get(&node->state);
    unsigned flags = local_state_flags(state);
    if (local_get(&node->session) == LOCAL_DETACHED)
        hf__txn_clear(txn, node);
    else if (flags & LOCAL_OFFERED)
        hf__txn_drop(txn, node, LOCAL_WAITING, flags & LOCAL_ASYNCHRONOUS);
    else
        hf__txn_drop(txn, node, LOCAL_LOST, 0);
}

void hf__txn_reap(struct txn *txn)
{
    struct local_node *node = hf__wait_list_first(txn, &txn->lock->holders), *next;
    uint64_t alive = txn->local->session;
    for (; node; node = next) {
        next = hf__wait_list_next(txn, node);
        uint64_t deadline_ms = local_get(&node->deadline_ms);
        uint64_t session = local_get(&node->session);
        if (session != alive && hf__txn_clear_if_dead(txn, node))
            continue;
        alive = session;
        /* mutant: expired-holder-stays */
        if (deadline_ms && (int64_t)deadline_ms <= hf__txn_now(txn))
            expire(txn, node);
    }
    /* A dead waiter at the head may ask for more than is free for long. */
    while ((node = hf__wait_list_first(txn, &txn->lock->waiters)) != NULL)
        if (!hf__txn_clear_if_dead(txn, node)) /* mutant: dead-waiter-at-head-stays */
            break;
}

void hf__txn_reap_before(struct txn *txn, const struct local_node *own)
{
    uint32_t previous = local_high(local_get(&own->link));
    for (unsigned i = 0; previous && i < LOCAL_WANTED; i++) {
        struct local_node *node = hf__txn_node(txn, previous);
        if (!node)
            return;
        previous = local_high(local_get(&node->link));
        hf__txn_clear_if_dead(txn, node);
    }
}

int64_t hf__txn_next_deadline(struct txn *txn)
{
    int64_t earliest_ms = HF_NEVER;
    struct local_node *node = hf__wait_list_first(txn, &txn->lock->holders);
    for (unsigned seen = 0; node && seen < DEADLINES_MAX; seen++) {
        int64_t deadline_ms = (int64_t)local_get(&node->deadline_ms);
        if (deadline_ms > 0 && deadline_ms < earliest_ms)
            earliest_ms = deadline_ms;
        node = hf__wait_list_next(txn, node);
    }
    return earliest_ms;
}
