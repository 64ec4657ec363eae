/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a server, makes its wall clock an hour fast. */
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define AN_HOUR 3600

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    int result = (int)syscall(SYS_gettimeofday, now, zone);

    if (result == 0)
        now->tv_sec += AN_HOUR;
    return result;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);

    if (result == 0 && clock == CLOCK_REALTIME)
        now->tv_sec += AN_HOUR;
    return result;
}
