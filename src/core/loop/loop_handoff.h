/* SPDX-License-Identifier: Apache-2.0 */
/* What uv_loop.c, which turns the loop, and loop_handoff.c, which says when a caller may do so in
 * the thread's place, know of each other. Everything here belongs to the thread that turns the
 * loop. */
#ifndef HF_CORE_LOOP_LOOP_HANDOFF_H
#define HF_CORE_LOOP_LOOP_HANDOFF_H

#include "base/thread_local.h"
#include "core/loop/busy_poll.h"
#include "core/loop/futex_group.h"
#include "core/loop/loop_owner.h"
#include "core/loop/uv_loop.h"

#include <uv.h>

/* A BORROWER is a caller, in the thread's place, and so is a WATCHER, which may run callbacks. */
enum turner { PROGRAM, THREAD, BORROWER, WATCHER };

struct hf_uv_loop {
    struct hf_client *client;
    struct hf_loop_owner wheel;
    struct hf_busy_poll busy_poll;
    struct hf_futex_group sleepers;
    enum turner turner;
    struct hf_link aside;   /* tasks that only the thread may run */
    _Atomic uint32_t *told; /* to be set when the thread has parked; or NULL */
    uv_loop_t uv;
    uv_async_t wake;
    uv_poll_t timer;
    int timer_fd;
    int64_t timer_at_ms; /* what timer_fd is set to */
    bool thread_runs, stopping;
    _Atomic uint32_t *until; /* the loop is turned until this is set; or NULL */
    int64_t until_ms;        /* ... or by a caller until then */
    pthread_t thread;
};

/* The loops that this thread is inside of: a callback of one client may turn another's. Asked at
 * every call, so found without a function call; a library that is loaded late may have a few words
 * of such storage. */
struct turning {
    const struct hf_client *client;
    const struct turning *outer;
};
extern _Thread_local const struct turning *hf__turning HF_THREAD_LOCAL_NEAR;

/* Must the caller that turns give the loop back to the thread? */
bool hf__loop_handoff_is_over(const struct hf_uv_loop *drive);

/* The thread's: could it leave the loop to callers, and what it does then until it is needed. */
bool hf__loop_handoff_may_park(const struct hf_uv_loop *drive);
void hf__loop_handoff_park(struct hf_uv_loop *drive);
/* Tells the caller that was to be told after the thread had parked. */
void hf__loop_handoff_tell(struct hf_uv_loop *drive);

#endif
