/* SPDX-License-Identifier: Apache-2.0 */
/* Quiet hand-over between two parties, many times: a lost wake-up shows as a stall of seconds. */
#include "conformance.h"

#define ROUNDS store_rounds(2000)
/* Far above any scheduling, far below a wake that comes by a backstop or not at all. */
#define STALL_MS 5000

struct game {
    _Atomic int turn;
    hf_mode mode;
};

static void wait_for_turn(struct game *game, int mine)
{
    EVENTUALLY(game->turn == mine, SOON_MS);
}

/* Each waits for the lock that the other holds, and lets go when the other waits. */
static void play(void *arg)
{
    struct game *game = arg;
    hf_client *client = open_client();
    hf_hold *hold;

    parent_say("ready");
    for (int i = 0; i < ROUNDS; i++) {
        wait_for_turn(game, 1);
        game->turn = 2;
        int64_t before = monotonic_ms();
        CHECK_CODE(hf_lock(client, name_of("ball"), HF_FOREVER,
                           LOCK_OPTIONS(.mode = game->mode, NO_LOOK), &hold),
                   HF_OK);
        CHECK(monotonic_ms() - before < STALL_MS * test_slow());
        give_back(hold);
        game->turn = 3;
    }
    hf_close(client);
}

static void check_hand_over(hf_mode mode)
{
    struct game *game = shared_memory(sizeof(*game));
    struct child child;

    TEST_TIMEOUT(120);
    /* Whoever is not told waits for this long. */
    client_lease_ms = (int64_t)2 * STALL_MS * test_slow();
    game->mode = mode;
    store_url();
    child_start(&child, play, game);
    child_wait_for(&child, "ready");
    hf_client *client = open_client();
    if (mode == HF_FAIR)
        need(client, HF_CAP_FAIR);
    if (mode == HF_WRITE)
        need(client, HF_CAP_RW);
    for (int i = 0; i < ROUNDS; i++) {
        hf_hold *hold;
        CHECK_CODE(
            hf_lock(client, name_of("ball"), SOON_MS, LOCK_OPTIONS(.mode = mode, NO_LOOK), &hold),
            HF_OK);
        game->turn = 1;
        wait_for_turn(game, 2);
        /* Now, or a little later, so that the release meets the other in all states. */
        for (int64_t until = monotonic_us() + i % 100 * 2; monotonic_us() < until;)
            ;
        give_back(hold);
        wait_for_turn(game, 3);
    }
    child_join(&child);
    hf_close(client);
}

TEST(a_mutex_goes_to_and_fro)
{
    check_hand_over(HF_MUTEX);
}

TEST(a_fair_mutex_goes_to_and_fro)
{
    check_hand_over(HF_FAIR);
}

TEST(a_write_lock_goes_to_and_fro)
{
    check_hand_over(HF_WRITE);
}

struct relay {
    hf_client *client;
    struct game *game;
    struct thread thread;
};

static void wait_in_thread(void *arg)
{
    struct relay *relay = arg;
    hf_hold *hold;

    relay->game->turn = 2;
    CHECK_CODE(hf_lock(relay->client, name_of("ball"), SOON_MS, LOCK_OPTIONS(NO_LOOK), &hold),
               HF_OK);
    give_back(hold);
}

TEST(between_threads_of_one_client)
{
    struct game game = { 0 };
    struct relay relay = { .client = open_client(), .game = &game };

    for (int i = 0; i < ROUNDS / 4; i++) {
        hf_hold *hold = take(relay.client, name_of("ball"), HF_MUTEX, 0);
        game.turn = 1;
        thread_start(&relay.thread, wait_in_thread, &relay);
        wait_for_turn(&game, 2);
        for (int64_t until = monotonic_us() + i % 100 * 2; monotonic_us() < until;)
            ;
        give_back(hold);
        thread_join(&relay.thread);
    }
    hf_close(relay.client);
}

static void hold_for_the_asynchronous(void *arg)
{
    struct game *game = arg;
    hf_client *client = open_client();
    hf_hold *hold;

    for (int i = 0; i < ROUNDS / 4; i++) {
        CHECK_CODE(hf_lock(client, name_of("ball"), SOON_MS, LOCK_OPTIONS(NO_LOOK), &hold), HF_OK);
        game->turn = 1;
        wait_for_turn(game, 2);
        give_back(hold);
        wait_for_turn(game, 0);
    }
    hf_close(client);
}

TEST(to_asynchronous_requests)
{
    struct game *game = shared_memory(sizeof(*game));
    struct child child;

    store_url();
    child_start(&child, hold_for_the_asynchronous, game);
    hf_client *client = open_client();
    for (int i = 0; i < ROUNDS / 4; i++) {
        struct outcome outcome = { 0 };
        wait_for_turn(game, 1);
        CHECK_CODE(hf_lock_async(client, name_of("ball"), HF_FOREVER, NULL, record_outcome,
                                 &outcome, NULL),
                   HF_OK);
        game->turn = 2;
        int64_t before = monotonic_ms();
        WAIT_OUTCOME(&outcome);
        CHECK(monotonic_ms() - before < STALL_MS * test_slow());
        CHECK_CODE(outcome.code, HF_OK);
        give_back(outcome.hold);
        game->turn = 0;
    }
    child_join(&child);
    hf_close(client);
}
