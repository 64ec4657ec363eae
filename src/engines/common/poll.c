/* SPDX-License-Identifier: Apache-2.0 */
/* Jittered retry for waiters that nothing wakes. */
#include "poll.h"

#include "base/rand.h"

/* Of an overtaken change. */
#define TRIES_AT_ONCE 4u
#define PAUSE_DOUBLINGS 6u

int64_t hf__poll_pause_ms(int64_t left_ms, int64_t spread_ms)
{
    uint64_t salt;
    hf__random(&salt, sizeof salt);
    uint64_t range_ms = (uint64_t)(HF_POLL_MAX_MS - HF_POLL_MIN_MS + spread_ms);
    int64_t pause_ms = HF_POLL_MIN_MS + (int64_t)(salt % range_ms);
    return left_ms >= 0 && left_ms < pause_ms ? left_ms : pause_ms;
}

int64_t hf__poll_growing_ms(uint64_t tries, int64_t first_ms, int64_t most_ms)
{
    int64_t about_ms = first_ms;
    /* mutant: vain-attempts-come-as-often */
    for (uint64_t i = 0; i < tries && about_ms < most_ms; i++)
        about_ms *= 2;
    int64_t pause_ms = hf__jitter_ms(about_ms < most_ms ? about_ms : most_ms);
    return pause_ms > 0 ? pause_ms : 1;
}

int64_t hf__poll_overtaken_ms(unsigned tries)
{
    uint64_t salt;
    if (tries <= TRIES_AT_ONCE)
        return 0;
    unsigned doublings = tries - TRIES_AT_ONCE;
    doublings = doublings < PAUSE_DOUBLINGS ? doublings : PAUSE_DOUBLINGS;
    hf__random(&salt, sizeof salt);
    return 1 + (int64_t)(salt % (1u << doublings));
}

void hf__poll_released(struct hf_hand_overs *hand_overs, struct hf_op *op, int64_t now_ms)
{
    struct hf_hand_over *row = &hand_overs->of[op->in.name_hash % HF_HAND_OVERS];
    struct hf_op *next = hf__op_next(op);
    if (row->name_hash != op->in.name_hash)
        *row = (struct hf_hand_over){ op->in.name_hash, now_ms };
    bool enough = now_ms - row->since_ms > HF_HAND_OVER_MS; /* mutant: hand-overs-have-no-end */
    if (!next || enough)
        row->name_hash = 0;
    if (next && !enough) /* mutant: own-release-wakes-none */
        hf__op_wake(next);
}
