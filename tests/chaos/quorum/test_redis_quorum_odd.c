/* SPDX-License-Identifier: Apache-2.0 */
/* A quorum of which one server is odd: it forgets what it has granted, or its scripts, or it counts
 * as no other does. */
#include "quorum.h"
#include "redis_script.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- servers that forget ---- */

/* It goes on with the connections that it has, and asks for each script anew. */
static void forget(const struct server *server)
{
    CHECK(server_says(server, "FLUSHALL", "+OK"));
    CHECK(server_says(server, "SCRIPT FLUSH", "+OK"));
}

static uint64_t token_at(const struct server *server)
{
    char text[40] = "";

    CHECK(server_ask(server, "GET redisson_lock_token:{one}", text, sizeof(text)));
    return strtoull(text, NULL, 10);
}

/* Each of three, and no two of them at a time: most have had it always. */
TEST(servers_that_forget_one_after_the_other_take_nothing_away)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    _Atomic int losses = 0;
    hf_hold *none = NULL;
    quorum_start(servers);
    /* Who has forgotten it is asked for it anew after its time-out. */
    hf_client *client = quorum_open(servers, 2000, 9000);
    hf_client *other = quorum_open(servers, SLOW_MS, 3000);
    hf_hold *hold = take_watched(client, "one", &losses);

    quorum_expect_everywhere(servers);
    forget(&servers[0]);
    /* Where it counts from is far behind the others' by then. */
    CHECK(server_says(&servers[0], "SET redisson_lock_token:{one} 5", "+OK"));
    quorum_expect_everywhere(servers);
    CHECK(token_at(&servers[0]) >= hf_token(hold));
    server_kill(&servers[1]);
    server_start_again(&servers[1]);
    CHECK_CODE(hf_lock(other, "one", 0, NULL, &none), HF_BUSY);
    quorum_expect_everywhere(servers);
    CHECK_INT(losses, 0);
    CHECK(hf_held(hold));
    give_back(hold);
    quorum_expect_nothing_left(servers);
    hf_close(client);
    hf_close(other);
    quorum_end(servers);
}

static void expect_renewal(const hf_hold *hold, int64_t lease_ms)
{
    EVENTUALLY(hf_remaining_ms(hold) < lease_ms * 5 / 6, SOON_MS);
    EVENTUALLY(hf_remaining_ms(hold) > lease_ms * 5 / 6, SOON_MS);
}

/* If somebody breaks the lock, and one server hears of that later than the other, though not later
 * than its time-out, it is broken: the first one is not asked for it anew before that, however
 * often the others have said that they have it. */
TEST(two_servers_that_forget_within_a_time_out_are_a_loss)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    _Atomic int losses = 0;
    int64_t lease_ms = (int64_t)6000 * test_slow();
    quorum_start(servers);
    hf_client *client = quorum_open(servers, NEVER_MS, lease_ms);
    hf_hold *hold = take_watched(client, "one", &losses);

    quorum_expect_everywhere(servers);
    forget(&servers[0]);
    /* One by which it says so, one that confirms the lock, and one with which it would be asked. */
    for (int i = 0; i < 3; i++)
        expect_renewal(hold, lease_ms);
    CHECK(server_says(&servers[0], "EXISTS one", ":0"));
    forget(&servers[1]);
    EVENTUALLY(losses == 1, SOON_MS);
    CHECK(!hf_held(hold));
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    quorum_expect_nothing_left(servers);
    hf_close(client);
    quorum_end(servers);
}

/* What a server that hangs is told to forget it hears when nobody is there any more to say it in
 * other words: so it is said with the script's text, though the script has been sent before. */
TEST(what_is_given_back_behind_a_question_needs_no_script_that_is_there)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    hf_client *alone = NULL;
    char url[100];
    quorum_start(servers);
    hf_client *client = quorum_open(servers, NEVER_MS, 600000);

    for (int i = 0; i < 2; i++)
        give_back(take(client, "one", HF_MUTEX, 0));
    quorum_expect_nothing_left(servers);
    forget(&servers[2]);
    snprintf(url, sizeof(url), "redis://127.0.0.1:%d?format=simple", servers[2].port);
    CHECK_CODE(hf_open(&alone, url, NULL), HF_OK);
    /* It has the one script again, and not the other. */
    hf_hold *hold = take(alone, "three", HF_MUTEX, 0);
    server_stop(&servers[2]);
    give_back(take(client, "one", HF_MUTEX, 0));
    hf_close(client);
    server_continue(&servers[2]);
    CHECK(server_says(&servers[2], "PING", "+PONG"));
    EVENTUALLY(server_says(&servers[2], "EXISTS redisson_lock_token:{one}", ":1"), SOON_MS);
    quorum_expect_nothing_left(servers);
    give_back(hold);
    hf_close(alone);
    quorum_end(servers);
}

/* ---- a server that is played ---- */

struct played {
    struct script script;
    _Atomic int grants, returns;
    _Atomic uint64_t asked_for; /* the least token that it was asked for last */
};

/* It grants whatever it is asked for, always by the same token. */
static const char *stand_still(struct script *script, const struct script_call *call)
{
    struct played *played = script->arg;
    const char *usual = script_usual(call);

    if (!script_is_called(call))
        return usual ? usual : "+OK\r\n";
    /* The script, how many keys, two keys, who, for how long, how long for the token, the least. */
    if (call->count == 9) {
        played->grants++;
        played->asked_for = strtoull(call->words[8], NULL, 10);
        return "*2\r\n:1\r\n$2\r\n42\r\n";
    }
    played->returns++;
    return ":1\r\n";
}

/* With one of the others it would be a majority, whose token the next one might not go beyond. */
TEST(a_server_whose_token_never_rises_is_of_no_use)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    struct played played = { .script = { .answer = stand_still, .arg = &played } };
    hf_hold *hold = NULL;
    for (int i = 0; i < 2; i++)
        server_start(&servers[i]);
    script_start(&played.script);
    servers[2].port = played.script.port;
    hf_client *client = quorum_open(servers, SLOW_MS, 600000);

    server_kill(&servers[1]);
    CHECK_CODE(hf_lock(client, "one", 0, NULL, &hold), HF_UNREACHABLE);
    CHECK(strstr(hf_last_error()->text, "2 of the quorum's 3 servers") != NULL);
    CHECK_INT(played.grants, 2);
    CHECK(played.asked_for == token_at(&servers[0]));
    EVENTUALLY(played.returns > 0, SOON_MS);
    EVENTUALLY(server_says(&servers[0], "EXISTS one", ":0"), SOON_MS);
    server_start_again(&servers[1]);
    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
    CHECK(hf_token(hold) > 42);
    give_back(hold);
    hf_close(client);
    script_end(&played.script);
    server_kill(&servers[0]);
    server_kill(&servers[1]);
}

/* ---- one that refuses ---- */

static long scripts(const struct server *server)
{
    return server_counts(server, "commandstats", "cmdstat_eval:calls=") +
           server_counts(server, "commandstats", "cmdstat_evalsha:calls=");
}

/* It was asked to take back what it may have begun when it refused, and is not asked again and
 * again when the lock is given back. */
TEST(a_server_that_refuses_is_not_asked_to_give_back)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    quorum_start(servers);
    CHECK(server_says(&servers[2], "ACL SETUSER default -get", "+OK"));
    hf_client *client = quorum_open(servers, NEVER_MS, 600000);

    give_back(take(client, "one", HF_MUTEX, 0));
    quorum_expect_nothing_left(servers);
    let_pass_ms(500);
    long asked = scripts(&servers[2]);
    CHECK(asked > 0);
    let_pass_ms(500);
    CHECK_INT(scripts(&servers[2]), asked);
    hf_close(client);
    quorum_end(servers);
}

static void unlock(void *hold)
{
    CHECK_CODE(hf_unlock(hold), HF_OK);
}

/* The lock is not said to be released while all servers have it still. */
TEST(release_that_servers_refuse_is_repeated_until_it_is_done)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    struct thread thread;
    quorum_start(servers);
    hf_client *client = quorum_open(servers, NEVER_MS, 600000);
    hf_hold *hold = take(client, "one", HF_MUTEX, 0);
    long before = scripts(&servers[0]);

    for (int i = 0; i < QUORUM_SERVERS; i++)
        CHECK(server_says(&servers[i], "ACL SETUSER default -get", "+OK"));
    thread_start(&thread, unlock, hold);
    EVENTUALLY(scripts(&servers[0]) > before, SOON_MS);
    for (int i = 0; i < QUORUM_SERVERS; i++)
        CHECK(server_says(&servers[i], "ACL SETUSER default +get", "+OK"));
    thread_join(&thread);
    quorum_expect_nothing_left(servers);
    hf_close(client);
    quorum_end(servers);
}

/* ---- one that is down, and one that can never say yes ---- */

TEST(what_two_servers_cannot_give_is_not_busy_as_the_third_is_held)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    hf_client *alone = NULL;
    hf_hold *hold = NULL;

    quorum_start(servers);
    CHECK_CODE(hf_open(&alone, server_url(&servers[0], SLOW_MS), NULL), HF_OK);
    hf_hold *held = take(alone, "one", HF_MUTEX, 0);
    CHECK(server_says(&servers[2], "SET one text", "+OK"));
    server_kill(&servers[1]);
    hf_client *client = quorum_open(servers, SLOW_MS, 600000);
    CHECK_ERROR(hf_lock(client, "one", 0, NULL, &hold), HF_UNREACHABLE);
    test_note("%s", hf_last_error()->text);
    CHECK(strstr(hf_last_error()->text, "2 of the quorum's 3 servers") != NULL);
    give_back(held);
    hf_close(client);
    hf_close(alone);
    server_kill(&servers[0]);
    server_kill(&servers[2]);
}
