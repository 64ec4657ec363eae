/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a server, a database or a role that change what a statement means or does, each at
 * its worst value: all kinds of locks work as if it were not set. */
#include "conformance.h"
#include "sql_server.h"

#include <stdio.h>

struct setting {
    const char *name, *worst, *usual;
};

/* Global ones: a new session begins with them. */
static const struct setting of_both[] = {
    { "completion_type", "'CHAIN'", "'NO_CHAIN'" },
    { "completion_type", "'RELEASE'", "'NO_CHAIN'" },
    { "sql_safe_updates", "1", "0" },
    { "sql_select_limit", "1", "18446744073709551615" },
    /* With it, sql_big_selects is 0. */
    { "max_join_size", "1", "18446744073709551615" },
    { "sql_auto_is_null", "1", "0" },
    { "unique_checks", "0", "1" },
    { "div_precision_increment", "0", "4" },
    { "group_concat_max_len", "4", "1048576" },
    { "max_sort_length", "8", "1024" },
    /* It is not for the administrator. */
    { "init_connect", "'SET NAMES latin1, @@session.sql_big_selects = 0'", "''" },
    { "time_zone", "'+13:00'", "'SYSTEM'" },
    { NULL, NULL, NULL },
};

static const struct setting of_mariadb[] = {
    { "init_connect", "'SET max_statement_time = 0.000001'", "''" },
    { "sql_mode", "'ORACLE,NO_UNSIGNED_SUBTRACTION,PAD_CHAR_TO_FULL_LENGTH'",
      "'STRICT_TRANS_TABLES'" },
    { "tx_isolation", "'SERIALIZABLE'", "'REPEATABLE-READ'" },
    { NULL, NULL, NULL },
};

static const struct setting of_mysql[] = {
    { "init_connect", "'SET max_execution_time = 1'", "''" },
    { "sql_mode", "'ANSI,NO_BACKSLASH_ESCAPES,NO_UNSIGNED_SUBTRACTION,TIME_TRUNCATE_FRACTIONAL'",
      "'STRICT_TRANS_TABLES'" },
    { "transaction_isolation", "'SERIALIZABLE'", "'REPEATABLE-READ'" },
    { NULL, NULL, NULL },
};

/* Those of the role. */
static const struct setting of_postgres[] = {
    { "default_transaction_isolation", "'serializable'", "DEFAULT" },
    { "default_transaction_deferrable", "on", "DEFAULT" },
    { "statement_timeout", "50", "DEFAULT" },
    { "lock_timeout", "1", "DEFAULT" },
    { "idle_in_transaction_session_timeout", "1", "DEFAULT" },
    { "idle_session_timeout", "300", "DEFAULT" },
    { "standard_conforming_strings", "off", "DEFAULT" },
    { "DateStyle", "'German'", "DEFAULT" },
    { "IntervalStyle", "'sql_standard'", "DEFAULT" },
    { "bytea_output", "'escape'", "DEFAULT" },
    { "extra_float_digits", "-15", "DEFAULT" },
    { "row_security", "off", "DEFAULT" },
    { "TimeZone", "'Pacific/Apia'", "DEFAULT" },
    { "client_encoding", "'LATIN1'", "DEFAULT" },
    { "plan_cache_mode", "'force_generic_plan'", "DEFAULT" },
    { "transform_null_equals", "on", "DEFAULT" },
    { "exit_on_error", "on", "DEFAULT" },
    { "quote_all_identifiers", "on", "DEFAULT" },
    { "search_path", "'\"$user\"', 'public'", "DEFAULT" },
    { NULL, NULL, NULL },
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
}

static void use_at_worst(const struct sql_server *server, const char *set,
                         const struct setting *each)
{
    for (; each->name; each++) {
        printf("# %s: %s %s = %s\n", server->kind, set, each->name, each->worst);
        fflush(stdout);
        sql_server_says(server, "%s %s = %s;", set, each->name, each->worst);
        use_all_kinds(server);
        sql_server_says(server, "%s %s = %s;", set, each->name, each->usual);
    }
}

static void use_at_worst_of(const char *kind, const struct setting *settings)
{
    struct sql_server server = { 0 };

    sql_server_start(&server, kind);
    use_at_worst(&server, "SET GLOBAL", of_both);
    use_at_worst(&server, "SET GLOBAL", settings);
    sql_server_kill(&server);
}

TEST(setting_of_mariadb_at_its_worst_value_changes_no_lock)
{
    use_at_worst_of("mariadb", of_mariadb);
}

TEST(setting_of_mysql_at_its_worst_value_changes_no_lock)
{
    use_at_worst_of("mysql", of_mysql);
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
