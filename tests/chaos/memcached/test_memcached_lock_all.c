/* SPDX-License-Identifier: Apache-2.0 */
/* Several locks at independent memcached servers, of which one is down, stands still, or begins
 * anew and empty. */
#include "conformance.h"
#include "memcached_server.h"

#define SERVERS 3
#define WAIT_MS 1000
#define LEASE_MS 3000

struct scene {
    struct memcached_server servers[SERVERS];
    hf_client *clients[SERVERS];
    hf_lock_item items[SERVERS];
};

static void scene_open(struct scene *scene)
{
    for (int i = 0; i < SERVERS; i++) {
        memcached_start(&scene->servers[i]);
        CHECK_CODE(hf_open(&scene->clients[i], memcached_url(scene->servers[i].port, 3000),
                           &HF_CLIENT_OPTIONS(.lease_ms = LEASE_MS)),
                   HF_OK);
        scene->items[i] = (hf_lock_item){ .client = scene->clients[i], .name = "one" };
    }
}

static void scene_close(struct scene *scene)
{
    for (int i = 0; i < SERVERS; i++) {
        hf_close(scene->clients[i]);
        memcached_kill(&scene->servers[i]);
    }
}

static void expect_nothing_left(const struct scene *scene, int but)
{
    for (int i = 0; i < SERVERS; i++)
        if (i != but)
            EVENTUALLY(!memcached_has(&scene->servers[i], "hf:one"), SOON_MS);
}

static void expect_answer_in_time(struct scene *scene, int down)
{
    check_lock_all_told(scene->items, SERVERS, WAIT_MS, scene->servers[down].port);
    expect_nothing_left(scene, down);
}

TEST(dead_server_is_the_answer_within_the_wait)
{
    struct scene scene = { 0 };
    hf_hold_set *set;

    scene_open(&scene);
    for (int down = 0; down < SERVERS; down++) {
        memcached_kill(&scene.servers[down]);
        expect_answer_in_time(&scene, down);
        memcached_start_again(&scene.servers[down]);
        CHECK_CODE(hf_lock_all(scene.items, SERVERS, SOON_MS, NULL, &set), HF_OK);
        for (int i = 0; i < SERVERS; i++)
            CHECK(memcached_has(&scene.servers[i], "hf:one"));
        CHECK_CODE(hf_unlock_all(set), HF_OK);
    }
    scene_close(&scene);
}

TEST(stopped_server_is_the_answer_and_keeps_nothing)
{
    struct scene scene = { 0 };
    hf_hold_set *set;

    scene_open(&scene);
    CHECK_CODE(hf_lock_all(scene.items, SERVERS, SOON_MS, NULL, &set), HF_OK);
    CHECK_CODE(hf_unlock_all(set), HF_OK);
    for (int down = 0; down < SERVERS; down++) {
        memcached_stop(&scene.servers[down]);
        expect_answer_in_time(&scene, down);
        memcached_continue(&scene.servers[down]);
        expect_nothing_left(&scene, -1);
    }
    scene_close(&scene);
}

/* A loss at one server is the loss of all; what the others have is given back by the release. */
TEST(lock_that_one_server_has_forgotten_is_lost)
{
    struct scene scene = { 0 };
    hf_hold_set *set;
    _Atomic int losses = 0;

    scene_open(&scene);
    CHECK_CODE(hf_lock_all(scene.items, SERVERS, SOON_MS,
                           LOCK_OPTIONS(.on_lost = count_loss, .lost_arg = &losses), &set),
               HF_OK);
    uint64_t token = hf_token(hf_all_hold(set, 1));
    memcached_kill(&scene.servers[1]);
    /* Tokens rise over two starts that are not in one second. */
    let_pass_ms(1100);
    memcached_start_again(&scene.servers[1]);
    EVENTUALLY(losses == 1, SOON_MS);
    CHECK(!hf_all_held(set));
    CHECK(memcached_has(&scene.servers[0], "hf:one"));
    CHECK_CODE(hf_unlock_all(set), HF_LOST);
    CHECK_INT(losses, 1);
    expect_nothing_left(&scene, -1);
    CHECK_CODE(hf_lock_all(scene.items, SERVERS, SOON_MS, NULL, &set), HF_OK);
    CHECK(hf_token(hf_all_hold(set, 1)) > token);
    CHECK_CODE(hf_unlock_all(set), HF_OK);
    scene_close(&scene);
}
