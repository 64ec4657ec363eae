/* SPDX-License-Identifier: Apache-2.0 */
/* What a database rolls back because of others is asked again, and no user hears of it: deadlocks,
 * lock time-outs, serialization failures. */
#include "conformance.h"
#include "sql_server.h"

#include <stdio.h>
#include <stdlib.h>

/* Another client's place for the name "one", which no client asks after. */
#define STRANGER "the-stranger,-24-bytes.."
#define ROWS 200

/* Waits until a transaction of ours waits for a row. */
static const char *until_ours_wait(const struct sql_server *server)
{
    return sql_server_is_mariadb(server)
               ? "DELIMITER //\n"
                 "BEGIN NOT ATOMIC WHILE (SELECT COUNT(*) FROM information_schema.innodb_trx WHERE "
                 "trx_state = 'LOCK WAIT') = 0 DO DO SLEEP(0.2); END WHILE; END//\n"
                 "DELIMITER ;\n"
               : "DO $$ BEGIN WHILE NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE usename = "
                 "'" SQL_SERVER_USER "' AND wait_event_type = 'Lock') LOOP PERFORM pg_sleep(0.02); "
                 "PERFORM pg_stat_clear_snapshot(); END LOOP; END $$;\n";
}

/* ---- deadlocks ---- */

struct scene {
    struct sql_server server;
    hf_client *client;
};

/* MariaDB ends the transaction that has changed fewer rows, PostgreSQL the one that has waited for
 * longer. Both are ours. */
static void lock_crosswise(void *arg)
{
    struct scene *scene = arg;

    sql_server_says(&scene->server,
                    "BEGIN; UPDATE many SET twin = 1;"
                    "SELECT seq FROM hf_wait WHERE owner = '" STRANGER "' FOR UPDATE;\n"
                    "%s"
                    "UPDATE hf_lock SET info = info WHERE name = 'one'; COMMIT;",
                    until_ours_wait(&scene->server));
}

/* It has locked what it locks first, and waits for ours. */
static bool has_begun(const struct sql_server *server)
{
    const char *question =
        sql_server_is_mariadb(server)
            ? "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User sleep';"
            : "SELECT COUNT(*) FROM pg_stat_activity WHERE query LIKE 'DO $$%' "
              "AND pid <> pg_backend_pid();";
    return !sql_server_shows(server, question, "0");
}

static long count_deadlocks(const struct sql_server *server)
{
    const char *said = sql_server_says(
        server, "%s",
        sql_server_is_mariadb(server)
            ? "SELECT variable_value FROM information_schema.global_status WHERE variable_name = "
              "'Innodb_deadlocks';"
            : "SELECT deadlocks FROM pg_stat_database WHERE datname = '" SQL_SERVER_DATABASE "';");
    return strtol(said, NULL, 10);
}

static void make_rows(const struct sql_server *server)
{
    sql_server_says(server, "CREATE TABLE many (number INT PRIMARY KEY, twin INT);");
    for (int i = 0; i < ROWS; i += 20) {
        char rows[500] = "";
        for (int j = 0; j < 20; j++)
            snprintf(rows + strlen(rows), sizeof(rows) - strlen(rows), "%s(%d, 0)", j ? "," : "",
                     i + j);
        sql_server_says(server, "INSERT INTO many VALUES %s;", rows);
    }
}

/* A place that has ended. */
static void leave_stranger_behind(const struct sql_server *server)
{
    sql_server_says(server,
                    "INSERT INTO hf_wait (name, owner, mode, fixed, permits, lease_us, since_us, "
                    "expires_us) VALUES ('one', '" STRANGER "', %d, 0, 1, 60000000, 1, 1);",
                    HF_READ);
}

/* The attempt has the lock's row, and waits for the row of the place, to clean it away. */
TEST(deadlock_in_a_try_is_not_shown)
{
    EACH_DATABASE(kind)
    {
        struct scene scene = { .client = NULL };
        struct thread thread;

        /* Else ours would have waited for long enough before PostgreSQL looks for deadlocks. */
        if (strcmp(*kind, "postgres") == 0)
            scene.server.options[0] = "-cdeadlock_timeout=100ms";
        sql_server_start(&scene.server, *kind);
        scene.client = sql_open(&scene.server, scene.server.port, 60000, 600000);
        give_back(take(scene.client, "one", HF_READ, 0));
        make_rows(&scene.server);
        leave_stranger_behind(&scene.server);
        long before = count_deadlocks(&scene.server);
        thread_start(&thread, lock_crosswise, &scene);
        EVENTUALLY(has_begun(&scene.server), SOON_MS);
        CHECK_CODE(probe(scene.client, "one", HF_READ, 0), HF_OK);
        thread_join(&thread);
        EVENTUALLY(count_deadlocks(&scene.server) > before, SOON_MS);
        check_nothing_left(scene.client, "one");
        hf_close(scene.client);
        sql_server_kill(&scene.server);
    }
}

/* ---- serialization failures ---- */

enum { CLIENTS = 8, ROUNDS = 20 };

struct crowd {
    struct sql_server server, pooler;
    _Atomic int held;
    hf_client *clients[CLIENTS];
};

static void hold_once(struct crowd *crowd, hf_client *client, int64_t wait_ms)
{
    hf_hold *hold = NULL;
    int code = hf_lock(client, "mutex", wait_ms, NULL, &hold);

    if (wait_ms == 0 && code == HF_BUSY)
        return;
    CHECK_CODE(code, HF_OK);
    CHECK_INT(crowd->held++, 0);
    crowd->held--;
    give_back(hold);
}

static void contend(void *arg, int index)
{
    struct crowd *crowd = arg;
    hf_client *client = crowd->clients[index];
    hf_hold *hold = NULL;

    for (int i = 0; i < ROUNDS; i++) {
        hold_once(crowd, client, HF_FOREVER);
        hold_once(crowd, client, 0);
        int code = hf_lock(client, "write", 0, LOCK_OPTIONS(.mode = HF_WRITE), &hold);
        if (code != HF_BUSY) {
            CHECK_CODE(code, HF_OK);
            give_back(hold);
        }
        CHECK_CODE(hf_lock(client, "units", 0, LOCK_OPTIONS(.mode = HF_COUNTER), &hold), HF_OK);
    }
}

/* Behind a pooler the server's defaults apply. */
TEST(serialization_failures_behind_a_pooler_are_not_shown)
{
    static const char *const isolation = "default_transaction_isolation=serializable";
    struct crowd crowd = { .server = { .options = { "-c", isolation } } };
    char port[8];

    sql_server_start(&crowd.server, "postgres");
    snprintf(port, sizeof(port), "%d", crowd.server.port);
    crowd.pooler.options[0] = port;
    sql_server_start(&crowd.pooler, "pgbouncer");
    for (int i = 0; i < CLIENTS; i++)
        crowd.clients[i] = sql_open(&crowd.server, crowd.pooler.port, 60000, 600000);
    CHECK_CODE(hf_counter_set(crowd.clients[0], "units", CLIENTS * ROUNDS + 1), HF_OK);
    threads_run(CLIENTS, contend, &crowd);
    uint32_t left = 0;
    CHECK_CODE(hf_counter_get(crowd.clients[0], "units", &left), HF_OK);
    CHECK_INT(left, 1);
    test_note("%ld serialization failures",
              sql_server_logged(&crowd.server, "could not serialize"));
    CHECK(sql_server_logged(&crowd.server, "could not serialize") > 0);
    for (int i = 0; i < CLIENTS; i++)
        hf_close(crowd.clients[i]);
    sql_server_kill(&crowd.pooler);
    sql_server_kill(&crowd.server);
}
