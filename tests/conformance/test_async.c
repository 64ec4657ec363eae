/* SPDX-License-Identifier: Apache-2.0 */
/* Requests without blocking: answered exactly once, on the loop, never inside the call. */
#include "conformance.h"

#include <unistd.h>

static const hf_lock_options *mutex_of(uint64_t owner)
{
    static _Thread_local hf_lock_options options;

    options = HF_LOCK_OPTIONS(.owner = owner);
    return &options;
}

TEST(a_free_lock_is_granted)
{
    hf_client *client = open_client(), *other = open_client();
    struct outcome outcome = { 0 };
    hf_request request = 0;

    CHECK_CODE(
        hf_lock_async(client, name_of("one"), HF_FOREVER, NULL, record_outcome, &outcome, &request),
        HF_OK);
    CHECK(request != 0);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_OK);
    CHECK(!pthread_equal(outcome.thread, pthread_self()));
    CHECK(hf_held(outcome.hold));
    CHECK_CODE(probe(other, name_of("one"), HF_MUTEX, 0), HF_BUSY);
    give_back(outcome.hold);
    CHECK_INT(outcome.calls, 1);
    hf_close(client);
    hf_close(other);
}

TEST(a_held_lock_is_busy_or_waited_for)
{
    hf_client *client = open_client(), *other = open_client();
    struct outcome try = { 0 }, timed = { 0 }, waiting = { 0 };
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0);

    CHECK_CODE(hf_lock_async(client, name_of("one"), 0, NULL, record_outcome, &try, NULL), HF_OK);
    WAIT_OUTCOME(&try);
    CHECK_CODE(try.code, HF_BUSY);
    CHECK(strlen(try.text) > 5);
    CHECK_CODE(hf_lock_async(client, name_of("one"), 50, NULL, record_outcome, &timed, NULL),
               HF_OK);
    WAIT_OUTCOME(&timed);
    CHECK_IN_VAIN(timed.code);
    CHECK_CODE(
        hf_lock_async(client, name_of("one"), HF_FOREVER, NULL, record_outcome, &waiting, NULL),
        HF_OK);
    let_pass_ms(20);
    CHECK_INT(waiting.calls, 0);
    give_back(hold);
    WAIT_OUTCOME(&waiting);
    CHECK_CODE(waiting.code, HF_OK);
    give_back(waiting.hold);
    CHECK_INT(try.calls + timed.calls + waiting.calls, 3);
    hf_close(client);
    hf_close(other);
}

TEST(requests_without_an_owner_share_with_nobody)
{
    hf_client *client = open_client();
    struct outcome first = { 0 }, second = { 0 };

    CHECK_CODE(hf_lock_async(client, name_of("one"), 0, NULL, record_outcome, &first, NULL), HF_OK);
    WAIT_OUTCOME(&first);
    CHECK_CODE(first.code, HF_OK);
    CHECK_CODE(hf_lock_async(client, name_of("one"), 0, NULL, record_outcome, &second, NULL),
               HF_OK);
    WAIT_OUTCOME(&second);
    CHECK_CODE(second.code, HF_BUSY);
    CHECK_CODE(probe(client, name_of("one"), HF_MUTEX, 0), HF_BUSY);
    give_back(first.hold);
    hf_close(client);
}

TEST(numbered_owners_re_enter)
{
    hf_client *client = open_client();
    struct outcome inner = { 0 };
    hf_hold *outer = take(client, name_of("one"), HF_MUTEX, 5);

    CHECK_CODE(hf_lock_async(client, name_of("one"), 0, mutex_of(5), record_outcome, &inner, NULL),
               HF_OK);
    WAIT_OUTCOME(&inner);
    CHECK_CODE(inner.code, HF_OK);
    give_back(outer);
    CHECK(hf_held(inner.hold));
    give_back(inner.hold);
    hf_close(client);
}

TEST(bad_requests_are_refused_at_once)
{
    hf_client *client = open_client();
    struct outcome outcome = { 0 };
    hf_request request = 4711;

    CHECK_ERROR(hf_lock_async(client, "", 0, NULL, record_outcome, &outcome, &request), HF_EINVAL);
    CHECK_ERROR(hf_lock_async(client, "x", -2, NULL, record_outcome, &outcome, NULL), HF_EINVAL);
    CHECK_ERROR(hf_lock_async(client, "x", 0, NULL, NULL, NULL, NULL), HF_EINVAL);
    CHECK_ERROR(hf_lock_async(NULL, "x", 0, NULL, record_outcome, &outcome, NULL), HF_EINVAL);
    hf_close(client);
    CHECK_INT(outcome.calls, 0);
}

TEST(counters_and_latches_answer_without_a_hold)
{
    hf_client *client = open_client();
    struct outcome counter = { 0 }, latch = { 0 };

    need(client, HF_CAP_COUNTER | HF_CAP_LATCH);
    CHECK_CODE(hf_latch_set(client, name_of("latch"), 1), HF_OK);
    CHECK_CODE(hf_lock_async(client, name_of("count"), HF_FOREVER, LOCK_OPTIONS(.mode = HF_COUNTER),
                             record_outcome, &counter, NULL),
               HF_OK);
    CHECK_CODE(hf_lock_async(client, name_of("latch"), HF_FOREVER, LOCK_OPTIONS(.mode = HF_LATCH),
                             record_outcome, &latch, NULL),
               HF_OK);
    CHECK_CODE(hf_counter_add(client, name_of("count"), 1), HF_OK);
    CHECK_CODE(hf_latch_down(client, name_of("latch"), 1, NULL), HF_OK);
    WAIT_OUTCOME(&counter);
    WAIT_OUTCOME(&latch);
    CHECK_CODE(counter.code, HF_OK);
    CHECK_CODE(latch.code, HF_OK);
    CHECK(counter.hold == NULL && latch.hold == NULL);
    hf_close(client);
}

/* ---- In callbacks ---- */

struct inside {
    hf_client *client;
    hf_hold *held;
    _Atomic int done;
    int lock, inspect, set;
};

static bool ignore_entry(void *arg, const hf_entry *entry)
{
    (void)arg;
    (void)entry;
    return true;
}

static void block_inside(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct inside *inside = arg;
    hf_hold *never = NULL;

    (void)error;
    CHECK_CODE(code, HF_OK);
    inside->lock = hf_lock(inside->client, name_of("two"), HF_FOREVER, NULL, &never);
    CHECK(never == NULL);
    inside->inspect = hf_inspect(inside->client, NULL, ignore_entry, NULL);
    inside->set = hf_semaphore_set(inside->client, name_of("sem"), 3);
    /* These do not block. */
    CHECK(hf_held(hold));
    hf_unlock_nowait(hold);
    inside->done = 1;
}

TEST(blocking_calls_are_refused_in_callbacks)
{
    struct inside inside = { .client = open_client() };

    CHECK_CODE(hf_lock_async(inside.client, name_of("one"), 0, NULL, block_inside, &inside, NULL),
               HF_OK);
    EVENTUALLY(inside.done, SOON_MS);
    CHECK_CODE(inside.lock, HF_EDEADLK);
    CHECK_CODE(inside.inspect, HF_EDEADLK);
    CHECK_CODE(inside.set, HF_EDEADLK);
    CHECK_CODE(probe(inside.client, name_of("two"), HF_MUTEX, 0), HF_OK);
    hf_close(inside.client);
}

struct chain {
    hf_client *client;
    _Atomic int left, done;
};

static void take_again(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct chain *chain = arg;

    (void)error;
    CHECK_CODE(code, HF_OK);
    hf_unlock_nowait(hold);
    if (--chain->left == 0)
        chain->done = 1;
    else
        CHECK_CODE(
            hf_lock_async(chain->client, name_of("one"), HF_FOREVER, NULL, take_again, chain, NULL),
            HF_OK);
}

TEST(callbacks_may_ask_again)
{
    struct chain chain = { .client = open_client(), .left = 1000 };

    CHECK_CODE(
        hf_lock_async(chain.client, name_of("one"), HF_FOREVER, NULL, take_again, &chain, NULL),
        HF_OK);
    EVENTUALLY(chain.done, SOON_MS);
    check_nothing_left(chain.client, name_of("one"));
    hf_close(chain.client);
}

struct turns {
    _Atomic int granted, inside, sum;
};

static void have_a_turn(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct turns *turns = arg;

    (void)error;
    CHECK_CODE(code, HF_OK);
    CHECK_INT(turns->inside++, 0);
    turns->inside--;
    hf_unlock_nowait(hold);
    turns->granted++;
}

TEST(a_thousand_requests_have_their_turns)
{
    hf_client *clients[2] = { open_client(), open_client() };
    struct turns turns = { 0 };

    for (int i = 0; i < 1000; i++)
        CHECK_CODE(hf_lock_async(clients[i % 2], name_of("one"), HF_FOREVER, NULL, have_a_turn,
                                 &turns, NULL),
                   HF_OK);
    EVENTUALLY(turns.granted == 1000, SOON_MS);
    check_nothing_left(clients[0], name_of("one"));
    hf_close(clients[0]);
    hf_close(clients[1]);
}

TEST(fair_requests_are_granted_in_order)
{
    enum { COUNT = 50 };
    static struct outcome outcomes[COUNT];
    hf_client *client = open_client();
    hf_hold *hold;

    need(client, HF_CAP_FAIR);
    hold = take(client, name_of("one"), HF_FAIR, 0);
    for (int i = 0; i < COUNT; i++)
        CHECK_CODE(hf_lock_async(client, name_of("one"), HF_FOREVER, LOCK_OPTIONS(.mode = HF_FAIR),
                                 record_outcome, &outcomes[i], NULL),
                   HF_OK);
    give_back(hold);
    for (int i = 0; i < COUNT; i++) {
        WAIT_OUTCOME(&outcomes[i]);
        CHECK_CODE(outcomes[i].code, HF_OK);
        CHECK(i + 1 == COUNT || outcomes[i + 1].calls == 0);
        give_back(outcomes[i].hold);
    }
    hf_close(client);
}

/* ---- Releasing without blocking ---- */

TEST(unlock_async_tells_once_when_the_name_is_free)
{
    hf_client *client = open_client(), *other = open_client();

    for (int i = 0; i < 20; i++) {
        struct outcome outcome = { 0 };
        hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0);
        CHECK_CODE(hf_unlock_async(hold, record_outcome, &outcome), HF_OK);
        WAIT_OUTCOME(&outcome);
        CHECK_CODE(outcome.code, HF_OK);
        CHECK(outcome.hold == NULL);
        CHECK(!pthread_equal(outcome.thread, pthread_self()));
        give_back(take(other, name_of("one"), HF_MUTEX, 0));
        CHECK_INT(outcome.calls, 1);
    }
    hf_close(client);
    hf_close(other);
}

TEST(unlock_async_without_a_hold_or_a_callback_is_refused)
{
    hf_client *client = open_client();
    struct outcome outcome = { 0 };
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0);

    CHECK_ERROR(hf_unlock_async(NULL, record_outcome, &outcome), HF_EINVAL);
    CHECK_ERROR(hf_unlock_async(hold, NULL, &outcome), HF_EINVAL);
    CHECK(hf_held(hold));
    give_back(hold);
    hf_close(client);
    CHECK_INT(outcome.calls, 0);
}

TEST(unlock_async_of_a_nested_hold_keeps_the_lock)
{
    hf_client *client = open_client(), *other = open_client();
    struct outcome outcome = { 0 };
    hf_hold *outer = take(client, name_of("one"), HF_MUTEX, 7);
    hf_hold *inner = take(client, name_of("one"), HF_MUTEX, 7);

    CHECK_CODE(hf_unlock_async(inner, record_outcome, &outcome), HF_OK);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_OK);
    CHECK_IN_VAIN(probe(other, name_of("one"), HF_MUTEX, 0));
    give_back(outer);
    hf_close(client);
    hf_close(other);
}

TEST(unlock_async_of_a_lost_hold_tells_the_loss)
{
    hf_client *client = open_client(), *other = open_client();
    struct outcome outcome = { 0 };

    need(client, HF_CAP_BREAK);
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0);
    CHECK_CODE(hf_break(other, name_of("one"), NULL, NULL), HF_OK);
    CHECK_CODE(hf_unlock_async(hold, record_outcome, &outcome), HF_OK);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_LOST);
    CHECK(strstr(outcome.text, name_of("one")) != NULL);
    hf_close(client);
    hf_close(other);
    CHECK_INT(outcome.calls, 1);
}

TEST(unlock_async_is_told_before_close_returns)
{
    for (int i = 0; i < 10; i++) {
        hf_client *client = open_client();
        struct outcome outcome = { 0 };
        hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0);
        CHECK_CODE(hf_unlock_async(hold, record_outcome, &outcome), HF_OK);
        hf_close(client);
        CHECK_INT(outcome.calls, 1);
        CHECK_CODE(outcome.code, HF_OK);
    }
}

TEST(unlock_async_without_a_thread_is_told_by_dispatch)
{
    hf_client *client = open_client_with((hf_client_options){ .driver = HF_DRIVE_CALLER });
    struct outcome outcome = { 0 };
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0);

    CHECK_CODE(hf_unlock_async(hold, record_outcome, &outcome), HF_OK);
    CHECK_INT(outcome.calls, 0);
    EVENTUALLY(hf_dispatch(client) == HF_OK && outcome.calls > 0, SOON_MS);
    CHECK_CODE(outcome.code, HF_OK);
    hf_close(client);
    CHECK_INT(outcome.calls, 1);
}

static void release_in_the_child(void *arg)
{
    CHECK_ERROR(hf_unlock_async(arg, record_outcome, NULL), HF_EFORKED);
    _exit(0); /* what the parent has under way is of no use in the child */
}

TEST(unlock_async_is_told_once_over_a_fork)
{
    need_forks_at_any_time();
    hf_client *client = open_client();
    struct outcome outcome = { 0 };
    struct child child;
    hf_hold *one = take(client, name_of("one"), HF_MUTEX, 0);
    hf_hold *two = take(client, name_of("two"), HF_MUTEX, 0);

    CHECK_CODE(hf_unlock_async(one, record_outcome, &outcome), HF_OK);
    child_start(&child, release_in_the_child, two);
    child_join(&child);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_OK);
    CHECK(hf_held(two));
    give_back(two);
    hf_close(client);
    CHECK_INT(outcome.calls, 1);
}

static void release_again(void *arg, int code, hf_hold *hold, const hf_error *error);

static void released(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct chain *chain = arg;

    CHECK_CODE(code, HF_OK);
    CHECK(hold == NULL && error == NULL);
    if (--chain->left == 0)
        chain->done = 1;
    else
        CHECK_CODE(hf_lock_async(chain->client, name_of("one"), HF_FOREVER, NULL, release_again,
                                 chain, NULL),
                   HF_OK);
}

static void release_again(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    (void)error;
    CHECK_CODE(code, HF_OK);
    CHECK_CODE(hf_unlock_async(hold, released, arg), HF_OK);
}

TEST(unlock_async_and_its_callback_may_ask_again)
{
    struct chain chain = { .client = open_client(), .left = 200 };

    CHECK_CODE(
        hf_lock_async(chain.client, name_of("one"), HF_FOREVER, NULL, release_again, &chain, NULL),
        HF_OK);
    EVENTUALLY(chain.done, SOON_MS);
    check_nothing_left(chain.client, name_of("one"));
    hf_close(chain.client);
}

struct releases {
    hf_client *client;
    _Atomic int begun, told, inside;
};

static void count_release(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct releases *releases = arg;

    (void)error;
    CHECK_CODE(code, HF_OK);
    CHECK(hold == NULL);
    releases->told++;
}

static void take_turns(void *arg)
{
    struct releases *releases = arg;

    for (int i = 0; i < 50; i++) {
        hf_hold *hold = NULL;
        CHECK_CODE(hf_lock(releases->client, name_of("one"), SOON_MS,
                           LOCK_OPTIONS(.owner = HF_OWNER_NEW), &hold),
                   HF_OK);
        CHECK_INT(releases->inside++, 0);
        releases->inside--;
        CHECK_CODE(hf_unlock_async(hold, count_release, releases), HF_OK);
        releases->begun++;
    }
}

TEST(unlock_async_of_many_threads_tells_each)
{
    struct releases releases = { .client = open_client() };
    struct thread threads[4];

    for (int i = 0; i < 4; i++)
        thread_start(&threads[i], take_turns, &releases);
    for (int i = 0; i < 4; i++)
        thread_join(&threads[i]);
    CHECK_INT(releases.begun, 200);
    check_nothing_left(releases.client, name_of("one"));
    hf_close(releases.client);
    CHECK_INT(releases.told, 200);
}
