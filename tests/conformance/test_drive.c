/* SPDX-License-Identifier: Apache-2.0 */
/* Clients without a thread: hf_fd and hf_dispatch in a loop of the program's own. */
#include "conformance.h"

#include <poll.h>

static hf_client *open_driven(void)
{
    return open_client_with((hf_client_options){ .driver = HF_DRIVE_CALLER });
}

/* Turns the client's loop until the request is answered. */
static void turn_until(hf_client *client, struct outcome *outcome)
{
    int64_t until = monotonic_ms() + SOON_MS;

    while (outcome->calls == 0) {
        struct pollfd pollfd = { .fd = hf_fd(client), .events = POLLIN };
        CHECK(monotonic_ms() < until);
        if (poll(&pollfd, 1, 1000) > 0)
            CHECK_CODE(hf_dispatch(client), HF_OK);
    }
}

TEST(it_has_no_thread)
{
    if (store_has_threads())
        SKIP("a connection of this store has a thread");
    int before = test_count_threads();
    hf_client *client = open_driven();

    CHECK(hf_fd(client) >= 0);
    CHECK_INT(test_count_threads(), before);
    give_back(take(client, name_of("one"), HF_MUTEX, 0));
    CHECK_INT(test_count_threads(), before);
    hf_close(client);
}

TEST(a_threaded_client_has_no_descriptor)
{
    hf_client *client = open_client();

    CHECK_INT(hf_fd(client), -1);
    CHECK_ERROR(hf_dispatch(client), HF_EINVAL);
    hf_close(client);
}

TEST(requests_are_answered_by_dispatch_only)
{
    hf_client *client = open_driven();
    struct outcome outcome = { 0 };

    CHECK_CODE(hf_lock_async(client, name_of("one"), 0, NULL, record_outcome, &outcome, NULL),
               HF_OK);
    CHECK_INT(outcome.calls, 0);
    let_pass_ms(20);
    CHECK_INT(outcome.calls, 0);
    turn_until(client, &outcome);
    CHECK_CODE(outcome.code, HF_OK);
    CHECK(pthread_equal(outcome.thread, pthread_self()));
    give_back(outcome.hold);
    hf_close(client);
}

TEST(a_request_waits_in_the_programs_loop)
{
    struct peer peer;
    peer_start(&peer);
    hf_client *client = open_driven();
    struct outcome outcome = { 0 };

    CHECK_CODE(peer_lock(&peer, 0, name_of("one"), 0, NULL), HF_OK);
    for (int i = 0; i < 20; i++) {
        outcome.calls = 0;
        CHECK_CODE(
            hf_lock_async(client, name_of("one"), HF_FOREVER, NULL, record_outcome, &outcome, NULL),
            HF_OK);
        CHECK_CODE(hf_dispatch(client), HF_OK);
        CHECK_CODE(hf_dispatch(client), HF_OK);
        CHECK_INT(outcome.calls, 0);
        CHECK_CODE(peer_unlock(&peer, 0), HF_OK);
        turn_until(client, &outcome);
        CHECK_CODE(outcome.code, HF_OK);
        give_back(outcome.hold);
        CHECK_CODE(peer_lock(&peer, 0, name_of("one"), SOON_MS, NULL), HF_OK);
    }
    CHECK_CODE(peer_unlock(&peer, 0), HF_OK);
    hf_close(client);
    peer_end(&peer);
}

TEST(a_time_limit_makes_the_descriptor_readable)
{
    hf_client *client = open_driven(), *other = open_client();
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0);
    struct outcome outcome = { 0 };

    CHECK_CODE(hf_lock_async(client, name_of("one"), 50, NULL, record_outcome, &outcome, NULL),
               HF_OK);
    turn_until(client, &outcome);
    CHECK_IN_VAIN(outcome.code);
    give_back(hold);
    hf_close(client);
    hf_close(other);
}

TEST(canceling_works_without_a_thread)
{
    hf_client *client = open_driven(), *other = open_client();
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0);
    struct outcome outcome = { 0 };
    hf_request request;

    CHECK_CODE(
        hf_lock_async(client, name_of("one"), HF_FOREVER, NULL, record_outcome, &outcome, &request),
        HF_OK);
    CHECK_CODE(hf_dispatch(client), HF_OK);
    hf_cancel(client, request);
    CHECK_INT(outcome.calls, 0);
    turn_until(client, &outcome);
    CHECK_CODE(outcome.code, HF_CANCELED);
    give_back(hold);
    /* A reply that is still missing has to be dispatched before its place can be left. */
    if (hf_caps(other) & HF_CAP_INSPECT)
        EVENTUALLY(hf_dispatch(client) == HF_OK && holders(other, name_of("one")) == 0 &&
                       waiters(other, name_of("one")) == 0,
                   SOON_MS);
    hf_close(client);
    hf_close(other);
}

TEST(blocking_calls_turn_the_loop)
{
    struct peer peer;
    peer_start(&peer);
    hf_client *client = open_driven();
    struct outcome outcome = { 0 };
    hf_hold *hold;

    CHECK_CODE(peer_lock(&peer, 0, name_of("one"), 0, NULL), HF_OK);
    CHECK_CODE(hf_lock_async(client, name_of("two"), 0, NULL, record_outcome, &outcome, NULL),
               HF_OK);
    int code = hf_lock(client, name_of("one"), 200, NULL, &hold);
    CHECK_IN_VAIN(code);
    /* Questions are answered in order. */
    if (code == HF_BUSY)
        CHECK_INT(outcome.calls, 1);
    turn_until(client, &outcome);
    give_back(outcome.hold);
    CHECK_CODE(peer_unlock(&peer, 0), HF_OK);
    CHECK_CODE(hf_lock(client, name_of("one"), SOON_MS, NULL, &hold), HF_OK);
    CHECK_CODE(peer_lock(&peer, 1, name_of("one"), 0, NULL), HF_BUSY);
    give_back(hold);
    hf_close(client);
    peer_end(&peer);
}

static void note_loss(void *arg, const hf_loss *loss)
{
    (void)loss;
    ++*(int *)arg;
}

static void count_point(void *arg, const char *point, const char *name)
{
    (void)point, (void)name;
    ++*(int *)arg;
}

/* A lock that this client released last needs neither the loop nor a question to the store. */
TEST(lone_caller_without_a_thread_takes_the_fast_path)
{
    int points = 0;
    if (!store_is_local())
        SKIP("only an engine without I/O has such a path");
    hf_client *client = open_client_with((hf_client_options){
        .driver = HF_DRIVE_CALLER, .on_point = count_point, .point_arg = &points });
    hf_hold *hold;

    for (int64_t wait_ms = HF_FOREVER; wait_ms < 100; wait_ms += 50) {
        give_back(take(client, name_of("one"), HF_MUTEX, 0));
        points = 0;
        CHECK_CODE(hf_lock(client, name_of("one"), wait_ms, NULL, &hold), HF_OK);
        CHECK_CODE(hf_unlock(hold), HF_OK);
        CHECK_INT(points, 0);
    }
    hf_close(client);
}

TEST(losses_arrive_by_dispatch)
{
    hf_client *client = open_driven();
    int losses = 0;
    hf_hold *hold;

    CHECK_CODE(hf_lock(client, name_of("one"), 0,
                       LOCK_OPTIONS(.lease_ms = short_lease(50), .on_lost = note_loss,
                                    .lost_arg = &losses),
                       &hold),
               HF_OK);
    EVENTUALLY(hf_dispatch(client) == HF_OK && losses == 1, SOON_MS);
    CHECK(!hf_held(hold));
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    hf_close(client);
}

TEST(held_turns_false_without_dispatch)
{
    hf_client *client = open_driven(), *other = open_client();
    hf_hold *hold, *next;

    CHECK_CODE(hf_lock(client, name_of("one"), 0, LOCK_OPTIONS(.lease_ms = short_lease(50)), &hold),
               HF_OK);
    CHECK_CODE(hf_lock(other, name_of("one"), SOON_MS, LOCK_OPTIONS(NO_LOOK), &next), HF_OK);
    CHECK(!hf_held(hold));
    give_back(next);
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    hf_close(client);
    hf_close(other);
}

TEST(closing_answers_what_is_waiting)
{
    hf_client *client = open_driven(), *other = open_client();
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0);
    struct outcome outcomes[3] = { { 0 } };

    for (int i = 0; i < 3; i++)
        CHECK_CODE(hf_lock_async(client, name_of("one"), HF_FOREVER, NULL, record_outcome,
                                 &outcomes[i], NULL),
                   HF_OK);
    CHECK_CODE(hf_dispatch(client), HF_OK);
    hf_close(client);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(outcomes[i].calls, 1);
        CHECK_CODE(outcomes[i].code, HF_ECLOSED);
    }
    give_back(hold);
    check_nothing_left(other, name_of("one"));
    hf_close(other);
}

TEST(an_idle_client_is_quiet)
{
    hf_client *client = open_driven();
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0);
    int turns = 0;

    for (int64_t until = monotonic_ms() + 1000; monotonic_ms() < until; turns++) {
        struct pollfd pollfd = { .fd = hf_fd(client), .events = POLLIN };
        if (poll(&pollfd, 1, 200) > 0)
            CHECK_CODE(hf_dispatch(client), HF_OK);
    }
    /* Five polls that run out, and a few turns for whatever is due; a busy loop takes thousands. */
    CHECK(turns < 200);
    give_back(hold);
    hf_close(client);
}
