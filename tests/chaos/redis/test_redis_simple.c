/* SPDX-License-Identifier: Apache-2.0 */
/* format=simple on a real server: what others who take a lock by SET NX PX see, and what of theirs
 * we respect. */
#include "own_threads.h"
#include "server.h"

#include <stdio.h>

static const char *simple_url(const struct server *server)
{
    static _Thread_local char url[160];

    snprintf(url, sizeof(url), "%s&format=simple", server_url(server, 3000));
    return url;
}

static hf_client *open_simple(const struct server *server, int64_t lease_ms)
{
    hf_client *client = NULL;

    CHECK_CODE(hf_open(&client, simple_url(server), &HF_CLIENT_OPTIONS(.lease_ms = lease_ms)),
               HF_OK);
    return client;
}

/* The first line of the answer is this. */
static void expect(const struct server *server, const char *command, const char *line)
{
    char got[200] = "";

    CHECK(server_tell(server, command, got, sizeof(got)));
    if (strcmp(got, line) != 0)
        FAIL("%s: \"%s\", not \"%s\"", command, got, line);
}

TEST(a_lock_is_a_text_that_expires)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_simple(&server, 20000);
    hf_hold *hold = take(client, "one", HF_MUTEX, 0);

    expect(&server, "TYPE one", "+string");
    expect(&server, "SET one theirs NX PX 1000", "$-1");
    expect(&server,
           "EVAL \"local left = redis.call('pttl', 'one') return left > 0 and left <= 20000\" 0",
           ":1");
    give_back(hold);
    expect(&server, "EXISTS one", ":0");
    /* Nothing is left but the token. */
    expect(&server, "DBSIZE", ":1");
    hf_close(client);
    server_kill(&server);
}

/* Where the machine stood still for so long, the wait was over before the server had answered. */
static void wait_in_vain(hf_client *client)
{
    hf_hold *hold = NULL;
    int code = hf_lock(client, "one", 200, NULL, &hold);

    CHECK(code == HF_BUSY || code == HF_UNREACHABLE);
}

TEST(a_lock_of_somebody_else_is_waited_for_and_left_alone)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_simple(&server, 0);
    struct outcome outcome = { 0 };
    hf_hold *hold = NULL;

    expect(&server, "SET one theirs NX PX 600000", "+OK");
    CHECK_CODE(hf_lock(client, "one", 0, NULL, &hold), HF_BUSY);
    wait_in_vain(client);
    expect(&server, "GET one", "$6");
    begin_wait(client, "one", HF_MUTEX, &outcome);
    /* As their way of giving back does, and much sooner than it would expire. */
    expect(&server, "DEL one", ":1");
    give_back(await_grant(&outcome));
    /* One without an end is waited for, too. */
    expect(&server, "SET one theirs", "+OK");
    wait_in_vain(client);
    hf_close(client);
    server_kill(&server);
}

TEST(what_somebody_else_has_taken_over_is_lost_and_not_given_back)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_simple(&server, 1000);
    _Atomic int losses = 0;
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, "one", SOON_MS,
                       LOCK_OPTIONS(.on_lost = count_loss, .lost_arg = &losses), &hold),
               HF_OK);
    expect(&server, "SET one theirs", "+OK");
    EVENTUALLY(losses == 1, SOON_MS);
    CHECK(!hf_held(hold));
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    expect(&server, "GET one", "$6");
    hf_close(client);
    server_kill(&server);
}

TEST(tokens_rise_whoever_holds_between)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_simple(&server, 0);
    uint64_t last = 0;

    for (int i = 0; i < 20; i++) {
        hf_hold *hold = take(client, "one", HF_MUTEX, 0);
        CHECK(hf_token(hold) > last);
        last = hf_token(hold);
        give_back(hold);
        expect(&server, "SET one theirs NX PX 60000", "+OK");
        expect(&server, "DEL one", ":1");
    }
    hf_close(client);
    server_kill(&server);
}

TEST(breaking_takes_only_what_was_meant)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_simple(&server, 0);
    uint32_t broken = 9;

    CHECK_CODE(hf_break(client, "one", NULL, &broken), HF_OK);
    CHECK_INT(broken, 0);
    expect(&server, "SET one theirs NX PX 60000", "+OK");
    CHECK_CODE(hf_break(client, "one", "somebody", &broken), HF_BUSY);
    expect(&server, "EXISTS one", ":1");
    CHECK_CODE(hf_break(client, "one", "theirs", &broken), HF_OK);
    CHECK_INT(broken, 1);
    expect(&server, "EXISTS one", ":0");
    hf_close(client);
    server_kill(&server);
}

/* The two formats do not see each other's locks as free. */
TEST(another_kind_of_thing_is_left_alone)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_simple(&server, 0), *other = NULL;
    hf_hold *hold = NULL;

    CHECK_CODE(hf_open(&other, server_url(&server, 3000), NULL), HF_OK);
    hf_hold *theirs = take(other, "one", HF_MUTEX, 0);
    CHECK_ERROR(hf_lock(client, "one", 0, NULL, &hold), HF_EKIND);
    CHECK_ERROR(hf_break(client, "one", NULL, NULL), HF_EKIND);
    CHECK(hf_held(theirs));
    give_back(theirs);
    theirs = take(client, "one", HF_MUTEX, 0);
    CHECK_ERROR(hf_lock(other, "one", 0, NULL, &hold), HF_EKIND);
    give_back(theirs);
    CHECK_ERROR(hf_lock(client, "one", 0, LOCK_OPTIONS(.mode = HF_READ), &hold), HF_ENOTSUP);
    hf_close(client);
    hf_close(other);
    server_kill(&server);
}

TEST(a_format_that_does_not_exist_is_refused)
{
    hf_client *client = NULL;

    CHECK_ERROR(hf_open(&client, "redis://127.0.0.1?format=plain", NULL), HF_EINVAL);
    CHECK(strstr(hf_last_error()->text, "format") != NULL);
}

#define ROUNDS 100
/* By polls alone it takes 8 s and more. */
#define QUICK_MS 4000
#define GRANTS 10

TEST(threads_of_one_client_hand_over_without_polling)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_simple(&server, 20000);

    int64_t took_ms = own_threads_hand_over_ms(client, ROUNDS);
    test_note("%lld ms", (long long)took_ms);
    CHECK(took_ms < QUICK_MS * test_slow());
    hf_close(client);
    server_kill(&server);
}

/* With hand-overs in a row without an end, the other client meets the lock free once in 100 of its
 * polls. */
TEST(hand_overs_within_a_client_let_another_client_in)
{
    struct server server = { 0 };

    TEST_TIMEOUT(180);
    server_start(&server);
    hf_client *client = open_simple(&server, 20000), *other = open_simple(&server, 20000);
    CHECK(own_threads_beside(client, other, GRANTS) < 30 * GRANTS);
    hf_close(client);
    hf_close(other);
    server_kill(&server);
}
