/* SPDX-License-Identifier: Apache-2.0 */
/* Behind PgBouncer, which lends one session to several programs, a transaction to each. */
#include "relay.h"
#include "sql_bench.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define LEASE_MS 600000
#define TIMEOUT_MS 1000

struct pooled {
    struct sql_server server, pooler;
    struct relay relay;
    hf_client *client;
    char port[8];
};

static hf_client *open_pooled(const struct pooled *pooled, const char *more)
{
    hf_client_options options = { .size = sizeof(options), .lease_ms = LEASE_MS };
    hf_client *client = NULL;
    char url[200];

    snprintf(url, sizeof(url),
             "postgres://" SQL_SERVER_USER "@127.0.0.1:%d/" SQL_SERVER_DATABASE
             "?tls=off&timeout=%d%s",
             pooled->relay.port, TIMEOUT_MS, more);
    CHECK_CODE(hf_open(&client, url, &options), HF_OK);
    return client;
}

static void begin_with(struct pooled *pooled, const char *more)
{
    *pooled = (struct pooled){ .server.options = { "-c", "log_statement=all" } };
    sql_server_start(&pooled->server, "postgres");
    snprintf(pooled->port, sizeof(pooled->port), "%d", pooled->server.port);
    pooled->pooler.options[0] = pooled->port;
    sql_server_start(&pooled->pooler, "pgbouncer");
    relay_start(&pooled->relay, pooled->pooler.port);
    pooled->client = open_pooled(pooled, more);
    give_back(take_patiently(pooled->client, "warm"));
}

static void begin(struct pooled *pooled)
{
    begin_with(pooled, "");
}

static void end(struct pooled *pooled)
{
    hf_close(pooled->client);
    relay_stop(&pooled->relay);
    sql_server_kill(&pooled->pooler);
    sql_server_kill(&pooled->server);
}

static void lose_connection(const struct pooled *pooled, struct relay *relay, hf_client *client,
                            const char *name)
{
    struct outcome outcome = { 0 };
    char statement[100];

    snprintf(statement, sizeof(statement), "SELECT COUNT(owner) FROM hf_lock WHERE name = '%s';",
             name);
    relay_swallow(relay);
    CHECK_CODE(hf_lock_async(client, name, HF_FOREVER, NULL, record_outcome, &outcome, NULL),
               HF_OK);
    EVENTUALLY(sql_server_shows(&pooled->server, statement, "1"), SOON_MS);
    relay_cut(relay);
    give_back(await_grant(&outcome));
}

/* Older versions of PgBouncer leave the application_name of the last program on a session that they
 * lend, and newer ones take it away. So here the other program has the client's name itself. */
static void lose_beside_another_program(const struct pooled *pooled, struct relay *relay,
                                        hf_client *client, const char *name)
{
    const struct subject *subject = subjects;
    struct bench bench = { 0 };
    struct asked asked;

    while (subject->driver->dialect != SQL_POSTGRES)
        subject++;
    bench_open(&bench, subject->driver, pooled->pooler.port);
    snprintf(bench.settings.session, sizeof(bench.settings.session), "%s",
             sql_server_says(&pooled->server,
                             "SELECT application_name FROM pg_stat_activity WHERE usename = '%s' "
                             "ORDER BY backend_start DESC LIMIT 1;",
                             SQL_SERVER_USER));
    CHECK(strncmp(bench.settings.session, "holdfast", 8) == 0);
    bench_connect(&bench);
    await_ready(&bench);
    ask(&bench, subject, &asked, SLEEP, 4, 0);
    EVENTUALLY(turn(&bench) && sql_server_shows(&pooled->server,
                                                "SELECT count(*) FROM pg_stat_activity WHERE "
                                                "wait_event = 'PgSleep';",
                                                "1"),
               SOON_MS);
    lose_connection(pooled, relay, client, name);
    EVENTUALLY(turn(&bench) && asked.answered, SOON_MS);
    check_fine(&asked);
    bench_end(&bench, NULL);
}

TEST(transaction_of_another_program_is_not_ended_with_a_lost_connection)
{
    struct pooled pooled;
    struct relay direct = { 0 };

    begin(&pooled);
    /* What this one does to the session is there when the other program has it. */
    lose_connection(&pooled, &pooled.relay, pooled.client, "one");
    lose_beside_another_program(&pooled, &pooled.relay, pooled.client, "two");
    relay_start(&direct, pooled.server.port);
    hf_client *client = sql_open(&pooled.server, direct.port, TIMEOUT_MS, LEASE_MS);
    give_back(take_patiently(client, "three"));
    lose_beside_another_program(&pooled, &direct, client, "three");
    hf_close(client);
    relay_stop(&direct);
    end(&pooled);
}

/* Nothing ends the session in which it comes late. */
TEST(downgrade_that_comes_late_does_not_undo_the_upgrade_behind_it)
{
    static const char mode[] = "SELECT mode FROM hf_hold WHERE name = 'one';";
    struct pooled pooled;

    begin(&pooled);
    hf_hold *hold = take(pooled.client, "one", HF_WRITE, 0);
    uint64_t token = hf_token(hold);
    pid_t backend = (pid_t)strtol(
        sql_server_says(&pooled.server, "SELECT pid FROM pg_stat_activity WHERE usename = '%s';",
                        SQL_SERVER_USER),
        NULL, 10);
    CHECK(backend > 1 && kill(backend, SIGSTOP) == 0);
    /* Its first request has no reply, and is repeated in another session. */
    CHECK_CODE(hf_downgrade(hold, HF_UPGRADE), HF_OK);
    CHECK(sql_server_shows(&pooled.server, mode, "3"));
    CHECK_CODE(hf_upgrade(hold, SOON_MS), HF_OK);
    CHECK(hf_token(hold) > token);
    long before = sql_server_logged(&pooled.server, "UPDATE hf_hold SET mode");
    CHECK(kill(backend, SIGCONT) == 0);
    EVENTUALLY(sql_server_logged(&pooled.server, "UPDATE hf_hold SET mode") > before, SOON_MS);
    sql_server_says(&pooled.server, "SELECT 1 FROM hf_lock WHERE name = 'one' FOR UPDATE;");
    CHECK(sql_server_shows(&pooled.server, mode, "4"));
    give_back(hold);
    end(&pooled);
}

static void lock_warm(void *arg)
{
    sql_server_says(arg, "BEGIN; SELECT 1 FROM hf_lock WHERE name = 'warm' FOR UPDATE;"
                         "SELECT pg_sleep(5);");
}

/* A row that another transaction keeps locked holds up this name alone, and not for ever. */
TEST(row_that_is_locked_delays_no_other_name_behind_a_pooler)
{
    struct pooled pooled;
    struct thread thread;
    hf_hold *hold = NULL;

    begin(&pooled);
    thread_start(&thread, lock_warm, &pooled.server);
    EVENTUALLY(sql_server_shows(
                   &pooled.server,
                   "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep';", "1"),
               SOON_MS);
    CHECK_CODE(hf_lock(pooled.client, "warm", TIMEOUT_MS, NULL, &hold), HF_UNREACHABLE);
    CHECK(sql_server_logged(&pooled.server, "due to lock timeout") > 0);
    give_back(take(pooled.client, "other", HF_MUTEX, 0));
    thread_join(&thread);
    end(&pooled);
}

struct visits {
    struct pooled pooled;
    hf_client *other;
    _Atomic int inside[3];
};

static void visit(void *arg, int index)
{
    static const char *const names[] = { "a", "b", "c" };
    struct visits *visits = arg;
    hf_client *client = index % 2 ? visits->other : visits->pooled.client;
    hf_lock_item items[3];
    hf_hold_set *set;

    for (int turn = 0; turn < 5; turn++) {
        int at = (index + turn) % 3;
        hf_hold *hold = NULL;
        CHECK_CODE(hf_lock(client, names[at], HF_FOREVER, NULL, &hold), HF_OK);
        CHECK_INT(visits->inside[at]++, 0);
        CHECK_INT(--visits->inside[at], 0);
        give_back(hold);
        for (int i = 0; i < 3; i++)
            items[i] = (hf_lock_item){ .client = client, .name = names[(at + i) % 3] };
        CHECK_CODE(hf_lock_all(items, 3, HF_FOREVER, NULL, &set), HF_OK);
        for (int i = 0; i < 3; i++)
            CHECK_INT(visits->inside[i]++, 0);
        for (int i = 0; i < 3; i++)
            CHECK_INT(--visits->inside[i], 0);
        CHECK_CODE(hf_unlock_all(set), HF_OK);
    }
}

TEST(names_of_several_connections_are_exclusive_behind_a_pooler)
{
    struct visits visits = { .inside = { 0 } };

    begin_with(&visits.pooled, "&connections=3");
    visits.other = open_pooled(&visits.pooled, "&connections=3");
    threads_run(6, visit, &visits);
    check_nothing_left(visits.pooled.client, "a");
    check_nothing_left(visits.pooled.client, "b");
    check_nothing_left(visits.pooled.client, "c");
    hf_close(visits.other);
    end(&visits.pooled);
}
