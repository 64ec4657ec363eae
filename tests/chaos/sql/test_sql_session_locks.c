/* SPDX-License-Identifier: Apache-2.0 */
/* Session locks of databases (layout=session): sessions that end, replies that are lost, networks
 * that fall silent, processes that are stopped. */
#include "conformance.h"
#include "relay.h"
#include "sql_bench.h"

#include <stdio.h>

static hf_client *open_at(const struct sql_server *server, int port, const char *more,
                          hf_client_options options)
{
    hf_client *client = NULL;
    char url[240];

    snprintf(url, sizeof(url), "%s&layout=session%s", sql_server_url(server, port), more);
    CHECK_CODE(hf_open(&client, url, &options), HF_OK);
    return client;
}

static hf_client *open_session_locks(const struct sql_server *server, const char *more,
                                     hf_driver driver)
{
    return open_at(server, server->port, more, HF_CLIENT_OPTIONS(.driver = driver));
}

/* All sessions of users; or those that wait for a lock. */
static void end_sessions(const struct sql_server *server, bool that_wait)
{
    if (!sql_server_is_mariadb(server)) {
        sql_server_says(server,
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                        "usename = '" SQL_SERVER_USER "' AND (NOT %d::boolean OR pid IN "
                        "(SELECT pid FROM pg_locks WHERE NOT granted));",
                        that_wait);
        return;
    }
    const char *id = !that_wait ? "USER " SQL_SERVER_USER
                                : sql_server_says(server, "SELECT MAX(ID) FROM "
                                                          "information_schema.PROCESSLIST "
                                                          "WHERE STATE = 'User lock';");
    sql_server_says(server, "KILL %s;", id);
}

TEST(readers_that_wait_share_the_first_session_when_no_other_is_left)
{
    struct sql_server server = { 0 };
    hf_hold *holds[4];

    sql_server_start(&server, "postgres");
    hf_client *client = open_session_locks(&server, "&sessions=2", HF_DRIVE_THREAD);
    for (int i = 0; i < 4; i++)
        CHECK_CODE(hf_lock(client, "read", SOON_MS,
                           LOCK_OPTIONS(.mode = HF_READ, .owner = HF_OWNER_NEW), &holds[i]),
                   HF_OK);
    for (int i = 0; i < 4; i++)
        give_back(holds[i]);
    hf_close(client);
    sql_server_kill(&server);
}

/* The holder does not run its loop, so it hears of the end with the reply to its unlock. */
TEST(unlock_on_an_ended_session_reports_the_loss)
{
    EACH(subject)
    {
        struct sql_server server = { 0 };
        hf_hold *hold, *next;

        sql_server_start(&server, subject->kind);
        hf_client *client = open_session_locks(&server, "", HF_DRIVE_CALLER);
        CHECK_CODE(hf_lock(client, "lost", SOON_MS, NULL, &hold), HF_OK);
        end_sessions(&server, false);
        hf_client *other = open_session_locks(&server, "", HF_DRIVE_THREAD);
        CHECK_CODE(hf_lock(other, "lost", SOON_MS, NULL, &next), HF_OK);
        CHECK_CODE(hf_unlock(hold), HF_LOST);
        give_back(next);
        hf_close(other);
        hf_close(client);
        sql_server_kill(&server);
    }
}

/* ---- faults: nothing ends by itself ---- */

#define NEVER_LEASE_MS 600000

/* `client` reaches the server by the relay, `other` by itself. */
struct faulty {
    struct sql_server server;
    struct relay relay;
    hf_client *client, *other;
};

static void begin_faulty(struct faulty *faulty, const char *kind, int64_t lease_ms)
{
    hf_client_options options = HF_CLIENT_OPTIONS(.lease_ms = lease_ms);

    *faulty = (struct faulty){ .client = NULL };
    sql_server_start(&faulty->server, kind);
    relay_start(&faulty->relay, faulty->server.port);
    faulty->client = open_at(&faulty->server, faulty->relay.port, "&timeout=3000", options);
    faulty->other = open_at(&faulty->server, faulty->server.port, "", options);
    give_back(take_patiently(faulty->client, "one"));
    give_back(take_patiently(faulty->other, "one"));
}

static void end_faulty(struct faulty *faulty)
{
    hf_close(faulty->client);
    hf_close(faulty->other);
    relay_stop(&faulty->relay);
    sql_server_kill(&faulty->server);
}

/* The reply is lost to a statement that has waited, and its connection is cut; or to a try, and the
 * server keeps its session until the next one ends it. That is granted the lock anew. */
static void lose_reply_to_grant(struct faulty *faulty, bool waits)
{
    struct outcome outcome = { 0 };
    hf_hold *hold = waits ? take_patiently(faulty->other, "one") : NULL;

    if (!waits)
        relay_swallow(&faulty->relay);
    begin_wait(faulty->client, "one", HF_MUTEX, &outcome);
    if (waits) {
        EVENTUALLY(waiters(faulty->other, "one") == 1, SOON_MS);
        relay_swallow(&faulty->relay);
        give_back(hold);
    }
    EVENTUALLY(holders(faulty->other, "one") == 1, SOON_MS);
    CHECK_INT(outcome.calls, 0);
    if (waits)
        relay_cut(&faulty->relay);
    else
        relay_hold(&faulty->relay);
    relay_pass(&faulty->relay);
    hold = await_grant(&outcome);
    CHECK_CODE(probe(faulty->other, "one", HF_MUTEX, 0), HF_BUSY);
    CHECK_INT(holders(faulty->other, "one"), 1);
    give_back(hold);
    CHECK_CODE(probe(faulty->other, "one", HF_MUTEX, 0), HF_OK);
    check_nothing_left(faulty->other, "one");
}

TEST(grant_whose_reply_is_cut_off_is_granted_anew)
{
    EACH(subject)
    {
        struct faulty faulty;

        begin_faulty(&faulty, subject->kind, NEVER_LEASE_MS);
        for (int waits = 0; waits < 2; waits++)
            lose_reply_to_grant(&faulty, waits);
        end_faulty(&faulty);
    }
}

/* MariaDB and PostgreSQL show a waiter by its session. */
static bool waits_on_another(hf_client *client, const char *session)
{
    const struct picture *picture = look(client, "one");

    return picture->waiters == 1 &&
           strcmp(find_role(picture, HF_ROLE_WAITER, 0)->owner_key, session) != 0;
}

static void end_waiting_session(struct faulty *faulty)
{
    struct outcome outcome = { 0 };
    hf_hold *hold = take_patiently(faulty->other, "one");

    begin_wait(faulty->client, "one", HF_MUTEX, &outcome);
    EVENTUALLY(waiters(faulty->other, "one") == 1, SOON_MS);
    char session[HF_OWNER_KEY_SIZE];
    snprintf(session, sizeof(session), "%s",
             find_role(look(faulty->other, "one"), HF_ROLE_WAITER, 0)->owner_key);
    end_sessions(&faulty->server, true);
    EVENTUALLY(waits_on_another(faulty->other, session), SOON_MS);
    CHECK(hf_held(hold));
    CHECK_INT(outcome.calls, 0);
    give_back(hold);
    give_back(await_grant(&outcome));
    check_nothing_left(faulty->other, "one");
}

/* The server is gone for as long as it takes to start it. */
static void restart_server(struct faulty *faulty)
{
    struct outcome outcome = { 0 };
    _Atomic int losses = 0;
    hf_hold *hold = take_watched(faulty->other, "one", &losses);

    begin_wait(faulty->client, "one", HF_MUTEX, &outcome);
    EVENTUALLY(waiters(faulty->other, "one") == 1, SOON_MS);
    sql_server_kill(&faulty->server);
    EVENTUALLY(losses == 1, SOON_MS);
    CHECK(!hf_held(hold));
    sql_server_start_again(&faulty->server);
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    give_back(await_grant(&outcome));
    give_back(take_patiently(faulty->other, "one"));
}

TEST(session_that_ends_is_a_loss_for_the_holder_and_another_wait_for_the_waiter)
{
    EACH(subject)
    {
        struct faulty faulty;
        _Atomic int losses = 0;

        begin_faulty(&faulty, subject->kind, NEVER_LEASE_MS);
        end_waiting_session(&faulty);
        hf_hold *hold = take_watched(faulty.client, "one", &losses);
        end_sessions(&faulty.server, false);
        EVENTUALLY(losses == 1, SOON_MS);
        CHECK_CODE(hf_unlock(hold), HF_LOST);
        give_back(take_patiently(faulty.other, "one"));
        restart_server(&faulty);
        end_faulty(&faulty);
    }
}

/* ---- a holder, or a waiter, that is stopped, or that the network has cut off ---- */

#define SHORT_LEASE_MS 2000

struct stopped {
    int port;
    const struct sql_server *server;
    _Atomic int64_t believed_us; /* the last time at which it surely did */
};

static void believe_until_lost(void *arg)
{
    struct stopped *stopped = arg;
    hf_client *client =
        open_at(stopped->server, stopped->port, "", HF_CLIENT_OPTIONS(.lease_ms = SHORT_LEASE_MS));
    hf_hold *hold = take_patiently(client, "one");

    parent_say("held");
    for (int64_t now_us = monotonic_us(); hf_held(hold); now_us = monotonic_us())
        stopped->believed_us = now_us;
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    hf_close(client);
}

/* The server is told nothing of either, and ends the session by itself. */
static void check_belief_ends(const char *kind, bool cut_off)
{
    struct sql_server server = { 0 };
    struct relay relay = { 0 };
    struct stopped *stopped = shared_memory(sizeof *stopped);
    struct child holder;
    hf_hold *next;

    sql_server_start(&server, kind);
    relay_start(&relay, server.port);
    stopped->server = &server;
    stopped->port = relay.port;
    child_start(&holder, believe_until_lost, stopped);
    child_wait_for(&holder, "held");
    hf_client *client =
        open_at(&server, server.port, "", HF_CLIENT_OPTIONS(.lease_ms = SHORT_LEASE_MS));
    if (cut_off)
        relay_hold(&relay);
    else
        child_stop(&holder);
    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &next), HF_OK);
    int64_t granted_us = monotonic_us();
    if (!cut_off)
        child_continue(&holder);
    child_join(&holder);
    if (stopped->believed_us >= granted_us)
        FAIL("it still believed %lld us later", (long long)(stopped->believed_us - granted_us));
    give_back(next);
    hf_close(client);
    relay_stop(&relay);
    sql_server_kill(&server);
}

TEST(stopped_holder_has_stopped_believing_when_the_next_is_granted)
{
    EACH(subject)
    check_belief_ends(subject->kind, false);
}

TEST(holder_on_a_silent_network_has_stopped_believing_when_the_next_is_granted)
{
    EACH(subject)
    check_belief_ends(subject->kind, true);
}

/* The reply to its wait comes when the server has ended the session that was granted. */
TEST(waiter_on_a_silent_network_does_not_believe_the_grant_of_an_ended_session)
{
    EACH(subject)
    {
        struct faulty faulty;
        struct outcome outcome = { 0 };
        hf_hold *hold;

        begin_faulty(&faulty, subject->kind, SHORT_LEASE_MS);
        hold = take_patiently(faulty.other, "one");
        begin_wait(faulty.client, "one", HF_MUTEX, &outcome);
        EVENTUALLY(waiters(faulty.other, "one") == 1, SOON_MS);
        relay_pause(&faulty.relay);
        give_back(hold);
        EVENTUALLY(holders(faulty.other, "one") == 1, SOON_MS);
        CHECK_CODE(hf_lock(faulty.other, "one", SOON_MS, NULL, &hold), HF_OK);
        relay_resume(&faulty.relay);
        EVENTUALLY(outcome.calls || waiters(faulty.other, "one") == 1, SOON_MS);
        CHECK_INT(outcome.calls, 0);
        CHECK(hf_held(hold));
        give_back(hold);
        give_back(await_grant(&outcome));
        end_faulty(&faulty);
    }
}

static void believe_a_grant(void *arg)
{
    struct stopped *stopped = arg;
    hf_client *client =
        open_at(stopped->server, stopped->server->port, "",
                HF_CLIENT_OPTIONS(.driver = HF_DRIVE_CALLER, .lease_ms = SHORT_LEASE_MS));
    hf_hold *hold;

    CHECK_CODE(hf_lock(client, "one", HF_FOREVER, NULL, &hold), HF_OK);
    stopped->believed_us = hf_held(hold) ? monotonic_us() : 0;
    hf_unlock(hold);
    hf_close(client);
}

/* It hears of the grant, and of the end of its session, when it goes on. */
TEST(stopped_waiter_does_not_believe_the_grant_of_an_ended_session)
{
    EACH(subject)
    {
        struct sql_server server = { 0 };
        struct stopped *stopped = shared_memory(sizeof *stopped);
        struct child waiter;

        sql_server_start(&server, subject->kind);
        stopped->server = &server;
        hf_client *client =
            open_at(&server, server.port, "", HF_CLIENT_OPTIONS(.lease_ms = SHORT_LEASE_MS));
        hf_hold *hold = take_patiently(client, "one");
        child_start(&waiter, believe_a_grant, stopped);
        EVENTUALLY(waiters(client, "one") == 1, SOON_MS);
        child_stop(&waiter);
        give_back(hold);
        EVENTUALLY(holders(client, "one") == 1, SOON_MS);
        CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
        child_continue(&waiter);
        EVENTUALLY(stopped->believed_us || waiters(client, "one") == 1, SOON_MS);
        CHECK_INT(stopped->believed_us, 0);
        give_back(hold);
        child_join(&waiter);
        hf_close(client);
        sql_server_kill(&server);
    }
}

/* ---- closing ---- */

/* How often a claim without a seat has asked when its server stops. It was refused before. */
#define ASKS_BEFORE_STOP 3

struct silence {
    struct sql_server server;
    int asks;
    _Atomic bool stopped;
};

/* On the loop, which is about to ask: there will be no reply. */
static void stop_server(void *arg, const char *point, const char *name)
{
    struct silence *silence = arg;

    if (strcmp(point, "before_ask") != 0 || strcmp(name, "two") != 0 ||
        ++silence->asks != ASKS_BEFORE_STOP)
        return;
    sql_server_stop(&silence->server);
    silence->stopped = true;
}

TEST(client_whose_claim_wants_a_seat_of_a_silent_server_is_closed)
{
    EACH(subject)
    {
        struct silence silence = { .stopped = false };
        struct outcome outcomes[2] = { 0 };
        hf_hold *hold;

        sql_server_start(&silence.server, subject->kind);
        hf_client *other = open_session_locks(&silence.server, "", HF_DRIVE_THREAD);
        take_patiently(other, "one");
        take_patiently(other, "two");
        /* One session for what is held, and one for a claim that waits. */
        hf_client *client =
            open_at(&silence.server, silence.server.port, "&sessions=2&timeout=30000",
                    HF_CLIENT_OPTIONS(.on_point = stop_server, .point_arg = &silence));
        begin_wait(client, "one", HF_MUTEX, &outcomes[0]);
        EVENTUALLY(waiters(other, "one") == 1, SOON_MS);
        begin_wait(client, "two", HF_MUTEX, &outcomes[1]);
        EVENTUALLY(silence.stopped, SOON_MS);
        CHECK_CODE(hf_lock(client, "three", 100, NULL, &hold), HF_UNREACHABLE);
        hf_close(client);
        for (int i = 0; i < 2; i++)
            CHECK_CODE(outcomes[i].code, HF_ECLOSED);
        sql_server_continue(&silence.server);
        hf_close(other);
        sql_server_kill(&silence.server);
    }
}
