/* SPDX-License-Identifier: Apache-2.0 */
/* Replies that no command can have, as of a proxy without its server, or of a server that lies: no
 * lock is lost, free or granted by them. */
#include "conformance.h"
#include "memcached_script.h"
#include "memcached_server.h"

#include <stdio.h>

#define LEASE_MS 3000
#define FAILURE "SERVER_ERROR backend failure\r\n"
#define TIMES(time, uptime)                                                                        \
    "STAT time " time "\r\nSTAT uptime " uptime "\r\nSTAT cas_enabled yes\r\nEND\r\n"

static hf_client *open_script(struct memcached_script *script)
{
    hf_client *client = NULL;

    memcached_script_start(script);
    CHECK_CODE(hf_open(&client, memcached_url(script->port, 3000),
                       &HF_CLIENT_OPTIONS(.lease_ms = LEASE_MS, .request_timeout_ms = 2000)),
               HF_OK);
    return client;
}

static void begin_lies(struct memcached_script *script, const char *word, const char *reply,
                       int count)
{
    script->word = word;
    script->reply = reply;
    script->lies = count;
}

TEST(renewal_that_a_proxy_cannot_pass_on_is_no_loss)
{
    struct memcached_script script = { 0 };
    _Atomic int losses = 0;
    hf_hold *hold = NULL;
    hf_client *client = open_script(&script);

    CHECK_CODE(hf_lock(client, "one", SOON_MS,
                       LOCK_OPTIONS(.on_lost = count_loss, .lost_arg = &losses), &hold),
               HF_OK);
    begin_lies(&script, "mg hf:one", FAILURE, 2);
    EVENTUALLY(script.told == 2, SOON_MS);
    uint64_t cas = script.cas;
    /* The renewal behind the last lie. */
    EVENTUALLY(script.cas > cas, SOON_MS);
    CHECK_INT(losses, 0);
    CHECK(hf_held(hold));
    CHECK_CODE(hf_unlock(hold), HF_OK);
    CHECK_STR(script.key, "");
    hf_close(client);
}

static bool ignore_entry(void *arg, const hf_entry *entry)
{
    (void)arg, (void)entry;
    return true;
}

/* A lock that nothing is known of is not shown as free, and not reported as broken. */
TEST(look_that_a_proxy_cannot_pass_on_is_no_answer)
{
    struct memcached_script script = { 0 };
    hf_hold *hold = NULL;
    hf_client *client = open_script(&script);

    CHECK_CODE(hf_lock(client, "one", SOON_MS, LOCK_OPTIONS(.lease_ms = 60000), &hold), HF_OK);
    begin_lies(&script, "mg hf:one", FAILURE, 1000000);
    CHECK_CODE(hf_break(client, "one", NULL, NULL), HF_UNREACHABLE);
    CHECK_CODE(hf_inspect(client, "one", ignore_entry, NULL), HF_UNREACHABLE);
    CHECK(strstr(hf_last_error()->text, "backend failure") != NULL);
    script.lies = 0;
    CHECK_CODE(hf_unlock(hold), HF_OK);
    hf_close(client);
}

/* The proxy's server may have stored the item. */
TEST(attempt_that_a_proxy_may_have_passed_on_is_known_again)
{
    struct memcached_script script = { 0 };
    hf_hold *hold = NULL;
    hf_client *client = open_script(&script);

    begin_lies(&script, "add hf:", FAILURE, 1);
    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
    CHECK_INT(script.told, 1);
    CHECK_CODE(hf_unlock(hold), HF_OK);
    hf_close(client);
}

/* The look shows our item each time, with an id that the deletion then does not have. */
TEST(release_that_never_finds_its_id_ends)
{
    struct memcached_script script = { 0 };
    hf_hold *hold = NULL;
    hf_client *client = open_script(&script);

    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
    begin_lies(&script, "md hf:one", "EX\r\n", 1000000000);
    CHECK_ERROR(hf_unlock(hold), HF_UNREACHABLE);
    CHECK(strstr(hf_last_error()->text, "changes all the time") != NULL);
    int asked = script.asked;
    let_pass_ms(1000);
    /* It is repeated now and then, not as fast as the server answers. */
    CHECK(script.asked - asked < 2000);
    hf_close(client);
}

/* Ids are what an item is released by. A server without them would be asked without an end. */
TEST(item_that_shows_no_id_is_left_alone)
{
    struct memcached_script script = { 0 };
    hf_client *client = open_script(&script);
    hf_hold *hold = take_patiently(client, "one");

    begin_lies(&script, "md hf:one", "EX\r\n", 1);
    script.id = "c0 ";
    int asked = script.asked;
    CHECK_ERROR(hf_break(client, "one", NULL, NULL), HF_ENOTSUP);
    CHECK(strstr(hf_last_error()->text, "CAS id") != NULL);
    CHECK_ERROR(hf_unlock(hold), HF_UNREACHABLE);
    CHECK(strstr(hf_last_error()->text, "CAS id") != NULL);
    CHECK(script.asked - asked < 200);
    CHECK(script.key[0]);
    script.id = NULL;
    EVENTUALLY(!script.key[0], SOON_MS);
    hf_close(client);
}

TEST(item_that_shows_no_id_is_not_granted)
{
    static const char *const ids[] = { "", "c0 " };
    struct memcached_script script = { 0 };
    hf_client *client = open_script(&script);
    hf_hold *hold = NULL;

    give_back(take_patiently(client, "one"));
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        script.id = ids[i];
        CHECK_ERROR(hf_lock(client, "one", 0, NULL, &hold), HF_UNREACHABLE);
        CHECK(hold == NULL);
        CHECK(strstr(hf_last_error()->text, "CAS id") != NULL);
        script.id = NULL;
        EVENTUALLY(!script.key[0], SOON_MS);
    }
    hf_close(client);
}

/* The release is asked for all the same. */
TEST(item_whose_renewal_shows_no_id_is_released)
{
    static const char *const ids[] = { "", "c0 ", "c4611686018427387904 " };
    struct memcached_script script = { 0 };
    hf_client *client = open_script(&script);

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        hf_hold *hold = take_patiently(client, "one");
        uint64_t cas = script.cas;
        script.id = ids[i];
        EVENTUALLY(script.cas > cas, SOON_MS);
        script.id = NULL;
        CHECK_CODE(hf_unlock(hold), HF_OK);
        CHECK_STR(script.key, "");
    }
    hf_close(client);
}

static void expect_no_grant(const char *word, const char *reply)
{
    struct memcached_script script = { 0 };
    hf_hold *hold = NULL;
    hf_client *client = open_script(&script);

    begin_lies(&script, word, reply, 1000000);
    /* Until a lie has been told: on a busy machine, the handshake takes its time. */
    do {
        int code = hf_lock(client, "one", 300, NULL, &hold);
        if (code != HF_ECORRUPT && code != HF_ENOTSUP)
            CHECK_CODE(code, HF_UNREACHABLE);
        CHECK(hold == NULL);
    } while (script.told == 0);
    hf_close(client);
}

TEST(replies_out_of_place_grant_nothing)
{
    expect_no_grant("add hf:", "HD\r\n");
    expect_no_grant("add hf:", "STORED\r\nSTORED\r\n");
    expect_no_grant("mg hf:", "VA 4294967296 c1 t30\r\n");
    expect_no_grant("mg hf:", "VA 3 c1 t30\r\nabcd\r\n");
    expect_no_grant("mg hf:", "VA 3 cx t30\r\nabc\r\n");
    expect_no_grant("mg hf:", "NF\r\n");
    expect_no_grant("mg hf:", "EN\n");
    expect_no_grant("mg hf:", "ERROR\r\n");
    expect_no_grant("mg hf:", "");
    expect_no_grant("mg %hf.clock", "EN\r\n");
    expect_no_grant("mg %hf.clock", "HD t-1\r\n");
    expect_no_grant("version", "VERSION 1.4.39\r\n");
    expect_no_grant("version", "VERSION mcrouter 41.0\r\n");
    expect_no_grant("stats", "ERROR\r\n");
}

/* Evicted, flushed or deleted: that is no fault of its clock, which is right. */
TEST(item_that_is_gone_at_once_is_said_to_be)
{
    struct memcached_script script = { 0 };
    hf_hold *hold = NULL;
    hf_client *client = open_script(&script);

    give_back(take_patiently(client, "one"));
    begin_lies(&script, "mg hf:one", "EN\r\n", 1000000);
    CHECK_ERROR(hf_lock(client, "one", 2000, NULL, &hold), HF_UNREACHABLE);
    CHECK(strstr(hf_last_error()->text, "gone") && !strstr(hf_last_error()->text, "clock"));
    script.lies = 0;
    hf_close(client);
}

/* Tokens begin with the moment at which the server began. */
TEST(server_whose_time_is_nonsense_grants_nothing)
{
    expect_no_grant("stats", TIMES("0", "9223372036854775807"));
    expect_no_grant("stats", TIMES("9223372036854775807", "-9223372036854775808"));
    expect_no_grant("stats", TIMES("-9223372036854775808", "9223372036854775807"));
    expect_no_grant("stats", TIMES("9999999999999", "1"));
    expect_no_grant("stats", TIMES("1700000000", "99999999999999999999999"));
    CHECK(strstr(hf_last_error()->text, "uptime") != NULL);
}

static bool note_clock(void *arg, const hf_remark *remark)
{
    *(bool *)arg |= remark->id && strcmp(remark->id, "clock") == 0;
    return true;
}

/* What doctor computes with such numbers is far off, and nothing else. */
TEST(doctor_shows_a_time_that_is_nonsense)
{
    static const char *const numbers[] = { "9223372036854775807", "-9223372036854775808",
                                           "99999999999999999999999", "x" };
    struct memcached_script script = { 0 };
    hf_client *client = open_script(&script);
    char reply[500];

    give_back(take_patiently(client, "one"));
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        bool told = false;
        snprintf(reply, sizeof(reply),
                 "STAT time %s\r\nSTAT uptime %s\r\nSTAT curr_connections %s\r\n"
                 "STAT max_connections 9223372036854775807\r\nSTAT temporary_ttl %s\r\n"
                 "STAT items:1:age %s\r\nEND\r\n",
                 numbers[i], numbers[i], numbers[i], numbers[i], numbers[i]);
        begin_lies(&script, "stats", reply, 3);
        CHECK_CODE(hf_examine(client, NULL, note_clock, &told), HF_OK);
        CHECK(told);
    }
    hf_close(client);
}
