/* SPDX-License-Identifier: Apache-2.0 */
/* Figures for people: one table, a section a measurement, and in the end what was aimed at. */
#include "bench.h"

#include <inttypes.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static const char *const headings[] = {
    [CLI_BENCH_PAIR] = "LOCK + UNLOCK, uncontended",
    [CLI_BENCH_REENTRY] = "RE-ENTRY, lock + unlock by the owner",
    [CLI_BENCH_HANDOVER] = "HAND-OVER to a waiting process",
    [CLI_BENCH_TAKEOVER] = "TAKEOVER after SIGKILL of the holder",
    [CLI_BENCH_CROWD] = "CROWD, each in a loop on one lock",
};

/* 1234567 becomes "1,234,567". */
static void format_count(char buffer[32], uint64_t count)
{
    char digits[24];
    size_t length = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, count), out = 0;

    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            buffer[out++] = ',';
        buffer[out++] = digits[i];
    }
    buffer[out] = '\0';
}

void cli_bench_print_head(const struct cli_bench *bench)
{
    struct utsname system;

    uname(&system);
    printf("holdfast %s on %s\n", hf_version(), bench->shared->url);
    printf("%ld processors, load %.2f, %s %s\n", sysconf(_SC_NPROCESSORS_ONLN), bench->load,
           system.sysname, system.release);
    if (bench->load > 0.5)
        puts("The machine has other work to do, which spoils figures: compare them, do not quote "
             "them.");
}

static void print_times(const struct cli_bench *bench, const struct cli_bench_row *row)
{
    char p50[16], other[16], runs[32], speed[16] = "";
    double times = cli_bench_speed(bench, row);

    if (row->instead) {
        printf("  %-38s %s\n", row->subject->title, row->instead);
        return;
    }
    cli_bench_format_ns(p50, row->p50_ns);
    cli_bench_format_ns(other, row->measure == CLI_BENCH_TAKEOVER ? row->max_ns : row->p99_ns);
    format_count(runs, row->runs);
    if (times > 0)
        snprintf(speed, sizeof(speed), "%.*fx", times < 0.1 ? 3 : 2, times);
    printf("  %-38s %10s %10s %10s %13s\n", row->subject->title, p50, other, speed, runs);
}

static void print_crowd(const struct cli_bench *bench, const struct cli_bench_row *row)
{
    char title[64], total[32], least[32], longest[16], speed[16] = "";
    double times = cli_bench_crowd_speed(bench, row);

    snprintf(title, sizeof(title), "%s, %u process%s", row->subject->title, row->processes,
             row->processes == 1 ? "" : "es");
    format_count(total, (uint64_t)row->total);
    format_count(least, (uint64_t)row->least);
    cli_bench_format_ns(longest, row->longest_ns);
    if (times > 0)
        snprintf(speed, sizeof(speed), "%.*fx", times < 0.1 ? 3 : 2, times);
    printf("  %-38s %10s %10s %10s %10s %9.2f\n", title, total, speed, least, longest,
           cli_bench_evenness(row));
}

void cli_bench_print_rows(const struct cli_bench *bench, enum cli_bench_measure measure)
{
    bool compared = cli_bench_find(bench, measure, &cli_bench_flock) != NULL;

    if (measure == CLI_BENCH_CROWD)
        printf("\n%-40s %10s %10s %10s %10s %9s\n", headings[measure], "locks/s",
               compared ? "vs flock" : "", "least", "longest", "evenness");
    else
        printf("\n%-40s %10s %10s %10s %13s\n", headings[measure], "p50",
               measure == CLI_BENCH_TAKEOVER ? "max" : "p99", compared ? "vs flock" : "", "runs");
    for (unsigned i = 0; i < bench->row_count; i++) {
        if (bench->rows[i].measure != measure)
            continue;
        if (measure == CLI_BENCH_CROWD)
            print_crowd(bench, &bench->rows[i]);
        else
            print_times(bench, &bench->rows[i]);
    }
    cli_flush();
}

static void print_notes(const struct cli_bench *bench)
{
    unsigned rounds = bench->plan.rounds, runs = bench->plan.crowd_rounds;
    bool sqlite = false;

    for (unsigned i = 0; i < bench->row_count; i++)
        sqlite = sqlite || strcmp(bench->rows[i].subject->key, "sqlite") == 0;
    printf("\nTimes     p50 and p99 of each round; of those the median over %u round%s.\n", rounds,
           cli_plural(rounds));
    if (bench->plain.batch > 1)
        printf("Pairs     The clock is read every %u of them%s, so p99 is that of their means.\n",
               bench->plain.batch, sqlite ? " (SQLite: each)" : "");
    puts("          Meanwhile a second process takes other names, one every 0.1 ms.\n"
         "Hand-over From the call to unlock to the other one's return from lock, in which it has\n"
         "          been for 20 us or longer.");
    if (sqlite)
        puts("          SQLite cannot wake a waiter: it polls the table of locks every 1 ms.");
    puts("Takeover  From the kill to the return from lock, in which the other has been for 30 ms.");
    printf(
        "Crowd     %u run%s of %.1f s each, the one of middling evenness (least / mean) shown.\n",
        runs, cli_plural(runs), (double)bench->plan.crowd_ms / 1000);
    puts("          longest: from one unlock of a process to its next, the worst of all.\n"
         "          Each turn also reads the clock. The lock guards a plain number, which takes "
         "0.1 us\n"
         "          to change, and no change was lost.");
}

void cli_bench_print_end(const struct cli_bench *bench)
{
    struct cli_bench_aim aims[CLI_BENCH_AIMS];
    unsigned count = cli_bench_judge(bench, aims);

    puts("\nAIMS");
    for (unsigned i = 0; i < count; i++) {
        char figure[16];
        if (aims[i].is_time)
            cli_bench_format_ns(figure, aims[i].figure);
        else
            snprintf(figure, sizeof(figure), "%.2f", aims[i].figure);
        printf("  %-38s %10s   %-16s %s\n", aims[i].what, figure, aims[i].wanted,
               aims[i].met ? "met" : "NOT MET");
    }
    print_notes(bench);
}
