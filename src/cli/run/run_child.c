/* SPDX-License-Identifier: Apache-2.0 */
/* The command's process: a group of its own, its signals as they were, dead if we die. */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the child reports instead of an errno: the lock's last moment came before exec. */
#define TOO_LATE (-1)

/* False: holdfast has gone. */
static bool read_last_moment(int fd, int64_t *ret_ms)
{
    ssize_t got;

    do
        got = read(fd, ret_ms, sizeof(*ret_ms));
    while (got < 0 && errno == EINTR);
    return got == sizeof(*ret_ms);
}

static _Noreturn void report(int fd, int error, int exit_code)
{
    if (write(fd, &error, sizeof(error)) != sizeof(error))
        _exit(CLI_INTERNAL);
    _exit(exit_code);
}

/* Between fork and exec. A nested command stays in the outer one's group, which the outer holdfast
 * ends as a whole. The guard knows the last moment before the child does. */
static _Noreturn void become_command(struct cli_job *job, pid_t parent, int start_fd, int report_fd,
                                     bool foreground)
{
    int64_t last_moment_ms;
    int error;

    if (!job->nested)
        setpgid(0, 0);
    if (foreground)
        cli_terminal_give(&job->terminal, getpid());
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || !read_last_moment(start_fd, &last_moment_ms))
        _exit(CLI_SIGNAL + SIGKILL);
    sigprocmask(SIG_SETMASK, &job->session->original, NULL);
    if (cli_now_ms() >= last_moment_ms) /* mutant: child-starts-command-after-end */
        report(report_fd, TOO_LATE, CLI_CANNOT_EXEC);
    execvp(job->command[0], job->command);
    error = errno;
    report(report_fd, error, error == ENOENT ? CLI_NOT_FOUND : CLI_CANNOT_EXEC);
}

/* A pair of pipes: the child waits at the first, and reports at the second. */
static bool open_pipes(int start[2], int reports[2])
{
    if (pipe2(start, O_CLOEXEC) != 0)
        return false;
    if (pipe2(reports, O_CLOEXEC) == 0)
        return true;
    close(start[0]);
    close(start[1]);
    return false;
}

int cli_child_start(struct cli_job *job)
{
    bool foreground = !job->nested && cli_terminal_interactive(&job->terminal);
    pid_t parent = getpid();
    int start[2], reports[2], error;

    if (!open_pipes(start, reports)) {
        cli_tell(CLI_ERROR, CLI_INTERNAL, "no pipe for the command: %s", strerror(errno));
        return CLI_INTERNAL;
    }
    job->pid = fork();
    if (job->pid == 0) {
        close(start[1]);
        become_command(job, parent, start[0], reports[1], foreground);
    }
    error = errno;
    close(start[0]);
    close(reports[1]);
    job->exec_fd = reports[0];
    fcntl(job->exec_fd, F_SETFL, O_NONBLOCK);
    if (job->pid > 0) {
        if (!job->nested)
            setpgid(job->pid, job->pid);
        job->terminal.given = foreground;
        cli_guard_watch(job, cli_job_guard_at(job));
        /* A child that was killed before it could read has no use for the moment. */
        int64_t last_moment_ms = cli_job_last_moment(job);
        struct sigaction ignore = { .sa_handler = SIG_IGN }, before;

        sigaction(SIGPIPE, &ignore, &before);
        if (write(start[1], &last_moment_ms, sizeof(last_moment_ms)) != sizeof(last_moment_ms))
            last_moment_ms = 0;
        sigaction(SIGPIPE, &before, NULL);
    } else {
        cli_tell(CLI_ERROR, CLI_INTERNAL, "no process for the command: %s", strerror(error));
    }
    close(start[1]);
    return job->pid > 0 ? CLI_OK : CLI_INTERNAL;
}

/* The pipe closes by itself when exec works. */
void cli_child_look_at_exec(struct cli_job *job)
{
    int error;
    ssize_t got;

    if (job->exec_fd < 0)
        return;
    got = read(job->exec_fd, &error, sizeof(error));
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    close(job->exec_fd);
    job->exec_fd = -1;
    if (got == sizeof(error))
        job->exec_error = error;
}

/* A whole line in one word, or what only a shell can do. */
static bool is_for_a_shell(const char *command)
{
    static const char *const builtins[] = {
        "cd", "export", "source", ".", "set", "ulimit", "umask"
    };

    for (size_t i = 0; i < sizeof(builtins) / sizeof(builtins[0]); i++)
        if (strcmp(command, builtins[i]) == 0)
            return true;
    return strpbrk(command, " ;&|<>$`") != NULL;
}

int cli_child_report(struct cli_job *job)
{
    if (job->exec_error == 0)
        return job->status;
    if (job->exec_error == TOO_LATE)
        return cli_job_lose(job, "is about to be lost, so the command was not started", "");
    int code = job->exec_error == ENOENT ? CLI_NOT_FOUND : CLI_CANNOT_EXEC;

    cli_tell(CLI_ERROR, code, "cannot run '%s': %s%s", job->command[0], strerror(job->exec_error),
             code == CLI_NOT_FOUND && is_for_a_shell(job->command[0])
                 ? "; a line for a shell is given with -c"
                 : "");
    return code;
}

int cli_child_signal(const struct cli_job *job, int signal)
{
    int result = 0;

    if (!job->nested)
        result = kill(-job->pid, signal);
    else if (!job->ended)
        result = kill(job->pid, signal);
    return result == 0 ? 0 : errno;
}

void cli_child_shell(const struct cli_job *job, const char *command)
{
    const char *shell = getenv("SHELL");
    char pid[24];
    pid_t child = fork();

    if (child > 0) {
        waitpid(child, NULL, 0);
        return;
    }
    if (child < 0 || fork() != 0) {
        if (child == 0)
            _exit(0);
        cli_tell(CLI_ERROR, CLI_OK, "--on-lost '%s' cannot be started: %s", command,
                 strerror(errno));
        return;
    }
    snprintf(pid, sizeof(pid), "%d", (int)job->pid);
    setenv("HOLDFAST_PID", pid, 1);
    sigprocmask(SIG_SETMASK, &job->session->original, NULL);
    execlp(shell && shell[0] ? shell : "/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(CLI_CANNOT_EXEC);
}
