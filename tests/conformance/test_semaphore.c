/* SPDX-License-Identifier: Apache-2.0 */
/* Semaphores: so many permits and no more, in order, by weight, and back when their owner dies. */
#include "conformance.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static int try_permits(hf_client *client, uint32_t permits, uint32_t limit, hf_hold **ret)
{
    return hf_lock(client, name_of("sem"), 0,
                   LOCK_OPTIONS(.mode = HF_PERMIT, .permits = permits, .limit = limit), ret);
}

static hf_client *open_with_permits(uint32_t permits)
{
    hf_client *client = open_client();

    need(client, HF_CAP_PERMIT);
    if (permits)
        CHECK_CODE(hf_semaphore_set(client, name_of("sem"), permits), HF_OK);
    return client;
}

/* It waits for so many permits, as so manieth. */
static void line_up(hf_client *client, int place, struct peer *peer, uint32_t permits,
                    int64_t wait_ms)
{
    peer_begin(peer, 0, name_of("sem"), wait_ms,
               LOCK_OPTIONS(.mode = HF_PERMIT, .permits = permits));
    EVENTUALLY(waiters(client, name_of("sem")) == place, SOON_MS);
}

TEST(so_many_permits_and_no_more)
{
    hf_client *client = open_with_permits(3);
    hf_hold *holds[4];

    for (int i = 0; i < 3; i++) {
        CHECK_CODE(try_permits(client, 0, 0, &holds[i]), HF_OK);
        CHECK_INT(hf_hold_mode(holds[i]), HF_PERMIT);
    }
    CHECK_CODE(try_permits(client, 1, 0, &holds[3]), HF_BUSY);
    give_back(holds[1]);
    CHECK_CODE(try_permits(client, 1, 0, &holds[1]), HF_OK);
    CHECK_CODE(try_permits(client, 1, 0, &holds[3]), HF_BUSY);
    for (int i = 0; i < 3; i++)
        give_back(holds[i]);
    hf_close(client);
}

TEST(permits_have_weight)
{
    hf_client *client = open_with_permits(10);
    hf_hold *seven, *three, *one;

    CHECK_CODE(try_permits(client, 7, 0, &seven), HF_OK);
    CHECK_CODE(try_permits(client, 4, 0, &one), HF_BUSY);
    CHECK_CODE(try_permits(client, 3, 0, &three), HF_OK);
    CHECK_CODE(try_permits(client, 1, 0, &one), HF_BUSY);
    give_back(seven);
    CHECK_CODE(try_permits(client, 8, 0, &one), HF_BUSY);
    CHECK_CODE(try_permits(client, 7, 0, &seven), HF_OK);
    give_back(three);
    give_back(seven);
    CHECK_CODE(try_permits(client, 10, 0, &one), HF_OK);
    give_back(one);
    hf_close(client);
}

TEST(what_can_never_be_had_is_said_and_stands_in_nobodys_way)
{
    hf_client *client = open_with_permits(4);
    hf_hold *one, *five;

    CHECK_ERROR(try_permits(client, 5, 0, &five), HF_EINVAL);
    CHECK_ERROR(hf_lock(client, name_of("sem"), SOON_MS,
                        LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 5), &five),
                HF_EINVAL);
    CHECK_CODE(try_permits(client, 4, 0, &one), HF_OK);
    give_back(one);
    hf_close(client);
}

TEST(what_can_never_be_had_creates_no_semaphore)
{
    hf_client *client = open_with_permits(0);
    hf_hold *five, *lock;

    CHECK_ERROR(try_permits(client, 5, 2, &five), HF_EINVAL);
    CHECK_ERROR(hf_lock(client, name_of("sem"), SOON_MS,
                        LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 5, .limit = 2), &five),
                HF_EINVAL);
    /* The name can be anything else. */
    CHECK_CODE(hf_lock(client, name_of("sem"), 0, NULL, &lock), HF_OK);
    give_back(lock);
    hf_close(client);
}

TEST(a_limit_creates_the_semaphore)
{
    hf_client *client = open_with_permits(0);
    hf_hold *one, *two, *three;

    CHECK_ERROR(try_permits(client, 1, 0, &one), HF_EKIND);
    CHECK_CODE(try_permits(client, 1, 2, &one), HF_OK);
    CHECK_CODE(try_permits(client, 1, 2, &two), HF_OK);
    CHECK_CODE(try_permits(client, 1, 2, &three), HF_BUSY);
    CHECK_ERROR(try_permits(client, 1, 5, &three), HF_EKIND);
    give_back(one);
    CHECK_CODE(try_permits(client, 1, 0, &one), HF_OK);
    give_back(one);
    give_back(two);
    CHECK_CODE(try_permits(client, 2, 2, &one), HF_OK);
    give_back(one);
    hf_close(client);
}

TEST(one_permit_is_not_one_permits)
{
    hf_client *client = open_with_permits(1);
    hf_hold *hold;

    CHECK_ERROR(try_permits(client, 1, 2, &hold), HF_EKIND);
    CHECK(strstr(hf_last_error()->text, "has 1 permit, not 2") != NULL);
    hf_close(client);
}

TEST(more_permits_let_waiters_in)
{
    struct peer peer;
    peer_start(&peer);
    hf_client *client = open_with_permits(1);
    hf_hold *hold;

    need(client, HF_CAP_INSPECT);
    CHECK_CODE(try_permits(client, 1, 0, &hold), HF_OK);
    line_up(client, 1, &peer, 1, HF_FOREVER);
    CHECK_CODE(hf_semaphore_set(client, name_of("sem"), 2), HF_OK);
    CHECK_CODE(peer_answer(&peer), HF_OK);
    CHECK_CODE(peer_unlock(&peer, 0), HF_OK);
    give_back(hold);
    hf_close(client);
    peer_end(&peer);
}

TEST(fewer_permits_than_taken_let_nobody_in)
{
    hf_client *client = open_with_permits(3);
    hf_hold *holds[3], *more;

    for (int i = 0; i < 3; i++)
        CHECK_CODE(try_permits(client, 1, 0, &holds[i]), HF_OK);
    CHECK_CODE(hf_semaphore_set(client, name_of("sem"), 1), HF_OK);
    give_back(holds[0]);
    CHECK_CODE(try_permits(client, 1, 0, &more), HF_BUSY);
    CHECK(hf_held(holds[1]) && hf_held(holds[2]));
    give_back(holds[1]);
    CHECK_CODE(try_permits(client, 1, 0, &more), HF_BUSY);
    give_back(holds[2]);
    CHECK_CODE(try_permits(client, 1, 0, &more), HF_OK);
    CHECK_CODE(try_permits(client, 1, 0, &holds[0]), HF_BUSY);
    give_back(more);
    hf_close(client);
}

/* Without word of it a wait would end with HF_BUSY. */
#define TOLD_MS 10000

TEST(who_waits_for_more_than_there_are_by_now_holds_nobody_up)
{
    struct peer large, small;
    peer_start(&large);
    peer_start(&small);
    hf_client *client = open_with_permits(3);
    hf_hold *hold;

    need(client, HF_CAP_INSPECT);
    CHECK_CODE(try_permits(client, 1, 0, &hold), HF_OK);
    line_up(client, 1, &large, 3, TOLD_MS);
    line_up(client, 2, &small, 1, TOLD_MS);
    CHECK_CODE(hf_semaphore_set(client, name_of("sem"), 2), HF_OK);
    CHECK_CODE(peer_answer(&large), HF_EINVAL);
    CHECK_CODE(peer_answer(&small), HF_OK);
    CHECK_CODE(peer_unlock(&small, 0), HF_OK);
    give_back(hold);
    hf_close(client);
    peer_end(&large);
    peer_end(&small);
}

/* Without an end to the wait, there is no last look before it either. */
static void begin_to_wait(hf_client *client, uint32_t permits, struct outcome *outcome)
{
    CHECK_CODE(hf_lock_async(client, name_of("sem"), HF_FOREVER,
                             LOCK_OPTIONS(.mode = HF_PERMIT, .permits = permits), record_outcome,
                             outcome, NULL),
               HF_OK);
}

TEST(who_waits_for_too_many_behind_others_is_told_as_well)
{
    enum { COUNT = 3 };
    static const uint32_t wanted[COUNT] = { 3, 4, 1 };
    struct outcome outcomes[COUNT] = { 0 };
    hf_client *client = open_with_permits(4), *others[COUNT];
    hf_hold *hold;

    need(client, HF_CAP_INSPECT);
    CHECK_CODE(try_permits(client, 3, 0, &hold), HF_OK);
    for (int i = 0; i < COUNT; i++) {
        others[i] = open_client();
        begin_to_wait(others[i], wanted[i], &outcomes[i]);
        EVENTUALLY(waiters(client, name_of("sem")) == i + 1, SOON_MS);
    }
    CHECK_CODE(hf_semaphore_set(client, name_of("sem"), 3), HF_OK);
    WAIT_OUTCOME(&outcomes[1]);
    CHECK_CODE(outcomes[1].code, HF_EINVAL);
    CHECK(strstr(outcomes[1].text, "can never be had") != NULL);
    CHECK(!outcomes[0].calls && !outcomes[2].calls);
    give_back(hold);
    for (int i = 0; i < COUNT; i += 2) {
        WAIT_OUTCOME(&outcomes[i]);
        CHECK_CODE(outcomes[i].code, HF_OK);
        give_back(outcomes[i].hold);
    }
    for (int i = 0; i < COUNT; i++)
        hf_close(others[i]);
    hf_close(client);
}

static void check_refusal(hf_client *client, hf_lock_options options, int code, const char *words)
{
    hf_hold *hold;

    options.mode = HF_PERMIT;
    CHECK_CODE(hf_lock(client, name_of("sem"), 0, &options, &hold), code);
    CHECK_STR(hf_last_error()->text, words);
}

/* The same sentences on every engine. */
TEST(refused_permits_say_what_the_semaphore_has)
{
    hf_client *client = open_client();
    char expected[200];

    need(client, HF_CAP_PERMIT);
    snprintf(expected, sizeof(expected),
             "\"%s\" does not exist; set how many permits it has, or name a limit", name_of("sem"));
    check_refusal(client, HF_LOCK_OPTIONS(.limit = 0), HF_EKIND, expected);
    CHECK_CODE(hf_semaphore_set(client, name_of("sem"), 3), HF_OK);
    snprintf(expected, sizeof(expected), "\"%s\" has 3 permits, not 5", name_of("sem"));
    check_refusal(client, HF_LOCK_OPTIONS(.limit = 5), HF_EKIND, expected);
    snprintf(expected, sizeof(expected), "\"%s\" has 3 permits: 4 can never be had; ask for fewer",
             name_of("sem"));
    check_refusal(client, HF_LOCK_OPTIONS(.permits = 4), HF_EINVAL, expected);
    hf_close(client);
}

TEST(a_semaphore_can_be_removed)
{
    hf_client *client = open_with_permits(2);
    hf_hold *hold;

    CHECK_CODE(try_permits(client, 1, 0, &hold), HF_OK);
    CHECK_ERROR(hf_semaphore_set(client, name_of("sem"), 0), HF_BUSY);
    CHECK(strstr(hf_last_error()->text, "permits of it are held, so it is not removed") != NULL);
    give_back(hold);
    CHECK_CODE(hf_semaphore_set(client, name_of("sem"), 0), HF_OK);
    CHECK_CODE(try_permits(client, 1, 0, &hold), HF_EKIND);
    CHECK_CODE(probe(client, name_of("sem"), HF_MUTEX, 0), HF_OK);
    hf_close(client);
}

TEST(permits_are_given_in_order_not_by_size)
{
    struct peer large, small;
    peer_start(&large);
    peer_start(&small);
    hf_client *client = open_with_permits(4);
    hf_hold *hold;

    need(client, HF_CAP_INSPECT);
    CHECK_CODE(try_permits(client, 3, 0, &hold), HF_OK);
    line_up(client, 1, &large, 3, HF_FOREVER);
    line_up(client, 2, &small, 2, HF_FOREVER);
    give_back(hold);
    CHECK_CODE(peer_answer(&large), HF_OK);
    CHECK_INT(waiters(client, name_of("sem")), 1);
    CHECK_CODE(peer_unlock(&large, 0), HF_OK);
    CHECK_CODE(peer_answer(&small), HF_OK);
    CHECK_CODE(peer_unlock(&small, 0), HF_OK);
    hf_close(client);
    peer_end(&large);
    peer_end(&small);
}

TEST(a_small_wish_does_not_overtake_a_large_one)
{
    struct peer large;
    peer_start(&large);
    hf_client *client = open_with_permits(4);
    hf_hold *hold, *small;

    need(client, HF_CAP_INSPECT);
    CHECK_CODE(try_permits(client, 2, 0, &hold), HF_OK);
    line_up(client, 1, &large, 4, HF_FOREVER);
    CHECK_CODE(try_permits(client, 1, 0, &small), HF_BUSY);
    give_back(hold);
    CHECK_CODE(peer_answer(&large), HF_OK);
    CHECK_CODE(peer_unlock(&large, 0), HF_OK);
    hf_close(client);
    peer_end(&large);
}

TEST(permits_come_back_when_their_owner_dies)
{
    struct peer peer;
    peer_start(&peer);
    hf_client *client = open_with_permits(5);
    hf_hold *hold = NULL;

    if (!store_is_local())
        SKIP("dying takes a lease to show on this store");
    CHECK_CODE(
        peer_lock(&peer, 0, name_of("sem"), 0, LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 2)),
        HF_OK);
    CHECK_CODE(
        peer_lock(&peer, 1, name_of("sem"), 0, LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 3)),
        HF_OK);
    CHECK_CODE(try_permits(client, 1, 0, &hold), HF_BUSY);
    child_kill(&peer.child);
    CHECK_CODE(hf_lock(client, name_of("sem"), SOON_MS,
                       LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 5), &hold),
               HF_OK);
    give_back(hold);
    hf_close(client);
}

struct cars {
    _Atomic int parked, rounds;
};

static void park(void *arg, int index)
{
    struct cars *cars = arg;
    hf_client *client = open_client();
    uint32_t size = index % 3 + 1;

    for (int i = 0; i < store_rounds(200); i++) {
        hf_hold *hold;
        CHECK_CODE(hf_lock(client, name_of("sem"), HF_FOREVER,
                           LOCK_OPTIONS(.mode = HF_PERMIT, .permits = size, .limit = 5), &hold),
                   HF_OK);
        CHECK(atomic_fetch_add(&cars->parked, (int)size) + (int)size <= 5);
        cars->parked -= (int)size;
        give_back(hold);
        cars->rounds++;
    }
    hf_close(client);
}

TEST(a_car_park_is_never_overfull)
{
    struct cars *cars = shared_memory(sizeof(*cars));
    hf_client *client = open_with_permits(0);
    hf_hold *hold;

    TEST_TIMEOUT(300); /* behind a pooler all of them poll */
    processes_run(8, park, cars);
    CHECK_INT(cars->rounds, 8 * store_rounds(200));
    CHECK_CODE(try_permits(client, 5, 5, &hold), HF_OK);
    give_back(hold);
    hf_close(client);
}

/* Of those that try at once, each sees that there is room. */
static void try_to_park(void *arg, int index)
{
    struct cars *cars = arg;
    hf_client *client = open_client();
    uint32_t size = index % 2 + 1;

    for (int i = 0; i < store_rounds(300); i++) {
        hf_hold *hold;
        int code = try_permits(client, size, 4, &hold);
        CHECK(code == HF_OK || code == HF_BUSY);
        if (code != HF_OK)
            continue;
        CHECK(atomic_fetch_add(&cars->parked, (int)size) + (int)size <= 4);
        cars->parked -= (int)size;
        give_back(hold);
        cars->rounds++;
    }
    hf_close(client);
}

TEST(a_car_park_that_is_tried_at_once_is_never_overfull)
{
    struct cars *cars = shared_memory(sizeof(*cars));
    hf_client *client = open_with_permits(0);
    hf_hold *hold;

    TEST_TIMEOUT(120);
    processes_run(8, try_to_park, cars);
    CHECK(cars->rounds > 0);
    CHECK_CODE(try_permits(client, 4, 4, &hold), HF_OK);
    give_back(hold);
    hf_close(client);
}
