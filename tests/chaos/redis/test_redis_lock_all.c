/* SPDX-License-Identifier: Apache-2.0 */
/* Several locks at independent Redis servers, of which one is down, or stands still. */
#include "conformance.h"
#include "server.h"

#include <stdio.h>

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

static void expect_nothing_left(const struct server *server)
{
    EVENTUALLY(server_says(server, "EXISTS one", ":0"), SOON_MS);
}

/* What a server has says nothing of the order: any of the three may be the one that is down. */
static void expect_answer_in_time(struct scene *scene, int down)
{
    hf_hold_set *set;
    int64_t began_ms = monotonic_ms();
    int code = hf_lock_all(scene->items, SERVERS, WAIT_MS, NULL, &set);
    int64_t took_ms = monotonic_ms() - began_ms;

    CHECK_CODE(code, HF_UNREACHABLE);
    CHECK(set == NULL);
    CHECK(strstr(hf_last_error()->text, "\"one\"") != NULL);
    /* A second more than asked for, on a busy machine; request_timeout_ms would be five. */
    CHECK(took_ms < WAIT_MS + 1500 * test_slow());
    for (int i = 0; i < SERVERS; i++)
        if (i != down)
            expect_nothing_left(&scene->servers[i]);
}

TEST(dead_server_is_the_answer_within_the_wait)
{
    struct scene scene = { 0 };
    hf_hold_set *set;

    scene_open(&scene, 0);
    for (int down = 0; down < SERVERS; down++) {
        char place[40];
        server_kill(&scene.servers[down]);
        expect_answer_in_time(&scene, down);
        snprintf(place, sizeof(place), "%d", scene.servers[down].port);
        CHECK(strstr(hf_last_error()->text, place) != NULL);
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
        expect_nothing_left(&scene.servers[down]);
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
    for (int i = 0; i < SERVERS; i++)
        expect_nothing_left(&scene.servers[i]);
    scene_close(&scene);
}
