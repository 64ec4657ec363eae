/* SPDX-License-Identifier: Apache-2.0 */
/* The drivers of the SQL engines, when servers end, stop, or are cut off. */
#include "base/testing.h"
#include "relay.h"
#include "sql_bench.h"

#include <signal.h>
#include <stdio.h>

/* ---- what is lost ---- */

TEST(killed_server_answers_lost_and_then_breaks)
{
    EACH(subject)
    {
        struct sql_server server = { 0 };
        struct bench bench = { 0 };
        struct asked sleeping, behind;

        bench_begin(&bench, subject, &server);
        ask(&bench, subject, &sleeping, SLEEP, 100, 0);
        ask(&bench, subject, &behind, INSERT, 1, 0);
        for (int i = 0; i < 100; i++) {
            turn(&bench);
            let_pass_ms(1);
        }
        CHECK(!sleeping.answered);
        sql_server_kill(&server);
        await_broken(&bench);
        CHECK(sleeping.answered && behind.answered);
        CHECK_INT(sleeping.failure.trouble, SQL_LOST);
        CHECK(sleeping.request.sent);
        CHECK_INT(behind.failure.trouble, SQL_LOST);
        bench_disconnect(&bench);
        sql_server_start_again(&server);
        bench_connect(&bench);
        await_ready(&bench);
        CHECK_INT(count_rows(&bench, subject), 0);
        bench_end(&bench, &server);
    }
}

/* The engine gives it up: closing does not wait, and no answer comes. */
TEST(stopped_server_is_left_at_once)
{
    TEST_ALLOW_FD_LEAKS();
    EACH(subject)
    {
        struct sql_server server = { 0 };
        struct bench bench = { 0 };
        struct asked asked;

        bench_begin(&bench, subject, &server);
        sql_server_stop(&server);
        ask(&bench, subject, &asked, INSERT, 1, 0);
        int64_t until_ms = monotonic_ms() + 1500;
        EVENTUALLY(turn(&bench) && monotonic_ms() > until_ms, SOON_MS);
        CHECK(!asked.answered && !bench.broken);
        bench_disconnect(&bench);
        sql_server_continue(&server);
        bench_connect(&bench);
        await_ready(&bench);
        CHECK(!asked.answered);
        bench_end(&bench, &server);
    }
}

TEST(answer_lost_after_the_commit_is_told_as_sent)
{
    EACH(subject)
    {
        struct sql_server server = { 0 };
        struct bench bench = { 0 };
        struct relay relay = { 0 };
        struct asked asked;

        bench_begin(&bench, subject, &server);
        bench_disconnect(&bench);
        relay_start(&relay, server.port);
        bench.place.port = (unsigned)relay.port;
        bench_connect(&bench);
        await_ready(&bench);
        CHECK_INT(count_rows(&bench, subject), 0);
        check_fine(reply(&bench, subject, INSERT, 1, 0));
        relay_swallow(&relay);
        ask(&bench, subject, &asked, INSERT, 2, 0);
        EVENTUALLY(sql_server_shows(&server, "SELECT COUNT(*) FROM t;", "2"), SOON_MS);
        CHECK(turn(&bench) && !asked.answered);
        relay_cut(&relay);
        await_broken(&bench);
        CHECK(asked.answered && asked.request.sent);
        CHECK_INT(asked.failure.trouble, SQL_LOST);
        relay_stop(&relay);
        bench_end(&bench, NULL);
        sql_server_kill(&server);
    }
}

/* False: the whole reply went through. */
static bool is_lost_after(struct bench *bench, const struct subject *subject, struct relay *relay,
                          long bytes)
{
    struct asked asked;
    bench_connect(bench);
    await_ready(bench);
    check_fine(reply(bench, subject, COUNT, 0, 0));
    relay_cut_after(relay, bytes);
    ask(bench, subject, &asked, COUNTED, bytes, 0);
    EVENTUALLY(turn(bench) && asked.answered, SOON_MS);
    relay_cut_after(relay, 0);
    bool lost = asked.failure.trouble != SQL_FINE;
    if (lost)
        CHECK(asked.failure.trouble == SQL_LOST && asked.request.sent);
    else
        CHECK(asked.rows == 1 && asked.columns == 1 && asked.fields[0].number == bytes);
    bench_disconnect(bench);
    return lost;
}

/* The library takes some of these for the end of the reply. */
TEST(reply_that_is_cut_anywhere_is_lost)
{
    EACH(subject)
    {
        struct sql_server server = { 0 };
        struct bench bench = { 0 };
        struct relay relay = { 0 };
        long bytes = 1;

        bench_begin(&bench, subject, &server);
        bench_disconnect(&bench);
        relay_start(&relay, server.port);
        bench.place.port = (unsigned)relay.port;
        while (is_lost_after(&bench, subject, &relay, bytes))
            bytes++;
        test_note("%s: its reply has less than %ld bytes", subject->kind, bytes);
        CHECK(bytes > 40);
        bench_connect(&bench);
        await_ready(&bench);
        relay_stop(&relay);
        bench_end(&bench, NULL);
        sql_server_kill(&server);
    }
}

/* A session that was never ready has done nothing. */
static void cut_each_connection(struct bench *bench, struct relay *relay, long step)
{
    int cut = 0;

    for (long bytes = 1; !bench->ready; bytes += step) {
        relay_cut_after(relay, bytes);
        bench_connect(bench);
        EVENTUALLY(turn(bench) && (bench->ready || bench->broken), SOON_MS);
        if (!bench->ready && bench->why.trouble != SQL_NOT_READY)
            FAIL("cut after %ld bytes: trouble %d: %s", bytes, bench->why.trouble, bench->why.text);
        cut += !bench->ready;
        bench_disconnect(bench);
    }
    test_note("%d connections were cut", cut);
    CHECK(cut > 5);
}

TEST(connection_that_is_cut_before_it_is_ready_is_not_lost)
{
    EACH(subject)
    {
        struct sql_server server = { 0 };
        struct bench bench = { 0 };
        struct relay relay = { 0 };

        sql_server_start(&server, subject->kind);
        relay_start(&relay, server.port);
        bench_open(&bench, subject->driver, relay.port);
        cut_each_connection(&bench, &relay, subject->driver->dialect == SQL_MYSQL ? 12 : 120);
        relay_stop(&relay);
        bench_close(&bench);
        sql_server_kill(&server);
    }
}

TEST(connection_killed_at_the_server_is_lost)
{
    EACH(subject)
    {
        struct sql_server server = { 0 };
        struct bench bench = { 0 };
        struct asked asked;

        bench_begin(&bench, subject, &server);
        ask(&bench, subject, &asked, SLEEP, 100, 0);
        if (subject->driver->dialect == SQL_MYSQL)
            EVENTUALLY(*sql_server_says(&server,
                                        "KILL USER locks; SELECT 1 FROM information_schema."
                                        "processlist WHERE user = 'locks' AND info LIKE '%%SLEEP%%'"
                                        ";") == '\0' &&
                           turn(&bench) && bench.broken,
                       SOON_MS);
        else
            EVENTUALLY(sql_server_says(&server, "SELECT pg_terminate_backend(pid) FROM "
                                                "pg_stat_activity WHERE usename = 'locks';") &&
                           turn(&bench) && bench.broken,
                       SOON_MS);
        CHECK_INT(asked.failure.trouble, SQL_LOST);
        bench_end(&bench, &server);
    }
}

/* ---- memory ---- */

#define NEVER_LEASE_MS 600000

static _Atomic int allocations, failing;

static bool fail_one(size_t size)
{
    (void)size;
    return ++allocations != failing;
}

static void fail_allocation(int number)
{
    allocations = 0;
    failing = number;
    hf__alloc_hook = number > 0 ? fail_one : NULL;
}

/* One allocation fails on the way of a lock to the server and back, and one of its unlock's. False:
 * neither has so many. */
static bool ask_without_memory(hf_client *client, hf_client *other, hf_mode mode, int number)
{
    const hf_lock_options *options = LOCK_OPTIONS(.mode = mode);
    hf_hold *hold;

    fail_allocation(number);
    int code = hf_lock(client, "one", 0, options, &hold);
    bool failed = allocations >= number;
    fail_allocation(0);
    if (code == HF_OK)
        give_back(hold);
    else
        CHECK(code == HF_ENOMEM || code == HF_UNREACHABLE);
    CHECK_CODE(hf_lock(client, "one", SOON_MS, options, &hold), HF_OK);
    fail_allocation(number);
    code = hf_unlock(hold);
    failed = failed || allocations >= number;
    fail_allocation(0);
    /* MariaDB's driver gives up a connection without memory for a request; a session ends then. */
    CHECK(code == HF_OK || code == HF_LOST);
    hold = take_patiently(other, "one");
    CHECK_INT(holders(other, "one"), 1);
    give_back(hold);
    check_nothing_left(other, "one");
    return failed;
}

static void check_without_memory(hf_client *client, hf_client *other)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_READ };
    int count = 0;

    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
        for (int n = 1; probe(client, "one", modes[i], 0) != HF_ENOTSUP &&
                        ask_without_memory(client, other, modes[i], n);
             n++)
            count++;
    test_note("%d allocations failed", count);
}

/* No lease ends here, so what is left is seen: a row in the tables, a lock of a session. */
static void check_layout_without_memory(const struct sql_server *server, const char *layout)
{
    const hf_client_options *options = &HF_CLIENT_OPTIONS(.lease_ms = NEVER_LEASE_MS);
    hf_client *clients[2];
    char url[240];

    snprintf(url, sizeof(url), "%s%s", sql_server_url(server, server->port), layout);
    for (int i = 0; i < 2; i++)
        CHECK_CODE(hf_open(&clients[i], url, options), HF_OK);
    check_without_memory(clients[0], clients[1]);
    for (int i = 0; i < 2; i++)
        hf_close(clients[i]);
}

TEST(lock_whose_answer_finds_no_memory_is_not_left)
{
    EACH(subject)
    {
        struct sql_server server = { 0 };

        sql_server_start(&server, subject->kind);
        check_layout_without_memory(&server, "");
        check_layout_without_memory(&server, "&layout=session");
        sql_server_kill(&server);
    }
}

/* A waiter that is notified looks every 3 s, and one that is not, at most every 25 ms. */
#define POLLS 40

static void count_asks(void *arg, const char *point, const char *name)
{
    (void)name;
    *(_Atomic int *)arg += strcmp(point, "before_ask") == 0;
}

/* One allocation fails while a client begins to wait for the first time. False: that has not so
 * many. */
static bool wait_without_memory(const struct sql_server *server, hf_client *other, int number)
{
    _Atomic int asks = 0;
    struct outcome outcome = { 0 };
    hf_client *client = NULL;

    CHECK_CODE(hf_open(&client, sql_server_url(server, server->port),
                       &HF_CLIENT_OPTIONS(.on_point = count_asks, .point_arg = &asks)),
               HF_OK);
    give_back(take_patiently(client, "warm"));
    hf_hold *hold = take_patiently(other, "one"), *next;
    long listened = sql_server_logged(server, "LISTEN ");
    fail_allocation(number);
    int code = hf_lock_async(client, "one", HF_FOREVER, NULL, record_outcome, &outcome, NULL);
    EVENTUALLY(code != HF_OK || outcome.calls > 0 || asks >= POLLS ||
                   sql_server_logged(server, "LISTEN ") > listened,
               SOON_MS);
    bool failed = allocations >= number;
    fail_allocation(0);
    give_back(hold);
    if (code == HF_OK) {
        WAIT_OUTCOME(&outcome);
        CHECK(outcome.code == HF_OK || outcome.code == HF_ENOMEM);
    }
    if (outcome.hold)
        give_back(outcome.hold);
    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &next), HF_OK);
    give_back(next);
    hf_close(client);
    return failed;
}

TEST(waiter_without_memory_to_listen_polls)
{
    struct sql_server server = { .options = { "-c", "log_statement=all" } };
    int number = 1;

    sql_server_start(&server, "postgres");
    hf_client *other = sql_open(&server, server.port, 0, NEVER_LEASE_MS);
    while (wait_without_memory(&server, other, number))
        number++;
    test_note("%d allocations failed", number - 1);
    CHECK(number > 1);
    hf_close(other);
    sql_server_kill(&server);
}

/* ---- the process ---- */

static _Atomic int pipes;

static void count_pipe(int number)
{
    (void)number;
    pipes++;
}

/* libmariadb sets SIGPIPE to be ignored. That is for the program to decide. */
TEST(signals_of_the_program_are_left_alone)
{
    EACH(subject)
    {
        struct sql_server server = { 0 };
        struct bench bench = { 0 };
        struct sigaction ours = { .sa_handler = count_pipe }, after;

        CHECK(sigaction(SIGPIPE, &ours, NULL) == 0);
        bench_begin(&bench, subject, &server);
        sql_server_kill(&server);
        await_broken(&bench);
        bench_end(&bench, NULL);
        CHECK(sigaction(SIGPIPE, NULL, &after) == 0 && after.sa_handler == count_pipe);
        CHECK_INT(pipes, 0);
    }
}
