/* SPDX-License-Identifier: Apache-2.0 */
/* Many locks that are held at the same time, renewed as long as the program goes on. */
#include "worker.h"

#include <holdfast.h>
#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>

/* So many requests are out at a time. */
enum { OUT_MAX = 1000 };

static sem_t room;
static _Atomic unsigned lost_count;

static void lost(void *arg, const hf_loss *loss)
{
    (void)arg;
    if (lost_count++ == 0)
        fprintf(stderr, "bench-redis-worker: lost %s: %s\n", loss->name, loss->reason);
}

static size_t memory_in_use(void)
{
    unsigned long total, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%lu %lu", &total, &resident) != 2)
        die("cannot read what memory is in use");
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static void granted(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    (void)arg, (void)hold;
    if (code != HF_OK)
        die("%s", error->text);
    sem_post(&room);
}

static void take(hf_client *client, unsigned first, unsigned end)
{
    const hf_lock_options options = HF_LOCK_OPTIONS(.on_lost = lost);
    char name[32];
    for (unsigned i = first; i < end; i++) {
        snprintf(name, sizeof name, "lock:order:%08u", i);
        while (sem_wait(&room) != 0)
            ;
        if (hf_lock_async(client, name, HF_FOREVER, &options, granted, NULL, NULL) != HF_OK)
            die("%s", hf_last_error()->text);
    }
    for (unsigned i = 0; i < OUT_MAX; i++)
        while (sem_wait(&room) != 0)
            ;
    for (unsigned i = 0; i < OUT_MAX; i++)
        sem_post(&room);
}

void hold_many(const struct subject *subject, unsigned count)
{
    hf_client *client = ours_client(subject);
    sem_init(&room, 0, OUT_MAX);
    /* Pools and buffers have their size before we begin to count. */
    take(client, 0, OUT_MAX);
    size_t before = memory_in_use();
    take(client, OUT_MAX, count);
    printf("held=%u bytes_each=%.0f", count,
           (double)(memory_in_use() - before) / (count - OUT_MAX));
}

void count_lost(void)
{
    printf("lost=%u", lost_count);
}

/* A turn of the loop that renews very many must not keep others waiting for long. */
void measure_beside(const struct subject *subject, int64_t ms)
{
    int64_t *samples = allocate(SAMPLES * sizeof *samples);
    struct lock *lock = subject->open(subject, "lock:beside");
    int64_t before_ns = now_ns(), end_ns = before_ns + ms * 1000000;
    unsigned count = 0;
    while (before_ns < end_ns && count < SAMPLES) {
        subject->lock(lock);
        subject->unlock(lock);
        samples[count++] = now_ns() - before_ns;
        pause_us(1000);
        before_ns = now_ns();
    }
    print_times(samples, count);
    free(samples);
}
