/* SPDX-License-Identifier: Apache-2.0 */
/* The drivers of the SQL engines by themselves: what the interface promises, at real servers and at
 * such as do not answer. */
#include "resolver.h"
#include "server.h"
#include "sql_bench.h"

#include "base/testing.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>

/* ---- what works ---- */

TEST(values_go_there_and_come_back)
{
    EACH(subject)
    {
        struct sql_server server = { 0 };
        struct bench bench = { 0 };
        struct asked asked;

        bench_begin(&bench, subject, &server);
        asked = (struct asked){
            .values = { { .type = SQL_NUMBER, .number = INT64_C(1) << 60 },
                        { .type = SQL_BYTES, .bytes = "a\0'\xff", .length = 4 },
                        { .type = SQL_TEXT, .bytes = "\xc3\xa4;--", .length = 5 },
                        { .type = SQL_TEXT } },
        };
        ask_values(&bench, subject, &asked, TYPES);
        memset(asked.values, 0xff, sizeof(asked.values));
        EVENTUALLY(turn(&bench) && asked.answered, SOON_MS);
        check_fine(&asked);
        CHECK_INT(asked.columns, 4);
        CHECK_INT(asked.fields[0].number, (INT64_C(1) << 60) + 1);
        CHECK(asked.fields[1].type == SQL_BYTES && asked.fields[1].length == 4);
        CHECK(memcmp(asked.bytes[1], "a\0'\xff", 4) == 0);
        CHECK(asked.fields[2].type == SQL_TEXT && asked.fields[2].length == 5);
        CHECK(memcmp(asked.bytes[2], "\xc3\xa4;--", 5) == 0);
        CHECK(asked.fields[3].type == SQL_NULL);
        CHECK(subject->driver->version(bench.connection)[0] != '\0');
        bench_end(&bench, &server);
    }
}

TEST(scripts_are_answered_in_their_order)
{
    enum { COUNT_OF = 100 };
    EACH(subject)
    {
        struct sql_server server = { 0 };
        struct bench bench = { 0 };
        struct asked *many = calloc(COUNT_OF, sizeof(*many));

        bench_begin(&bench, subject, &server);
        bench.answers = 0;
        for (int i = 0; i < COUNT_OF; i++)
            ask(&bench, subject, &many[i], INSERT, i, 0);
        EVENTUALLY(turn(&bench) && bench.answers == COUNT_OF, SOON_MS);
        for (int i = 0; i < COUNT_OF; i++) {
            check_fine(&many[i]);
            CHECK_INT(many[i].turn_of_answer, i);
        }
        CHECK_INT(count_rows(&bench, subject), COUNT_OF);
        free(many);
        bench_end(&bench, &server);
    }
}

/* The one socket of this process, at its database. */
static int socket_of_driver(void)
{
    struct stat status;
    for (int fd = 3; fd < 1024; fd++)
        if (fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode))
            return fd;
    return -1;
}

static _Atomic bool has_answered;

static void stay_until_left(const char *point)
{
    struct pollfd polled = { .fd = socket_of_driver() };
    if (strcmp(point, "mysql:answered") != 0)
        return;
    has_answered = true;
    poll(&polled, 1, SOON_MS * test_slow()); /* it is shut down */
}

/* What a connection that is left like this has open is noticed at the end of the test. */
TEST(connection_that_is_left_as_a_reply_comes_is_closed)
{
    EACH(subject)
    {
        struct sql_server server = { 0 };
        struct bench bench = { 0 };
        struct asked asked = { 0 };

        if (subject->driver->dialect != SQL_MYSQL)
            continue; /* its driver has no thread */
        bench_begin(&bench, subject, &server);
        has_answered = false;
        hf__point_hook = stay_until_left;
        ask(&bench, subject, &asked, INSERT, 1, 0);
        EVENTUALLY(has_answered, SOON_MS);
        bench_disconnect(&bench);
        hf__point_hook = NULL;
        bench_connect(&bench);
        await_ready(&bench);
        bench_end(&bench, &server);
        CHECK_INT(socket_of_driver(), -1);
    }
}

TEST(script_of_which_a_part_fails_does_nothing)
{
    EACH(subject)
    {
        struct sql_server server = { 0 };
        struct bench bench = { 0 };

        bench_begin(&bench, subject, &server);
        CHECK_INT(reply(&bench, subject, TWICE, 7, 7)->failure.trouble, SQL_UNIQUE);
        CHECK_INT(count_rows(&bench, subject), 0);
        check_fine(reply(&bench, subject, TWICE, 7, 8));
        CHECK_INT(count_rows(&bench, subject), 2);
        bench_end(&bench, &server);
    }
}

TEST(failures_have_the_kind_that_the_engine_acts_on)
{
    EACH(subject)
    {
        struct sql_server server = { 0 };
        struct bench bench = { 0 };

        bench_begin(&bench, subject, &server);
        check_fine(reply(&bench, subject, INSERT, 1, 0));
        CHECK_INT(reply(&bench, subject, INSERT, 1, 0)->failure.trouble, SQL_UNIQUE);
        sql_server_says(&server, "DROP TABLE t;");
        CHECK_INT(reply(&bench, subject, INSERT, 1, 0)->failure.trouble, SQL_NO_SCHEMA);
        bench_end(&bench, &server);
    }
}

/* Both update two rows, in opposite orders: the server ends one of the transactions. */
TEST(deadlock_is_worth_another_try)
{
    EACH(subject)
    {
        struct sql_server server = { 0 };
        struct bench bench = { 0 }, other = { 0 };
        struct asked one, another;

        /* It looks before the wait for a row is over; by default, only then. */
        if (subject->driver->dialect == SQL_POSTGRES) {
            server.options[0] = "-c";
            server.options[1] = "deadlock_timeout=100ms";
        }
        bench_begin(&bench, subject, &server);
        check_fine(reply(&bench, subject, TWICE, 1, 2));
        bench_join(&other, subject, &server);
        ask(&bench, subject, &one, LOCK_BOTH, 1, 2);
        ask(&other, subject, &another, LOCK_BOTH, 2, 1);
        EVENTUALLY(turn(&bench) && turn(&other) && one.answered && another.answered, SOON_MS);
        CHECK(one.failure.trouble == SQL_AGAIN || another.failure.trouble == SQL_AGAIN);
        CHECK(one.failure.trouble == SQL_FINE || another.failure.trouble == SQL_FINE);
        bench_end(&other, NULL);
        bench_end(&bench, &server);
    }
}

/* ---- what cannot connect ---- */

static void check_no_connection(struct bench *bench, enum sql_trouble trouble)
{
    bench_connect(bench);
    await_broken(bench);
    CHECK(!bench->ready);
    if (bench->why.trouble != trouble)
        FAIL("trouble %d, wanted %d: %s", bench->why.trouble, trouble, bench->why.text);
    CHECK(bench->why.text[0] != '\0' && !strstr(bench->why.text, SQL_SERVER_PASSWORD));
    bench_disconnect(bench);
}

TEST(wrong_password_is_denied)
{
    EACH(subject)
    {
        struct sql_server server = { 0 };
        struct bench bench = { 0 };

        sql_server_start(&server, subject->kind);
        bench_open(&bench, subject->driver, server.port);
        bench.settings.password = SQL_SERVER_PASSWORD "?";
        check_no_connection(&bench, SQL_DENIED);
        bench_close(&bench);
        sql_server_kill(&server);
    }
}

TEST(place_without_a_server_is_not_ready)
{
    EACH(subject)
    {
        struct bench bench = { 0 };

        bench_open(&bench, subject->driver, free_port());
        check_no_connection(&bench, SQL_NOT_READY);
        bench_close(&bench);
    }
}

/* Behind a firewall, and a server that accepts and says nothing. */
TEST(silent_place_is_given_up_in_time)
{
    TEST_ALLOW_FD_LEAKS();
    EACH(subject)
    {
        struct bench bench = { 0 };

        bench_open(&bench, subject->driver, 0);
        bench.settings.timeout_ms = 1500;
        bench.place.port = (unsigned)silent_port();
        check_no_connection(&bench, SQL_NOT_READY);
        bench.place.port = (unsigned)mute_port();
        check_no_connection(&bench, SQL_NOT_READY);
        bench.settings.tls = SQL_TLS_VERIFY;
        check_no_connection(&bench, SQL_NOT_READY);
        bench_close(&bench);
    }
}

TEST(slow_name_look_up_does_not_stop_the_loop)
{
    TEST_ALLOW_FD_LEAKS();
    EACH(subject)
    {
        struct bench bench = { 0 };
        int port = free_port();

        resolver_set(1, &port);
        resolver_block();
        bench_open(&bench, subject->driver, 0);
        bench.settings.timeout_ms = 1500;
        bench.place = (struct sql_place){ .host = "store.test", .port = (unsigned)port };
        check_no_connection(&bench, SQL_NOT_READY);
        resolver_release();
        bench_close(&bench);
    }
}
