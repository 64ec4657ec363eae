/* SPDX-License-Identifier: Apache-2.0 */
/* A client whose two connections lead to different servers: an address that moves, and a failover
 * that one connection has missed. The servers are real, and so is the sentinel. */
#include "conformance.h"
#include "relay.h"
#include "server.h"

#include <stdio.h>
#include <stdlib.h>

/* A claim that is granted by the wrong server would be granted within this. */
#define WRONG_GRANT_MS 700

/* The old master and the new one know nothing of each other, as after a partition. */
struct masters {
    struct server old, new, sentinel;
    struct relay relay; /* an address that leads to the old one first */
    hf_client *client, *at_old, *at_new;
};

static hf_client *open_url(const char *url)
{
    hf_client *client = NULL;
    /* No lease ends within the test. */
    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = 600000)), HF_OK);
    return client;
}

static void begin(struct masters *masters)
{
    server_start(&masters->old);
    server_start(&masters->new);
    masters->at_old = open_url(server_url(&masters->old, 60000));
    masters->at_new = open_url(server_url(&masters->new, 60000));
}

static void begin_with_address(struct masters *masters)
{
    char url[100];
    begin(masters);
    relay_start(&masters->relay, masters->old.port);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?timeout=60000", masters->relay.port);
    masters->client = open_url(url);
}

static void end(struct masters *masters)
{
    hf_close(masters->client);
    hf_close(masters->at_old);
    hf_close(masters->at_new);
    if (masters->relay.port)
        relay_stop(&masters->relay);
    if (masters->sentinel.port)
        server_kill(&masters->sentinel);
    server_kill(&masters->old);
    server_kill(&masters->new);
}

static bool is_listened_to(const struct server *server)
{
    return !server_says(server, "CLIENT LIST TYPE pubsub", "$0");
}

static bool somebody_waits_at(const struct server *server)
{
    return server_says(server, "ZCARD holdfast_lock_queue:{one}", ":1");
}

/* Connections that send requests end; those that wait for messages stay. */
static void cut_requests(const struct server *server)
{
    CHECK(server_tell(server, "CLIENT KILL TYPE normal SKIPME yes", NULL, 0));
}

/* The same name is held at both, and the client waits at the old one. */
static void wait_at_the_old(struct masters *masters, struct outcome *outcome)
{
    begin_wait(masters->client, "one", HF_MUTEX, outcome);
    EVENTUALLY(somebody_waits_at(&masters->old), SOON_MS);
    CHECK(is_listened_to(&masters->old));
}

/* The release at the old master grants the claim that is in line there. */
static void release_at_the_old(hf_hold *hold, const struct outcome *outcome)
{
    CHECK_CODE(hf_unlock(hold), HF_OK);
    let_pass_ms(WRONG_GRANT_MS);
    CHECK_INT(outcome->calls, 0);
}

static void release_at_the_new(hf_hold *hold, struct outcome *outcome)
{
    CHECK_CODE(hf_unlock(hold), HF_OK);
    give_back(await_grant(outcome));
}

TEST(grant_from_the_old_server_of_a_moved_address_is_not_believed)
{
    struct masters masters = { 0 };
    struct outcome outcome = { 0 };
    begin_with_address(&masters);
    hf_hold *at_old = take(masters.at_old, "one", HF_MUTEX, 0);
    hf_hold *at_new = take(masters.at_new, "one", HF_MUTEX, 0);

    wait_at_the_old(&masters, &outcome);
    masters.relay.server_port = masters.new.port;
    cut_requests(&masters.old);
    EVENTUALLY(somebody_waits_at(&masters.new), SOON_MS);
    release_at_the_old(at_old, &outcome);
    release_at_the_new(at_new, &outcome);
    end(&masters);
}

TEST(waiter_follows_a_moved_address_with_both_connections)
{
    struct masters masters = { 0 };
    struct outcome outcome = { 0 };
    begin_with_address(&masters);
    hf_hold *at_old = take(masters.at_old, "one", HF_MUTEX, 0);
    hf_hold *at_new = take(masters.at_new, "one", HF_MUTEX, 0);

    wait_at_the_old(&masters, &outcome);
    masters.relay.server_port = masters.new.port;
    cut_requests(&masters.old);
    EVENTUALLY(is_listened_to(&masters.new), SOON_MS);
    EVENTUALLY(!is_listened_to(&masters.old), SOON_MS);
    release_at_the_new(at_new, &outcome);
    give_back(at_old);
    end(&masters);
}

/* ---- failovers ---- */

static void name_master(const struct server *sentinel, const struct server *master)
{
    char command[80];
    snprintf(command, sizeof command, "SENTINEL MONITOR main 127.0.0.1 %d 1", master->port);
    server_tell(sentinel, "SENTINEL REMOVE main", NULL, 0);
    CHECK(server_says(sentinel, command, "+OK"));
}

static void begin_with_sentinel(struct masters *masters)
{
    struct server *sentinel = &masters->sentinel;
    char url[100];
    begin(masters);
    server_start_sentinel(sentinel, "");
    name_master(sentinel, &masters->old);
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/main?timeout=60000", sentinel->port);
    masters->client = open_url(url);
}

TEST(grant_from_the_old_master_is_not_believed)
{
    struct masters masters = { 0 };
    struct outcome outcome = { 0 };
    begin_with_sentinel(&masters);
    hf_hold *at_old = take(masters.at_old, "one", HF_MUTEX, 0);
    hf_hold *at_new = take(masters.at_new, "one", HF_MUTEX, 0);

    wait_at_the_old(&masters, &outcome);
    name_master(&masters.sentinel, &masters.new);
    cut_requests(&masters.old);
    EVENTUALLY(somebody_waits_at(&masters.new), SOON_MS);
    release_at_the_old(at_old, &outcome);
    release_at_the_new(at_new, &outcome);
    end(&masters);
}

/* The listening connection is opened while a sentinel still names the old master. */
TEST(listening_connection_opened_during_a_failover_leaves_the_old_master)
{
    struct masters masters = { 0 };
    struct outcome outcome = { 0 };
    begin_with_sentinel(&masters);
    hf_hold *at_new = take(masters.at_new, "one", HF_MUTEX, 0);

    name_master(&masters.sentinel, &masters.new);
    give_back(take(masters.client, "two", HF_MUTEX, 0));
    name_master(&masters.sentinel, &masters.old);
    begin_wait(masters.client, "one", HF_MUTEX, &outcome);
    EVENTUALLY(is_listened_to(&masters.old), SOON_MS);
    name_master(&masters.sentinel, &masters.new);
    EVENTUALLY(is_listened_to(&masters.new), SOON_MS);
    EVENTUALLY(!is_listened_to(&masters.old), SOON_MS);
    release_at_the_new(at_new, &outcome);
    end(&masters);
}
