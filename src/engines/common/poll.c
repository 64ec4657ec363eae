/* SPDX-License-Identifier: Apache-2.0 */
/* Jittered retry for waiters that nothing wakes. */
#include "poll.h"

#include "base/rand.h"

int64_t hf__poll_pause_ms(int64_t left_ms, int64_t spread_ms)
{
    uint64_t salt;
    hf__random(&salt, sizeof salt);
    uint64_t range_ms = (uint64_t)(HF_POLL_MAX_MS - HF_POLL_MIN_MS + spread_ms);
    int64_t pause_ms = HF_POLL_MIN_MS + (int64_t)(salt % range_ms);
    return left_ms >= 0 && left_ms < pause_ms ? left_ms : pause_ms;
}
