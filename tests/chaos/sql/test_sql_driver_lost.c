/* SPDX-License-Identifier: Apache-2.0 */
/* The drivers of the SQL engines, when servers end, stop, or are cut off. */
#include "relay.h"
#include "sql_bench.h"

#include <signal.h>

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
