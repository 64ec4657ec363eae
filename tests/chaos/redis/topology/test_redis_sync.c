/* SPDX-License-Identifier: Apache-2.0 */
/* sync=N on a server with a real replica: a lock is believed when the replica has it, and a replica
 * that hangs holds up nothing else. */
#include "conformance.h"
#include "relay.h"
#include "server.h"

#include <stdio.h>
#include <stdlib.h>

/* More than any machine needs to hear of a replica, three times. */
#define PATIENT_MS 300000

struct pair {
    struct server server, replica;
    char port[8];
    const char *arguments[4];
};

static void pair_start(struct pair *pair)
{
    static const char *const at_once[] = { "--repl-diskless-sync-delay", "0", NULL };
    char line[40] = "";

    pair->server.arguments = at_once;
    server_start(&pair->server);
    snprintf(pair->port, sizeof(pair->port), "%d", pair->server.port);
    pair->arguments[0] = "--replicaof";
    pair->arguments[1] = "127.0.0.1";
    pair->arguments[2] = pair->port;
    pair->replica.arguments = pair->arguments;
    server_start(&pair->replica);
    EVENTUALLY(server_tell(&pair->server, "WAIT 1 1000", line, sizeof(line)) &&
                   strcmp(line, ":1") == 0,
               SOON_MS);
}

static void pair_kill(struct pair *pair)
{
    server_kill(&pair->replica);
    server_kill(&pair->server);
}

/* Less than a bare try waits for, which no slow machine gets more of: it is to hear how many
 * replicas there were, for which there is a third of it. */
#define TRYING_MS 4000

/* A third of `timeout_ms` is for the replicas. */
static hf_client *open_synced(const struct server *server, int replicas, int timeout_ms)
{
    hf_client *client = NULL;
    char url[200];

    snprintf(url, sizeof(url), "redis://127.0.0.1:%d?timeout=%d&sync=%d", server->port, timeout_ms,
             replicas);
    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = 600000)), HF_OK);
    return client;
}

TEST(what_is_granted_is_at_the_replica)
{
    struct pair pair = { 0 };
    pair_start(&pair);
    hf_client *client = open_synced(&pair.server, 1, PATIENT_MS);
    char name[20], command[40];

    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "lock-%d", i);
        snprintf(command, sizeof(command), "EXISTS lock-%d", i);
        hf_hold *hold = take_patiently(client, name);
        CHECK(server_says(&pair.replica, command, ":1"));
        give_back(hold);
    }
    hf_close(client);
    pair_kill(&pair);
}

static void lock_some(void *arg, int index)
{
    char name[20];

    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof(name), "lock-%d", (index + i) % 5);
        hf_hold *hold = NULL;
        CHECK_CODE(hf_lock(arg, name, HF_FOREVER, NULL, &hold), HF_OK);
        CHECK(hf_token(hold) > 0);
        give_back(hold);
    }
}

TEST(many_threads_share_the_question)
{
    struct pair pair = { 0 };
    pair_start(&pair);
    hf_client *client = open_synced(&pair.server, 1, PATIENT_MS);

    threads_run(16, lock_some, client);
    hf_close(client);
    pair_kill(&pair);
}

TEST(a_replica_that_hangs_means_no)
{
    struct pair pair = { 0 };
    struct outcome outcome = { 0 };
    pair_start(&pair);
    hf_client *client = open_synced(&pair.server, 1, TRYING_MS);
    hf_hold *hold = NULL;

    server_stop(&pair.replica);
    for (int i = 0; i < 2; i++) {
        CHECK_ERROR(hf_lock(client, "one", 0, NULL, &hold), HF_UNREACHABLE);
        CHECK(strstr(hf_last_error()->text, "only 0 of 1 replicas") != NULL);
        EVENTUALLY(server_says(&pair.server, "EXISTS one", ":0"), SOON_MS);
    }
    begin_wait(client, "one", HF_MUTEX, &outcome);
    server_continue(&pair.replica);
    await_grant(&outcome);
    CHECK(server_says(&pair.replica, "EXISTS one", ":1"));
    give_back(outcome.hold);
    hf_close(client);
    pair_kill(&pair);
}

/* Patience ends long before the replicas' time does. */
TEST(who_waits_in_vain_hears_of_the_replicas)
{
    struct pair pair = { 0 };
    hf_hold *hold = NULL;
    pair_start(&pair);
    hf_client *client = open_synced(&pair.server, 1, PATIENT_MS);

    give_back(take_patiently(client, "one"));
    server_stop(&pair.replica);
    CHECK_ERROR(hf_lock(client, "one", 1000 * test_slow(), NULL, &hold), HF_UNREACHABLE);
    CHECK(strstr(hf_last_error()->text, "replicas have not confirmed it") != NULL);
    server_continue(&pair.replica);
    hf_close(client);
    pair_kill(&pair);
}

TEST(a_replica_that_hangs_holds_up_nothing_else)
{
    struct pair pair = { 0 };
    struct outcome outcome = { 0 };
    pair_start(&pair);
    hf_client *client = open_synced(&pair.server, 1, PATIENT_MS);
    hf_hold *hold = take_patiently(client, "held");

    server_stop(&pair.replica);
    begin_wait(client, "one", HF_MUTEX, &outcome);
    EVENTUALLY(server_awaits_replicas(&pair.server), SOON_MS);
    give_back(hold);
    CHECK(server_awaits_replicas(&pair.server));
    CHECK_INT(outcome.calls, 0);
    server_continue(&pair.replica);
    give_back(await_grant(&outcome));
    hf_close(client);
    pair_kill(&pair);
}

static void leave(hf_client *client, const char *name, char key[HF_OWNER_KEY_SIZE])
{
    hf_hold *hold = NULL;

    CHECK_CODE(
        hf_lock(client, name, SOON_MS * test_slow(), LOCK_OPTIONS(.lease_ms = 600000), &hold),
        HF_OK);
    CHECK_CODE(hf_detach(hold, key), HF_OK);
}

/* It was confirmed when it was granted: whoever has its key takes it over, prolongs it and gives it
 * back whatever the replica does. */
TEST(what_was_left_under_a_key_is_taken_over_without_the_replica)
{
    struct pair pair = { 0 };
    char key[HF_OWNER_KEY_SIZE];
    hf_hold *hold = NULL;
    pair_start(&pair);
    hf_client *client = open_synced(&pair.server, 1, PATIENT_MS);
    leave(client, "left", key);

    server_stop(&pair.replica);
    hf_client *other = open_synced(&pair.server, 1, TRYING_MS);
    CHECK_CODE(hf_attach(other, "left", key, &hold), HF_OK);
    CHECK_CODE(hf_renew(hold, 900000), HF_OK);
    CHECK_CODE(hf_detach(hold, key), HF_OK);
    CHECK_CODE(hf_attach(other, "left", key, &hold), HF_OK);
    give_back(hold);
    CHECK(server_says(&pair.server, "EXISTS left", ":0"));
    hf_close(other);
    hf_close(client);
    pair_kill(&pair);
}

/* The replica becomes the master before it has heard of the new key: nobody else has the lock
 * there, and the key that it knows opens it. */
TEST(a_failover_may_forget_the_new_key_but_not_the_lock)
{
    struct pair pair = { 0 };
    char key[HF_OWNER_KEY_SIZE], line[40] = "";
    hf_hold *hold = NULL, *again = NULL;
    pair_start(&pair);
    hf_client *client = open_synced(&pair.server, 1, PATIENT_MS), *after = NULL;
    leave(client, "left", key);

    server_stop(&pair.replica);
    CHECK(server_says(&pair.server, "CLIENT KILL TYPE slave", ":1"));
    CHECK_CODE(hf_attach(client, "left", key, &hold), HF_OK);
    server_kill(&pair.server);
    server_continue(&pair.replica);
    CHECK(server_tell(&pair.replica, "REPLICAOF NO ONE", line, sizeof(line)));
    CHECK_CODE(hf_open(&after, server_url(&pair.replica, PATIENT_MS), NULL), HF_OK);
    CHECK_CODE(probe(after, "left", HF_MUTEX, 0), HF_BUSY);
    CHECK_CODE(hf_attach(after, "left", key, &again), HF_OK);
    give_back(again);
    hf_unlock(hold);
    hf_close(after);
    hf_close(client);
    server_kill(&pair.replica);
}

/* What another client's release gives to us is not believed before that either. */
TEST(a_lock_that_is_handed_over_is_confirmed_first)
{
    struct pair pair = { 0 };
    struct outcome outcome = { 0 };
    char line[40] = "";
    pair_start(&pair);
    hf_client *client = open_synced(&pair.server, 1, PATIENT_MS), *other = NULL;
    CHECK_CODE(hf_open(&other, server_url(&pair.server, PATIENT_MS), NULL), HF_OK);
    hf_hold *hold = take(other, "one", HF_MUTEX, 0);

    begin_wait(client, "one", HF_MUTEX, &outcome);
    EVENTUALLY(waiters(other, "one") == 1, SOON_MS);
    CHECK(server_tell(&pair.server, "WAIT 1 20000", line, sizeof(line)));
    server_stop(&pair.replica);
    give_back(hold);
    EVENTUALLY(server_awaits_replicas(&pair.server), SOON_MS);
    CHECK_INT(outcome.calls, 0);
    server_continue(&pair.replica);
    give_back(await_grant(&outcome));
    hf_close(client);
    hf_close(other);
    pair_kill(&pair);
}

/* Of our connections the one on which locks are asked for. */
static void kill_asking(const struct server *server)
{
    char all[16000], command[60];
    long id = 0;

    CHECK(server_ask(server, "CLIENT LIST", all, sizeof(all)));
    for (char *line = all, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        if (strstr(line, " name=holdfast:") && strstr(line, " cmd=eval"))
            id = strtol(line + strlen("id="), NULL, 10);
    }
    snprintf(command, sizeof(command), "CLIENT KILL ID %ld", id);
    CHECK(server_says(server, command, ":1"));
}

/* The replica has all that this server has now; but what was granted before the connection was lost
 * may have been taken away since, by a failover or by hand, and belong to another. */
TEST(what_was_granted_on_another_connection_is_asked_for_again)
{
    struct pair pair = { 0 };
    struct outcome first = { 0 }, second = { 0 };
    pair_start(&pair);
    hf_client *client = open_synced(&pair.server, 1, PATIENT_MS), *other = NULL;
    give_back(take_patiently(client, "warm"));

    server_stop(&pair.replica);
    begin_wait(client, "one", HF_MUTEX, &first);
    EVENTUALLY(server_awaits_replicas(&pair.server), SOON_MS);
    kill_asking(&pair.server);
    CHECK(server_says(&pair.server, "DEL one", ":1"));
    CHECK_CODE(hf_open(&other, server_url(&pair.server, PATIENT_MS), NULL), HF_OK);
    hf_hold *hold = take(other, "one", HF_MUTEX, 0);
    begin_wait(client, "two", HF_MUTEX, &second);
    EVENTUALLY(server_says(&pair.server, "EXISTS two", ":1"), SOON_MS);
    server_continue(&pair.replica);
    /* Its replicas are asked about in the round after that of the first. */
    await_grant(&second);
    CHECK_INT(first.calls, 0);
    give_back(hold);
    give_back(await_grant(&first));
    give_back(second.hold);
    hf_close(client);
    hf_close(other);
    pair_kill(&pair);
}

/* Behind the address is another server now, which has all the replicas that one could wish for. */
TEST(the_replicas_of_another_server_confirm_nothing)
{
    struct pair pair = { 0 };
    struct server alone = { 0 };
    struct relay relay = { 0 };
    hf_hold *hold = NULL;
    pair_start(&pair);
    server_start(&alone);
    relay_start(&relay, alone.port);
    hf_client *client = open_synced(&(struct server){ .port = relay.port }, 1, PATIENT_MS);

    CHECK_INT(holders(client, "one"), 0);
    relay.server_port = pair.server.port;
    CHECK_ERROR(hf_lock(client, "one", 0, NULL, &hold), HF_UNREACHABLE);
    EVENTUALLY(server_says(&alone, "EXISTS one", ":0"), SOON_MS);
    CHECK(server_says(&pair.server, "EXISTS one", ":0"));
    hf_close(client);
    relay_stop(&relay);
    server_kill(&alone);
    pair_kill(&pair);
}

/* A user who may not publish leaves no mark, and WAIT speaks of what was written before it. */
TEST(a_mark_that_is_refused_confirms_nothing)
{
    struct pair pair = { 0 };
    hf_client *client = NULL;
    hf_hold *hold = NULL;
    char url[120], line[40] = "";
    pair_start(&pair);
    CHECK(server_tell(&pair.server, "ACL SETUSER mute on >word ~* resetchannels +@all", line,
                      sizeof(line)));
    CHECK_STR(line, "+OK");
    server_stop(&pair.replica);
    snprintf(url, sizeof(url), "redis://mute:word@127.0.0.1:%d?sync=1&timeout=%d", pair.server.port,
             TRYING_MS);
    CHECK_CODE(hf_open(&client, url, NULL), HF_OK);
    CHECK_CODE(hf_lock(client, "one", 0, NULL, &hold), HF_UNREACHABLE);
    CHECK(strstr(hf_last_error()->text, "PUBLISH"));
    hf_close(client);
    pair_kill(&pair);
}

static bool has_refused_a_write(const struct server *server)
{
    return server_says(
        server,
        "EVAL \"return string.find(redis.call('info', 'errorstats'), 'NOREPLICAS') and 1 or "
        "0\" 0",
        ":1");
}

/* It may be there all the same, whatever the server says to the next question. */
TEST(a_grant_that_was_not_confirmed_is_given_back_after_a_refusal)
{
    struct pair pair = { 0 };
    struct outcome outcome = { 0 };
    hf_request request = 0;
    char line[40] = "";
    pair_start(&pair);
    hf_client *client = open_synced(&pair.server, 1, TRYING_MS);
    server_stop(&pair.replica);
    CHECK_CODE(hf_lock_async(client, "one", HF_FOREVER, NULL, record_outcome, &outcome, &request),
               HF_OK);
    EVENTUALLY(server_awaits_replicas(&pair.server), SOON_MS);
    CHECK(server_tell(&pair.server, "CONFIG SET min-replicas-to-write 3", line, sizeof(line)));
    EVENTUALLY(has_refused_a_write(&pair.server), SOON_MS);
    CHECK(server_tell(&pair.server, "CONFIG SET min-replicas-to-write 0", line, sizeof(line)));
    CHECK_INT(outcome.calls, 0);
    hf_cancel(client, request);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_CANCELED);
    EVENTUALLY(server_says(&pair.server, "EXISTS one", ":0"), SOON_MS);
    hf_close(client);
    pair_kill(&pair);
}

TEST(fewer_replicas_than_wanted_are_not_enough)
{
    struct pair pair = { 0 };
    pair_start(&pair);
    hf_client *client = open_synced(&pair.server, 2, TRYING_MS);
    hf_hold *hold = NULL;

    CHECK_ERROR(hf_lock(client, "one", 0, NULL, &hold), HF_UNREACHABLE);
    CHECK(strstr(hf_last_error()->text, "of 2 replicas") != NULL);
    EVENTUALLY(server_says(&pair.server, "EXISTS one", ":0"), SOON_MS);
    hf_close(client);
    CHECK_ERROR(hf_open(&client, "redis://127.0.0.1?sync=most", NULL), HF_EINVAL);
    pair_kill(&pair);
}
