/* The guard: a process of our own that outlives a SIGKILL of holdfast just long enough to kill the
 * command's whole process group, which would otherwise go on without a lock. The kernel kills the
 * command itself (PR_SET_PDEATHSIG), but knows nothing of its children. */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static bool read_all(int fd, void *buffer, size_t size)
{
    ssize_t got;

    do
        got = read(fd, buffer, size);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)size;
}

/* Nothing but the pipe stays open: whoever reads our output must not wait for the guard, and the
 * store must not see it. */
static _Noreturn void guard(int fd)
{
    sigset_t all;
    pid_t group;
    char done;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid();
    prctl(PR_SET_NAME, "holdfast-guard");
    dup2(fd, 0);
    syscall(SYS_close_range, 1U, ~0U, 0U);
    if (read_all(0, &group, sizeof(group)) && !read_all(0, &done, 1))
        kill(-group, SIGKILL);
    _exit(0);
}

/* Until the guard has closed what it was born with, the store sees us live on in it: whoever kills
 * us would have to wait for that, too. */
static void wait_until_closed(int ready[2])
{
    char nothing;

    close(ready[1]);
    read_all(ready[0], &nothing, 1);
    close(ready[0]);
}

static void guard_cannot_start(int ends[2], const char *what)
{
    cli_complain("%s: %s", what, strerror(errno));
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
}

bool cli_guard_start(struct cli_job *job)
{
    int ends[2] = { -1, -1 }, ready[2];

    if (pipe2(ends, O_CLOEXEC) != 0 || pipe2(ready, O_CLOEXEC) != 0) {
        guard_cannot_start(ends, "no pipe for the guard process");
        return false;
    }
    job->guard_pid = fork();
    if (job->guard_pid == 0) {
        close(ends[1]);
        guard(ends[0]);
    }
    if (job->guard_pid < 0) {
        guard_cannot_start(ends, "the guard process cannot be started");
        job->guard_fd = -1;
    }
    wait_until_closed(ready);
    if (job->guard_pid < 0)
        return false;
    close(ends[0]);
    job->guard_fd = ends[1];
    return true;
}

/* A write to a guard that somebody killed must not kill us: there is no guard then, but still the
 * kernel's own signal to the command. */
static void tell(const struct cli_job *job, const void *what, size_t size)
{
    sigset_t pipe_signal;
    struct timespec at_once = { 0 };

    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigprocmask(SIG_BLOCK, &pipe_signal, NULL);
    if (write(job->guard_fd, what, size) != (ssize_t)size)
        sigtimedwait(&pipe_signal, NULL, &at_once);
    if (!sigismember(&job->session->original, SIGPIPE))
        sigprocmask(SIG_UNBLOCK, &pipe_signal, NULL);
}

void cli_guard_watch(struct cli_job *job)
{
    if (job->guard_fd >= 0)
        tell(job, &job->pid, sizeof(job->pid));
}

void cli_guard_end(struct cli_job *job)
{
    if (job->guard_fd < 0)
        return;
    tell(job, "", 1);
    close(job->guard_fd);
    job->guard_fd = -1;
    waitpid(job->guard_pid, NULL, 0);
}
