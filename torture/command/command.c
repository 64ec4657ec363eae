/* SPDX-License-Identifier: Apache-2.0 */
/* torture: a run against a store, or a history that was kept; and the verdict as an exit code. */
#include "command.h"

#include "torture/timeline/timeline.h"

#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- judging ---- */

static struct cli_torture_fault *fault_of(struct cli_torture *torture,
                                          const struct torture_record *record)
{
    struct cli_torture_fault *fault;

    for (unsigned i = 0; i < torture->fault_count; i++)
        if (strncmp(torture->faults[i].name, record->text, sizeof(record->text)) == 0)
            return &torture->faults[i];
    if (torture->fault_count == CLI_TORTURE_KINDS)
        return NULL;
    fault = &torture->faults[torture->fault_count++];
    memcpy(fault->name, record->text, sizeof(record->text));
    return fault;
}

static void count_faults(struct cli_torture *torture)
{
    for (size_t i = 0; i < torture->history.count; i++) {
        const struct torture_record *record = &torture->history.records[i];
        struct cli_torture_fault *fault;
        if (record->kind != TORTURE_FAULT_ON && record->kind != TORTURE_FAULT_HIT)
            continue;
        fault = fault_of(torture, record);
        if (!fault)
            continue;
        fault->on += record->kind == TORTURE_FAULT_ON;
        fault->hit += record->kind == TORTURE_FAULT_HIT;
    }
}

static int exit_code(enum torture_verdict verdict)
{
    switch (verdict) {
    case TORTURE_SAFE_SO_FAR:
        return CLI_OK;
    case TORTURE_VIOLATION:
        return CLI_FINDINGS;
    case TORTURE_INCONCLUSIVE:
        break;
    }
    return CLI_INCONCLUSIVE;
}

static bool draw(const struct cli_torture *torture)
{
    const char *path = torture->settings->html;
    bool violation = torture->report.verdict == TORTURE_VIOLATION;
    char error[256], facts[1000], promise[600], sentence[620];
    struct torture_timeline_about about = {
        .title = torture->url ? torture->shown_url : torture->settings->check,
        .promise = violation ? sentence : NULL,
        .facts = facts,
    };

    if (!path)
        return true;
    cli_torture_describe_promise(torture, promise, sizeof(promise));
    snprintf(sentence, sizeof(sentence), "Promise %s.", promise);
    cli_torture_describe_run(torture, facts, sizeof(facts));
    if (torture_timeline_html(&torture->history, &torture->report, &about, path, error) == 0)
        return true;
    cli_complain("%s", error);
    return false;
}

static int64_t lease_of(const struct torture_history *history)
{
    for (size_t i = 0; i < history->count; i++)
        if (history->records[i].kind == TORTURE_NOTE &&
            strncmp(history->records[i].text, TORTURE_LEASE_NOTE,
                    sizeof(history->records[i].text)) == 0)
            return history->records[i].until_ns;
    return 0;
}

static bool was_audited(const struct torture_history *history)
{
    for (size_t i = history->count; i-- > 0 && history->records[i].kind != TORTURE_HEALED;)
        if (history->records[i].kind == TORTURE_AUDIT)
            return true;
    return false;
}

/* A driver that failed, or was killed, has not looked for what is left, or has not let everybody
 * have a turn. */
static void doubt_unfinished(struct cli_torture *torture)
{
    const char *sentence = torture->outcome.sentence;
    struct torture_report *report = &torture->report;

    if (report->verdict != TORTURE_SAFE_SO_FAR || (!sentence[0] && was_audited(&torture->history)))
        return;
    report->verdict = TORTURE_INCONCLUSIVE;
    if (sentence[0])
        snprintf(report->reason, sizeof(report->reason), "%.255s", sentence);
    else
        snprintf(report->reason, sizeof(report->reason),
                 "the run did not come to its end, so leftovers were not looked for");
}

/* A fault that was meant to come and never did proves nothing, either; and a hook that fails says
 * why it never hit. */
static void doubt_faults(struct cli_torture *torture)
{
    const struct torture_outcome *outcome = &torture->outcome;
    struct torture_report *report = &torture->report;

    if (!torture->url || report->verdict == TORTURE_VIOLATION)
        return;
    for (unsigned i = 0; i < TORTURE_FAULTS && report->verdict == TORTURE_SAFE_SO_FAR; i++)
        if (torture->plan.faults & 1u << i && outcome->tried[i] == 0 &&
            !(i == TORTURE_ERROR_REPLY && cli_torture_leaves_out_errors(torture))) {
            report->verdict = TORTURE_INCONCLUSIVE;
            bool unreadable = i == TORTURE_ERROR_REPLY && outcome->unreadable;
            snprintf(report->reason, sizeof(report->reason), "the fault \"%s\" never began: %s",
                     torture_fault_name((enum torture_fault)i),
                     unreadable ? "no request could be read (TLS, or another protocol)"
                                : "give the run more time");
        }
    if (report->verdict == TORTURE_SAFE_SO_FAR && torture->misses_partition) {
        report->verdict = TORTURE_INCONCLUSIVE;
        snprintf(report->reason, sizeof(report->reason),
                 "the fault \"partition\" was asked for: %.180s", torture->sandbox.no_network);
    }
    for (unsigned i = 0; i < torture->plan.hook_count; i++)
        if (outcome->hit[TORTURE_FAULTS + i] == 0 && outcome->hook_status[i])
            snprintf(report->reason, sizeof(report->reason),
                     "the hook \"%s\" never hit: its command ended with exit status %d",
                     torture->hooks[i].name, outcome->hook_status[i]);
}

/* Reads the history, checks and draws it, prints what there is to say. */
static int judge(struct cli_torture *torture, const char *path)
{
    struct torture_limits limits = { 0 };
    int64_t begin_ns = torture_clock_ns();
    clock_t begin = clock();
    char error[256];
    bool drawn;
    int code;

    if (torture_history_read(&torture->history, path, error) != 0) {
        cli_complain("%s", error);
        return CLI_USAGE;
    }
    limits.grace_ns = lease_of(&torture->history);
    torture_check(&torture->history, &limits, &torture->report);
    doubt_unfinished(torture);
    doubt_faults(torture);
    count_faults(torture);
    if (torture->report.verdict == TORTURE_VIOLATION)
        cli_torture_look_for_a_promise(torture);
    drawn = draw(torture);
    torture->verdict_ms = (torture_clock_ns() - begin_ns) / 1000000;
    torture->verdict_cpu_ms = (int64_t)(clock() - begin) * 1000 / CLOCKS_PER_SEC;
    if (torture->settings->json)
        cli_torture_print_json(torture);
    else
        cli_torture_print_report(torture);
    code = exit_code(torture->report.verdict);
    return drawn || code == CLI_FINDINGS ? code : CLI_INTERNAL;
}

/* ---- running ---- */

static bool is_text(const char *path)
{
    size_t length = strlen(path);

    return length > 6 && strcmp(path + length - 6, ".jsonl") == 0;
}

static int keep_as_text(struct cli_torture *torture)
{
    char error[256];

    if (torture_history_write_json(&torture->history, torture->settings->history, error) == 0)
        return CLI_OK;
    cli_complain("%s", error);
    return CLI_INTERNAL;
}

/* The file was made with room for the busiest run. What was damaged stays as it is. */
static void cut_to_size(const struct torture_history *history, const char *path)
{
    uint64_t last = history->count ? history->records[history->count - 1].number : 0;

    if (history->torn + history->missing + history->duplicate + history->dropped == 0 &&
        truncate(path, (off_t)((last + 1) * sizeof(struct torture_record))) != 0)
        cli_complain("'%s' could not be cut to its size: %s", path, strerror(errno));
}

/* An early end still has a verdict; but to a script, it is an end by a signal. */
static int judge_run(struct cli_torture *torture, bool done, const char *path)
{
    bool keeps_text = torture->settings->history && is_text(torture->settings->history);
    int code;

    if (!torture->outcome.begun) {
        cli_complain("%s", torture->outcome.sentence);
        return CLI_INTERNAL;
    }
    if (torture->outcome.is_full)
        cli_complain("the history has no room for more, so the run ended early");
    code = judge(torture, path);
    if (keeps_text && keep_as_text(torture) != CLI_OK && code != CLI_FINDINGS)
        return CLI_INTERNAL;
    if (torture->settings->history && !keeps_text)
        cut_to_size(&torture->history, path);
    if (!done) {
        cli_complain("%s", torture->outcome.sentence);
        if (code == CLI_FINDINGS)
            return code;
        return torture->outcome.unreachable ? CLI_UNREACHABLE : CLI_INTERNAL;
    }
    if (torture->outcome.ended_by && code != CLI_FINDINGS)
        return CLI_SIGNAL + torture->outcome.ended_by;
    return code;
}

/* Memory, if it is not to be kept: then nothing is left behind, however we end. */
static int make_place(const struct cli_torture *torture, char *path, size_t size)
{
    const char *history = torture->settings->history;
    int fd = -1;

    if (history && !is_text(history)) {
        snprintf(path, size, "%s", history);
        return 0;
    }
    fd = memfd_create("holdfast-torture", MFD_CLOEXEC);
    if (fd < 0)
        cli_complain("no memory for the history: %s", strerror(errno));
    snprintf(path, size, "/proc/self/fd/%d", fd);
    return fd;
}

static int run_on(struct cli_torture *torture)
{
    char path[4096];
    int place, code = cli_torture_probe(torture);
    bool done;

    if (code != CLI_OK)
        return code;
    place = make_place(torture, path, sizeof(path));
    if (place < 0)
        return CLI_INTERNAL;
    torture->plan.history = path;
    if (!torture->settings->json)
        cli_torture_print_plan(torture);
    if (!torture->settings->quiet && isatty(STDERR_FILENO)) {
        torture->plan.progress = cli_torture_progress;
        torture->plan.progress_arg = torture;
    }
    done = torture_run(&torture->plan, &torture->subject, &torture->outcome);
    if (torture->plan.progress)
        cli_torture_progress(torture, NULL);
    code = judge_run(torture, done, path);
    if (place > 0)
        close(place);
    return code;
}

static int run_in_sandbox(struct cli_torture *torture)
{
    char error[256];
    int code;

    if (!torture_sandbox_start(&torture->sandbox, torture->deployment, torture->plan.faults,
                               error)) {
        cli_complain("--sandbox %s: %s", torture->deployment->name, error);
        return CLI_UNREACHABLE;
    }
    torture->plan.sandbox = &torture->sandbox;
    torture->plan.url = torture->url = strdup(torture->sandbox.url);
    snprintf(torture->shown_url, sizeof(torture->shown_url), "a sandbox: %s",
             torture->deployment->text);
    code = torture->url ? run_on(torture) : CLI_INTERNAL;
    torture_sandbox_end(&torture->sandbox);
    return code;
}

/* A signal that comes while there is a sandbox waits until the run reads it, so that no end leaves
 * servers, or what they wrote. */
static int run(struct cli_torture *torture)
{
    sigset_t ends, before;
    int code;

    if (!torture->deployment)
        return run_on(torture);
    sigemptyset(&ends);
    sigaddset(&ends, SIGHUP);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, &before);
    torture->plan.mask = &before;
    code = run_in_sandbox(torture);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return code;
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat one, other;

    if (!a || !b)
        return false;
    return strcmp(a, b) == 0 || (stat(a, &one) == 0 && stat(b, &other) == 0 &&
                                 one.st_dev == other.st_dev && one.st_ino == other.st_ino);
}

/* The picture must not be drawn over the history. */
static bool has_paths_apart(const struct cli_settings *settings)
{
    if (!is_same_file(settings->html, settings->history) &&
        !is_same_file(settings->html, settings->check))
        return true;
    cli_complain("--html '%s' is the history itself; give the picture a file of its own",
                 settings->html);
    return false;
}

/* A user that waits for the end of a long run should not hear only then that there is no such
 * directory. */
static bool has_place_for_picture(const struct cli_settings *settings)
{
    char *copy = settings->html ? strdup(settings->html) : NULL;
    bool has = !settings->html || access(settings->html, W_OK) == 0 ||
               (errno == ENOENT && copy && access(dirname(copy), W_OK) == 0);

    if (!has)
        cli_complain("--html '%s' cannot be written: %s", settings->html, strerror(errno));
    free(copy);
    return has;
}

static bool asks_for_a_run(const struct cli_settings *settings)
{
    return settings->time_ms || settings->clients || settings->threads || settings->lease_ms ||
           settings->rate || settings->seed >= 0 || settings->faults || settings->history ||
           settings->sandbox || settings->name_count || settings->yes;
}

static int act(struct cli_torture *torture)
{
    const struct cli_settings *settings = torture->settings;
    int code;

    if (settings->list) {
        cli_torture_print_list(stdout);
        return CLI_OK;
    }
    if (settings->word_count > (settings->check ? 0 : 1))
        return cli_usage(settings, "torture", "torture takes one URL, or --check and no URL");
    if (!has_paths_apart(settings))
        return CLI_USAGE;
    if (settings->check && asks_for_a_run(settings))
        return cli_usage(settings, "torture",
                         "--check judges what has happened: only --html and --json go with it");
    if (!has_place_for_picture(settings))
        return CLI_INTERNAL;
    if (settings->check)
        return judge(torture, settings->check);
    code = cli_torture_plan(torture);
    return code == CLI_OK ? run(torture) : code;
}

static int torture_command(struct cli_settings *settings)
{
    struct cli_torture *torture = calloc(1, sizeof(*torture));
    int code;

    if (!torture)
        return CLI_INTERNAL;
    torture->settings = settings;
    code = act(torture);
    torture_history_free(&torture->history);
    free(torture->url);
    free(torture);
    return code;
}

const struct cli_verb cli_verbs[] = {
    { "torture", CLI_TORTURE, false, torture_command, "test the locks of a store under faults",
      cli_help_torture },
    { 0 },
};
