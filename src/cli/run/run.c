/* SPDX-License-Identifier: Apache-2.0 */
/* run and try: acquires, runs the command, gives back. */
#include "run.h"

#include <poll.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GRACE_MS 10000
/* As in hf_lock_all: a shorter wait says nothing of a store that has replied before. */
#define JUDGED_MS 500

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A command of one plain word would hide a mistyped "kill", until the day when it matters. */
static bool is_on_lost(const char *what)
{
    size_t plain = strspn(what, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-");

    return strcmp(what, "term") == 0 || strcmp(what, "kill") == 0 || strcmp(what, "ignore") == 0 ||
           what[plain];
}

/* "run -- ./backup.sh": a path, or what the shell would find. */
static bool looks_like_command(const char *name)
{
    return name[0] == '/' || strncmp(name, "./", 2) == 0 || strncmp(name, "../", 3) == 0 ||
           strchr(name, ' ');
}

static int prepare_command(struct cli_job *job, struct cli_settings *settings, const char *verb)
{
    static char *by_shell[4];
    char *shell = getenv("SHELL");
    static char default_shell[] = "/bin/sh", minus_c[] = "-c";

    if (settings->shell_command && settings->word_count > 0)
        return cli_usage(settings, verb, "-c STRING and a command exclude each other");
    if (!settings->shell_command && settings->word_count == 0 && looks_like_command(job->names[0]))
        return cli_usage(settings, verb,
                         "the command stands in the place of the name: write a "
                         "name before it");
    if (!settings->shell_command && settings->word_count == 0)
        return cli_usage(settings, verb, "there is no command to run: write it after the name");
    job->command = settings->words;
    if (settings->shell_command) {
        by_shell[0] = shell && shell[0] ? shell : default_shell;
        by_shell[1] = minus_c;
        by_shell[2] = settings->shell_command;
        job->command = by_shell;
    }
    return CLI_OK;
}

int cli_job_prepare(struct cli_job *job, struct cli_settings *settings, const char *verb)
{
    *job = (struct cli_job){ .settings = settings,
                             .proof_fd = -1,
                             .exec_fd = -1,
                             .guard_fd = -1,
                             .began_ms = cli_now_ms(),
                             .held_until_ms = CLI_NEVER };
    job->grace_ms = settings->grace_ms >= 0 ? settings->grace_ms : GRACE_MS;
    if (settings->name_count == 0)
        return cli_usage(settings, verb, "there is no name: say what to lock");
    if (settings->on_lost && !is_on_lost(settings->on_lost)) {
        cli_complain("--on-lost '%s' is none of term, kill and ignore; if it is a command, write "
                     "its path or an argument with it",
                     settings->on_lost);
        return CLI_USAGE;
    }
    if (settings->max_hold_ms && settings->ttl_ms)
        return cli_usage(settings, verb, "--ttl is renewed and --max-hold is not: choose one");
    if (settings->max_hold_ms && settings->grace_ms >= settings->max_hold_ms)
        return cli_usage(settings, verb, "--grace must be shorter than --max-hold");
    if (settings->max_hold_ms && settings->grace_ms < 0 &&
        job->grace_ms > settings->max_hold_ms / 3)
        job->grace_ms = settings->max_hold_ms / 3;
    /* All programs take several locks in the same order, so no two wait for each other. It is that
     * of hf_lock_all: at one store, the bytes of the names. A name that was given twice would wait
     * for itself. */
    memcpy(job->names, settings->names, sizeof(job->names));
    qsort(job->names, settings->name_count, sizeof(job->names[0]), by_name);
    for (unsigned i = 0; i < settings->name_count; i++)
        if (job->count == 0 || strcmp(job->names[job->count - 1], job->names[i]) != 0)
            job->names[job->count++] = job->names[i];
    return prepare_command(job, settings, verb);
}

static char *owner_text(const struct cli_settings *settings)
{
    const struct passwd *user = getpwuid(getuid());
    const char *command = settings->shell_command ? "sh -c" : settings->words[0];
    char host[256] = "", *text = NULL;

    if (settings->owner_text)
        return strdup(settings->owner_text);
    gethostname(host, sizeof(host) - 1);
    if (asprintf(&text, "%s@%s:%d %s", user ? user->pw_name : "?", host, (int)getpid(),
                 command ? command : "holdfast") < 0)
        return NULL;
    return text;
}

static void note_loss(void *arg, const hf_loss *loss)
{
    struct cli_job *job = arg;

    if (job->lost)
        return;
    job->lost = true;
    cli_environment_over(job);
    for (unsigned i = 0; i < job->count; i++)
        if (strcmp(job->names[i], loss->name) == 0)
            job->lost_name = job->names[i];
    /* What the library says of a lease that is not renewed. */
    bool ended = loss->reason && strcmp(loss->reason, "its lease is over") == 0;
    snprintf(job->loss_reason, sizeof(job->loss_reason), "%s",
             ended && job->settings->max_hold_ms ? "its --max-hold is over"
             : loss->reason                      ? loss->reason
                                                 : "");
}

static void tell_left(const struct cli_client *session, const char *name, int code)
{
    const char *sentence = hf_last_error()->text;

    if (code == HF_DENIED)
        cli_tell(CLI_WARNING, CLI_OK,
                 "'%s' was not released, and stays until its lease is over: %s", name, sentence);
    else if (code == HF_UNREACHABLE && session->silence[0])
        /* The library's own sentence says that it goes on cleaning up, and we are about to end. */
        cli_tell(CLI_WARNING, CLI_OK,
                 "it is not sure that '%s' was released; it ends with its lease: %s", name,
                 session->silence);
    else
        cli_tell(CLI_WARNING, CLI_OK, "it is not sure that '%s' was released: %s", name, sentence);
}

/* The last unlock says whether the lock was ours to the end. */
static int give_back(struct cli_job *job)
{
    int result = HF_OK, code = HF_OK;

    cli_environment_over(job);
    for (unsigned i = job->count; i-- > 0;) {
        bool silent = code == HF_UNREACHABLE;
        if (silent)
            hf_unlock_nowait(job->holds[i]);
        else
            code = job->holds[i] ? hf_unlock(job->holds[i]) : HF_OK;
        job->holds[i] = NULL;
        /* What the name is now is no lock of this kind. */
        if (code == HF_EKIND)
            code = HF_LOST;
        if (code == HF_LOST && result != HF_LOST && !job->lost)
            job->lost_name = job->names[i];
        if (code == HF_LOST)
            result = HF_LOST;
        else if (code != HF_OK)
            tell_left(job->session, job->names[i], code);
    }
    return result;
}

/* Behind the first name, what is left of the wait may be too short to judge a store by. */
static bool is_too_short(const struct cli_job *job, unsigned index, int64_t wait_ms)
{
    return index > 0 && wait_ms > 0 && wait_ms < JUDGED_MS && !job->session->silent_since_ms;
}

static int64_t wait_left(int64_t wait_ms, int64_t began_ms)
{
    int64_t left = wait_ms - (cli_now_ms() - began_ms);

    if (wait_ms == HF_FOREVER || wait_ms == 0)
        return wait_ms;
    return left > 0 ? left : 0;
}

/* The first locks are worth nothing without the one that was lost. The exit code is the same as if
 * it had been lost a moment later. */
static int lost_meanwhile(struct cli_job *job, const char *waited_for)
{
    char when[HF_NAME_MAX + 32];

    snprintf(when, sizeof(when), "was lost while waiting for '%s'", waited_for);
    cli_job_lose(job, when, job->loss_reason);
    if (job->session->client)
        give_back(job);
    return job->cause;
}

/* A signal ends the wait. Closing the client waits for the store, and a second signal ends that. */
static void give_back_at_close(struct cli_job *job)
{
    cli_environment_over(job);
    for (unsigned i = job->count; i-- > 0;) {
        hf_unlock_nowait(job->holds[i]);
        job->holds[i] = NULL;
    }
}

/* All or nothing. One wait for all of them together. */
static int acquire_all(struct cli_job *job, const hf_lock_options *options)
{
    const struct cli_settings *settings = job->settings;
    int64_t began_ms = cli_now_ms();
    hf_error error;

    for (unsigned i = 0; i < job->count; i++) {
        int64_t wait = wait_left(settings->try_only ? 0 : settings->wait_ms, began_ms);
        int code = cli_acquire(job->session, job->names[i], wait, options, &job->holds[i], &error);
        if (job->lost && !job->session->ended_by)
            return lost_meanwhile(job, job->names[i]);
        if (code == HF_UNREACHABLE && is_too_short(job, i, wait))
            code = HF_BUSY;
        if (code == HF_OK)
            continue;
        if (job->session->client && job->session->ended_by)
            give_back_at_close(job);
        else if (job->session->client)
            give_back(job);
        code = cli_acquire_failed(job->session, job->names[i], code, &error);
        if (code == CLI_BUSY)
            return settings->skip ? CLI_OK : (int)settings->busy_exit;
        return code;
    }
    return -1;
}

/* For cron on machines whose clocks differ: a machine that comes a little later must still find
 * us. */
static void hold_on(const struct cli_job *job)
{
    int64_t until = job->granted_at_ms + job->settings->min_hold_ms;
    struct pollfd polled[] = { { hf_fd(job->session->client), POLLIN, 0 },
                               { job->session->signal_fd, POLLIN, 0 } };

    while (!job->lost && !job->forwarded && cli_now_ms() < until) {
        int signal;
        poll(polled, 2, cli_poll_ms(until));
        hf_dispatch(job->session->client);
        while ((signal = cli_session_signal(job->session)) != 0)
            if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT)
                return;
    }
}

static int run_command(struct cli_job *job)
{
    int code;

    cli_environment_set(job);
    if (!job->nested && !cli_guard_start(job))
        return CLI_INTERNAL;
    cli_terminal_open(&job->terminal);
    code = cli_job_may_start(job) ? cli_child_start(job) : job->cause;
    if (code == CLI_OK) {
        cli_job_supervise(job);
        code = job->cause ? job->cause : cli_child_report(job);
    }
    cli_terminal_close(&job->terminal);
    cli_guard_end(job);
    return code;
}

int cli_job_do(struct cli_job *job, struct cli_client *session)
{
    hf_lock_options options;
    int code;

    job->session = session;
    session->lost = &job->lost;
    if (!cli_lock_options(job->settings, &options))
        return CLI_USAGE;
    options.on_lost = note_loss;
    options.lost_arg = job;
    job->wanted = options.mode;
    job->nested = cli_environment_nested(job, &options, &code);
    if (code != CLI_OK)
        return code;
    code = job->nested ? -1 : acquire_all(job, &options);
    if (code >= 0)
        return code;
    job->granted_at_ms = cli_now_ms();
    /* A renewed lease is renewed at a third of it: warning any earlier would end a healthy
     * command. */
    int64_t left;

    for (unsigned i = 0; i < job->count && !job->nested; i++) {
        job->tokens[i] = hf_token(job->holds[i]);
        left = hf_remaining_ms(job->holds[i]);
        if (left == INT64_MAX)
            continue;
        if (job->granted_at_ms + left < job->held_until_ms) {
            job->held_until_ms = job->granted_at_ms + left;
            job->lease_ms = left;
        }
        if (!job->settings->max_hold_ms && job->grace_ms > left / 3)
            job->grace_ms = left / 3;
    }
    code = run_command(job);
    if (job->settings->min_hold_ms && !job->cause)
        hold_on(job);
    if (give_back(job) == HF_LOST && job->cause == 0)
        return cli_job_lose(job, "was lost while the command ran", "");
    return code;
}

int cli_job_open(struct cli_client *session, struct cli_settings *settings)
{
    char *owner = owner_text(settings);
    int code;

    setenv("HOLDFAST_OWNER", owner ? owner : "", 1);
    code = cli_session_open(session, settings, owner);
    free(owner);
    if (code != CLI_OK || cli_session_watch(session))
        return code;
    cli_session_close(session);
    return CLI_INTERNAL;
}

int cli_run(struct cli_settings *settings)
{
    struct cli_client session;
    struct cli_job job;
    int code = cli_job_prepare(&job, settings, "run");

    if (code == CLI_OK)
        code = cli_report_check(settings);
    if (code != CLI_OK)
        return code;
    code = cli_job_open(&session, settings);
    bool is_open = code == CLI_OK;

    if (is_open)
        code = cli_job_do(&job, &session);
    cli_report_write(&job, code);
    if (is_open)
        cli_session_close(&session);
    return code;
}

int cli_try(struct cli_settings *settings)
{
    settings->try_only = true;
    return cli_run(settings);
}
