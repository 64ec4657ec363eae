/* SPDX-License-Identifier: Apache-2.0 */
/* What a client counts for hf_stats_get. Any thread adds; hf_stats_get reads without a lock, so
 * that the numbers of a snapshot may be a moment apart. */
#ifndef HF_CORE_COUNTS_H
#define HF_CORE_COUNTS_H

#include <holdfast.h>
#include <stdatomic.h>

enum hf_count {
    HF_COUNT_ASKED, /* requests that a claim was made for, or raised */
    HF_COUNT_GRANTED,
    HF_COUNT_BUSY,
    HF_COUNT_TIMED_OUT,
    HF_COUNT_UNREACHABLE,
    HF_COUNT_CANCELED,
    HF_COUNT_FAILED,
    HF_COUNT_LOST_ENDED,
    HF_COUNT_LOST_NOT_RENEWED,
    HF_COUNT_LOST_TAKEN,
    HF_COUNT_RENEWALS,
    HF_COUNT_REQUESTS,
    HF_COUNT_UNANSWERED,
    HF_COUNT_OUTAGES,
    HF_COUNT_WAIT_US,
    HF_COUNT_HOLD_US,
    HF_COUNT_WAITS,
    HF_COUNT_HOLDS = HF_COUNT_WAITS + HF_STATS_BUCKETS,
    HF_COUNT_END = HF_COUNT_HOLDS + HF_STATS_BUCKETS
};

/* Of the locks that are granted on the fast path, the first 64 of a shard are timed, and then the
 * last one of each 64, which counts for all of them: a clock takes as long as such a lock. */
#define HF_TIMED_FIRST 64u
#define HF_TIMED_OF 64u

/* Shards share them, some to each, so that threads seldom meet at one. */
#define HF_COUNT_PARTS 8u
struct hf_counts {
    _Atomic uint64_t at[HF_COUNT_END];
} __attribute__((aligned(64)));

static inline void hf__count(struct hf_counts *counts, unsigned what, uint64_t number)
{
    atomic_fetch_add_explicit(&counts->at[what], number, memory_order_relaxed);
}

/* A number that has one writer at a time needs no exchange. Returns what it was. */
static inline uint64_t hf__count_alone(_Atomic uint64_t *count, uint64_t number)
{
    uint64_t before = atomic_load_explicit(count, memory_order_relaxed);
    atomic_store_explicit(count, before + number, memory_order_relaxed);
    return before;
}

/* `histogram`: HF_COUNT_WAITS or HF_COUNT_HOLDS. `number`: of requests or locks that took_us stands
 * for. */
static inline void hf__count_time(struct hf_counts *counts, unsigned histogram, int64_t took_us,
                                  unsigned number)
{
    uint64_t us = took_us > 0 ? (uint64_t)took_us : 0;
    unsigned bucket = us ? 64u - (unsigned)__builtin_clzll(us) : 0;
    if (bucket > HF_STATS_BUCKETS - 1)
        bucket = HF_STATS_BUCKETS - 1;
    hf__count(counts, histogram + bucket, number);
    hf__count(counts, histogram == HF_COUNT_WAITS ? HF_COUNT_WAIT_US : HF_COUNT_HOLD_US,
              us * number);
}

#endif
