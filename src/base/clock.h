/* SPDX-License-Identifier: Apache-2.0 */
/* The one clock that deadlines are judged on: it goes on while the machine is suspended. */
#ifndef HF_BASE_CLOCK_H
#define HF_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t hf__clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The same one, finer. */
static inline int64_t hf__clock_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* a + b for a >= 0, stopping at INT64_MAX. HF_FOREVER as `b` means never. */
static inline int64_t hf__clock_add(int64_t at_ms, int64_t duration_ms)
{
    if (duration_ms < 0 || at_ms > INT64_MAX - duration_ms)
        return INT64_MAX;
    return at_ms + duration_ms;
}

#endif
