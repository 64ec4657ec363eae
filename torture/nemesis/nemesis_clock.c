/* SPDX-License-Identifier: Apache-2.0 */
/* A wall clock that jumps, for one process, without any rights: the C library's functions, as this
 * program and its shared libraries find them first. */
#include "torture/nemesis/nemesis.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const _Atomic int64_t *bent_by;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

/* Through the C library, since only its way (the vDSO) is fast. */
__attribute__((constructor)) static void find_the_real_one(void)
{
    *(void **)&real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
}

static void add(struct timespec *time, int64_t ns)
{
    ns += time->tv_nsec;
    time->tv_sec += ns / 1000000000;
    time->tv_nsec = ns % 1000000000;
    if (time->tv_nsec < 0) {
        time->tv_sec--;
        time->tv_nsec += 1000000000;
    }
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    int failed = real_clock_gettime ? real_clock_gettime(clock, ret)
                                    : (int)syscall(SYS_clock_gettime, clock, ret);

    if (bent_by && failed == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        add(ret, atomic_load(bent_by));
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

    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (ret)
        *ret = now.tv_sec;
    return now.tv_sec;
}

void torture_bend_clock(const _Atomic int64_t *offset_ns)
{
    bent_by = offset_ns;
}

int64_t torture_true_clock_ns(void)
{
    struct timespec now;

    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
