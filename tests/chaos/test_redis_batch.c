/* What one call of a script does for many mutexes is what as many calls would do: to their tokens,
 * their leases, and whoever else looks at them or waits for them. */
#include "turns.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define TOKEN_MS INT64_C(86400000)
#define DAY_US (TOKEN_MS * 1000)
#define HALF_A_DAY_MS (TOKEN_MS / 2)

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
    for (int i = 0; i < COUNT; i++)
        prepare(&server, &before[i]);
    for (int i = 0; i < COUNT; i++)
        ask(client, before[i].name, 0, &told[i]);
    turn_until_told(client, told, COUNT);
    for (int i = 0; i < COUNT; i++) {
        bool behind = before[i].last_us > began_us;
        bool ancient = before[i].last_us < began_us - DAY_US / 4;
        test_note("%s", before[i].name);
        check_token(&server, &before[i], began_us, &told[i]);
        check_life(&server, &before[i], before[i].life_ms && (behind || ancient));
        give_back(told[i].hold);
    }
    hf_close(client);
    server_kill(&server);
}

/* The clock stands still while a script runs. */
TEST(two_names_with_one_token_have_two_numbers)
{
    struct server server = { 0 };
    struct told told[3] = { 0 };
    struct before before = { "one", clock_us() - 1000000, 1000000 };

    server_start(&server);
    hf_client *client = open_at(&server, 30000);
    prepare(&server, &before);
    ask(client, "one", 0, &told[0]);
    ask(client, "{one}", 0, &told[1]);
    ask(client, "other", 0, &told[2]);
    turn_until_told(client, told, 3);
    CHECK(hf_token(told[1].hold) == hf_token(told[0].hold) + 1);
    for (int i = 0; i < 3; i++)
        give_back(told[i].hold);
    hf_close(client);
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
    CHECK_INT(told[1].code, HF_EINTERNAL);
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
    give_back(waiting.hold);
    close(fd);
    hf_close(other);
    hf_close(client);
    server_kill(&server);
}

/* A place in the queue that outlives its claim would be given the lock. */
TEST(who_comes_back_leaves_no_place_in_the_queue)
{
    static const char *const names[] = { "ours", "theirs" };
    struct server server = { 0 };
    struct told told[2] = { 0 };
    char words[100];

    server_start(&server);
    hf_client *client = open_at(&server, 30000);
    for (int i = 0; i < 2; i++) {
        snprintf(words, sizeof(words), "HSET %s 01234567-89ab-8def-8123-456789abcdef:1 1",
                 names[i]);
        run(&server, words);
        snprintf(words, sizeof(words), "PEXPIRE %s 500", names[i]);
        run(&server, words);
    }
    for (int i = 0; i < 2; i++)
        ask(client, names[i], HF_FOREVER, &told[i]);
    turn_until_told(client, told, 2);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(told[i].code, HF_OK);
        CHECK_INT(number(&server, "EXISTS holdfast_lock_queue:{", names[i], "}"), 0);
        give_back(told[i].hold);
    }
    hf_close(client);
    server_kill(&server);
}
