/* SPDX-License-Identifier: Apache-2.0 */
/* The plain counter: numbers that anybody adds and takes, and that no death gives back. */
#include "conformance.h"

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
    for (int i = 0; i < 200; i++)
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
    enum { ROUNDS = 2000 };
    hf_client *client = open_with_value(ROUNDS);
    uint32_t taken = 0;

    for (int i = 0; i < ROUNDS; i++) {
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
    test_note("%u of %d were canceled too late", taken, ROUNDS);
    EVENTUALLY(value_of(client) == ROUNDS - taken, SOON_MS);
    hf_close(client);
}
