/* SPDX-License-Identifier: Apache-2.0 */
/* Lends the loop of a client's thread to a caller that waits for it. The thread parks when one
 * caller at a time needs it (loop_owner.h counts them), and the next one turns the loop itself
 * until it has its answer. What a program wants to be told, only the thread tells: it is put aside
 * until then. */
#include "core/loop/loop_handoff.h"

#include "base/clock.h"

#include <assert.h>

/* ---- the thread's side ---- */

bool hf__loop_handoff_may_park(const struct hf_uv_loop *drive)
{
    return drive->turner == THREAD && hf__loop_owner_may_park(&drive->wheel, drive->told != NULL) &&
           !atomic_load(&drive->client->closing);
}

void hf__loop_handoff_park(struct hf_uv_loop *drive)
{
    struct hf_loop_owner *wheel = &drive->wheel;
    uint32_t taken = atomic_load(&wheel->taken);
    _Atomic uint32_t *told = drive->told;
    drive->told = NULL;
    hf__loop_owner_park(wheel);
    if (told)
        hf__futex_group_set(&drive->sleepers, told);
    hf__loop_owner_reclaim(wheel);
    drive->turner = THREAD;
    struct hf_link *link;
    while ((link = hf__list_pop(&drive->aside)))
        /* mutant: what-was-put-aside-stays-there */
        hf__loop_defer(&drive->client->loop, HF_CONTAINER(link, struct hf_task, link));
    if (taken == atomic_load(&wheel->taken))
        atomic_store(&wheel->alone, 0);
}

/* A caller that is told before the thread has parked may come back earlier than that, and then the
 * thread would never get to it. */
void hf__uv_loop_notify(struct hf_client *client, _Atomic uint32_t *flag)
{
    struct hf_uv_loop *drive = client->drive;
    bool in_turn = drive && hf__turning && hf__turning->client == client;
    if (!in_turn) {
        hf__futex_group_set(drive ? &drive->sleepers : NULL, flag);
        return;
    }
    /* A program that watches may block where it is told something, and then no thread may be
     * waiting for a word that is still to come. */
    bool watched = client->on_point || client->on_event;
    if (drive->turner == THREAD && !drive->told && !watched &&
        hf__loop_owner_may_park(&drive->wheel, 1)) {
        drive->told = flag;
        return;
    }
    bool slept = hf__futex_group_set_soon(&drive->sleepers, flag);
    if ((slept && hf__loop_wake_batch_full(&client->loop)) || watched)
        hf__futex_group_wake(&drive->sleepers);
}

void hf__loop_handoff_tell(struct hf_uv_loop *drive)
{
    _Atomic uint32_t *told = drive->told;
    drive->told = NULL;
    if (told)
        hf__futex_group_set(&drive->sleepers, told);
}

/* ---- the caller's side ---- */

bool hf__loop_handoff_is_over(const struct hf_uv_loop *drive)
{
    return (drive->turner == BORROWER || drive->turner == WATCHER) &&
           (!hf__list_empty(&drive->aside) || atomic_load(&drive->wheel.wanted));
}

/* A timer that is due is not for a caller that does not even wait; what the caller before has left
 * is (see `turn` in uv_loop.c). A point may block. */
bool hf__uv_loop_begin_push(struct hf_client *client)
{
    if (client->drive_kind != HF_DRIVE_KIND_THREAD || client->on_point)
        return false;
    struct hf_loop_owner *wheel = &client->drive->wheel;
    if (!hf__loop_owner_acquire(wheel))
        return false;
    if (hf__loop_next(&client->loop) > hf__clock_ms()) /* mutant: what-caller-has-left */
        return true;
    hf__loop_owner_release(wheel, true);
    return false;
}

/* ---- what only the thread may do ---- */

void hf__uv_loop_request_begins(struct hf_client *client)
{
    if (client->drive)
        hf__loop_owner_request_begins(&client->drive->wheel);
}

void hf__uv_loop_request_ended(struct hf_client *client)
{
    if (client->drive)
        atomic_fetch_sub(&client->drive->wheel.requests, 1);
}

bool hf__uv_loop_is_borrowed(const struct hf_client *client)
{
    return client->drive && client->drive->turner == BORROWER;
}

bool hf__uv_loop_defer_to_thread(struct hf_client *client, struct hf_task *task)
{
    /* What a closing client ends with would free the loop that a watcher is in. */
    bool closing =
        client->drive && client->drive->turner == WATCHER && atomic_load(&client->closing);
    if (!closing && !hf__uv_loop_is_borrowed(client)) /* mutant: caller-that-turns-loop-begins */
        return false;
    hf__list_append(&client->drive->aside, &task->link);
    return true;
}

void hf__uv_loop_before_callback(struct hf_client *client)
{
    assert(!hf__uv_loop_is_borrowed(client));
    if (!client->drive)
        return;
    hf__loop_handoff_tell(client->drive);
    hf__futex_group_wake(&client->drive->sleepers); /* mutant: callback-begins-while-those */
}
