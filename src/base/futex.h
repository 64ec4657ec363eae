/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping on a word of this process. (Words shared with other processes are an engine's matter.)
 */
#ifndef HF_BASE_FUTEX_H
#define HF_BASE_FUTEX_H

#include "base/clock.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Sleeps while *word == expected, until woken or, if `limit` is not NULL, until that time has
 * passed. May return early. */
static inline void hf__futex_wait(_Atomic uint32_t *word, uint32_t expected,
                                  const struct timespec *limit)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, limit, NULL, 0);
}

static inline void hf__futex_wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* The same, until one of these bits is woken, or until `end` on CLOCK_MONOTONIC. */
static inline void hf__futex_wait_bits(_Atomic uint32_t *word, uint32_t expected, uint32_t bits,
                                       const struct timespec *end)
{
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, expected, end, NULL, bits);
}

static inline void hf__futex_wake_bits(_Atomic uint32_t *word, uint32_t bits)
{
    syscall(SYS_futex, word, FUTEX_WAKE_BITSET_PRIVATE, INT32_MAX, NULL, NULL, bits);
}

/* The kernel measures a sleep on a clock that stops in suspend. A long sleep is taken in slices of
 * this length, so it ends at most one slice after its time when the machine was suspended
 * meanwhile.
 */
#define HF_FUTEX_SLICE_MS 1000

/* Sleeps while *word == expected, until woken or until_ms on hf__clock_ms (INT64_MAX: for ever).
 * May return early. */
static inline void hf__futex_wait_until(_Atomic uint32_t *word, uint32_t expected, int64_t until_ms)
{
    if (until_ms == INT64_MAX) {
        hf__futex_wait(word, expected, NULL);
        return;
    }
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    int64_t left = until_ms - ((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    if (left <= 0)
        return;
    if (left > HF_FUTEX_SLICE_MS)
        left = HF_FUTEX_SLICE_MS;
    int64_t left_ns = left * 1000000 - now.tv_nsec % 1000000;
    struct timespec limit = { .tv_sec = left_ns / 1000000000, .tv_nsec = left_ns % 1000000000 };
    hf__futex_wait(word, expected, &limit);
}

#endif
