/* SPDX-License-Identifier: Apache-2.0 */
/* Histories to draw: a small lock service on a clock of its own, with faults, that records what a
 * real run would. */
#ifndef HF_TESTS_TORTURE_TIMELINE_EXAMPLE_H
#define HF_TESTS_TORTURE_TIMELINE_EXAMPLE_H

#include "torture/check/verdict.h"

struct example_plan {
    uint64_t seed;
    unsigned clients, locks;
    uint64_t grants;        /* it ends after so many */
    int64_t fault_every_ns; /* 0: none */
    bool broken;            /* who was stopped goes on to believe when his lease is over */
    const char *lock_name;  /* NULL: "stock", "orders", ... */
};

struct example {
    struct torture_history history;
    struct torture_report report;
};

void example_run(struct example *example, const struct example_plan *plan);
void example_free(struct example *example);

/* Records that no run would write. */
void example_noise(struct example *example, uint64_t seed, size_t count);

/* The same for the same seed. */
uint64_t example_random(uint64_t *state);

#endif
