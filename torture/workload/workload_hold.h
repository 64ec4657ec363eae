/* SPDX-License-Identifier: Apache-2.0 */
/* An acquisition of the workload, from its choice to its release. */
#ifndef HF_TORTURE_WORKLOAD_HOLD_H
#define HF_TORTURE_WORKLOAD_HOLD_H

#include "torture/workload/workload.h"

#define MS INT64_C(1000000)

/* Of each thread: the owners that ask for one lock, and one owner for each of several requests. */
enum { TORTURE_OWNERS = 3, TORTURE_SEVERAL_MAX = 4 };

struct hold {
    struct torture_client *client;
    const struct torture_lock *lock;
    struct torture_ask ask;
    struct torture_grip *grip;
    struct torture_record record; /* what its records have in common */
    _Atomic int64_t deadline_ns;
    _Atomic int news; /* LATE or GRANTED: whichever came first, the loss or the grant's record */
    _Atomic int64_t losing_ns; /* when the library began to mark it as lost; 0: it has not */
    _Atomic bool loss_written;
    struct hold *next; /* in the list of this process */
    uint64_t seen;     /* in the resource without a fence, when it was acquired */
    bool exclusive;    /* from the grant on, up to now */
};

/* ---- workload_choose.c ---- */

/* Chooses at random how the lock of a hold is asked for. `calm`: as torture_use_lock has it. */
void torture_choose(struct hold *hold, void (*on_lost)(void *arg), bool calm);
/* The owner of that number among those of the thread. */
void torture_choose_owner(struct hold *hold, uint64_t number);

#endif
