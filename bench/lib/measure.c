/* SPDX-License-Identifier: Apache-2.0 */
/* The benchmarks' own ground: time, memory, samples, and orders that come as lines. */
#include "measure.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void pause_us(unsigned us)
{
    struct timespec left = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000L };
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

void *allocate(size_t size)
{
    void *memory = calloc(1, size);
    if (!memory)
        die("out of memory");
    return memory;
}

static int by_length(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

void print_times(int64_t *samples, unsigned count)
{
    if (count == 0)
        die("nothing was measured");
    qsort(samples, count, sizeof *samples, by_length);
    printf("p50=%lld p99=%lld max=%lld", (long long)samples[count / 2],
           (long long)samples[(uint64_t)count * 99 / 100], (long long)samples[count - 1]);
}

void serve_orders(void (*obey)(const char *order))
{
    char order[128];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (fgets(order, sizeof order, stdin)) {
        obey(order);
        putchar('\n');
        fflush(stdout);
    }
}
