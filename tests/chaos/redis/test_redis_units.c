/* SPDX-License-Identifier: Apache-2.0 */
/* Units of a counter have neither owner nor lease: nothing brings them back but their own release.
 */
#include "relayed.h"

#include <stdio.h>
#include <sys/stat.h>

#define TIMEOUT_MS 500

static long count(const struct server *server)
{
    return value(server, "tonumber(redis.call('get','count'))");
}

static void ask(hf_client *client, struct outcome *outcome, hf_request *request)
{
    CHECK_CODE(hf_lock_async(client, "count", HF_FOREVER,
                             LOCK_OPTIONS(.mode = HF_COUNTER, .permits = 4), record_outcome,
                             outcome, request),
               HF_OK);
}

/* ---- a server that takes no writes ---- */

/* It cannot put its snapshot where a directory is. */
static void let_snapshot_fail(const struct server *server)
{
    char path[256], text[4000];

    snprintf(path, sizeof(path), "%s/dump.rdb", server->directory);
    CHECK(mkdir(path, 0700) == 0);
    CHECK(server_tell(server, "BGSAVE", NULL, 0));
    EVENTUALLY(server_ask(server, "INFO persistence", text, sizeof(text)) &&
                   strstr(text, "rdb_last_bgsave_status:err"),
               SOON_MS);
}

/* The units are taken, the answer is lost, and the release is refused. */
TEST(units_come_back_when_the_server_takes_writes_again)
{
    static const char *const arguments[] = { "--save", "3600 1", NULL };
    struct relayed relayed = { .server.arguments = arguments };
    struct outcome outcome = { 0 };
    const struct server *server = &relayed.server;
    hf_request request;

    begin_relayed(&relayed);
    relay_swallow(&relayed.relay);
    ask(relayed.client, &outcome, &request);
    EVENTUALLY(count(server) == 6, SOON_MS);
    let_snapshot_fail(server);
    hf_cancel(relayed.client, request);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_CANCELED);
    relay_cut(&relayed.relay);
    EVENTUALLY(server_counts(server, "errorstats", "errorstat_MISCONF:count=") > 0, SOON_MS);
    CHECK(server_says(server, "CONFIG SET stop-writes-on-bgsave-error no", "+OK"));
    EVENTUALLY(count(server) == 10, SOON_MS);
    EVENTUALLY(keys_like(server, "holdfast_taken*") == 0, SOON_MS);
    end_relayed(&relayed);
}

/* ---- attempts that arrive late ---- */

struct delayed {
    struct server server;
    struct relay relay;
    hf_client *client;
};

/* Of a user who may not call CLIENT, so that it cannot end a connection that was given up. */
static void begin(struct delayed *delayed)
{
    char url[100];

    server_start(&delayed->server);
    relay_start(&delayed->relay, delayed->server.port);
    CHECK(server_says(&delayed->server, "SET count 10", "+OK"));
    CHECK(server_says(&delayed->server,
                      "ACL SETUSER bob on >word allkeys allchannels +@all -client", "+OK"));
    snprintf(url, sizeof(url), "redis://bob:word@127.0.0.1:%d?timeout=%d", delayed->relay.port,
             TIMEOUT_MS);
    CHECK_CODE(hf_open(&delayed->client, url, NULL), HF_OK);
    give_back(take_patiently(delayed->client, "warm"));
    relay_hold(&delayed->relay);
}

/* What was held up arrives now. */
static void end(struct delayed *delayed)
{
    hf_close(delayed->client);
    relay_let_go(&delayed->relay);
}

static void stop(struct delayed *delayed)
{
    relay_stop(&delayed->relay);
    server_kill(&delayed->server);
}

TEST(an_attempt_that_arrives_behind_its_release_takes_no_units)
{
    struct delayed delayed = { 0 };

    begin(&delayed);
    CHECK_CODE(hf_counter_take(delayed.client, "count", 4, 0), HF_UNREACHABLE);
    EVENTUALLY(keys_like(&delayed.server, "holdfast_taken*") == 1, SOON_MS);
    end(&delayed);
    CHECK_INT(count(&delayed.server), 10);
    stop(&delayed);
}

TEST(an_attempt_that_arrives_behind_its_repetition_takes_no_units)
{
    struct delayed delayed = { 0 };
    struct outcome outcome = { 0 };

    begin(&delayed);
    ask(delayed.client, &outcome, NULL);
    await_grant(&outcome);
    CHECK_INT(count(&delayed.server), 6);
    end(&delayed);
    CHECK_INT(count(&delayed.server), 6);
    stop(&delayed);
}

/* ---- a client that is closed while its server stands still ---- */

static void begin_closing(struct server *server, hf_client **client, int timeout_ms)
{
    server_start(server);
    CHECK(server_says(server, "SET count 10", "+OK"));
    CHECK_CODE(hf_open(client, server_url(server, timeout_ms),
                       &HF_CLIENT_OPTIONS(.request_timeout_ms = 300)),
               HF_OK);
    give_back(take_patiently(*client, "warm"));
    CHECK(server_says(server, "CONFIG RESETSTAT", "+OK"));
    server_stop(server);
}

static long script_calls(const struct server *server)
{
    return server_counts(server, "commandstats", "cmdstat_eval:calls=") +
           server_counts(server, "commandstats", "cmdstat_evalsha:calls=");
}

/* The attempt is the first call, its release the second one. */
static void end_closing(struct server *server, hf_client *client)
{
    hf_close(client);
    server_continue(server);
    EVENTUALLY(script_calls(server) >= 2, SOON_MS);
}

TEST(units_come_back_when_their_client_is_closed_before_the_server_answers)
{
    struct server server = { 0 };
    hf_client *client = NULL;

    begin_closing(&server, &client, 60000);
    CHECK_CODE(hf_counter_take(client, "count", 4, 0), HF_UNREACHABLE);
    end_closing(&server, client);
    CHECK_INT(count(&server), 10);
    server_kill(&server);
}

/* The attempt is on a connection that was given up, and the next one is not greeted. */
TEST(units_come_back_over_a_connection_that_was_not_answered)
{
    struct server server = { 0 };
    hf_client *client = NULL;

    begin_closing(&server, &client, 400);
    CHECK_CODE(hf_counter_take(client, "count", 4, 0), HF_UNREACHABLE);
    let_pass_ms(1500);
    end_closing(&server, client);
    CHECK_INT(count(&server), 10);
    server_kill(&server);
}

/* So does a lock whose lease would be long. */
TEST(lock_comes_back_when_its_client_is_closed_before_the_server_answers)
{
    struct server server = { 0 };
    hf_client *client = NULL;
    hf_hold *hold = NULL;

    begin_closing(&server, &client, 60000);
    CHECK_CODE(hf_lock(client, "late", 0, LOCK_OPTIONS(.lease_ms = 3600000), &hold),
               HF_UNREACHABLE);
    end_closing(&server, client);
    CHECK(server_says(&server, "EXISTS late", ":0"));
    server_kill(&server);
}
