/* SPDX-License-Identifier: Apache-2.0 */
/* The guard: a process of our own that kills the command's whole process group, which would
 * otherwise go on without a lock, when holdfast cannot: it outlives a SIGKILL of holdfast just long
 * enough, and while holdfast is stopped it knows when the lock ends. The kernel kills the command
 * itself (PR_SET_PDEATHSIG), but knows nothing of its children, nor of locks. */
#include "run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* The most descriptors that are closed one by one, where neither close_range(2) nor /proc is there.
 */
#define FDS_MAX (1 << 20)

/* What the guard is told, each time anew. */
struct word {
    pid_t group;        /* 0: there is nothing left to kill */
    int64_t kill_at_ms; /* CLI_NEVER: only if holdfast ends without a word */
};

static bool read_all(int fd, void *buffer, size_t size)
{
    ssize_t got;

    do
        got = read(fd, buffer, size);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)size;
}

/* Each descriptor that /proc lists, but the listing's own. False: there is no /proc. */
static bool close_listed(void)
{
    DIR *directory = opendir("/proc/self/fd");
    const struct dirent *entry;

    if (!directory)
        return false;
    while ((entry = readdir(directory))) {
        int fd = (int)strtol(entry->d_name, NULL, 10);
        if (fd > 0 && fd != dirfd(directory))
            close(fd);
    }
    closedir(directory);
    return true;
}

/* Linux before 5.9 has no close_range(2), and some containers refuse it. */
static void close_all_but_first(void)
{
    struct rlimit limit = { FDS_MAX, FDS_MAX };

    if (syscall(SYS_close_range, 1U, ~0U, 0U) == 0 || close_listed())
        return;
    getrlimit(RLIMIT_NOFILE, &limit);
    for (int fd = 1; fd < FDS_MAX && (rlim_t)fd < limit.rlim_cur; fd++)
        close(fd);
}

/* Nothing but the pipe stays open: the reader of our output must not wait for the guard, and the
 * store must not see it. `ready` is closed by its number in any case, as holdfast waits for that.
 */
static void keep_nothing_but(int fd, int ready)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid();
    prctl(PR_SET_NAME, "holdfast-guard");
    dup2(fd, 0);
    close_all_but_first();
    close(ready);
}

/* The last word. False: there will be no more. */
static bool hear(struct word *told)
{
    struct pollfd words = { 0, POLLIN, 0 };

    while (poll(&words, 1, 0) > 0)
        if (!read_all(0, told, sizeof(*told)))
            return false;
    return true;
}

void cli_timer_arm(int timer, int64_t at_ms)
{
    struct itimerspec spec = { 0 };

    if (at_ms != CLI_NEVER) {
        int64_t at = at_ms > 1 ? at_ms : 1; /* 0 would disarm */
        spec.it_value.tv_sec = at / 1000;
        spec.it_value.tv_nsec = at % 1000 * 1000000;
    }
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

static _Noreturn void guard(int fd, int ready)
{
    struct word told = { 0, CLI_NEVER };

    keep_nothing_but(fd, ready);
    int timer = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK);
    while (hear(&told) && cli_now_ms() < told.kill_at_ms) { /* mutant: guard-leaves-command */
        struct pollfd polled[] = { { 0, POLLIN, 0 }, { timer, POLLIN, 0 } };
        cli_timer_arm(timer, told.kill_at_ms);
        poll(polled, 2, -1);
    }
    if (told.group)
        kill(-told.group, SIGKILL);
    _exit(0);
}

/* Until the guard has closed what it was born with, the store sees us live on in it: the process
 * that kills us would have to wait for that, too. */
static void wait_until_closed(int ready[2])
{
    char nothing;

    close(ready[1]);
    read_all(ready[0], &nothing, 1);
    close(ready[0]);
}

static void guard_cannot_start(int ends[2], const char *what)
{
    cli_tell(CLI_ERROR, CLI_INTERNAL, "%s: %s", what, strerror(errno));
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
        guard(ends[0], ready[1]);
    }
    if (job->guard_pid < 0) {
        guard_cannot_start(ends, "the guard process cannot be started");
        job->guard_fd = -1;
    }
    wait_until_closed(ready);
    if (job->guard_pid < 0)
        return false;
    close(ends[0]);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    job->guard_fd = ends[1];
    return true;
}

/* A write to a guard that was killed must not kill us, nor one to a guard that was stopped stop us:
 * there is no guard then, but still the kernel's own signal to the command. */
static void run_guard_tell(const struct cli_job *job, struct word word)
{
    sigset_t pipe_signal;
    struct timespec at_once = { 0 };

    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigprocmask(SIG_BLOCK, &pipe_signal, NULL);
    if (write(job->guard_fd, &word, sizeof(word)) != (ssize_t)sizeof(word))
        sigtimedwait(&pipe_signal, NULL, &at_once);
    if (!sigismember(&job->session->original, SIGPIPE))
        sigprocmask(SIG_UNBLOCK, &pipe_signal, NULL);
}

void cli_guard_watch(struct cli_job *job, int64_t kill_at_ms)
{
    /* mutant: guard-hears-of-first-end */
    if (job->guard_fd < 0 || job->guard_told_ms == kill_at_ms)
        return;
    job->guard_told_ms = kill_at_ms;
    run_guard_tell(job, (struct word){ job->pid, kill_at_ms });
}

void cli_guard_end(struct cli_job *job)
{
    if (job->guard_fd < 0)
        return;
    run_guard_tell(job, (struct word){ 0, CLI_NEVER });
    close(job->guard_fd);
    job->guard_fd = -1;
    waitpid(job->guard_pid, NULL, 0);
}
