/* SPDX-License-Identifier: Apache-2.0 */
/* Lock and unlock that nobody disputes: by one thread, or by many, each with a name of its own. */
#include "measure.h"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS_MAX = 256, WARM_UP = 200 };

struct runner {
    pthread_t thread;
    struct lock *lock;
    pthread_barrier_t *begin;
    int64_t ms, ended_ns;
    unsigned pairs, sample_count, sample_room;
    int64_t *samples;
};

static void warm_up(struct lock *lock)
{
    for (unsigned i = 0; i < WARM_UP; i++) {
        lock->subject->lock(lock);
        lock->subject->unlock(lock);
    }
}

static void *run(void *arg)
{
    struct runner *runner = arg;
    struct lock *lock = runner->lock;
    pthread_barrier_wait(runner->begin);
    int64_t before_ns = now_ns(), end_ns = before_ns + runner->ms * 1000000;
    while (before_ns < end_ns) {
        lock->subject->lock(lock);
        lock->subject->unlock(lock);
        int64_t after_ns = now_ns();
        if (runner->sample_count < runner->sample_room)
            runner->samples[runner->sample_count++] = after_ns - before_ns;
        runner->pairs++;
        before_ns = after_ns;
    }
    runner->ended_ns = before_ns;
    return NULL;
}

/* Opened, and warmed up, by the first order; later ones go on with the same. */
static struct runner *runners_for(const struct subject *subject, unsigned threads)
{
    static struct runner runners[THREADS_MAX];
    char name[64];
    if (threads == 0 || threads > THREADS_MAX)
        die("up to %d threads", THREADS_MAX);
    for (unsigned i = 0; i < threads; i++) {
        if (runners[i].lock)
            continue;
        snprintf(name, sizeof name, "lock:%s:%08u", subject->word, i);
        runners[i].lock = subject->open(subject, name);
        runners[i].sample_room = SAMPLES / threads;
        runners[i].samples = allocate(runners[i].sample_room * sizeof(int64_t));
        warm_up(runners[i].lock);
    }
    return runners;
}

static void print(struct runner *runners, unsigned threads, int64_t began_ns)
{
    int64_t *samples = allocate(SAMPLES * sizeof *samples), ended_ns = 0;
    unsigned count = 0;
    uint64_t pairs = 0;
    for (unsigned i = 0; i < threads; i++) {
        for (unsigned s = 0; s < runners[i].sample_count; s++)
            samples[count++] = runners[i].samples[s];
        pairs += runners[i].pairs;
        ended_ns = runners[i].ended_ns > ended_ns ? runners[i].ended_ns : ended_ns;
    }
    print_times(samples, count);
    printf(" pairs=%llu ns=%lld", (unsigned long long)pairs, (long long)(ended_ns - began_ns));
    free(samples);
}

void measure_pairs(const struct subject *subject, unsigned threads, int64_t ms)
{
    struct runner *runners = runners_for(subject, threads);
    pthread_barrier_t begin;
    pthread_barrier_init(&begin, NULL, threads);
    for (unsigned i = 0; i < threads; i++) {
        runners[i].begin = &begin;
        runners[i].ms = ms;
        runners[i].pairs = runners[i].sample_count = 0;
    }
    int64_t began_ns = now_ns();
    for (unsigned i = 1; i < threads; i++)
        if (pthread_create(&runners[i].thread, NULL, run, &runners[i]) != 0)
            die("no more threads can be started: see ulimit -u");
    /* A client that drives itself belongs to one thread: this one. */
    run(&runners[0]);
    for (unsigned i = 1; i < threads; i++)
        pthread_join(runners[i].thread, NULL);
    pthread_barrier_destroy(&begin);
    print(runners, threads, began_ns);
}
