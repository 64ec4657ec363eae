/* SPDX-License-Identifier: Apache-2.0 */
/* What one call of a script does for many mutexes is what as many calls would do: to their tokens,
 * their leases, and whoever else looks at them or waits for them. */
#include "turns.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TOKEN_MS INT64_C(86400000)
#define DAY_US (TOKEN_MS * 1000)
#define HALF_A_DAY_MS (TOKEN_MS / 2)
#define BEHIND_US INT64_C(600000000)

static int64_t clock_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* What a command answers that answers a number. */
static int64_t number(const struct server *server, const char *before, const char *name,
                      const char *behind)
{
    char words[160], line[100];

    snprintf(words, sizeof(words), "%s%s%s", before, name, behind);
    CHECK(server_tell(server, words, line, sizeof(line)));
    CHECK(line[0] == ':');
    return strtoll(line + 1, NULL, 10);
}

/* ---- tokens ---- */

/* A lock whose token's key is in some state beforehand. */
struct before {
    const char *name;
    int64_t last_us; /* its number, or 0: it has none */
    int64_t life_ms; /* and for how long, or 0: without an end */
};

static void prepare(const struct server *server, const struct before *before)
{
    char words[160], life[40] = "";

    if (!before->last_us)
        return;
    if (before->life_ms)
        snprintf(life, sizeof(life), " PX %" PRId64, before->life_ms);
    snprintf(words, sizeof(words), "SET redisson_lock_token:{%s} %" PRId64 "%s", before->name,
             before->last_us, life);
    run(server, words);
}

/* One more than the last one, or the clock. */
static void check_token(const struct server *server, const struct before *before, int64_t began_us,
                        const struct told *told)
{
    CHECK_INT(told->code, HF_OK);
    int64_t token = (int64_t)hf_token(told->hold);
    if (before->last_us > began_us)
        CHECK(token == before->last_us + 1);
    else
        CHECK(token >= began_us && token <= clock_us());
    CHECK(number(server, "INCRBY redisson_lock_token:{", before->name, "} 0") == token);
}

/* Plain locks have the same tokens: asks for all, in one turn. */
static void check_tokens(const struct server *server, hf_client *client,
                         const struct before *before, int64_t began_us, struct told *told,
                         int count)
{
    for (int i = 0; i < count; i++)
        prepare(server, &before[i]);
    for (int i = 0; i < count; i++)
        ask(client, before[i].name, 0, &told[i]);
    turn_until_told(client, told, count);
    for (int i = 0; i < count; i++) {
        test_note("%s", before[i].name);
        check_token(server, &before[i], began_us, &told[i]);
    }
}

/* Without an end it stays so; it lives for another day if it is behind, or older than a quarter. */
static void check_life(const struct server *server, const struct before *before, bool begins_anew)
{
    int64_t left_ms = number(server, "PTTL redisson_lock_token:{", before->name, "}");

    if (before->last_us && !before->life_ms)
        CHECK_INT(left_ms, -1);
    else
        CHECK(left_ms > 0 && left_ms <= TOKEN_MS);
    if (begins_anew)
        CHECK(left_ms > HALF_A_DAY_MS);
}

TEST(tokens_are_those_of_as_many_calls)
{
    struct server server = { 0 };
    int64_t began_us = clock_us();
    const struct before before[] = {
        { "new", 0, 0 },
        { "fresh", began_us - 1000000, 1000000 },
        { "old", began_us - DAY_US / 2, 1000000 },
        { "ahead", began_us + DAY_US, 1000000 },
        { "java", 7, 0 },
        { "java-fresh", began_us - 1000000, 0 },
        { "java-ahead", began_us + DAY_US, 0 },
    };
    enum { COUNT = sizeof(before) / sizeof(before[0]) };
    struct told told[COUNT] = { 0 };

    server_start(&server);
    hf_client *client = open_at(&server, 30000);
    check_tokens(&server, client, before, began_us, told, COUNT);
    for (int i = 0; i < COUNT; i++) {
        bool behind = before[i].last_us > began_us;
        bool ancient = before[i].last_us < began_us - DAY_US / 4;
        check_life(&server, &before[i], before[i].life_ms && (behind || ancient));
        give_back(told[i].hold);
    }
    hf_close(client);
    run(&server, "FLUSHALL");
    client = open_with(&server, "&format=simple");
    memset(told, 0, sizeof(told));
    check_tokens(&server, client, before, began_us, told, COUNT);
    for (int i = 0; i < COUNT; i++)
        give_back(told[i].hold);
    hf_close(client);
    server_kill(&server);
}

/* What the last one is behind the clock would be added twice. */
static void take_two_with_one_token(const struct server *server, hf_client *client)
{
    struct told told[3] = { 0 };
    struct before before = { "one", clock_us() - BEHIND_US, 1000000 };

    prepare(server, &before);
    ask(client, "one", 0, &told[0]);
    ask(client, "{one}", 0, &told[1]);
    ask(client, "other", 0, &told[2]);
    turn_until_told(client, told, 3);
    int64_t one = (int64_t)hf_token(told[0].hold), another = (int64_t)hf_token(told[1].hold);
    CHECK(one != another && llabs(one - another) < BEHIND_US / 2);
    for (int i = 0; i < 3; i++)
        give_back(told[i].hold);
    hf_close(client);
}

TEST(two_names_with_one_token_have_two_numbers)
{
    struct server server = { 0 };

    server_start(&server);
    take_two_with_one_token(&server, open_at(&server, 30000));
    take_two_with_one_token(&server, open_with(&server, "&format=simple"));
    server_kill(&server);
}

/* What cannot be counted on from is told as that, and what comes behind it is granted. */
TEST(a_token_that_is_none_spoils_no_other)
{
    struct server server = { 0 };
    struct told told[5] = { 0 };
    static const char *const names[] = { "before", "text", "between", "list", "behind" };

    server_start(&server);
    hf_client *client = open_at(&server, 30000);
    run(&server, "SET redisson_lock_token:{text} abc");
    run(&server, "RPUSH redisson_lock_token:{list} abc");
    for (int i = 0; i < 5; i++)
        ask(client, names[i], 0, &told[i]);
    turn_until_told(client, told, 5);
    for (int i = 0; i < 5; i += 2) {
        CHECK_INT(told[i].code, HF_OK);
        give_back(told[i].hold);
    }
    CHECK_INT(told[1].code, HF_EKIND);
    CHECK_INT(told[3].code, HF_EKIND);
    for (int i = 0; i < 5; i++)
        CHECK_INT(number(&server, "EXISTS ", names[i], ""), 0);
    hf_close(client);
    server_kill(&server);
}

/* ---- leases ---- */

enum { LENGTHS = 3, OF_EACH = 20 };

TEST(each_has_the_lease_that_it_was_asked_for)
{
    static const int64_t leases_ms[LENGTHS] = { 200000, 400000, 800000 };
    struct server server = { 0 };
    struct told told[LENGTHS * OF_EACH] = { 0 };
    char name[32];

    server_start(&server);
    hf_client *client = open_at(&server, 30000);
    for (int i = 0; i < LENGTHS * OF_EACH; i++) {
        snprintf(name, sizeof(name), "leased/%d", i);
        ask_leased(client, name, leases_ms[i % LENGTHS], &told[i]);
    }
    turn_until_told(client, told, LENGTHS * OF_EACH);
    for (int i = 0; i < LENGTHS * OF_EACH; i++) {
        snprintf(name, sizeof(name), "leased/%d", i);
        int64_t left_ms = number(&server, "PTTL ", name, "");
        CHECK(left_ms <= leases_ms[i % LENGTHS] && left_ms > leases_ms[i % LENGTHS] / 2);
        give_back(told[i].hold);
    }
    hf_close(client);
    server_kill(&server);
}

/* ---- plain locks ---- */

/* What is held by others, or no lock at all, is left alone, and what is taken and given back beside
 * it is not; in one call of a script each. */
TEST(plain_locks_are_taken_and_given_back_one_by_one)
{
    static const char *const names[] = { "before", "theirs", "between", "hash", "behind" };
    struct server server = { 0 };
    struct told told[5] = { 0 };

    server_start(&server);
    hf_client *client = open_with(&server, "&format=simple");
    run(&server, "SET theirs somebody PX 100000");
    run(&server, "HSET hash key value");
    for (int i = 1; i < 5; i += 2)
        prepare(&server, &(struct before){ names[i], clock_us() - 1000000, 1000000 });
    for (int i = 0; i < 5; i++)
        ask(client, names[i], 0, &told[i]);
    turn_until_told(client, told, 5);
    CHECK_INT(told[1].code, HF_BUSY);
    CHECK_INT(told[3].code, HF_EKIND);
    for (int i = 0; i < 5; i += 2) {
        CHECK_INT(told[i].code, HF_OK);
        int64_t left_ms = number(&server, "PTTL ", names[i], "");
        CHECK(left_ms > 300000 && left_ms <= 600000);
    }
    /* One is somebody else's by the time it is given back. */
    run(&server, "SET between somebody PX 100000");
    for (int i = 0; i < 5; i += 2)
        hf_unlock_nowait(told[i].hold);
    give_back(take_patiently(client, "warm"));
    CHECK_INT(number(&server, "EXISTS before behind warm", "", ""), 0);
    CHECK_INT(number(&server, "EXISTS theirs between hash", "", ""), 3);
    hf_close(client);
    server_kill(&server);
}

/* The first time their tokens are made, the second time they are counted on from. */
TEST(plain_locks_have_the_leases_that_they_were_asked_for)
{
    struct server server = { 0 };
    struct told told[2 * OF_EACH] = { 0 };
    char name[32];

    server_start(&server);
    hf_client *client = open_with(&server, "&format=simple");
    for (int round = 0; round < 2; round++) {
        memset(told, 0, sizeof(told));
        for (int i = 0; i < 2 * OF_EACH; i++) {
            snprintf(name, sizeof(name), "plain/%d", i);
            ask_leased(client, name, i % 2 ? 200000 : 800000, &told[i]);
        }
        turn_until_told(client, told, 2 * OF_EACH);
        for (int i = 0; i < 2 * OF_EACH; i++) {
            snprintf(name, sizeof(name), "plain/%d", i);
            int64_t left_ms = number(&server, "PTTL ", name, "");
            CHECK(i % 2 ? left_ms <= 200000 && left_ms > 100000 : left_ms > 400000);
            give_back(told[i].hold);
        }
    }
    CHECK_INT(number(&server, "EXISTS plain/0 plain/1 plain/39", "", ""), 0);
    hf_close(client);
    server_kill(&server);
}

/* ---- others ---- */

static void check_heard(int fd, const char *const *words, size_t count)
{
    char line[100];

    for (size_t i = 0; i < count; i++) {
        CHECK(server_hear(fd, line, sizeof(line)));
        CHECK_STR(line, words[i]);
    }
}

/* The lock's channel is heard by clients of Redisson. */
static void check_told_once(const struct server *server, int fd)
{
    static const char *const message[] = {
        "*3", "$7", "message", "$31", "redisson_lock__channel:{theirs}", "$1", "0"
    };
    static const char *const end[] = {
        "*3", "$7", "message", "$31", "redisson_lock__channel:{theirs}", "$3", "end"
    };

    run(server, "PUBLISH redisson_lock__channel:{theirs} end");
    check_heard(fd, message, sizeof(message) / sizeof(message[0]));
    check_heard(fd, end, sizeof(end) / sizeof(end[0]));
}

static void take_both(hf_client *client, struct told *told)
{
    told[0] = told[1] = (struct told){ 0 };
    ask(client, "theirs", 0, &told[0]);
    ask(client, "ours", 0, &told[1]);
    turn_until_told(client, told, 2);
    CHECK_INT(told[0].code, HF_OK);
    CHECK_INT(told[1].code, HF_OK);
}

static void give_both(hf_client *client, const struct told *told)
{
    hf_unlock_nowait(told[0].hold);
    hf_unlock_nowait(told[1].hold);
    give_back(take_patiently(client, "warm"));
}

/* Whether one of ours waits for another lock of the same call, or not. */
TEST(others_are_told_once_whoever_waits_for_what)
{
    struct server server = { 0 };
    struct told told[2], waiting = { 0 };

    server_start(&server);
    hf_client *client = open_at(&server, 30000), *other = open_at(&server, 30000);
    int fd = server_listen(&server, "redisson_lock__channel:{theirs}");
    take_both(client, told);
    give_both(client, told);
    check_told_once(&server, fd);

    take_both(client, told);
    ask(other, "ours", HF_FOREVER, &waiting);
    while (number(&server, "ZCARD ", "holdfast_lock_queue:{ours}", "") == 0)
        turn(other);
    give_both(client, told);
    CHECK_INT(number(&server, "ZCARD ", "holdfast_lock_queue:{ours}", ""), 0);
    check_told_once(&server, fd);
    turn_until_told(other, &waiting, 1);
    CHECK_INT(waiting.code, HF_OK);
    CHECK(hf_token(waiting.hold) > hf_token(told[1].hold));
    CHECK(number(&server, "INCRBY redisson_lock_token:{", "ours", "} 0") ==
          (int64_t)hf_token(waiting.hold));
    give_back(waiting.hold);
    close(fd);
    hf_close(other);
    hf_close(client);
    server_kill(&server);
}

static void come_back(const struct server *server, hf_client *client)
{
    static const char *const names[] = { "ours", "theirs" };
    struct told told[2] = { 0 };
    char words[100];

    /* Both go at the same moment, so that both are asked for in one turn. */
    int64_t end_ms = clock_us() / 1000 + 500;
    for (int i = 0; i < 2; i++) {
        snprintf(words, sizeof(words), "HSET %s 01234567-89ab-8def-8123-456789abcdef:1 1",
                 names[i]);
        run(server, words);
        snprintf(words, sizeof(words), "PEXPIREAT %s %" PRId64, names[i], end_ms);
        run(server, words);
    }
    for (int i = 0; i < 2; i++)
        ask(client, names[i], HF_FOREVER, &told[i]);
    turn_until_told(client, told, 2);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(told[i].code, HF_OK);
        CHECK_INT(number(server, "EXISTS holdfast_lock_queue:{", names[i], "}"), 0);
        give_back(told[i].hold);
    }
    hf_close(client);
}

/* A place in the queue that outlives its claim would be given the lock. */
TEST(who_comes_back_leaves_no_place_in_the_queue)
{
    struct server server = { 0 };

    server_start(&server);
    come_back(&server, open_at(&server, 30000));
    run(&server, "FLUSHALL");
    come_back(&server, open_with(&server, "&fence=off"));
    server_kill(&server);
}
