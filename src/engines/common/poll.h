/* SPDX-License-Identifier: Apache-2.0 */
/* Waiters that no message of the store wakes: when an attempt is worth making again. */
#ifndef HF_ENGINES_COMMON_POLL_H
#define HF_ENGINES_COMMON_POLL_H

#include "core/engine.h"

/* Without a wake, an attempt is repeated after 25 to 75 ms, so that waiters of one lock do not all
 * ask at the same moment, and a free lock stays free for 50 ms on average at most. */
#define HF_POLL_MIN_MS 25
#define HF_POLL_MAX_MS 75

/* How long to wait before the next attempt: a random time from HF_POLL_MIN_MS on, below
 * HF_POLL_MAX_MS + spread_ms. `spread_ms` is 0, or what a slow attempt takes, so that contenders
 * that have disturbed each other do not meet again. `left_ms` is the rest of the holder's lease:
 * the pause does not go beyond it; negative: unknown. For op->out.retry_at_ms of a REFUSED
 * attempt. */
int64_t hf__poll_pause_ms(int64_t left_ms, int64_t spread_ms);

/* The same for a store to which each attempt is work: about first_ms, twice as long after each
 * vain one, about most_ms at most. `tries`: the vain ones so far. By chance half or half as much
 * again, at least 1 ms. */
int64_t hf__poll_growing_ms(uint64_t tries, int64_t first_ms, int64_t most_ms);

/* ---- Hand-over within a client ---- */

/* A client that holds a name knows when it is released, and wakes its own next waiter at once. It
 * does so in a row for as long as the longest pause of a waiter elsewhere. Behind one more release
 * its waiter polls, as those of other clients do, and one of them may be the first. */
#define HF_HAND_OVER_MS HF_POLL_MAX_MS
#define HF_HAND_OVERS 64

struct hf_hand_over {
    uint64_t name_hash; /* 0: none */
    int64_t since_ms;   /* the first of the releases in a row */
};

/* By the hash of the name. Zero at first. Two names at one place only shorten each other's time. */
struct hf_hand_overs {
    struct hf_hand_over of[HF_HAND_OVERS];
};

/* The store has confirmed the release of the claim `op`, and no waiter of another client is known
 * of. */
void hf__poll_released(struct hf_hand_overs *hand_overs, struct hf_op *op, int64_t now_ms);

/* For a change by compare-and-swap that changes of others overtake. `tries`: the vain ones so far.
 * 0 after each of the first four: try again at once. Then 1 ms to 2 ms, drawn by lot; the longest
 * pause doubles with each try, up to 64 ms. */
int64_t hf__poll_overtaken_ms(unsigned tries);

#endif
