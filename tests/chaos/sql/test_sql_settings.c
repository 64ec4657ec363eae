/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a server, a database or a role that change what a statement means or does, each at
 * its worst value: all kinds of locks work as if it were not set. */
#include "conformance.h"
#include "sql_server.h"

#include <stdio.h>

struct setting {
    const char *name, *worst, *usual;
    const char *complaint; /* what PostgreSQL's log says where it is in force; NULL: nothing */
};

/* Global ones: a new session begins with them. No lock feels the others, nor MySQL's sql_mode: a
 * text says its character set by itself, and times are UTC. Checks of unique keys, lengths of sort
 * keys and the isolation change what fails under load alone; that a session sets the latter is seen
 * in sql_sessions. The tables by layouts are sql_layouts' part, and what doctor reads is
 * cli-rights_sql's. */
static const struct setting of_both[] = {
    { "completion_type", "'CHAIN'", "'NO_CHAIN'", NULL },
    { "completion_type", "'RELEASE'", "'NO_CHAIN'", NULL },
    { "sql_safe_updates", "1", "0", NULL },
    { "sql_select_limit", "1", "18446744073709551615", NULL },
    /* With it, sql_big_selects is 0. */
    { "max_join_size", "1", "18446744073709551615", NULL },
    { NULL, NULL, NULL, NULL },
};

static const struct setting of_mariadb[] = {
    { "init_connect", "'SET max_statement_time = 0.000001'", "''", NULL },
    { "sql_mode", "'ORACLE,NO_UNSIGNED_SUBTRACTION,PAD_CHAR_TO_FULL_LENGTH'",
      "'STRICT_TRANS_TABLES'", NULL },
    { NULL, NULL, NULL, NULL },
};

/* Those of the role. No statement of ours has a literal with a backslash, a comparison with NULL,
 * or a time as text; none waits between two parts of a transaction; replies are binary. Each
 * session sets its own lock_timeout, which sql_row_locked needs. */
static const struct setting of_postgres[] = {
    { "default_transaction_isolation", "'serializable'", "DEFAULT", "could not serialize access" },
    { "statement_timeout", "50", "DEFAULT", "due to statement timeout" },
    { "idle_session_timeout", "300", "DEFAULT", "due to idle-session timeout" },
    { "exit_on_error", "on", "DEFAULT", "FATAL: .*hf_lock" },
    { "client_encoding", "'LATIN1'", "DEFAULT", NULL },
    { NULL, NULL, NULL, NULL },
};

struct pair {
    hf_client *one, *other;
};

static void hand_over(const struct pair *pair, hf_mode mode, const char *name)
{
    struct outcome outcome = { 0 };
    hf_hold *hold = take(pair->one, name, mode, 0);

    CHECK_CODE(probe(pair->other, name, mode, HF_OWNER_NEW), HF_BUSY);
    begin_wait(pair->other, name, mode, &outcome);
    EVENTUALLY(waiters(pair->one, name) == 1, SOON_MS);
    give_back(hold);
    give_back(await_grant(&outcome));
    check_nothing_left(pair->one, name);
}

static void share(const struct pair *pair)
{
    hf_hold *reader = take(pair->one, "rw", HF_READ, HF_OWNER_NEW);
    hf_hold *second = take(pair->other, "rw", HF_UPGRADE, HF_OWNER_NEW);

    CHECK_INT(holders(pair->one, "rw"), 2);
    CHECK_CODE(probe(pair->one, "rw", HF_WRITE, HF_OWNER_NEW), HF_BUSY);
    give_back(reader);
    CHECK_CODE(hf_upgrade(second, SOON_MS), HF_OK);
    CHECK_CODE(probe(pair->one, "rw", HF_READ, HF_OWNER_NEW), HF_BUSY);
    CHECK_CODE(hf_downgrade(second, HF_READ), HF_OK);
    CHECK_CODE(probe(pair->one, "rw", HF_READ, HF_OWNER_NEW), HF_OK);
    give_back(second);
    check_nothing_left(pair->one, "rw");
}

static void count(const struct pair *pair)
{
    hf_hold *permits;
    uint32_t value = 0;

    CHECK_CODE(hf_lock(pair->one, "permits", SOON_MS,
                       LOCK_OPTIONS(.mode = HF_PERMIT, .limit = 2, .permits = 2), &permits),
               HF_OK);
    CHECK_CODE(probe(pair->other, "permits", HF_PERMIT, HF_OWNER_NEW), HF_BUSY);
    give_back(permits);
    CHECK_CODE(hf_semaphore_set(pair->one, "permits", 0), HF_OK);
    CHECK_CODE(hf_counter_set(pair->one, "units", 3), HF_OK);
    CHECK_CODE(hf_counter_take(pair->one, "units", 2, SOON_MS), HF_OK);
    CHECK_CODE(hf_counter_get(pair->other, "units", &value), HF_OK);
    CHECK_INT(value, 1);
    CHECK_CODE(hf_counter_remove(pair->one, "units"), HF_OK);
    CHECK_CODE(hf_latch_set(pair->one, "latch", 1), HF_OK);
    CHECK_CODE(hf_latch_down(pair->other, "latch", 1, NULL), HF_OK);
    CHECK_CODE(hf_latch_wait(pair->one, "latch", SOON_MS), HF_OK);
}

static void pass_by_key(const struct pair *pair)
{
    hf_hold *hold;
    char key[HF_OWNER_KEY_SIZE];

    CHECK_CODE(
        hf_lock(pair->one, "\xc3\xa4 ''\\", SOON_MS, LOCK_OPTIONS(.lease_ms = SOON_MS), &hold),
        HF_OK);
    CHECK_CODE(hf_renew(hold, SOON_MS + 1000), HF_OK);
    CHECK_CODE(hf_detach(hold, key), HF_OK);
    CHECK_CODE(hf_attach(pair->other, "\xc3\xa4 ''\\", key, &hold), HF_OK);
    CHECK_INT(holders(pair->one, "\xc3\xa4 ''\\"), 1);
    give_back(hold);
}

/* A script is committed before its reply: nothing that was granted goes with the connection. */
static void keep_what_was_granted(const struct sql_server *server, const struct pair *pair)
{
    hf_hold *hold = take(pair->one, "kept", HF_MUTEX, HF_OWNER_NEW);

    CHECK(sql_server_shows(server, "SELECT COUNT(owner) FROM hf_lock WHERE name = 'kept';", "1"));
    give_back(hold);
}

/* In a table of another program a name is text: here a letter of two bytes. */
static void write_text(const struct sql_server *server)
{
    hf_client *client = NULL;
    char url[200];

    sql_server_says(server,
                    "CREATE TABLE IF NOT EXISTS shedlock (name varchar(64) PRIMARY KEY, lock_until "
                    "timestamp NOT NULL, locked_at timestamp NOT NULL, locked_by varchar(255) NOT "
                    "NULL); ALTER TABLE shedlock OWNER TO " SQL_SERVER_USER);
    snprintf(url, sizeof(url), "%s&layout=shedlock", sql_server_url(server, server->port));
    CHECK_CODE(hf_open(&client, url, NULL), HF_OK);
    give_back(take(client, "\xc3\xa4", HF_MUTEX, 0));
    CHECK(sql_server_shows(server, "SELECT encode(convert_to(name, 'UTF8'), 'hex') FROM shedlock;",
                           "c3a4"));
    hf_close(client);
}

/* Until a client's session has waited for the row for longer than the worst limit of statements. */
static void keep_row(void *arg)
{
    sql_server_says(arg,
                    "BEGIN; UPDATE hf_lock SET value = 0 WHERE name = 'row';\n"
                    "DO $$ BEGIN FOR i IN 1..1000 LOOP\n"
                    "  PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();\n"
                    "  EXIT WHEN EXISTS (SELECT FROM pg_stat_activity\n"
                    "    WHERE usename = '" SQL_SERVER_USER "' AND wait_event_type = 'Lock');\n"
                    "END LOOP; PERFORM pg_sleep(0.2); END $$; COMMIT;");
}

/* Where the role's settings would show: a transaction keeps the row of a name, a session is idle,
 * and a statement fails, as there are no tables. */
static void strain_postgres(const struct sql_server *server)
{
    struct pair pair = { sql_open(server, server->port, SOON_MS, 0),
                         sql_open(server, server->port, SOON_MS, 0) };
    struct thread keeper;
    hf_hold *hold = take(pair.one, "row", HF_MUTEX, 0), *none;

    CHECK_CODE(hf_lock(pair.other, "row", 900, NULL, &none), HF_BUSY);
    thread_start(&keeper, keep_row, (void *)(uintptr_t)server);
    EVENTUALLY(sql_server_shows(server,
                                "SELECT count(*) FROM pg_stat_activity WHERE wait_event = "
                                "'PgSleep';",
                                "1"),
               SOON_MS);
    give_back(hold);
    thread_join(&keeper);
    give_back(take(pair.other, "row", HF_MUTEX, 0));
    hf_close(pair.one);
    hf_close(pair.other);
    sql_server_says(server, "DROP TABLE hf_lock, hf_hold, hf_wait;");
}

static void use_all_kinds(const struct sql_server *server)
{
    struct pair pair = { sql_open(server, server->port, SOON_MS, 0),
                         sql_open(server, server->port, SOON_MS, 0) };

    hand_over(&pair, HF_MUTEX, "mutex");
    hand_over(&pair, HF_FAIR, "fair");
    hand_over(&pair, HF_WRITE, "write");
    share(&pair);
    count(&pair);
    pass_by_key(&pair);
    keep_what_was_granted(server, &pair);
    hf_close(pair.one);
    hf_close(pair.other);
    if (sql_server_is_mariadb(server))
        return;
    write_text(server);
    strain_postgres(server);
}

static void use_at_worst(const struct sql_server *server, const char *set,
                         const struct setting *each)
{
    for (; each->name; each++) {
        long complaints = each->complaint ? sql_server_logged(server, each->complaint) : 0;
        printf("# %s: %s %s = %s\n", server->kind, set, each->name, each->worst);
        fflush(stdout);
        sql_server_says(server, "%s %s = %s;", set, each->name, each->worst);
        use_all_kinds(server);
        sql_server_says(server, "%s %s = %s;", set, each->name, each->usual);
        if (each->complaint)
            CHECK_INT(sql_server_logged(server, each->complaint), complaints);
    }
}

static void use_at_worst_of(const char *kind, const struct setting *settings)
{
    struct sql_server server = { 0 };

    sql_server_start(&server, kind);
    use_at_worst(&server, "SET GLOBAL", of_both);
    if (settings)
        use_at_worst(&server, "SET GLOBAL", settings);
    sql_server_kill(&server);
}

TEST(setting_of_mariadb_at_its_worst_value_changes_no_lock)
{
    use_at_worst_of("mariadb", of_mariadb);
}

TEST(setting_of_mysql_at_its_worst_value_changes_no_lock)
{
    use_at_worst_of("mysql", NULL);
}

TEST(setting_of_postgres_at_its_worst_value_changes_no_lock)
{
    struct sql_server server = { 0 };

    sql_server_start(&server, "postgres");
    use_at_worst(&server, "ALTER ROLE " SQL_SERVER_USER " SET", of_postgres);
    sql_server_kill(&server);
}

/* ---- what a session cannot set ---- */

static void check_told(hf_client *client, const char *cure)
{
    hf_hold *hold = NULL;

    CHECK_ERROR(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_ECORRUPT);
    if (!strstr(hf_last_error()->text, cure))
        FAIL("\"%s\" does not say \"%s\"", hf_last_error()->text, cure);
}

TEST(binary_log_by_statement_is_told_with_its_cure)
{
    struct sql_server server = { .options = { "--log-bin=log", "--binlog-format=STATEMENT" } };

    sql_server_start(&server, "mariadb");
    hf_client *client = sql_open(&server, server.port, 0, 0);
    check_told(client, "set binlog_format to MIXED or ROW");
    hf_close(client);
    sql_server_kill(&server);
}
