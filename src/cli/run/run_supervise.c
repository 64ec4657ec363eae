/* SPDX-License-Identifier: Apache-2.0 */
/* Watches over a running command: its end, its stops, our signals, the lock's deadline. One loop,
 * in which nothing blocks. */
#include "run.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* How often a group that is ending is looked at; the kernel does not tell of its end. */
#define GROUP_CHECK_MS 10
/* How long a command that was sent a TSTP may take to stop. One in the middle of a vfork never
 * does, though its child has: without us it would stand still for ever, and the lock with it.
 * STOP_MS after it went on it is told once more, for one of its group (a nested holdfast) may have
 * been about to stop when it was told first: a stop makes the kernel forget a SIGCONT that is
 * pending. */
#define STOP_MS 200

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t later(int64_t from_ms, int64_t by_ms)
{
    return from_ms >= CLI_NEVER - by_ms ? CLI_NEVER : from_ms + by_ms;
}

/* A stopped command is continued, for it could not end otherwise. */
static void terminate(struct cli_job *job)
{
    job->term_at_ms = CLI_NEVER;
    cli_child_signal(job, SIGTERM);
    cli_child_signal(job, SIGCONT);
}

/* `on_lost` is NULL without a loss. A command line of the user's has the first half of the time for
 * its own way of ending the command. One that is going to be killed at once gets no SIGTERM, since
 * it would run on for a moment. */
static void ask_to_end(struct cli_job *job, int64_t now, const char *on_lost)
{
    job->stage = CLI_ENDING;
    if (on_lost && strcmp(on_lost, "kill") == 0) {
        job->kill_at_ms = 0;
    } else if (on_lost && strcmp(on_lost, "term") != 0) {
        cli_child_shell(job, on_lost);
        job->term_at_ms = now + (job->kill_at_ms - now) / 2;
    } else if (now < job->kill_at_ms) {
        terminate(job);
    }
}

/* The guard has the same moment, and may have been faster. The sentence comes last: its reader may
 * be slow, and the lock does not wait. */
static void kill_group(struct cli_job *job)
{
    bool was_there = !job->ended || job->status == CLI_SIGNAL + SIGKILL ||
                     cli_group_state(job) != CLI_GROUP_GONE;
    bool was_asked = job->kill_at_ms > 0;
    bool is_foreign = cli_child_signal(job, SIGKILL) == EPERM;

    job->stage = CLI_KILLED;
    if (is_foreign && was_there)
        cli_tell(CLI_ERROR, CLI_OK,
                 "what is left of the command belongs to another user and cannot be killed");
    else if (was_there && was_asked && !(job->settings->quiet && job->cause == CLI_TIMED_OUT))
        cli_tell(CLI_WARNING, CLI_OK,
                 "the command has not ended in time: what is left of it is killed");
}

/* The command is asked to end before anything is said. */
static void end_lost(struct cli_job *job, int64_t now)
{
    const char *reason = cli_loss_reason(job);

    if (!cli_loss_is_ignored(job)) {
        /* A break leaves the lease as it was: then the grace is all there is. */
        job->kill_at_ms =
            job->held_until_ms == CLI_NEVER || (job->lost && now < cli_job_last_moment(job))
                ? now + job->grace_ms
                : cli_job_last_moment(job);
        ask_to_end(job, now, job->settings->on_lost);
    }
    cli_job_lose(job, job->lost ? "is lost" : "is about to be lost", reason);
}

static int64_t run_limit(const struct cli_job *job)
{
    return job->settings->max_run_ms ? later(job->granted_at_ms, job->settings->max_run_ms)
                                     : CLI_NEVER;
}

static void do_what_is_due(struct cli_job *job)
{
    int64_t now = cli_now_ms();

    cli_loss_refresh(job, now);
    if (!job->cause && !job->ended && (job->lost || now >= cli_loss_warn_at(job)))
        end_lost(job, now);
    if (job->stage == CLI_RUNNING && !job->ended && now >= run_limit(job)) {
        job->cause = CLI_TIMED_OUT;
        job->kill_at_ms = now + job->grace_ms;
        if (!cli_loss_is_ignored(job))
            job->kill_at_ms = least(job->kill_at_ms, cli_job_last_moment(job));
        ask_to_end(job, now, NULL);
        if (!job->settings->quiet)
            cli_tell(CLI_ERROR, CLI_TIMED_OUT,
                     "the command has run for its --max-run, and is being ended");
    }
    if (job->cause == CLI_TIMED_OUT && job->lost && !cli_loss_is_ignored(job))
        job->kill_at_ms = least(job->kill_at_ms, cli_job_last_moment(job));
    if (job->stage == CLI_ENDING && now >= job->kill_at_ms)
        kill_group(job);
    if (job->stage == CLI_ENDING && now >= job->term_at_ms)
        terminate(job);
    if (now >= job->continue_at_ms) {
        cli_child_signal(job, SIGCONT);
        job->continue_at_ms = CLI_NEVER;
    }
    cli_guard_watch(job, cli_job_guard_at(job));
}

static int64_t next_due(const struct cli_job *job)
{
    if (job->stage == CLI_ENDING)
        return least(least(job->kill_at_ms, job->term_at_ms),
                     job->ended ? cli_now_ms() + GROUP_CHECK_MS : CLI_NEVER);
    if (job->stage == CLI_KILLED && job->ended)
        return cli_now_ms() + GROUP_CHECK_MS;
    if (job->stage == CLI_KILLED || job->ended)
        return CLI_NEVER;
    return least(job->continue_at_ms,
                 job->cause ? run_limit(job) : least(cli_loss_warn_at(job), run_limit(job)));
}

/* After Ctrl-Z, or a TSTP that was passed on: let the shell have the terminal, stop with our job,
 * and once continued look at the lock before the command may go on. A lock that is renewed for a
 * command that stands still would be of use to no process. The guard keeps its moment: the
 * command's group may be continued alone, while holdfast stays stopped. */
static void suspend_with_command(struct cli_job *job)
{
    bool had = job->terminal.given;

    cli_terminal_take_back(&job->terminal);
    cli_terminal_suspend(&job->terminal, job->nested); /* mutant: suspended-command-has-no-guard */
    hf_dispatch(job->session->client);
    do_what_is_due(job);
    if (job->stage != CLI_RUNNING)
        return;
    if (had)
        cli_terminal_give(&job->terminal, job->pid);
    cli_child_signal(job, SIGCONT);
    job->continue_at_ms = cli_now_ms() + STOP_MS;
}

static void command_stopped(struct cli_job *job, int signal)
{
    bool wants_terminal = signal == SIGTTIN || signal == SIGTTOU;

    job->continue_at_ms = CLI_NEVER;
    /* An editor stops itself by SIGSTOP. Without us no process would have the terminal then. */
    if (signal == SIGSTOP &&
        !(job->nested ? cli_terminal_is_ours(&job->terminal) : job->terminal.given))
        return;
    if (wants_terminal && (job->terminal.fd < 0 || job->nested))
        return;
    if (wants_terminal && cli_terminal_give(&job->terminal, job->pid))
        cli_child_signal(job, SIGCONT);
    else
        suspend_with_command(job);
}

static void look_at_command(struct cli_job *job)
{
    siginfo_t info;

    while (!job->ended) {
        info.si_pid = 0;
        if (waitid(P_PID, (id_t)job->pid, &info, WEXITED | WSTOPPED | WNOHANG) != 0 || !info.si_pid)
            return;
        if (info.si_code == CLD_STOPPED) {
            command_stopped(job, info.si_status);
            continue;
        }
        job->ended = true;
        job->status = info.si_code == CLD_EXITED ? info.si_status : CLI_SIGNAL + info.si_status;
    }
}

/* A nested command is in our group and may have heard of the signal already; hearing it twice is
 * better than never. */
static void forward_signals(struct cli_job *job)
{
    int signal;

    while ((signal = cli_session_signal(job->session)) != 0) {
        if (signal == SIGCHLD)
            continue;
        if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT)
            job->forwarded = signal;
        if (signal == SIGTSTP)
            job->continue_at_ms = cli_now_ms() + STOP_MS;
        if (!job->ended)
            cli_child_signal(job, signal);
    }
    look_at_command(job);
    /* As the first process of a container we inherit every orphan. */
    siginfo_t info;

    for (;;) {
        info.si_pid = 0;
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || !info.si_pid ||
            info.si_pid == job->pid || info.si_pid == job->guard_pid)
            return;
        waitpid(info.si_pid, NULL, 0);
    }
}

/* Once it was asked to end, the lock is kept for what is left of the group, if that can be seen. A
 * lock that is lost protects nothing any more. */
static bool is_over(const struct cli_job *job)
{
    enum cli_group group;

    if (!job->ended || job->stage == CLI_RUNNING)
        return job->ended;
    group = cli_group_state(job);
    if (job->stage == CLI_KILLED)
        return group != CLI_GROUP_ALIVE || job->lost;
    return group == CLI_GROUP_GONE;
}

static void turn(struct cli_job *job, int timer)
{
    struct pollfd polled[] = { { hf_fd(job->session->client), POLLIN, 0 },
                               { job->session->signal_fd, POLLIN, 0 },
                               { timer, POLLIN, 0 },
                               { job->exec_fd, POLLIN, 0 } };

    cli_timer_arm(timer, next_due(job));
    poll(polled, 4, -1);
    hf_dispatch(job->session->client);
    cli_child_look_at_exec(job);
    forward_signals(job);
    do_what_is_due(job);
}

/* The terminal sends Ctrl-C to the command's group alone; a script that called us must hear it too.
 */
static void pass_on_interrupt(struct cli_job *job, bool had_terminal)
{
    int signal = job->status - CLI_SIGNAL;

    if (!had_terminal || (signal != SIGINT && signal != SIGQUIT))
        return;
    if (sigismember(&job->session->watched, signal))
        kill(0, signal);
}

void cli_job_supervise(struct cli_job *job)
{
    int timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    bool had_terminal;

    job->term_at_ms = CLI_NEVER;
    job->continue_at_ms = CLI_NEVER;
    cli_guard_watch(job, cli_job_guard_at(job));
    while (!is_over(job))
        turn(job, timer);
    cli_child_look_at_exec(job);
    had_terminal = job->terminal.given;
    cli_terminal_take_back(&job->terminal);
    if (job->status >= CLI_SIGNAL && had_terminal)
        cli_terminal_restore_modes(&job->terminal);
    pass_on_interrupt(job, had_terminal);
    close(timer);
}
