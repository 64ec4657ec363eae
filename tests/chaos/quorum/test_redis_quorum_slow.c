/* SPDX-License-Identifier: Apache-2.0 */
/* Servers of a quorum that answer long after the others have granted the lock, or answer an error
 * that leaves open what they have done. */
#include "quorum.h"
#include "relay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_LEASE_MS 2000
#define LONGER_LEASE_MS 20000
/* The first lease is over by then, and the longer one is not. */
#define AFTER_FIRST_LEASE_MS (FIRST_LEASE_MS + 500)

#define TOKEN "redisson_lock_token:{one}"
#define LARGE_TOKEN "4000000000000000"

/* Server 2 has counted less far than the others, so it is asked for a larger token afterwards. */
static void count_less_far_at_the_last(const struct server servers[QUORUM_SERVERS])
{
    CHECK(server_says(&servers[0], "SET " TOKEN " " LARGE_TOKEN, "+OK"));
    CHECK(server_says(&servers[1], "SET " TOKEN " " LARGE_TOKEN, "+OK"));
    CHECK(server_says(&servers[2], "SET " TOKEN " 1000", "+OK"));
}

static bool has_token(const struct server *server, uint64_t token)
{
    char got[100] = "";
    return server_ask(server, "GET " TOKEN, got, sizeof got) && strtoull(got, NULL, 10) == token;
}

static long lease_left_ms(const struct server *server)
{
    char line[100] = "";
    CHECK(server_tell(server, "PTTL one", line, sizeof line));
    return strtol(line + 1, NULL, 10);
}

struct renewal {
    hf_hold *hold;
    struct server *servers;
};

/* The second thread lets the slow server go on once the renewal has left for it. */
static void renew_at_the_slow_one(void *arg, int index)
{
    struct renewal *renewal = arg;
    if (index == 0) {
        CHECK_CODE(hf_renew(renewal->hold, LONGER_LEASE_MS), HF_OK);
        return;
    }
    EVENTUALLY(lease_left_ms(&renewal->servers[0]) > FIRST_LEASE_MS, SOON_MS);
    server_continue(&renewal->servers[2]);
}

TEST(late_vote_of_a_renewed_lock_keeps_the_longer_lease)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    hf_hold *hold = NULL, *none = NULL;
    quorum_start(servers);
    count_less_far_at_the_last(servers);
    hf_client *client = quorum_open(servers, NEVER_MS, 0);
    hf_client *other = quorum_open(servers, NEVER_MS, 0);

    give_back(take(client, "two", HF_MUTEX, 0));
    server_stop(&servers[2]);
    CHECK_CODE(hf_lock(client, "one", SOON_MS, LOCK_OPTIONS(.lease_ms = FIRST_LEASE_MS), &hold),
               HF_OK);
    server_stop(&servers[1]);
    threads_run(2, renew_at_the_slow_one, &(struct renewal){ hold, servers });
    EVENTUALLY(has_token(&servers[2], hf_token(hold)), SOON_MS);
    CHECK(lease_left_ms(&servers[2]) > FIRST_LEASE_MS);
    let_pass_ms(AFTER_FIRST_LEASE_MS);
    server_continue(&servers[1]);
    EVENTUALLY(server_says(&servers[1], "PING", "+PONG"), SOON_MS);
    CHECK(hf_held(hold));
    CHECK_CODE(hf_lock(other, "one", 0, NULL, &none), HF_BUSY);
    CHECK_CODE(hf_unlock(hold), HF_OK);
    hf_close(client);
    hf_close(other);
    quorum_expect_nothing_left(servers);
    quorum_end(servers);
}

/* The server that was levelled is cut off while the lock is released, until the first lease is
 * over. */
TEST(release_is_repeated_until_the_longer_lease_is_over)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    struct relay relay = { 0 };
    hf_hold *hold = NULL;
    quorum_start(servers);
    count_less_far_at_the_last(servers);
    relay_start(&relay, servers[2].port);
    struct server reached[QUORUM_SERVERS] = { servers[0], servers[1], servers[2] };
    reached[2].port = relay.port;
    hf_client *client = quorum_open(reached, 1500, 0);

    give_back(take(client, "two", HF_MUTEX, 0));
    server_stop(&servers[2]);
    CHECK_CODE(hf_lock(client, "one", SOON_MS, LOCK_OPTIONS(.lease_ms = FIRST_LEASE_MS), &hold),
               HF_OK);
    CHECK_CODE(hf_renew(hold, LONGER_LEASE_MS), HF_OK);
    server_continue(&servers[2]);
    EVENTUALLY(has_token(&servers[2], hf_token(hold)), SOON_MS);
    relay_hold(&relay);
    relay.server_port = free_port();
    CHECK_CODE(hf_unlock(hold), HF_OK);
    let_pass_ms(AFTER_FIRST_LEASE_MS);
    CHECK(server_says(&servers[2], "EXISTS one", ":1"));
    relay.server_port = servers[2].port;
    EVENTUALLY(server_says(&servers[2], "EXISTS one", ":0"), LONGER_LEASE_MS / 2);
    hf_close(client);
    relay_stop(&relay);
    quorum_end(servers);
}

/* ---- a connection that never was ---- */

/* The third server has nothing of the lock, and cannot be asked when the next one wants it: so both
 * others have to have given it back. */
TEST(release_waits_for_two_servers_that_can_grant_the_lock_again)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    struct relay relay = { 0 };
    struct outcome outcome = { 0 };
    quorum_start(servers);
    relay_start(&relay, servers[2].port);
    relay_pause(&relay);
    struct server reached[QUORUM_SERVERS] = { servers[0], servers[1], servers[2] };
    reached[2].port = relay.port;
    hf_client *client = quorum_open(reached, NEVER_MS, LONGER_LEASE_MS);

    hf_hold *hold = take(client, "one", HF_MUTEX, 0);
    server_stop(&servers[1]);
    CHECK_CODE(hf_unlock_async(hold, record_outcome, &outcome), HF_OK);
    EVENTUALLY(server_says(&servers[0], "EXISTS one", ":0"), SOON_MS);
    relay.server_port = free_port();
    relay_cut(&relay);
    let_pass_ms(300);
    CHECK_INT(outcome.calls, 0);
    server_continue(&servers[1]);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_OK);
    hf_close(client);
    relay_stop(&relay);
    quorum_end(servers);
}

/* ---- errors that leave open whether a request was executed ---- */

#define OPEN_ERROR "-upstream failure\r\n"

static void begin_to_lie(struct relay relays[2])
{
    for (int i = 0; i < 2; i++)
        relay_lie(&relays[i], OPEN_ERROR, strlen(OPEN_ERROR), 1);
}

/* Two of the servers are behind proxies, which execute the request and answer an error. The third
 * one hangs: so each call has heard both, and the error takes the place of the next reply. */
TEST(open_errors_of_a_majority_are_missing_replies)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    struct relay relays[2] = { 0 };
    hf_hold *none = NULL;
    quorum_start(servers);
    struct server reached[QUORUM_SERVERS] = { servers[0], servers[1], servers[2] };
    for (int i = 0; i < 2; i++) {
        relay_start(&relays[i], servers[i].port);
        reached[i].port = relays[i].port;
    }
    hf_client *client = quorum_open(reached, NEVER_MS, 0);

    server_stop(&servers[2]);
    CHECK_CODE(hf_unlock(take(client, "one", HF_MUTEX, 0)), HF_OK);
    begin_to_lie(relays);
    CHECK_CODE(hf_lock(client, "one", 0, NULL, &none), HF_UNREACHABLE);
    CHECK(strstr(hf_last_error()->text, "upstream failure"));
    EVENTUALLY(probe(client, "one", HF_MUTEX, 2) == HF_OK, SOON_MS);

    hf_hold *hold = take(client, "one", HF_MUTEX, 0);
    begin_to_lie(relays);
    CHECK_CODE(hf_unlock(hold), HF_OK);
    server_continue(&servers[2]);
    quorum_expect_nothing_left(servers);
    hf_close(client);
    for (int i = 0; i < 2; i++)
        relay_stop(&relays[i]);
    quorum_end(servers);
}
