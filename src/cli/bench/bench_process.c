/* SPDX-License-Identifier: Apache-2.0 */
/* The processes that measure: forked before any store is open, started together, never left behind.
 */
#include "bench.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A run that takes longer than this hangs. The parent says so; the processes' own alarms are for a
 * parent that is stopped. */
enum { PATIENCE_S = 30 };

int64_t cli_bench_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void cli_bench_pause(void)
{
    const struct timespec little = { .tv_nsec = 20000 };

    nanosleep(&little, NULL);
}

void cli_bench_die(struct cli_bench *bench, int exit_code, const char *format, ...)
{
    struct cli_bench_shared *shared = bench->shared;
    va_list args;

    if (!atomic_exchange(&shared->failed, true)) {
        va_start(args, format);
        vsnprintf(shared->sentence, sizeof(shared->sentence), format, args);
        va_end(args);
        shared->exit_code = exit_code;
    }
    _exit(1);
}

bool cli_bench_start(struct cli_bench *bench)
{
    static const int signals[] = { SIGHUP, SIGINT, SIGTERM };
    struct sigaction action;
    void *memory = mmap(NULL, sizeof(*bench->shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        cli_complain("no memory to share between processes: %s", strerror(errno));
        bench->exit_code = CLI_INTERNAL;
        return false;
    }
    bench->shared = memory;
    signal(SIGCHLD, SIG_DFL);
    /* We have a directory to remove, even if our output is not read. */
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&bench->watched);
    sigaddset(&bench->watched, SIGCHLD);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (sigaction(signals[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&bench->watched, signals[i]);
    sigprocmask(SIG_BLOCK, &bench->watched, &bench->original);
    return true;
}

static void wait_for_the_others(struct cli_bench_child *child)
{
    struct cli_bench_shared *shared = child->bench->shared;
    int64_t none = 0;

    atomic_fetch_add(&shared->opened, 1);
    while (atomic_load(&shared->opened) < atomic_load(&shared->expected))
        cli_bench_pause();
    atomic_compare_exchange_strong(&shared->deadline_ns, &none,
                                   cli_bench_now_ns() + child->run_ms * 1000000);
}

static _Noreturn void run_child(struct cli_bench_child *child, pid_t parent,
                                void (*run)(struct cli_bench_child *child))
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    alarm(PATIENCE_S + 5);
    sigprocmask(SIG_SETMASK, &child->bench->original, NULL);
    if (child->subject) {
        child->lock = child->subject->open(child->bench, child->subject);
        wait_for_the_others(child);
    }
    run(child);
    if (child->lock)
        child->subject->close(child->lock);
    _exit(0);
}

static bool fail(struct cli_bench *bench, int exit_code, const char *sentence)
{
    for (unsigned i = 0; i < bench->child_count; i++)
        if (bench->children[i] > 0)
            cli_bench_kill(bench, i);
    bench->child_count = 0;
    bench->exit_code = exit_code;
    if (sentence)
        cli_complain("%s", sentence);
    return false;
}

bool cli_bench_fork(struct cli_bench *bench, const struct cli_bench_subject *subject,
                    unsigned count, int64_t run_ms, void (*run)(struct cli_bench_child *child))
{
    pid_t self = getpid();

    struct cli_bench_shared *shared = bench->shared;
    atomic_store(&shared->opened, 0);
    atomic_store(&shared->expected, count);
    atomic_store(&shared->stop, false);
    atomic_store(&shared->deadline_ns, 0);
    atomic_store(&shared->waiting[0], false);
    atomic_store(&shared->waiting[1], false);
    atomic_store(&shared->holder, -1);
    atomic_store(&shared->released_ns, 0);
    memset(shared->counts, 0, sizeof(shared->counts));
    shared->guarded = 0;
    shared->sample_count = 0;
    if (subject && subject->prepare && !subject->prepare(bench))
        return fail(bench, CLI_INTERNAL, NULL);
    bench->give_up_ms = cli_now_ms() + PATIENCE_S * 1000;
    bench->child_count = 0;
    fflush(NULL);
    while (bench->child_count < count) {
        struct cli_bench_child child = { bench, subject, bench->child_count, NULL, run_ms };
        pid_t pid = fork();
        if (pid == 0)
            run_child(&child, self, run);
        if (pid < 0)
            return fail(bench, CLI_INTERNAL, "no further process can be started: see ulimit -u");
        bench->children[bench->child_count++] = pid;
    }
    return true;
}

void cli_bench_kill(struct cli_bench *bench, unsigned index)
{
    kill(bench->children[index], SIGKILL);
    while (waitpid(bench->children[index], NULL, 0) < 0 && errno == EINTR)
        ;
    bench->children[index] = 0;
}

/* Collects those that have ended. False: one has failed. */
static bool collect_ended(struct cli_bench *bench)
{
    for (unsigned i = 0; i < bench->child_count; i++) {
        int status;
        if (bench->children[i] == 0 || waitpid(bench->children[i], &status, WNOHANG) <= 0)
            continue;
        bench->children[i] = 0;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            continue;
        if (atomic_load(&bench->shared->failed))
            return fail(bench, bench->shared->exit_code, bench->shared->sentence);
        return fail(bench, CLI_INTERNAL,
                    "a measuring process has died; if this comes again, please report it");
    }
    return true;
}

/* Waits for a signal, at most for that time. */
static bool attend(struct cli_bench *bench, int64_t ms)
{
    const struct timespec limit = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
    int number = sigtimedwait(&bench->watched, NULL, &limit);

    if (number > 0 && number != SIGCHLD)
        return fail(bench, CLI_SIGNAL + number, NULL);
    if (cli_now_ms() > bench->give_up_ms)
        return fail(bench, CLI_UNREACHABLE,
                    "a measurement has not ended in time: is the store, or this machine, stuck?");
    return collect_ended(bench);
}

bool cli_bench_wait_for(struct cli_bench *bench, const atomic_bool *flag)
{
    while (!atomic_load(flag))
        if (!attend(bench, 1))
            return false;
    return true;
}

bool cli_bench_wait_ms(struct cli_bench *bench, int64_t ms)
{
    int64_t until_ms = cli_now_ms() + ms, left_ms;

    while ((left_ms = until_ms - cli_now_ms()) > 0)
        if (!attend(bench, left_ms))
            return false;
    return true;
}

static bool any_left(const struct cli_bench *bench)
{
    for (unsigned i = 0; i < bench->child_count; i++)
        if (bench->children[i] > 0)
            return true;
    return false;
}

bool cli_bench_reap(struct cli_bench *bench)
{
    if (!collect_ended(bench))
        return false;
    while (any_left(bench))
        if (!attend(bench, 1000))
            return false;
    return true;
}
