/* SPDX-License-Identifier: Apache-2.0 */
/* One client asks for one name many times at the same moment. The requests leave in the same turn
 * of the loop, and exactly one of them may be granted. */
#include "turns.h"

#include <stdatomic.h>
#include <stdio.h>

enum { TRIES = 20, ROUNDS = 4, THREADS = 8, THREAD_ROUNDS = 1500 };

static const char *const formats[] = { "", "&fence=off", "&format=simple",
                                       "&format=simple&fence=off" };
enum { FORMATS = sizeof(formats) / sizeof(formats[0]) };

/* ---- requests of one dispatch ---- */

/* Returns the only hold among the answers. */
static hf_hold *check_one_is_granted(const struct told *told, int count)
{
    hf_hold *hold = NULL;

    for (int i = 0; i < count; i++) {
        if (told[i].code == HF_OK) {
            CHECK(!hold);
            hold = told[i].hold;
        } else {
            CHECK_INT(told[i].code, HF_BUSY);
        }
    }
    CHECK(hold);
    return hold;
}

/* From the second round on, the name has a last token that is counted on from. */
static void try_one_name_at_once(hf_client *client)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct told told[TRIES] = { 0 };

        for (int i = 0; i < TRIES; i++)
            ask(client, "one", 0, &told[i]);
        turn_until_told(client, told, TRIES);
        give_back(check_one_is_granted(told, TRIES));
    }
}

TEST(one_of_many_tries_in_one_turn_is_granted)
{
    struct server server = { 0 };

    server_start(&server);
    for (int i = 0; i < FORMATS; i++) {
        test_note("%s", formats[i]);
        hf_client *client = open_with(&server, formats[i]);
        try_one_name_at_once(client);
        hf_close(client);
        run(&server, "FLUSHALL");
    }
    server_kill(&server);
}

/* Other names stand between, before and behind, and two names differ in their last byte only. */
TEST(many_tries_for_few_names_grant_each_name_once)
{
    static const char *const names[] = { "few/1", "few/2", "few", "few/11" };
    enum { NAMES = sizeof(names) / sizeof(names[0]) };
    struct server server = { 0 };

    server_start(&server);
    for (int i = 0; i < FORMATS; i++) {
        struct told told[NAMES][TRIES] = { 0 };
        hf_client *client = open_with(&server, formats[i]);

        test_note("%s", formats[i]);
        for (int j = 0; j < TRIES; j++)
            for (int name = 0; name < NAMES; name++)
                ask(client, names[name], 0, &told[name][j]);
        turn_until_told(client, told[0], NAMES * TRIES);
        for (int name = 0; name < NAMES; name++)
            give_back(check_one_is_granted(told[name], TRIES));
        hf_close(client);
        run(&server, "FLUSHALL");
    }
    server_kill(&server);
}

/* A request that waits and a bare try are one batch in format=simple. */
TEST(a_waiter_and_tries_in_one_turn_have_one_holder)
{
    struct server server = { 0 };

    server_start(&server);
    for (int i = 0; i < FORMATS; i++) {
        struct told tries[TRIES] = { 0 }, waiting = { 0 };
        hf_client *client = open_with(&server, formats[i]);

        test_note("%s", formats[i]);
        give_back(take_patiently(client, "one"));
        ask(client, "one", 0, &tries[0]);
        ask(client, "one", HF_FOREVER, &waiting);
        for (int j = 1; j < TRIES; j++)
            ask(client, "one", 0, &tries[j]);
        turn_until_told(client, tries, TRIES);
        for (int j = 0; j < TRIES; j++)
            if (tries[j].code == HF_OK) {
                CHECK_INT(waiting.calls, 0);
                give_back(tries[j].hold);
            }
        turn_until_told(client, &waiting, 1);
        CHECK_INT(waiting.code, HF_OK);
        give_back(waiting.hold);
        hf_close(client);
    }
    server_kill(&server);
}

/* ---- threads ---- */

struct crowd {
    hf_client *client;
    _Atomic int holders, granted;
    _Atomic uint64_t last_token;
};

static void try_and_let_go(void *arg, int index)
{
    struct crowd *crowd = arg;

    (void)index;
    for (int i = 0; i < THREAD_ROUNDS; i++) {
        hf_hold *hold = NULL;
        int code = hf_lock(crowd->client, "one", 0, NULL, &hold);

        if (code == HF_BUSY)
            continue;
        CHECK_INT(code, HF_OK);
        CHECK_INT(atomic_fetch_add(&crowd->holders, 1), 0);
        CHECK(hf_token(hold) == 0 || hf_token(hold) > crowd->last_token);
        crowd->last_token = hf_token(hold);
        crowd->granted++;
        CHECK_INT(atomic_fetch_sub(&crowd->holders, 1), 1);
        give_back(hold);
    }
}

TEST(threads_that_try_one_name_hold_it_one_at_a_time)
{
    struct server server = { 0 };

    server_start(&server);
    for (int i = 0; i < FORMATS; i++) {
        struct crowd crowd = { 0 };
        char url[160];

        test_note("%s", formats[i]);
        snprintf(url, sizeof(url), "%s%s", server_url(&server, 30000), formats[i]);
        CHECK_CODE(hf_open(&crowd.client, url, NULL), HF_OK);
        threads_run(THREADS, try_and_let_go, &crowd);
        CHECK(crowd.granted > 0);
        hf_close(crowd.client);
        run(&server, "FLUSHALL");
    }
    server_kill(&server);
}
