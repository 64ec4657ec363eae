/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of other programs whose times are local, or kept in whole seconds: no second owner while
 * the first one believes, in any time zone, while clocks go forward and back. */
#include "conformance.h"
#include "sql_server.h"

#include <stdio.h>
#include <stdlib.h>

#define LEASE_MS 60000
#define ROUNDS 4

static hf_client *open_layout(const struct sql_server *server, const char *layout)
{
    hf_client *client = NULL;
    char url[200];

    snprintf(url, sizeof(url),
             "%s://" SQL_SERVER_USER ":" SQL_SERVER_PASSWORD "@127.0.0.1:%d/" SQL_SERVER_DATABASE
             "?tls=off&layout=%s",
             sql_server_is_mariadb(server) ? "mariadb" : "postgres", server->port, layout);
    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = LEASE_MS)), HF_OK);
    return client;
}

static void make_table(const struct sql_server *server, const char *layout, const char *type)
{
    bool is_mariadb = sql_server_is_mariadb(server);

    sql_server_says(server, "DROP TABLE IF EXISTS %s;", layout);
    if (strcmp(layout, "method_lock") == 0)
        sql_server_says(server,
                        "CREATE TABLE method_lock (id %s PRIMARY KEY, method_name VARCHAR(64) NOT "
                        "NULL UNIQUE, %s VARCHAR(1024) NOT NULL, update_time %s NOT NULL DEFAULT "
                        "CURRENT_TIMESTAMP);",
                        is_mariadb ? "INT AUTO_INCREMENT" : "serial",
                        is_mariadb ? "`desc`" : "\"desc\"", type);
    else if (strcmp(layout, "INT_LOCK") == 0)
        sql_server_says(server,
                        "CREATE TABLE INT_LOCK (LOCK_KEY CHAR(36) NOT NULL, REGION VARCHAR(100) "
                        "NOT NULL, CLIENT_ID CHAR(36), CREATED_DATE %s NOT NULL, EXPIRED_AFTER %s "
                        "NOT NULL, PRIMARY KEY (LOCK_KEY, REGION));",
                        type, type);
    else
        sql_server_says(server,
                        "CREATE TABLE shedlock (name VARCHAR(64) PRIMARY KEY, lock_until %s NOT "
                        "NULL, locked_at %s NOT NULL, locked_by VARCHAR(255) NOT NULL);",
                        type, type);
    if (!is_mariadb)
        sql_server_says(server, "ALTER TABLE %s OWNER TO " SQL_SERVER_USER ";", layout);
}

/* ---- whole seconds ---- */

static void check_belief_ends_first(hf_client *client, hf_client *other)
{
    for (int i = 0; i < ROUNDS; i++) {
        hf_hold *hold = NULL;
        CHECK_CODE(hf_lock(client, "one", SOON_MS, LOCK_OPTIONS(.lease_ms = 1500), &hold), HF_OK);
        while (hf_held(hold)) {
            int code = probe(other, "one", HF_MUTEX, HF_OWNER_NEW);
            CHECK(code == HF_BUSY || !hf_held(hold));
        }
        any_code(hf_unlock(hold));
        /* Its end is not in the row's past, so it is not asked for again and again. */
        CHECK_CODE(hf_lock(client, "one", SOON_MS, LOCK_OPTIONS(.lease_ms = 300), &hold), HF_OK);
        CHECK(hf_unlock(hold) != HF_OK || probe(other, "one", HF_MUTEX, HF_OWNER_NEW) == HF_OK);
    }
}

static void use_layout(void *arg, int number)
{
    static const char *const tables[] = { "shedlock", "method_lock", "INT_LOCK" };
    static const char *const layouts[] = { "shedlock", "method_lock", "int_lock" };
    static const char *const types[2][3] = { { "TIMESTAMP", "DATETIME", "DATETIME(3)" },
                                             { "timestamp(0)", "timestamp(3)", "timestamp" } };
    const struct sql_server *server = arg;

    for (int i = 0; i < 3; i++) {
        make_table(server, tables[number], types[!sql_server_is_mariadb(server)][i]);
        hf_client *client = open_layout(server, layouts[number]);
        hf_client *other = open_layout(server, layouts[number]);
        check_belief_ends_first(client, other);
        hf_close(client);
        hf_close(other);
    }
}

TEST(lease_in_a_column_of_whole_seconds_outlives_belief)
{
    EACH_DATABASE(kind)
    {
        struct sql_server server = { 0 };

        sql_server_start(&server, *kind);
        threads_run(3, use_layout, &server);
        sql_server_kill(&server);
    }
}

/* ---- what an attempt asks of the server ---- */

struct layout {
    const char *name, *table;
    /* of MariaDB and PostgreSQL; the second one sets another owner in all rows */
    const char *type[2], *another_owner[2];
};

/* Of sessions that have ended: PostgreSQL counts them then. */
static long count_statements(const struct sql_server *server)
{
    if (sql_server_is_mariadb(server))
        return strtol(sql_server_says(server, "SELECT VARIABLE_VALUE FROM information_schema."
                                              "GLOBAL_STATUS WHERE VARIABLE_NAME = 'QUESTIONS';"),
                      NULL, 10);
    EVENTUALLY(sql_server_shows(server,
                                "SELECT COUNT(*) FROM pg_stat_activity WHERE usename = "
                                "'" SQL_SERVER_USER "' AND client_port IS NOT NULL;",
                                "0"),
               SOON_MS);
    return strtol(sql_server_says(server,
                                  "SELECT xact_commit + xact_rollback FROM pg_stat_database "
                                  "WHERE datname = '" SQL_SERVER_DATABASE "';"),
                  NULL, 10);
}

struct asking {
    const struct sql_server *server;
    hf_client *client;
    long before;
    int64_t begin_ms;
};

static struct asking begin_asking(const struct sql_server *server, const char *layout)
{
    long before = count_statements(server);

    return (struct asking){ server, open_layout(server, layout), before, monotonic_ms() };
}

/* A waiter looks again after 25 ms on average, by chance half or half as much again. */
static int64_t looks_since(const struct asking *asking)
{
    return (monotonic_ms() - asking->begin_ms) / 20 + 10;
}

/* With what the session costs. MariaDB counts each statement of a script. */
static void end_asking(const struct asking *asking, const char *what, int64_t attempts,
                       int64_t looks)
{
    int64_t most = 30 + 8 * attempts + looks;

    hf_close(asking->client);
    long count = count_statements(asking->server) - asking->before;
    printf("# %s, %s: %ld statements, %lld at most\n", asking->server->kind, what, count,
           (long long)most);
    fflush(stdout);
    CHECK(count <= most);
}

/* A row that nothing renews, of an owner that is no client of this process. */
static void leave_row(const struct sql_server *server, const struct layout *layout,
                      int64_t lease_ms)
{
    hf_client *client = open_layout(server, layout->name);
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, "one", 0, LOCK_OPTIONS(.lease_ms = lease_ms), &hold), HF_OK);
    sql_server_says(server, "UPDATE %s SET %s;", layout->table,
                    layout->another_owner[!sql_server_is_mariadb(server)]);
    hf_close(client);
}

static void check_statements(const struct sql_server *server, const struct layout *layout)
{
    struct asking asking;
    hf_hold *hold = NULL;

    make_table(server, layout->table, layout->type[!sql_server_is_mariadb(server)]);
    leave_row(server, layout, LEASE_MS);
    asking = begin_asking(server, layout->name);
    CHECK_CODE(probe(asking.client, "one", HF_MUTEX, HF_OWNER_NEW), HF_BUSY);
    end_asking(&asking, "a try", 1, 0);
    asking = begin_asking(server, layout->name);
    CHECK_CODE(hf_lock(asking.client, "one", 1500, NULL, &hold), HF_BUSY);
    end_asking(&asking, "a wait", 1, looks_since(&asking));
    sql_server_says(server, "DELETE FROM %s;", layout->table);
    asking = begin_asking(server, layout->name);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_CODE(hf_lock(asking.client, "one", 0, LOCK_OPTIONS(.lease_ms = 300), &hold), HF_OK);
        any_code(hf_unlock(hold));
    }
    end_asking(&asking, "tries that are granted", ROUNDS, 0);
    leave_row(server, layout, 300);
    asking = begin_asking(server, layout->name);
    CHECK_CODE(hf_lock(asking.client, "one", SOON_MS, NULL, &hold), HF_OK);
    give_back(hold);
    end_asking(&asking, "a wait until the row has ended", 2, looks_since(&asking));
}

TEST(attempt_in_a_column_of_whole_seconds_asks_with_pauses)
{
    static const struct layout layouts[] = {
        { "shedlock",
          "shedlock",
          { "TIMESTAMP", "timestamp(0)" },
          { "locked_by = 'another'", "locked_by = 'another'" } },
        { "method_lock",
          "method_lock",
          { "DATETIME", "timestamp(0)" },
          { "`desc` = REPLACE(`desc`, SUBSTR(`desc`, 10, 8), '00000000')",
            "\"desc\" = REPLACE(\"desc\", SUBSTR(\"desc\", 10, 8), '00000000')" } },
        { "int_lock",
          "INT_LOCK",
          { "DATETIME", "timestamp(0)" },
          { "CLIENT_ID = 'another'", "CLIENT_ID = 'another'" } },
    };
    EACH_DATABASE(kind)
    {
        struct sql_server server = { 0 };

        sql_server_start(&server, *kind);
        for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
            check_statements(&server, &layouts[i]);
        sql_server_kill(&server);
    }
}

/* ---- clocks that go forward and back ---- */

enum jump { FORWARD, BACK };

/* All sessions from now on have a zone whose clock jumps by an hour in 4 seconds. */
static void set_zone(const struct sql_server *server, enum jump jump)
{
    static const char *const names[] = { "forward", "back" };
    static int count;
    char rule[40];

    count++;
    if (sql_server_is_mariadb(server)) {
        sql_server_says(
            server,
            "INSERT INTO mysql.time_zone (Use_leap_seconds) VALUES ('N');"
            "SET @zone = LAST_INSERT_ID();"
            "INSERT INTO mysql.time_zone_name VALUES ('%s%d', @zone);"
            "INSERT INTO mysql.time_zone_transition_type VALUES (@zone, 0, %d, 0, 'A'),"
            "(@zone, 1, %d, 0, 'B');"
            "INSERT INTO mysql.time_zone_transition VALUES (@zone, UNIX_TIMESTAMP() + 4, "
            "1); SET GLOBAL time_zone = '%s%d';",
            names[jump], count, jump == BACK ? 3600 : 0, jump == BACK ? 0 : 3600, names[jump],
            count);
        return;
    }
    /* POSIX: the day of the year from 0, and the local time on it. */
    snprintf(rule, sizeof(rule), "%s",
             sql_server_says(server,
                             "SELECT to_char(t, 'DDD')::int - 1 || '/' || to_char(t, "
                             "'HH24:MI:SS') FROM (SELECT timezone('UTC', now()) + interval "
                             "'%d seconds' AS t) x;",
                             jump == BACK ? 3604 : 4));
    sql_server_says(server,
                    "ALTER DATABASE " SQL_SERVER_DATABASE " SET TimeZone = 'AAA0BBB-1,%s%s%s';",
                    jump == BACK ? "0/0," : "", rule, jump == BACK ? "" : ",364/23");
}

static bool has_jumped(const struct sql_server *server, enum jump jump)
{
    const char *shift =
        sql_server_is_mariadb(server)
            ? "SELECT TIMESTAMPDIFF(MINUTE, UTC_TIMESTAMP(), NOW());"
            : "SELECT extract(epoch FROM LOCALTIMESTAMP - timezone('UTC', now()))::int / 60;";
    return sql_server_shows(server, shift, jump == FORWARD ? "60" : "0");
}

static void check_jump(const struct sql_server *server, enum jump jump, const char *type)
{
    printf("# %s, %s: %s\n", server->kind, type, jump == FORWARD ? "forward" : "back");
    fflush(stdout);
    make_table(server, "method_lock", type);
    set_zone(server, jump);
    hf_client *client = open_layout(server, "method_lock");
    hf_client *other = open_layout(server, "method_lock");
    CHECK(!has_jumped(server, jump));
    hf_hold *hold = take(client, "before", HF_MUTEX, HF_OWNER_NEW);
    EVENTUALLY(has_jumped(server, jump), SOON_MS);
    CHECK_CODE(probe(other, "before", HF_MUTEX, HF_OWNER_NEW), HF_BUSY);
    CHECK(hf_held(hold));
    give_back(hold);
    hold = take(client, "behind", HF_MUTEX, HF_OWNER_NEW);
    CHECK_CODE(probe(other, "behind", HF_MUTEX, HF_OWNER_NEW), HF_BUSY);
    give_back(hold);
    CHECK_CODE(probe(other, "before", HF_MUTEX, HF_OWNER_NEW), HF_OK);
    hf_close(client);
    hf_close(other);
}

TEST(lock_stays_while_local_clocks_go_forward_and_back)
{
    static const char *const types[2][2] = { { "TIMESTAMP", "DATETIME" },
                                             { "timestamp", "timestamptz" } };
    EACH_DATABASE(kind)
    {
        struct sql_server server = { 0 };

        sql_server_start(&server, *kind);
        for (int i = 0; i < 4; i++)
            check_jump(&server, i % 2 ? BACK : FORWARD,
                       types[!sql_server_is_mariadb(&server)][i / 2]);
        sql_server_kill(&server);
    }
}

/* ShedLock itself fails so: its UTC, read in the zone of the session, is a time that is not. */
TEST(hour_that_does_not_exist_is_told_with_its_cure)
{
    struct sql_server server = { 0 };
    hf_hold *hold = NULL;

    sql_server_start(&server, "mariadb");
    make_table(&server, "shedlock", "TIMESTAMP(3)");
    set_zone(&server, FORWARD);
    hf_client *client = open_layout(&server, "shedlock");
    EVENTUALLY(has_jumped(&server, FORWARD), SOON_MS);
    CHECK_ERROR(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_ECORRUPT);
    if (!strstr(hf_last_error()->text, "DATETIME columns"))
        FAIL("%s", hf_last_error()->text);
    make_table(&server, "shedlock", "DATETIME(3)");
    give_back(take(client, "one", HF_MUTEX, 0));
    hf_close(client);
    sql_server_kill(&server);
}

/* ---- zones of PostgreSQL's sessions ---- */

static void check_row_by_hand(const struct sql_server *server, hf_client *client)
{
    sql_server_says(server,
                    "DELETE FROM method_lock; INSERT INTO method_lock (method_name, \"desc\") "
                    "VALUES ('by hand', 'x');");
    CHECK_CODE(probe(client, "by hand", HF_MUTEX, HF_OWNER_NEW), HF_BUSY);
    sql_server_says(server, "UPDATE method_lock SET update_time = now() - interval '11 minutes';");
    CHECK_CODE(probe(client, "by hand", HF_MUTEX, HF_OWNER_NEW), HF_OK);
}

TEST(row_of_another_program_is_as_old_as_its_zone_says)
{
    static const char *const zones[] = { "America/New_York", "Asia/Tokyo", "UTC" };
    struct sql_server server = { 0 }, pooler = { 0 };
    char port[8];

    sql_server_start(&server, "postgres");
    snprintf(port, sizeof(port), "%d", server.port);
    pooler.options[0] = port;
    make_table(&server, "method_lock", "timestamp");
    for (int i = 0; i < 3; i++) {
        sql_server_says(&server, "ALTER DATABASE " SQL_SERVER_DATABASE " SET TimeZone = '%s';",
                        zones[i]);
        sql_server_start(&pooler, "pgbouncer");
        hf_client *direct = open_layout(&server, "method_lock&stale=600");
        hf_client *pooled = open_layout(&pooler, "method_lock&stale=600");
        check_row_by_hand(&server, direct);
        check_row_by_hand(&server, pooled);
        for (int j = 0; j < 2; j++) {
            hf_hold *hold = take(j ? pooled : direct, "one", HF_MUTEX, 0);
            CHECK_CODE(probe(j ? direct : pooled, "one", HF_MUTEX, HF_OWNER_NEW), HF_BUSY);
            give_back(hold);
        }
        hf_close(direct);
        hf_close(pooled);
        sql_server_kill(&pooler);
    }
    sql_server_kill(&server);
}

/* Its UTC would be another moment for each session's zone. */
TEST(column_with_a_time_zone_is_refused_where_utc_is_kept)
{
    struct sql_server server = { 0 };
    hf_hold *hold = NULL;

    sql_server_start(&server, "postgres");
    make_table(&server, "shedlock", "timestamptz");
    hf_client *client = open_layout(&server, "shedlock");
    CHECK_ERROR(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_ECORRUPT);
    if (!strstr(hf_last_error()->text, "is timestamp with time zone, not a time without a zone"))
        FAIL("%s", hf_last_error()->text);
    hf_close(client);
    sql_server_kill(&server);
}
