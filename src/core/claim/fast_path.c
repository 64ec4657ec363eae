/* SPDX-License-Identifier: Apache-2.0 */
/* Locks that no other claim wants are taken and left in one step. What the wait loop does for the
 * others is not needed: there is no queue, and nothing is out at the store. */
#include "core/claim/fast_path.h"

#include "core/claim/claim_fsm.h"
#include "core/claim/pool.h"
#include "core/table/lock_table.h"

/* A clock takes as long as such a lock, so one of 64 is timed (core/counts.h). */
static void count(struct hf_shard *shard, struct hf_claim *claim)
{
    uint64_t number = hf__count_alone(&shard->fast_grants, 1);
    bool first = number < HF_TIMED_FIRST, last = number % HF_TIMED_OF == HF_TIMED_OF - 1;
    if (__builtin_expect(first || last, 0)) {
        hf__claim_count_hold(claim);
        if (!first)
            claim->held_from_us = -claim->held_from_us;
        return;
    }
    hf__count_alone(&shard->held, 1);
    claim->held_from_us = HF_HELD_UNTIMED;
}

bool hf__fast_acquire(struct hf_claim *claim, const struct hf_lock_args *ask,
                      struct hf_answer *answer)
{
    struct hf_client *client = claim->client;
    struct hf_lock_entry *entry = claim->entry;
    /* mutant: lock-with-lease-of-its-own */
    if (!entry->kept || !(ask->blocks || ask->starts) || !client->here || ask->lease_ms ||
        ask->attach_key || !hf__list_empty(&entry->queue) || !hf__list_empty(&entry->holders) ||
        client->on_event)
        return false;
    claim->op.in.mode = ask->mode;
    claim->op.in.asked_at_ms = ask->now_ms;
    if (!client->sync->fast_acquire(client->engine, &claim->op, &entry->kept))
        return false;
    hf__claim_fast_acquire(claim);
    count(claim->shard, claim);
    claim->here = true; /* also where the caller has a loop to turn: this needs none */
    *answer = hf__lock_entry_grant(claim);
    return true;
}

/* Nothing is under way, and no other thread looks at it. */
static bool is_at_rest(const struct hf_claim *claim)
{
    return claim->here && !claim->driven && !claim->upgrading && !claim->pins &&
           !claim->op.out.rests_on &&
           !atomic_load_explicit(&claim->grant->lost, memory_order_relaxed) &&
           !atomic_load_explicit(&claim->in_callback, memory_order_relaxed);
}

bool hf__fast_release(struct hf_shard *shard, struct hf_hold *hold)
{
    struct hf_claim *claim = hold->grant->claim;
    struct hf_client *client = claim->client;
    const struct hf_link *holds = &claim->grant->holds;
    bool is_last = holds->next == &hold->link && holds->prev == &hold->link;
    if (!client->sync || !is_last || !is_at_rest(claim) || client->on_event)
        return false;
    claim->op.in.keep = HF_KEEP_NOTHING;
    if (!client->sync->fast_release(client->engine, &claim->op, &claim->entry->kept))
        return false;
    hf__claim_count_hold_end(claim);
    hf__claim_abandon(claim);
    claim->held_mode = claim->store_mode = HF_KEEP_NOTHING;
    hf__link_remove(&hold->link);
    hf__pool_put_hold(shard, hold);
    hf__claim_free(shard, claim);
    return true;
}
