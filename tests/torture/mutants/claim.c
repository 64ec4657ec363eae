/* SPDX-License-Identifier: Apache-2.0 */
/* How long the owner of a claim may believe in it. */
#include "session.h"

#include <time.h>

/* Two clocks that run at their own rates, and a store that rounds. */
#define DRIFT_PERCENT 1
#define ROUNDING_NS INT64_C(2000000)

int64_t mutant_clock_ns(void)
{
    struct timespec now;

    if (mutant != MUTANT_WALL_CLOCK)
        return torture_clock_ns();
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* From before the question left: it may have been granted as soon as it was asked. */
void mutant_set_deadline(struct mutant_claim *claim, int64_t asked_ns)
{
    int64_t lease_ns = claim->question.lease_ns;

    if (mutant == MUTANT_LATE_START)
        asked_ns = mutant_clock_ns();
    claim->deadline_ns = asked_ns + lease_ns - lease_ns * DRIFT_PERCENT / 100 - ROUNDING_NS;
}

int64_t mutant_left_ns(const struct mutant_claim *claim)
{
    int64_t left_ns = claim->deadline_ns - mutant_clock_ns();

    if (mutant == MUTANT_NO_DEADLINE)
        return INT64_MAX;
    return left_ns > 0 && !claim->lost ? left_ns : 0;
}

bool mutant_is_held(const struct mutant_claim *claim)
{
    return mutant_left_ns(claim) > 0;
}
