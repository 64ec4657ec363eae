/* SPDX-License-Identifier: Apache-2.0 */
/* fence=off: nothing is kept for tokens, and whoever does want them is not disturbed. */
#include "conformance.h"
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN "redisson_lock_token:{one}"
#define FAR_AHEAD "9000000000000000"

static hf_client *open_with(const struct server *server, const char *options)
{
    char url[160];
    hf_client *client = NULL;

    snprintf(url, sizeof(url), "%s%s", server_url(server, 20000), options);
    CHECK_CODE(hf_open(&client, url, NULL), HF_OK);
    return client;
}

static void take_without_token(hf_client *client, const struct server *server, hf_mode mode)
{
    hf_hold *hold = take(client, "one", mode, 0);

    CHECK_INT(hf_token(hold), 0);
    give_back(hold);
    CHECK(server_says(server, "EXISTS " TOKEN, ":0"));
}

TEST(nothing_is_kept_for_tokens)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_READ, HF_WRITE };
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_with(&server, "&fence=off");

    CHECK((hf_caps(client) & (HF_CAP_TOKEN | HF_CAP_RW)) == HF_CAP_RW);
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        take_without_token(client, &server, modes[i]);
    CHECK(server_says(&server, "DBSIZE", ":0"));
    CHECK_CODE(hf_semaphore_set(client, "one", 2), HF_OK);
    take_without_token(client, &server, HF_PERMIT);
    hf_close(client);
    client = open_with(&server, "&fence=off&format=simple");
    CHECK(!(hf_caps(client) & (HF_CAP_TOKEN | HF_CAP_RW)));
    CHECK(server_says(&server, "FLUSHALL", "+OK"));
    take_without_token(client, &server, HF_MUTEX);
    CHECK(server_says(&server, "DBSIZE", ":0"));
    hf_close(client);
    server_kill(&server);
}

/* A release gives it to `waiter`. */
static hf_hold *hand_over(hf_client *holder, hf_client *waiter, hf_mode mode)
{
    hf_hold *hold = take(holder, "one", mode, 0);
    struct outcome outcome = { 0 };

    begin_wait(waiter, "one", mode, &outcome);
    EVENTUALLY(waiters(holder, "one") == 1, SOON_MS);
    give_back(hold);
    await_grant(&outcome);
    return outcome.hold;
}

TEST(who_waits_is_given_it_all_the_same)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR };
    struct server server = { 0 };
    server_start(&server);
    hf_client *one = open_with(&server, "&fence=off"), *other = open_with(&server, "&fence=off");

    for (int i = 0; i < 10; i++) {
        hf_hold *hold = hand_over(one, other, modes[i % 2]);
        CHECK_INT(hf_token(hold), 0);
        give_back(hold);
    }
    CHECK(server_says(&server, "EXISTS " TOKEN, ":0"));
    hf_close(one);
    hf_close(other);
    server_kill(&server);
}

/* Whoever lets go of it, wanting none: the next one wants to be able to go on from there. */
TEST(who_wants_a_token_has_one_that_is_kept)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR };
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_with(&server, "&fence=off"), *other = open_with(&server, "");

    for (int i = 0; i < 2; i++) {
        CHECK(server_says(&server, "FLUSHALL", "+OK"));
        hf_hold *hold = hand_over(client, other, modes[i]);
        CHECK(hf_token(hold) > 0);
        CHECK(server_says(&server, "EXISTS " TOKEN, ":1"));
        give_back(hold);
    }
    hf_close(client);
    hf_close(other);
    server_kill(&server);
}

/* Not even the clock, which is behind here, would say how far they are. */
TEST(the_tokens_of_others_go_on_rising)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR };
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_with(&server, "&fence=off"), *other = open_with(&server, "");
    uint64_t token = strtoull(FAR_AHEAD, NULL, 10);

    CHECK(server_says(&server, "SET " TOKEN " " FAR_AHEAD " PX 100000", "+OK"));
    for (int i = 0; i < 10; i++) {
        hf_hold *hold =
            i < 5 ? hand_over(client, other, modes[i % 2]) : take(other, "one", modes[i % 2], 0);
        CHECK(hf_token(hold) > token);
        token = hf_token(hold);
        give_back(hold);
        give_back(take(client, "one", modes[i % 2], 0));
    }
    hf_close(client);
    client = open_with(&server, "&fence=off&format=simple");
    hf_client *plain = open_with(&server, "&format=simple");
    for (int i = 0; i < 2; i++) {
        give_back(take(client, "one", HF_MUTEX, 0));
        hf_hold *hold = take(plain, "one", HF_MUTEX, 0);
        CHECK(hf_token(hold) > token);
        token = hf_token(hold);
        give_back(hold);
    }
    hf_close(client);
    hf_close(plain);
    hf_close(other);
    server_kill(&server);
}

static void is_refused(const char *url, const char *words)
{
    hf_client *client = NULL;

    CHECK_ERROR(hf_open(&client, url, NULL), HF_EINVAL);
    CHECK(strstr(hf_last_error()->text, words) != NULL);
}

TEST(what_cannot_be_is_refused)
{
    is_refused("redis://127.0.0.1?fence=maybe", "fence is on or off");
    is_refused("quorum:redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3?fence=off",
               "leave out fence");
}
