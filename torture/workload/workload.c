/* SPDX-License-Identifier: Apache-2.0 */
/* A client's life: it opens a session, fights for one thing after another, and gets one more grant
 * when the faults are over. */
#include "torture/workload/workload.h"

#include "torture/nemesis/nemesis.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* A thread of the library may be writing, too, beside each of ours. */
static void write_beginning(const struct torture_client *client)
{
    struct torture_record record = torture_about(client, TORTURE_NO_VERB, 0);
    unsigned threads = torture_threads(client->plan);

    record.kind = TORTURE_CLIENT;
    record.permits = threads > 1 ? threads + 2 : 1;
    torture_write(client->writer, &record);
}

static void open_session(struct torture_client *client)
{
    client->setup = (struct torture_setup){ .url = client->plan->url,
                                            .prefix = client->arena->prefix,
                                            .client = client->number,
                                            .lease_ms = client->plan->lease_ms,
                                            .point = torture_at_point,
                                            .losing = torture_note_loss,
                                            .point_arg = client,
                                            .memory = client->arena->memory,
                                            .memory_size = sizeof client->arena->memory };
    client->session = client->subject->open(&client->setup);
    if (!client->session)
        torture_give_up(client, client->subject->complain(NULL));
}

static bool is_rough(const struct torture_client *client)
{
    return atomic_load(&client->arena->phase) == TORTURE_ROUGH;
}

/* ---- the other threads ---- */

struct crowd {
    struct torture_client threads[TORTURE_THREADS_MAX];
    pthread_t ids[TORTURE_THREADS_MAX];
    unsigned count;
};

/* Each client has a moment of its own, again and again, in which its threads try for one lock. */
enum { MOMENT_NS = 1000000, WAKE_EARLIER_NS = 100000 };

/* Which lock, and when it is to be tried for. */
static uint16_t wait_for_the_moment(struct torture_client *client)
{
    int64_t period_ns = (int64_t)client->plan->clients * MOMENT_NS;
    int64_t period = torture_clock_ns() / period_ns + 1;
    int64_t at_ns = period * period_ns + (int64_t)client->number * MOMENT_NS;
    struct torture_prng dice = { (uint64_t)period };

    torture_sleep_in_phase(client->arena, TORTURE_ROUGH, at_ns - WAKE_EARLIER_NS);
    while (torture_clock_ns() < at_ns && is_rough(client))
        continue;
    return (uint16_t)torture_between(&dice, 0, client->arena->loud_count - 1);
}

static void *fight_in_the_crowd(void *arg)
{
    struct torture_client *client = arg;
    unsigned locks = client->arena->loud_count;
    /* An order of arrival is told of one waiter of a client at a time. */
    bool keeps_order = torture_keeps_order(client->plan);

    while (is_rough(client)) {
        uint16_t number = (uint16_t)torture_between(&client->dice, 0, locks - 1);
        client->tries = torture_chance(&client->dice, 30);
        if (client->tries)
            torture_use_lock(client, wait_for_the_moment(client), false);
        else if (client->subject->acquire_several && torture_chance(&client->dice, 50))
            torture_use_several(client);
        else if (!keeps_order || !(client->arena->locks[number].flags & TORTURE_FIFO))
            torture_use_lock(client, number, false);
    }
    return NULL;
}

static void start_crowd(struct crowd *crowd, const struct torture_client *first)
{
    unsigned threads = torture_threads(first->plan);

    for (unsigned i = 1; i < threads; i++) {
        struct torture_client *client = &crowd->threads[i];
        *client = *first;
        client->thread = i;
        client->dice = torture_prng(first->plan->seed,
                                    UINT64_C(2000) + first->number * TORTURE_THREADS_MAX + i,
                                    first->incarnation);
        if (i == 1)
            open_session(client);
        client->session = crowd->threads[1].session;
    }
    for (unsigned i = 1; i < threads; i++)
        if (pthread_create(&crowd->ids[i], NULL, fight_in_the_crowd, &crowd->threads[i]) != 0)
            torture_give_up(&crowd->threads[i], "no further thread can be started");
    crowd->count = threads;
}

static void end_crowd(struct crowd *crowd)
{
    for (unsigned i = 1; i < crowd->count; i++)
        pthread_join(crowd->ids[i], NULL);
    if (crowd->count > 1)
        crowd->threads[1].subject->close(crowd->threads[1].session);
}

/* ---- the first thread ---- */

/* Of its turns: those that it has at a quiet lock, while no fault asks for more. */
enum { QUIET_PERCENT = 5 };

static void fight(struct torture_client *client)
{
    bool latches = client->subject->forms & 1u << TORTURE_LATCH;
    unsigned locks = client->arena->lock_count, loud = client->arena->loud_count;

    while (is_rough(client)) {
        uint32_t quiet = atomic_load(&client->arena->quiet);
        if (quiet || (locks > loud && torture_chance(&client->dice, QUIET_PERCENT))) {
            int64_t any = torture_between(&client->dice, loud, locks - 2);
            torture_use_quiet_lock(
                client,
                (uint16_t)(quiet ? torture_quiet_lock(client->arena, client->number, quiet) : any));
            torture_look_at_clock(client);
            continue;
        }
        /* Latches are no locks: a little of them will do. */
        bool wants_latch = latches && (locks == 0 || torture_chance(&client->dice, 15));
        bool used_latch = wants_latch && torture_use_latch(client);
        if (!used_latch && loud > 0)
            torture_use_lock(client, (uint16_t)torture_between(&client->dice, 0, loud - 1), false);
        torture_look_at_clock(client);
    }
}

/* Each client gets one more grant. A client that does not get it ends without, and the history
 * shows it. */
static void have_the_last_turn(struct torture_client *client)
{
    uint16_t first = (uint16_t)(client->number % client->arena->lock_count);

    for (unsigned tries = 0; tries < 3; tries++)
        if (atomic_load(&client->arena->phase) == TORTURE_OVER ||
            torture_use_lock(client, first, true))
            return;
}

void torture_client_live(struct torture_client *client)
{
    static struct crowd crowd;

    torture_bend_clock(&client->seat->clock_ns);
    write_beginning(client);
    open_session(client);
    if (client->arena->lock_count > 0)
        start_crowd(&crowd, client);
    fight(client);
    end_crowd(&crowd);
    if (client->arena->lock_count > 0)
        have_the_last_turn(client);
    client->subject->close(client->session);
    _exit(0);
}
