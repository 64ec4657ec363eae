/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a program, makes its wall clock an hour fast; where HOLDFAST_SKEWED_SINCE names a
 * file, from the moment on at which that is there. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define AN_HOUR 3600

static time_t seconds_ahead(void)
{
    const char *since = getenv("HOLDFAST_SKEWED_SINCE");

    return !since || access(since, F_OK) == 0 ? AN_HOUR : 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    int result = (int)syscall(SYS_gettimeofday, now, zone);

    if (result == 0)
        now->tv_sec += seconds_ahead();
    return result;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);

    if (result == 0 && clock == CLOCK_REALTIME)
        now->tv_sec += seconds_ahead();
    return result;
}
