/* SPDX-License-Identifier: Apache-2.0 */
/* Three ZooKeeper servers that lose each other, and a server that tidies up while we look away. */
#include "conformance.h"
#include "zookeeper_server.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Sessions last so long that no election, however slow the machine, ends one. */
#define TICK_MS 1000
#define LONG_MS 600000
/* An election among virtual machines that have a core for all of them. */
#define ELECTION_MS 90000

static hf_client *open_url(const char *url, int64_t lease_ms)
{
    hf_client *client = NULL;

    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = lease_ms)), HF_OK);
    return client;
}

static int find_leader(const struct zookeeper_server servers[ENSEMBLE])
{
    int leader = -1;

    for (int i = 0; i < ENSEMBLE; i++)
        leader = zookeeper_leads(&servers[i]) ? i : leader;
    return leader;
}

static int leader_of(const struct zookeeper_server servers[ENSEMBLE])
{
    int leader = -1;

    EVENTUALLY((leader = find_leader(servers)) >= 0, ELECTION_MS);
    return leader;
}

/* Both clients, one after the other: the later token is the larger one. */
static void take_turns(hf_client *one, hf_client *other, uint64_t *token)
{
    hf_client *clients[] = { one, other };

    for (int i = 0; i < 2; i++) {
        hf_hold *hold = NULL;
        CHECK_CODE(hf_lock(clients[i], "turns", (int64_t)ELECTION_MS * test_slow(), NULL, &hold),
                   HF_OK);
        CHECK(hf_token(hold) > *token);
        *token = hf_token(hold);
        hf_unlock_nowait(hold);
    }
}

/* The leader is killed, and then every other: each client loses the server that it talks to. */
TEST(locks_outlive_every_single_server)
{
    struct zookeeper_server servers[ENSEMBLE] = { 0 };
    zookeeper_start_ensemble(servers, TICK_MS);
    const char *url = zookeeper_ensemble_url(servers);
    hf_client *client = open_url(url, LONG_MS), *other = open_url(url, LONG_MS);
    _Atomic int losses = 0;
    struct outcome outcome = { 0 };
    hf_hold *hold = NULL;
    uint64_t token = 0;
    int first = leader_of(servers);

    CHECK_CODE(hf_lock(client, "one", SOON_MS,
                       LOCK_OPTIONS(.on_lost = count_loss, .lost_arg = &losses), &hold),
               HF_OK);
    CHECK_CODE(hf_lock_async(other, "one", HF_FOREVER, NULL, record_outcome, &outcome, NULL),
               HF_OK);
    EVENTUALLY(waiters(client, "one") == 1, SOON_MS);
    for (int i = 0; i < ENSEMBLE; i++) {
        struct zookeeper_server *server = &servers[(first + i) % ENSEMBLE];
        zookeeper_kill(server);
        take_turns(client, other, &token);
        CHECK(hf_held(hold));
        CHECK_INT(outcome.calls, 0);
        if (i < ENSEMBLE - 1)
            zookeeper_start_again(server);
    }
    CHECK_CODE(hf_unlock(hold), HF_OK);
    EVENTUALLY(outcome.calls > 0, ELECTION_MS);
    CHECK_CODE(outcome.code, HF_OK);
    CHECK_INT(losses, 0);
    give_back(outcome.hold);
    check_nothing_left(client, "one");
    hf_close(client);
    hf_close(other);
    for (int i = 0; i < ENSEMBLE - 1; i++)
        zookeeper_kill(&servers[(first + i) % ENSEMBLE]);
}

static void leave_alone(struct zookeeper_server servers[ENSEMBLE], int left)
{
    hf_client *client = open_url(zookeeper_url(servers[left].port), 4000);
    _Atomic int losses = 0;
    hf_hold *hold = NULL, *next = NULL;

    CHECK_CODE(hf_lock(client, "one", SOON_MS,
                       LOCK_OPTIONS(.on_lost = count_loss, .lost_arg = &losses), &hold),
               HF_OK);
    uint64_t token = hf_token(hold);
    for (int i = 0; i < ENSEMBLE; i++)
        if (i != left)
            child_stop(&servers[i].process);
    EVENTUALLY(losses == 1, SOON_MS);
    CHECK(!hf_held(hold));
    for (int i = 0; i < ENSEMBLE; i++)
        if (i != left)
            child_continue(&servers[i].process);
    hf_client *other = open_url(zookeeper_ensemble_url(servers), LONG_MS);
    CHECK_CODE(hf_lock(other, "one", (int64_t)ELECTION_MS * test_slow(), NULL, &next), HF_OK);
    CHECK(hf_token(next) > token && !hf_held(hold));
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    CHECK(hf_held(next));
    give_back(next);
    hf_close(client);
    hf_close(other);
}

/* A server without the others answers pings for a while, and a leader a `sync`, but nobody can rely
 * on what they say. */
TEST(a_server_that_is_cut_off_from_the_others_ends_the_belief)
{
    struct zookeeper_server servers[ENSEMBLE] = { 0 };
    zookeeper_start_ensemble(servers, TICK_MS);
    leave_alone(servers, leader_of(servers));
    leave_alone(servers, (leader_of(servers) + 1) % ENSEMBLE);
    for (int i = 0; i < ENSEMBLE; i++)
        zookeeper_kill(&servers[i]);
}

/* ---- a leader that lags ---- */

#define ROUNDS 25

/* Leaves the leader's threads no processor of their own. */
static void spin(void *arg)
{
    (void)arg;
    for (volatile unsigned turns = 0;; turns++)
        ;
}

static void inspect_after_release(hf_client *at_follower, hf_client *at_leader)
{
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(at_follower, "one", SOON_MS, NULL, &hold), HF_OK);
    CHECK_CODE(hf_unlock(hold), HF_OK);
    CHECK_INT(holders(at_leader, "one"), 0);
}

static void take_turn_without_waiting(hf_client *at_follower, hf_client *at_leader,
                                      const char *name, const hf_lock_options *options)
{
    hf_client *clients[] = { at_follower, at_leader };

    for (int i = 0; i < 2; i++) {
        hf_hold *hold = NULL;
        CHECK_CODE(hf_lock(clients[i], name, 0, options, &hold), HF_OK);
        CHECK_CODE(hf_unlock(hold), HF_OK);
    }
}

static void try_mutex_after_release(hf_client *at_follower, hf_client *at_leader)
{
    take_turn_without_waiting(at_follower, at_leader, "one", NULL);
}

/* A name may be another kind of lock as soon as it is free. */
static void try_mutex_after_writer(hf_client *at_follower, hf_client *at_leader)
{
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(at_follower, "kind", SOON_MS, LOCK_OPTIONS(.mode = HF_WRITE), &hold), HF_OK);
    CHECK_CODE(hf_unlock(hold), HF_OK);
    CHECK_CODE(hf_lock(at_leader, "kind", 0, NULL, &hold), HF_OK);
    CHECK_CODE(hf_unlock(hold), HF_OK);
}

static void try_semaphore_after_release(hf_client *at_follower, hf_client *at_leader)
{
    take_turn_without_waiting(at_follower, at_leader, "permit",
                              LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 1, .limit = 1));
}

static void try_latch_after_its_last_count(hf_client *at_follower, hf_client *at_leader)
{
    CHECK_CODE(hf_latch_set(at_follower, "latch", 1), HF_OK);
    CHECK_CODE(hf_latch_down(at_follower, "latch", 1, NULL), HF_OK);
    CHECK_CODE(hf_latch_wait(at_leader, "latch", 0), HF_OK);
}

/* A follower answers a release before the leader has applied it, and the leader a `sync`. */
TEST(leader_that_lags_behind_its_followers_shows_no_lock_that_was_released)
{
    static void (*const ways[])(hf_client * at_follower, hf_client * at_leader) = {
        inspect_after_release, try_mutex_after_release, try_mutex_after_writer,
        try_semaphore_after_release, try_latch_after_its_last_count
    };
    struct zookeeper_server servers[ENSEMBLE] = { 0 };
    struct child spinners[64] = { 0 };
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int count = processors < 2 ? 1 : processors > 64 ? 64 : (int)processors - 1;
    zookeeper_start_ensemble(servers, TICK_MS);
    int leader = leader_of(servers), follower = (leader + 1) % ENSEMBLE;
    hf_client *at_leader = open_url(zookeeper_url(servers[leader].port), LONG_MS);
    hf_client *at_follower = open_url(zookeeper_url(servers[follower].port), LONG_MS);

    zookeeper_lag(&servers[leader]);
    for (int i = 0; i < count; i++)
        child_start(&spinners[i], spin, NULL);
    for (int i = 0; i < ROUNDS; i++)
        for (size_t way = 0; way < sizeof(ways) / sizeof(*ways); way++)
            ways[way](at_follower, at_leader);
    for (int i = 0; i < count; i++)
        child_kill(&spinners[i]);
    hf_close(at_leader);
    hf_close(at_follower);
    for (int i = 0; i < ENSEMBLE; i++)
        zookeeper_kill(&servers[i]);
}

static bool look_no_further(void *arg, const hf_entry *entry)
{
    (void)arg, (void)entry;
    return false;
}

static bool is_shown_out(hf_client *client)
{
    return hf_inspect(client, "one", look_no_further, NULL) == HF_UNREACHABLE &&
           strstr(hf_last_error()->text, "closed the connection") != NULL;
}

/* What it shows is old, and it lets in who says that this will do. */
TEST(a_server_that_may_only_be_read_from_is_no_server)
{
    struct zookeeper_server servers[ENSEMBLE] = { 0 };
    CHECK(setenv("JAVA_TOOL_OPTIONS", "-Dreadonlymode.enabled=true", 1) == 0);
    zookeeper_start_ensemble(servers, TICK_MS);
    hf_client *client = open_url(zookeeper_url(servers[0].port), LONG_MS);
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, "one", (int64_t)ELECTION_MS * test_slow(), NULL, &hold), HF_OK);
    give_back(hold);
    for (int i = 1; i < ENSEMBLE; i++)
        zookeeper_kill(&servers[i]);
    EVENTUALLY(zookeeper_is_read_only(&servers[0]), ELECTION_MS);
    hf_client *other = open_url(zookeeper_url(servers[0].port), LONG_MS);
    EVENTUALLY(is_shown_out(other), ELECTION_MS);
    CHECK_ERROR(hf_lock(client, "one", 0, NULL, &hold), HF_UNREACHABLE);
    CHECK_ERROR(hf_lock(other, "one", 1000, NULL, &hold), HF_UNREACHABLE);
    hf_close(client);
    hf_close(other);
    zookeeper_kill(&servers[0]);
}

/* Empty containers go, and with them the numbers of the queue; the tokens go on. */
TEST(a_path_that_was_tidied_away_is_made_again)
{
    struct zookeeper_server server = { .reaps = true };
    zookeeper_start(&server);
    hf_client *client = open_url(zookeeper_url(server.port), LONG_MS);
    int nodes = -1;
    uint64_t token = 0;

    EVENTUALLY((nodes = zookeeper_nodes(&server)) > 0, SOON_MS);
    for (int i = 0; i < 3; i++) {
        hf_hold *hold = NULL;
        CHECK_CODE(hf_lock(client, "a/deep/one", SOON_MS, NULL, &hold), HF_OK);
        CHECK(hf_token(hold) > token);
        token = hf_token(hold);
        EVENTUALLY(zookeeper_nodes(&server) > nodes, SOON_MS);
        give_back(hold);
        EVENTUALLY(zookeeper_nodes(&server) == nodes, SOON_MS);
    }
    hf_close(client);
    zookeeper_kill(&server);
}
