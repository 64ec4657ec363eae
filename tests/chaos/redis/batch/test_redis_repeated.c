/* SPDX-License-Identifier: Apache-2.0 */
/* Attempts that reach the Redis server a second time, long after the lock has been granted. */
#include "relayed.h"

#include <stdio.h>

#define TIMEOUT_MS 300
#define FIRST_LEASE_MS 60000
#define LONGER_LEASE_MS 600000

/* The user may not call CLIENT, so the client cannot end a connection that it has given up. */
static hf_client *open_without_client_rights(const struct server *server, const struct relay *relay,
                                             const char *more)
{
    char url[120];
    hf_client *client = NULL;
    CHECK(server_says(server, "ACL SETUSER bob on >word allkeys allchannels +@all -client", "+OK"));
    snprintf(url, sizeof url, "redis://bob:word@127.0.0.1:%d?timeout=%d%s", relay->port, TIMEOUT_MS,
             more);
    CHECK_CODE(hf_open(&client, url, NULL), HF_OK);
    return client;
}

static int64_t lease_left_ms(hf_client *client)
{
    const struct picture *picture = look(client, "one");
    CHECK_INT(picture->holders, 1);
    return find_role(picture, HF_ROLE_HOLDER, 0)->lease_left_ms;
}

/* The first attempt is held up on its way, the second one on a new connection is granted. */
static void repeat_attempt(hf_mode mode, const char *more)
{
    struct server server = { 0 };
    struct relay relay = { 0 };
    hf_hold *hold = NULL;
    hf_lock_options options =
        HF_LOCK_OPTIONS(.mode = mode, .lease_ms = FIRST_LEASE_MS,
                        .permits = mode == HF_PERMIT ? 3 : 0, .limit = mode == HF_PERMIT ? 5 : 0);

    server_start(&server);
    relay_start(&relay, server.port);
    hf_client *client = open_without_client_rights(&server, &relay, more);
    /* The server knows the script from here on. */
    CHECK_CODE(hf_lock(client, "warm", SOON_MS, &options, &hold), HF_OK);
    give_back(hold);
    relay_hold(&relay);
    CHECK_CODE(hf_lock(client, "one", SOON_MS, &options, &hold), HF_OK);
    CHECK_CODE(hf_renew(hold, LONGER_LEASE_MS), HF_OK);
    CHECK(lease_left_ms(client) > FIRST_LEASE_MS);
    long calls = server_counts(&server, "commandstats", "cmdstat_evalsha:calls=");
    relay_let_go(&relay);
    EVENTUALLY(server_counts(&server, "commandstats", "cmdstat_evalsha:calls=") > calls, SOON_MS);
    CHECK(lease_left_ms(client) > FIRST_LEASE_MS);
    give_back(hold);
    hf_close(client);
    relay_stop(&relay);
    server_kill(&server);
}

TEST(late_attempt_at_a_mutex_keeps_the_renewed_lease)
{
    repeat_attempt(HF_MUTEX, "");
}

TEST(late_attempt_at_a_mutex_without_fence_keeps_the_renewed_lease)
{
    repeat_attempt(HF_MUTEX, "&fence=off");
}

TEST(late_attempt_at_a_plain_lock_keeps_the_renewed_lease)
{
    repeat_attempt(HF_MUTEX, "&format=simple");
}

TEST(late_attempt_at_a_fair_mutex_keeps_the_renewed_lease)
{
    repeat_attempt(HF_FAIR, "");
}

TEST(late_attempt_to_read_keeps_the_renewed_lease)
{
    repeat_attempt(HF_READ, "");
}

TEST(late_attempt_to_write_keeps_the_renewed_lease)
{
    repeat_attempt(HF_WRITE, "");
}

TEST(late_attempt_at_permits_keeps_the_renewed_lease)
{
    repeat_attempt(HF_PERMIT, "");
}

/* A release gives the lock with a lease of its own, which is longer than what the waiter wants. */
static void hand_over_to_short_lease(hf_mode mode, const char *queue_length)
{
    enum { SHORT_LEASE_MS = 2000 };
    struct server server = { 0 };
    struct outcome outcome = { 0 };
    hf_client *client = NULL, *other = NULL;
    hf_lock_options options = HF_LOCK_OPTIONS(.mode = mode, .lease_ms = SHORT_LEASE_MS);

    server_start(&server);
    CHECK_CODE(hf_open(&client, server_url(&server, 3000), NULL), HF_OK);
    CHECK_CODE(hf_open(&other, server_url(&server, 3000), NULL), HF_OK);
    hf_hold *hold = take(other, "one", mode, 0);
    CHECK_CODE(hf_lock_async(client, "one", HF_FOREVER, &options, record_outcome, &outcome, NULL),
               HF_OK);
    EVENTUALLY(value(&server, queue_length) == 1, SOON_MS);
    give_back(hold);
    await_grant(&outcome);
    CHECK(value(&server, "redis.call('pttl','one')") <= SHORT_LEASE_MS);
    hf_unlock(outcome.hold);
    hf_close(client);
    hf_close(other);
    server_kill(&server);
}

TEST(waiter_that_is_given_a_mutex_has_its_own_short_lease)
{
    hand_over_to_short_lease(HF_MUTEX, "redis.call('zcard','holdfast_lock_queue:{one}')");
}

TEST(waiter_that_is_given_a_fair_mutex_has_its_own_short_lease)
{
    hand_over_to_short_lease(HF_FAIR, "redis.call('llen','redisson_lock_queue:{one}')");
}
