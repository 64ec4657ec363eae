/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded into a server of a sandbox, before its C library: its wall clock is ahead by what the run
 * says. Clocks that count from boot stay as they are. Allocates nothing, as some allocators ask for
 * the time. */
#include "torture/sandbox/sandbox_clock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static struct torture_sandbox_clock *shared;

__attribute__((constructor)) static void find_it(void)
{
    const char *path = getenv(TORTURE_SANDBOX_CLOCK);
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

    if (fd < 0)
        return;
    void *memory = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED)
        shared = memory;
    close(fd);
}

static void bend(struct timespec *time)
{
    /* mutant: jump-of-server-clock-is-none */
    int64_t ahead_ns = shared ? atomic_load(&shared->ahead_ns) : 0;

    time->tv_sec += ahead_ns / 1000000000;
    time->tv_nsec += ahead_ns % 1000000000;
    if (time->tv_nsec >= 1000000000) {
        time->tv_sec++;
        time->tv_nsec -= 1000000000;
    }
    if (shared)
        atomic_store(&shared->seen_ns, ahead_ns);
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, ret);

    if (failed == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        bend(ret);
    return failed;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
    struct timespec now;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *ret = (struct timeval){ .tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000 };
    return 0;
}

time_t time(time_t *ret)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (ret)
        *ret = now.tv_sec;
    return now.tv_sec;
}
