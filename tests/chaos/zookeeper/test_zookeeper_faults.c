/* SPDX-License-Identifier: Apache-2.0 */
/* ZooKeeper under faults that are aimed: each test breaks one thing at the worst moment. */
#include "conformance.h"
#include "zookeeper_server.h"

/* So long that no fault of these tests lasts as long. */
#define LONG_MS 40000
/* Short enough to wait for half of it, and long enough for a server to be silent for a second. */
#define MEDIUM_MS 6000

static hf_client *open_on(int port, int64_t lease_ms)
{
    hf_client *client = NULL;

    CHECK_CODE(hf_open(&client, zookeeper_url(port), &HF_CLIENT_OPTIONS(.lease_ms = lease_ms)),
               HF_OK);
    return client;
}

static bool look_no_further(void *arg, const hf_entry *entry)
{
    (void)arg, (void)entry;
    return false;
}

/* A server that begins may lose a greeting, and then the client has to try again. */
static void await_answers(hf_client *client)
{
    EVENTUALLY(hf_inspect(client, "one", look_no_further, NULL) == HF_OK, 2 * SOON_MS);
}

/* A session outlives its server, and so does everything that rests on it. */
TEST(a_server_that_comes_back_has_kept_everything)
{
    struct zookeeper_server server = { 0 };
    zookeeper_start(&server);
    hf_client *client = open_on(server.port, LONG_MS), *other = open_on(server.port, LONG_MS);
    _Atomic int losses = 0;
    struct outcome outcome = { 0 };
    hf_hold *hold = take_watched(client, "one", &losses);
    uint64_t token = hf_token(hold);

    CHECK_CODE(hf_lock_async(other, "one", HF_FOREVER, NULL, record_outcome, &outcome, NULL),
               HF_OK);
    EVENTUALLY(waiters(client, "one") == 1, SOON_MS);
    zookeeper_kill(&server);
    zookeeper_start_again(&server);
    await_answers(client);
    CHECK_INT(holders(client, "one"), 1);
    CHECK_INT(waiters(client, "one"), 1);
    CHECK(hf_held(hold));
    CHECK_INT(outcome.calls, 0);
    give_back(hold);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_OK);
    CHECK(hf_token(outcome.hold) > token);
    give_back(outcome.hold);
    check_nothing_left(client, "one");
    CHECK_INT(losses, 0);
    hf_close(client);
    hf_close(other);
    zookeeper_kill(&server);
}

/* Nobody can have been granted it by then: the session ends a third of its length later. */
TEST(a_server_that_stands_still_ends_the_belief)
{
    struct zookeeper_server server = { 0 };
    zookeeper_start(&server);
    hf_client *client = open_on(server.port, 2000), *other = open_on(server.port, LONG_MS);
    _Atomic int losses = 0;
    hf_hold *hold = take_watched(client, "one", &losses), *next = NULL;
    uint64_t token = hf_token(hold);

    child_stop(&server.process);
    EVENTUALLY(losses == 1, SOON_MS);
    CHECK(!hf_held(hold));
    child_continue(&server.process);
    CHECK_CODE(hf_lock(other, "one", SOON_MS, NULL, &next), HF_OK);
    CHECK(hf_token(next) > token);
    CHECK(!hf_held(hold));
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    CHECK(hf_held(next));
    give_back(next);
    /* The client begins a session of its own, and is as good as new. */
    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
    give_back(hold);
    check_nothing_left(other, "one");
    hf_close(client);
    hf_close(other);
    zookeeper_kill(&server);
}

/* Its newest data is older than what its clients have seen, so it lets none of them in who says so.
 */
TEST(a_server_that_lost_its_data_is_used_again)
{
    struct zookeeper_server server = { 0 };
    zookeeper_start(&server);
    hf_client *client = open_on(server.port, MEDIUM_MS), *idle = open_on(server.port, MEDIUM_MS);
    hf_client *busy = open_on(server.port, LONG_MS);
    _Atomic int losses = 0;

    for (int i = 0; i < 200; i++)
        give_back(take(busy, "one", HF_MUTEX, 0));
    hf_close(busy);
    check_nothing_left(idle, "one");
    hf_hold *hold = take_watched(client, "one", &losses), *next = NULL;
    zookeeper_kill(&server);
    zookeeper_start_empty(&server);
    EVENTUALLY(losses == 1, SOON_MS);
    CHECK_CODE(hf_lock(client, "one", 2 * SOON_MS, NULL, &next), HF_OK);
    give_back(next);
    CHECK_CODE(hf_lock(idle, "one", 2 * SOON_MS, NULL, &next), HF_OK);
    give_back(next);
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    check_nothing_left(idle, "one");
    hf_close(client);
    hf_close(idle);
    zookeeper_kill(&server);
}

/* Its session was let be for most of its length: what it takes next is as good as ever. */
TEST(a_client_without_a_turn_for_long_takes_what_lasts)
{
    struct zookeeper_server server = { 0 };
    int64_t lease_ms = (int64_t)4000 * test_slow();
    hf_client *client = NULL;
    _Atomic int losses = 0;
    zookeeper_start(&server);

    CHECK_CODE(hf_open(&client, zookeeper_url(server.port),
                       &HF_CLIENT_OPTIONS(.lease_ms = lease_ms, .driver = HF_DRIVE_CALLER)),
               HF_OK);
    give_back(take(client, "one", HF_MUTEX, 0));
    let_pass_ms(lease_ms * 9 / 10);
    hf_hold *hold = take_watched(client, "one", &losses);
    CHECK(hf_remaining_ms(hold) > lease_ms / 8);
    give_back(hold);
    CHECK_INT(losses, 0);
    hf_close(client);
    zookeeper_kill(&server);
}

TEST(a_short_stop_is_not_noticed)
{
    struct zookeeper_server server = { 0 };
    zookeeper_start(&server);
    hf_client *client = open_on(server.port, LONG_MS);
    _Atomic int losses = 0;
    hf_hold *hold = take_watched(client, "one", &losses);

    for (int i = 0; i < 3; i++) {
        child_stop(&server.process);
        let_pass_ms(300);
        child_continue(&server.process);
        CHECK_INT(holders(client, "one"), 1);
        CHECK(hf_held(hold));
    }
    give_back(hold);
    CHECK_INT(losses, 0);
    hf_close(client);
    zookeeper_kill(&server);
}

TEST(no_server_is_said_and_no_hang)
{
    struct zookeeper_server server = { 0 };
    zookeeper_start(&server);
    zookeeper_kill(&server);
    hf_client *client = open_on(server.port, LONG_MS);
    hf_hold *hold = NULL;

    CHECK_ERROR(hf_lock(client, "one", 0, NULL, &hold), HF_UNREACHABLE);
    CHECK(strstr(hf_last_error()->text, "ZooKeeper at 127.0.0.1") != NULL);
    CHECK_ERROR(hf_lock(client, "one", 200, NULL, &hold), HF_UNREACHABLE);
    CHECK(hold == NULL);
    hf_close(client);
}

/* ---- the node is made, and nobody is told ---- */

struct scene {
    struct zookeeper_server server;
    struct wire wire;
    hf_client *holder, *waiter;
    hf_hold *hold;
    struct outcome outcome;
};

static void begin_scene(struct scene *scene)
{
    zookeeper_start(&scene->server);
    wire_start(&scene->wire, scene->server.port);
    scene->holder = open_on(scene->server.port, LONG_MS);
    scene->waiter = open_on(scene->wire.port, LONG_MS);
    scene->hold = take(scene->holder, "one", HF_MUTEX, 0);
    give_back(take(scene->waiter, "warm", HF_MUTEX, 0));
}

/* The server has the node, the client has no answer, and the connection is gone. */
static void lose_the_answer(struct scene *scene, int64_t wait_ms)
{
    scene->wire.mute = 1;
    CHECK_CODE(
        hf_lock_async(scene->waiter, "one", wait_ms, NULL, record_outcome, &scene->outcome, NULL),
        HF_OK);
    EVENTUALLY(waiters(scene->holder, "one") == 1, SOON_MS);
}

static void end_scene(struct scene *scene)
{
    check_nothing_left(scene->holder, "one");
    hf_close(scene->waiter);
    hf_close(scene->holder);
    wire_end(&scene->wire);
    zookeeper_kill(&scene->server);
}

TEST(a_node_whose_answer_was_lost_is_found_again)
{
    static struct scene scene;
    begin_scene(&scene);
    lose_the_answer(&scene, HF_FOREVER);
    wire_mend(&scene.wire);
    /* A second node would wait behind the first for ever. */
    give_back(scene.hold);
    WAIT_OUTCOME(&scene.outcome);
    CHECK_CODE(scene.outcome.code, HF_OK);
    CHECK_INT(holders(scene.holder, "one"), 1);
    CHECK_INT(waiters(scene.holder, "one"), 0);
    give_back(scene.outcome.hold);
    end_scene(&scene);
}

TEST(a_node_whose_answer_was_lost_does_not_stay)
{
    static struct scene scene;
    begin_scene(&scene);
    lose_the_answer(&scene, 2000);
    WAIT_OUTCOME(&scene.outcome);
    CHECK_CODE(scene.outcome.code, HF_UNREACHABLE);
    CHECK_INT(waiters(scene.holder, "one"), 1);
    wire_mend(&scene.wire);
    EVENTUALLY(waiters(scene.holder, "one") == 0, SOON_MS);
    give_back(scene.hold);
    end_scene(&scene);
}

/* Every answer to giving back is lost; it is repeated until there is one. */
TEST(a_release_whose_answer_was_lost_is_repeated)
{
    static struct scene scene;
    begin_scene(&scene);
    hf_hold *hold = take(scene.waiter, "two", HF_MUTEX, 0);

    scene.wire.mute = 1;
    hf_unlock_nowait(hold);
    EVENTUALLY(holders(scene.holder, "two") == 0, SOON_MS);
    wire_mend(&scene.wire);
    CHECK_CODE(hf_lock(scene.waiter, "two", SOON_MS, NULL, &hold), HF_OK);
    give_back(hold);
    give_back(scene.hold);
    end_scene(&scene);
}

static void unlock(void *arg)
{
    struct outcome *outcome = arg;

    outcome->code = hf_unlock(outcome->hold);
}

/* The node is gone when it is repeated. */
TEST(release_whose_reply_was_lost_is_no_loss)
{
    static struct scene scene;
    struct thread thread;

    begin_scene(&scene);
    scene.outcome.hold = take(scene.waiter, "two", HF_MUTEX, 0);
    scene.wire.mute = 1;
    thread_start(&thread, unlock, &scene.outcome);
    EVENTUALLY(holders(scene.holder, "two") == 0, SOON_MS);
    wire_mend(&scene.wire);
    thread_join(&thread);
    CHECK_CODE(scene.outcome.code, HF_OK);
    give_back(scene.hold);
    end_scene(&scene);
}
