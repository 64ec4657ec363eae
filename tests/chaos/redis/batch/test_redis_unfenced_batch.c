/* SPDX-License-Identifier: Apache-2.0 */
/* fence=off: what many threads ask for in one turn costs the server no look at tokens, but where
 * somebody else has some; and each is told what it would be told alone. */
#include "turns.h"

#include <stdio.h>
#include <stdlib.h>

enum { MANY = 64, LOOKS_MAX = MANY / 8, FORMATS = 2 };

#define FAR_AHEAD "9000000000000000"

static const struct format {
    const char *options, *fenced; /* of who wants no tokens, and of who does */
    const char *takes[2];         /* the commands that it takes to hold one */
} formats[FORMATS] = {
    { "&fence=off", "", { "hset", "pexpireat" } },
    { "&fence=off&format=simple", "&format=simple", { "set", "set" } },
};

/* How often the server has called it since its statistics began anew. */
static int calls_of(const struct server *server, const char *command)
{
    char name[40];

    snprintf(name, sizeof(name), "cmdstat_%s:calls=", command);
    return (int)server_counts(server, "commandstats", name);
}

static int64_t last_token(const struct server *server, const char *name)
{
    char words[80], line[60];

    snprintf(words, sizeof(words), "INCRBY redisson_lock_token:{%s} 0", name);
    CHECK(server_tell(server, words, line, sizeof(line)));
    CHECK(line[0] == ':');
    return strtoll(line + 1, NULL, 10);
}

/* In one turn; each is told this. */
static void ask_for(hf_client *client, const char *const *names, const int *codes,
                    struct told *told, int count)
{
    for (int i = 0; i < count; i++) {
        told[i] = (struct told){ 0 };
        ask(client, names[i], 0, &told[i]);
    }
    turn_until_told(client, told, count);
    for (int i = 0; i < count; i++) {
        test_note("%s", names[i]);
        CHECK_INT(told[i].code, codes[i]);
        CHECK_INT(hf_token(told[i].hold), 0);
    }
}

static void give_all_back(const struct told *told, int count)
{
    for (int i = 0; i < count; i++)
        if (told[i].hold)
            give_back(told[i].hold);
}

/* ---- nobody has tokens ---- */

static void take_many(const struct server *server, const struct format *format, int64_t wait_ms)
{
    static const char *const others[] = { "get", "mget", "incrby", "type", "hkeys", "hget" };
    hf_client *client = open_with(server, format->options);
    struct told told[MANY] = { 0 };
    char name[20];

    run(server, "CONFIG RESETSTAT");
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "own/%d", i);
        ask(client, name, wait_ms, &told[i]);
    }
    turn_until_told(client, told, MANY);
    for (int i = 0; i < 2; i++)
        CHECK_INT(calls_of(server, format->takes[i]), MANY);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        CHECK_INT(calls_of(server, others[i]), 0);
    CHECK(calls_of(server, "exists") <= LOOKS_MAX);
    CHECK(calls_of(server, "time") <= LOOKS_MAX);
    /* The locks, and nothing else. */
    snprintf(name, sizeof(name), ":%d", MANY);
    CHECK(server_says(server, "DBSIZE", name));
    give_all_back(told, MANY);
    CHECK(server_says(server, "DBSIZE", ":0"));
    hf_close(client);
}

TEST(what_is_free_costs_what_taking_it_costs)
{
    struct server server = { 0 };

    server_start(&server);
    for (const struct format *format = formats; format < formats + FORMATS; format++) {
        take_many(&server, format, 0);
        take_many(&server, format, HF_FOREVER);
    }
    server_kill(&server);
}

TEST(what_somebody_has_is_not_taken)
{
    static const char *const names[] = { "before", "theirs", "behind" };
    static const int codes[] = { HF_OK, HF_BUSY, HF_OK };
    struct server server = { 0 };
    struct told told[3];

    server_start(&server);
    for (const struct format *format = formats; format < formats + FORMATS; format++) {
        hf_client *client = open_with(&server, format->options);
        hf_client *other = open_with(&server, format->options);
        hf_hold *hold = take_patiently(other, "theirs");
        ask_for(client, names, codes, told, 3);
        give_all_back(told, 3);
        give_back(hold);
        CHECK(server_says(&server, "DBSIZE", ":0"));
        hf_close(other);
        hf_close(client);
    }
    server_kill(&server);
}

TEST(two_names_of_one_key_make_none)
{
    static const char *const names[] = { "one", "{one}", "other" };
    static const int codes[] = { HF_OK, HF_OK, HF_OK };
    struct server server = { 0 };
    struct told told[3];

    server_start(&server);
    for (const struct format *format = formats; format < formats + FORMATS; format++) {
        hf_client *client = open_with(&server, format->options);
        ask_for(client, names, codes, told, 3);
        CHECK(server_says(&server, "DBSIZE", ":3"));
        give_all_back(told, 3);
        hf_close(client);
    }
    server_kill(&server);
}

/* ---- somebody else has ---- */

TEST(who_wants_tokens_has_some_that_are_kept)
{
    static const char *const names[] = { "one", "two", "three" };
    struct server server = { 0 };

    server_start(&server);
    for (const struct format *format = formats; format < formats + FORMATS; format++) {
        hf_client *client = open_with(&server, format->fenced);
        struct told told[3] = { 0 };
        for (int i = 0; i < 3; i++)
            ask(client, names[i], 0, &told[i]);
        turn_until_told(client, told, 3);
        for (int i = 0; i < 3; i++) {
            CHECK_INT(told[i].code, HF_OK);
            CHECK(last_token(&server, names[i]) == (int64_t)hf_token(told[i].hold));
        }
        give_all_back(told, 3);
        hf_close(client);
        run(&server, "FLUSHALL");
    }
    server_kill(&server);
}

/* One key is left behind, far beyond the clock; two names share it. Each grant is seen in it, and
 * others' tokens go on from there. */
TEST(tokens_of_others_are_counted_on)
{
    static const char *const names[] = { "before", "one", "{one}", "behind" };
    static const int codes[] = { HF_OK, HF_OK, HF_OK, HF_OK };
    struct server server = { 0 };
    struct told told[4];

    server_start(&server);
    for (const struct format *format = formats; format < formats + FORMATS; format++) {
        hf_client *client = open_with(&server, format->options);
        hf_client *other = open_with(&server, format->fenced);
        run(&server, "FLUSHALL");
        run(&server, "SET redisson_lock_token:{one} " FAR_AHEAD " PX 1000000");
        ask_for(client, names, codes, told, 4);
        CHECK(last_token(&server, "one") == strtoll(FAR_AHEAD, NULL, 10) + 2);
        CHECK(server_says(&server, "DBSIZE", ":5"));
        give_all_back(told, 4);
        hf_hold *hold = take_patiently(other, "one");
        CHECK(hf_token(hold) > strtoull(FAR_AHEAD, NULL, 10) + 2);
        give_back(hold);
        hf_close(other);
        hf_close(client);
    }
    server_kill(&server);
}

/* Both sorts of clients take turns; what the one leaves the other finds. */
TEST(tokens_rise_between_those_who_want_none)
{
    static const char *const names[] = { "one", "two", "three" };
    static const int codes[] = { HF_OK, HF_OK, HF_OK };
    struct server server = { 0 };
    struct told told[3];

    server_start(&server);
    for (const struct format *format = formats; format < formats + FORMATS; format++) {
        hf_client *client = open_with(&server, format->options);
        hf_client *other = open_with(&server, format->fenced);
        int64_t last = 0;
        for (int i = 0; i < 5; i++) {
            ask_for(client, names, codes, told, 3);
            give_all_back(told, 3);
            /* The first time there was no key. */
            CHECK(i == 0 || last_token(&server, "two") > last);
            hf_hold *hold = take_patiently(other, "two");
            CHECK((int64_t)hf_token(hold) > last);
            last = (int64_t)hf_token(hold);
            give_back(hold);
        }
        hf_close(other);
        hf_close(client);
        run(&server, "FLUSHALL");
    }
    server_kill(&server);
}

/* As it is told alone. */
TEST(a_token_that_is_none_spoils_no_other)
{
    static const char *const names[] = { "before", "list", "behind" };
    static const int codes[] = { HF_OK, HF_EKIND, HF_OK };
    struct server server = { 0 };
    struct told told[3];

    server_start(&server);
    for (const struct format *format = formats; format < formats + FORMATS; format++) {
        hf_client *client = open_with(&server, format->options);
        run(&server, "RPUSH redisson_lock_token:{list} abc");
        ask_for(client, names, codes, told, 3);
        give_all_back(told, 3);
        CHECK(server_says(&server, "DBSIZE", ":1"));
        hf_close(client);
    }
    server_kill(&server);
}
