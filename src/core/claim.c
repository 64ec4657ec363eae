/* SPDX-License-Identifier: Apache-2.0 */
/* A claim's memory: made anew, pinned, sent to the loop with errands, free for another claim in the
 * end; and how claims are found. */
#include "base/clear.h"
#include "core/aside.h"
#include "core/at_once.h"
#include "core/call.h"
#include "core/gate.h"
#include "core/lock.h"
#include "core/pool.h"

#include <assert.h>

/* What lasts for all uses of a claim's memory. */
static void prepare_claim(struct hf_shard *shard, struct hf_claim *claim)
{
    claim->client = shard->client;
    claim->shard = shard;
    hf__link_init(&claim->rest_link);
    hf__link_init(&claim->lease_link);
    hf__claim_init_driver(claim);
    hf__call_init_errand(claim);
}

void hf__claim_reset(struct hf_shard *shard, struct hf_claim *claim)
{
    if (!claim->client)
        prepare_claim(shard, claim);
    size_t fresh = offsetof(struct hf_claim, gate);
    hf__link_init(&claim->gate_link);
    hf__clear((char *)claim + fresh, offsetof(struct hf_claim, text) - fresh);
    hf__clear(&claim->op, offsetof(struct hf_op, own_lease));
    claim->held_mode = claim->store_mode = HF_KEEP_NOTHING;
}

void hf__claim_put(struct hf_shard *shard, struct hf_claim *claim)
{
    hf__aside_leaves(claim);
    claim->generation++;
    claim->uses++;
    claim->gate = NULL;
    hf__pool_put_claim(shard, claim);
}

void hf__claim_free(struct hf_shard *shard, struct hf_claim *claim)
{
    struct hf_gate *gate = claim->gate;
    assert(hf__list_empty(&claim->grant->holds));
    hf__gate_leave_queue(claim);
    if (claim->new_hold)
        hf__pool_put_hold(shard, claim->new_hold);
    hf__pool_put_grant(shard, claim->grant);
    hf__claim_put(shard, claim);
    if (--gate->claims == 0)
        hf__gate_left(claim->client, shard, gate);
    hf__aside_end(shard);
}

void hf__claim_forget(struct hf_claim *claim)
{
    struct hf_shard *shard = claim->shard;
    hf__shard_lock(shard);
    if (claim->unlock_waiter)
        hf__claim_post(claim, HF_ERRAND_SETTLE);
    if (claim->pins)
        claim->forgotten = true;
    else
        hf__claim_free(shard, claim);
    hf__shard_unlock(shard);
}

void hf__claim_pin(struct hf_claim *claim)
{
    claim->pins++;
}

void hf__claim_unpin(struct hf_claim *claim)
{
    if (--claim->pins == 0 && claim->forgotten)
        hf__claim_free(claim->shard, claim);
}

void hf__claim_post(struct hf_claim *claim, unsigned errand)
{
    bool under_way = claim->errands != 0;
    claim->errands |= (uint8_t)errand;
    claim->started |= errand == HF_ERRAND_START;
    if (under_way)
        return;
    hf__claim_pin(claim);
    hf__loop_post(&claim->client->loop, &claim->errand);
}

void hf__claim_errand_done(struct hf_claim *claim, unsigned errand)
{
    claim->errands &= (uint8_t)~errand;
    if (claim->errands)
        hf__loop_defer(&claim->client->loop, &claim->errand);
    else
        hf__claim_unpin(claim);
}

/* ---- finding claims ---- */

hf_request hf__claim_id(const struct hf_claim *claim)
{
    uint64_t shard = claim->op.name_hash >> 58;
    return (uint64_t)claim->generation << 32 | shard << 26 | (claim->index + 1u);
}

struct hf_claim *hf__claim_find(struct hf_client *client, hf_request id)
{
    struct hf_shard *shard = &client->shards[(id >> 26) & (HF_SHARDS - 1)];
    uint32_t index = (uint32_t)(id & ((1u << 26) - 1)) - 1u;
    hf__shard_lock(shard);
    if (index / HF_CLAIM_CHUNK < shard->chunk_count) {
        struct hf_claim *claim = &shard->chunks[index / HF_CLAIM_CHUNK][index % HF_CLAIM_CHUNK];
        if (claim->gate && claim->generation == (uint32_t)(id >> 32))
            return claim;
    }
    hf__shard_unlock(shard);
    return NULL;
}

void hf__claims_visit(struct hf_client *client, void (*visit)(struct hf_claim *, void *), void *arg)
{
    for (unsigned s = 0; s < HF_SHARDS; s++) {
        struct hf_shard *shard = &client->shards[s];
        hf__shard_lock(shard);
        for (uint32_t c = 0; c < shard->chunk_count; c++)
            for (uint32_t i = 0; i < HF_CLAIM_CHUNK; i++)
                if (shard->chunks[c][i].gate && !shard->chunks[c][i].forgotten)
                    visit(&shard->chunks[c][i], arg);
        hf__shard_unlock(shard);
    }
}
