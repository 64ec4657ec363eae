/* SPDX-License-Identifier: Apache-2.0 */
/* The loop's ready list, timers and posted tasks. */
#include "base/loop.h"

#include <assert.h>

/* Timers of one turn: however many are due, what else the loop has to do comes in between. */
#define FIRED_MAX 1000u
/* A task that defers itself for ever would be a bug of ours, which this bound makes visible. */
#define RAN_MAX 100000000u

void hf__loop_init(struct hf_loop *loop, int64_t (*clock)(void *), void (*wake)(void *), void *arg)
{
    loop->clock = clock;
    loop->wake = wake;
    loop->arg = arg;
    loop->now_ms = clock(arg);
    loop->turning = false;
    loop->watches_more = false;
    loop->woken = 0;
    loop->until = NULL;
    loop->heap = NULL;
    hf__link_init(&loop->ready);
    atomic_init(&loop->posted, NULL);
    atomic_init(&loop->awake, false);
}

void hf__task_init(struct hf_task *task, void (*run)(struct hf_task *))
{
    hf__link_init(&task->link);
    task->run = run;
}

void hf__loop_defer(struct hf_loop *loop, struct hf_task *task)
{
    if (!hf__link_linked(&task->link))
        hf__list_append(&loop->ready, &task->link);
}

void hf__loop_post(struct hf_loop *loop, struct hf_task *task)
{
    struct hf_task *head = atomic_load_explicit(&loop->posted, memory_order_relaxed);
    do
        task->posted_next = head;
    while (!atomic_compare_exchange_weak_explicit(&loop->posted, &head, task, memory_order_seq_cst,
                                                  memory_order_relaxed));
    /* The task that finds the stack empty wakes the loop; the others ride along. */
    if (!head && !atomic_load(&loop->awake))
        loop->wake(loop->arg);
}

/* Takes the whole stack, so that tasks run in the order they were posted: each goes in front of
 * those that were posted after it. False: there was none. */
static bool take_posted(struct hf_loop *loop)
{
    struct hf_task *last = atomic_exchange_explicit(&loop->posted, NULL, memory_order_acquire);
    struct hf_link *before = loop->ready.prev;
    for (struct hf_task *task = last, *next; task; task = next) {
        next = task->posted_next;
        hf__list_append(before->next, &task->link);
    }
    return last != NULL;
}

/* ---- timers: a pairing heap, intrusive, so that starting one cannot fail ---- */

/* Of two heaps, either of which may be empty. Only their roots' children count: a root's siblings
 * are forgotten. */
static struct hf_timer *meld(struct hf_timer *a, struct hf_timer *b)
{
    struct hf_timer *first = !a || (b && b->at_ms < a->at_ms) ? b : a;
    struct hf_timer *second = first == a ? b : a;
    if (!first)
        return NULL;
    if (second) {
        second->previous = first;
        second->sibling = first->child;
        if (first->child)
            first->child->previous = second;
        first->child = second;
    }
    first->sibling = first->previous = NULL;
    return first;
}

/* Pairs the siblings from left to right, then melds the pairs from right to left. */
static struct hf_timer *meld_siblings(struct hf_timer *first)
{
    struct hf_timer *pairs = NULL;
    while (first) {
        struct hf_timer *a = first, *b = first->sibling;
        first = b ? b->sibling : NULL;
        struct hf_timer *pair = meld(a, b);
        pair->sibling = pairs;
        pairs = pair;
    }
    struct hf_timer *root = NULL;
    while (pairs) {
        struct hf_timer *next = pairs->sibling;
        root = meld(root, pairs);
        pairs = next;
    }
    return root;
}

void hf__timer_init(struct hf_timer *timer, void (*fire)(struct hf_timer *))
{
    *timer = (struct hf_timer){ .fire = fire };
}

void hf__timer_stop(struct hf_loop *loop, struct hf_timer *timer)
{
    if (!timer->started)
        return;
    struct hf_timer *below = meld_siblings(timer->child);
    if (timer == loop->heap) {
        loop->heap = below;
    } else {
        if (timer->previous->child == timer)
            timer->previous->child = timer->sibling;
        else
            timer->previous->sibling = timer->sibling;
        if (timer->sibling)
            timer->sibling->previous = timer->previous;
        loop->heap = meld(loop->heap, below);
    }
    timer->started = false;
}

void hf__timer_start(struct hf_loop *loop, struct hf_timer *timer, int64_t at_ms)
{
    hf__timer_stop(loop, timer);
    timer->at_ms = at_ms;
    timer->child = NULL;
    timer->started = true;
    loop->heap = meld(loop->heap, timer);
}

static bool is_due(const struct hf_loop *loop)
{
    return loop->heap && loop->heap->at_ms <= loop->now_ms;
}

/* False: none is ready. */
static bool run_next(struct hf_loop *loop)
{
    struct hf_link *link = hf__list_pop(&loop->ready);
    struct hf_task *task = link ? HF_CONTAINER(link, struct hf_task, link) : NULL;
    if (task)
        task->run(task);
    return task != NULL;
}

/* With all that becomes ready by it, and before what is ready now. There may have been callbacks of
 * the program in this turn: a wait that starts here must not be counted from the start of the turn.
 */
static void run_posted(struct hf_loop *loop)
{
    struct hf_link later;
    loop->now_ms = loop->clock(loop->arg); /* mutant: what-is-heard-in-turn-begins */
    hf__link_init(&later);
    hf__list_append_all(&later, &loop->ready); /* mutant: owner-is-woken-is-heard */
    take_posted(loop);
    for (unsigned ran = 0; run_next(loop); ran++) /* mutant: what-follows */
        assert(ran < RAN_MAX);
    hf__list_append_all(&loop->ready, &later);
}

int64_t hf__loop_turn(struct hf_loop *loop)
{
    loop->now_ms = loop->clock(loop->arg);
    loop->turning = true;
    loop->woken = 0;
    const _Atomic uint32_t *until = take_posted(loop) ? NULL : loop->until;
    /* mutant: turn-fires-all-timers */
    for (unsigned fired = 0; fired < FIRED_MAX && is_due(loop); fired++) {
        struct hf_timer *timer = loop->heap;
        hf__timer_stop(loop, timer);
        timer->fire(timer);
    }
    /* What becomes ready by what runs here belongs to this turn. */
    for (unsigned ran = 0; !(until && *until) && run_next(loop); ran++) {
        assert(ran < RAN_MAX);
        if (loop->woken < HF_LOOP_WAKE_BATCH)
            continue;
        loop->woken = 0;
        if (atomic_load_explicit(&loop->posted, memory_order_relaxed))
            run_posted(loop); /* mutant: owner-is-woken-is-not-heard */
    }
    loop->turning = false;
    if (atomic_load_explicit(&loop->posted, memory_order_relaxed) || !hf__list_empty(&loop->ready))
        return loop->now_ms;
    return hf__loop_next(loop);
}

/* Either the posting thread sees that no thread is awake, or what was posted is seen here. */
bool hf__loop_rest(struct hf_loop *loop)
{
    atomic_store(&loop->awake, false);
    /* mutant: loop-rests-although-something */
    return !atomic_load(&loop->posted) && hf__list_empty(&loop->ready) && !is_due(loop);
}
