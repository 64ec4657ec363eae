/* SPDX-License-Identifier: Apache-2.0 */
/* The loop's own matter, without a system call in it: tasks that are ready, timers that are due,
 * and tasks posted by other threads. What turns it (libuv, or a test with a virtual clock) comes
 * from outside. Everything but hf__loop_post belongs to the one thread that turns the loop. */
#ifndef HF_BASE_LOOP_H
#define HF_BASE_LOOP_H

#include "base/list.h"

#include <stdatomic.h>
#include <stdint.h>

/* Never, as a point in time. */
#define HF_NEVER INT64_MAX

struct hf_task {
    union {
        struct hf_link link;         /* in line */
        struct hf_task *posted_next; /* on its way from another thread */
    };
    void (*run)(struct hf_task *task);
};

struct hf_timer {
    struct hf_timer *child, *sibling, *previous; /* a node of the pairing heap */
    int64_t at_ms;
    bool started;
    void (*fire)(struct hf_timer *timer);
};

struct hf_loop {
    int64_t (*clock)(void *arg); /* milliseconds on a clock that goes on in suspend */
    void (*wake)(void *arg);     /* makes the turning thread turn again; callable anywhere */
    void *arg;
    int64_t now_ms; /* read once a turn, and when it hears which sleepers were woken in it */
    bool turning;
    const _Atomic uint32_t *until; /* once it is set, the rest of a turn in which nothing was posted
                                      waits for the next one; or NULL */
    bool watches_more;             /* since this was cleared, the watch of a descriptor began */
    struct hf_link ready;
    unsigned woken; /* since something that was posted was last looked for */
    struct hf_timer *heap;
    _Atomic(struct hf_task *) posted;
    _Atomic bool awake; /* a turn comes before hf__loop_rest: it need not be woken */
};

void hf__loop_init(struct hf_loop *loop, int64_t (*clock)(void *), void (*wake)(void *), void *arg);

/* Between turns, where an engine hears of its descriptors, the last turn may be long ago. */
static inline int64_t hf__loop_now(const struct hf_loop *loop)
{
    return loop->turning ? loop->now_ms : loop->clock(loop->arg);
}

/* Runs `task` in this turn, after what runs now has returned. Each task is at most once in line:
 * deferring a deferred task does nothing. */
void hf__task_init(struct hf_task *task, void (*run)(struct hf_task *));
void hf__loop_defer(struct hf_loop *loop, struct hf_task *task);

/* The one function that crosses threads: runs `task` on the loop. A task must not be posted again,
 * or deferred, before it ran. */
void hf__loop_post(struct hf_loop *loop, struct hf_task *task);

/* Starting a started timer moves it. A timer that fires has been stopped. */
void hf__timer_init(struct hf_timer *timer, void (*fire)(struct hf_timer *));
void hf__timer_start(struct hf_loop *loop, struct hf_timer *timer, int64_t at_ms);
void hf__timer_stop(struct hf_loop *loop, struct hf_timer *timer);

/* Reads the clock, then runs what was posted, what is due and what became ready by that, and
 * returns when the next timer is due (HF_NEVER: none). Bounded: what is posted or becomes due
 * meanwhile waits for the next turn, and then the answer is now; so do timers after the first
 * thousand, and the answer is when they were due. But see hf__loop_wake_batch_full. */
int64_t hf__loop_turn(struct hf_loop *loop);

/* The number of sleepers woken at a time. With fewer, the server is asked in smaller portions,
 * which cost it more; with more, it waits longer for the first. */
#define HF_LOOP_WAKE_BATCH 32u

/* Said by a task that has set a sleeping thread's flag. True: enough are set that the sleepers
 * should be woken. The turn then runs what they have posted by then: the server is at work again
 * while the rest is told. Otherwise the answers of a crowd would bring the questions of a crowd,
 * and of client and server one would always be waiting for the other. */
static inline bool hf__loop_wake_batch_full(struct hf_loop *loop)
{
    return ++loop->woken >= HF_LOOP_WAKE_BATCH;
}

/* When the next timer is due; HF_NEVER: none is started. */
static inline int64_t hf__loop_next(const struct hf_loop *loop)
{
    return loop->heap ? loop->heap->at_ms : HF_NEVER;
}

/* The thread that turns the loop, and has said so in `awake`, is about to sleep. False: there is
 * something to do; it must not, or wake itself. */
bool hf__loop_rest(struct hf_loop *loop);

#endif
