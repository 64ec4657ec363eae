/* SPDX-License-Identifier: Apache-2.0 */
/* Sync points, as a client passes them: pausing there finds what no pause at random does. */
#include "torture/nemesis/nemesis.h"
#include "torture/workload/workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of all points, every fourth is active at a time. */
enum { ONE_IN = 4 };

static bool is_active(const struct torture_plan *plan, uint64_t pauses, const char *point)
{
    struct torture_prng dice = { pauses };

    if (plan->point)
        return strcmp(plan->point, point) == 0;
    for (; *point; point++)
        dice.state ^= torture_roll(&dice) ^ (unsigned char)*point;
    return torture_roll(&dice) % ONE_IN == 0;
}

static void write_fault(const struct torture_client *client, enum torture_kind kind, uint64_t fault)
{
    struct torture_record record = torture_about(client, TORTURE_NO_VERB, 0);

    record.kind = (uint8_t)kind;
    record.operation = fault;
    snprintf(record.text, sizeof record.text, "%s", torture_fault_name(TORTURE_PAUSE));
    torture_write(client->writer, &record);
}

/* For the reader: where the pause is. */
static void write_note(const struct torture_client *client, uint64_t fault, const char *point)
{
    struct torture_record record = torture_about(client, TORTURE_NO_VERB, 0);

    record.kind = TORTURE_NOTE;
    record.operation = fault;
    snprintf(record.text, sizeof record.text, "%s", point);
    torture_write(client->writer, &record);
}

static void pause_here(struct torture_client *client, const char *point, struct torture_prng *dice)
{
    struct torture_shared *arena = client->arena;
    int64_t lease_ns = client->plan->lease_ms * 1000000, begin_ns;
    /* Most are just longer than a lease; the short ones shake the order of things. */
    int64_t length_ns = torture_chance(dice, 75)
                            ? torture_between(dice, lease_ns * 11 / 10, lease_ns * 3 / 2)
                            : torture_between(dice, 1000000, lease_ns / 4);
    uint64_t fault = torture_roll(dice), doing = atomic_load(&client->seat->doing);

    write_note(client, fault, point);
    write_fault(client, TORTURE_FAULT_ON, fault);
    atomic_fetch_add(&arena->pauses_tried, 1);
    begin_ns = torture_clock_ns();
    torture_sleep_in_phase(arena, TORTURE_ROUGH, begin_ns + length_ns);
    if (torture_clock_ns() - begin_ns >= lease_ns && torture_doing_of(doing) != TORTURE_IDLE) {
        write_fault(client, TORTURE_FAULT_HIT, fault);
        atomic_fetch_add(&arena->pauses_hit, 1);
    }
    write_fault(client, TORTURE_FAULT_OFF, fault);
}

/* ---- places in a queue ---- */

void torture_wait_begin(struct torture_client *client, const struct torture_record *record)
{
    struct torture_wait *wait = &client->wait;

    pthread_mutex_lock(&wait->mutex);
    wait->operation = record->operation;
    wait->owner = record->owner;
    wait->lock = record->lock;
    wait->placed = false;
    pthread_mutex_unlock(&wait->mutex);
}

void torture_wait_end(struct torture_client *client)
{
    pthread_mutex_lock(&client->wait.mutex);
    client->wait.operation = 0;
    pthread_mutex_unlock(&client->wait.mutex);
}

static void note_place(struct torture_client *client, bool queued)
{
    const struct torture_wait *wait = &client->wait;
    struct torture_record record = torture_about(client, TORTURE_ACQUIRE, wait->lock);

    record.kind = TORTURE_ENQUEUED;
    if (!queued)
        record.flags = TORTURE_DISPLACED;
    record.operation = record.hold = wait->operation;
    record.owner = wait->owner;
    torture_write(client->writer, &record);
}

/* A waiter that has lost its place gets another one. */
static void follow_place(struct torture_client *client, const char *point)
{
    struct torture_wait *wait = &client->wait;
    bool queued = strcmp(point, "queued") == 0;

    if (!queued && strcmp(point, "displaced") != 0)
        return;
    pthread_mutex_lock(&wait->mutex);                   /* mutant: point-is-about-whatever-call */
    if (wait->operation && !(queued && wait->placed)) { /* mutant: owner-has-place-is-noted */
        note_place(client, queued);
        wait->placed = queued;
    }
    pthread_mutex_unlock(&wait->mutex);
}

/* ---- all points ---- */

void torture_at_point(void *arg, const char *point)
{
    struct torture_client *client = arg;
    struct torture_shared *arena = client->arena;
    uint64_t pauses = atomic_load(&arena->pauses);
    struct torture_prng dice;

    follow_place(client, point);
    if (!pauses || !is_active(client->plan, pauses, point))
        return;
    dice = torture_prng(client->plan->seed, UINT64_C(1000) + client->number,
                        atomic_fetch_add(&client->seat->points, 1));
    if (torture_chance(&dice, atomic_load(&arena->pause_percent)))
        pause_here(client, point, &dice);
}

void torture_look_at_clock(struct torture_client *client)
{
    int64_t bent_ns = atomic_load(&client->seat->clock_ns);
    struct timespec now;
    int64_t apart_ns;

    if (!bent_ns)
        return;
    /* What this process's own clock says, beside what the kernel says. */
    clock_gettime(CLOCK_REALTIME, &now);
    apart_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - torture_true_clock_ns();
    if (llabs(apart_ns - bent_ns) < INT64_C(500000000))
        atomic_store(&client->seat->clock_seen, true);
}
