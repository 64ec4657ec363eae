/* SPDX-License-Identifier: Apache-2.0 */
/* The wall clock of a sandbox's servers, which a run may set forward. */
#ifndef HF_TORTURE_SANDBOX_SANDBOX_CLOCK_H
#define HF_TORTURE_SANDBOX_SANDBOX_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* In the environment of a server: the file of what it shares with the run. */
#define TORTURE_SANDBOX_CLOCK "HOLDFAST_SANDBOX_CLOCK"

struct torture_sandbox_clock {
    _Atomic int64_t ahead_ns; /* of the kernel's; only grows */
    _Atomic int64_t seen_ns;  /* what a server has last been told */
};

/* NULL: it cannot be made. */
struct torture_sandbox_clock *torture_sandbox_clock_new(void);
void torture_sandbox_clock_free(struct torture_sandbox_clock *clock);
/* In the server's process, before it becomes the server: from then on it goes by this clock. */
void torture_sandbox_clock_use(const struct torture_sandbox_clock *clock);

#endif
