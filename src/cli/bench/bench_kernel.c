/* SPDX-License-Identifier: Apache-2.0 */
/* The baselines that a program on Linux has without a library: flock, OFD locks, a robust mutex. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

struct file_lock {
    struct cli_bench_lock base;
    char paths[CLI_BENCH_NAMES][320];
    int fds[CLI_BENCH_NAMES];
};

static _Noreturn void die(struct cli_bench_lock *lock, const char *what, int error)
{
    cli_bench_die(lock->bench, CLI_INTERNAL, "%s in %s: %s", what, lock->bench->directory,
                  strerror(error));
}

static struct cli_bench_lock *paths_open(struct cli_bench *bench,
                                         const struct cli_bench_subject *subject)
{
    struct file_lock *lock = calloc(1, sizeof(*lock));

    if (!lock)
        cli_bench_die(bench, CLI_INTERNAL, "out of memory");
    lock->base = (struct cli_bench_lock){ bench, subject };
    for (unsigned i = 0; i < CLI_BENCH_NAMES; i++)
        snprintf(lock->paths[i], sizeof(lock->paths[i]), "%s/%s.%u", bench->directory, subject->key,
                 i);
    return &lock->base;
}

static int open_file(struct file_lock *lock, unsigned name)
{
    int fd = open(lock->paths[name], O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0)
        die(&lock->base, "a file cannot be opened", errno);
    return fd;
}

static struct cli_bench_lock *files_open(struct cli_bench *bench,
                                         const struct cli_bench_subject *subject)
{
    struct cli_bench_lock *base = paths_open(bench, subject);
    struct file_lock *lock = (struct file_lock *)base;

    for (unsigned i = 0; i < CLI_BENCH_NAMES; i++)
        lock->fds[i] = open_file(lock, i);
    return base;
}

static void files_close(struct cli_bench_lock *base)
{
    struct file_lock *lock = (struct file_lock *)base;

    for (unsigned i = 0; i < CLI_BENCH_NAMES; i++)
        close(lock->fds[i]);
    free(lock);
}

static void paths_close(struct cli_bench_lock *base)
{
    free(base);
}

static void flock_lock(struct cli_bench_lock *base, unsigned name)
{
    if (flock(((struct file_lock *)base)->fds[name], LOCK_EX) < 0)
        die(base, "flock fails", errno);
}

static void flock_unlock(struct cli_bench_lock *base, unsigned name)
{
    if (flock(((struct file_lock *)base)->fds[name], LOCK_UN) < 0)
        die(base, "flock fails", errno);
}

static void opening_lock(struct cli_bench_lock *base, unsigned name)
{
    struct file_lock *lock = (struct file_lock *)base;

    lock->fds[name] = open_file(lock, name);
    flock_lock(base, name);
}

static void opening_unlock(struct cli_bench_lock *base, unsigned name)
{
    close(((struct file_lock *)base)->fds[name]);
}

static void ofd_change(struct cli_bench_lock *base, unsigned name, short type)
{
    struct flock change = { .l_type = type, .l_whence = SEEK_SET, .l_len = 1 };

    if (fcntl(((struct file_lock *)base)->fds[name], F_OFD_SETLKW, &change) < 0)
        die(base, "fcntl(F_OFD_SETLKW) fails", errno);
}

static void ofd_lock(struct cli_bench_lock *base, unsigned name)
{
    ofd_change(base, name, F_WRLCK);
}

static void ofd_unlock(struct cli_bench_lock *base, unsigned name)
{
    ofd_change(base, name, F_UNLCK);
}

static bool mutex_prepare(struct cli_bench *bench)
{
    pthread_mutexattr_t attributes;
    int error = pthread_mutexattr_init(&attributes);

    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    for (unsigned i = 0; !error && i < CLI_BENCH_NAMES; i++)
        error = pthread_mutex_init(&bench->shared->mutexes[i], &attributes);
    pthread_mutexattr_destroy(&attributes);
    if (error)
        cli_complain("no robust mutex between processes: %s", strerror(error));
    return !error;
}

static struct cli_bench_lock *mutex_open(struct cli_bench *bench,
                                         const struct cli_bench_subject *subject)
{
    struct cli_bench_lock *lock = calloc(1, sizeof(*lock));

    if (!lock)
        cli_bench_die(bench, CLI_INTERNAL, "out of memory");
    *lock = (struct cli_bench_lock){ bench, subject };
    return lock;
}

static void mutex_lock(struct cli_bench_lock *lock, unsigned name)
{
    int error = pthread_mutex_lock(&lock->bench->shared->mutexes[name]);

    if (error == EOWNERDEAD)
        error = pthread_mutex_consistent(&lock->bench->shared->mutexes[name]);
    if (error)
        die(lock, "pthread_mutex_lock fails", error);
}

static void mutex_unlock(struct cli_bench_lock *lock, unsigned name)
{
    int error = pthread_mutex_unlock(&lock->bench->shared->mutexes[name]);

    if (error)
        die(lock, "pthread_mutex_unlock fails", error);
}

static void mutex_close(struct cli_bench_lock *lock)
{
    free(lock);
}

const struct cli_bench_subject cli_bench_flock = { .key = "flock",
                                                   .title = "flock(2), file kept open",
                                                   .batch = 100,
                                                   .open = files_open,
                                                   .lock = flock_lock,
                                                   .unlock = flock_unlock,
                                                   .close = files_close };

const struct cli_bench_subject cli_bench_flock_open = { .key = "flock_open",
                                                        .title = "flock(2), opened each time",
                                                        .batch = 100,
                                                        .open = paths_open,
                                                        .lock = opening_lock,
                                                        .unlock = opening_unlock,
                                                        .close = paths_close };

const struct cli_bench_subject cli_bench_ofd = { .key = "ofd",
                                                 .title = "fcntl(2) OFD lock, kept open",
                                                 .batch = 100,
                                                 .open = files_open,
                                                 .lock = ofd_lock,
                                                 .unlock = ofd_unlock,
                                                 .close = files_close };

const struct cli_bench_subject cli_bench_mutex = { .key = "robust_mutex",
                                                   .title = "pthread robust mutex",
                                                   .batch = 100,
                                                   .prepare = mutex_prepare,
                                                   .open = mutex_open,
                                                   .lock = mutex_lock,
                                                   .unlock = mutex_unlock,
                                                   .close = mutex_close };
