/* SPDX-License-Identifier: Apache-2.0 */
/* The owner of the loop of a client that has a thread: that thread, or a thread that calls while
 * the client's is parked. One of them at a time, and all that the loop owns goes with it.
 *
 *              put_down                    take
 *     THREAD ------------> PARKED <------------------> CALLER
 *        ^                   |          leave            |
 *        |  called, or late  |                           |
 *        +-------------------+<--------------------------+  leave, with work left
 *
 * No call waits for an answer while the thread is parked and no caller turns: a call that begins to
 * wait takes the wheel, or posts something; and a post that finds no thread at the wheel calls the
 * client's.
 */
#ifndef HF_CORE_LOOP_LOOP_OWNER_H
#define HF_CORE_LOOP_LOOP_OWNER_H

#include "base/loop.h"
#include "base/testing.h"

/* The number of calls in a row that meet no other before the thread parks: many threads are served
 * by one. */
#define HF_LOOP_OWNER_ALONE 4u
/* The time from the last call until the thread parks, and between its looks after a caller. */
extern HF_TUNABLE int64_t hf__loop_owner_grace_ms;
/* The number of times it finds the same caller at the wheel before it wants it back: the watchdog
 * of all holds must not depend on one thread of the program for long. */
#define HF_LOOP_OWNER_LOOKS 10u

struct hf_loop_owner {
    struct hf_loop *loop;
    _Atomic uint32_t at;
    _Atomic uint32_t bell;       /* what the parked thread sleeps on */
    _Atomic int64_t wakes_at_ms; /* when it looks by itself */
    _Atomic uint32_t waiting;    /* calls that block, or are about to */
    _Atomic uint32_t alone;      /* calls in a row that met no other; no more than needed */
    _Atomic uint32_t requests;   /* with a callback, and not answered */
    _Atomic uint32_t taken;      /* how often callers took the wheel */
    bool shared;                 /* a program may watch the loop's descriptor: HF_DRIVE_SHARED */
    _Atomic bool wanted;         /* the thread wants it back */
};

/* It is the thread's at first. */
void hf__loop_owner_init(struct hf_loop_owner *wheel, struct hf_loop *loop);

/* Around everything that a call does before it has its answer. */
void hf__loop_owner_enter(struct hf_loop_owner *wheel);
void hf__loop_owner_exit(struct hf_loop_owner *wheel);

/* A request with a callback begins. */
void hf__loop_owner_request_begins(struct hf_loop_owner *wheel);

/* True: the calling thread turns the loop from here on, until it leaves. What it posts wakes no
 * thread. */
bool hf__loop_owner_acquire(struct hf_loop_owner *wheel);
/* The same for a program that watches the descriptor: no other call waits, and it has asked for no
 * more than one thing. Its request may then be out while the thread is parked; the thread, when it
 * looks, stays until it is answered. */
bool hf__loop_owner_acquire_watched(struct hf_loop_owner *wheel);
/* `work_left`: a thread has to turn the loop at once. */
void hf__loop_owner_release(struct hf_loop_owner *wheel, bool work_left);

/* Any thread: has the client's thread turn the loop. False: it is not parked, or a caller is there.
 */
bool hf__loop_owner_wake(struct hf_loop_owner *wheel);

/* The thread's: could callers do without it, as far as they are concerned? `told` of them have
 * their answer without knowing it. */
bool hf__loop_owner_may_park(const struct hf_loop_owner *wheel, unsigned told);
void hf__loop_owner_park(struct hf_loop_owner *wheel);
/* Sleeps until a call comes, or none has come for a while, or the loop's next timer is due. */
void hf__loop_owner_reclaim(struct hf_loop_owner *wheel);

#endif
