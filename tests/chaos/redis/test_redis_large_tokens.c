/* SPDX-License-Identifier: Apache-2.0 */
/* A lock's last token that another program has set, as large as a count of nanoseconds. A script's
 * numbers are not exact there, and tokens rise by one all the same. */
#include "turns.h"

#include <inttypes.h>
#include <stdio.h>

#define EXACT_MAX INT64_C(9007199254740991)
#define NANOSECONDS INT64_C(1795610270622553000)

static const int64_t lasts[] = { EXACT_MAX - 1, EXACT_MAX, EXACT_MAX + 1, NANOSECONDS };
enum { LASTS = sizeof(lasts) / sizeof(lasts[0]), GRANTS = 4, AT_ONCE = 5 };

static void set_last(const struct server *server, const char *name, const char *last)
{
    char command[160];

    snprintf(command, sizeof(command), "SET redisson_lock_token:{%s} %s PX 100000", name, last);
    CHECK(server_says(server, command, "+OK"));
}

static void set_last_number(const struct server *server, const char *name, int64_t last)
{
    char digits[32];

    snprintf(digits, sizeof(digits), "%" PRId64, last);
    set_last(server, name, digits);
}

/* ---- one after the other ---- */

static const struct kind {
    hf_mode mode;
    const char *options;
} kinds[] = {
    { HF_MUTEX, "" },
    { HF_FAIR, "" },
    { HF_WRITE, "" },
    { HF_PERMIT, "" },
    { HF_MUTEX, "&format=simple" },
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static hf_lock_options options_of(hf_mode mode)
{
    return HF_LOCK_OPTIONS(.mode = mode, .limit = mode == HF_PERMIT ? 3 : 0);
}

static void check_rising(hf_client *client, const hf_lock_options *options, int64_t last)
{
    hf_hold *hold = NULL;

    for (int i = 1; i <= GRANTS; i++) {
        CHECK_CODE(hf_lock(client, "one", 0, options, &hold), HF_OK);
        CHECK_INT(hf_token(hold), last + i);
        give_back(hold);
    }
}

TEST(tokens_above_what_a_script_counts_exactly_rise_by_one)
{
    struct server server = { 0 };

    server_start(&server);
    for (int i = 0; i < KINDS; i++) {
        const hf_lock_options options = options_of(kinds[i].mode);
        hf_client *client = open_with(&server, kinds[i].options);

        for (int k = 0; k < LASTS; k++) {
            test_note("mode %d%s after %" PRId64, kinds[i].mode, kinds[i].options, lasts[k]);
            set_last_number(&server, "one", lasts[k]);
            check_rising(client, &options, lasts[k]);
        }
        hf_close(client);
        run(&server, "FLUSHALL");
    }
    server_kill(&server);
}

/* ---- at once ---- */

static void check_at_once(const struct server *server, const char *options, int64_t last)
{
    struct told told[AT_ONCE] = { 0 };
    hf_client *client = open_with(server, options);
    char name[16];

    for (int i = 0; i < AT_ONCE; i++) {
        snprintf(name, sizeof(name), "many/%d", i);
        set_last_number(server, name, last);
        ask(client, name, 0, &told[i]);
    }
    turn_until_told(client, told, AT_ONCE);
    for (int i = 0; i < AT_ONCE; i++) {
        CHECK_INT(told[i].code, HF_OK);
        CHECK_INT(hf_token(told[i].hold), last + 1);
        give_back(told[i].hold);
    }
    hf_close(client);
}

TEST(large_tokens_of_one_batch_rise_by_one)
{
    struct server server = { 0 };

    server_start(&server);
    for (int k = 0; k < LASTS; k++) {
        check_at_once(&server, "", lasts[k]);
        check_at_once(&server, "&format=simple", lasts[k]);
    }
    server_kill(&server);
}

/* ---- handed over ---- */

static void hand_over(const struct server *server, hf_mode mode, int64_t last)
{
    hf_client *client = NULL, *other = NULL;
    struct outcome outcome = { 0 };

    CHECK_CODE(hf_open(&client, server_url(server, 30000), NULL), HF_OK);
    CHECK_CODE(hf_open(&other, server_url(server, 30000), NULL), HF_OK);
    set_last_number(server, "one", last);
    hf_hold *hold = take(client, "one", mode, 0);
    begin_wait(other, "one", mode, &outcome);
    EVENTUALLY(waiters(client, "one") == 1, SOON_MS);
    give_back(hold);
    WAIT_OUTCOME(&outcome);
    CHECK_INT(hf_token(outcome.hold), last + 2);
    give_back(outcome.hold);
    hf_close(other);
    hf_close(client);
}

TEST(a_waiter_is_given_the_large_token_after_the_holders)
{
    struct server server = { 0 };

    server_start(&server);
    for (int k = 0; k < LASTS; k++) {
        hand_over(&server, HF_MUTEX, lasts[k]);
        hand_over(&server, HF_FAIR, lasts[k]);
    }
    server_kill(&server);
}

/* ---- a quorum ---- */

TEST(large_tokens_of_a_quorum_rise)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    hf_client *client = NULL;

    for (int i = 0; i < QUORUM_SERVERS; i++)
        server_start(&servers[i]);
    CHECK_CODE(hf_open(&client, quorum_url(servers, 30000), NULL), HF_OK);
    for (int k = 0; k < LASTS; k++) {
        /* Of three, one is ahead: the others are levelled. */
        for (int i = 0; i < QUORUM_SERVERS; i++)
            set_last_number(&servers[i], "one", lasts[k] + (i == 0));
        uint64_t token = (uint64_t)lasts[k];
        for (int i = 0; i < GRANTS; i++) {
            hf_hold *hold = take_patiently(client, "one");
            CHECK(hf_token(hold) > token);
            token = hf_token(hold);
            give_back(hold);
        }
        CHECK(token <= (uint64_t)lasts[k] + 1 + GRANTS);
    }
    hf_close(client);
    for (int i = 0; i < QUORUM_SERVERS; i++)
        server_kill(&servers[i]);
}

/* ---- too large ---- */

TEST(a_last_token_that_nothing_follows_is_refused)
{
    static const char *const wrong[] = { "9223372036854775807", "99999999999999999999", "1e17" };
    struct server server = { 0 };

    server_start(&server);
    for (int i = 0; i < KINDS; i++) {
        const hf_lock_options options = options_of(kinds[i].mode);
        hf_client *client = open_with(&server, kinds[i].options);
        hf_hold *hold = NULL;

        for (size_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++) {
            test_note("mode %d%s after %s", kinds[i].mode, kinds[i].options, wrong[k]);
            set_last(&server, "one", wrong[k]);
            CHECK_ERROR(hf_lock(client, "one", 0, &options, &hold), HF_EKIND);
            CHECK(strstr(hf_last_error()->text, "redisson_lock_token"));
            CHECK(server_says(&server, "DEL one", ":0"));
        }
        hf_close(client);
        run(&server, "FLUSHALL");
    }
    server_kill(&server);
}
