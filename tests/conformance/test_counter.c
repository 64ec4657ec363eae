/* SPDX-License-Identifier: Apache-2.0 */
/* The plain counter, a number that no death gives back; and rate limiters. */
#include "conformance.h"

#include <stdio.h>

static uint32_t value_of(hf_client *client)
{
    uint32_t value = 4711;

    CHECK_CODE(hf_counter_get(client, name_of("count"), &value), HF_OK);
    return value;
}

static hf_client *open_with_value(uint32_t value)
{
    hf_client *client = open_client();

    need(client, HF_CAP_COUNTER);
    CHECK_CODE(hf_counter_set(client, name_of("count"), value), HF_OK);
    return client;
}

TEST(set_add_take_get)
{
    hf_client *client = open_with_value(5), *other = open_client();

    CHECK_INT(value_of(other), 5);
    CHECK_CODE(hf_counter_add(other, name_of("count"), 3), HF_OK);
    CHECK_INT(value_of(client), 8);
    CHECK_CODE(hf_counter_take(client, name_of("count"), 6, 0), HF_OK);
    CHECK_INT(value_of(client), 2);
    CHECK_ERROR(hf_counter_take(client, name_of("count"), 3, 0), HF_BUSY);
    CHECK_IN_VAIN(hf_counter_take(client, name_of("count"), 3, 50));
    CHECK_INT(value_of(client), 2);
    CHECK_CODE(hf_counter_set(client, name_of("count"), 0), HF_OK);
    CHECK_INT(value_of(client), 0);
    hf_close(client);
    CHECK_INT(value_of(other), 0);
    hf_close(other);
}

TEST(adding_creates_it)
{
    hf_client *client = open_client();

    need(client, HF_CAP_COUNTER);
    CHECK_CODE(hf_counter_add(client, name_of("count"), 7), HF_OK);
    CHECK_INT(value_of(client), 7);
    CHECK_CODE(hf_counter_remove(client, name_of("count")), HF_OK);
    CHECK_CODE(probe(client, name_of("count"), HF_MUTEX, 0), HF_OK);
    CHECK_CODE(hf_counter_add(client, name_of("count"), 1), HF_OK);
    CHECK_INT(value_of(client), 1);
    hf_close(client);
}

TEST(taking_leaves_no_hold)
{
    hf_client *client = open_with_value(4);
    hf_hold *hold = (hf_hold *)&hold;

    CHECK_CODE(
        hf_lock(client, name_of("count"), 0, LOCK_OPTIONS(.mode = HF_COUNTER, .permits = 3), &hold),
        HF_OK);
    CHECK(hold == NULL);
    CHECK_CODE(hf_lock(client, name_of("count"), 0, LOCK_OPTIONS(.mode = HF_COUNTER), NULL), HF_OK);
    CHECK_INT(value_of(client), 0);
    if (hf_caps(client) & HF_CAP_INSPECT)
        CHECK_INT(holders(client, name_of("count")), 0);
    hf_close(client);
}

TEST(what_was_taken_stays_taken)
{
    struct peer peer;
    peer_start(&peer);
    hf_client *client = open_with_value(4);

    CHECK_CODE(
        peer_lock(&peer, 0, name_of("count"), 0, LOCK_OPTIONS(.mode = HF_COUNTER, .permits = 3)),
        HF_OK);
    child_kill(&peer.child);
    CHECK_INT(value_of(client), 1);
    CHECK_IN_VAIN(hf_counter_take(client, name_of("count"), 2, 100));
    CHECK_INT(value_of(client), 1);
    hf_close(client);
}

TEST(adding_lets_waiters_in)
{
    struct peer peer;
    peer_start(&peer);
    hf_client *client = open_with_value(0);

    need(client, HF_CAP_INSPECT);
    peer_begin(&peer, 0, name_of("count"), HF_FOREVER,
               LOCK_OPTIONS(.mode = HF_COUNTER, .permits = 2));
    EVENTUALLY(waiters(client, name_of("count")) == 1, SOON_MS);
    CHECK_CODE(hf_counter_add(client, name_of("count"), 1), HF_OK);
    CHECK_INT(waiters(client, name_of("count")), 1);
    CHECK_CODE(hf_counter_add(client, name_of("count"), 1), HF_OK);
    CHECK_CODE(peer_answer(&peer), HF_OK);
    CHECK_INT(value_of(client), 0);
    peer_begin(&peer, 0, name_of("count"), HF_FOREVER,
               LOCK_OPTIONS(.mode = HF_COUNTER, .permits = 5));
    EVENTUALLY(waiters(client, name_of("count")) == 1, SOON_MS);
    CHECK_CODE(hf_counter_set(client, name_of("count"), 9), HF_OK);
    CHECK_CODE(peer_answer(&peer), HF_OK);
    CHECK_INT(value_of(client), 4);
    hf_close(client);
    peer_end(&peer);
}

TEST(it_does_not_wrap_around)
{
    hf_client *client = open_with_value(UINT32_MAX - 1);

    CHECK_CODE(hf_counter_add(client, name_of("count"), 1), HF_OK);
    CHECK_INT(value_of(client), UINT32_MAX);
    CHECK(hf_counter_add(client, name_of("count"), 1) != HF_OK);
    CHECK(hf_counter_add(client, name_of("count"), UINT32_MAX) != HF_OK);
    CHECK_INT(value_of(client), UINT32_MAX);
    CHECK_CODE(hf_counter_take(client, name_of("count"), UINT32_MAX, 0), HF_OK);
    CHECK_INT(value_of(client), 0);
    hf_close(client);
}

static void add_and_take(void *arg, int index)
{
    hf_client *client = open_client();

    (void)arg;
    for (int i = 0; i < store_rounds(200); i++)
        if (index % 2)
            CHECK_CODE(hf_counter_add(client, name_of("count"), 2), HF_OK);
        else
            CHECK_CODE(hf_counter_take(client, name_of("count"), 2, HF_FOREVER), HF_OK);
    hf_close(client);
}

TEST(nothing_is_lost_and_nothing_appears)
{
    hf_client *client = open_with_value(3);

    processes_run(8, add_and_take, NULL);
    CHECK_INT(value_of(client), 3);
    check_nothing_left(client, name_of("count"));
    hf_close(client);
}

/* A request that is canceled while the store grants it must not keep what it took. */
TEST(canceling_loses_no_units)
{
    const int rounds = store_rounds(2000);
    hf_client *client = open_with_value((uint32_t)rounds);
    uint32_t taken = 0;

    for (int i = 0; i < rounds; i++) {
        struct outcome outcome = { 0 };
        hf_request request;
        CHECK_CODE(hf_lock_async(client, name_of("count"), HF_FOREVER,
                                 LOCK_OPTIONS(.mode = HF_COUNTER), record_outcome, &outcome,
                                 &request),
                   HF_OK);
        hf_cancel(client, request);
        WAIT_OUTCOME(&outcome);
        taken += outcome.code == HF_OK;
    }
    test_note("%u of %d were canceled too late", taken, rounds);
    EVENTUALLY(value_of(client) == (uint32_t)rounds - taken, SOON_MS);
    hf_close(client);
}

/* ---- rate limiters ---- */

#define HOUR_MS INT64_C(3600000)

static hf_client *open_for_rates(void)
{
    hf_client *client = open_client();

    need(client, HF_CAP_RATE);
    return client;
}

#define CROWD 8

struct crowd {
    hf_client *clients[CROWD];
    _Atomic int taken, busy;
};

static void take_some(void *arg, int index)
{
    struct crowd *crowd = arg;
    hf_rate rate = HF_RATE(.permits = 20, .period_ms = HOUR_MS);

    for (int i = 0; i < 6; i++) {
        int64_t retry_ms = -1;
        int code = hf_rate_take(crowd->clients[index], name_of("rate"), &rate, 1, 0, &retry_ms);
        CHECK(code == HF_OK || code == HF_BUSY);
        crowd->taken += code == HF_OK;
        crowd->busy += code == HF_BUSY;
        CHECK(code == HF_OK ? retry_ms == 0 : retry_ms > 0 && retry_ms <= HOUR_MS / 20);
    }
}

TEST(rate_burst_is_had_by_all_clients_together)
{
    struct crowd crowd = { 0 };

    for (int i = 0; i < CROWD; i++)
        crowd.clients[i] = open_for_rates();
    threads_run(CROWD, take_some, &crowd);
    CHECK_INT(crowd.taken, 20);
    CHECK_INT(crowd.busy, 28);
    for (int i = 0; i < CROWD; i++)
        hf_close(crowd.clients[i]);
}

/* The server's clock, or the kernel's, may be a hundredth slower or faster than ours. */
TEST(rate_takes_that_wait_come_no_faster_than_the_rate)
{
    hf_client *client = open_for_rates();
    hf_rate rate = HF_RATE(.permits = 10, .period_ms = 1000, .burst = 2);
    int64_t since_ms = monotonic_ms();

    for (int i = 0; i < 14; i++)
        CHECK_CODE(hf_rate_take(client, name_of("rate"), &rate, 1, HF_FOREVER, NULL), HF_OK);
    CHECK(monotonic_ms() - since_ms >= 1190);
    CHECK_CODE(hf_rate_take(client, name_of("rate"), &rate, 2, HF_FOREVER, NULL), HF_OK);
    hf_close(client);
}

TEST(rate_take_of_more_than_the_wait_takes_nothing)
{
    hf_client *client = open_for_rates();
    hf_rate rate = HF_RATE(.permits = 4, .period_ms = HOUR_MS);
    int64_t first_ms = 0, second_ms = 0;

    CHECK_CODE(hf_rate_take(client, name_of("rate"), &rate, 4, 0, NULL), HF_OK);
    CHECK_ERROR(hf_rate_take(client, name_of("rate"), &rate, 2, 1000, &first_ms), HF_BUSY);
    CHECK_ERROR(hf_rate_take(client, name_of("rate"), &rate, 2, 1000, &second_ms), HF_BUSY);
    CHECK(first_ms > HOUR_MS / 4 && first_ms <= HOUR_MS / 2);
    CHECK(second_ms <= first_ms);
    hf_close(client);
}

TEST(rate_name_in_use_is_of_one_kind)
{
    hf_client *client = open_for_rates();
    hf_rate rate = HF_RATE(.permits = 1, .period_ms = HOUR_MS);
    hf_hold *hold = take(client, name_of("lock"), HF_MUTEX, 0);

    CHECK_ERROR(hf_rate_take(client, name_of("lock"), &rate, 1, 0, NULL), HF_EKIND);
    give_back(hold);
    CHECK_CODE(hf_counter_set(client, name_of("count"), 7), HF_OK);
    CHECK_ERROR(hf_rate_take(client, name_of("count"), &rate, 1, 0, NULL), HF_EKIND);
    CHECK_INT(value_of(client), 7);
    CHECK_CODE(hf_rate_take(client, name_of("rate"), &rate, 1, 0, NULL), HF_OK);
    CHECK_ERROR(hf_lock(client, name_of("rate"), 0, LOCK_OPTIONS(.mode = HF_COUNTER), NULL),
                HF_EKIND);
    CHECK_ERROR(hf_counter_set(client, name_of("rate"), 1), HF_EKIND);
    CHECK_ERROR(hf_forget(client, name_of("rate")), HF_BUSY);
    const struct picture *picture = look(client, name_of("rate"));
    CHECK_INT(picture->count, 1);
    CHECK_INT(picture->seen[0].kind, HF_KIND_RATE);
    CHECK(picture->seen[0].value > HOUR_MS / 2 && picture->seen[0].value <= HOUR_MS);
    hf_close(client);
}

TEST(rate_limiter_that_is_full_is_forgotten)
{
    hf_client *client = open_for_rates();
    hf_rate rate = HF_RATE(.permits = 1000, .period_ms = 1000);

    /* It may be full between two statements of a request that forgets it. */
    for (int i = 0; i < 40; i++) {
        char name[160];
        snprintf(name, sizeof(name), "%s-%d", name_of("rate"), i);
        CHECK_CODE(hf_rate_take(client, name, &rate, 1, 0, NULL), HF_OK);
        EVENTUALLY(hf_forget(client, name) == HF_OK, SOON_MS);
        check_nothing_left(client, name);
        give_back(take(client, name, HF_MUTEX, 0));
    }
    hf_close(client);
}

static bool say_stop(void *arg)
{
    ++*(int *)arg;
    return true;
}

TEST(rate_wait_ends_when_its_stop_is_set)
{
    hf_client *client = open_for_rates();
    int asked = 0;
    hf_stop stop = HF_STOP_INIT;
    stop.interrupted = say_stop;
    stop.interrupted_arg = &asked;
    hf_rate rate = HF_RATE(.permits = 1, .period_ms = HOUR_MS);

    CHECK_CODE(hf_rate_take(client, name_of("rate"), &rate, 1, 0, NULL), HF_OK);
    rate.stop = &stop;
    CHECK_ERROR(hf_rate_take(client, name_of("rate"), &rate, 1, HF_FOREVER, NULL), HF_CANCELED);
    CHECK(asked > 0);
    hf_close(client);
}

TEST(rate_that_makes_no_sense_is_refused)
{
    hf_client *client = open_for_rates();
    const struct {
        uint32_t permits;
        int64_t period_ms;
        uint32_t burst, wanted;
    } wrong[] = {
        { 0, 1000, 0, 1 },          { 1, 0, 0, 1 },         { 1, -1, 0, 1 },
        { 5, 1000, 0, 6 },          { 5, 1000, 2, 3 },      { 5, 1000, 0, 0 },
        { 1, 1000, UINT32_MAX, 1 }, { 1, INT64_MAX, 1, 1 },
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hf_rate rate = HF_RATE(.permits = wrong[i].permits, .period_ms = wrong[i].period_ms,
                               .burst = wrong[i].burst);
        CHECK_ERROR(hf_rate_take(client, name_of("rate"), &rate, wrong[i].wanted, 0, NULL),
                    HF_EINVAL);
    }
    CHECK_ERROR(hf_rate_take(client, name_of("rate"), NULL, 1, 0, NULL), HF_EINVAL);
    hf_rate most = HF_RATE(.permits = UINT32_MAX, .period_ms = INT64_C(366) * 86400 * 1000);
    CHECK_CODE(hf_rate_take(client, name_of("most"), &most, UINT32_MAX, 0, NULL), HF_OK);
    CHECK_ERROR(hf_rate_take(client, name_of("most"), &most, UINT32_MAX, 1000, NULL), HF_BUSY);
    hf_close(client);
}

TEST(rate_limiter_where_there_is_none_says_so)
{
    hf_client *client = open_client();
    hf_rate rate = HF_RATE(.permits = 1, .period_ms = 1000);

    if (!(hf_caps(client) & HF_CAP_RATE))
        CHECK_ERROR(hf_rate_take(client, name_of("rate"), &rate, 1, 0, NULL), HF_ENOTSUP);
    hf_close(client);
}

/* ---- Without blocking ---- */

static void check_told(struct outcome *outcome, int code)
{
    WAIT_OUTCOME(outcome);
    CHECK_CODE(outcome->code, code);
    CHECK(outcome->hold == NULL);
    CHECK(code == HF_OK || strlen(outcome->text) > 5);
    CHECK_INT(outcome->calls, 1);
    *outcome = (struct outcome){ 0 };
}

TEST(async_set_add_take_get_remove_are_each_told)
{
    hf_client *client = open_client();
    struct outcome told = { 0 };
    uint32_t value = 4711;

    need(client, HF_CAP_COUNTER);
    CHECK_CODE(hf_counter_set_async(client, name_of("count"), 5, record_outcome, &told), HF_OK);
    check_told(&told, HF_OK);
    CHECK_CODE(hf_counter_add_async(client, name_of("count"), 3, record_outcome, &told), HF_OK);
    check_told(&told, HF_OK);
    CHECK_CODE(
        hf_counter_take_async(client, name_of("count"), 6, HF_FOREVER, record_outcome, &told, NULL),
        HF_OK);
    check_told(&told, HF_OK);
    CHECK_CODE(hf_counter_get_async(client, name_of("count"), &value, record_outcome, &told),
               HF_OK);
    check_told(&told, HF_OK);
    CHECK_INT(value, 2);
    CHECK_CODE(hf_counter_take_async(client, name_of("count"), 3, 0, record_outcome, &told, NULL),
               HF_OK);
    check_told(&told, HF_BUSY);
    CHECK_CODE(hf_counter_add_async(client, name_of("count"), UINT32_MAX, record_outcome, &told),
               HF_OK);
    check_told(&told, HF_ELIMIT);
    CHECK_CODE(hf_counter_remove_async(client, name_of("count"), record_outcome, &told), HF_OK);
    check_told(&told, HF_OK);
    CHECK_INT(value_of(client), 0);
    hf_close(client);
}

TEST(async_calls_that_cannot_work_are_refused_at_once)
{
    hf_client *client = open_client();
    struct outcome told = { 0 };
    uint32_t value = 4711;

    need(client, HF_CAP_COUNTER);
    CHECK_ERROR(hf_counter_set_async(client, "", 5, record_outcome, &told), HF_EINVAL);
    CHECK_ERROR(hf_counter_add_async(client, name_of("count"), 5, NULL, &told), HF_EINVAL);
    CHECK_ERROR(hf_counter_take_async(client, name_of("count"), 0, 0, record_outcome, &told, NULL),
                HF_EINVAL);
    CHECK_ERROR(hf_counter_get_async(client, name_of("count"), NULL, record_outcome, &told),
                HF_EINVAL);
    CHECK_ERROR(hf_counter_get_async(NULL, name_of("count"), &value, record_outcome, &told),
                HF_EINVAL);
    CHECK_ERROR(hf_counter_remove_async(client, name_of("count"), NULL, NULL), HF_EINVAL);
    hf_close(client);
    CHECK_INT(told.calls, 0);
    CHECK_INT(value, 4711);
}

TEST(async_take_is_canceled_or_closed_and_takes_nothing)
{
    hf_client *client = open_with_value(0), *other = open_client();
    struct outcome canceled = { 0 }, closed = { 0 }, last = { 0 };
    hf_request request = 0;
    uint32_t value;

    CHECK_CODE(hf_counter_take_async(client, name_of("count"), 1, HF_FOREVER, record_outcome,
                                     &canceled, &request),
               HF_OK);
    CHECK(request != 0);
    hf_cancel(client, request);
    check_told(&canceled, HF_CANCELED);
    CHECK_CODE(hf_counter_take_async(client, name_of("count"), 1, HF_FOREVER, record_outcome,
                                     &closed, NULL),
               HF_OK);
    CHECK_CODE(hf_counter_get_async(client, name_of("count"), &value, record_outcome, &last),
               HF_OK);
    hf_close(client);
    check_told(&closed, HF_ECLOSED);
    CHECK(last.code == HF_OK || last.code == HF_ECLOSED);
    CHECK_INT(last.calls, 1);
    CHECK_CODE(hf_counter_add(other, name_of("count"), 1), HF_OK);
    CHECK_INT(value_of(other), 1);
    CHECK_CODE(hf_counter_remove(other, name_of("count")), HF_OK);
    hf_close(other);
}

struct steps {
    hf_client *client;
    uint32_t value;
    _Atomic int step;
};

/* Each asks for the next, on the loop. */
static void next_step(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct steps *steps = arg;

    CHECK_CODE(code, HF_OK);
    CHECK(hold == NULL && error == NULL);
    if (steps->step == 0)
        code = hf_counter_add_async(steps->client, name_of("count"), 1, next_step, steps);
    else if (steps->step == 1)
        code =
            hf_counter_get_async(steps->client, name_of("count"), &steps->value, next_step, steps);
    CHECK_CODE(code, HF_OK);
    steps->step++;
}

TEST(async_callback_may_ask_again)
{
    struct steps steps = { .client = open_with_value(0) };

    CHECK_CODE(hf_counter_set_async(steps.client, name_of("count"), 6, next_step, &steps), HF_OK);
    EVENTUALLY(steps.step == 3, SOON_MS);
    CHECK_INT(steps.value, 7);
    hf_close(steps.client);
}

TEST(async_get_without_a_thread_is_told_by_dispatch)
{
    hf_client *client = open_client_with((hf_client_options){ .driver = HF_DRIVE_CALLER });
    struct outcome told = { 0 };
    uint32_t value = 4711;

    need(client, HF_CAP_COUNTER);
    CHECK_CODE(hf_counter_set(client, name_of("count"), 5), HF_OK);
    CHECK_CODE(hf_counter_get_async(client, name_of("count"), &value, record_outcome, &told),
               HF_OK);
    CHECK_INT(told.calls, 0);
    EVENTUALLY(hf_dispatch(client) == HF_OK && told.calls > 0, SOON_MS);
    check_told(&told, HF_OK);
    CHECK_INT(value, 5);
    hf_close(client);
}
