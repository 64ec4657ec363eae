/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds something, and may not call one of the commands any more: it is not lost, nor had
 * twice, and what has run out is there for others. */
#include "rights.h"

static void tell(const struct server *server, const char *command)
{
    CHECK(server_tell(server, command, NULL, 0));
}

/* ---- what was left under a key ---- */

/* Leaves it under a key, and may not call one of the commands when it is to be taken over. */
static int attach_without(const struct server *server, hf_client *client, const struct kind *kind,
                          const char *command)
{
    char key[HF_OWNER_KEY_SIZE];
    hf_hold *hold;

    set_up(server, kind->free, false);
    CHECK_CODE(hf_lock(client, "one", 0,
                       LOCK_OPTIONS(.mode = kind->mode, .permits = kind->permits,
                                    .limit = kind->limit, .lease_ms = LEASE_MS),
                       &hold),
               HF_OK);
    CHECK_CODE(hf_detach(hold, key), HF_OK);
    const char *before = snapshot(server);
    forbid(server, command);
    int code = hf_attach(client, "one", key, &hold);
    if (code == HF_DENIED)
        check_unchanged(kind, command, before, snapshot(server));
    else if (code != HF_OK)
        FAIL("%s without %s: %s", kind->name, command, hf_last_error()->text);
    let_bob(server, "");
    if (code == HF_DENIED)
        CHECK_CODE(hf_attach(client, "one", key, &hold), HF_OK);
    give_back(hold);
    return code;
}

TEST(who_may_not_take_over_leaves_it_under_its_key)
{
    struct server server = { 0 };
    int denied = 0;

    TEST_TIMEOUT(120 * test_slow());
    server_start(&server);
    let_bob(&server, "");
    for (size_t i = 0; i < KINDS; i++) {
        if (kinds[i].mode == HF_COUNTER || kinds[i].mode == HF_LATCH)
            continue;
        hf_client *client = open_as_bob(&server, kinds[i].more, HF_DRIVE_THREAD);
        for (size_t j = 0; j < COMMANDS; j++)
            denied += attach_without(&server, client, &kinds[i], commands[j]) == HF_DENIED;
        hf_close(client);
    }
    CHECK(denied > 20);
    server_kill(&server);
}

/* ---- giving back ---- */

TEST(who_may_not_give_back_has_not_lost_it)
{
    struct server server = { 0 };
    hf_hold *hold;

    server_start(&server);
    let_bob(&server, "");
    for (size_t i = 0; i < KINDS; i++) {
        hf_client *client = open_as_bob(&server, kinds[i].more, HF_DRIVE_THREAD);
        for (size_t j = 0; j < COMMANDS; j++) {
            set_up(&server, kinds[i].free, false);
            CHECK_CODE(ask_for(client, &kinds[i], 0, &hold), HF_OK);
            forbid(&server, commands[j]);
            int code = hold ? hf_unlock(hold) : HF_OK;
            if (code != HF_OK && code != HF_DENIED)
                FAIL("%s without %s: %s", kinds[i].name, commands[j], hf_last_error()->text);
            let_bob(&server, "");
        }
        hf_close(client);
    }
    server_kill(&server);
}

/* ---- permits ---- */

/* Free ones and those that are taken. */
static void check_permits(const struct server *server, const char *number)
{
    CHECK(server_says(server,
                      "EVAL \"return redis.call('get', 'one') + redis.call('zcard', "
                      "'{one}:timeout')\" 0",
                      number));
}

TEST(a_permit_that_has_run_out_is_not_lost_to_who_may_not_count_it)
{
    static const struct kind kind = { .mode = HF_PERMIT, .permits = 2 };
    struct server server = { 0 };
    int denied = 0;
    hf_hold *hold;

    server_start(&server);
    let_bob(&server, "");
    hf_client *client = open_as_bob(&server, NULL, HF_DRIVE_THREAD);
    for (size_t i = 0; i < COMMANDS; i++) {
        set_up(&server, "MSET one 2 holdfast_kind:{one} \"a semaphore\"", false);
        tell(&server, "ZADD {one}:timeout 1 nobody 2 anybody 3 somebody");
        forbid(&server, commands[i]);
        int code = ask_for(client, &kind, 0, &hold);
        CHECK(code == HF_OK || code == HF_DENIED);
        check_permits(&server, ":5");
        let_bob(&server, "");
        if (hold)
            give_back(hold);
        denied += code == HF_DENIED && strcmp(commands[i], "incrby") == 0;
    }
    CHECK_INT(denied, 1);
    hf_close(client);
    server_kill(&server);
}

TEST(a_permit_is_not_lost_to_who_may_not_count_what_goes_back)
{
    static const struct kind some = { .mode = HF_PERMIT, .permits = 3 };
    static const struct kind all = { .mode = HF_PERMIT, .permits = 5 };
    struct server server = { 0 };
    hf_hold *hold;

    server_start(&server);
    let_bob(&server, "");
    hf_client *client = open_as_bob(&server, NULL, HF_DRIVE_THREAD);
    CHECK_CODE(hf_semaphore_set(client, "one", 5), HF_OK);
    CHECK_CODE(ask_for(client, &some, 0, &hold), HF_OK);
    forbid(&server, "incrby");
    CHECK_CODE(hf_unlock(hold), HF_DENIED);
    let_bob(&server, "");
    CHECK_CODE(ask_for(client, &all, 0, &hold), HF_OK);
    forbid(&server, "incrby");
    CHECK_CODE(hf_break(client, "one", NULL, NULL), HF_DENIED);
    let_bob(&server, "");
    check_permits(&server, ":5");
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    CHECK_CODE(ask_for(client, &all, 0, &hold), HF_OK);
    give_back(hold);
    hf_close(client);
    server_kill(&server);
}

/* ---- channels ---- */

/* A mutex is granted by the client's own channel; others are waited for on a channel of the lock.
 */
static void wait_without_channels(const struct server *server, hf_client *other, hf_mode mode)
{
    static const char *const counts = "cmdstat_subscribe:calls=0,usec=0,usec_per_call=0.00,"
                                      "rejected_calls=";
    struct outcome outcome = { 0 };

    CHECK(server_says(server, "CONFIG RESETSTAT", "+OK"));
    let_bob(server, "resetchannels");
    hf_client *client = open_as_bob(server, NULL, HF_DRIVE_THREAD);
    hf_hold *hold = take(other, "one", mode, 0);
    begin_wait(client, "one", mode, &outcome);
    EVENTUALLY(server_counts(server, "commandstats", counts) > 0, SOON_MS);
    let_bob(server, "");
    EVENTUALLY(server_counts(server, "stats", "pubsub_channels:") > 0, SOON_MS);
    give_back(hold);
    give_back(await_grant(&outcome));
    hf_close(client);
}

TEST(waiter_whose_user_gets_the_right_to_listen_does_so)
{
    struct server server = { 0 };
    hf_client *other = NULL;

    server_start(&server);
    CHECK_CODE(hf_open(&other, server_url(&server, 20000), NULL), HF_OK);
    wait_without_channels(&server, other, HF_MUTEX);
    wait_without_channels(&server, other, HF_WRITE);
    hf_close(other);
    server_kill(&server);
}
