/* SPDX-License-Identifier: Apache-2.0 */
/* Lock and unlock without contention, and re-entry: many pairs by one process, while another one
 * has the store open too. */
#include "bench.h"

#include <time.h>

/* A figure of fewer says nothing, and connecting is no part of it. */
enum { SAMPLES_MIN = 50, WARM_UP_MIN = 20 };

/* The time that is allowed begins here: warming up may have taken longer than that. */
static void time_batches(struct cli_bench_child *child)
{
    struct cli_bench_shared *shared = child->bench->shared;
    const struct cli_bench_subject *subject = child->subject;
    int64_t before_ns = cli_bench_now_ns(), after_ns;
    int64_t deadline_ns = before_ns + child->run_ms * 1000000;

    do {
        for (unsigned i = 0; i < subject->batch; i++) {
            subject->lock(child->lock, 0);
            subject->unlock(child->lock, 0);
        }
        after_ns = cli_bench_now_ns();
        cli_bench_record(shared, after_ns - before_ns);
        before_ns = after_ns;
    } while ((before_ns < deadline_ns || shared->sample_count < SAMPLES_MIN) &&
             shared->sample_count < CLI_BENCH_SAMPLES);
}

static void warm_up(struct cli_bench_child *child)
{
    unsigned pairs = 5 * child->subject->batch;

    for (unsigned i = 0; i < pairs || i < WARM_UP_MIN; i++) {
        child->subject->lock(child->lock, 0);
        child->subject->unlock(child->lock, 0);
    }
}

/* So that no process is alone with the store: other names, now and then, until the first has
 * ended. */
static void keep_company(struct cli_bench_child *child)
{
    const struct timespec pause = { .tv_nsec = 100000 };

    for (unsigned i = 0; !atomic_load(&child->bench->shared->stop); i++) {
        unsigned name = 1 + i % (CLI_BENCH_NAMES - 1);
        child->subject->lock(child->lock, name);
        child->subject->unlock(child->lock, name);
        nanosleep(&pause, NULL);
    }
}

static void run_pairs(struct cli_bench_child *child)
{
    if (child->index == 1) {
        keep_company(child);
        return;
    }
    warm_up(child);
    time_batches(child);
    atomic_store(&child->bench->shared->stop, true);
}

static void run_nested(struct cli_bench_child *child)
{
    if (child->index == 1) {
        keep_company(child);
        return;
    }
    child->subject->lock(child->lock, 0);
    warm_up(child);
    time_batches(child);
    child->subject->unlock(child->lock, 0);
    atomic_store(&child->bench->shared->stop, true);
}

static bool measure(struct cli_bench *bench, enum cli_bench_measure measure,
                    const struct cli_bench_subject *const *subjects, unsigned count,
                    void (*run)(struct cli_bench_child *child))
{
    struct cli_bench_series series[CLI_BENCH_SUBJECTS] = { 0 };

    for (unsigned round = 0; round < bench->plan.rounds; round++) {
        for (unsigned i = 0; i < count; i++) {
            if (!cli_bench_fork(bench, subjects[i], 2, bench->plan.run_ms, run) ||
                !cli_bench_reap(bench))
                return false;
            cli_bench_collect(&series[i], bench->shared, subjects[i]->batch);
        }
    }
    for (unsigned i = 0; i < count; i++)
        cli_bench_add_series(bench, measure, subjects[i], &series[i]);
    return true;
}

bool cli_bench_pairs(struct cli_bench *bench, const struct cli_bench_subject *const *subjects,
                     unsigned count)
{
    return measure(bench, CLI_BENCH_PAIR, subjects, count, run_pairs);
}

bool cli_bench_reentry(struct cli_bench *bench, const struct cli_bench_subject *const *subjects,
                       unsigned count)
{
    return measure(bench, CLI_BENCH_REENTRY, subjects, count, run_nested);
}
