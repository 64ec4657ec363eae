/* SPDX-License-Identifier: Apache-2.0 */
/* Closing: everything is given back, everybody who waits is told, and nothing is left. */
#include "conformance.h"

#include "base/testing.h"

#include <string.h>

TEST(holds_are_given_back)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_READ, HF_UPGRADE, HF_WRITE, HF_PERMIT };
    hf_client *client = open_client(), *other = open_client();
    const char *names[6];

    need(client, HF_CAP_FAIR | HF_CAP_RW | HF_CAP_UPGRADE | HF_CAP_PERMIT | HF_CAP_INSPECT);
    for (int i = 0; i < 6; i++) {
        hf_hold *hold;
        char stem[4] = { 'n', (char)('0' + i) };
        names[i] = name_of(stem);
        CHECK_CODE(hf_lock(client, names[i], 0,
                           LOCK_OPTIONS(.mode = modes[i], .limit = modes[i] == HF_PERMIT), &hold),
                   HF_OK);
        if (modes[i] != HF_PERMIT)
            take(client, names[i], modes[i], 0);
    }
    hf_close(client);
    for (int i = 0; i < 6; i++)
        CHECK_INT(holders(other, names[i]), 0);
    hf_close(other);
}

struct blocked {
    hf_client *client;
    const char *name;
    hf_mode mode;
    _Atomic int code;
    struct thread thread;
};

static void block(void *arg)
{
    struct blocked *blocked = arg;
    hf_hold *hold = NULL;

    blocked->code = hf_lock(blocked->client, blocked->name, HF_FOREVER,
                            LOCK_OPTIONS(.mode = blocked->mode, NO_LOOK), &hold);
    CHECK(hold == NULL);
}

static void count_waiting(void *arg, const hf_event *event)
{
    if (event->type == HF_EVENT_WAITING)
        ++*(_Atomic int *)arg;
}

static void check_closing_wakes(hf_mode mode, int count)
{
    static struct blocked blocked[20];
    _Atomic int waiting = 0;
    hf_client *client =
        open_client_with((hf_client_options){ .on_event = count_waiting, .event_arg = &waiting });
    hf_client *other = open_client();
    if (mode == HF_FAIR)
        need(other, HF_CAP_FAIR);
    hf_hold *hold = take(other, name_of("one"), mode, 0);

    for (int i = 0; i < count; i++) {
        blocked[i] = (struct blocked){ .client = client, .name = name_of("one"), .mode = mode };
        thread_start(&blocked[i].thread, block, &blocked[i]);
    }
    EVENTUALLY(waiting == count, SOON_MS);
    hf_close(client);
    /* They have come back before hf_close did, up to their last instructions. */
    for (int i = 0; i < count; i++) {
        thread_join(&blocked[i].thread);
        CHECK_CODE(blocked[i].code, HF_ECLOSED);
    }
    if (hf_caps(other) & HF_CAP_INSPECT)
        EVENTUALLY(waiters(other, name_of("one")) == 0, SOON_MS);
    give_back(hold);
    check_nothing_left(other, name_of("one"));
    hf_close(other);
}

TEST(a_blocked_thread_comes_back)
{
    check_closing_wakes(HF_MUTEX, 1);
}

TEST(many_blocked_threads_come_back)
{
    check_closing_wakes(HF_MUTEX, 20);
}

TEST(threads_in_a_fair_queue_come_back)
{
    check_closing_wakes(HF_FAIR, 20);
}

TEST(requests_are_answered_before_close_returns)
{
    enum { COUNT = 50 };
    static struct outcome outcomes[COUNT];
    hf_client *client = open_client(), *other = open_client();
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0);

    for (int i = 0; i < COUNT; i++)
        CHECK_CODE(hf_lock_async(client, name_of("one"), HF_FOREVER, NULL, record_outcome,
                                 &outcomes[i], NULL),
                   HF_OK);
    hf_close(client);
    for (int i = 0; i < COUNT; i++) {
        CHECK_INT(outcomes[i].calls, 1);
        CHECK_CODE(outcomes[i].code, HF_ECLOSED);
        CHECK(outcomes[i].hold == NULL);
    }
    give_back(hold);
    check_nothing_left(other, name_of("one"));
    hf_close(other);
}

TEST(fresh_requests_are_answered_once)
{
    hf_client *other = open_client();

    for (int i = 0; i < 50; i++) {
        struct outcome outcome = { 0 };
        hf_client *client = open_client();
        CHECK_CODE(
            hf_lock_async(client, name_of("one"), HF_FOREVER, NULL, record_outcome, &outcome, NULL),
            HF_OK);
        hf_close(client);
        CHECK_INT(outcome.calls, 1);
        CHECK(outcome.code == HF_OK || outcome.code == HF_ECLOSED);
        CHECK_CODE(probe(other, name_of("one"), HF_MUTEX, 0), HF_OK);
    }
    hf_close(other);
}

TEST(giving_back_is_no_loss)
{
    _Atomic int losses = 0;
    hf_client *client = open_client();
    hf_hold *hold;

    CHECK_CODE(hf_lock(client, name_of("one"), 0,
                       LOCK_OPTIONS(.on_lost = count_loss, .lost_arg = &losses), &hold),
               HF_OK);
    hf_close(client);
    CHECK_INT(losses, 0);
}

TEST(unlocking_without_waiting_is_done_by_close)
{
    hf_client *other = open_client();

    for (int i = 0; i < 50; i++) {
        hf_client *client = open_client();
        hf_unlock_nowait(take(client, name_of("one"), HF_MUTEX, 0));
        hf_close(client);
        CHECK_CODE(probe(other, name_of("one"), HF_MUTEX, 0), HF_OK);
    }
    hf_close(other);
}

TEST(an_expired_hold_does_not_disturb_closing)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *hold, *next;

    CHECK_CODE(hf_lock(client, name_of("one"), 0, LOCK_OPTIONS(.lease_ms = short_lease(20)), &hold),
               HF_OK);
    CHECK_CODE(hf_lock(other, name_of("one"), SOON_MS, LOCK_OPTIONS(NO_LOOK), &next), HF_OK);
    hf_close(client);
    CHECK(hf_held(next));
    give_back(next);
    hf_close(other);
}

/* ---- A thread that is slow to come back from a call ---- */

struct slow_call {
    hf_client *client;
    hf_hold *hold;
    int (*run)(const struct slow_call *call);
    _Atomic int ended, closed, code;
    int error_code;
};

static _Thread_local struct slow_call *slow_call;

/* The client is closed and freed between the end of the call and its return. */
static void park_until_closed(const char *point)
{
    if (!slow_call || strcmp(point, "core:call:ended") != 0)
        return;
    slow_call->ended = 1;
    EVENTUALLY(slow_call->closed, SOON_MS);
}

static void run_slow_call(void *arg)
{
    struct slow_call *call = arg;

    slow_call = call;
    call->code = call->run(call);
    slow_call = NULL;
    call->error_code = hf_last_error()->code;
    if (call->code != HF_OK)
        test_note("%s", hf_last_error()->text);
}

static int lock_at_once(const struct slow_call *call)
{
    hf_hold *hold;

    return hf_lock(call->client, name_of("one"), 0, NULL, &hold);
}

static int lock_for_ever(const struct slow_call *call)
{
    hf_hold *hold;

    return hf_lock(call->client, name_of("one"), HF_FOREVER, LOCK_OPTIONS(NO_LOOK), &hold);
}

static int break_nobody(const struct slow_call *call)
{
    return hf_break(call->client, name_of("one"), "no-such-key", NULL);
}

static int unlock_lost(const struct slow_call *call)
{
    return hf_unlock(call->hold);
}

/* Only what begins the call gets memory: what is found has no room. */
static _Atomic int allocations;

static bool allow_one(size_t size)
{
    (void)size;
    return allocations++ == 0;
}

static void have_no_room(void)
{
    allocations = 0;
    hf__alloc_hook = allow_one;
}

static bool show_no_entry(void *arg, const hf_entry *entry)
{
    (void)arg, (void)entry;
    return true;
}

static int inspect_without_memory(const struct slow_call *call)
{
    have_no_room();
    int code = hf_inspect(call->client, name_of("one"), show_no_entry, NULL);
    hf__alloc_hook = NULL;
    return code;
}

static bool show_no_remark(void *arg, const hf_remark *remark)
{
    (void)arg, (void)remark;
    return true;
}

static int examine_without_memory(const struct slow_call *call)
{
    have_no_room();
    int code = hf_examine(call->client, NULL, show_no_remark, NULL);
    hf__alloc_hook = NULL;
    return code;
}

static void close_under(int (*run)(const struct slow_call *call), int code)
{
    _Atomic int waiting = 0;
    hf_client *other = open_client();
    hf_client *client =
        open_client_with((hf_client_options){ .on_event = count_waiting, .event_arg = &waiting });
    struct slow_call call = { .client = client, .run = run };
    hf_hold *hold = NULL;
    struct thread thread;

    if (run == unlock_lost) {
        call.hold = take(client, name_of("one"), HF_MUTEX, 0);
        CHECK_CODE(hf_break(other, name_of("one"), NULL, NULL), HF_OK);
    } else
        hold = take(other, name_of("one"), HF_MUTEX, 0);
    hf__point_hook = park_until_closed;
    thread_start(&thread, run_slow_call, &call);
    EVENTUALLY(call.ended || waiting, SOON_MS);
    hf_close(client);
    call.closed = 1;
    thread_join(&thread);
    hf__point_hook = NULL;
    CHECK_CODE(call.code, code);
    CHECK_CODE(call.error_code, code);
    if (hold)
        give_back(hold);
    hf_close(other);
}

/* The address sanitizer sees a call that reads its client after it has counted itself out. */
TEST(a_call_that_has_ended_leaves_its_client_alone)
{
    hf_client *client = open_client();

    need(client, HF_CAP_BREAK);
    hf_close(client);
    close_under(lock_at_once, HF_BUSY);
    close_under(lock_for_ever, HF_ECLOSED);
    close_under(break_nobody, HF_BUSY);
    close_under(unlock_lost, HF_LOST);
    /* The embedded engine replies without memory, and makes no remark. */
    if (store_is_local())
        close_under(inspect_without_memory, HF_ENOMEM);
    else
        close_under(examine_without_memory, HF_ENOMEM);
}
