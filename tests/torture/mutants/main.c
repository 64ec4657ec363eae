/* SPDX-License-Identifier: Apache-2.0 */
/* torture-mutants: tries every mutant, and the one that is right, and prints who was caught by
 * what.
 */
#include "runner.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { RUNS_MAX = 99 };

static const char usage_text[] =
    "usage: torture-mutants [--runs N] [--only WORD] [--seed N] [--draw DIRECTORY] [--markdown]\n"
    "                       [--control] [--sandbox redis]\n"
    "\n"
    "Tortures locks that are wrong on purpose, and one that is right. Each wrong one must break "
    "the\n"
    "rule that is named for it, the right one none.\n"
    "\n"
    "  --runs N          each so often; the seconds are the median and the most (1)\n"
    "  --only WORD       those with this word in their name\n"
    "  --seed N          of the first run (1)\n"
    "  --draw DIRECTORY  a picture of each violation\n"
    "  --markdown        the table as it is in docs/torture.md\n"
    "  --control         the right one in the place of each: nothing may be found\n"
    "  --sandbox redis   those that are mutexes, on a Redis server that is started for them\n";

struct options {
    unsigned runs;
    uint64_t seed;
    const char *only, *draw, *sandbox;
    bool markdown, control;
};

struct tally {
    unsigned caught, missed;
    bool wrong; /* something was found in the right one */
    int signal;
};

/* ---- printing ---- */

static const char *rule_word(const struct mutant_trial *trial)
{
    return trial->mutant ? torture_rule_name(trial->rule) : "-";
}

static void print_faults(const struct mutant_trial *trial)
{
    const char *separator = "";

    if (trial->faults == TORTURE_CLIENT_FAULTS) {
        printf("all");
        return;
    }
    for (unsigned i = 0; i < TORTURE_FAULTS; i++) {
        if (!(trial->faults & 1u << i))
            continue;
        printf("%s%s", separator, torture_fault_name((enum torture_fault)i));
        if (i == TORTURE_PAUSE && trial->point)
            printf(" at `%s`", trial->point);
        separator = ", ";
    }
    if (!trial->faults)
        printf("none");
}

static void print_head(const struct options *options)
{
    if (options->markdown)
        printf("| mutant | what it does wrong | rule | faults | seconds |\n"
               "|---|---|---|---|---|\n");
    else
        printf("%-16s | %-9s | seconds\n", "mutant", "caught by");
    fflush(stdout);
}

/* The median, and the most if there were several runs. */
static void print_seconds(const double *seconds, unsigned count)
{
    printf("%.2f", seconds[count / 2]);
    if (count > 1)
        printf(" to %.2f", seconds[count - 1]);
}

static void print_row(const struct options *options, const struct mutant_trial *trial,
                      const struct trial_outcome *worst, const double *seconds, unsigned count)
{
    static const char *const words[] = {
        "", "", ", second try", ", third try", ", fourth try", ", fifth try"
    };
    bool caught = worst->result == TRIAL_CAUGHT;

    if (options->markdown) {
        printf("| `%s` | %s | %s | ", trial->key, trial->sentence, rule_word(trial));
        print_faults(trial);
        printf(" | ");
        if (trial->mutant && caught)
            print_seconds(seconds, count);
        printf(caught ? " |\n" : "missed |\n");
    } else {
        const char *missed = trial->mutant ? "MISSED" : "WRONG";
        printf("%-16s | %-9s | ", trial->key, caught ? rule_word(trial) : missed);
        print_seconds(seconds, count);
        printf("  %.*s%s\n", caught ? 110 : 400, worst->sentence, words[worst->tries]);
    }
    fflush(stdout);
}

/* ---- trying ---- */

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

/* Missed once is missed. */
static void try_often(const struct options *options, const struct mutant_trial *trial,
                      struct torture_sandbox *sandbox, struct tally *tally)
{
    struct trial_outcome outcome = { 0 }, worst = { .result = TRIAL_CAUGHT };
    double seconds[RUNS_MAX];
    char picture[4096] = "";
    unsigned count = 0;

    if (options->draw)
        snprintf(picture, sizeof picture, "%s/%s.html", options->draw, trial->key);
    while (count < options->runs && worst.result == TRIAL_CAUGHT) {
        mutant_try(trial, sandbox, options->seed + count, options->draw ? picture : NULL, &outcome);
        seconds[count++] = outcome.seconds;
        if (outcome.result != TRIAL_CAUGHT || outcome.tries > worst.tries || count == 1)
            worst = outcome;
    }
    if (worst.result == TRIAL_STOPPED) {
        tally->signal = worst.signal;
        return;
    }
    qsort(seconds, count, sizeof seconds[0], by_value);
    print_row(options, trial, &worst, seconds, count);
    if (!trial->mutant)
        tally->wrong |= worst.result != TRIAL_CAUGHT;
    else
        *(worst.result == TRIAL_CAUGHT ? &tally->caught : &tally->missed) += 1;
}

static int try_all(const struct options *options, struct torture_sandbox *sandbox)
{
    struct tally tally = { 0 };

    print_head(options);
    for (unsigned i = 0; i < mutant_trial_count && !tally.signal; i++) {
        struct mutant_trial trial = mutant_trials[i];
        if (!strstr(trial.key, options->only) || (options->control && !trial.mutant) ||
            (sandbox && trial.in_memory))
            continue;
        trial.is_control = options->control;
        if (options->control)
            trial.mutant = MUTANT_NONE;
        try_often(options, &trial, sandbox, &tally);
    }
    if (tally.signal)
        return 128 + tally.signal;
    if (!options->markdown)
        printf("%u caught, %u missed\n", tally.caught, tally.missed);
    return tally.missed || tally.wrong;
}

/* ---- options ---- */

static bool parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *ret)
{
    char *end;

    *ret = strtoull(text, &end, 10);
    return end != text && *end == '\0' && *text != '-' && *ret >= least && *ret <= most;
}

static bool parse(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {
        { "runs", required_argument, NULL, 'r' },    { "only", required_argument, NULL, 'o' },
        { "seed", required_argument, NULL, 's' },    { "draw", required_argument, NULL, 'd' },
        { "markdown", no_argument, NULL, 'm' },      { "control", no_argument, NULL, 'c' },
        { "sandbox", required_argument, NULL, 'b' }, { NULL, 0, NULL, 0 },
    };
    uint64_t runs = 1;
    int option;
    bool fine = true;

    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (option == 'r')
            fine = fine && parse_number(optarg, 1, RUNS_MAX, &runs);
        else if (option == 's')
            fine = fine && parse_number(optarg, 0, UINT64_MAX, &options->seed);
        else if (option == 'o')
            options->only = optarg;
        else if (option == 'd')
            options->draw = optarg;
        else if (option == 'b')
            options->sandbox = optarg;
        else if (option == 'm')
            options->markdown = true;
        else if (option == 'c')
            options->control = true;
        else
            fine = false;
    }
    options->runs = (unsigned)runs;
    return fine && optind == argc;
}

/* ---- on a server ---- */

static const struct torture_deployment *find_deployment(const char *name)
{
    const struct torture_deployment *deployment;

    for (unsigned i = 0; (deployment = torture_deployment(i)); i++)
        if (strcmp(deployment->name, name) == 0)
            return deployment;
    return NULL;
}

/* A signal that comes between two runs waits for the next one, which ends by it: so that no end
 * leaves the server, or what it wrote. */
static int try_in_sandbox(const struct options *options)
{
    const struct torture_deployment *deployment = find_deployment(options->sandbox);
    struct torture_sandbox sandbox;
    char error[256];
    sigset_t ends;
    int code;

    if (!deployment || strcmp(deployment->name, "redis") != 0) {
        fprintf(stderr, "torture-mutants: --sandbox: only 'redis' is known\n");
        return 64;
    }
    sigemptyset(&ends);
    sigaddset(&ends, SIGHUP);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    if (!torture_sandbox_start(&sandbox, deployment, 0, error)) {
        fprintf(stderr, "torture-mutants: --sandbox: %s\n", error);
        return 2;
    }
    code = try_all(options, &sandbox);
    torture_sandbox_end(&sandbox);
    return code;
}

int main(int argc, char **argv)
{
    struct options options = { .seed = 1, .only = "" };

    if (!parse(argc, argv, &options)) {
        fputs(usage_text, stderr);
        return 64;
    }
    if (options.draw)
        mkdir(options.draw, 0777);
    return options.sandbox ? try_in_sandbox(&options) : try_all(&options, NULL);
}
