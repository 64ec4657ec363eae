/* SPDX-License-Identifier: Apache-2.0 */
/* The process that starts the clients, hits them, and sees them end. */
#ifndef HF_TORTURE_DRIVER_H
#define HF_TORTURE_DRIVER_H

#include "torture/prng.h"
#include "torture/shared_state.h"

#include <sys/types.h>

/* For the end of a run, however it comes. */
enum { TORTURE_RECORDS_BESIDES = 1 << 14 };

struct torture_driver {
    const struct torture_plan *plan;
    const struct torture_subject *subject;
    struct torture_outcome *outcome;
    struct torture_shared *arena;
    struct torture_writer *writer;
    struct torture_prng dice;
    uint64_t run;
    int64_t begin_ns, end_ns; /* of the rough part, on CLOCK_BOOTTIME */
    pid_t clients[TORTURE_CLIENTS_MAX];
    pid_t relay;               /* 0: there is none */
    sigset_t watched;          /* signals that we read */
    sigset_t before, original; /* as they were when the run began, and for other processes */
    const char *now;           /* what is just being done to which client */
    int64_t pauses_end_ns;     /* until then, some sync points pause */
    int64_t looked_ns;         /* for removed files, last */
    unsigned next_fault;       /* goes round, so that every fault gets its chance */
    unsigned rounds;           /* of all faults, so far */
    unsigned depth;            /* faults that begin while another one goes on */
    uint64_t struck;           /* bits: the clients that faults have chosen */
    bool late;                 /* some clients did not end when they were to */
    bool failed;               /* outcome->sentence says why */
};

/* ---- driver.c ---- */

/* Forks the client, again if it was there before. False: the driver has failed. */
bool torture_driver_start(struct torture_driver *driver, unsigned client);
/* SIGKILL, until it is gone; writes the CRASH. */
void torture_driver_kill(struct torture_driver *driver, unsigned client);
/* Ends the relay, with all connections through it. */
void torture_driver_end_relay(struct torture_driver *driver);
/* Lets time pass while nothing needs to be done but to listen: to signals, and to clients that end.
 * False, and sooner: the rough part is over, by its time, a signal or a failure. */
bool torture_driver_wait(struct torture_driver *driver, int64_t ms);
/* Is the rough part over? */
bool torture_driver_is_over(const struct torture_driver *driver);
/* Waits until all clients have ended by themselves; false: some have not, in that time. */
bool torture_driver_wait_for_clients(struct torture_driver *driver, int64_t ms);
/* The first failure is the one that is told. */
__attribute__((format(printf, 2, 3))) void torture_driver_fail(struct torture_driver *driver,
                                                               const char *format, ...);

/* ---- store_replaced.c ---- */

/* Notes, once, that a file which clients have in their memory is not there any more; looks only now
 * and then. */
void torture_look_for_removed_files(struct torture_driver *driver);

/* ---- run_audit.c ---- */

/* After the last client: is anything left, and can everything be had? Takes away what the run has
 * made. */
void torture_audit(struct torture_driver *driver);

#endif
