/* SPDX-License-Identifier: Apache-2.0 */
/* Figures for programs: one object. Times are nanoseconds. */
#include "bench.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static const char *const keys[] = {
    [CLI_BENCH_PAIR] = "lock_unlock",   [CLI_BENCH_REENTRY] = "reentry",
    [CLI_BENCH_HANDOVER] = "hand_over", [CLI_BENCH_TAKEOVER] = "takeover",
    [CLI_BENCH_CROWD] = "crowd",
};

static void print_string(const char *key, const char *value)
{
    printf("\"%s\":", key);
    cli_json_string(stdout, value, strlen(value));
}

static void print_row(const struct cli_bench *bench, const struct cli_bench_row *row)
{
    double speed = cli_bench_speed(bench, row);

    printf("{\"measure\":\"%s\",\"subject\":\"%s\",", keys[row->measure], row->subject->key);
    if (row->instead) {
        print_string("instead", row->instead);
    } else if (row->measure == CLI_BENCH_CROWD) {
        printf("\"processes\":%u,\"per_second\":%.1f,\"least\":%.1f,\"mean\":%.1f,\"most\":%.1f,"
               "\"evenness\":%.4f,\"longest_ns\":%.0f,\"runs\":%" PRIu64,
               row->processes, row->total, row->least, row->mean, row->most,
               cli_bench_evenness(row), row->longest_ns, row->runs);
        speed = cli_bench_crowd_speed(bench, row);
    } else {
        printf("\"min_ns\":%.1f,\"p50_ns\":%.1f,\"p99_ns\":%.1f,\"max_ns\":%.1f,\"runs\":%" PRIu64,
               row->min_ns, row->p50_ns, row->p99_ns, row->max_ns, row->runs);
    }
    if (speed > 0)
        printf(",\"times_flock_speed\":%.4f", speed);
    putchar('}');
}

void cli_bench_print_json(const struct cli_bench *bench)
{
    putchar('{');
    print_string("version", hf_version());
    putchar(',');
    print_string("store", bench->shared->url);
    printf(",\"processors\":%ld,\"load\":%.2f,\"rounds\":%u,\"rows\":[",
           sysconf(_SC_NPROCESSORS_ONLN), bench->load, bench->plan.rounds);
    for (unsigned i = 0; i < bench->row_count; i++) {
        fputs(i ? ",\n " : "\n ", stdout);
        print_row(bench, &bench->rows[i]);
    }
    fputs("],\n\"aims\":[", stdout);
    struct cli_bench_aim aims[CLI_BENCH_AIMS];
    unsigned count = cli_bench_judge(bench, aims);

    for (unsigned i = 0; i < count; i++) {
        printf("%s\n {", i ? "," : "");
        print_string("what", aims[i].what);
        printf(",\"%s\":%.4f,", aims[i].is_time ? "figure_ns" : "figure", aims[i].figure);
        print_string("wanted", aims[i].wanted);
        printf(",\"met\":%s}", aims[i].met ? "true" : "false");
    }
    puts("]}");
}
