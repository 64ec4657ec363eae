/* SPDX-License-Identifier: Apache-2.0 */
/* Several locks at independent Redis servers, of which one is down, or stands still. */
#include "conformance.h"
#include "server.h"

#define SERVERS 3
#define WAIT_MS 1500

struct scene {
    struct server servers[SERVERS];
    hf_client *clients[SERVERS];
    hf_lock_item items[SERVERS];
};

static void scene_open(struct scene *scene, int64_t lease_ms)
{
    for (int i = 0; i < SERVERS; i++) {
        server_start(&scene->servers[i]);
        CHECK_CODE(hf_open(&scene->clients[i], server_url(&scene->servers[i], 3000),
                           &HF_CLIENT_OPTIONS(.lease_ms = lease_ms)),
                   HF_OK);
        scene->items[i] = (hf_lock_item){ .client = scene->clients[i], .name = "one" };
    }
}

static void scene_close(struct scene *scene)
{
    for (int i = 0; i < SERVERS; i++) {
        hf_close(scene->clients[i]);
        server_kill(&scene->servers[i]);
    }
}

static void expect_nothing_left(const struct scene *scene, int but)
{
    for (int i = 0; i < SERVERS; i++)
        if (i != but)
            EVENTUALLY(server_says(&scene->servers[i], "EXISTS one", ":0"), SOON_MS);
}

/* What a server has says nothing of the order: any of the three may be the one that is down. */
static void expect_answer_in_time(struct scene *scene, int down)
{
    check_lock_all_told(scene->items, SERVERS, WAIT_MS, scene->servers[down].port);
    expect_nothing_left(scene, down);
}

TEST(dead_server_is_the_answer_within_the_wait)
{
    struct scene scene = { 0 };
    hf_hold_set *set;

    scene_open(&scene, 0);
    for (int down = 0; down < SERVERS; down++) {
        server_kill(&scene.servers[down]);
        expect_answer_in_time(&scene, down);
        server_start_again(&scene.servers[down]);
        CHECK_CODE(hf_lock_all(scene.items, SERVERS, SOON_MS, NULL, &set), HF_OK);
        for (int i = 0; i < SERVERS; i++)
            CHECK(server_says(&scene.servers[i], "EXISTS one", ":1"));
        CHECK_CODE(hf_unlock_all(set), HF_OK);
    }
    scene_close(&scene);
}

TEST(stopped_server_is_the_answer_and_keeps_nothing)
{
    struct scene scene = { 0 };
    hf_hold_set *set;

    scene_open(&scene, 0);
    CHECK_CODE(hf_lock_all(scene.items, SERVERS, SOON_MS, NULL, &set), HF_OK);
    CHECK_CODE(hf_unlock_all(set), HF_OK);
    for (int down = 0; down < SERVERS; down++) {
        server_stop(&scene.servers[down]);
        expect_answer_in_time(&scene, down);
        server_continue(&scene.servers[down]);
        /* What was asked there in vain is released once it answers again. */
        expect_nothing_left(&scene, -1);
    }
    scene_close(&scene);
}

/* A loss at one server is the loss of all; what the others have is given back by the release. */
TEST(lock_lost_at_one_server_is_told)
{
    struct scene scene = { 0 };
    hf_hold_set *set;
    _Atomic int losses = 0;

    scene_open(&scene, 3000);
    CHECK_CODE(hf_lock_all(scene.items, SERVERS, SOON_MS,
                           LOCK_OPTIONS(.on_lost = count_loss, .lost_arg = &losses), &set),
               HF_OK);
    server_stop(&scene.servers[1]);
    EVENTUALLY(losses == 1, SOON_MS);
    CHECK(!hf_all_held(set));
    CHECK_CODE(hf_unlock_all(set), HF_LOST);
    CHECK_INT(losses, 1);
    server_continue(&scene.servers[1]);
    expect_nothing_left(&scene, -1);
    scene_close(&scene);
}
