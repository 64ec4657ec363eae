/* SPDX-License-Identifier: Apache-2.0 */
/* Redis servers that stand still for longer than a client's patience and a lease, and then go on:
 * they execute what they were sent before. No lock may be left to a request that has ended. */
#include "quorum.h"

#include <stdio.h>

#define LEASE_MS 1000

static long script_calls(const struct server *server)
{
    return server_counts(server, "commandstats", "cmdstat_eval:calls=") +
           server_counts(server, "commandstats", "cmdstat_evalsha:calls=");
}

/* The first call is the attempt, which was sent before the pause, the second one its release. */
static void check_given_back(const struct server *server, const char *key)
{
    char command[64];

    EVENTUALLY(script_calls(server) >= 2, SOON_MS);
    snprintf(command, sizeof(command), "EXISTS %s", key);
    CHECK(server_says(server, command, ":0"));
}

/* ---- one server ---- */

struct late {
    hf_mode mode;
    const char *options;
};

static const struct late lates[] = {
    { HF_MUTEX, "" }, { HF_FAIR, "" },   { HF_READ, "" },
    { HF_WRITE, "" }, { HF_PERMIT, "" }, { HF_MUTEX, "&format=simple" },
};
enum { LATES = sizeof(lates) / sizeof(lates[0]) };

static hf_client *open_for(const struct server *server, const struct late *late)
{
    hf_client *client = NULL;
    char url[100];

    snprintf(url, sizeof(url), "%s%s", server_url(server, 1000), late->options);
    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = LEASE_MS)), HF_OK);
    return client;
}

static hf_lock_options options_of(const struct late *late)
{
    return HF_LOCK_OPTIONS(.mode = late->mode, .limit = late->mode == HF_PERMIT ? 3 : 0);
}

static void try_at_a_paused_server(void *arg, int index)
{
    const struct late *late = &lates[index];
    const hf_lock_options options = options_of(late);
    struct server server = { 0 };
    hf_hold *hold = NULL;

    (void)arg;
    server_start(&server);
    hf_client *client = open_for(&server, late);
    CHECK_CODE(hf_lock(client, "warm", SOON_MS, &options, &hold), HF_OK);
    give_back(hold);
    CHECK(server_says(&server, "CONFIG RESETSTAT", "+OK"));
    server_stop(&server);
    CHECK_CODE(hf_lock(client, "late", 0, &options, &hold), HF_UNREACHABLE);
    /* The client still gives it back for a lease; afterwards the server has forgotten it, if it
     * had executed it at once. */
    let_pass_ms(4 * LEASE_MS);
    server_continue(&server);
    check_given_back(&server, late->mode == HF_PERMIT ? "{late}:timeout" : "late");
    hf_close(client);
    server_kill(&server);
}

TEST(an_attempt_at_a_paused_server_is_given_back_when_it_goes_on)
{
    processes_run(LATES, try_at_a_paused_server, NULL);
}

/* ---- a message that overtakes a reply ---- */

#define ROUNDS 5
/* A claim that has missed the message looks again after 2,000 ms. */
#define MISSED_MS 1500

static void break_all(void *arg)
{
    uint32_t broken = 0;

    CHECK_CODE(hf_break(arg, "rw", NULL, &broken), HF_OK);
    CHECK(broken > 0);
}

static uint64_t requests_of(hf_client *client)
{
    hf_stats stats = { .size = sizeof(stats) };

    CHECK_CODE(hf_stats_get(client, &stats), HF_OK);
    return stats.requests;
}

static void write_as(hf_client *client, uint64_t owner, struct outcome *outcome)
{
    CHECK_CODE(hf_lock_async(client, "rw", HF_FOREVER,
                             LOCK_OPTIONS(.mode = HF_WRITE, .owner = owner), record_outcome,
                             outcome, NULL),
               HF_OK);
}

/* The server reads a writer's request and the breaking one in the same turn. It writes to the
 * connection that it has spoken on last first: the message of the second request goes out before
 * the reply to the first. The client listens already, for an upgrade that waits. */
static bool writer_misses_break(struct server *server, hf_client *client, hf_client *other)
{
    struct outcome raised = { 0 }, granted = { 0 };
    struct thread breaker;
    hf_hold *upgrade = take(client, "rw", HF_UPGRADE, 1);
    hf_hold *reader = take(other, "rw", HF_READ, 1);

    write_as(client, 1, &raised);
    EVENTUALLY(waiters(other, "rw") == 1, SOON_MS);
    server_stop(server);
    uint64_t before = requests_of(client);
    write_as(client, 2, &granted);
    EVENTUALLY(requests_of(client) > before, SOON_MS);
    before = requests_of(other);
    thread_start(&breaker, break_all, other);
    EVENTUALLY(requests_of(other) > before, SOON_MS);
    server_continue(server);
    int64_t began_ms = monotonic_ms();
    thread_join(&breaker);
    hf_hold *hold = await_grant(&granted);
    bool missed = monotonic_ms() - began_ms >= MISSED_MS;
    WAIT_OUTCOME(&raised);
    CHECK_CODE(raised.code, HF_LOST);
    give_back(hold);
    CHECK_CODE(hf_unlock(upgrade), HF_LOST);
    CHECK_CODE(hf_unlock(reader), HF_LOST);
    return missed;
}

TEST(waiter_hears_of_a_release_that_overtakes_its_refusal)
{
    const hf_client_options *options = &HF_CLIENT_OPTIONS(.lease_ms = 60000);
    struct server server = { 0 };
    hf_client *clients[2];
    int missed = 0;

    server_start(&server);
    for (int i = 0; i < 2; i++)
        CHECK_CODE(hf_open(&clients[i], server_url(&server, 60000), options), HF_OK);
    for (int i = 0; i < ROUNDS; i++)
        missed += writer_misses_break(&server, clients[0], clients[1]);
    test_note("%d of %d have missed it", missed, ROUNDS);
    CHECK(missed < 2);
    for (int i = 0; i < 2; i++)
        hf_close(clients[i]);
    server_kill(&server);
}

/* ---- looks at circles ---- */

/* Each call looks as soon as it can, and leaves its list when its time is over. */
TEST(lists_of_calls_that_have_ended_are_not_sent_to_a_paused_server)
{
    enum { CALLS = 8 };
    const hf_lock_options options = HF_LOCK_OPTIONS(.deadlock_ms = 1);
    struct server server = { 0 };
    hf_hold *hold = NULL, *more;
    hf_client *client = NULL;

    server_start(&server);
    CHECK_CODE(hf_open(&client, server_url(&server, 60000), NULL), HF_OK);
    CHECK_CODE(hf_lock(client, "held", SOON_MS, NULL, &hold), HF_OK);
    CHECK(server_says(&server, "CONFIG RESETSTAT", "+OK"));
    server_stop(&server);
    for (int i = 0; i < CALLS; i++) {
        char name[20];
        snprintf(name, sizeof(name), "wanted-%d", i);
        CHECK_CODE(hf_lock(client, name, 100, &options, &more), HF_UNREACHABLE);
    }
    server_continue(&server);
    give_back(hold);
    CHECK_INT(server_counts(&server, "commandstats", "cmdstat_client|list:calls="), 1);
    hf_close(client);
    server_kill(&server);
}

/* ---- a quorum ---- */

TEST(an_attempt_at_two_paused_servers_of_a_quorum_is_given_back)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    hf_hold *hold = NULL;

    quorum_start(servers);
    hf_client *client = quorum_open(servers, 1000, LEASE_MS);
    give_back(take_patiently(client, "warm"));
    for (int i = 1; i < QUORUM_SERVERS; i++) {
        CHECK(server_says(&servers[i], "CONFIG RESETSTAT", "+OK"));
        server_stop(&servers[i]);
    }
    CHECK_CODE(hf_lock(client, "late", 0, NULL, &hold), HF_UNREACHABLE);
    let_pass_ms(4 * LEASE_MS);
    for (int i = 1; i < QUORUM_SERVERS; i++)
        server_continue(&servers[i]);
    for (int i = 1; i < QUORUM_SERVERS; i++)
        check_given_back(&servers[i], "late");
    hf_close(client);
    quorum_end(servers);
}
