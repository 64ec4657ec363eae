/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast as a subject: its public header, as any program would use it. */
#include "worker.h"

#include <holdfast.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct our_lock {
    struct lock lock;
    hf_client *client;
    hf_hold *hold;
};

struct hf_client *ours_open(bool drives_itself, int64_t lease_ms)
{
    hf_client_options options = HF_CLIENT_OPTIONS_INIT;
    hf_client *client;
    char url[256];
    options.driver = drives_itself ? HF_DRIVE_CALLER : HF_DRIVE_THREAD;
    options.lease_ms = lease_ms;
    snprintf(url, sizeof url, "zk://%s/bench?timeout=30000", worker_address);
    if (hf_open(&client, url, &options) != HF_OK)
        die("%s", hf_last_error()->text);
    return client;
}

/* One client for the process, whatever the number of its threads. */
static struct lock *open_ours(const struct subject *subject, const char *name)
{
    static hf_client *client;
    struct our_lock *lock = allocate(sizeof *lock);
    if (!client)
        client = ours_open(subject->drives_itself, LEASE_MS);
    lock->lock.subject = subject;
    lock->client = client;
    snprintf(lock->lock.name, sizeof lock->lock.name, "%s", name);
    return &lock->lock;
}

static void lock_ours(struct lock *base)
{
    struct our_lock *lock = (struct our_lock *)base;
    if (hf_lock(lock->client, base->name, HF_FOREVER, NULL, &lock->hold) != HF_OK)
        die("%s", hf_last_error()->text);
}

static void unlock_ours(struct lock *base)
{
    struct our_lock *lock = (struct our_lock *)base;
    if (base->subject->waits_not)
        hf_unlock_nowait(lock->hold);
    else if (hf_unlock(lock->hold) != HF_OK)
        die("%s", hf_last_error()->text);
}

const struct subject threaded = { "thread", open_ours, lock_ours, unlock_ours };
const struct subject driven = { "self", open_ours, lock_ours, unlock_ours, .drives_itself = true };
const struct subject relaxed = { "nowait", open_ours, lock_ours, unlock_ours, .waits_not = true };

/* ---- from one session to the other ---- */

static struct {
    _Atomic int64_t released_ns;
    atomic_bool waits[2], stop;
    int64_t end_ns, *samples;
    unsigned count, last; /* under the lock */
} exchange;

struct side {
    struct our_lock lock;
    unsigned index;
};

static void until_the_other_waits(unsigned index)
{
    while (!atomic_load(&exchange.waits[!index]) && !atomic_load(&exchange.stop))
        pause_us(50);
    pause_us(SETTLE_US);
}

static void *alternate(void *arg)
{
    struct side *side = arg;
    unsigned index = side->index;
    while (!atomic_load(&exchange.stop)) {
        atomic_store(&exchange.waits[index], true);
        lock_ours(&side->lock.lock);
        int64_t now = now_ns(), released_ns = atomic_load(&exchange.released_ns);
        atomic_store(&exchange.waits[index], false);
        /* Who was not in line yet has left the lock to the one who had it. */
        if (released_ns && exchange.last != index && exchange.count < SAMPLES)
            exchange.samples[exchange.count++] = now - released_ns;
        exchange.last = index;
        if (now > exchange.end_ns)
            atomic_store(&exchange.stop, true);
        until_the_other_waits(index);
        atomic_store(&exchange.released_ns, now_ns());
        unlock_ours(&side->lock.lock);
    }
    return NULL;
}

void measure_handover(int64_t ms)
{
    static const struct subject ours = { "handover", open_ours, lock_ours, unlock_ours };
    static struct side sides[2];
    pthread_t other;
    for (unsigned i = 0; i < 2; i++) {
        struct our_lock *lock = &sides[i].lock;
        if (!lock->client)
            lock->client = ours_open(false, LEASE_MS);
        lock->lock.subject = &ours;
        snprintf(lock->lock.name, sizeof lock->lock.name, "lock:handover");
        sides[i].index = i;
    }
    exchange.samples = allocate(SAMPLES * sizeof *exchange.samples);
    atomic_store(&exchange.stop, false);
    atomic_store(&exchange.released_ns, 0);
    exchange.count = 0;
    exchange.end_ns = now_ns() + ms * 1000000;
    if (pthread_create(&other, NULL, alternate, &sides[1]) != 0)
        die("no more threads can be started: see ulimit -u");
    alternate(&sides[0]);
    pthread_join(other, NULL);
    print_times(exchange.samples, exchange.count);
    free(exchange.samples);
}
