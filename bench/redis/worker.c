/* Measures one way to lock through a Redis server: a line an order, a line of figures an answer. */
#include "worker.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

const char *worker_address;

void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("bench-redis-worker: ", stderr);
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

static const struct subject *const subjects[] = { &bare,     &retrying, &polling,
                                                  &threaded, &driven,   &relaxed };

static const struct subject *find(const char *word)
{
    for (unsigned i = 0; i < sizeof subjects / sizeof *subjects; i++)
        if (strcmp(subjects[i]->word, word) == 0)
            return subjects[i];
    die("no such subject: %s", word);
}

static void obey(const struct subject *subject, const char *order)
{
    unsigned count;
    long long ms;
    if (sscanf(order, "pairs %u %lld", &count, &ms) == 2)
        measure_pairs(subject, count, ms);
    else if (sscanf(order, "handover %lld", &ms) == 1)
        measure_handover(subject, ms);
    else if (sscanf(order, "telling %lld", &ms) == 1)
        measure_telling(ms);
    else if (sscanf(order, "crowd %u %lld", &count, &ms) == 2)
        measure_crowd(subject, count, ms);
    else if (sscanf(order, "hold %u", &count) == 1)
        hold_many(subject, count);
    else if (sscanf(order, "beside %lld", &ms) == 1)
        measure_beside(subject, ms);
    else if (sscanf(order, "fill %u", &count) == 1)
        bare_fill(count);
    else if (sscanf(order, "batches %u", &count) == 1)
        bare_renew(count);
    else if (strncmp(order, "scripts", 7) == 0)
        bare_show_scripts();
    else
        die("no such order: %s", order);
    putchar('\n');
    fflush(stdout);
}

int main(int count, char **arguments)
{
    char order[128];
    if (count != 3)
        die("usage: bench-redis-worker SUBJECT HOST:PORT|PATH <ORDERS");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    worker_address = arguments[2];
    while (fgets(order, sizeof order, stdin))
        obey(find(arguments[1]), order);
    return 0;
}
