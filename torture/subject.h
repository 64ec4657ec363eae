/* SPDX-License-Identifier: Apache-2.0 */
/* What is tortured: a locking service behind a small table of functions, so that the same driver,
 * workload and faults can be turned on the library and, in the tests, on locks that are wrong on
 * purpose.
 *
 * Every client of a run is a process of its own. Nothing is called before the fork. Its first
 * thread has a session of its own; its other threads share a second one, at the same time, if the
 * plan gives a client more than one thread. */
#ifndef HF_TORTURE_SUBJECT_H
#define HF_TORTURE_SUBJECT_H

#include "torture/history/history.h"

enum torture_answer {
    TORTURE_GRANTED, /* yes: granted, renewed, given back, open */
    TORTURE_BUSY,    /* a definite no: nothing of it is left in the store, nor will be */
    TORTURE_SILENT,  /* it is not known: it may have happened, it may still happen */
    TORTURE_GONE,    /* it was held, and is not any more */
    TORTURE_CHANGED, /* of an acquisition: a definite no, as the lock is not what it was made */
    TORTURE_BROKEN   /* it cannot work: the run ends, complain() says why. But if the relay has
                        replaced a reply meanwhile, it is an error that says: nothing was done */
};

/* The label of the mutex that is an election, for subjects that have those. */
#define TORTURE_ELECTION "leader"

/* One thing that the clients fight for. Its place in the list is its `lock` in the records. */
struct torture_lock {
    char name[96]; /* in the store: the run's prefix and `label` */
    char label[32];
    enum torture_form form;
    uint32_t permits; /* semaphore: in all. Latch: the count it starts at. Else 1 */
    uint8_t flags;    /* TORTURE_FENCED, TORTURE_FIFO (a mutex with it is a fair one) */
};

struct torture_setup {
    const char *url;
    const char *prefix; /* the run's: every name in the store begins with it */
    unsigned client;
    int64_t lease_ms; /* of what is acquired without a lease of its own */

    /* A sync point: the subject calls it where a pause would hurt most ("after_send",
     * "between_check_and_delete"), on the thread that is just there; it may be long in coming back.
     * The driver learns the names by being called. */
    void (*point)(void *arg, const char *point);
    void *point_arg;

    /* What the session has of a lock of this name is about to be marked as lost. On any thread. */
    void (*losing)(void *arg, const char *name);

    /* Shared among all clients of the run, zeroed before the first one starts, for subjects that
     * keep their store in memory. Pointers into it mean the same in every client. */
    void *memory;
    size_t memory_size;
};

struct torture_ask {
    const struct torture_lock *lock;
    enum torture_share share; /* of a TORTURE_RW */
    uint32_t permits;         /* of a TORTURE_SEMAPHORE: how many, else 1 */
    int64_t wait_ms;          /* 0: a bare try; -1: no limit */
    int64_t cancel_ms;        /* > 0: takes the question back after that time: TORTURE_BUSY then */
    int64_t lease_ms;         /* > 0: ends by itself. 0: for as long as the session renews it */
    uint64_t owner;           /* asks again while it holds: re-enters; never 0 */
    /* Called once, on any thread, if the hold is lost before it is given back; never after
     * release() has returned. */
    void (*on_lost)(void *arg);
    void *lost_arg;
};

/* What a granted acquisition hands out; the subject's own, until release() has it back. */
struct torture_grip;

/* How much of a lock is in use, as the store itself says. */
struct torture_left {
    uint32_t held, waiting;
};

/* `session` is what open() answered. A slot may be NULL where the comment allows it: the workload
 * then leaves that out. */
struct torture_subject {
    const char *name;

    /* In the client's process. NULL: complain() says why. */
    void *(*open)(const struct torture_setup *setup);
    void (*close)(void *session);
    /* Why the last TORTURE_BROKEN, or the last open() that failed: one line. */
    const char *(*complain)(void *session);

    /* GRANTED: *ret is to be given to release(). All other answers: *ret is NULL. */
    enum torture_answer (*acquire)(void *session, const struct torture_ask *ask,
                                   struct torture_grip **ret);
    /* Asks for all of them before it waits for the first answer, and returns when all are answered.
     * NULL: it cannot. */
    void (*acquire_several)(void *session, const struct torture_ask *asks, unsigned count,
                            enum torture_answer *answers, struct torture_grip **grips);
    /* Has the store answered all that was asked of it? A wait may be over, and a hold be known to
     * be lost, before it has: something may be there a little longer. NULL: it always has. */
    bool (*settled)(void *session);
    /* Frees the grip, whatever the answer. GONE: it had been lost before. */
    enum torture_answer (*release)(void *session, struct torture_grip *grip);
    /* What the holder may believe: asks no server. */
    bool (*still)(void *session, const struct torture_grip *grip);
    /* How long still() goes on, in milliseconds, rounded down; INT64_MAX: no lease limits it. */
    int64_t (*remaining_ms)(void *session, const struct torture_grip *grip);
    uint64_t (*token)(void *session, const struct torture_grip *grip); /* 0: there is none */

    /* Leaves a grip with a lease of its own to the store, and takes it over again. GONE: it was
     * lost in between, and the grip is of no more use but for release(). May be NULL. */
    enum torture_answer (*leave_and_return)(void *session, const struct torture_lock *lock,
                                            struct torture_grip *grip);
    /* Of a grip with a lease of its own: that time from now. May be NULL. */
    enum torture_answer (*renew)(void *session, struct torture_grip *grip, int64_t lease_ms);
    /* TORTURE_UPGRADABLE to TORTURE_EXCLUSIVE, in place; BUSY: it stays what it was. May be NULL.
     */
    enum torture_answer (*upgrade)(void *session, struct torture_grip *grip, int64_t wait_ms);
    /* TORTURE_EXCLUSIVE or TORTURE_UPGRADABLE to TORTURE_SHARED, in place. May be NULL. */
    enum torture_answer (*downgrade)(void *session, struct torture_grip *grip);

    /* Latches: all four, or all NULL. A latch that was never set is open. */
    enum torture_answer (*latch_set)(void *session, const struct torture_lock *lock,
                                     uint32_t count);
    enum torture_answer (*count_down)(void *session, const struct torture_lock *lock);
    enum torture_answer (*await)(void *session, const struct torture_lock *lock, int64_t wait_ms);
    enum torture_answer (*look)(void *session, const struct torture_lock *lock);

    /* What it has: bits 1u << torture_form; mutexes that are handed on in the order of asking;
     * rising tokens; whether an owner that holds may ask again; and whether a try has to stand in
     * line. */
    unsigned forms;
    bool fair, fences, reenters, lines;

    /* After the last client is gone: what is left of a lock. May be NULL. */
    enum torture_answer (*inspect)(void *session, const struct torture_lock *lock,
                                   struct torture_left *ret);
    /* Takes away what the run has made of this lock in the store, once no client uses it. May be
     * NULL.
     */
    void (*forget)(void *session, const struct torture_lock *lock);
};

/* The library, by its public interface, as far as an engine with these HF_CAP_... goes. */
struct torture_subject torture_holdfast(unsigned caps);

#endif
