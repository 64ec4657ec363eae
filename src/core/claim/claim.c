/* SPDX-License-Identifier: Apache-2.0 */
/* A claim's memory: made anew, pinned, sent to the loop with commands; its answer; and how claims
 * are found. */
#include "base/zero.h"
#include "core/api/explain.h"
#include "core/claim/claim_fsm.h"

void hf__claim_reset(struct hf_shard *shard, struct hf_claim *claim)
{
    if (!claim->client) {
        /* What lasts for all uses of a claim's memory. */
        claim->client = shard->client;
        claim->shard = shard;
        hf__link_init(&claim->rest_link);
        hf__link_init(&claim->lease_link);
        hf__link_init(&claim->undo_link);
        claim->client->driver->init(claim);
    }
    size_t fresh = offsetof(struct hf_claim, entry);
    hf__link_init(&claim->entry_link);
    hf__zero((char *)claim + fresh, offsetof(struct hf_claim, text) - fresh);
    hf__zero(&claim->op, offsetof(struct hf_op, engine.own_lease));
    claim->held_mode = claim->store_mode = HF_KEEP_NOTHING;
}

void hf__claim_pin(struct hf_claim *claim)
{
    claim->pins++; /* mutant: claim-memory-is-used-again */
}

void hf__claim_post(struct hf_claim *claim, unsigned command)
{
    bool under_way = claim->commands != 0;
    claim->commands |= (uint8_t)command;
    claim->started |= command == HF_CMD_START;
    if (under_way)
        return;
    hf__claim_pin(claim);
    hf__loop_post(&claim->client->loop, &claim->command);
}

void hf__claim_count_loss(struct hf_claim *claim)
{
    struct hf_grant *grant = claim->grant;
    struct hf_loop *loop = &claim->client->loop;
    int64_t until_ms = atomic_load(&grant->valid_until_ms);
    /* 0: it was lost while its lease went on. */
    bool over = until_ms != 0 && loop->clock(loop->arg) >= until_ms;
    bool fixed = atomic_load_explicit(&grant->fixed, memory_order_relaxed);
    if (!atomic_exchange(&grant->loss_counted, true))
        hf__count(claim->shard->counts,
                  !over   ? HF_COUNT_LOST_TAKEN
                  : fixed ? HF_COUNT_LOST_ENDED
                          : HF_COUNT_LOST_NOT_RENEWED,
                  1);
}

static enum hf_count count_of(const struct hf_claim *claim)
{
    switch (claim->outcome) {
    case HF_OK:
        return HF_COUNT_GRANTED;
    case HF_BUSY:
        return claim->op.in.enqueue ? HF_COUNT_TIMED_OUT : HF_COUNT_BUSY;
    case HF_UNREACHABLE:
        return HF_COUNT_UNREACHABLE;
    case HF_CANCELED:
        return HF_COUNT_CANCELED;
    default:
        return HF_COUNT_FAILED;
    }
}

struct hf_answer hf__claim_take_answer(struct hf_claim *claim)
{
    struct hf_counts *counts = claim->shard->counts;
    /* A request ends, or a release, of which only a loss is told. */
    if (claim->asked_at_us) {
        hf__count(counts, count_of(claim), 1);
        if (claim->outcome == HF_OK)
            hf__count_time(counts, HF_COUNT_WAITS, hf__clock_us() - claim->asked_at_us, 1);
        claim->asked_at_us = 0;
    } else if (claim->outcome == HF_LOST) {
        hf__claim_count_loss(claim);
    }
    if (claim->outcome == HF_UNREACHABLE && claim->granted_late)
        hf__op_explain(&claim->op, HF_UNREACHABLE, 0,
                       "\"%.200s\": replies take longer than the lease of %lld ms; use a longer "
                       "lease, or find what delays the replies of the store",
                       claim->op.in.name, (long long)hf__claim_lease_ms(claim));
    struct hf_answer answer = { .code = claim->outcome, .error = claim->op.out.error };
    if (claim->outcome == HF_OK)
        answer.hold = claim->answer_hold;
    claim->completed = true;
    claim->answer_hold = NULL;
    claim->op.out.error = NULL;
    return answer;
}

/* ---- finding claims ---- */

hf_request hf__claim_id(const struct hf_claim *claim)
{
    uint64_t shard = claim->op.in.name_hash >> 58;
    return (uint64_t)claim->generation << 32 | shard << 26 | (claim->index + 1u);
}

struct hf_claim *hf__claim_find(struct hf_client *client, hf_request id)
{
    struct hf_shard *shard = &client->shards[(id >> 26) & (HF_SHARDS - 1)];
    uint32_t index = (uint32_t)(id & ((1u << 26) - 1)) - 1u;
    hf__shard_lock(shard);
    if (index / HF_CLAIM_CHUNK < shard->chunk_count) {
        struct hf_claim *claim = &shard->chunks[index / HF_CLAIM_CHUNK][index % HF_CLAIM_CHUNK];
        if (claim->entry && claim->generation == (uint32_t)(id >> 32))
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
                if (shard->chunks[c][i].entry && !shard->chunks[c][i].forgotten)
                    visit(&shard->chunks[c][i], arg);
        hf__shard_unlock(shard);
    }
}
