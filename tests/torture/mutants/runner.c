/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a mutant against the driver, and ends the run as soon as the checker has seen enough. */
#include "runner.h"

#include "torture/timeline/timeline.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MS INT64_C(1000000)

enum { CLIENTS = 8, RATE = 2000, LEASE_MS = 60, TIME_MS = 2500 };
enum { TRIES = 5, LOOK_EVERY_MS = 150, HAND_OVER_MS = 1000, CALM_MS = 1000 };

/* One run. */
struct attempt {
    const struct mutant_trial *trial;
    struct torture_sandbox *sandbox;
    char history[64];
    int64_t next_look_ns;
    bool ended_by_us;
    struct torture_report report;
};

static unsigned slow(void)
{
    const char *text = getenv("HOLDFAST_TEST_SLOW");
    long times = text ? strtol(text, NULL, 10) : 1;

    return times > 1 ? (unsigned)times : 1;
}

static int64_t lease_ms(const struct mutant_trial *trial)
{
    return (trial->lease_ms ? trial->lease_ms : LEASE_MS) * slow();
}

/* ---- judging ---- */

static bool judge(struct attempt *attempt, struct torture_history *history, char error[256])
{
    struct torture_limits limits = { .grace_ns = lease_ms(attempt->trial) * 2 * MS,
                                     .hand_over_ns = HAND_OVER_MS * MS * slow() };

    if (torture_history_read(history, attempt->history, error) != 0)
        return false;
    torture_check(history, &limits, &attempt->report);
    return true;
}

/* A look at the history that is still being written: what it lacks is no matter, since what has
 * been seen stays seen. The verdict is given on the whole. */
static void look(void *arg, const struct torture_progress *progress)
{
    struct attempt *attempt = arg;
    struct torture_history history;
    int64_t began_ns = torture_clock_ns(), took_ns;
    char error[256];

    (void)progress;
    if (began_ns < attempt->next_look_ns || attempt->ended_by_us)
        return;
    if (judge(attempt, &history, error)) {
        torture_history_free(&history);
        if (attempt->trial->mutant && attempt->report.broken[attempt->trial->rule]) {
            attempt->ended_by_us = true;
            kill(getpid(), SIGTERM);
        }
    }
    took_ns = torture_clock_ns() - began_ns;
    attempt->next_look_ns = began_ns + LOOK_EVERY_MS * MS + took_ns * 4;
}

/* The one that is expected; of the right one, the first there is. */
static const struct torture_finding *finding_of(const struct attempt *attempt)
{
    const struct torture_report *report = &attempt->report;

    for (unsigned i = 0; i < report->finding_count; i++)
        if (!attempt->trial->mutant || report->findings[i].rule == attempt->trial->rule)
            return &report->findings[i];
    return NULL;
}

static bool is_as_expected(const struct attempt *attempt)
{
    const struct torture_report *report = &attempt->report;

    if (attempt->trial->mutant == MUTANT_NONE)
        return report->verdict == TORTURE_SAFE_SO_FAR ||
               (attempt->trial->is_control && report->verdict == TORTURE_INCONCLUSIVE);
    return report->verdict == TORTURE_VIOLATION && finding_of(attempt);
}

/* ---- telling ---- */

/* From the beginning to the record that completes the proof, or to the end. */
static double seconds_of(const struct torture_history *history,
                         const struct torture_finding *finding)
{
    size_t last = 0;

    if (history->count == 0)
        return 0;
    while (last + 1 < history->count && (!finding || history->records[last].number < finding->to))
        last++;
    return (double)(history->records[last].at_ns - history->records[0].at_ns) / 1e9;
}

static void explain(const struct torture_report *report, const struct torture_finding *finding,
                    char *sentence, size_t size)
{
    if (finding)
        snprintf(sentence, size, "%s", finding->sentence);
    else if (report->finding_count)
        snprintf(sentence, size, "only %s: %s", torture_rule_name(report->findings[0].rule),
                 report->findings[0].sentence);
    else if (report->verdict == TORTURE_INCONCLUSIVE)
        snprintf(sentence, size, "%s: %s", torture_verdict_name(report->verdict), report->reason);
    else
        snprintf(sentence, size, "%s: %llu grants, %llu faults hit",
                 torture_verdict_name(report->verdict), (unsigned long long)report->grants,
                 (unsigned long long)report->fault_hits);
}

static void draw(const struct attempt *attempt, const struct torture_history *history,
                 const char *picture)
{
    struct torture_timeline_about about = { .title = attempt->trial->sentence };
    char error[256];

    if (picture && attempt->trial->mutant &&
        torture_timeline_html(history, &attempt->report, &about, picture, error) != 0)
        fprintf(stderr, "torture-mutants: %s\n", error);
}

/* ---- running ---- */

static struct torture_plan plan_of(struct attempt *attempt, uint64_t seed)
{
    const struct mutant_trial *trial = attempt->trial;
    bool is_aimed = trial->mutant || trial->is_control;

    return (struct torture_plan){ .url = attempt->sandbox ? attempt->sandbox->url : "",
                                  .sandbox = attempt->sandbox,
                                  .seed = seed,
                                  .time_ms = (trial->time_ms ? trial->time_ms : TIME_MS) * slow(),
                                  .lease_ms = lease_ms(trial),
                                  .clients = CLIENTS,
                                  .rate = trial->rate ? trial->rate : RATE,
                                  .faults = trial->faults,
                                  .point = trial->point,
                                  .restless = is_aimed,
                                  .calm_ms = is_aimed ? CALM_MS : 0,
                                  .history = attempt->history,
                                  .slow = slow(),
                                  .progress = look,
                                  .progress_arg = attempt };
}

/* A run that has failed (`failure`) proves what its history shows, but never that nothing is wrong:
 * the clients of a lock that has leaked do not end by themselves. */
static void conclude(struct attempt *attempt, const char *failure, const char *picture,
                     struct trial_outcome *outcome)
{
    struct torture_history history;
    const struct torture_finding *finding;
    char error[256];

    if (!judge(attempt, &history, error)) {
        snprintf(outcome->sentence, sizeof outcome->sentence, "%s", *failure ? failure : error);
        return;
    }
    snprintf(outcome->sentence, sizeof outcome->sentence, "%s", failure);
    finding = finding_of(attempt);
    outcome->seconds += seconds_of(&history, finding);
    if (is_as_expected(attempt) && (attempt->trial->mutant || !*failure))
        outcome->result = TRIAL_CAUGHT;
    if (outcome->result == TRIAL_CAUGHT || !*failure)
        explain(&attempt->report, finding, outcome->sentence, sizeof outcome->sentence);
    if (outcome->result == TRIAL_CAUGHT)
        draw(attempt, &history, picture);
    torture_history_free(&history);
}

static void run(struct attempt *attempt, uint64_t seed, const char *picture,
                struct trial_outcome *outcome)
{
    struct torture_plan plan = plan_of(attempt, seed);
    struct torture_subject subject = mutant_subject;
    struct torture_outcome told;
    bool done;

    subject.forms = attempt->trial->forms;
    if (attempt->sandbox) {
        subject.forms = 1u << TORTURE_MUTEX;
        subject.fair = false;
    }
    mutant = attempt->trial->mutant;
    done = torture_run(&plan, &subject, &told);
    if (told.ended_by && !attempt->ended_by_us) {
        outcome->result = TRIAL_STOPPED;
        outcome->signal = told.ended_by;
        return;
    }
    conclude(attempt, done ? "" : told.sentence, picture, outcome);
}

void mutant_try(const struct mutant_trial *trial, struct torture_sandbox *sandbox, uint64_t seed,
                const char *picture, struct trial_outcome *outcome)
{
    *outcome = (struct trial_outcome){ .result = TRIAL_MISSED };
    while (outcome->tries < TRIES && outcome->result == TRIAL_MISSED) {
        struct attempt attempt = { .trial = trial, .sandbox = sandbox };
        int fd = memfd_create("torture-mutants", MFD_CLOEXEC);
        if (fd < 0) {
            snprintf(outcome->sentence, sizeof outcome->sentence, "no memory: %s", strerror(errno));
            return;
        }
        snprintf(attempt.history, sizeof attempt.history, "/proc/self/fd/%d", fd);
        run(&attempt, seed + outcome->tries++, picture, outcome);
        close(fd);
        /* A right one in which something was found is not right in another run. */
        if (!trial->mutant && attempt.report.verdict == TORTURE_VIOLATION)
            return;
    }
}
