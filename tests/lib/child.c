/* SPDX-License-Identifier: Apache-2.0 */
/* Children that a test starts, and the pipes by which they go step by step. */
#include "test.h"

#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int parent_pipe_in = -1, parent_pipe_out = -1;

void end_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pid_t now = getppid();
    /* A death before that is not announced any more. 0 is a parent in another pid namespace. */
    if (now != parent && now != 0)
        _exit(1);
}

static __attribute__((noreturn)) void run_child(struct child *child, const int down[2],
                                                const int up[2], void (*run)(void *), void *arg)
{
    close(down[1]);
    close(up[0]);
    /* A grandchild talks to its own parent. */
    parent_pipe_in = down[0];
    parent_pipe_out = up[1];
    child->pid = 0;
    run(arg);
    /* Not exit: what the parent had allocated is not this process's to free. */
    _exit(test_state->failed ? 1 : 0);
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FORK_NEEDS_QUIET_THREADS
#endif
#endif

#ifdef FORK_NEEDS_QUIET_THREADS
static bool is_at_rest(const char *thread)
{
    char path[80], line[200] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%.20s/stat", thread);
    FILE *file = fopen(path, "re");
    if (!file)
        return true;
    bool read = fgets(line, sizeof(line), file) != NULL;
    fclose(file);
    const char *state = strrchr(line, ')');
    return !read || !state || state[1] == '\0' || state[2] == 'S';
}

static bool all_others_are_at_rest(void)
{
    bool rest = true;
    struct dirent *entry;
    DIR *tasks = opendir("/proc/self/task");
    while (tasks && (entry = readdir(tasks)) != NULL)
        if (entry->d_name[0] != '.' && strtol(entry->d_name, NULL, 10) != gettid())
            rest = is_at_rest(entry->d_name) && rest;
    if (tasks)
        closedir(tasks);
    return rest;
}
#endif

/* The address sanitizer's allocator does not survive a fork() while another thread is inside it, as
 * one is that begins, or that looks here at what the others do: so they come here one by one. */
static pid_t fork_in_quiet(void)
{
    static pthread_mutex_t one_by_one = PTHREAD_MUTEX_INITIALIZER;

    pthread_mutex_lock(&one_by_one);
#ifdef FORK_NEEDS_QUIET_THREADS
    int64_t until_ms = monotonic_ms() + 5000;
    while (!all_others_are_at_rest() && monotonic_ms() < until_ms)
        sched_yield();
#endif
    pid_t pid = fork();
    pthread_mutex_unlock(&one_by_one);
    return pid;
}

void child_start(struct child *child, void (*run)(void *arg), void *arg)
{
    int down[2], up[2];

    if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0)
        FAIL("pipe: %s", strerror(errno));
    pid_t parent = getpid(), pid = fork_in_quiet();
    if (pid < 0)
        FAIL("fork: %s", strerror(errno));
    if (pid == 0) {
        end_with(parent);
        run_child(child, down, up, run, arg);
    }
    close(down[0]);
    close(up[1]);
    *child = (struct child){ .pid = pid, .to = down[1], .from = up[0] };
}

__attribute__((format(printf, 2, 0))) static void say(int fd, const char *format, va_list args)
{
    char line[600];
    int length = vsnprintf(line, sizeof(line) - 1, format, args);

    if (length < 0 || (size_t)length >= sizeof(line) - 1)
        FAIL("a line too long");
    line[length] = '\n';
    /* One write below PIPE_BUF is atomic. The other side may be dead: hearing will tell. */
    ssize_t written = write(fd, line, (size_t)length + 1);
    (void)written;
}

static bool hear(int fd, char *line, size_t size)
{
    size_t length = 0;
    char byte;

    for (;;) {
        ssize_t count = read(fd, &byte, 1);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        if (byte == '\n')
            break;
        if (length + 1 < size)
            line[length++] = byte;
    }
    line[length] = '\0';
    return true;
}

void child_say(struct child *child, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(child->to, format, args);
    va_end(args);
}

bool child_hear(struct child *child, char *line, size_t size)
{
    return hear(child->from, line, size);
}

void child_wait_for(struct child *child, const char *line)
{
    char heard[600];

    if (!child_hear(child, heard, sizeof(heard)))
        FAIL("waiting for \"%s\": the child has ended", line);
    if (strcmp(heard, line) != 0)
        FAIL("waiting for \"%s\": the child said \"%s\"", line, heard);
}

void child_signal(struct child *child, int signal_number)
{
    if (child->pid <= 0 || kill(child->pid, signal_number) != 0)
        FAIL("kill(%d, %d): %s", (int)child->pid, signal_number, strerror(errno));
}

void child_stop(struct child *child)
{
    int status;

    child_signal(child, SIGSTOP);
    if (waitpid(child->pid, &status, WUNTRACED) != child->pid || !WIFSTOPPED(status))
        FAIL("the child ended instead of stopping");
}

void child_continue(struct child *child)
{
    child_signal(child, SIGCONT);
}

int child_wait(struct child *child)
{
    int status = 0;
    pid_t pid;

    do
        pid = waitpid(child->pid, &status, 0);
    while (pid < 0 && errno == EINTR);
    if (pid != child->pid)
        FAIL("waitpid: %s", strerror(errno));
    close(child->to);
    close(child->from);
    *child = (struct child){ .pid = 0, .to = -1, .from = -1 };
    return status;
}

void child_kill(struct child *child)
{
    child_signal(child, SIGKILL);
    child_wait(child);
}

void child_join(struct child *child)
{
    int status = child_wait(child);

    if (WIFSIGNALED(status))
        FAIL("a child was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0)
        FAIL("a child exited with %d", WEXITSTATUS(status));
}

void parent_say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(parent_pipe_out, format, args);
    va_end(args);
}

bool parent_hear(char *line, size_t size)
{
    return hear(parent_pipe_in, line, size);
}

void parent_wait_for(const char *line)
{
    char heard[600];

    if (!parent_hear(heard, sizeof(heard)))
        _exit(0); /* the parent is gone */
    if (strcmp(heard, line) != 0)
        FAIL("waiting for \"%s\": the parent said \"%s\"", line, heard);
}
