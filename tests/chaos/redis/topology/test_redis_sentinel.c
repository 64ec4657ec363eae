/* SPDX-License-Identifier: Apache-2.0 */
/* redis+sentinel: on real servers with a real sentinel: the master is found, and found again after
 * a failover, while locks are held and waited for. */
#include "conformance.h"
#include "server.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A sentinel that was short of the processor looks on for half a minute before it acts. */
#define FAILOVER_MS 90000

struct ensemble {
    struct server servers[2]; /* the first begins as the master */
    struct server sentinel;   /* its place, and who it is */
    char port[8];
    const char *arguments[6];
    bool stubborn; /* the first server cannot be made a replica */
};

static void start_sentinel(struct ensemble *ensemble)
{
    char lines[240];

    snprintf(lines, sizeof(lines),
             "sentinel monitor main 127.0.0.1 %d 1\n"
             "sentinel down-after-milliseconds main 1000\n"
             "sentinel failover-timeout main 10000\n",
             ensemble->servers[0].port);
    server_start_sentinel(&ensemble->sentinel, lines);
}

/* A master answers with three parts, a replica with five. */
static bool is_master(const struct server *server)
{
    return server_says(server, "ROLE", "*3");
}

static bool knows_replica(const struct server *sentinel)
{
    return server_says(sentinel, "SENTINEL replicas main", "*1");
}

static void ensemble_start(struct ensemble *ensemble)
{
    struct server *servers = ensemble->servers;
    static const char *const at_once[] = { "--repl-diskless-sync-delay", "0", NULL };
    static const char *const stubborn[] = {
        "--repl-diskless-sync-delay", "0", "--rename-command", "SLAVEOF", "UNHEARD", NULL
    };

    servers[0].arguments = ensemble->stubborn ? stubborn : at_once;
    server_start(&servers[0]);
    snprintf(ensemble->port, sizeof(ensemble->port), "%d", servers[0].port);
    const char *const arguments[] = {
        "--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1", ensemble->port, NULL
    };
    memcpy(ensemble->arguments, arguments, sizeof(arguments));
    servers[1].arguments = ensemble->arguments;
    server_start(&servers[1]);
    EVENTUALLY(server_says(&servers[0], "WAIT 1 1000", ":1"), SOON_MS);
    start_sentinel(ensemble);
    EVENTUALLY(knows_replica(&ensemble->sentinel), FAILOVER_MS);
}

static void ensemble_kill(struct ensemble *ensemble)
{
    server_kill(&ensemble->sentinel);
    server_kill(&ensemble->servers[0]);
    server_kill(&ensemble->servers[1]);
}

/* The first sentinel that is named is not there. */
static const char *ensemble_url(const struct ensemble *ensemble, const char *master, int timeout_ms)
{
    static _Thread_local char url[160];

    snprintf(url, sizeof(url), "redis+sentinel://127.0.0.1:1,127.0.0.1:%d/%s?timeout=%d",
             ensemble->sentinel.port, master, timeout_ms * test_slow());
    return url;
}

static hf_client *open_with_lease(const struct ensemble *ensemble, const char *options,
                                  int64_t lease_ms)
{
    hf_client *client = NULL;
    char url[200];

    snprintf(url, sizeof(url), "%s%s", ensemble_url(ensemble, "main", 3000), options);
    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = lease_ms)), HF_OK);
    return client;
}

static hf_client *open_main(const struct ensemble *ensemble, const char *options)
{
    return open_with_lease(ensemble, options, 120000);
}

static void meet(const char *url, int code, const char *words)
{
    hf_client *client = NULL;
    hf_hold *hold = NULL;

    CHECK_CODE(hf_open(&client, url, NULL), HF_OK);
    CHECK_CODE(hf_lock(client, "one", 0, NULL, &hold), code);
    test_note("%s", hf_last_error()->text);
    CHECK(strstr(hf_last_error()->text, words) != NULL);
    hf_close(client);
}

TEST(the_master_is_found)
{
    struct ensemble ensemble = { 0 };
    char url[100];

    ensemble_start(&ensemble);
    hf_client *client = open_main(&ensemble, "");
    hf_hold *hold = NULL;
    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
    CHECK(server_says(&ensemble.servers[0], "EXISTS one", ":1"));
    give_back(hold);
    hf_close(client);
    meet(ensemble_url(&ensemble, "other", 60000), HF_UNREACHABLE, "\"other\"");
    /* A sentinel that says nothing, and none at all. */
    server_stop(&ensemble.sentinel);
    meet(ensemble_url(&ensemble, "main", 3000), HF_UNREACHABLE, "no sentinel names the master");
    server_continue(&ensemble.sentinel);
    snprintf(url, sizeof(url), "redis+sentinel://127.0.0.1:1,127.0.0.1:2/main");
    meet(url, HF_UNREACHABLE, "refused");
    ensemble_kill(&ensemble);
}

/* The path names the master, so that an option names the database; at the next master, too. */
TEST(the_database_is_the_masters)
{
    struct ensemble ensemble = { 0 };
    hf_hold *hold = NULL;

    TEST_TIMEOUT(200);
    ensemble_start(&ensemble);
    hf_client *client = open_main(&ensemble, "&db=3&sync=1");
    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
    CHECK(server_has_in(&ensemble.servers[0], 3, "one"));
    EVENTUALLY(server_says(&ensemble.sentinel, "SENTINEL FAILOVER main", "+OK"), FAILOVER_MS);
    EVENTUALLY(is_master(&ensemble.servers[1]), FAILOVER_MS);
    EVENTUALLY(!is_master(&ensemble.servers[0]), FAILOVER_MS);
    CHECK(server_has_in(&ensemble.servers[1], 3, "one"));
    CHECK_CODE(hf_unlock(hold), HF_OK);
    CHECK(!server_has_in(&ensemble.servers[1], 3, "one"));
    hf_close(client);
    ensemble_kill(&ensemble);
}

TEST(urls_that_name_no_master_are_refused)
{
    hf_client *client = NULL;

    CHECK_ERROR(hf_open(&client, "redis+sentinel://127.0.0.1", NULL), HF_EINVAL);
    CHECK_ERROR(hf_open(&client, "redis+sentinel:///main", NULL), HF_EINVAL);
    CHECK_ERROR(hf_open(&client, "redis+sentinel://127.0.0.1/main/3", NULL), HF_EINVAL);
    CHECK_ERROR(hf_open(&client, "redis+sentinel://127.0.0.1/main?db=three", NULL), HF_EINVAL);
}

/* Asked for while it still works: what is held goes over to the next master. */
TEST(a_failover_keeps_what_was_replicated)
{
    struct ensemble ensemble = { 0 };
    struct outcome outcome = { 0 };
    hf_hold *hold = NULL;

    TEST_TIMEOUT(200);
    ensemble_start(&ensemble);
    hf_client *client = open_main(&ensemble, "&sync=1"), *other = open_main(&ensemble, "");
    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
    uint64_t token = hf_token(hold);
    begin_wait(other, "one", HF_MUTEX, &outcome);
    EVENTUALLY(server_says(&ensemble.sentinel, "SENTINEL FAILOVER main", "+OK"), FAILOVER_MS);
    EVENTUALLY(is_master(&ensemble.servers[1]), FAILOVER_MS);
    EVENTUALLY(!is_master(&ensemble.servers[0]), FAILOVER_MS);
    CHECK_INT(outcome.calls, 0);
    CHECK(hf_held(hold));
    CHECK_CODE(hf_unlock(hold), HF_OK);
    await_grant(&outcome);
    CHECK(hf_token(outcome.hold) > token);
    CHECK(server_says(&ensemble.servers[1], "EXISTS one", ":1"));
    give_back(outcome.hold);
    hf_close(client);
    hf_close(other);
    ensemble_kill(&ensemble);
}

/* Has somebody renewed it there since the least that was seen of it? */
static bool is_renewed(const struct server *server, const char *name, long *least_ms)
{
    char command[40], line[40] = "";

    snprintf(command, sizeof(command), "PTTL %s", name);
    CHECK(server_tell(server, command, line, sizeof(line)));
    long left_ms = strtol(line + 1, NULL, 10);
    CHECK(line[0] == ':' && left_ms > 0);
    bool renewed = left_ms > *least_ms;
    *least_ms = renewed ? *least_ms : left_ms;
    return renewed;
}

/* Sentinel demotes the old master long after it has named the new one, and here it never does: the
 * old one goes on answering as a master. */
TEST(an_old_master_that_still_answers_is_left)
{
    struct ensemble ensemble = { .stubborn = true };
    struct server *old = &ensemble.servers[0], *new = &ensemble.servers[1];
    long least_ms = LONG_MAX;
    hf_hold *kept = NULL, *forgotten = NULL, *third = NULL;

    TEST_TIMEOUT(200);
    ensemble_start(&ensemble);
    hf_client *client = open_with_lease(&ensemble, "&sync=1", 15000 * (int64_t)test_slow());
    CHECK_CODE(hf_lock(client, "kept", SOON_MS, NULL, &kept), HF_OK);
    CHECK_CODE(hf_lock(client, "forgotten", SOON_MS, NULL, &forgotten), HF_OK);
    EVENTUALLY(server_says(&ensemble.sentinel, "SENTINEL FAILOVER main", "+OK"), FAILOVER_MS);
    EVENTUALLY(is_master(new), FAILOVER_MS);
    CHECK(server_says(new, "DEL forgotten", ":1"));
    EVENTUALLY(is_renewed(new, "kept", &least_ms), SOON_MS);
    EVENTUALLY(!hf_held(forgotten), SOON_MS);
    CHECK(hf_held(kept));
    CHECK(is_master(old));
    hf_client *other = open_main(&ensemble, "");
    CHECK_CODE(hf_lock(other, "kept", 0, NULL, &third), HF_BUSY);
    CHECK_CODE(hf_unlock(forgotten), HF_LOST);
    CHECK_CODE(hf_unlock(kept), HF_OK);
    CHECK_CODE(hf_lock(other, "kept", SOON_MS, NULL, &third), HF_OK);
    CHECK(server_says(new, "EXISTS kept", ":1"));
    give_back(third);
    hf_close(client);
    hf_close(other);
    ensemble_kill(&ensemble);
}

#define WORKERS 64
#define CLIENTS 4

struct work {
    hf_client *clients[CLIENTS];
    struct ensemble *ensemble;
    _Atomic int stop, before, after, failed_over;
};

/* Nothing is promised but that every call comes back, and that it works again afterwards. */
static void work_on(void *arg, int index)
{
    struct work *work = arg;
    hf_client *client = work->clients[index % CLIENTS];
    char name[20];

    snprintf(name, sizeof(name), "lock-%d", index % 7);
    while (!work->stop) {
        hf_hold *hold = NULL;
        bool afterwards = work->failed_over;
        int code = hf_lock(client, name, 2000, NULL, &hold);
        if (code != HF_OK) {
            CHECK(code == HF_BUSY || code == HF_UNREACHABLE);
            continue;
        }
        code = hf_unlock(hold);
        CHECK(code == HF_OK || code == HF_LOST || code == HF_UNREACHABLE);
        work->before += !afterwards && code == HF_OK;
        work->after += afterwards && code == HF_OK;
    }
}

static void break_down(void *arg)
{
    struct work *work = arg;

    EVENTUALLY(work->before > 50, SOON_MS);
    server_kill(&work->ensemble->servers[0]);
    EVENTUALLY(is_master(&work->ensemble->servers[1]), FAILOVER_MS);
    work->failed_over = 1;
    EVENTUALLY(work->after > 50, FAILOVER_MS);
    work->stop = 1;
}

TEST(a_master_that_dies_is_replaced_under_load)
{
    static struct work work;
    struct ensemble ensemble = { 0 };
    struct thread breaking;

    TEST_TIMEOUT(240);
    ensemble_start(&ensemble);
    work.ensemble = &ensemble;
    for (int i = 0; i < CLIENTS; i++)
        work.clients[i] = open_main(&ensemble, "");
    thread_start(&breaking, break_down, &work);
    threads_run(WORKERS, work_on, &work);
    thread_join(&breaking);
    for (int i = 0; i < CLIENTS; i++)
        hf_close(work.clients[i]);
    test_note("%d locks before, %d after", work.before, work.after);
    server_kill(&ensemble.sentinel);
    server_kill(&ensemble.servers[1]);
}

/* How many connections it has had, the one that asks included. */
static long count_connections(const struct server *server)
{
    char line[40] = "";

    CHECK(server_tell(server,
                      "EVAL \"return tonumber(string.match(redis.call('info', 'stats'), "
                      "'total_connections_received:(%d+)'))\" 0",
                      line, sizeof(line)));
    CHECK(line[0] == ':');
    return strtol(line + 1, NULL, 10);
}

/* With a plain URL, too: the name may point to another server by now. */
TEST(a_replica_is_left_and_tried_again)
{
    struct server server = { 0 };
    struct outcome outcome = { 0 };
    hf_client *client = NULL;
    hf_hold *hold = NULL;

    server_start(&server);
    CHECK_CODE(hf_open(&client, server_url(&server, 3000), NULL), HF_OK);
    give_back(take(client, "one", HF_MUTEX, 0));
    CHECK(server_says(&server, "REPLICAOF 127.0.0.1 1", "+OK"));
    long before = count_connections(&server);
    CHECK_ERROR(hf_lock(client, "one", 0, NULL, &hold), HF_UNREACHABLE);
    CHECK(strstr(hf_last_error()->text, "READONLY") != NULL);
    CHECK_ERROR(hf_lock(client, "one", 0, NULL, &hold), HF_UNREACHABLE);
    CHECK(count_connections(&server) > before + 1);
    begin_wait(client, "one", HF_MUTEX, &outcome);
    CHECK(server_says(&server, "REPLICAOF NO ONE", "+OK"));
    give_back(await_grant(&outcome));
    hf_close(client);
    server_kill(&server);
}
