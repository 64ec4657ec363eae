/* SPDX-License-Identifier: Apache-2.0 */
/* Lends the loop of a client's thread to who waits for it. The thread parks when one caller at a
 * time needs it (wheel.h counts them), and the next one turns the loop itself until it has its
 * answer. What a program wants to be told, only the thread tells: it is put aside until then. */
#include "core/borrow.h"

#include "base/clock.h"

#include <assert.h>

/* ---- the thread's side ---- */

bool hf__borrow_may_park(const struct hf_drive *drive)
{
    return drive->turner == THREAD && hf__wheel_may_park(&drive->wheel, drive->told != NULL) &&
           !atomic_load(&drive->client->closing);
}

void hf__borrow_park(struct hf_drive *drive)
{
    struct hf_wheel *wheel = &drive->wheel;
    uint32_t taken = atomic_load(&wheel->taken);
    _Atomic uint32_t *told = drive->told;
    drive->told = NULL;
    hf__wheel_put_down(wheel);
    if (told)
        hf__sleepers_set(&drive->sleepers, told);
    hf__wheel_get_back(wheel);
    drive->turner = THREAD;
    struct hf_link *link;
    while ((link = hf__list_pop(&drive->aside)))
        hf__loop_defer(&drive->client->loop, HF_CONTAINER(link, struct hf_task, link));
    if (taken == atomic_load(&wheel->taken))
        atomic_store(&wheel->alone, 0);
}

/* If it watches, it may block where it is told something, and then nobody may be waiting for a word
 * that is still to come. */
static bool is_watched(const struct hf_client *client)
{
    return client->on_point || client->on_event;
}

static bool may_tell_later(const struct hf_drive *drive)
{
    return drive->turner == THREAD && !drive->told && !is_watched(drive->client) &&
           hf__wheel_may_park(&drive->wheel, 1);
}

static void tell_soon(struct hf_drive *drive, _Atomic uint32_t *flag)
{
    bool slept = hf__sleepers_set_soon(&drive->sleepers, flag);
    if ((slept && hf__loop_woke(&drive->client->loop)) || is_watched(drive->client))
        hf__sleepers_wake(&drive->sleepers);
}

/* A caller that is told before the thread has parked may come back earlier than that, and then the
 * thread would never get to it. */
void hf__drive_notify(struct hf_client *client, _Atomic uint32_t *flag)
{
    struct hf_drive *drive = client->drive;
    bool in_turn = drive && hf__turning && hf__turning->client == client;
    if (!in_turn)
        hf__sleepers_set(drive ? &drive->sleepers : NULL, flag);
    else if (may_tell_later(drive))
        drive->told = flag;
    else
        tell_soon(drive, flag);
}

void hf__borrow_tell(struct hf_drive *drive)
{
    _Atomic uint32_t *told = drive->told;
    drive->told = NULL;
    if (told)
        hf__sleepers_set(&drive->sleepers, told);
}

/* ---- the caller's side ---- */

/* A caller returns with its answer as soon as it is there: what follows from it (the grant that is
 * to be made longer, say) nobody waits for, and the next call takes it along, or the thread. */
bool hf__borrow_ends_early(const struct hf_drive *drive)
{
    return drive->turner == BORROWER && atomic_load(&drive->wheel.waiting) <= 1 &&
           atomic_load(&drive->wheel.requests) == 0;
}

bool hf__borrow_is_over(const struct hf_drive *drive)
{
    return drive->turner == BORROWER &&
           (!hf__list_empty(&drive->aside) || atomic_load(&drive->wheel.wanted));
}

/* In the thread's place. */
static void borrow(struct hf_drive *drive, _Atomic uint32_t *flag)
{
    drive->turner = BORROWER;
    if (flag) {
        hf__drive_turn_until(drive, flag);
    } else {
        struct turning turning = { drive->client, hf__turning };
        hf__turning = &turning;
        hf__drive_turn(drive);
        hf__turning = turning.outer;
    }
    bool answered = !flag || atomic_load(flag);
    bool others = atomic_load(&drive->wheel.waiting) > (flag ? 1u : 0u);
    hf__wheel_leave(&drive->wheel,
                    !answered || others || hf__borrow_is_over(drive) || hf__drive_is_io_due(drive));
}

void hf__borrow_wait(struct hf_drive *drive, _Atomic uint32_t *flag, bool turns)
{
    if (turns)
        borrow(drive, flag);
    hf__sleepers_wait(&drive->sleepers, flag);
    hf__wheel_exit(&drive->wheel);
}

/* A timer that is due is not for who does not even wait; what the caller before has left is (see
 * hf__borrow_ends_early). A point may block. */
bool hf__drive_begin_push(struct hf_client *client)
{
    if (client->drive_kind != HF_DRIVE_KIND_THREAD || client->on_point)
        return false;
    struct hf_wheel *wheel = &client->drive->wheel;
    if (!hf__wheel_take(wheel))
        return false;
    if (hf__loop_next(&client->loop) > hf__clock_ms())
        return true;
    hf__wheel_leave(wheel, true);
    return false;
}

void hf__drive_push(struct hf_client *client, bool turns)
{
    if (turns)
        borrow(client->drive, NULL);
}

/* ---- what only the thread may do ---- */

void hf__drive_request_begins(struct hf_client *client)
{
    if (client->drive)
        atomic_fetch_add(&client->drive->wheel.requests, 1);
}

void hf__drive_request_ended(struct hf_client *client)
{
    if (client->drive)
        atomic_fetch_sub(&client->drive->wheel.requests, 1);
}

bool hf__drive_is_borrowed(const struct hf_client *client)
{
    return client->drive && client->drive->turner == BORROWER;
}

bool hf__drive_put_aside(struct hf_client *client, struct hf_task *task)
{
    if (!hf__drive_is_borrowed(client))
        return false;
    hf__list_append(&client->drive->aside, &task->link);
    return true;
}

void hf__drive_before_callback(struct hf_client *client)
{
    assert(!hf__drive_is_borrowed(client));
    if (!client->drive)
        return;
    hf__borrow_tell(client->drive);
    hf__sleepers_wake(&client->drive->sleepers);
}
