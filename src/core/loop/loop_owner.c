/* SPDX-License-Identifier: Apache-2.0 */
/* Hands the wheel to and fro. All of it is sequentially consistent: each side says what it does,
 * then looks at what the others have said. */
#include "core/loop/loop_owner.h"

#include "base/clock.h"
#include "base/futex.h"

HF_TUNABLE int64_t hf__loop_owner_grace_ms = 10;

enum { AT_THREAD, AT_PARKED, AT_CALLER };

enum { SEQ_SLEEPS = 1, SEQ_CHANGED };

void hf__loop_owner_init(struct hf_loop_owner *wheel, struct hf_loop *loop)
{
    *wheel = (struct hf_loop_owner){ .loop = loop };
}

/* Where there are many, none writes to what all of them read. */
static void count_alone(struct hf_loop_owner *wheel, bool is_alone)
{
    uint32_t alone = atomic_load_explicit(&wheel->alone, memory_order_relaxed);
    uint32_t now = is_alone ? alone + 1 : 0;
    if (now != alone && now <= HF_LOOP_OWNER_ALONE)
        atomic_store_explicit(&wheel->alone, now, memory_order_relaxed);
}

void hf__loop_owner_enter(struct hf_loop_owner *wheel)
{
    count_alone(wheel, atomic_fetch_add(&wheel->waiting, 1) == 0);
}

void hf__loop_owner_request_begins(struct hf_loop_owner *wheel)
{
    bool alone = atomic_fetch_add(&wheel->requests, 1) == 0;
    if (wheel->shared)
        count_alone(wheel, alone && atomic_load(&wheel->waiting) == 0);
}

void hf__loop_owner_exit(struct hf_loop_owner *wheel)
{
    atomic_fetch_sub(&wheel->waiting, 1);
}

static bool take_parked(struct hf_loop_owner *wheel)
{
    uint32_t parked = AT_PARKED;
    if (atomic_load_explicit(&wheel->at, memory_order_relaxed) != AT_PARKED ||
        !atomic_compare_exchange_strong(&wheel->at, &parked, AT_CALLER))
        return false;
    atomic_fetch_add(&wheel->taken, 1);
    atomic_store(&wheel->loop->awake, true);
    return true;
}

/* Only the thread, or a program that watches, may run what answers a request. */
bool hf__loop_owner_acquire(struct hf_loop_owner *wheel)
{
    if (!take_parked(wheel))
        return false;
    if (atomic_load(&wheel->requests) == 0) /* mutant: caller-turns-the-loop-of-a-request */
        return true;
    hf__loop_owner_release(wheel, true);
    return false;
}

bool hf__loop_owner_acquire_watched(struct hf_loop_owner *wheel)
{
    return wheel->shared && atomic_load(&wheel->waiting) == 0 &&
           atomic_load(&wheel->requests) <= 1 && take_parked(wheel);
}

static void ring(struct hf_loop_owner *wheel)
{
    if (atomic_exchange(&wheel->bell, SEQ_CHANGED) == SEQ_SLEEPS)
        hf__futex_wake_all(&wheel->bell);
}

bool hf__loop_owner_wake(struct hf_loop_owner *wheel)
{
    uint32_t parked = AT_PARKED;
    if (!atomic_compare_exchange_strong(&wheel->at, &parked, AT_THREAD))
        return false;
    ring(wheel);
    return true;
}

void hf__loop_owner_release(struct hf_loop_owner *wheel, bool work_left)
{
    int64_t next_ms = hf__loop_next(wheel->loop);
    atomic_store(&wheel->loop->awake, false);
    if (work_left) {
        atomic_store_explicit(&wheel->alone, 0, memory_order_relaxed);
        atomic_store(&wheel->at, AT_THREAD);
        ring(wheel);
        return;
    }
    atomic_store(&wheel->at, AT_PARKED);
    /* A caller that posted before that found a thread at the wheel, and woke no other. */
    if (atomic_load(&wheel->loop->posted) || next_ms < atomic_load(&wheel->wakes_at_ms))
        hf__loop_owner_wake(wheel);
}

bool hf__loop_owner_may_park(const struct hf_loop_owner *wheel, unsigned told)
{
    return atomic_load_explicit(&wheel->alone, memory_order_relaxed) >= HF_LOOP_OWNER_ALONE &&
           atomic_load(&wheel->waiting) == told && atomic_load(&wheel->requests) == 0 &&
           !atomic_load(&wheel->loop->posted);
}

void hf__loop_owner_park(struct hf_loop_owner *wheel)
{
    int64_t next_ms = hf__loop_next(wheel->loop);
    int64_t late_ms = hf__clock_ms() + hf__loop_owner_grace_ms;
    atomic_store(&wheel->wanted, false);
    atomic_store(&wheel->wakes_at_ms, next_ms < late_ms ? next_ms : late_ms);
    atomic_store(&wheel->loop->awake, false);
    atomic_store(&wheel->at, AT_PARKED);
    if (atomic_load(&wheel->loop->posted))
        hf__loop_owner_wake(wheel);
}

/* True: the wheel is the thread's. */
static bool sleep_on_bell(struct hf_loop_owner *wheel)
{
    atomic_store(&wheel->bell, SEQ_SLEEPS);
    if (atomic_load(&wheel->at) != AT_THREAD)
        hf__futex_wait_until(&wheel->bell, SEQ_SLEEPS, atomic_load(&wheel->wakes_at_ms));
    return atomic_load(&wheel->at) == AT_THREAD;
}

void hf__loop_owner_reclaim(struct hf_loop_owner *wheel)
{
    uint32_t seen = 0, often = 0;
    while (!sleep_on_bell(wheel)) {
        if (hf__clock_ms() < atomic_load(&wheel->wakes_at_ms))
            continue;
        uint32_t parked = AT_PARKED;
        if (atomic_compare_exchange_strong(&wheel->at, &parked, AT_THREAD))
            return;
        uint32_t taken = atomic_load(&wheel->taken);
        often = taken == seen ? often + 1 : 0;
        seen = taken;
        if (often >= HF_LOOP_OWNER_LOOKS) {
            atomic_store(&wheel->wanted, true);
            wheel->loop->wake(wheel->loop->arg);
        }
        /* A caller that leaves after this calls earlier if it must; one that has left before is
         * seen here. */
        atomic_store(&wheel->wakes_at_ms, hf__clock_ms() + hf__loop_owner_grace_ms);
        parked = AT_PARKED;
        if (atomic_compare_exchange_strong(&wheel->at, &parked, AT_THREAD))
            return;
    }
}
