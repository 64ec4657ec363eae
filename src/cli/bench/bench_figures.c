/* SPDX-License-Identifier: Apache-2.0 */
/* From samples to figures: percentiles of a run, medians over the rounds. */
#include "bench.h"

#include <stdlib.h>

void cli_bench_record(struct cli_bench_shared *shared, int64_t ns)
{
    if (shared->sample_count < CLI_BENCH_SAMPLES)
        shared->samples[shared->sample_count++] = ns;
}

static int by_length(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

/* The smallest sample that `percent` of all do not exceed. */
static double percentile(const int64_t *samples, unsigned count, unsigned percent)
{
    return (double)samples[((uint64_t)count * percent + 99) / 100 - 1];
}

static double median(const double *values, unsigned count)
{
    double sorted[CLI_BENCH_SERIES];

    for (unsigned i = 0; i < count; i++)
        sorted[i] = values[i];
    qsort(sorted, count, sizeof(sorted[0]), by_size);
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

void cli_bench_collect(struct cli_bench_series *series, struct cli_bench_shared *shared,
                       unsigned batch)
{
    unsigned count = shared->sample_count;
    double shortest, longest;

    if (count == 0 || series->rounds == CLI_BENCH_SERIES)
        return;
    qsort(shared->samples, count, sizeof(shared->samples[0]), by_length);
    series->p50[series->rounds] = percentile(shared->samples, count, 50) / batch;
    series->p99[series->rounds] = percentile(shared->samples, count, 99) / batch;
    shortest = (double)shared->samples[0] / batch;
    longest = (double)shared->samples[count - 1] / batch;
    series->min = series->rounds == 0 || shortest < series->min ? shortest : series->min;
    series->max = longest > series->max ? longest : series->max;
    series->runs += (uint64_t)count * batch;
    series->rounds++;
}

struct cli_bench_row *cli_bench_add_row(struct cli_bench *bench, enum cli_bench_measure measure,
                                        const struct cli_bench_subject *subject)
{
    struct cli_bench_row *row = &bench->rows[bench->row_count++];

    *row = (struct cli_bench_row){ .measure = measure, .subject = subject };
    return row;
}

void cli_bench_add_series(struct cli_bench *bench, enum cli_bench_measure measure,
                          const struct cli_bench_subject *subject,
                          const struct cli_bench_series *series)
{
    struct cli_bench_row *row = cli_bench_add_row(bench, measure, subject);

    row->runs = series->runs;
    if (series->rounds == 0) {
        row->instead = "nothing was measured";
        return;
    }
    row->p50_ns = median(series->p50, series->rounds);
    row->p99_ns = median(series->p99, series->rounds);
    row->min_ns = series->min;
    row->max_ns = series->max;
}

const struct cli_bench_row *cli_bench_find(const struct cli_bench *bench,
                                           enum cli_bench_measure measure,
                                           const struct cli_bench_subject *subject)
{
    for (unsigned i = 0; i < bench->row_count; i++) {
        const struct cli_bench_row *row = &bench->rows[i];
        if (row->measure == measure && row->subject == subject && !row->instead)
            return row;
    }
    return NULL;
}

double cli_bench_speed(const struct cli_bench *bench, const struct cli_bench_row *row)
{
    const struct cli_bench_row *flock = cli_bench_find(bench, row->measure, &cli_bench_flock);

    return flock && row->p50_ns > 0 ? flock->p50_ns / row->p50_ns : 0;
}

const struct cli_bench_row *cli_bench_find_crowd(const struct cli_bench *bench,
                                                 const struct cli_bench_subject *subject,
                                                 unsigned processes)
{
    for (unsigned i = 0; i < bench->row_count; i++) {
        const struct cli_bench_row *row = &bench->rows[i];
        if (row->measure == CLI_BENCH_CROWD && row->subject == subject &&
            row->processes == processes)
            return row;
    }
    return NULL;
}

double cli_bench_crowd_speed(const struct cli_bench *bench, const struct cli_bench_row *row)
{
    const struct cli_bench_row *flock =
        cli_bench_find_crowd(bench, &cli_bench_flock, row->processes);

    return flock && flock->total > 0 ? row->total / flock->total : 0;
}

double cli_bench_evenness(const struct cli_bench_row *row)
{
    return row->mean > 0 ? row->least / row->mean : 0;
}

void cli_bench_format_ns(char buffer[16], double ns)
{
    static const char *const units[] = { "ns", "us", "ms", "s" };
    unsigned unit = 0;

    while (ns >= 999.5 && unit < 3) {
        ns /= 1000;
        unit++;
    }
    snprintf(buffer, 16, "%.*f %s", ns < 9.995 ? 2 : ns < 99.95, ns, units[unit]);
}
