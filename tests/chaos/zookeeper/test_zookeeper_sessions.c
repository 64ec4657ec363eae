/* SPDX-License-Identifier: Apache-2.0 */
/* One client with more than one session can carry: the next session takes what the last one has no
 * room for, and what becomes of one of them is nothing to the others. */
#include "conformance.h"
#include "zookeeper_raw.h"
#include "zookeeper_server.h"

#include "engines/zookeeper/zookeeper.h"

#include <stdio.h>

/* So long that nothing here waits for its end. */
#define LONG_MS 40000
/* "/chaos/lock-00" and a node's name below it: so many fit into one session of these tests. */
#define WEIGHT (14u + 64u)
#define EACH 10
#define LOCKS 25
#define SESSIONS 3

struct scene {
    struct zookeeper_server server;
    hf_client *client, *other;
    int nodes; /* before anybody came */
    hf_hold *holds[LOCKS];
    _Atomic int losses[LOCKS];
};

static struct scene scene;

static hf_client *open_one(void)
{
    hf_client *client = NULL;

    CHECK_CODE(
        hf_open(&client, zookeeper_url(scene.server.port), &HF_CLIENT_OPTIONS(.lease_ms = LONG_MS)),
        HF_OK);
    return client;
}

/* A server that is late is asked again. */
static bool has_connections(int wanted)
{
    return zookeeper_connections(&scene.server) == wanted;
}

static void begin_scene(unsigned sessions, int64_t idle_ms)
{
    scene = (struct scene){ .server = { .reaps = true } };
    zookeeper_start(&scene.server);
    EVENTUALLY((scene.nodes = zookeeper_nodes(&scene.server)) >= 0, SOON_MS);
    hf__zk_bounds =
        (struct zk_bounds){ .paths = EACH * WEIGHT, .sessions = sessions, .idle_ms = idle_ms };
    scene.client = open_one();
    scene.other = open_one();
    /* Both are there from now on. */
    CHECK_INT(holders(scene.client, "nobody") + holders(scene.other, "nobody"), 0);
}

/* Whatever was made goes, and so do empty containers, but for one that was never in use. */
static void end_scene(void)
{
    hf_close(scene.client);
    hf_close(scene.other);
    EVENTUALLY(has_connections(0), SOON_MS);
    EVENTUALLY(zookeeper_nodes(&scene.server) == scene.nodes, SOON_MS);
    zookeeper_kill(&scene.server);
}

static const char *lock_name(int number)
{
    static _Thread_local char name[16];

    snprintf(name, sizeof(name), "lock-%02d", number);
    return name;
}

/* The first one of the second session has a lease of its own. */
static void take_locks(void)
{
    for (int i = 0; i < LOCKS; i++)
        CHECK_CODE(hf_lock(scene.client, lock_name(i), SOON_MS,
                           LOCK_OPTIONS(.lease_ms = i == EACH ? LONG_MS : 0, .on_lost = count_loss,
                                        .lost_arg = &scene.losses[i]),
                           &scene.holds[i]),
                   HF_OK);
}

static void give_locks_back(void)
{
    for (int i = 0; i < LOCKS; i++)
        give_back(scene.holds[i]);
}

static int holders_of_all(void)
{
    int count = 0;

    for (int i = 0; i < LOCKS; i++)
        count += holders(scene.other, lock_name(i));
    return count;
}

static int64_t session_of(struct zookeeper_raw *raw, int number)
{
    char path[40];

    snprintf(path, sizeof(path), "/chaos/%s", lock_name(number));
    return raw_session_below(raw, path);
}

/* In the order in which they were taken, as many as there is room for. */
TEST(what_one_session_cannot_carry_goes_to_the_next)
{
    struct zookeeper_raw raw;
    hf_hold *hold = NULL;
    begin_scene(16, LONG_MS);
    take_locks();
    CHECK_INT(holders_of_all(), LOCKS);
    raw_begin(&raw, scene.server.port);
    for (int i = 1; i < LOCKS; i++) {
        bool same = session_of(&raw, i) == session_of(&raw, i - 1);
        CHECK(same == (i % EACH != 0));
    }
    raw_end(&raw);
    /* Each of them is the client's own, wherever it rests. */
    for (int i = 0; i < LOCKS; i++) {
        CHECK(hf_held(scene.holds[i]));
        CHECK_CODE(hf_lock(scene.other, lock_name(i), 0, NULL, &hold), HF_BUSY);
    }
    give_locks_back();
    CHECK_INT(holders_of_all(), 0);
    /* What was given back does not count any more. */
    take_locks();
    EVENTUALLY(has_connections(SESSIONS + 1), SOON_MS);
    give_locks_back();
    end_scene();
}

TEST(a_session_that_nothing_rests_on_ends)
{
    begin_scene(16, 100);
    take_locks();
    EVENTUALLY(has_connections(SESSIONS + 1), SOON_MS);
    /* What holds goes on for longer than that. */
    let_pass_ms(400);
    CHECK_INT(holders_of_all(), LOCKS);
    for (int i = 0; i < LOCKS; i++)
        CHECK(hf_held(scene.holds[i]));
    /* The last one of the second session keeps that. */
    for (int i = 0; i < LOCKS; i++)
        if (i != EACH)
            give_back(scene.holds[i]);
    EVENTUALLY(has_connections(3), SOON_MS);
    let_pass_ms(400);
    CHECK(hf_held(scene.holds[EACH]));
    CHECK_INT(holders(scene.other, lock_name(EACH)), 1);
    give_back(scene.holds[EACH]);
    EVENTUALLY(has_connections(2), SOON_MS);
    /* And the first one goes on as if nothing had been. */
    take_locks();
    give_locks_back();
    end_scene();
}

TEST(there_is_an_end_to_it)
{
    hf_hold *hold = NULL;
    begin_scene(2, LONG_MS);
    for (int i = 0; i < 2 * EACH; i++)
        scene.holds[i] = take(scene.client, lock_name(i), HF_MUTEX, 0);
    CHECK_ERROR(hf_lock(scene.client, lock_name(2 * EACH), SOON_MS, NULL, &hold), HF_ELIMIT);
    CHECK(strstr(hf_last_error()->text, "2 sessions") != NULL);
    CHECK_ERROR(hf_lock(scene.client, lock_name(2 * EACH), 0, NULL, &hold), HF_ELIMIT);
    give_back(scene.holds[3]);
    scene.holds[3] = take(scene.client, lock_name(2 * EACH), HF_MUTEX, 0);
    for (int i = 0; i < 2 * EACH; i++)
        give_back(scene.holds[i]);
    /* No session is large enough for that, however many there are. */
    CHECK_ERROR(hf_lock(scene.client, "pool", SOON_MS,
                        LOCK_OPTIONS(.mode = HF_PERMIT, .permits = EACH, .limit = EACH), &hold),
                HF_ELIMIT);
    CHECK(strstr(hf_last_error()->text, "fewer at once") != NULL);
    end_scene();
}

/* The first lock of the second session tells which one that is. */
TEST(a_session_that_ends_takes_with_it_what_rests_on_it)
{
    struct zookeeper_raw raw;
    begin_scene(16, LONG_MS);
    take_locks();
    raw_begin(&raw, scene.server.port);
    raw_end_session(scene.server.port, session_of(&raw, EACH));
    raw_end(&raw);
    for (int i = EACH; i < 2 * EACH; i++)
        EVENTUALLY(scene.losses[i] == 1, SOON_MS);
    for (int i = 0; i < LOCKS; i++) {
        bool is_lost = i >= EACH && i < 2 * EACH;
        CHECK_INT(scene.losses[i], is_lost);
        CHECK(hf_held(scene.holds[i]) == !is_lost);
        CHECK_INT(holders(scene.other, lock_name(i)), !is_lost);
        CHECK_CODE(hf_unlock(scene.holds[i]), is_lost ? HF_LOST : HF_OK);
    }
    take_locks();
    CHECK_INT(holders_of_all(), LOCKS);
    give_locks_back();
    end_scene();
}

TEST(who_waits_on_any_session_has_his_turn)
{
    static struct outcome outcomes[LOCKS];
    begin_scene(16, LONG_MS);
    memset(outcomes, 0, sizeof(outcomes));
    take_locks();
    for (int i = 0; i < LOCKS; i++)
        CHECK_CODE(hf_lock_async(scene.other, lock_name(i), HF_FOREVER, NULL, record_outcome,
                                 &outcomes[i], NULL),
                   HF_OK);
    for (int i = 0; i < LOCKS; i++)
        EVENTUALLY(waiters(scene.client, lock_name(i)) == 1, SOON_MS);
    EVENTUALLY(has_connections(2 * SESSIONS), SOON_MS);
    give_locks_back();
    for (int i = 0; i < LOCKS; i++) {
        WAIT_OUTCOME(&outcomes[i]);
        CHECK_CODE(outcomes[i].code, HF_OK);
        CHECK_INT(holders(scene.client, lock_name(i)), 1);
        give_back(outcomes[i].hold);
        check_nothing_left(scene.client, lock_name(i));
    }
    end_scene();
}

static _Atomic int queued, displaced;

static void count_points(void *arg, const char *point, const char *name)
{
    (void)arg, (void)name;
    queued += strcmp(point, "queued") == 0;
    displaced += strcmp(point, "displaced") == 0;
}

TEST(who_loses_his_place_is_told_and_gets_another)
{
    struct zookeeper_raw raw;
    struct outcome outcome = { 0 };
    hf_client *watched = NULL;
    begin_scene(16, LONG_MS);
    CHECK_CODE(hf_open(&watched, zookeeper_url(scene.server.port),
                       &HF_CLIENT_OPTIONS(.lease_ms = LONG_MS, .on_point = count_points)),
               HF_OK);
    /* Which tells where the client's claims are. */
    hf_hold *mine = take(watched, "mine", HF_MUTEX, 0);
    hf_hold *hold = take(scene.client, "one", HF_MUTEX, 0);
    CHECK_CODE(hf_lock_async(watched, "one", HF_FOREVER, NULL, record_outcome, &outcome, NULL),
               HF_OK);
    EVENTUALLY(queued == 1, SOON_MS);
    CHECK_INT(displaced, 0);
    raw_begin(&raw, scene.server.port);
    raw_end_session(scene.server.port, raw_session_below(&raw, "/chaos/mine"));
    raw_end(&raw);
    EVENTUALLY(queued >= 2, SOON_MS);
    CHECK_INT(displaced, 1);
    CHECK_INT(waiters(scene.other, "one"), 1);
    CHECK_CODE(hf_unlock(mine), HF_LOST);
    give_back(hold);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_OK);
    give_back(outcome.hold);
    hf_close(watched);
    end_scene();
}

/* A lease that runs out takes its node with it, and a renewal is asked for where that node is. */
TEST(a_lease_of_ones_own_rests_on_any_session)
{
    struct zookeeper_raw raw;
    hf_hold *renewed = NULL, *brief = NULL;
    begin_scene(16, LONG_MS);
    for (int i = 0; i < EACH; i++)
        scene.holds[i] = take(scene.client, lock_name(i), HF_MUTEX, 0);
    CHECK_CODE(hf_lock(scene.client, lock_name(EACH), SOON_MS, LOCK_OPTIONS(.lease_ms = LONG_MS),
                       &renewed),
               HF_OK);
    raw_begin(&raw, scene.server.port);
    CHECK(session_of(&raw, EACH) != session_of(&raw, 0));
    raw_end(&raw);
    CHECK_CODE(hf_renew(renewed, 2 * LONG_MS), HF_OK);
    CHECK_CODE(hf_lock(scene.client, lock_name(EACH + 1), SOON_MS,
                       LOCK_OPTIONS(.lease_ms = 1000, .on_lost = count_loss,
                                    .lost_arg = &scene.losses[EACH + 1]),
                       &brief),
               HF_OK);
    EVENTUALLY(scene.losses[EACH + 1] == 1, SOON_MS);
    EVENTUALLY(holders(scene.other, lock_name(EACH + 1)) == 0, SOON_MS);
    CHECK_CODE(hf_unlock(brief), HF_LOST);
    CHECK(hf_held(renewed));
    CHECK_INT(holders(scene.other, lock_name(EACH)), 1);
    give_back(renewed);
    for (int i = 0; i < EACH; i++)
        give_back(scene.holds[i]);
    end_scene();
}

/* For a moment he has both nodes. */
TEST(a_writer_counts_for_the_reader_that_he_may_become)
{
    struct zookeeper_raw raw;
    const int writers = EACH / 2 + 1;
    begin_scene(16, LONG_MS);
    for (int i = 0; i < writers; i++)
        scene.holds[i] = take(scene.client, lock_name(i), HF_WRITE, 0);
    raw_begin(&raw, scene.server.port);
    CHECK(session_of(&raw, writers - 2) == session_of(&raw, 0));
    CHECK(session_of(&raw, writers - 1) != session_of(&raw, 0));
    raw_end(&raw);
    for (int i = 0; i < writers; i++) {
        CHECK_CODE(hf_downgrade(scene.holds[i], HF_READ), HF_OK);
        give_back(take(scene.other, lock_name(i), HF_READ, 0));
        give_back(scene.holds[i]);
    }
    end_scene();
}

/* Claims of one semaphore, and readers who were writers, wherever they rest. */
TEST(kinds_of_locks_do_not_mind_where_they_rest)
{
    hf_hold *permits[4], *hold = NULL;
    const hf_lock_options *two = LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 2);
    uint32_t left = 0;
    begin_scene(16, LONG_MS);
    CHECK_CODE(hf_semaphore_set(scene.other, "pool", 8), HF_OK);
    for (int i = 0; i < 4; i++)
        CHECK_CODE(hf_lock(scene.client, "pool", SOON_MS, two, &permits[i]), HF_OK);
    EVENTUALLY(zookeeper_connections(&scene.server) >= 3, SOON_MS);
    CHECK_INT(holders(scene.other, "pool"), 4);
    CHECK_CODE(hf_lock(scene.other, "pool", 0, two, &hold), HF_BUSY);
    hf_hold *writer = take(scene.client, "book", HF_WRITE, 0);
    CHECK_CODE(hf_downgrade(writer, HF_READ), HF_OK);
    give_back(take(scene.other, "book", HF_READ, 0));
    give_back(writer);
    CHECK_CODE(hf_break(scene.other, "pool", NULL, &left), HF_OK);
    CHECK_INT(left, 4);
    for (int i = 0; i < 4; i++)
        CHECK_CODE(hf_unlock(permits[i]), HF_LOST);
    CHECK_CODE(hf_semaphore_set(scene.client, "pool", 0), HF_OK);
    end_scene();
}
