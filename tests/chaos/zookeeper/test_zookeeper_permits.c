/* SPDX-License-Identifier: Apache-2.0 */
/* Permits at ZooKeeper under faults that are aimed: they come back, all of them, and once. */
#include "conformance.h"
#include "zookeeper_server.h"

/* So long that no fault of these tests lasts as long. */
#define LONG_MS 40000
#define PERMITS 5

struct scene {
    struct zookeeper_server server;
    struct wire wire;
    hf_client *near, *far; /* `far` is behind the wire */
};

static hf_client *open_on(int port, int64_t lease_ms)
{
    hf_client *client = NULL;

    CHECK_CODE(hf_open(&client, zookeeper_url(port), &HF_CLIENT_OPTIONS(.lease_ms = lease_ms)),
               HF_OK);
    return client;
}

static hf_hold *take_permits(hf_client *client, uint32_t permits)
{
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, "pool", SOON_MS, LOCK_OPTIONS(.mode = HF_PERMIT, .permits = permits),
                       &hold),
               HF_OK);
    return hold;
}

static void begin_scene(struct scene *scene, int64_t far_lease_ms)
{
    zookeeper_start(&scene->server);
    wire_start(&scene->wire, scene->server.port);
    scene->near = open_on(scene->server.port, LONG_MS);
    scene->far = open_on(scene->wire.port, far_lease_ms);
    CHECK_CODE(hf_semaphore_set(scene->near, "pool", PERMITS), HF_OK);
    give_back(take_permits(scene->far, PERMITS));
}

/* All permits are there, and no more than that. */
static void end_scene(struct scene *scene)
{
    hf_hold *all = take_permits(scene->near, PERMITS), *one = NULL;

    CHECK_CODE(hf_lock(scene->near, "pool", 0, LOCK_OPTIONS(.mode = HF_PERMIT), &one), HF_BUSY);
    give_back(all);
    check_nothing_left(scene->near, "pool");
    hf_close(scene->far);
    hf_close(scene->near);
    wire_end(&scene->wire);
    zookeeper_kill(&scene->server);
}

TEST(permits_whose_return_was_not_heard_of_come_back)
{
    static struct scene scene;
    begin_scene(&scene, LONG_MS);
    hf_hold *hold = take_permits(scene.far, 3);

    scene.wire.mute = 1;
    hf_unlock_nowait(hold);
    EVENTUALLY(holders(scene.near, "pool") == 0, SOON_MS);
    wire_mend(&scene.wire);
    end_scene(&scene);
}

/* The head of the queue is told at the next server of what it missed. */
TEST(a_head_that_missed_its_wake_gets_its_turn)
{
    static struct scene scene;
    struct outcome outcome = { 0 };
    begin_scene(&scene, LONG_MS);
    hf_hold *hold = take_permits(scene.near, 3);

    CHECK_CODE(hf_lock_async(scene.far, "pool", HF_FOREVER,
                             LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 4), record_outcome,
                             &outcome, NULL),
               HF_OK);
    EVENTUALLY(waiters(scene.near, "pool") == 1, SOON_MS);
    /* That it lined up does not say that it watches already: that comes a question later. */
    let_pass_ms(300);
    scene.wire.mute = 1;
    give_back(hold);
    wire_mend(&scene.wire);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_OK);
    CHECK_INT(holders(scene.near, "pool"), 1);
    give_back(outcome.hold);
    end_scene(&scene);
}

TEST(a_session_that_ends_takes_its_permits_with_it)
{
    static struct scene scene;
    _Atomic int losses = 0;
    hf_hold *hold = NULL;
    begin_scene(&scene, 2000);

    CHECK_CODE(hf_lock(scene.far, "pool", SOON_MS,
                       LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 3, .on_lost = count_loss,
                                    .lost_arg = &losses),
                       &hold),
               HF_OK);
    child_stop(&scene.server.process);
    EVENTUALLY(losses == 1, SOON_MS);
    CHECK(!hf_held(hold));
    child_continue(&scene.server.process);
    give_back(take_permits(scene.near, PERMITS));
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    give_back(take_permits(scene.far, 2));
    end_scene(&scene);
}
