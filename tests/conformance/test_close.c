/* SPDX-License-Identifier: Apache-2.0 */
/* Closing: everything is given back, everybody who waits is told, and nothing is left. */
#include "conformance.h"

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
                            LOCK_OPTIONS(.mode = blocked->mode), &hold);
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
    CHECK_CODE(hf_lock(other, name_of("one"), SOON_MS, NULL, &next), HF_OK);
    hf_close(client);
    CHECK(hf_held(next));
    give_back(next);
    hf_close(other);
}
