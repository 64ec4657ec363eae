/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of mutexes in the same turn goes to Redis in one call: each is told its own all the
 * same, whatever becomes of the others. */
#include "turns.h"

#include <stdio.h>
#include <stdlib.h>

enum { MANY = 70, CALLS_MAX = 20 };

static void ask_all(hf_client *client, int64_t wait_ms, struct told *told)
{
    char name[32];

    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "own/%d", i);
        ask(client, name, wait_ms, &told[i]);
    }
}

static void give_all(const struct told *told)
{
    for (int i = 0; i < MANY; i++) {
        CHECK_INT(told[i].code, HF_OK);
        CHECK(hf_token(told[i].hold) > 0);
        hf_unlock_nowait(told[i].hold);
    }
}

static bool all_are_free(const struct server *server)
{
    char command[64], line[100];

    for (int i = 0; i < MANY; i++) {
        snprintf(command, sizeof(command), "EXISTS own/%d", i);
        if (!server_tell(server, command, line, sizeof(line)) || strcmp(line, ":0") != 0)
            return false;
    }
    return true;
}

/* How often the server has run a script since its statistics began anew. */
static long script_calls(const struct server *server)
{
    return server_counts(server, "commandstats", "cmdstat_eval:calls=") +
           server_counts(server, "commandstats", "cmdstat_evalsha:calls=");
}

/* How many clients have ever come, this one included. */
static long connections(const struct server *server)
{
    return server_counts(server, "stats", "total_connections_received:");
}

TEST(many_in_a_turn_are_few_calls)
{
    struct server server = { 0 };
    struct told told[MANY] = { 0 };

    server_start(&server);
    hf_client *client = open_at(&server, 30000);
    run(&server, "CONFIG RESETSTAT");
    ask_all(client, 0, told);
    turn_until_told(client, told, MANY);
    /* The scripts are gone in between, as after SCRIPT FLUSH by whomsoever. */
    run(&server, "SCRIPT FLUSH");
    give_all(told);
    give_back(take_patiently(client, "warm"));
    CHECK(all_are_free(&server));
    CHECK(script_calls(&server) < CALLS_MAX);
    hf_close(client);
    server_kill(&server);
}

TEST(each_is_told_its_own)
{
    struct server server = { 0 };
    struct told told[MANY] = { 0 }, text = { 0 }, rw = { 0 }, theirs = { 0 };

    server_start(&server);
    hf_client *client = open_at(&server, 30000);
    run(&server, "SET a-text 1");
    run(&server, "HSET a-rw mode read somebody 1");
    run(&server, "HSET theirs 12345678-1234-4123-8123-123456789012:7 1");
    ask(client, "a-text", 0, &text);
    ask(client, "theirs", 0, &theirs);
    ask_all(client, 0, told);
    ask(client, "a-rw", 0, &rw);
    turn_until_told(client, told, MANY);
    turn_until_told(client, &text, 1);
    turn_until_told(client, &rw, 1);
    turn_until_told(client, &theirs, 1);
    CHECK_INT(text.code, HF_EKIND);
    CHECK_INT(rw.code, HF_EKIND);
    CHECK_INT(theirs.code, HF_BUSY);
    /* One is something else by the time it is given back; the others are given back. */
    run(&server, "SET own/7 1");
    give_all(told);
    give_back(take_patiently(client, "warm"));
    run(&server, "DEL own/7");
    CHECK(all_are_free(&server));
    hf_close(client);
    server_kill(&server);
}

/* What is said of one while others are given back with it is told it alone. */
TEST(a_queue_that_is_none_spoils_no_other)
{
    struct server server = { 0 };
    struct told told[MANY] = { 0 };

    server_start(&server);
    hf_client *client = open_at(&server, 30000);
    ask_all(client, 0, told);
    turn_until_told(client, told, MANY);
    run(&server, "SET holdfast_lock_queue:{own/7} text");
    give_all(told);
    give_back(take_patiently(client, "warm"));
    CHECK(all_are_free(&server));
    hf_close(client);
    server_kill(&server);
}

TEST(names_of_any_length_fit)
{
    struct server server = { 0 };
    struct told told[MANY] = { 0 };
    char name[HF_NAME_MAX + 1];

    server_start(&server);
    hf_client *client = open_at(&server, 30000);
    for (int i = 0; i < MANY; i++) {
        memset(name, 'n', HF_NAME_MAX);
        name[i % 2 ? HF_NAME_MAX : HF_NAME_MAX / 2] = '\0';
        name[i] = 'x';
        ask(client, name, 0, &told[i]);
    }
    turn_until_told(client, told, MANY);
    give_all(told);
    hf_close(client);
    server_kill(&server);
}

TEST(who_waits_is_given_what_goes_in_one_call)
{
    struct server server = { 0 };
    struct told first[MANY] = { 0 }, second[MANY] = { 0 };
    uint64_t tokens[MANY];

    server_start(&server);
    hf_client *one = open_at(&server, 30000), *other = open_at(&server, 30000);
    ask_all(one, 0, first);
    turn_until_told(one, first, MANY);
    long before = connections(&server);
    ask_all(other, HF_FOREVER, second);
    for (int i = 0; i < 20; i++)
        turn(other);
    for (int i = 0; i < MANY; i++)
        tokens[i] = hf_token(first[i].hold);
    give_all(first);
    turn(one);
    turn_until_told(other, second, MANY);
    for (int i = 0; i < MANY; i++)
        CHECK(hf_token(second[i].hold) > tokens[i]);
    /* The one that listens, and this one: no answer was such that a connection was given up. */
    CHECK(connections(&server) <= before + 2);
    give_all(second);
    hf_close(other);
    hf_close(one);
    CHECK(all_are_free(&server));
    server_kill(&server);
}

/* The call is out, and perhaps executed, when the connection is given up. */
TEST(a_call_without_an_answer_leaves_nothing)
{
    struct server server = { 0 };
    struct told told[MANY] = { 0 };

    server_start(&server);
    hf_client *client = open_at(&server, 500);
    server_stop(&server);
    ask_all(client, 100, told);
    turn_until_told(client, told, MANY);
    for (int i = 0; i < MANY; i++)
        CHECK_INT(told[i].code, HF_UNREACHABLE);
    /* By then it is given up, on most machines. */
    for (int64_t until = monotonic_ms() + 1000; monotonic_ms() < until;)
        turn(client);
    server_continue(&server);
    hf_hold *hold = NULL;
    CHECK_CODE(hf_lock(client, "warm", SOON_MS * test_slow(), NULL, &hold), HF_OK);
    give_back(hold);
    EVENTUALLY((turn(client), all_are_free(&server)), SOON_MS);
    hf_close(client);
    server_kill(&server);
}

enum { LEASES = 3000, STOLEN = 777, DELETED, IN_ANOTHER_USE };

/* A client with many leases, all of which fall due at once. */
struct holder {
    const char *prefix;
    hf_client *client;
    struct told told[LEASES];
};

static void hold_many(struct holder *holder, const char *url, int64_t lease_ms)
{
    char name[32];

    CHECK_CODE(hf_open(&holder->client, url,
                       &HF_CLIENT_OPTIONS(.driver = HF_DRIVE_CALLER, .lease_ms = lease_ms)),
               HF_OK);
    for (int i = 0; i < LEASES; i++) {
        snprintf(name, sizeof(name), "%s/%d", holder->prefix, i);
        ask(holder->client, name, HF_FOREVER, &holder->told[i]);
    }
    turn_until_told(holder->client, holder->told, LEASES);
    for (int i = 0; i < LEASES; i++)
        CHECK_INT(holder->told[i].code, HF_OK);
}

static void check_renewed(struct holder *holder, int64_t lease_ms, int64_t stood_still_until)
{
    for (int i = 0; i < LEASES; i++) {
        hf_hold *hold = holder->told[i].hold;
        bool lost = i >= STOLEN && i <= IN_ANOTHER_USE;
        int64_t until = monotonic_ms() + (int64_t)SOON_MS * test_slow();
        while (lost && hf_held(hold) && monotonic_ms() < until)
            turn(holder->client);
        CHECK(!lost || !hf_held(hold));
        while (!lost && hf_remaining_ms(hold) + monotonic_ms() - stood_still_until <
                            lease_ms - lease_ms / 50) {
            CHECK(hf_held(hold));
            turn(holder->client);
        }
    }
}

/* More than may be out at a time, and all fall due at once, since the loops have stood still for so
 * long. What was taken away of them is lost, and nothing else is; whose it is now has it as long as
 * he wants. */
TEST(very_many_leases_are_renewed_one_after_the_other)
{
    struct server server = { 0 };
    struct holder hashes = { .prefix = "hash" }, texts = { .prefix = "text" };
    int64_t lease_ms = 15000 * (int64_t)test_slow();
    char url[160], line[100];

    TEST_TIMEOUT(60 + 30 * test_slow());
    server_start(&server);
    snprintf(url, sizeof(url), "%s&format=simple", server_url(&server, 30000));
    hold_many(&hashes, server_url(&server, 30000), lease_ms);
    hold_many(&texts, url, lease_ms);
    run(&server, "DEL hash/777 text/777 hash/778 text/778");
    run(&server, "HSET hash/777 somebody 1");
    run(&server, "SET text/777 somebody");
    run(&server, "SET hash/779 something-else");
    run(&server, "DEL text/779");
    run(&server, "HSET text/779 something else");
    let_pass_ms(lease_ms / 3 + 10);
    int64_t stood_still_until = monotonic_ms();
    check_renewed(&hashes, lease_ms, stood_still_until);
    check_renewed(&texts, lease_ms, stood_still_until);
    for (int i = 0; i < 4; i++) {
        static const char *const others[] = { "hash/777", "text/777", "hash/779", "text/779" };
        char command[32];
        snprintf(command, sizeof(command), "PTTL %s", others[i]);
        CHECK(server_tell(&server, command, line, sizeof(line)));
        CHECK_STR(line, ":-1");
    }
    hf_close(hashes.client);
    hf_close(texts.client);
    server_kill(&server);
}

TEST(closing_with_questions_in_hand_forgets_them)
{
    struct server server = { 0 };
    struct told told[MANY] = { 0 };

    server_start(&server);
    hf_client *client = open_at(&server, 30000);
    ask_all(client, HF_FOREVER, told);
    hf_close(client);
    for (int i = 0; i < MANY; i++)
        CHECK_INT(told[i].code, HF_ECLOSED);
    CHECK(all_are_free(&server));
    server_kill(&server);
}
