/* SPDX-License-Identifier: Apache-2.0 */
/* Latches: counted down to zero, and open from then on for everybody. */
#include "conformance.h"

#include <string.h>

#define PEERS 4

static uint32_t left(hf_client *client)
{
    uint32_t count = 4711;

    CHECK_CODE(hf_latch_get(client, name_of("latch"), &count), HF_OK);
    return count;
}

static hf_client *open_with_latch(uint32_t count)
{
    hf_client *client = open_client();

    need(client, HF_CAP_LATCH);
    if (count)
        CHECK_CODE(hf_latch_set(client, name_of("latch"), count), HF_OK);
    return client;
}

TEST(a_latch_never_set_is_open)
{
    hf_client *client = open_with_latch(0);
    hf_hold *hold = (hf_hold *)&hold;

    CHECK_INT(left(client), 0);
    CHECK_CODE(hf_latch_wait(client, name_of("latch"), 0), HF_OK);
    CHECK_CODE(hf_latch_wait(client, name_of("latch"), HF_FOREVER), HF_OK);
    CHECK_CODE(hf_lock(client, name_of("latch"), 0, LOCK_OPTIONS(.mode = HF_LATCH), &hold), HF_OK);
    CHECK(hold == NULL);
    CHECK_CODE(hf_lock(client, name_of("latch"), 0, LOCK_OPTIONS(.mode = HF_LATCH), NULL), HF_OK);
    hf_close(client);
}

TEST(a_latch_is_counted_down)
{
    hf_client *client = open_with_latch(5), *other = open_client();
    uint32_t count = 99;

    CHECK_ERROR(hf_latch_wait(other, name_of("latch"), 0), HF_BUSY);
    CHECK_IN_VAIN(hf_latch_wait(other, name_of("latch"), 50));
    CHECK_CODE(hf_latch_down(other, name_of("latch"), 2, &count), HF_OK);
    CHECK_INT(count, 3);
    CHECK_CODE(hf_latch_down(client, name_of("latch"), 1, NULL), HF_OK);
    CHECK_INT(left(other), 2);
    CHECK_CODE(hf_latch_wait(other, name_of("latch"), 0), HF_BUSY);
    CHECK_CODE(hf_latch_down(client, name_of("latch"), 2, &count), HF_OK);
    CHECK_INT(count, 0);
    CHECK_CODE(hf_latch_wait(other, name_of("latch"), 0), HF_OK);
    hf_close(client);
    hf_close(other);
}

/* A take in vain between two changes of a latch leaves nothing that the second one trips over. */
TEST(latch_goes_down_after_a_take_in_vain_from_a_counter)
{
    hf_client *client = open_with_latch(3);

    need(client, HF_CAP_COUNTER);
    for (int i = 0; i < 3; i++) {
        CHECK_ERROR(hf_lock(client, name_of("count"), 0, LOCK_OPTIONS(.mode = HF_COUNTER), NULL),
                    HF_BUSY);
        CHECK_CODE(hf_latch_down(client, name_of("latch"), 1, NULL), HF_OK);
    }
    CHECK_INT(left(client), 0);
    hf_close(client);
}

TEST(counting_below_zero_opens_it)
{
    hf_client *client = open_with_latch(2);
    uint32_t count = 99;

    CHECK_CODE(hf_latch_down(client, name_of("latch"), 10, &count), HF_OK);
    CHECK_INT(count, 0);
    CHECK_CODE(hf_latch_wait(client, name_of("latch"), 0), HF_OK);
    CHECK_CODE(hf_latch_down(client, name_of("latch"), 1, &count), HF_OK);
    CHECK_INT(count, 0);
    hf_close(client);
}

TEST(a_latch_above_zero_is_not_set_again)
{
    hf_client *client = open_with_latch(2);

    CHECK_ERROR(hf_latch_set(client, name_of("latch"), 5), HF_BUSY);
    CHECK(strstr(hf_last_error()->text, "is not set: it is above 0") != NULL);
    CHECK_INT(left(client), 2);
    CHECK_CODE(hf_latch_down(client, name_of("latch"), 2, NULL), HF_OK);
    CHECK_CODE(hf_latch_set(client, name_of("latch"), 5), HF_OK);
    CHECK_INT(left(client), 5);
    hf_close(client);
}

TEST(an_open_latch_lets_everybody_pass)
{
    struct peer peers[PEERS];
    hf_client *client;

    for (int i = 0; i < PEERS; i++)
        peer_start(&peers[i]);
    client = open_with_latch(2);
    need(client, HF_CAP_INSPECT);
    for (int i = 0; i < PEERS; i++)
        peer_begin(&peers[i], 0, name_of("latch"), HF_FOREVER, LOCK_OPTIONS(.mode = HF_LATCH));
    EVENTUALLY(waiters(client, name_of("latch")) == PEERS, SOON_MS);
    CHECK_CODE(hf_latch_down(client, name_of("latch"), 1, NULL), HF_OK);
    CHECK_INT(waiters(client, name_of("latch")), PEERS);
    CHECK_CODE(hf_latch_down(client, name_of("latch"), 1, NULL), HF_OK);
    for (int i = 0; i < PEERS; i++)
        CHECK_CODE(peer_answer(&peers[i]), HF_OK);
    check_nothing_left(client, name_of("latch"));
    hf_close(client);
    for (int i = 0; i < PEERS; i++)
        peer_end(&peers[i]);
}

static void count_down(void *arg, int index)
{
    hf_client *client = open_client();

    (void)arg, (void)index;
    for (int i = 0; i < 25; i++)
        CHECK_CODE(hf_latch_down(client, name_of("latch"), 1, NULL), HF_OK);
    hf_close(client);
}

TEST(of_many_counts_at_once_none_is_lost)
{
    hf_client *client = open_with_latch(4 * 25 + 1);

    TEST_TIMEOUT(120);
    processes_run(4, count_down, NULL);
    CHECK_INT(left(client), 1);
    hf_close(client);
}

TEST(a_latch_outlives_who_set_it)
{
    hf_client *client = open_with_latch(3);

    hf_close(client);
    client = open_client();
    CHECK_INT(left(client), 3);
    hf_close(client);
}

static void wait_in_thread(void *arg, int index)
{
    (void)index;
    CHECK_CODE(hf_latch_wait(arg, name_of("latch"), HF_FOREVER), HF_OK);
}

static void open_it(void *arg)
{
    CHECK_CODE(hf_latch_down(arg, name_of("latch"), 1, NULL), HF_OK);
}

TEST(threads_wait_together)
{
    hf_client *client = open_with_latch(1);
    struct thread opener;

    thread_start(&opener, open_it, client);
    threads_run(20, wait_in_thread, client);
    thread_join(&opener);
    hf_close(client);
}

TEST(async_calls_of_a_latch_are_each_told)
{
    hf_client *client = open_client();
    struct outcome set = { 0 }, again = { 0 }, down = { 0 }, got = { 0 };
    struct outcome canceled = { 0 }, waits = { 0 };
    hf_request request;
    uint32_t before = 4711, now = 4711;

    need(client, HF_CAP_LATCH);
    CHECK_ERROR(hf_latch_down_async(client, name_of("latch"), 0, NULL, record_outcome, &down),
                HF_EINVAL);
    CHECK_CODE(hf_latch_set_async(client, name_of("latch"), 2, record_outcome, &set), HF_OK);
    WAIT_OUTCOME(&set);
    CHECK_CODE(set.code, HF_OK);
    CHECK_CODE(hf_latch_set_async(client, name_of("latch"), 3, record_outcome, &again), HF_OK);
    WAIT_OUTCOME(&again);
    CHECK_CODE(again.code, HF_BUSY);
    CHECK(strstr(again.text, "counted down") != NULL);
    CHECK_CODE(hf_latch_wait_async(client, name_of("latch"), HF_FOREVER, record_outcome, &canceled,
                                   &request),
               HF_OK);
    CHECK_CODE(
        hf_latch_wait_async(client, name_of("latch"), HF_FOREVER, record_outcome, &waits, NULL),
        HF_OK);
    hf_cancel(client, request);
    WAIT_OUTCOME(&canceled);
    CHECK_CODE(canceled.code, HF_CANCELED);
    CHECK_CODE(hf_latch_down_async(client, name_of("latch"), 1, &now, record_outcome, &down),
               HF_OK);
    WAIT_OUTCOME(&down);
    CHECK_CODE(down.code, HF_OK);
    CHECK_INT(now, 1);
    CHECK_CODE(hf_latch_get_async(client, name_of("latch"), &before, record_outcome, &got), HF_OK);
    WAIT_OUTCOME(&got);
    CHECK_INT(before, 1);
    CHECK_INT(waits.calls, 0);
    CHECK_CODE(hf_latch_down(client, name_of("latch"), 1, NULL), HF_OK);
    CHECK(await_grant(&waits) == NULL);
    hf_close(client);
    CHECK_INT(set.calls + again.calls + down.calls + got.calls + canceled.calls + waits.calls, 6);
}
