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
        judge_time(bench, aims, &count, CLI_BENCH_HANDOVER,
                   (struct cli_bench_aim){ .what = "hand-over", .wanted = "at most 10 us" }, 10000);
        judge_time(bench, aims, &count, CLI_BENCH_TAKEOVER,
                   (struct cli_bench_aim){ .what = "takeover", .wanted = "below 5 ms" }, 5e6);
    }
    judge_evenness(bench, aims, &count);
    return count;
}
