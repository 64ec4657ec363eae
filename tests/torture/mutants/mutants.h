/* SPDX-License-Identifier: Apache-2.0 */
/* A lock client that is right, and the ways in which it can be wrong. */
#ifndef TESTS_TORTURE_MUTANTS_MUTANTS_H
#define TESTS_TORTURE_MUTANTS_MUTANTS_H

#include "torture/check/verdict.h"
#include "torture/run.h"

enum mutant {
    MUTANT_NONE,
    MUTANT_SETNX_DEL,
    MUTANT_GET_DEL,
    MUTANT_SETNX_EXPIRE,
    MUTANT_LATE_START,
    MUTANT_WALL_CLOCK,
    MUTANT_NO_DEADLINE,
    MUTANT_CLIENT_TOKEN,
    MUTANT_LOOSE_TOKEN,
    MUTANT_CHECK_INCREMENT,
    MUTANT_LATE_SUBSCRIBE,
    MUTANT_NO_CLEANUP,
    MUTANT_IMMORTAL_READER,
    MUTANT_UNFAIR,
    MUTANT_EARLY_LATCH,
    MUTANT_EARLY_RELEASE,
    MUTANT_BLIND_RENEWAL,
    MUTANTS
};

/* The one that is tried: set before a run, and inherited by its clients. */
extern enum mutant mutant;

/* How it is tried, and what is expected of it. */
struct mutant_trial {
    enum mutant mutant;
    const char *key, *sentence; /* what it does wrong */
    enum torture_rule rule;     /* that must be broken by it */
    unsigned forms;             /* bits 1u << torture_form */
    unsigned faults;            /* bits 1u << torture_fault */
    const char *point;          /* where TORTURE_PAUSE pauses; NULL: anywhere */
    int64_t lease_ms, time_ms;  /* 0: the usual */
    unsigned rate;              /* operations a second; 0: the usual */
    bool is_control;            /* the right one in the place of a wrong one */
    bool in_memory;             /* needs a queue, or what is no mutex: not for a server */
};

/* The right one first, in several runs; then all the others. */
extern const struct mutant_trial mutant_trials[];
extern const unsigned mutant_trial_count;

/* The subject, over a store in the run's memory. */
extern const struct torture_subject mutant_subject;

#endif
