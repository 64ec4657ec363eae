/* SPDX-License-Identifier: Apache-2.0 */
/* A run: clients that fight for locks while faults hit them, and what they saw as a history. */
#ifndef HF_TORTURE_RUN_H
#define HF_TORTURE_RUN_H

#include "torture/sandbox/sandbox.h"
#include "torture/subject.h"

#include <signal.h>

#define TORTURE_CLIENTS_MAX 64u
#define TORTURE_THREADS_MAX 16u
#define TORTURE_HOOKS_MAX 16u

/* The faults that need nothing but the clients' processes. */
enum torture_fault {
    TORTURE_STOP_HOLDER, /* SIGSTOP, for longer than the lease */
    TORTURE_STOP_WAITER, /* the one that has waited longest */
    TORTURE_KILL_HOLDER, /* SIGKILL; the client comes back as a new process */
    TORTURE_KILL_WAITER,
    TORTURE_PAUSE, /* at sync points inside the library, mostly for longer than the lease */
    TORTURE_CLOCK, /* the wall clock of a client jumps */
    /* The connections of a client, for stores that are reached by such. */
    TORTURE_RESET,        /* cut */
    TORTURE_BLACKHOLE,    /* nothing passes for a while, longer than the lease */
    TORTURE_DROP_REPLIES, /* what is asked is done, but its answer is lost */
    TORTURE_TRICKLE,      /* a byte at a time */
    TORTURE_LATE_RELEASE, /* a release comes late, or twice, while another owner holds */
    TORTURE_ERROR_REPLY,  /* a request is executed, and its reply is an error of the protocol */
    /* The servers of a sandbox. */
    TORTURE_SERVER_STOP, /* SIGSTOP, for longer than the lease */
    TORTURE_SERVER_KILL, /* SIGKILL, and again */
    TORTURE_FAILOVER,    /* the primary dies with a grant that its replica has not heard of */
    TORTURE_STORE_CLOCK, /* the server's clock jumps ahead, and stays there */
    TORTURE_PARTITION,   /* the leader is cut off from the others, with half of the clients */
    TORTURE_FAULTS
};

#define TORTURE_WIRE_FAULTS                                                                        \
    (1u << TORTURE_RESET | 1u << TORTURE_BLACKHOLE | 1u << TORTURE_DROP_REPLIES |                  \
     1u << TORTURE_TRICKLE | 1u << TORTURE_LATE_RELEASE | 1u << TORTURE_ERROR_REPLY)
/* Those for which a run has quiet locks, too. */
#define TORTURE_QUIET_FAULTS (1u << TORTURE_LATE_RELEASE | 1u << TORTURE_ERROR_REPLY)

#define TORTURE_ALL_FAULTS ((1u << TORTURE_FAULTS) - 1)
#define TORTURE_CLIENT_FAULTS ((1u << TORTURE_RESET) - 1)

#define TORTURE_SERVER_FAULTS                                                                      \
    (1u << TORTURE_SERVER_STOP | 1u << TORTURE_SERVER_KILL | 1u << TORTURE_FAILOVER |              \
     1u << TORTURE_STORE_CLOCK | 1u << TORTURE_PARTITION)

/* Before the name of a fault, the text of a TORTURE_NOTE: over such, the store promises nothing. */
#define TORTURE_UNPROMISED_NOTE "unpromised:"

/* The text of a TORTURE_NOTE: a file of the store is gone, and was there at `until_ns`. */
#define TORTURE_REMOVED_NOTE "removed"

/* A fault of the user's: `start` makes it, `heal`, if there is one, ends it. Shell commands. */
struct torture_hook {
    const char *name, *start, *heal;
};

struct torture_progress {
    int64_t at_ms, of_ms;
    uint64_t operations, grants;
    unsigned faults, hits;
    const char *now; /* what is just being done, or "" */
};

struct torture_plan {
    const char *url;
    uint64_t seed;
    int64_t time_ms, lease_ms;
    unsigned clients;
    unsigned threads; /* of each client; 0 is 1 */
    unsigned rate;    /* operations a second, of all threads of all clients together */
    unsigned faults;  /* bits 1u << torture_fault */
    const struct torture_hook *hooks;
    unsigned hook_count;
    const char *history;             /* where to */
    const sigset_t *mask;            /* signals as processes of ours get them; NULL: as they are */
    struct torture_sandbox *sandbox; /* whose servers are struck, too; or NULL */
    unsigned slow; /* this machine needs this many times the usual patience; 0 is 1 */
    /* For a caller that knows where to aim. */
    const char *point; /* the only one that TORTURE_PAUSE pauses at; NULL: any */
    bool restless;     /* no time without faults until the end */
    int64_t calm_ms;   /* for the last turn and for what is left to go, each; 0: the usual */
    void (*progress)(void *arg, const struct torture_progress *progress); /* may be NULL */
    void *progress_arg;
};

/* What the driver knows besides the history. */
struct torture_outcome {
    bool begun;         /* there is a history */
    int ended_by;       /* the signal that ended the run early, or 0 */
    char sentence[400]; /* why it could not be done, or not to its end; else empty */
    bool unreachable;   /* because the store has not answered */
    bool is_full;       /* the history was, so the run ended before its time */
    unsigned tried[TORTURE_FAULTS + TORTURE_HOOKS_MAX], hit[TORTURE_FAULTS + TORTURE_HOOKS_MAX];
    bool unreadable; /* no request of a client could be read, so none was answered with an error */
    int hook_status[TORTURE_HOOKS_MAX]; /* how its command ended last, if not well: as a shell says
                                         */
    uint64_t operations;
    uint64_t writes, fenced_off;     /* at the resource that compares tokens */
    uint64_t plain_writes, clobbers; /* at the one that does not: written over what was not seen */
    uint64_t leftovers;              /* what the audit found */
    char removed[256];               /* a file of the store that was taken away meanwhile; or "" */
};

/* "stop-holder", ...: the word of --faults, of the history and of the report. */
const char *torture_fault_name(enum torture_fault fault);
/* One line of what it does. */
const char *torture_fault_text(enum torture_fault fault);

/* Runs it all in processes of its own, of which none is left when it returns, and writes the
 * history. False: outcome->sentence says why there is none. The caller has no threads, and blocks
 * none of SIGINT, SIGTERM, SIGHUP, which end the run in good order. */
bool torture_run(const struct torture_plan *plan, const struct torture_subject *subject,
                 struct torture_outcome *outcome);

#endif
