/* SPDX-License-Identifier: Apache-2.0 */
/* What a session at a database is set up with, whatever the server's defaults are; and how many of
 * them a client has. */
#include "conformance.h"
#include "sql_bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define THREADS 64

/* Defaults that do not fit locks, or change how text is read. */
static const char *const odd_mariadb[] = {
    "--transaction-isolation=SERIALIZABLE",
    "--default-time-zone=+05:30",
    "--sql-mode=ANSI,NO_BACKSLASH_ESCAPES,EMPTY_STRING_IS_NULL",
    "--autocommit=0",
    "--init-connect=SET autocommit=0, time_zone='-03:00'",
    "--innodb-lock-wait-timeout=600",
    "--character-set-server=latin1",
    "--collation-server=latin1_general_ci",
    NULL,
};
static const char *const odd_postgres[] = {
    "-c", "default_transaction_isolation=serializable",
    "-c", "TimeZone=Asia/Tokyo",
    "-c", "DateStyle=German",
    "-c", "bytea_output=escape",
    "-c", "standard_conforming_strings=off",
    NULL,
};

static void start_odd(struct sql_server *server, const char *kind)
{
    const char *const *options = strcmp(kind, "mariadb") == 0 ? odd_mariadb : odd_postgres;

    for (int i = 0; options[i]; i++)
        server->options[i] = options[i];
    sql_server_start(server, kind);
    /* What a database or a role says goes before what the server says. */
    if (options == odd_postgres)
        sql_server_says(server, "ALTER DATABASE " SQL_SERVER_DATABASE " SET TimeZone = 'HST';"
                                "ALTER ROLE " SQL_SERVER_USER " SET client_encoding = 'LATIN1';");
}

static const char *settings_of(struct bench *bench, const struct subject *subject)
{
    static char text[101];
    const struct asked *asked = reply(bench, subject, SETTINGS, 0, 0);

    check_fine(asked);
    snprintf(text, sizeof(text), "%.*s", (int)asked->fields[0].length, asked->bytes[0]);
    return text;
}

TEST(session_is_set_up_whatever_the_defaults_are)
{
    EACH(subject)
    {
        struct sql_server server = { 0 };
        struct bench bench = { 0 };

        start_odd(&server, subject->kind);
        bench_join(&bench, subject, &server);
        CHECK_STR(settings_of(&bench, subject),
                  subject->driver->dialect == SQL_MYSQL
                      ? "READ-COMMITTED +00:00 ON STRICT_ALL_TABLES 1 3600"
                      : "read committed UTC 1s on UTF8");
        bench_end(&bench, &server);
    }
}

static void take_in_all_modes(hf_client *client, const char *name)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_READ, HF_WRITE };
    char text[80];

    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        snprintf(text, sizeof(text), "%.60s %d", name, modes[i] == HF_WRITE ? HF_READ : modes[i]);
        hf_hold *hold = take(client, text, modes[i], 0);
        CHECK_INT(holders(client, text), 1);
        if (modes[i] != HF_READ)
            CHECK_CODE(probe(client, text, modes[i], HF_OWNER_NEW), HF_BUSY);
        give_back(hold);
        check_nothing_left(client, text);
    }
}

TEST(locks_work_whatever_the_defaults_are)
{
    EACH(subject)
    {
        struct sql_server server = { 0 };

        start_odd(&server, subject->kind);
        hf_client *client = sql_open(&server, server.port, 0, 0);
        take_in_all_modes(client, "it's a \"name\" \\' \xc3\xa4\xff");
        hf_close(client);
        sql_server_kill(&server);
    }
}

/* ---- triggers, as an audit or an online change of a table has them ---- */

static void check_tokens(hf_client *client, const char *when)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_WRITE };
    char name[80];

    for (size_t i = 0; i < 3 * sizeof(modes) / sizeof(*modes); i++) {
        static uint64_t last[3];
        hf_hold *hold;
        snprintf(name, sizeof(name), "%s %zu", when, i % 3);
        CHECK_CODE(hf_lock(client, name, SOON_MS, LOCK_OPTIONS(.mode = modes[i % 3]), &hold),
                   HF_OK);
        CHECK(hf_token(hold) > last[i % 3]);
        last[i % 3] = hf_token(hold);
        give_back(hold);
    }
}

TEST(triggers_leave_tokens_as_they_are)
{
    static const char *const deeds[] = { "SET @seen = 1", "INSERT INTO audit VALUES (NULL)" };
    struct sql_server server = { 0 };
    char when[20];

    sql_server_start(&server, "mariadb");
    hf_client *client = sql_open(&server, server.port, 0, 0);
    check_tokens(client, "no trigger");
    sql_server_says(&server, "CREATE TABLE audit (id INT AUTO_INCREMENT PRIMARY KEY);");
    for (size_t i = 0; i < 4; i++) {
        const char *event = i % 2 ? "INSERT" : "UPDATE";
        sql_server_says(&server, "CREATE TRIGGER harmless AFTER %s ON hf_lock FOR EACH ROW %s;",
                        event, deeds[i / 2]);
        snprintf(when, sizeof(when), "trigger %zu", i);
        check_tokens(client, when);
        sql_server_says(&server, "DROP TRIGGER harmless;");
    }
    hf_close(client);
    sql_server_kill(&server);
}

/* ---- keep-alives ---- */

static int option_of(int fd, int level, int option)
{
    int value = 0;
    socklen_t size = sizeof(value);

    CHECK(getsockopt(fd, level, option, &value, &size) == 0);
    return value;
}

/* The next descriptor of this process from `fd` on that is connected to the port; -1: none. */
static int next_socket(int fd, int port)
{
    for (; fd < 1024; fd++) {
        struct sockaddr_in peer = { 0 };
        socklen_t size = sizeof(peer);
        if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && peer.sin_family == AF_INET &&
            ntohs(peer.sin_port) == port)
            return fd;
    }
    return -1;
}

static int check_keepalives(int port)
{
    int count = 0;

    for (int fd = next_socket(0, port); fd >= 0; fd = next_socket(fd + 1, port), count++) {
        CHECK_INT(option_of(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
        CHECK_INT(option_of(fd, IPPROTO_TCP, TCP_KEEPIDLE), 10);
        CHECK_INT(option_of(fd, IPPROTO_TCP, TCP_KEEPINTVL), 3);
        CHECK_INT(option_of(fd, IPPROTO_TCP, TCP_KEEPCNT), 3);
        int unconfirmed_ms = option_of(fd, IPPROTO_TCP, TCP_USER_TIMEOUT);
        CHECK(unconfirmed_ms >= 10000 && unconfirmed_ms <= 20000);
    }
    return count;
}

static void note_listening(struct sql_request *request, const struct sql_answer *answer)
{
    ((struct asked *)request)->answered = !answer->failure;
}

/* MariaDB's second connection is the one that listens. */
TEST(every_connection_has_keepalives)
{
    EACH(subject)
    {
        struct sql_server server = { 0 };
        struct bench bench = { 0 };

        bench_begin(&bench, subject, &server);
        CHECK_INT(check_keepalives(server.port), 1);
        struct asked asked = { .bench = &bench };
        hf__link_init(&asked.request.link);
        asked.request.answered = note_listening;
        subject->driver->listen(bench.connection, "hf_test", &asked.request);
        EVENTUALLY(turn(&bench) && asked.answered, SOON_MS);
        CHECK_INT(check_keepalives(server.port), subject->driver->dialect == SQL_MYSQL ? 2 : 1);
        bench_end(&bench, &server);
    }
}

/* ---- durability ---- */

static void check_commits(struct bench *bench, const struct subject *subject, bool relaxed,
                          const char *wanted)
{
    bench->settings.relaxed = relaxed;
    bench_connect(bench);
    await_ready(bench);
    if (!strstr(settings_of(bench, subject), wanted))
        FAIL("\"%s\" is not in \"%s\"", wanted, settings_of(bench, subject));
    bench_disconnect(bench);
}

TEST(relaxed_durability_is_asked_of_postgres_alone)
{
    EACH(subject)
    {
        struct sql_server server = { 0 };
        struct bench bench = { 0 };
        bool is_postgres = subject->driver->dialect == SQL_POSTGRES;

        sql_server_start(&server, subject->kind);
        bench_open(&bench, subject->driver, server.port);
        check_commits(&bench, subject, true, is_postgres ? " off " : "READ-COMMITTED");
        check_commits(&bench, subject, false, is_postgres ? " on " : "READ-COMMITTED");
        if (is_postgres) {
            sql_server_says(&server,
                            "ALTER ROLE " SQL_SERVER_USER " SET synchronous_commit = 'local';");
            check_commits(&bench, subject, false, " local ");
        }
        bench_close(&bench);
        sql_server_kill(&server);
    }
}

/* ---- how many ---- */

static int count_sessions(const struct sql_server *server)
{
    const char *said = sql_server_says(
        server, "%s",
        sql_server_is_mariadb(server)
            ? "SELECT COUNT(*) FROM information_schema.processlist WHERE user = '" SQL_SERVER_USER
              "';"
            : "SELECT COUNT(*) FROM pg_stat_activity WHERE usename = '" SQL_SERVER_USER "';");
    return (int)strtol(said, NULL, 10);
}

struct crowd {
    struct sql_server server;
    hf_client *client, *other; /* `other` has all the names at first */
    hf_hold *holds[THREADS];
    int most; /* sessions of `client` */
};

static void wait_or_count(void *arg, int index)
{
    struct crowd *crowd = arg;
    char name[20];
    hf_hold *hold = NULL;

    if (index < THREADS) {
        snprintf(name, sizeof(name), "name %d", index);
        CHECK_CODE(hf_lock(crowd->client, name, HF_FOREVER, LOCK_OPTIONS(.mode = HF_FAIR), &hold),
                   HF_OK);
        give_back(hold);
        return;
    }
    char all[20];
    snprintf(all, sizeof(all), "%d", THREADS);
    EVENTUALLY(sql_server_shows(&crowd->server, "SELECT COUNT(*) FROM hf_wait;", all), SOON_MS);
    CHECK_INT(count_sessions(&crowd->server), crowd->most + 1);
    for (int i = 0; i < THREADS; i++)
        give_back(crowd->holds[i]);
}

/* MariaDB's channel for notifications is one more, however many wait. */
TEST(many_threads_share_the_connections_of_their_client)
{
    EACH(subject)
    {
        struct crowd crowd = { .most = subject->driver->dialect == SQL_MYSQL ? 2 : 1 };
        char name[20];

        sql_server_start(&crowd.server, subject->kind);
        crowd.client = sql_open(&crowd.server, crowd.server.port, 0, 0);
        crowd.other = sql_open(&crowd.server, crowd.server.port, 0, 0);
        for (int i = 0; i < THREADS; i++) {
            snprintf(name, sizeof(name), "name %d", i);
            crowd.holds[i] = take(crowd.other, name, HF_FAIR, 0);
        }
        threads_run(THREADS + 1, wait_or_count, &crowd);
        hf_close(crowd.client);
        hf_close(crowd.other);
        sql_server_kill(&crowd.server);
    }
}
