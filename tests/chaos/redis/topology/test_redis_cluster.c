/* SPDX-License-Identifier: Apache-2.0 */
/* redis+cluster: on real servers: locks that are held and waited for while masters are replaced,
 * die, stand still, and give their slots away. */
#include "cluster.h"
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS 64
#define NAMES 8
#define ENOUGH 300

static hf_client *open_on(const struct cluster *cluster, int64_t lease_ms)
{
    hf_client *client = NULL;

    CHECK_CODE(
        hf_open(&client, cluster_url(cluster, 3000), &HF_CLIENT_OPTIONS(.lease_ms = lease_ms)),
        HF_OK);
    return client;
}

/* ---- many at work ---- */

struct work {
    struct cluster *cluster;
    hf_client *client;
    char names[NAMES][40];
    bool may_forget; /* what was granted: then nothing is promised but that calls come back */
    _Atomic int inside[NAMES], done, stop;
    void (*disturb)(struct work *work);
};

static void work_on(void *arg, int index)
{
    struct work *work = arg;

    while (!work->stop) {
        hf_hold *hold = NULL;
        int name = index % NAMES;
        int code = hf_lock(work->client, work->names[name], SOON_MS * test_slow(),
                           LOCK_OPTIONS(.owner = (uint64_t)index + 1), &hold);
        if (work->may_forget && code != HF_OK) {
            CHECK(code == HF_BUSY || code == HF_UNREACHABLE);
            continue;
        }
        CHECK_CODE(code, HF_OK);
        CHECK(work->inside[name]++ == 0 || work->may_forget);
        work->inside[name]--;
        code = hf_unlock(hold);
        /* A failover that does not come about may hold up writes for longer than a release waits;
         * `inside` has been lowered before. */
        CHECK(code == HF_OK || code == HF_UNREACHABLE || (work->may_forget && code == HF_LOST));
        work->done += code == HF_OK;
    }
}

static void disturb(void *arg)
{
    struct work *work = arg;

    EVENTUALLY(work->done > ENOUGH, SOON_MS);
    work->disturb(work);
    int before = work->done;
    EVENTUALLY(work->done > before + ENOUGH, CLUSTER_SETTLES_MS);
    test_note("%d locks before, %d in all", before, work->done);
    work->stop = 1;
}

/* The servers are children of this thread. */
static void work_while(struct work *work, void (*what)(struct work *work))
{
    struct thread disturbing;

    work->client = open_on(work->cluster, 60000);
    work->disturb = what;
    thread_start(&disturbing, disturb, work);
    threads_run(THREADS, work_on, work);
    thread_join(&disturbing);
    hf_close(work->client);
}

/* ---- masters that are replaced ---- */

/* As an operator does: nothing that was granted is forgotten. */
static void hand_over(struct work *work)
{
    struct server *replica = &work->cluster->nodes[CLUSTER_MASTERS];
    int64_t until = monotonic_ms() + CLUSTER_SETTLES_MS * test_slow();

    while (!is_master(replica)) {
        CHECK(monotonic_ms() < until);
        server_tell(replica, "CLUSTER FAILOVER", NULL, 0);
        for (int i = 0; i < 100 && !is_master(replica); i++)
            let_pass_ms(100);
    }
}

TEST(a_failover_under_load_lets_nobody_in_twice)
{
    static struct work work;
    struct cluster cluster = { 0 };
    hf_hold *hold = NULL;

    TEST_TIMEOUT(400);
    cluster_start(&cluster, 0);
    work.cluster = &cluster;
    for (int i = 0; i < NAMES; i++)
        cluster_name(&cluster, "failover", 0, i % 2 ? 5000 : 16383, work.names[i],
                     sizeof(work.names[i]));
    char held[40];
    cluster_name(&cluster, "held", 0, 5000, held, sizeof(held));
    hf_client *client = open_on(&cluster, 60000);
    CHECK_CODE(hf_lock(client, held, SOON_MS, NULL, &hold), HF_OK);
    work_while(&work, hand_over);
    CHECK(hf_held(hold));
    CHECK(cluster_owner(&cluster, held) == &cluster.nodes[CLUSTER_MASTERS]);
    give_back(hold);
    hf_close(client);
    cluster_kill(&cluster);
}

static void kill_master(struct work *work)
{
    server_kill(&work->cluster->nodes[0]);
    EVENTUALLY(is_master(&work->cluster->nodes[CLUSTER_MASTERS]), CLUSTER_SETTLES_MS);
}

TEST(a_master_that_dies_is_replaced_under_load)
{
    static struct work work = { .may_forget = true };
    struct cluster cluster = { 0 };

    TEST_TIMEOUT(400);
    cluster_start(&cluster, 3000);
    work.cluster = &cluster;
    /* All on the one that dies: what goes on afterwards goes on there. */
    for (int i = 0; i < NAMES; i++)
        cluster_name(&cluster, "death", 0, 5000, work.names[i], sizeof(work.names[i]));
    work_while(&work, kill_master);
    cluster_kill(&cluster);
}

/* ---- slots that move ---- */

static void reshard(struct work *work)
{
    cluster_reshard(work->cluster, 0, 2, 300);
    cluster_reshard(work->cluster, 0, 1, 100);
}

TEST(slots_move_under_load_and_nobody_is_let_in_twice)
{
    static struct work work;
    struct cluster cluster = { 0 };

    TEST_TIMEOUT(400);
    cluster_start(&cluster, 0);
    work.cluster = &cluster;
    for (int i = 0; i < NAMES; i++)
        cluster_name(&cluster, "moving", 0, i % 4 ? 390 : 16383, work.names[i],
                     sizeof(work.names[i]));
    work_while(&work, reshard);
    cluster_kill(&cluster);
}

static long left_ms(struct cluster *cluster, const char *name)
{
    char command[100], line[40] = "";

    snprintf(command, sizeof(command), "PTTL %s", name);
    CHECK(server_tell(cluster_owner(cluster, name), command, line, sizeof(line)));
    return line[0] == ':' ? strtol(line + 1, NULL, 10) : -1;
}

static void shorten(struct cluster *cluster, const char *name, long ms)
{
    char command[100];

    snprintf(command, sizeof(command), "PEXPIRE %s %ld", name, ms);
    CHECK(server_says(cluster_owner(cluster, name), command, ":1"));
}

TEST(what_is_held_moves_with_its_slot_and_is_renewed_there)
{
    struct cluster cluster = { 0 };
    struct outcome outcome = { 0 };
    hf_hold *hold = NULL;
    char name[40];
    int64_t lease_ms = 9000 * test_slow();

    TEST_TIMEOUT(300);
    cluster_start(&cluster, 0);
    cluster_name(&cluster, "mine", 0, 40, name, sizeof(name));
    hf_client *client = open_on(&cluster, lease_ms), *other = open_on(&cluster, 0);
    CHECK_CODE(hf_lock(client, name, SOON_MS, NULL, &hold), HF_OK);
    uint64_t token = hf_token(hold);
    begin_wait(other, name, HF_MUTEX, &outcome);
    cluster_reshard(&cluster, 0, 1, 50);
    CHECK(cluster_owner(&cluster, name) == &cluster.nodes[1]);
    shorten(&cluster, name, lease_ms * 2 / 3);
    EVENTUALLY(left_ms(&cluster, name) > lease_ms * 2 / 3, SOON_MS);
    CHECK(hf_held(hold));
    CHECK_INT(outcome.calls, 0);
    CHECK_CODE(hf_unlock(hold), HF_OK);
    await_grant(&outcome);
    CHECK(hf_token(outcome.hold) > token);
    give_back(outcome.hold);
    hf_close(client);
    hf_close(other);
    cluster_kill(&cluster);
}

/* ---- a slot that moves for long ---- */

static bool has_refused(struct cluster *cluster, int node, const char *word)
{
    char command[200];

    snprintf(command, sizeof(command),
             "EVAL \"return string.find(redis.call('info', 'errorstats'), '%s') and 1 or 0\" 0",
             word);
    return server_says(&cluster->nodes[node], command, ":1");
}

/* Which key of a hold goes first: the lock's own, or one that only this hold has. */
static void split(struct cluster *cluster, hf_mode mode, const char *name)
{
    hf_client *client = open_on(cluster, 30000 * test_slow());
    hf_hold *hold = NULL, *fixed = NULL;
    hf_lock_options options = HF_LOCK_OPTIONS(.mode = mode);
    unsigned slot = cluster_slot(cluster, name);

    options.limit = mode == HF_PERMIT ? 5 : 0;
    CHECK_CODE(hf_lock(client, name, SOON_MS, &options, &hold), HF_OK);
    options.lease_ms = 600000;
    options.owner = 77;
    CHECK_CODE(hf_lock(client, name, SOON_MS, &options, &fixed), HF_OK);
    cluster_part(cluster, 0, 1, slot);
    cluster_move_key(cluster, 0, 1, name);
    CHECK(server_says(&cluster->nodes[0], "CONFIG RESETSTAT", "+OK"));
    CHECK_CODE(hf_renew(fixed, 700000), HF_UNREACHABLE);
    CHECK(server_says(&cluster->nodes[0], "CONFIG RESETSTAT", "+OK"));
    EVENTUALLY(has_refused(cluster, 0, "TRYAGAIN") || !hf_held(hold), SOON_MS);
    CHECK(hf_held(hold));
    cluster_arrive(cluster, 0, 1, slot);
    EVENTUALLY(hf_renew(fixed, 700000) == HF_OK, SOON_MS);
    give_back(fixed);
    give_back(hold);
    hf_close(client);
}

/* A writer's lease is in one key, which is enough to be renewed, however it became one. */
static void part_under_a_writer(struct cluster *cluster, hf_mode mode, const char *name)
{
    int64_t lease_ms = 9000 * test_slow();
    hf_client *client = open_on(cluster, lease_ms);
    hf_hold *hold = NULL;
    unsigned slot = cluster_slot(cluster, name);

    CHECK_CODE(hf_lock(client, name, SOON_MS, LOCK_OPTIONS(.mode = mode), &hold), HF_OK);
    CHECK_CODE(hf_upgrade(hold, SOON_MS), HF_OK);
    cluster_part(cluster, 0, 1, slot);
    shorten(cluster, name, lease_ms * 2 / 3);
    EVENTUALLY(left_ms(cluster, name) > lease_ms * 2 / 3, SOON_MS);
    CHECK(hf_held(hold));
    cluster_arrive(cluster, 0, 1, slot);
    give_back(hold);
    hf_close(client);
}

TEST(holds_whose_keys_are_at_two_servers_are_not_lost)
{
    struct cluster cluster = { 0 };
    char name[40];

    TEST_TIMEOUT(300);
    cluster_start(&cluster, 0);
    cluster_name(&cluster, "readers", 0, 5000, name, sizeof(name));
    split(&cluster, HF_READ, name);
    cluster_name(&cluster, "permits", 0, 5000, name, sizeof(name));
    split(&cluster, HF_PERMIT, name);
    cluster_name(&cluster, "writers", 0, 5000, name, sizeof(name));
    part_under_a_writer(&cluster, HF_WRITE, name);
    cluster_name(&cluster, "upgraded", 0, 5000, name, sizeof(name));
    part_under_a_writer(&cluster, HF_UPGRADE, name);
    cluster_kill(&cluster);
}

/* ---- one that stands still ---- */

TEST(a_silent_node_stops_nobody_elses_renewals)
{
    struct cluster cluster = { 0 };
    hf_hold *holds[CLUSTER_MASTERS] = { NULL };
    _Atomic int losses[CLUSTER_MASTERS] = { 0 };
    char names[CLUSTER_MASTERS][40];
    int64_t lease_ms = 9000 * test_slow();

    TEST_TIMEOUT(300);
    cluster_start(&cluster, 0);
    hf_client *client = open_on(&cluster, lease_ms);
    for (int i = 0; i < CLUSTER_MASTERS; i++) {
        cluster_name(&cluster, "calm", i * 5462, i * 5462 + 5000, names[i], sizeof(names[i]));
        CHECK_CODE(hf_lock(client, names[i], SOON_MS,
                           LOCK_OPTIONS(.on_lost = count_loss, .lost_arg = &losses[i]), &holds[i]),
                   HF_OK);
    }
    server_stop(&cluster.nodes[0]);
    EVENTUALLY(losses[0] == 1, SOON_MS);
    for (int i = 1; i < CLUSTER_MASTERS; i++) {
        shorten(&cluster, names[i], lease_ms * 2 / 3);
        EVENTUALLY(left_ms(&cluster, names[i]) > lease_ms * 2 / 3, SOON_MS);
        CHECK(hf_held(holds[i]));
        give_back(take(client, names[i], HF_MUTEX, 0));
        give_back(holds[i]);
        CHECK_INT(losses[i], 0);
    }
    CHECK(!hf_held(holds[0]));
    server_continue(&cluster.nodes[0]);
    hf_unlock(holds[0]);
    CHECK_CODE(hf_lock(client, names[0], SOON_MS, NULL, &holds[0]), HF_OK);
    give_back(holds[0]);
    hf_close(client);
    cluster_kill(&cluster);
}

/* ---- what Redisson's clients would see ---- */

/* The second master has the lock; a queue of ours stands. */
static void check_turns(struct cluster *cluster, const char *name, const char *channel)
{
    struct server *master = &cluster->nodes[1];
    hf_client *clients[2] = { open_on(cluster, 600000), open_on(cluster, 600000) };
    char command[200], line[200] = "";
    int turns = 0;

    /* It is a multiple of 64: the next 63 tokens are counted. */
    snprintf(command, sizeof(command), "SET redisson_lock_token:{%s} 9000000000000000 PX 10000000",
             name);
    CHECK(server_says(master, command, "+OK"));
    int fd = server_listen_sharded(master, channel);
    hf_hold *hold = take_patiently(clients[0], name);
    for (int i = 1; i <= 30; i++) {
        struct outcome outcome = { 0 };
        begin_wait(clients[i % 2], name, HF_MUTEX, &outcome);
        snprintf(command, sizeof(command), "ZCARD holdfast_lock_queue:{%s}", name);
        EVENTUALLY(server_says(master, command, ":1"), SOON_MS);
        give_back(hold);
        await_grant(&outcome);
        hold = outcome.hold;
    }
    snprintf(command, sizeof(command), "SPUBLISH %s end", channel);
    CHECK(server_says(master, command, ":1"));
    while (strcmp(line, "end") != 0) {
        CHECK(server_hear(fd, line, sizeof(line)));
        turns += strcmp(line, "0") == 0;
    }
    CHECK(turns > 0);
    CHECK(turns < 30);
    close(fd);
    give_back(hold);
    for (int i = 0; i < 2; i++)
        hf_close(clients[i]);
}

TEST(releases_are_said_and_heard_at_the_locks_own_server)
{
    struct cluster cluster = { 0 };
    struct outcome outcome = { 0 };
    char name[40], channel[100], command[300], line[200] = "";

    TEST_TIMEOUT(200);
    cluster_start(&cluster, 0);
    cluster_name(&cluster, "shared", 6000, 10000, name, sizeof(name));
    snprintf(channel, sizeof(channel), "redisson_lock__channel:{%s}", name);
    hf_client *client = open_on(&cluster, 0);
    int listening = server_listen_sharded(&cluster.nodes[1], channel);
    give_back(take(client, name, HF_MUTEX, 0));
    while (strcmp(line, "smessage") != 0)
        CHECK(server_hear(listening, line, sizeof(line)));
    close(listening);
    check_turns(&cluster, name, channel);
    /* Held by somebody of Redisson's, who has version 4 in his name. */
    snprintf(command, sizeof(command), "HSET %s 12345678-1234-4123-8123-123456789012:1 1", name);
    CHECK(server_says(&cluster.nodes[1], command, ":1"));
    begin_wait(client, name, HF_MUTEX, &outcome);
    snprintf(command, sizeof(command),
             "EVAL \"return redis.call('pubsub', 'shardnumsub', KEYS[1])[2]\" 1 %s", channel);
    EVENTUALLY(server_says(&cluster.nodes[1], command, ":1"), SOON_MS);
    /* At once, or it might look in between and stop listening. */
    snprintf(command, sizeof(command),
             "EVAL \"redis.call('del', KEYS[1]) return redis.call('spublish', KEYS[2], '0')\" 2 "
             "%s %s",
             name, channel);
    CHECK(server_says(&cluster.nodes[1], command, ":1"));
    give_back(await_grant(&outcome));
    hf_close(client);
    cluster_kill(&cluster);
}

/* ---- names, and servers that are none ---- */

TEST(names_that_a_cluster_cannot_have_are_refused)
{
    struct cluster cluster = { 0 };
    struct server alone = { 0 };
    hf_client *client = NULL;
    hf_hold *hold = NULL;
    char url[100];

    TEST_TIMEOUT(200);
    cluster_start(&cluster, 0);
    client = open_on(&cluster, 0);
    CHECK_ERROR(hf_lock(client, "a{b", 0, NULL, &hold), HF_EINVAL);
    CHECK(strstr(hf_last_error()->text, "braces") != NULL);
    CHECK_ERROR(hf_lock(client, "a}b", 0, NULL, &hold), HF_EINVAL);
    give_back(take(client, "a{b}c", HF_MUTEX, 0));
    give_back(take(client, "}{b}", HF_WRITE, 0));
    hf_close(client);
    /* By one of its servers alone the cluster is none; nor is a server of its own a cluster. */
    CHECK_CODE(hf_open(&client, server_url(&cluster.nodes[0], 3000), NULL), HF_OK);
    CHECK_ERROR(hf_lock(client, "shared-0", 0, NULL, &hold), HF_ENOTSUP);
    CHECK(strstr(hf_last_error()->text, "redis+cluster:") != NULL);
    hf_close(client);
    cluster_kill(&cluster);
    server_start(&alone);
    snprintf(url, sizeof(url), "redis+cluster://127.0.0.1:%d", alone.port);
    CHECK_CODE(hf_open(&client, url, NULL), HF_OK);
    CHECK_ERROR(hf_lock(client, "one", 0, NULL, &hold), HF_ENOTSUP);
    CHECK(strstr(hf_last_error()->text, "not part of a cluster") != NULL);
    hf_close(client);
    server_kill(&alone);
}

TEST(urls_that_name_no_cluster_are_refused)
{
    hf_client *client = NULL;

    CHECK_ERROR(hf_open(&client, "redis+cluster://", NULL), HF_EINVAL);
    CHECK_ERROR(hf_open(&client, "redis+cluster://127.0.0.1/3", NULL), HF_EINVAL);
    CHECK_ERROR(hf_open(&client, "redis+cluster://127.0.0.1?db=3", NULL), HF_EINVAL);
    CHECK_CODE(hf_open(&client, "redis+cluster://127.0.0.1:1,127.0.0.1:2", NULL), HF_OK);
    hf_hold *hold = NULL;
    CHECK_ERROR(hf_lock(client, "one", 0, NULL, &hold), HF_UNREACHABLE);
    CHECK(strstr(hf_last_error()->text, "refused") != NULL);
    hf_close(client);
}
