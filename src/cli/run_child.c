/* The command's process: a group of its own, its signals as they were, dead if we die. */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Between fork and exec. A nested command stays in the outer one's group, which the outer holdfast
 * ends as a whole. */
static _Noreturn void become_command(struct cli_job *job, pid_t parent, int report, bool foreground)
{
    int error;

    if (!job->nested)
        setpgid(0, 0);
    if (foreground)
        cli_terminal_give(&job->terminal, getpid());
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(CLI_SIGNAL + SIGKILL);
    sigprocmask(SIG_SETMASK, &job->session->original, NULL);
    execvp(job->command[0], job->command);
    error = errno;
    if (write(report, &error, sizeof(error)) != sizeof(error))
        _exit(CLI_INTERNAL);
    _exit(error == ENOENT ? CLI_NOT_FOUND : CLI_CANNOT_EXEC);
}

/* What exec had to say: nothing if it worked, for then the pipe closed by itself. */
static int exec_error(int fd)
{
    int error = 0;
    ssize_t got;

    do
        got = read(fd, &error, sizeof(error));
    while (got < 0 && errno == EINTR);
    return got == sizeof(error) ? error : 0;
}

static int report_exec(struct cli_job *job, int error)
{
    waitpid(job->pid, NULL, 0);
    cli_terminal_take_back(&job->terminal);
    cli_complain("cannot run '%s': %s", job->command[0], strerror(error));
    return error == ENOENT ? CLI_NOT_FOUND : CLI_CANNOT_EXEC;
}

int cli_child_start(struct cli_job *job)
{
    bool foreground = !job->nested && cli_terminal_interactive(&job->terminal);
    pid_t parent = getpid();
    int ends[2], error;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        cli_complain("no pipe for the command: %s", strerror(errno));
        return CLI_INTERNAL;
    }
    job->pid = fork();
    if (job->pid == 0)
        become_command(job, parent, ends[1], foreground);
    error = errno;
    close(ends[1]);
    if (job->pid < 0) {
        close(ends[0]);
        cli_complain("no process for the command: %s", strerror(error));
        return CLI_INTERNAL;
    }
    if (!job->nested)
        setpgid(job->pid, job->pid);
    job->terminal.given = foreground;
    cli_guard_watch(job, CLI_NEVER);
    error = exec_error(ends[0]);
    close(ends[0]);
    return error ? report_exec(job, error) : CLI_OK;
}

void cli_child_signal(const struct cli_job *job, int signal)
{
    if (!job->nested)
        kill(-job->pid, signal);
    else if (!job->ended)
        kill(job->pid, signal);
}

/* Zombies of the group count until somebody reaps them; the caller has a deadline anyway. */
bool cli_child_group_alive(const struct cli_job *job)
{
    return !job->nested && kill(-job->pid, 0) == 0;
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
        cli_complain("--on-lost '%s' cannot be started: %s", command, strerror(errno));
        return;
    }
    snprintf(pid, sizeof(pid), "%d", (int)job->pid);
    setenv("HOLDFAST_PID", pid, 1);
    sigprocmask(SIG_SETMASK, &job->session->original, NULL);
    execlp(shell && shell[0] ? shell : "/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(CLI_CANNOT_EXEC);
}
