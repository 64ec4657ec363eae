/* SPDX-License-Identifier: Apache-2.0 */
/* A transaction that is no lock's keeps the rows of some names for long: an administrator's, or
 * that of a client which was stopped. The other names of a client that wants these do not
 * suffer. */
#include "conformance.h"
#include "sql_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each of the names is wanted before any is known to be locked: that takes a second each, once. */
#define NAMES 3
#define TIMEOUT_MS 8000
#define LEASE_MS 12000
#define LOCKED_S 16
#define TABLE_LOCKED_S 8

struct scene {
    struct sql_server server;
    hf_client *client;
    _Atomic int lost, released, wanted;
    int64_t kept_until_us;
    uint64_t tokens[NAMES + 1]; /* of the names that were wanted */
};

/* The last moment in microseconds that the database has printed. */
static int64_t last_moment(const char *text)
{
    int64_t moment = 0;

    for (size_t digits; *text; text += digits ? digits : 1) {
        digits = strspn(text, "0123456789");
        if (digits == 16)
            moment = strtoll(text, NULL, 10);
    }
    return moment;
}

static void keep_row(void *arg)
{
    struct scene *scene = arg;

    const char *said =
        sql_server_says(&scene->server,
                        "BEGIN; SELECT token FROM hf_lock WHERE name LIKE 'wanted%%' FOR UPDATE;\n"
                        "SELECT %s(%d);\nSELECT %s;\nCOMMIT;",
                        sql_server_is_mariadb(&scene->server) ? "SLEEP" : "pg_sleep", LOCKED_S,
                        sql_server_now_us(&scene->server));
    scene->kept_until_us = last_moment(said);
    scene->released = 1;
}

static bool row_is_kept(struct scene *scene)
{
    return sql_server_shows(
        &scene->server,
        sql_server_is_mariadb(&scene->server)
            ? "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE "
              "'SELECT SLEEP(%'"
            : "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(%'",
        "1");
}

static void want_it(void *arg)
{
    struct scene *scene = arg;
    hf_hold *hold;
    char name[20];
    int number = ++scene->wanted;

    snprintf(name, sizeof(name), "wanted%d", number);
    CHECK_CODE(hf_lock(scene->client, name, HF_FOREVER, NULL, &hold), HF_OK);
    scene->tokens[number] = hf_token(hold);
    give_back(hold);
}

/* A call that waits in vain is told what is in its way. */
static void try_it(struct scene *scene)
{
    hf_hold *hold;

    CHECK_CODE(hf_lock(scene->client, "wanted0", 6000, NULL, &hold), HF_UNREACHABLE);
    if (!strstr(hf_last_error()->text, "\"wanted0\": another transaction"))
        FAIL("%s", hf_last_error()->text);
}

static void work_elsewhere(struct scene *scene)
{
    hf_hold *hold;
    int rounds = 0;

    for (; !scene->released; rounds++) {
        CHECK_CODE(hf_lock(scene->client, "other", 3000, NULL, &hold), HF_OK);
        CHECK_CODE(hf_unlock(hold), HF_OK);
    }
    test_note("%s: %d times the other name", scene->server.kind, rounds);
}

static void row_is_locked(const char *kind)
{
    struct scene scene = { 0 };
    struct thread keeper, waiters[NAMES];
    char name[20];

    sql_server_start(&scene.server, kind);
    scene.client = sql_open(&scene.server, scene.server.port, TIMEOUT_MS, LEASE_MS * test_slow());
    /* A new name could be one that InnoDB has locked with the gap before a row. */
    give_back(take(scene.client, "other", HF_MUTEX, 0));
    for (int i = 0; i <= NAMES; i++) {
        snprintf(name, sizeof(name), "wanted%d", i);
        give_back(take(scene.client, name, HF_MUTEX, 0));
    }
    hf_hold *kept = take_watched(scene.client, "kept", &scene.lost);
    thread_start(&keeper, keep_row, &scene);
    EVENTUALLY(row_is_kept(&scene), SOON_MS);
    for (int i = 0; i < NAMES; i++)
        thread_start(&waiters[i], want_it, &scene);
    try_it(&scene);
    work_elsewhere(&scene);
    thread_join(&keeper);
    CHECK(scene.kept_until_us > 0);
    for (int i = 0; i < NAMES; i++) {
        thread_join(&waiters[i]);
        /* The database's clock, which the client of the transaction may be behind. */
        CHECK((int64_t)scene.tokens[i + 1] > scene.kept_until_us - 500000);
    }
    CHECK_INT(scene.lost, 0);
    CHECK_CODE(hf_unlock(kept), HF_OK);
    hf_close(scene.client);
    sql_server_kill(&scene.server);
}

TEST(rows_that_are_kept_hold_up_no_other_name_mariadb)
{
    row_is_locked("mariadb");
}

TEST(rows_that_are_kept_hold_up_no_other_name_postgres)
{
    row_is_locked("postgres");
}

/* Shorter than the database lets a statement wait for a row, so that it is not asked again. */
static void keep_row_for_a_moment(void *arg)
{
    struct scene *scene = arg;
    bool is_mariadb = sql_server_is_mariadb(&scene->server);
    const char *said = sql_server_says(
        &scene->server,
        "BEGIN;\nSELECT token FROM hf_lock WHERE name = 'slow' FOR UPDATE;\nSELECT %s(0.8);\n"
        "SELECT %s;\nCOMMIT;",
        is_mariadb ? "SLEEP" : "pg_sleep", sql_server_now_us(&scene->server));

    scene->kept_until_us = last_moment(said);
}

/* The row may have been forgotten meanwhile, with a token as old as hf_forget leaves it. */
TEST(token_of_a_grant_that_waited_for_its_row_is_a_late_one)
{
    EACH_DATABASE(kind)
    {
        struct scene scene = { 0 };
        struct thread keeper;

        sql_server_start(&scene.server, *kind);
        scene.client = sql_open(&scene.server, scene.server.port, 0, 0);
        give_back(take_patiently(scene.client, "slow"));
        thread_start(&keeper, keep_row_for_a_moment, &scene);
        EVENTUALLY(row_is_kept(&scene), SOON_MS);
        hf_hold *hold = take_patiently(scene.client, "slow");
        thread_join(&keeper);
        test_note("%s: its token is %lld us behind the row's release", *kind,
                  (long long)(scene.kept_until_us - (int64_t)hf_token(hold)));
        CHECK(scene.kept_until_us > 0);
        CHECK((int64_t)hf_token(hold) > scene.kept_until_us - 500000);
        give_back(hold);
        hf_close(scene.client);
        sql_server_kill(&scene.server);
    }
}

/* A late statement has inserted a forgotten name anew, by the clock that it had read before. Its
 * client has died before it raised that token. */
TEST(reader_behind_a_dead_clients_old_token_has_a_newer_one)
{
    EACH_DATABASE(kind)
    {
        struct scene scene = { 0 };

        sql_server_start(&scene.server, *kind);
        scene.client = sql_open(&scene.server, scene.server.port, 0, 0);
        hf_hold *hold = take(scene.client, "old", HF_MUTEX, 0);
        uint64_t token = hf_token(hold);
        give_back(hold);
        sql_server_says(&scene.server,
                        "UPDATE hf_lock SET token = token - 1000000 WHERE name = 'old';");
        hold = take(scene.client, "old", HF_READ, 0);
        CHECK(hf_token(hold) > token);
        give_back(hold);
        hf_close(scene.client);
        sql_server_kill(&scene.server);
    }
}

/* A backup, or an administrator: every change waits for it. */
static void keep_table(void *arg)
{
    struct scene *scene = arg;

    if (sql_server_is_mariadb(&scene->server))
        sql_server_says(&scene->server, "FLUSH TABLES WITH READ LOCK; SELECT SLEEP(%d);",
                        TABLE_LOCKED_S);
    else
        sql_server_says(&scene->server,
                        "BEGIN; LOCK TABLE hf_lock IN EXCLUSIVE MODE;\nSELECT pg_sleep(%d);",
                        TABLE_LOCKED_S);
}

TEST(lock_of_the_table_is_told_as_the_reason)
{
    EACH_DATABASE(kind)
    {
        struct scene scene = { 0 };
        struct thread keeper;
        hf_hold *hold;

        sql_server_start(&scene.server, *kind);
        scene.client = sql_open(&scene.server, scene.server.port, 0, 0);
        give_back(take_patiently(scene.client, "other"));
        thread_start(&keeper, keep_table, &scene);
        EVENTUALLY(row_is_kept(&scene), SOON_MS);
        CHECK_CODE(hf_lock(scene.client, "other", 6000, NULL, &hold), HF_UNREACHABLE);
        if (!strstr(hf_last_error()->text, "\"other\": another transaction"))
            FAIL("%s", hf_last_error()->text);
        thread_join(&keeper);
        hf_close(scene.client);
        sql_server_kill(&scene.server);
    }
}
