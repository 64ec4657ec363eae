/* SPDX-License-Identifier: Apache-2.0 */
/* Hand-over between two processes: from the moment at which the holder begins to unlock, or is
 * killed, to the moment at which the other one holds. */
#include "bench.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

/* How long the other one has waited before it is handed the lock. */
enum { SETTLE_NS = 20000, DEATH_SETTLE_MS = 30 };

static void spin(unsigned turn)
{
    if (turn % 64 == 63)
        sched_yield();
#if defined(__x86_64__) || defined(__i386__)
    else
        __builtin_ia32_pause();
#endif
}

/* Holds until the other one waits, and has done so for a while. */
static void hold(struct cli_bench_child *child)
{
    struct cli_bench_shared *shared = child->bench->shared;
    int64_t longer_ns = child->subject->hold_us ? rand() % (child->subject->hold_us * 1000) : 0;
    int64_t until_ns;

    for (unsigned i = 0; !atomic_load(&shared->waiting[!child->index]); i++) {
        if (atomic_load(&shared->stop))
            return;
        spin(i);
    }
    until_ns = cli_bench_now_ns() + SETTLE_NS + longer_ns;
    for (unsigned i = 0; cli_bench_now_ns() < until_ns; i++)
        spin(i);
}

static void play(struct cli_bench_child *child)
{
    struct cli_bench_shared *shared = child->bench->shared;
    int64_t now_ns;

    while (!atomic_load(&shared->stop)) {
        atomic_store(&shared->waiting[child->index], true);
        child->subject->lock(child->lock, 0);
        now_ns = cli_bench_now_ns();
        atomic_store(&shared->waiting[child->index], false);
        if (atomic_load(&shared->holder) == !child->index)
            cli_bench_record(shared, now_ns - atomic_load(&shared->released_ns));
        atomic_store(&shared->holder, (int)child->index);
        if (now_ns > atomic_load(&shared->deadline_ns) && shared->sample_count > 0)
            atomic_store(&shared->stop, true);
        hold(child);
        atomic_store(&shared->released_ns, cli_bench_now_ns());
        child->subject->unlock(child->lock, 0);
        /* Locks that are not fair would let us overtake the other one. */
        int other = !child->index;

        for (unsigned i = 0; atomic_load(&shared->holder) != other && !atomic_load(&shared->stop);
             i++)
            spin(i);
    }
}

bool cli_bench_handover(struct cli_bench *bench, const struct cli_bench_subject *const *subjects,
                        unsigned count)
{
    struct cli_bench_series series[CLI_BENCH_SUBJECTS] = { 0 };

    for (unsigned round = 0; round < bench->plan.rounds; round++) {
        for (unsigned i = 0; i < count; i++) {
            if (!cli_bench_fork(bench, subjects[i], 2, bench->plan.run_ms, play) ||
                !cli_bench_reap(bench))
                return false;
            cli_bench_collect(&series[i], bench->shared, 1);
        }
    }
    for (unsigned i = 0; i < count; i++)
        cli_bench_add_series(bench, CLI_BENCH_HANDOVER, subjects[i], &series[i]);
    return true;
}

/* The first holds until it is killed, the second waits for that. */
static void hold_or_inherit(struct cli_bench_child *child)
{
    struct cli_bench_shared *shared = child->bench->shared;

    if (child->index == 0) {
        child->subject->lock(child->lock, 0);
        atomic_store(&shared->holder, 0);
        for (;;)
            pause();
    }
    while (atomic_load(&shared->holder) != 0)
        cli_bench_pause();
    atomic_store(&shared->waiting[1], true);
    child->subject->lock(child->lock, 0);
    cli_bench_record(shared, cli_bench_now_ns() - atomic_load(&shared->released_ns));
    child->subject->unlock(child->lock, 0);
}

static bool kill_holder(struct cli_bench *bench, const struct cli_bench_subject *subject)
{
    if (!cli_bench_fork(bench, subject, 2, 0, hold_or_inherit) ||
        !cli_bench_wait_for(bench, &bench->shared->waiting[1]) ||
        !cli_bench_wait_ms(bench, DEATH_SETTLE_MS))
        return false;
    atomic_store(&bench->shared->released_ns, cli_bench_now_ns());
    cli_bench_kill(bench, 0);
    return cli_bench_reap(bench);
}

/* Without a figure where none is available: a lease ends when it ends. */
static const char *no_figure(const struct cli_bench *bench, const struct cli_bench_subject *subject)
{
    if (subject->no_takeover || (!bench->local && !bench->shared->lease_free))
        return "when the lease ends";
    return NULL;
}

bool cli_bench_takeover(struct cli_bench *bench, const struct cli_bench_subject *const *subjects,
                        unsigned count)
{
    struct cli_bench_series series[CLI_BENCH_SUBJECTS] = { 0 };

    for (unsigned round = 0; round < bench->plan.rounds; round++) {
        for (unsigned i = 0; i < count; i++) {
            if (no_figure(bench, subjects[i]))
                continue;
            for (unsigned death = 0; death < bench->plan.deaths; death++) {
                if (!kill_holder(bench, subjects[i]))
                    return false;
                cli_bench_collect(&series[i], bench->shared, 1);
            }
        }
    }
    for (unsigned i = 0; i < count; i++) {
        cli_bench_add_series(bench, CLI_BENCH_TAKEOVER, subjects[i], &series[i]);
        bench->rows[bench->row_count - 1].instead = no_figure(bench, subjects[i]);
    }
    return true;
}
