/* SPDX-License-Identifier: Apache-2.0 */
/* Stops. What hf_stop_set does must be right in a signal's handler, whatever it has interrupted: it
 * walks tables that are never freed, and posts a task that the client has for that purpose. */
#include "core/api/stop.h"

#include "base/clock.h"
#include "base/testing.h"
#include "core/api/fork.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#define BELLS 256u

/* Clients that have, or have had, waits with a stop. */
struct bells {
    _Atomic(struct hf_client *) clients[BELLS];
    _Atomic(struct bells *) next;
};

static struct bells bells;

/* Threads that are inside hf_stop_set, and above them the process: a child does not wait for those
 * of its parent. */
static _Atomic uint64_t ringing;

#define PROCESS_AT 32

static bool is_set(const hf_stop *stop)
{
    return __atomic_load_n(&stop->is_set, __ATOMIC_SEQ_CST) != 0;
}

/* ---- ringing: async-signal-safe ---- */

static void ring(struct hf_client *client)
{
    if (!atomic_exchange(&client->stop_posted, true))
        hf__loop_post(&client->loop, &client->stop_task);
}

static void begin_ringing(uint64_t process)
{
    uint64_t before = atomic_load(&ringing), now;
    do
        now = before >> PROCESS_AT == process ? before + 1 : (process << PROCESS_AT | 1);
    while (!atomic_compare_exchange_weak(&ringing, &before, now));
}

void hf_stop_set(hf_stop *stop)
{
    if (!stop)
        return;
    int error = errno;
    __atomic_store_n(&stop->is_set, 1, __ATOMIC_SEQ_CST);
    begin_ringing((uint64_t)getpid());
    for (struct bells *some = &bells; some; some = atomic_load(&some->next))
        for (uint32_t i = 0; i < BELLS; i++) { /* mutant: stop-reaches-all-clients */
            struct hf_client *client = atomic_load(&some->clients[i]);
            if (client && !hf__forked(client) && atomic_load(&client->stop_wait_count) > 0)
                ring(client);
        }
    atomic_fetch_sub(&ringing, 1);
    errno = error;
}

void hf_stop_clear(hf_stop *stop)
{
    if (stop)
        __atomic_store_n(&stop->is_set, 0, __ATOMIC_SEQ_CST);
}

bool hf_stop_is_set(const hf_stop *stop)
{
    return stop && is_set(stop);
}

/* ---- the waits ---- */

/* On the loop. Cleared first: a stop that is set from here on rings again. */
static void look(struct hf_task *task)
{
    struct hf_client *client = HF_CONTAINER(task, struct hf_client, stop_task);
    atomic_store(&client->stop_posted, false);
    pthread_mutex_lock(&client->stop_mutex);
    HF_LIST_FOREACH (link, following, &client->stop_waits) {
        struct hf_stop_wait *wait = HF_CONTAINER(link, struct hf_stop_wait, link);
        if (wait->wanted || is_set(wait->stop))
            wait->end(wait); /* mutant: stop-ends-all-waits-of-client */
    }
    pthread_mutex_unlock(&client->stop_mutex);
}

/* On the waiting thread. The stop is looked at for those that no bell reaches: memory was short. */
static void ask(struct hf_interlude *interlude)
{
    struct hf_stop_wait *wait = HF_CONTAINER(interlude, struct hf_stop_wait, interlude);
    hf_stop *stop = wait->stop;
    interlude->at_ms = hf__clock_ms() + HF_INTERLUDE_MS;
    if (!is_set(stop) && !(stop->interrupted && stop->interrupted(stop->interrupted_arg)))
        return;
    pthread_mutex_lock(&wait->client->stop_mutex);
    wait->wanted = true;
    pthread_mutex_unlock(&wait->client->stop_mutex);
    ring(wait->client);
}

static struct bells *next_bells(struct bells *some)
{
    struct bells *next = atomic_load(&some->next);
    /* mutant: stop-finds-room-for-each-client */
    struct bells *own = next ? NULL : hf__calloc(1, sizeof *own);
    if (!own || atomic_compare_exchange_strong(&some->next, &next, own))
        return own ? own : next;
    free(own);
    return next;
}

/* With the client's mutex locked. */
static void list_client(struct hf_client *client)
{
    struct bells *some = client->stop_bell ? NULL : &bells;
    for (; some; some = next_bells(some))
        for (uint32_t i = 0; i < BELLS; i++) {
            struct hf_client *none = NULL;
            if (!atomic_compare_exchange_strong(&some->clients[i], &none, client))
                continue;
            client->stop_bell = &some->clients[i];
            return;
        }
}

bool hf__stop_reaches(struct hf_client *client)
{
    pthread_mutex_lock(&client->stop_mutex);
    list_client(client);
    bool listed = client->stop_bell != NULL;
    pthread_mutex_unlock(&client->stop_mutex);
    return listed;
}

/* It is counted before it looks at the stop, and a stop is set before the count is looked at. */
struct hf_interlude *hf__stop_wait_begin(struct hf_stop_wait *wait, struct hf_client *client,
                                         hf_stop *stop, void (*end)(struct hf_stop_wait *wait))
{
    wait->stop = stop;
    if (!stop)
        return NULL;
    wait->client = client;
    wait->end = end;
    wait->wanted = false;
    wait->interlude = (struct hf_interlude){ hf__clock_ms() + HF_INTERLUDE_MS, ask };
    pthread_mutex_lock(&client->stop_mutex);
    list_client(client);
    hf__list_append(&client->stop_waits, &wait->link);
    atomic_fetch_add(&client->stop_wait_count, 1);
    pthread_mutex_unlock(&client->stop_mutex);
    if (is_set(stop)) /* mutant: stop-comes-before-its-wait */
        ring(client);
    return &wait->interlude;
}

void hf__stop_wait_end(struct hf_stop_wait *wait)
{
    if (!wait->stop)
        return;
    pthread_mutex_lock(&wait->client->stop_mutex);
    hf__link_remove(&wait->link);
    atomic_fetch_sub(&wait->client->stop_wait_count, 1);
    pthread_mutex_unlock(&wait->client->stop_mutex);
}

/* ---- clients ---- */

void hf__stops_open(struct hf_client *client)
{
    pthread_mutex_init(&client->stop_mutex, NULL);
    hf__link_init(&client->stop_waits);
    hf__task_init(&client->stop_task, look);
}

void hf__stops_close(struct hf_client *client)
{
    uint64_t process = (uint64_t)getpid(), now;
    if (client->stop_bell)
        atomic_store(client->stop_bell, NULL);
    while (client->stop_bell && (now = atomic_load(&ringing)) >> PROCESS_AT == process &&
           (uint32_t)now > 0)
        sched_yield();
    pthread_mutex_destroy(&client->stop_mutex);
}
