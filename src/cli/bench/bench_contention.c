/* SPDX-License-Identifier: Apache-2.0 */
/* Many processes on one lock, each in a loop: how much gets done, and how evenly. */
#include "bench.h"

static const unsigned crowds[] = { 2, 4, 16 };

enum { CROWDS = sizeof(crowds) / sizeof(crowds[0]) };

static void crowd(struct cli_bench_child *child)
{
    struct cli_bench_shared *shared = child->bench->shared;
    int64_t deadline_ns = atomic_load(&shared->deadline_ns), now_ns;
    int64_t before_ns = cli_bench_now_ns(), longest_ns = 0;
    uint64_t count = 0;

    do {
        child->subject->lock(child->lock, 0);
        /* Not in one step: a lock that lets two in is to be found out. Takes about 0.1 us. */
        uint64_t before = shared->guarded;

        for (volatile unsigned i = 0; i < 64; i++)
            ;
        shared->guarded = before + 1;
        count++;
        child->subject->unlock(child->lock, 0);
        now_ns = cli_bench_now_ns();
        longest_ns = now_ns - before_ns > longest_ns ? now_ns - before_ns : longest_ns;
        before_ns = now_ns;
    } while (now_ns < deadline_ns);
    shared->counts[child->index] = count;
    shared->longest_ns[child->index] = longest_ns;
}

/* The figures of one run. False: the lock did not exclude, which has been said. */
static bool sum_up(struct cli_bench *bench, struct cli_bench_row *row)
{
    const struct cli_bench_shared *shared = bench->shared;
    double seconds = (double)bench->plan.crowd_ms / 1000;
    uint64_t sum = 0, least = UINT64_MAX, most = 0;

    for (unsigned i = 0; i < row->processes; i++) {
        uint64_t count = shared->counts[i];
        sum += count;
        least = count < least ? count : least;
        most = count > most ? count : most;
        if ((double)shared->longest_ns[i] > row->longest_ns)
            row->longest_ns = (double)shared->longest_ns[i];
    }
    row->runs = sum;
    row->total = (double)sum / seconds;
    row->least = (double)least / seconds;
    row->mean = row->total / row->processes;
    row->most = (double)most / seconds;
    if (shared->guarded == sum)
        return true;
    cli_complain("%s let two processes in at once: %llu of %llu changes under it were overwritten",
                 row->subject->title, (unsigned long long)(sum - shared->guarded),
                 (unsigned long long)sum);
    bench->exit_code = CLI_INTERNAL;
    return false;
}

/* The middle one of the rounds by evenness, so that its figures belong together. */
static struct cli_bench_row middle(struct cli_bench_row *rows, unsigned count)
{
    for (unsigned i = 1; i < count; i++) {
        for (unsigned j = i;
             j > 0 && cli_bench_evenness(&rows[j]) < cli_bench_evenness(&rows[j - 1]); j--) {
            struct cli_bench_row swap = rows[j];
            rows[j] = rows[j - 1];
            rows[j - 1] = swap;
        }
    }
    return rows[(count - 1) / 2];
}

static bool measure(struct cli_bench *bench, const struct cli_bench_subject *subject,
                    unsigned processes, struct cli_bench_row *row)
{
    *row = (struct cli_bench_row){ .subject = subject, .processes = processes };
    return cli_bench_fork(bench, subject, processes, bench->plan.crowd_ms, crowd) &&
           cli_bench_reap(bench) && sum_up(bench, row);
}

bool cli_bench_crowd(struct cli_bench *bench, const struct cli_bench_subject *const *subjects,
                     unsigned count)
{
    struct cli_bench_row rounds[4][CROWDS][CLI_BENCH_ROUNDS];

    for (unsigned round = 0; round < bench->plan.crowd_rounds; round++)
        for (unsigned i = 0; i < CROWDS; i++)
            for (unsigned j = 0; j < count; j++)
                if (!measure(bench, subjects[j], crowds[i], &rounds[j][i][round]))
                    return false;
    for (unsigned j = 0; j < count; j++) {
        for (unsigned i = 0; i < CROWDS; i++) {
            struct cli_bench_row *row = cli_bench_add_row(bench, CLI_BENCH_CROWD, subjects[j]);
            *row = middle(rounds[j][i], bench->plan.crowd_rounds);
            row->measure = CLI_BENCH_CROWD;
        }
    }
    return true;
}
