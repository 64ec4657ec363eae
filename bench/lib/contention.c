/* SPDX-License-Identifier: Apache-2.0 */
/* One lock that many want, each with a connection of its own: how often it changes hands, how
 * even the shares are, and how long a hand-over takes. */
#include "ours.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { THREADS_MAX = 64 };

static struct lock *locks[THREADS_MAX];

static void open_locks(const struct subject *subject, unsigned count, const char *name)
{
    if (count == 0 || count > THREADS_MAX)
        die("up to %d threads", THREADS_MAX);
    for (unsigned i = 0; i < count; i++)
        if (!locks[i])
            locks[i] = subject->open(subject, name);
}

/* ---- shares ---- */

struct runner {
    pthread_t thread;
    struct lock *lock;
    pthread_barrier_t *begin;
    int64_t end_ns;
    unsigned pairs;
};

static void *compete(void *arg)
{
    struct runner *runner = arg;
    pthread_barrier_wait(runner->begin);
    while (now_ns() < runner->end_ns) {
        runner->lock->subject->lock(runner->lock);
        runner->lock->subject->unlock(runner->lock);
        runner->pairs++;
    }
    return NULL;
}

void measure_contention(const struct subject *subject, unsigned threads, int64_t ms)
{
    struct runner runners[THREADS_MAX] = { 0 };
    pthread_barrier_t begin;
    open_locks(subject, threads, "lock:contention");
    pthread_barrier_init(&begin, NULL, threads);
    int64_t began_ns = now_ns();
    for (unsigned i = 0; i < threads; i++) {
        runners[i] =
            (struct runner){ .lock = locks[i], .begin = &begin, .end_ns = began_ns + ms * 1000000 };
        if (pthread_create(&runners[i].thread, NULL, compete, &runners[i]) != 0)
            die("no more threads can be started: see ulimit -u");
    }
    unsigned all = 0, least = UINT32_MAX, most = 0;
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(runners[i].thread, NULL);
        all += runners[i].pairs;
        least = runners[i].pairs < least ? runners[i].pairs : least;
        most = runners[i].pairs > most ? runners[i].pairs : most;
    }
    pthread_barrier_destroy(&begin);
    printf("pairs=%u ns=%lld min=%u max=%u", all, (long long)(now_ns() - began_ns), least, most);
}

/* ---- hand-over ---- */

static struct {
    _Atomic int64_t released_ns;
    atomic_bool waits[2], stop;
    int64_t end_ns, *samples;
    unsigned settle_us;
    unsigned count, last; /* under the lock */
} exchange;

static void until_the_other_waits(unsigned index)
{
    while (!atomic_load(&exchange.waits[!index]) && !atomic_load(&exchange.stop))
        pause_us(50);
    pause_us(exchange.settle_us);
}

static void alternate(unsigned index)
{
    struct lock *lock = locks[index];
    while (!atomic_load(&exchange.stop)) {
        atomic_store(&exchange.waits[index], true);
        lock->subject->lock(lock);
        int64_t now = now_ns(), released_ns = atomic_load(&exchange.released_ns);
        atomic_store(&exchange.waits[index], false);
        /* Without a waiter, the side that released it has taken it again. */
        if (released_ns && exchange.last != index && exchange.count < SAMPLES)
            exchange.samples[exchange.count++] = now - released_ns;
        exchange.last = index;
        if (now > exchange.end_ns)
            atomic_store(&exchange.stop, true);
        until_the_other_waits(index);
        atomic_store(&exchange.released_ns, now_ns());
        lock->subject->unlock(lock);
    }
}

static void *alternate_other(void *arg)
{
    (void)arg;
    alternate(1);
    return NULL;
}

void measure_handover(const struct subject *subject, unsigned settle_us, int64_t ms)
{
    pthread_t other;
    open_locks(subject, 2, "lock:handover");
    exchange.samples = allocate(SAMPLES * sizeof *exchange.samples);
    atomic_store(&exchange.stop, false);
    atomic_store(&exchange.released_ns, 0);
    exchange.count = 0;
    exchange.settle_us = settle_us;
    exchange.end_ns = now_ns() + ms * 1000000;
    if (pthread_create(&other, NULL, alternate_other, NULL) != 0)
        die("no more threads can be started: see ulimit -u");
    alternate(0);
    pthread_join(other, NULL);
    print_times(exchange.samples, exchange.count);
    free(exchange.samples);
}
