/* SPDX-License-Identifier: Apache-2.0 */
/* The SQL engines when replies get lost or requests come late, and when the server stands still or
 * is killed. A second client, with a way of its own to the server, sees what has become of it. */
#include "conformance.h"
#include "relay.h"
#include "sql_server.h"

#include <stdio.h>
#include <stdlib.h>

/* Far beyond the end of any test: nothing goes by itself. */
#define LEASE_MS 600000
#define UNITS 10

struct relayed {
    struct sql_server server;
    struct relay relay;
    hf_client *client, *other;
};

static void begin_relayed(struct relayed *relayed, const char *kind, int timeout_ms,
                          int64_t lease_ms)
{
    *relayed = (struct relayed){ .client = NULL };
    sql_server_start(&relayed->server, kind);
    relay_start(&relayed->relay, relayed->server.port);
    relayed->client = sql_open(&relayed->server, relayed->relay.port, timeout_ms, lease_ms);
    relayed->other = sql_open(&relayed->server, relayed->server.port, SOON_MS, lease_ms);
    give_back(take_patiently(relayed->client, "warm"));
    give_back(take_patiently(relayed->other, "warm"));
    CHECK_CODE(hf_counter_set(relayed->other, "units", UNITS), HF_OK);
    CHECK_CODE(hf_semaphore_set(relayed->other, "permits", 3), HF_OK);
}

static void end_relayed(struct relayed *relayed)
{
    hf_close(relayed->client);
    hf_close(relayed->other);
    relay_stop(&relayed->relay);
    sql_server_kill(&relayed->server);
}

struct wanted {
    const char *name;
    hf_mode mode;
};

/* Each mode has a name of its own. */
static const struct wanted wanted[] = {
    { "mutex", HF_MUTEX }, { "fair", HF_FAIR },      { "read", HF_READ },
    { "write", HF_WRITE }, { "permits", HF_PERMIT }, { "units", HF_COUNTER },
};
enum { WANTED = sizeof wanted / sizeof *wanted };

static uint32_t units(hf_client *client)
{
    uint32_t value = 0;

    CHECK_CODE(hf_counter_get(client, "units", &value), HF_OK);
    return value;
}

static bool is_taken(hf_client *client, const struct wanted *what)
{
    if (what->mode == HF_COUNTER)
        return units(client) != UNITS;
    return holders(client, what->name) == 1;
}

static bool are_all_free(hf_client *client)
{
    bool all = true;
    for (int i = 0; i < WANTED; i++)
        all = all && !is_taken(client, &wanted[i]);
    return all;
}

/* ---- replies that are lost ---- */

static long receipts(const struct sql_server *server)
{
    return strtol(sql_server_says(server, "SELECT COUNT(*) FROM hf_hold WHERE mode = 6;"), NULL,
                  10);
}

static void ask_unheard(struct relayed *relayed, const struct wanted *what, int64_t wait_ms,
                        struct outcome *outcome)
{
    hf_hold *hold = NULL;

    /* The library prepares a statement first, and needs a reply for that. */
    CHECK_CODE(
        hf_lock(relayed->client, what->name, SOON_MS, LOCK_OPTIONS(.mode = what->mode), &hold),
        HF_OK);
    if (hold)
        give_back(hold);
    /* The receipt of a counter's take is deleted behind it. */
    EVENTUALLY(receipts(&relayed->server) == 0, SOON_MS);
    units(relayed->client);
    CHECK_CODE(hf_counter_set(relayed->other, "units", UNITS), HF_OK);
    relay_swallow(&relayed->relay);
    CHECK_CODE(hf_lock_async(relayed->client, what->name, wait_ms, LOCK_OPTIONS(.mode = what->mode),
                             record_outcome, outcome, NULL),
               HF_OK);
    EVENTUALLY(is_taken(relayed->other, what), SOON_MS);
    relay_cut(&relayed->relay);
    WAIT_OUTCOME(outcome);
}

/* No network does this, but a proxy that is broken: the next request gets no other one's reply. */
TEST(reply_that_is_left_out_grants_nothing)
{
    EACH_DATABASE(kind)
    {
        struct relayed relayed;
        hf_hold *held, *hold = NULL;

        begin_relayed(&relayed, *kind, 2000, LEASE_MS);
        for (int i = 0; i < 2; i++)
            give_back(take_patiently(relayed.client, "mutex"));
        hf_hold *released = take_patiently(relayed.client, "mutex");
        held = take_patiently(relayed.other, "held");
        relay_swallow(&relayed.relay);
        hf_unlock_nowait(released);
        EVENTUALLY(holders(relayed.other, "mutex") == 0, SOON_MS);
        relay_pass(&relayed.relay);
        int code = hf_lock(relayed.client, "held", 300, NULL, &hold);
        CHECK(code == HF_BUSY || code == HF_UNREACHABLE);
        EVENTUALLY(probe(relayed.client, "held", HF_MUTEX, 0) == HF_BUSY, SOON_MS);
        CHECK(hf_held(held));
        give_back(held);
        end_relayed(&relayed);
    }
}

TEST(lock_whose_reply_was_lost_is_taken_once)
{
    EACH_DATABASE(kind)
    {
        struct relayed relayed;

        begin_relayed(&relayed, *kind, SOON_MS, LEASE_MS);
        for (int i = 0; i < WANTED; i++) {
            struct outcome outcome = { 0 };
            ask_unheard(&relayed, &wanted[i], HF_FOREVER, &outcome);
            CHECK_CODE(outcome.code, HF_OK);
            CHECK_INT(units(relayed.other), UNITS - (wanted[i].mode == HF_COUNTER));
            if (!outcome.hold)
                continue;
            give_back(outcome.hold);
            check_nothing_left(relayed.other, wanted[i].name);
        }
        end_relayed(&relayed);
    }
}

TEST(try_whose_reply_was_lost_leaves_nothing)
{
    EACH_DATABASE(kind)
    {
        struct relayed relayed;

        begin_relayed(&relayed, *kind, SOON_MS, LEASE_MS);
        for (int i = 0; i < WANTED; i++) {
            struct outcome outcome = { 0 };
            ask_unheard(&relayed, &wanted[i], 0, &outcome);
            CHECK_CODE(outcome.code, HF_UNREACHABLE);
            EVENTUALLY(!is_taken(relayed.other, &wanted[i]), SOON_MS);
        }
        end_relayed(&relayed);
    }
}

struct unlocking {
    hf_hold *hold, *next;
    _Atomic int code;
    struct relayed *relayed;
};

/* Another client has it before the first one hears that it has released it. */
static void unlock_or_take(void *arg, int index)
{
    struct unlocking *unlocking = arg;

    if (index == 0) {
        unlocking->code = hf_unlock(unlocking->hold);
        return;
    }
    /* A release that finds a waiter needs its reply to hand over. */
    EVENTUALLY(holders(unlocking->relayed->other, "one") == 0, SOON_MS);
    unlocking->next = take_patiently(unlocking->relayed->other, "one");
    relay_cut(&unlocking->relayed->relay);
}

TEST(release_whose_reply_was_lost_takes_nothing_from_the_next_owner)
{
    EACH_DATABASE(kind)
    {
        struct relayed relayed;
        struct unlocking unlocking = { .relayed = &relayed };

        begin_relayed(&relayed, *kind, SOON_MS, LEASE_MS);
        unlocking.hold = take_patiently(relayed.client, "one");
        relay_swallow(&relayed.relay);
        threads_run(2, unlock_or_take, &unlocking);
        CHECK_CODE(unlocking.code, HF_OK);
        CHECK(hf_held(unlocking.next));
        CHECK_CODE(probe(relayed.client, "one", HF_MUTEX, 0), HF_BUSY);
        give_back(unlocking.next);
        end_relayed(&relayed);
    }
}

static int64_t lease_left_ms(hf_client *client, const char *name)
{
    const struct seen *seen = find_role(look(client, name), HF_ROLE_HOLDER, 0);
    return seen ? seen->lease_left_ms : -1;
}

TEST(renewal_whose_reply_was_lost_loses_nothing)
{
    EACH_DATABASE(kind)
    {
        struct relayed relayed;
        _Atomic int losses = 0;
        hf_hold *hold = NULL;

        begin_relayed(&relayed, *kind, SOON_MS, 6000);
        CHECK_CODE(hf_lock(relayed.client, "one", SOON_MS,
                           LOCK_OPTIONS(.on_lost = count_loss, .lost_arg = &losses), &hold),
                   HF_OK);
        /* The library prepares a statement first, and needs a reply for that. */
        EVENTUALLY(lease_left_ms(relayed.other, "one") < 5000, SOON_MS);
        EVENTUALLY(lease_left_ms(relayed.other, "one") > 5000, SOON_MS);
        EVENTUALLY(lease_left_ms(relayed.other, "one") < 5000, SOON_MS);
        relay_swallow(&relayed.relay);
        EVENTUALLY(lease_left_ms(relayed.other, "one") > 5000, SOON_MS);
        relay_cut(&relayed.relay);
        let_pass_ms(7000);
        CHECK_INT(losses, 0);
        CHECK(hf_held(hold));
        CHECK_INT(holders(relayed.other, "one"), 1);
        give_back(hold);
        end_relayed(&relayed);
    }
}

/* A renewal of the short lease must not follow it. */
TEST(longer_lease_stays_although_its_reply_was_lost)
{
    EACH_DATABASE(kind)
    {
        struct relayed relayed;
        hf_hold *hold = NULL;

        begin_relayed(&relayed, *kind, SOON_MS, LEASE_MS);
        CHECK_CODE(hf_lock(relayed.client, "one", SOON_MS, LOCK_OPTIONS(.lease_ms = 30000), &hold),
                   HF_OK);
        CHECK_CODE(hf_renew(hold, 40000), HF_OK);
        relay_swallow(&relayed.relay);
        CHECK_CODE(hf_renew(hold, 300000), HF_UNREACHABLE);
        CHECK(hf_held(hold));
        relay_cut(&relayed.relay);
        give_back(take_patiently(relayed.client, "another"));
        CHECK(lease_left_ms(relayed.other, "one") > 200000);
        CHECK_CODE(hf_renew(hold, 300000), HF_OK);
        CHECK(lease_left_ms(relayed.other, "one") > 200000);
        give_back(hold);
        check_nothing_left(relayed.other, "one");
        end_relayed(&relayed);
    }
}

/* ---- requests that come late ---- */

/* Its connection is dead to us, and held up on the way. What was asked on it arrives when it has
 * been asked again on another one, and released. */
TEST(request_that_was_given_up_is_never_executed)
{
    EACH_DATABASE(kind)
    {
        struct relayed relayed;
        struct outcome outcomes[WANTED] = { 0 };

        begin_relayed(&relayed, *kind, 500, LEASE_MS);
        relay_hold(&relayed.relay);
        for (int i = 0; i < WANTED; i++)
            CHECK_CODE(hf_lock_async(relayed.client, wanted[i].name, 100,
                                     LOCK_OPTIONS(.mode = wanted[i].mode), record_outcome,
                                     &outcomes[i], NULL),
                       HF_OK);
        for (int i = 0; i < WANTED; i++) {
            WAIT_OUTCOME(&outcomes[i]);
            CHECK_CODE(outcomes[i].code, HF_UNREACHABLE);
        }
        give_back(take_patiently(relayed.client, "another"));
        hf_close(relayed.client);
        relay_let_go(&relayed.relay);
        CHECK(are_all_free(relayed.other));
        relayed.client = sql_open(&relayed.server, relayed.server.port, SOON_MS, LEASE_MS);
        end_relayed(&relayed);
    }
}

/* ---- one of several connections ---- */

static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h" };
enum { NAMES = sizeof names / sizeof *names };

/* The client has one connection so far, that of the first name. */
static void begin_several(struct relayed *relayed, const char *kind)
{
    begin_relayed(relayed, kind, 500, LEASE_MS);
    hf_close(relayed->client);
    relayed->server.connections = 4;
    relayed->client = sql_open(&relayed->server, relayed->relay.port, 500, LEASE_MS);
    for (int i = 0; i < 2; i++)
        give_back(take_patiently(relayed->client, names[0]));
}

/* It is held up, and the names of the others are not. What was asked on it arrives when all that
 * has been taken and released on another one. */
TEST(request_on_a_connection_of_several_that_was_given_up_is_never_executed)
{
    EACH_DATABASE(kind)
    {
        struct relayed relayed;
        struct outcome outcomes[NAMES] = { 0 };
        hf_hold *hold = NULL;

        begin_several(&relayed, *kind);
        relay_hold(&relayed.relay);
        CHECK_CODE(hf_lock(relayed.client, names[0], 100, NULL, &hold), HF_UNREACHABLE);
        for (int i = 0; i < NAMES; i++)
            CHECK_CODE(hf_lock_async(relayed.client, names[i], HF_FOREVER, NULL, record_outcome,
                                     &outcomes[i], NULL),
                       HF_OK);
        for (int i = 0; i < NAMES; i++)
            give_back(await_grant(&outcomes[i]));
        hf_close(relayed.client);
        relay_let_go(&relayed.relay);
        for (int i = 0; i < NAMES; i++)
            check_nothing_left(relayed.other, names[i]);
        relayed.client = sql_open(&relayed.server, relayed.server.port, SOON_MS, LEASE_MS);
        end_relayed(&relayed);
    }
}

/* The others hold and release meanwhile, and lose nothing when the one comes back. */
TEST(reply_that_is_lost_on_one_of_several_connections_concerns_its_names_alone)
{
    EACH_DATABASE(kind)
    {
        struct relayed relayed;
        struct outcome outcome = { 0 };
        hf_hold *holds[NAMES];

        begin_several(&relayed, *kind);
        relay_mute(&relayed.relay);
        CHECK_CODE(hf_lock_async(relayed.client, names[0], HF_FOREVER, NULL, record_outcome,
                                 &outcome, NULL),
                   HF_OK);
        EVENTUALLY(holders(relayed.other, names[0]) == 1, SOON_MS);
        for (int i = 1; i < NAMES; i++)
            holds[i] = take_patiently(relayed.client, names[i]);
        holds[0] = await_grant(&outcome);
        for (int i = 0; i < NAMES; i++) {
            CHECK_INT(holders(relayed.other, names[i]), 1);
            CHECK(hf_held(holds[i]));
            CHECK_CODE(hf_unlock(holds[i]), HF_OK);
            check_nothing_left(relayed.other, names[i]);
        }
        end_relayed(&relayed);
    }
}

/* ---- releases ---- */

TEST(release_that_did_not_arrive_is_repeated)
{
    EACH_DATABASE(kind)
    {
        struct relayed relayed;

        begin_relayed(&relayed, *kind, 500, LEASE_MS);
        hf_hold *hold = take_patiently(relayed.client, "one");
        relay_hold(&relayed.relay);
        CHECK_CODE(hf_unlock(hold), HF_OK);
        CHECK_INT(holders(relayed.other, "one"), 0);
        end_relayed(&relayed);
    }
}

/* ---- servers that stand still or die ---- */

/* Longer than the client repeats a release. */
TEST(attempt_at_a_server_that_stood_still_for_long_leaves_nothing)
{
    EACH_DATABASE(kind)
    {
        struct relayed relayed;
        hf_hold *hold = NULL;

        begin_relayed(&relayed, *kind, 1000, 1000);
        sql_server_stop(&relayed.server);
        CHECK_CODE(hf_lock(relayed.client, "one", 0, NULL, &hold), HF_UNREACHABLE);
        CHECK_CODE(hf_lock(relayed.client, "units", 0, LOCK_OPTIONS(.mode = HF_COUNTER), &hold),
                   HF_UNREACHABLE);
        let_pass_ms(6000);
        sql_server_continue(&relayed.server);
        CHECK_CODE(hf_lock(relayed.other, "one", SOON_MS, NULL, &hold), HF_OK);
        give_back(hold);
        EVENTUALLY(units(relayed.other) == UNITS, SOON_MS);
        end_relayed(&relayed);
    }
}

TEST(killed_server_has_kept_the_lock)
{
    EACH_DATABASE(kind)
    {
        struct relayed relayed;
        _Atomic int losses = 0;
        hf_hold *hold = NULL;

        begin_relayed(&relayed, *kind, SOON_MS, LEASE_MS);
        CHECK_CODE(hf_lock(relayed.client, "one", SOON_MS,
                           LOCK_OPTIONS(.on_lost = count_loss, .lost_arg = &losses), &hold),
                   HF_OK);
        uint64_t token = hf_token(hold);
        sql_server_kill(&relayed.server);
        sql_server_start_again(&relayed.server);
        EVENTUALLY(probe(relayed.other, "one", HF_MUTEX, 0) == HF_BUSY, SOON_MS);
        CHECK(hf_held(hold));
        CHECK_INT(losses, 0);
        give_back(hold);
        hold = take_patiently(relayed.other, "one");
        CHECK(hf_token(hold) > token);
        give_back(hold);
        end_relayed(&relayed);
    }
}

/* The server writes its log for what waits for the disk, and by itself only each 10 seconds. */
TEST(server_that_forgets_a_place_by_its_death_forgets_no_grant_behind_it)
{
    struct sql_server server = { .options = { "-c", "wal_writer_delay=10000" } };
    struct outcome outcome = { 0 };

    sql_server_start(&server, "postgres");
    hf_client *client = sql_open(&server, server.port, SOON_MS, LEASE_MS);
    hf_client *other = sql_open(&server, server.port, SOON_MS, LEASE_MS);
    hf_hold *one = take_patiently(other, "one"), *two = NULL;
    begin_wait(client, "one", HF_MUTEX, &outcome);
    for (int kills = 0; kills < 2; kills++) {
        EVENTUALLY(waiters(other, "one") == 1, SOON_MS);
        if (kills == 1)
            two = take_patiently(client, "two");
        sql_server_kill(&server);
        sql_server_start_again(&server);
    }
    EVENTUALLY(probe(other, "two", HF_MUTEX, 0) != HF_UNREACHABLE, SOON_MS);
    CHECK_CODE(probe(other, "two", HF_MUTEX, 0), HF_BUSY);
    CHECK_INT(outcome.calls, 0);
    give_back(one);
    give_back(await_grant(&outcome));
    give_back(two);
    hf_close(client);
    hf_close(other);
    sql_server_kill(&server);
}

/* ---- rows that other programs have locked ---- */

static void lock_row_for_7_s(void *arg)
{
    struct relayed *relayed = arg;
    bool is_mariadb = sql_server_is_mariadb(&relayed->server);

    sql_server_says(&relayed->server,
                    "BEGIN; SELECT 1 FROM hf_lock WHERE name = 'warm' FOR UPDATE; SELECT %s(7);",
                    is_mariadb ? "SLEEP" : "pg_sleep");
}

/* A session waits for a row for 5 seconds at most. */
TEST(row_that_is_locked_for_long_delays_a_lock_and_fails_nothing)
{
    EACH_DATABASE(kind)
    {
        struct relayed relayed;
        struct thread thread;
        hf_hold *hold = NULL;

        begin_relayed(&relayed, *kind, SOON_MS, LEASE_MS);
        thread_start(&thread, lock_row_for_7_s, &relayed);
        const char *sleeping = sql_server_is_mariadb(&relayed.server)
                                   ? "SELECT COUNT(*) FROM information_schema.processlist WHERE "
                                     "info LIKE '%SLEEP(7)%' AND id <> connection_id();"
                                   : "SELECT COUNT(*) FROM pg_stat_activity WHERE "
                                     "wait_event = 'PgSleep';";
        EVENTUALLY(sql_server_shows(&relayed.server, sleeping, "1"), SOON_MS);
        CHECK_CODE(hf_lock(relayed.client, "warm", SOON_MS, NULL, &hold), HF_OK);
        thread_join(&thread);
        CHECK(hf_held(hold));
        give_back(hold);
        end_relayed(&relayed);
    }
}
