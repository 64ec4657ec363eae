/* SPDX-License-Identifier: Apache-2.0 */
/* What is no lock, though it stands under a name that somebody asks about: it is not broken, not
 * shown as held, and not waited for. What is one in the eyes of any client can still be broken. */
#include "conformance.h"
#include "server.h"

#include <stdio.h>

#define JAVA "12345678-1234-4123-8123-123456789012"

static struct server server;

static hf_client *open_on(const char *more)
{
    hf_client *client = NULL;
    char url[200];

    snprintf(url, sizeof(url), "%s%s", server_url(&server, 30000), more);
    CHECK_CODE(hf_open(&client, url, NULL), HF_OK);
    return client;
}

static void tell(const char *command)
{
    char line[200] = "";

    CHECK(server_tell(&server, command, line, sizeof(line)));
    CHECK(line[0] != '-');
}

static bool any_entry(void *arg, const hf_entry *entry)
{
    (void)entry;
    ++*(int *)arg;
    return true;
}

/* It is refused to all who ask about it, and stays as it was. */
static void check_left_alone(hf_client *client, const char *name)
{
    hf_hold *hold = NULL;
    int entries = 0;

    CHECK_ERROR(hf_break(client, name, NULL, NULL), HF_EKIND);
    CHECK_ERROR(hf_break(client, name, "name", NULL), HF_EKIND);
    CHECK_ERROR(hf_inspect(client, name, any_entry, &entries), HF_EKIND);
    CHECK_ERROR(hf_lock(client, name, HF_FOREVER, NULL, &hold), HF_EKIND);
    CHECK_INT(entries, 0);
    CHECK(strstr(hf_last_error()->text, name) != NULL);
}

TEST(what_an_application_keeps_is_no_lock)
{
    static const char *const made[] = {
        "HSET user name bob mail b@x",
        "HSET user mode dark name bob",
        "HSET user mode read name bob",
        "HSET user " JAVA ":7 1 name bob",
        "RPUSH user a b",
        "SADD user a b",
    };
    server_start(&server);
    hf_client *client = open_on("");

    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
        test_note("%s", made[i]);
        tell("DEL user");
        tell(made[i]);
        CHECK_ERROR(hf_break(client, "user", NULL, NULL), HF_EKIND);
        CHECK_ERROR(hf_break(client, "user", "name", NULL), HF_EKIND);
        int entries = 0;
        CHECK_ERROR(hf_inspect(client, "user", any_entry, &entries), HF_EKIND);
        CHECK_INT(entries, 0);
        CHECK(strstr(hf_last_error()->text, "is there, but is no lock") != NULL);
        CHECK(server_says(&server, "EXISTS user", ":1"));
    }
    hf_close(client);
    server_kill(&server);
}

TEST(what_is_no_lock_is_not_waited_for)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_READ, HF_WRITE, HF_PERMIT };
    hf_hold *hold = NULL;

    server_start(&server);
    hf_client *client = open_on("");
    tell("HSET user name bob mail b@x");
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        CHECK_ERROR(hf_lock(client, "user", HF_FOREVER, LOCK_OPTIONS(.mode = modes[i]), &hold),
                    HF_EKIND);
        CHECK(strstr(hf_last_error()->text, "something that is no lock") != NULL);
    }
    /* Nobody has lined up there either. */
    CHECK(server_says(&server, "DBSIZE", ":1"));
    CHECK(server_says(&server, "HLEN user", ":2"));
    hf_close(client);
    server_kill(&server);
}

/* Only a text may be somebody's lock in the other format. */
TEST(a_type_that_no_lock_has_is_named)
{
    static const char *const types[] = { "list", "set", "zset", "stream" };
    static const char *const made[] = { "RPUSH user a", "SADD user a", "ZADD user 1 a",
                                        "XADD user 1-1 a b" };
    static const hf_mode modes[] = { HF_MUTEX,  HF_FAIR,    HF_READ, HF_WRITE,
                                     HF_PERMIT, HF_COUNTER, HF_LATCH };
    char type[40];
    hf_hold *hold = NULL;

    server_start(&server);
    hf_client *client = open_on("");
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
        tell("DEL user");
        tell(made[i]);
        snprintf(type, sizeof(type), "type %s", types[i]);
        for (size_t j = 0; j < sizeof(modes) / sizeof(modes[0]); j++) {
            test_note("%s, mode %d", made[i], (int)modes[j]);
            CHECK_ERROR(hf_lock(client, "user", HF_FOREVER, LOCK_OPTIONS(.mode = modes[j]), &hold),
                        HF_EKIND);
            CHECK(strstr(hf_last_error()->text, type) != NULL);
            CHECK(strstr(hf_last_error()->text, "\"user\"") != NULL);
            CHECK(strstr(hf_last_error()->text, "format=simple") == NULL);
        }
        CHECK_ERROR(hf_break(client, "user", NULL, NULL), HF_EKIND);
        CHECK(strstr(hf_last_error()->text, type) != NULL);
    }
    hf_close(client);
    server_kill(&server);
}

/* What an application keeps where a lock has its token. */
static void refuse_for_its_token(hf_client *client, hf_mode mode)
{
    hf_hold *hold = NULL;

    CHECK_ERROR(hf_lock(client, "user", HF_FOREVER,
                        LOCK_OPTIONS(.mode = mode, .limit = mode == HF_PERMIT ? 3 : 0), &hold),
                HF_EKIND);
    CHECK(strstr(hf_last_error()->text, "\"user\"") != NULL);
    CHECK(strstr(hf_last_error()->text, "WRONGTYPE") == NULL);
    /* The lock beside it, its token, and this. */
    CHECK(server_says(&server, "DBSIZE", ":3"));
}

TEST(a_token_that_is_none_is_that_locks_matter)
{
    static const char *const made[] = { "SET redisson_lock_token:{user} text",
                                        "RPUSH redisson_lock_token:{user} a" };
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_READ, HF_WRITE, HF_PERMIT };
    int of_beside = 0;

    server_start(&server);
    hf_client *client = open_on(""), *simple = open_on("&format=simple");
    hf_hold *beside = take(client, "beside", HF_MUTEX, 0);
    CHECK_CODE(hf_inspect(client, NULL, any_entry, &of_beside), HF_OK);
    CHECK(of_beside > 0);
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
        tell("DEL redisson_lock_token:{user}");
        tell(made[i]);
        for (size_t j = 0; j < sizeof(modes) / sizeof(modes[0]); j++) {
            test_note("%s, mode %d", made[i], (int)modes[j]);
            refuse_for_its_token(client, modes[j]);
        }
        refuse_for_its_token(simple, HF_MUTEX);
        int entries = 0;
        CHECK_CODE(hf_inspect(client, NULL, any_entry, &entries), HF_OK);
        CHECK_INT(entries, of_beside);
    }
    give_back(beside);
    hf_close(simple);
    hf_close(client);
    server_kill(&server);
}

TEST(a_lock_of_java_is_broken_and_shown)
{
    static const char *const made[] = {
        "HSET one " JAVA ":7 1",
        /* In a transaction of theirs. */
        "HSET one " JAVA ":7:0123456789abcdef 2",
        "HSET one mode read " JAVA ":7 1",
        "HSET one mode write " JAVA ":7:write 1 " JAVA ":7 1",
    };
    server_start(&server);
    hf_client *client = open_on("");

    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
        uint32_t broken = 0;
        test_note("%s", made[i]);
        tell(made[i]);
        tell("PEXPIRE one 600000");
        tell("SET {one}:" JAVA ":7:rwlock_timeout:1 1 PX 600000");
        CHECK_INT(holders(client, "one"), i == 3 ? 2 : 1);
        CHECK_CODE(probe(client, "one", i < 2 ? HF_MUTEX : HF_WRITE, 0), HF_BUSY);
        CHECK_CODE(hf_break(client, "one", NULL, &broken), HF_OK);
        CHECK_INT(broken, i == 3 ? 2 : 1);
        CHECK(server_says(&server, "EXISTS one", ":0"));
    }
    hf_close(client);
    server_kill(&server);
}

/* ---- each format asks whether the other one is meant ---- */

static void check_asks(hf_client *client, const char *name)
{
    hf_hold *hold = NULL;
    int entries = 0;

    CHECK_ERROR(hf_lock(client, name, HF_FOREVER, NULL, &hold), HF_EKIND);
    CHECK(strstr(hf_last_error()->text, name) != NULL);
    CHECK(strstr(hf_last_error()->text, "format=simple") != NULL);
    CHECK(strstr(hf_last_error()->text, "script") == NULL);
    CHECK_ERROR(hf_break(client, name, NULL, NULL), HF_EKIND);
    CHECK(strstr(hf_last_error()->text, "format=simple") != NULL);
    CHECK_ERROR(hf_inspect(client, name, any_entry, &entries), HF_EKIND);
    CHECK(strstr(hf_last_error()->text, "format=simple") != NULL);
    CHECK_INT(entries, 0);
}

TEST(the_other_format_is_asked_for)
{
    static const hf_mode modes[] = { HF_FAIR, HF_READ, HF_PERMIT, HF_COUNTER, HF_LATCH };
    hf_hold *hold = NULL;

    server_start(&server);
    hf_client *client = open_on(""), *simple = open_on("&format=simple");
    tell("SET theirs 5c2e7a PX 600000");
    check_asks(client, "theirs");
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        CHECK_ERROR(hf_lock(client, "theirs", HF_FOREVER, LOCK_OPTIONS(.mode = modes[i]), &hold),
                    HF_EKIND);
        CHECK(strstr(hf_last_error()->text, "format=simple") != NULL);
    }
    tell("HSET java " JAVA ":7 1");
    check_asks(simple, "java");
    CHECK(server_says(&server, "EXISTS theirs java", ":2"));
    hf_close(client);
    hf_close(simple);
    server_kill(&server);
}

/* ---- format=simple: any text may be a lock, but a number that says what it is ---- */

TEST(a_number_of_ours_is_no_plain_lock)
{
    static const char *const names[] = { "sem", "count", "latch" };

    server_start(&server);
    hf_client *client = open_on(""), *simple = open_on("&format=simple");
    CHECK_CODE(hf_semaphore_set(client, "sem", 3), HF_OK);
    CHECK_CODE(hf_counter_set(client, "count", 3), HF_OK);
    CHECK_CODE(hf_latch_set(client, "latch", 3), HF_OK);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        test_note("%s", names[i]);
        check_left_alone(simple, names[i]);
    }
    int entries = 0;
    CHECK_CODE(hf_inspect(simple, NULL, any_entry, &entries), HF_OK);
    CHECK_INT(entries, 0);
    CHECK(server_says(&server, "MGET sem count latch", "*3"));
    CHECK(server_says(&server, "EXISTS sem count latch", ":3"));
    hf_close(client);
    hf_close(simple);
    server_kill(&server);
}

TEST(a_semaphore_of_java_is_no_plain_lock)
{
    server_start(&server);
    hf_client *simple = open_on("&format=simple");
    tell("SET sem 2");
    tell("ZADD {sem}:timeout 99999999999999 0123456789abcdef");
    check_left_alone(simple, "sem");
    CHECK(server_says(&server, "EXISTS sem", ":1"));
    hf_close(simple);
    server_kill(&server);
}

TEST(a_plain_lock_may_be_a_number)
{
    uint32_t broken = 0;

    server_start(&server);
    hf_client *simple = open_on("&format=simple");
    /* Shell scripts write their process's. */
    tell("SET one 4711 PX 600000");
    CHECK_INT(holders(simple, "one"), 1);
    CHECK_CODE(probe(simple, "one", HF_MUTEX, 0), HF_BUSY);
    /* It was a semaphore before somebody deleted it, and only its mark is left. */
    tell("SET holdfast_kind:{two} a-semaphore");
    tell("SET two a-text PX 600000");
    CHECK_CODE(hf_break(simple, "one", NULL, &broken), HF_OK);
    CHECK_INT(broken, 1);
    CHECK_CODE(hf_break(simple, "two", NULL, &broken), HF_OK);
    CHECK_INT(broken, 1);
    hf_close(simple);
    server_kill(&server);
}

/* What has no end is not what was left: it stays under its key. */
TEST(what_somebody_has_taken_the_end_away_from_is_not_taken_over)
{
    hf_client *client = NULL;
    hf_hold *hold;
    char key[HF_OWNER_KEY_SIZE];

    server_start(&server);
    CHECK_CODE(hf_open(&client, server_url(&server, 20000), NULL), HF_OK);
    CHECK_CODE(hf_lock(client, "one", 0, LOCK_OPTIONS(.lease_ms = 600000), &hold), HF_OK);
    CHECK_CODE(hf_detach(hold, key), HF_OK);
    CHECK(server_says(&server, "PERSIST one", ":1"));
    CHECK_ERROR(hf_attach(client, "one", key, &hold), HF_LOST);
    CHECK(server_says(&server, "PEXPIRE one 600000", ":1"));
    CHECK_CODE(hf_attach(client, "one", key, &hold), HF_OK);
    give_back(hold);
    hf_close(client);
    server_kill(&server);
}
