/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are granted in the call where they can be, and else on the loop. A part of the
 * topic `async`. */
#include "conformance.h"

struct chain {
    hf_client *client;
    _Atomic int left, done;
};

/* Owner 0: the request. NULL: the callback is going to tell. */
static hf_hold *start(hf_client *client, const char *name, uint64_t owner, struct outcome *outcome,
                      hf_request *request)
{
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock_start(client, name, HF_FOREVER, LOCK_OPTIONS(.owner = owner), record_outcome,
                             outcome, request, &hold),
               HF_OK);
    CHECK((hold != NULL) == (*request == 0));
    return hold;
}

/* The name is new, then it was released last by the same client, then by another one. */
static void start_and_release(hf_client *client, hf_client *other)
{
    for (int i = 0; i < 6; i++) {
        struct outcome outcome = { 0 };
        hf_request request = 4711;
        hf_hold *hold = start(client, name_of("one"), 0, &outcome, &request);
        if (hold)
            CHECK(store_is_local());
        else
            hold = await_grant(&outcome);
        CHECK_INT(outcome.calls, store_is_local() ? 0 : 1);
        CHECK(hf_held(hold));
        CHECK_IN_VAIN(probe(other, name_of("one"), HF_MUTEX, 0));
        CHECK_IN_VAIN(probe(client, name_of("one"), HF_MUTEX, 0));
        give_back(hold);
        if (i % 2)
            give_back(take(other, name_of("one"), HF_MUTEX, 0));
    }
}

TEST(start_grants_a_free_lock_in_the_call_where_no_server_is_asked)
{
    hf_client *client = open_client(), *other = open_client();

    start_and_release(client, other);
    check_nothing_left(other, name_of("one"));
    hf_close(client);
    hf_close(other);
}

TEST(start_of_a_held_lock_waits_in_the_background)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0), *never = NULL;
    struct outcome first = { 0 }, second = { 0 }, bare = { 0 }, timed = { 0 };
    hf_request requests[2];

    CHECK(start(client, name_of("one"), 0, &first, &requests[0]) == NULL);
    CHECK(start(client, name_of("one"), 0, &second, &requests[1]) == NULL);
    int code = hf_lock_start(client, name_of("one"), 0, NULL, record_outcome, &bare, NULL, &never);
    CHECK_CODE(code, store_is_local() ? HF_BUSY : HF_OK);
    CHECK_CODE(
        hf_lock_start(client, name_of("one"), 50, NULL, record_outcome, &timed, NULL, &never),
        HF_OK);
    WAIT_OUTCOME(&timed);
    CHECK_IN_VAIN(timed.code);
    CHECK_INT(first.calls + second.calls, 0);
    hf_cancel(client, requests[1]);
    WAIT_OUTCOME(&second);
    CHECK_CODE(second.code, HF_CANCELED);
    /* Its request may come to the store after those of later calls: it would find the lock free. */
    if (!store_is_local()) {
        WAIT_OUTCOME(&bare);
        CHECK_CODE(bare.code, HF_BUSY);
    }
    give_back(hold);
    give_back(await_grant(&first));
    CHECK(never == NULL);
    check_nothing_left(other, name_of("one"));
    hf_close(client);
    hf_close(other);
    CHECK_INT(first.calls + second.calls + timed.calls, 3);
    CHECK_INT(bare.calls, store_is_local() ? 0 : 1);
}

TEST(start_by_an_owner_that_holds_is_granted_in_the_call)
{
    hf_client *client = open_client();
    struct outcome outcome = { 0 };
    hf_request request = 0;
    hf_hold *outer = take(client, name_of("one"), HF_MUTEX, 5);
    hf_hold *inner = start(client, name_of("one"), 5, &outcome, &request);

    CHECK(inner != NULL && hf_held(inner));
    CHECK_INT(hf_token(inner), hf_token(outer));
    give_back(outer);
    CHECK(hf_held(inner));
    give_back(inner);
    check_nothing_left(client, name_of("one"));
    hf_close(client);
    CHECK_INT(outcome.calls, 0);
}

TEST(start_raises_an_upgradeable_read_in_the_background)
{
    hf_client *client = open_client();
    struct outcome outcome = { 0 };
    hf_hold *write = NULL;

    need(client, HF_CAP_UPGRADE);
    hf_hold *hold = take(client, name_of("one"), HF_UPGRADE, 5);
    CHECK_CODE(hf_lock_start(client, name_of("one"), HF_FOREVER,
                             LOCK_OPTIONS(.mode = HF_WRITE, .owner = 5), record_outcome, &outcome,
                             NULL, &write),
               HF_OK);
    CHECK(write == NULL);
    write = await_grant(&outcome);
    CHECK_INT(hf_hold_mode(write), HF_WRITE);
    give_back(write);
    give_back(hold);
    hf_close(client);
}

TEST(start_tells_of_counters_and_latches_by_the_callback)
{
    hf_client *client = open_client();
    struct outcome counter = { 0 }, latch = { 0 };
    hf_hold *none = NULL;

    need(client, HF_CAP_COUNTER | HF_CAP_LATCH);
    CHECK_CODE(hf_counter_add(client, name_of("count"), 1), HF_OK);
    CHECK_CODE(hf_lock_start(client, name_of("count"), HF_FOREVER, LOCK_OPTIONS(.mode = HF_COUNTER),
                             record_outcome, &counter, NULL, &none),
               HF_OK);
    CHECK_CODE(hf_lock_start(client, name_of("latch"), HF_FOREVER, LOCK_OPTIONS(.mode = HF_LATCH),
                             record_outcome, &latch, NULL, &none),
               HF_OK);
    WAIT_OUTCOME(&counter);
    WAIT_OUTCOME(&latch);
    CHECK_CODE(counter.code, HF_OK);
    CHECK_CODE(latch.code, HF_OK);
    CHECK(none == NULL && counter.hold == NULL && latch.hold == NULL);
    CHECK_CODE(hf_counter_remove(client, name_of("count")), HF_OK);
    hf_close(client);
}

TEST(start_that_cannot_work_is_refused_in_the_call)
{
    hf_client *client = open_client();
    struct outcome outcome = { 0 };
    hf_request request = 4711;
    hf_hold *hold = NULL;

    CHECK_ERROR(hf_lock_start(client, "", 0, NULL, record_outcome, &outcome, &request, &hold),
                HF_EINVAL);
    CHECK(request == 0 && hold == NULL);
    CHECK_ERROR(hf_lock_start(client, "x", 0, NULL, NULL, NULL, NULL, &hold), HF_EINVAL);
    CHECK_ERROR(hf_lock_start(client, "x", 0, NULL, record_outcome, &outcome, NULL, NULL),
                HF_EINVAL);
    CHECK_ERROR(hf_lock_start(NULL, "x", 0, NULL, record_outcome, &outcome, NULL, &hold),
                HF_EINVAL);
    hf_close(client);
    CHECK_INT(outcome.calls, 0);
}

static void start_in_turns(void *arg, int code, hf_hold *hold, const hf_error *error);

/* Iterative, as a grant in the call must not call back. */
static void start_next(struct chain *chain)
{
    hf_hold *hold = NULL;

    do {
        CHECK_CODE(hf_lock_start(chain->client, name_of("one"), HF_FOREVER, NULL, start_in_turns,
                                 chain, NULL, &hold),
                   HF_OK);
        if (hold)
            hf_unlock_nowait(hold);
    } while (hold && --chain->left > 0);
    if (hold)
        chain->done = 1;
}

static void start_in_turns(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct chain *chain = arg;

    (void)error;
    CHECK_CODE(code, HF_OK);
    hf_unlock_nowait(hold);
    if (--chain->left <= 0)
        chain->done = 1;
    else
        start_next(chain);
}

TEST(start_may_be_called_in_a_callback)
{
    struct chain chain = { .client = open_client(), .left = 200 };

    CHECK_CODE(
        hf_lock_async(chain.client, name_of("one"), HF_FOREVER, NULL, start_in_turns, &chain, NULL),
        HF_OK);
    EVENTUALLY(chain.done, SOON_MS);
    check_nothing_left(chain.client, name_of("one"));
    hf_close(chain.client);
}

TEST(start_that_waits_ends_with_its_client)
{
    hf_client *client = open_client(), *other = open_client();
    struct outcome outcome = { 0 };
    hf_request request;
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0);

    CHECK(start(client, name_of("one"), 0, &outcome, &request) == NULL);
    hf_close(client);
    CHECK_INT(outcome.calls, 1);
    CHECK_CODE(outcome.code, HF_ECLOSED);
    give_back(hold);
    check_nothing_left(other, name_of("one"));
    hf_close(other);
}

TEST(start_without_a_thread_is_told_by_dispatch)
{
    hf_client *client = open_client_with((hf_client_options){ .driver = HF_DRIVE_CALLER });
    hf_client *other = open_client();
    struct outcome outcome = { 0 };
    hf_request request;
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0);

    CHECK(start(client, name_of("one"), 0, &outcome, &request) == NULL);
    give_back(hold);
    EVENTUALLY(hf_dispatch(client) == HF_OK && outcome.calls > 0, SOON_MS);
    CHECK_CODE(outcome.code, HF_OK);
    give_back(outcome.hold);
    hf_close(client);
    hf_close(other);
}
