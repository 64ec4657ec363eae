/* SPDX-License-Identifier: Apache-2.0 */
/* What holdfast aims at, judged by the figures of this run. All times are medians. */
#include "bench.h"

static void add(struct cli_bench_aim *aims, unsigned *count, struct cli_bench_aim aim)
{
    aims[(*count)++] = aim;
}

static void judge_pair(const struct cli_bench *bench, struct cli_bench_aim *aims, unsigned *count)
{
    const struct cli_bench_row *row = cli_bench_find(bench, CLI_BENCH_PAIR, &bench->plain);
    double speed = row ? cli_bench_speed(bench, row) : 0;

    if (row)
        add(aims, count,
            (struct cli_bench_aim){ "lock + unlock", "at most 0.50 us", row->p50_ns, true,
                                    row->p50_ns <= 500 });
    if (speed > 0)
        add(aims, count,
            (struct cli_bench_aim){ "lock + unlock, times flock's speed", "at least 2", speed,
                                    false, speed >= 2 });
}

static void judge_time(const struct cli_bench *bench, struct cli_bench_aim *aims, unsigned *count,
                       enum cli_bench_measure measure, struct cli_bench_aim aim, double limit_ns)
{
    const struct cli_bench_subject *subject =
        measure == CLI_BENCH_REENTRY ? &bench->plain : &bench->fair;
    const struct cli_bench_row *row = cli_bench_find(bench, measure, subject);

    if (!row)
        return;
    aim.figure = row->p50_ns;
    aim.is_time = true;
    aim.met = row->p50_ns <= limit_ns;
    add(aims, count, aim);
}

/* Against what a program could use instead, in the same run. */
static void judge_ratio(const struct cli_bench *bench, struct cli_bench_aim *aims, unsigned *count,
                        enum cli_bench_measure measure, const struct cli_bench_subject *ours,
                        const struct cli_bench_subject *theirs, struct cli_bench_aim aim,
                        double most)
{
    const struct cli_bench_row *mine = cli_bench_find(bench, measure, ours);
    const struct cli_bench_row *other = cli_bench_find(bench, measure, theirs);

    if (!mine || !other || other->p50_ns <= 0)
        return;
    aim.figure = mine->p50_ns / other->p50_ns;
    aim.met = aim.figure <= most;
    add(aims, count, aim);
}

static void judge_crowds(const struct cli_bench *bench, struct cli_bench_aim *aims, unsigned *count)
{
    static const struct {
        unsigned processes;
        const char *what;
    } crowds[] = { { 2, "crowd of 2, times flock's speed" },
                   { 4, "crowd of 4, times flock's speed" },
                   { 16, "crowd of 16, times flock's speed" } };
    const struct cli_bench_row *row = NULL;

    for (unsigned i = 0; i < sizeof(crowds) / sizeof(crowds[0]); i++) {
        row = cli_bench_find_crowd(bench, &bench->plain, crowds[i].processes);
        double speed = row ? cli_bench_crowd_speed(bench, row) : 0;
        if (speed > 0)
            add(aims, count,
                (struct cli_bench_aim){ crowds[i].what, "at least 1", speed, false, speed >= 1 });
    }
    if (row)
        add(aims, count,
            (struct cli_bench_aim){ "crowd of 16, longest wait", "at most 5 ms", row->longest_ns,
                                    true, row->longest_ns <= 5e6 });
}

/* The least even crowd counts. */
static void judge_evenness(const struct cli_bench *bench, struct cli_bench_aim *aims,
                           unsigned *count)
{
    double worst = 2;

    for (unsigned i = 0; i < bench->row_count; i++) {
        const struct cli_bench_row *row = &bench->rows[i];
        if (row->measure == CLI_BENCH_CROWD && row->subject == &bench->fair && row->processes > 1 &&
            cli_bench_evenness(row) < worst)
            worst = cli_bench_evenness(row);
    }
    if (worst <= 1)
        add(aims, count,
            (struct cli_bench_aim){ "crowd, least against mean", "at least 0.50", worst, false,
                                    worst >= 0.5 });
}

unsigned cli_bench_judge(const struct cli_bench *bench, struct cli_bench_aim aims[CLI_BENCH_AIMS])
{
    unsigned count = 0;

    if (bench->local)
        judge_pair(bench, aims, &count);
    judge_time(bench, aims, &count, CLI_BENCH_REENTRY,
               (struct cli_bench_aim){ .what = "re-entry", .wanted = "below 100 ns" }, 100);
    if (bench->local) {
        judge_ratio(bench, aims, &count, CLI_BENCH_PAIR, &bench->plain, &cli_bench_mutex,
                    (struct cli_bench_aim){ .what = "lock + unlock, times the robust mutex",
                                            .wanted = "at most 4" },
                    4);
        judge_ratio(
            bench, aims, &count, CLI_BENCH_HANDOVER, &bench->fair, &cli_bench_flock,
            (struct cli_bench_aim){ .what = "hand-over, times flock's", .wanted = "at most 1.2" },
            1.2);
        judge_ratio(
            bench, aims, &count, CLI_BENCH_TAKEOVER, &bench->fair, &cli_bench_flock,
            (struct cli_bench_aim){ .what = "takeover, times flock's", .wanted = "at most 1" }, 1);
        judge_crowds(bench, aims, &count);
    }
    judge_evenness(bench, aims, &count);
    return count;
}
