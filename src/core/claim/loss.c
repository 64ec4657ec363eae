/* SPDX-License-Identifier: Apache-2.0 */
/* Losing a lock: marking the claim, and running each hold's on_lost once. */
#include "core/claim/loss.h"

#include "base/futex.h"
#include "core/loop/uv_loop.h"
#include "core/table/lock_table.h"

/* The shard is unlocked while the callback runs; in_callback keeps the claim's other holds from
 * being freed meanwhile. */
static void announce(struct hf_shard *shard, struct hf_claim *claim, struct hf_hold *hold)
{
    hf_lost_cb *on_lost = hold->on_lost;
    void *arg = hold->lost_arg;
    hf_loss loss = { sizeof loss, hf__shown_name(claim->client, claim->op.in.name),
                     atomic_load(&claim->grant->token), claim->lost_reason };
    hold->announced = true;
    if (!on_lost)
        return;
    claim->client->calling_back = pthread_self();
    atomic_store(&claim->in_callback, 1);
    hf__shard_unlock(shard);
    hf__uv_loop_before_callback(claim->client);
    on_lost(arg, &loss);
    hf__shard_lock(shard);
    atomic_store(&claim->in_callback, 0);
    hf__futex_wake_all(&claim->in_callback);
}

static struct hf_hold *next_to_announce(struct hf_claim *claim)
{
    HF_LIST_FOREACH (link, following, &claim->grant->holds) {
        struct hf_hold *hold = HF_CONTAINER(link, struct hf_hold, link);
        if (!hold->announced)
            return hold;
    }
    return NULL;
}

/* With the shard unlocked, as for all that is the user's. */
static void say_lost(struct hf_shard *shard, const struct hf_claim *claim)
{
    const struct hf_host *host = &claim->client->host;
    if (!hf__host_wants_events(host))
        return;
    hf__shard_unlock(shard);
    hf__host_event(host, HF_EVENT_LOST, claim->op.in.name, atomic_load(&claim->grant->token),
                   claim->lost_reason);
    hf__shard_lock(shard);
}

/* The program that is told may give the claim back: a pin of the caller's keeps its name and its
 * reason. */
static void announce_all(struct hf_claim *claim)
{
    struct hf_hold *hold;
    while ((hold = next_to_announce(claim)))
        announce(claim->shard, claim, hold);
}

void hf__claim_announce(struct hf_claim *claim)
{
    hf__claim_pin(claim);
    announce_all(claim);
    hf__claim_unpin(claim);
}

static void lose_locked(struct hf_shard *shard, struct hf_claim *claim, const char *reason)
{
    if (atomic_exchange(&claim->grant->lost, true)) /* mutant: loss-is-no-more-lasting */
        return;
    claim->lost_reason = reason;
    hf__claim_count_loss(claim);
    hf__claim_pin(claim); /* mutant: lost-claim-is-forgotten */
    say_lost(shard, claim);
    if (!hf__uv_loop_is_borrowed(claim->client)) /* mutant: caller-that-turns-loop-runs */
        announce_all(claim);
    else if (next_to_announce(claim))
        hf__claim_post(claim, HF_CMD_ANNOUNCE);
    hf__claim_unpin(claim);
}

void hf__claim_lose(struct hf_claim *claim, const char *reason)
{
    struct hf_shard *shard = claim->shard;
    hf__point(claim->client, "before_loss", claim->op.in.name);
    hf__shard_lock(shard);
    lose_locked(shard, claim, reason);
    hf__shard_unlock(shard);
}

void hf__claim_lose_suspect(struct hf_claim *claim)
{
    lose_locked(claim->shard, claim, "it was broken, or the store has given it up");
}

static bool is_suspect(struct hf_client *client, const struct hf_claim *claim)
{
    return claim->entry && !claim->forgotten && claim->held_mode != HF_KEEP_NOTHING &&
           !claim->upgrading && !claim->driven && !atomic_load(&claim->grant->lost) &&
           !client->sync->held(client->engine, &claim->op);
}

/* One lost claim at a time: announcing it unlocks the shard, and the claims may change meanwhile.
 */
static bool lose_one(struct hf_client *client, struct hf_shard *shard, const char *reason)
{
    for (uint32_t c = 0; c < shard->chunk_count; c++)
        for (uint32_t i = 0; i < HF_CLAIM_CHUNK; i++)
            if (is_suspect(client, &shard->chunks[c][i])) {
                lose_locked(shard, &shard->chunks[c][i], reason);
                return true;
            }
    return false;
}

void hf__holds_recheck(const struct hf_host *host, const char *reason)
{
    struct hf_client *client = host->core;
    if (!client->sync)
        return;
    for (unsigned s = 0; s < HF_SHARDS; s++) {
        struct hf_shard *shard = &client->shards[s];
        hf__shard_lock(shard);
        while (lose_one(client, shard, reason))
            continue;
        hf__shard_unlock(shard);
    }
}
