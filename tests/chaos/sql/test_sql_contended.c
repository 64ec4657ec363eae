/* SPDX-License-Identifier: Apache-2.0 */
/* Many clients that want one mutex of a database: what each acquisition costs the server, how
 * evenly they get it, and which of them is next. */
#include "base/testing.h"
#include "conformance.h"
#include "sql_server.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define CLIENTS 32
/* Of all together: enough that the beginning and the end weigh little, where some are not there. */
#define ACQUISITIONS (CLIENTS * 60)
#define MESSAGES_MAX 5

/* ---- what it costs ---- */

static _Atomic long messages;

/* A message is what is sent as one: to PostgreSQL each statement is one of its own. */
static void count_message(const char *name)
{
    if (strcmp(name, "sql:message") == 0)
        messages++;
}

struct crowd {
    pthread_barrier_t ready;
    _Atomic int acquired;
    _Atomic bool held;
    uint64_t token; /* the holder's */
};

struct member {
    struct thread thread;
    struct crowd *crowd;
    hf_client *client;
    int acquired;
};

static void hold_once(struct member *member)
{
    struct crowd *crowd = member->crowd;
    hf_hold *hold;
    CHECK_CODE(hf_lock(member->client, "one", HF_FOREVER, LOCK_OPTIONS(.mode = HF_FAIR), &hold),
               HF_OK);
    CHECK(!atomic_exchange(&crowd->held, true));
    CHECK(hf_token(hold) > crowd->token);
    crowd->token = hf_token(hold);
    crowd->held = false;
    CHECK_CODE(hf_unlock(hold), HF_OK);
}

static void contend(void *arg)
{
    struct member *member = arg;
    struct crowd *crowd = member->crowd;
    pthread_barrier_wait(&crowd->ready);
    while (crowd->acquired < ACQUISITIONS) {
        hold_once(member);
        crowd->acquired++;
        member->acquired++;
    }
    pthread_barrier_wait(&crowd->ready);
}

static void check_evenness(const struct member *members, int total)
{
    int least = members[0].acquired, most = 0;
    for (int i = 0; i < CLIENTS; i++) {
        least = members[i].acquired < least ? members[i].acquired : least;
        most = members[i].acquired > most ? members[i].acquired : most;
    }
    test_note("%d acquisitions, %d to %d a client", total, least, most);
    CHECK(least >= total / CLIENTS / 2);
}

/* All that the server has executed: PostgreSQL writes it into its log; MariaDB counts the parts of
 * a message, too. */
static long count_statements(const struct sql_server *server)
{
    if (!sql_server_is_mariadb(server))
        return sql_server_logged(server, "LOG:  execute ");
    const char *number =
        strchr(sql_server_says(server, "SHOW GLOBAL STATUS LIKE 'Questions';"), '\t');
    CHECK(number != NULL);
    return strtol(number, NULL, 10);
}

static void check_costs(const struct sql_server *server, long sent, long statements, int total)
{
    bool counts_parts = sql_server_is_mariadb(server);
    test_note("%s: %.2f messages an acquisition", server->kind, (double)sent / total);
    test_note("%s: %.2f statements by the server's count", server->kind,
              (double)statements / total);
    CHECK(sent >= total);
    CHECK(sent <= (long)MESSAGES_MAX * total);
    CHECK(statements >= sent - total / 10);
    if (!counts_parts)
        CHECK(statements <= (long)MESSAGES_MAX * total);
}

static void run_crowd(struct sql_server *server)
{
    static struct member members[CLIENTS];
    static struct crowd crowd;

    TEST_TIMEOUT(120);
    crowd.acquired = 0;
    pthread_barrier_init(&crowd.ready, NULL, CLIENTS + 1);
    for (int i = 0; i < CLIENTS; i++) {
        members[i] = (struct member){ .crowd = &crowd };
        members[i].client = sql_open(server, server->port, 0, 0);
        give_back(take_patiently(members[i].client, "warm"));
        thread_start(&members[i].thread, contend, &members[i]);
    }
    long before = count_statements(server);
    hf__point_hook = count_message;
    messages = 0;
    pthread_barrier_wait(&crowd.ready);
    pthread_barrier_wait(&crowd.ready);
    long sent = messages, statements = count_statements(server) - before;
    for (int i = 0; i < CLIENTS; i++) {
        thread_join(&members[i].thread);
        hf_close(members[i].client);
    }
    check_costs(server, sent, statements, crowd.acquired);
    check_evenness(members, crowd.acquired);
    pthread_barrier_destroy(&crowd.ready);
}

TEST(fair_mutex_of_postgres_costs_few_statements_and_is_even)
{
    struct sql_server server = { .options = { "-c", "log_statement=all" } };
    sql_server_start(&server, "postgres");
    run_crowd(&server);
    sql_server_kill(&server);
}

TEST(fair_mutex_of_mariadb_costs_few_messages_and_is_even)
{
    struct sql_server server = { 0 };
    sql_server_start(&server, "mariadb");
    run_crowd(&server);
    sql_server_kill(&server);
}

/* ---- which is next ---- */

static hf_client *open_at(const struct sql_server *server)
{
    return sql_open(server, server->port, 0, 60000);
}

/* Another client's place for the name "one", which no client asks after. */
#define STRANGER "the-stranger,-24-bytes.."

static void let_stranger_wait(const struct sql_server *server, int seconds)
{
    sql_server_says(server,
                    "INSERT INTO hf_wait (name, owner, mode, fixed, permits, lease_us, since_us, "
                    "expires_us) VALUES ('one', '" STRANGER "', %d, 0, 1, 60000000, %s, "
                    "%s + %d);"
                    "UPDATE hf_lock SET waiting = 1 WHERE name = 'one';",
                    HF_FAIR, sql_server_now_us(server), sql_server_now_us(server),
                    seconds * 1000000);
}

static hf_hold *take_fair(hf_client *client)
{
    hf_hold *hold = NULL;
    CHECK_CODE(hf_lock(client, "one", SOON_MS, LOCK_OPTIONS(.mode = HF_FAIR), &hold), HF_OK);
    return hold;
}

/* As after a lease that has ended: it is free, and others have waited for longer. */
TEST(newcomer_does_not_overtake_those_that_wait_for_a_free_mutex)
{
    EACH_DATABASE(kind)
    {
        struct sql_server server = { 0 };
        sql_server_start(&server, *kind);
        hf_client *client = open_at(&server);
        give_back(take_fair(client));
        let_stranger_wait(&server, 3);
        CHECK_CODE(probe(client, "one", HF_FAIR, 0), HF_BUSY);
        /* Again, by what it remembers of the last time. */
        CHECK_CODE(probe(client, "one", HF_FAIR, 0), HF_BUSY);
        hf_hold *hold = take_fair(client);
        char query[200];
        snprintf(query, sizeof(query), "SELECT COUNT(*) FROM hf_wait WHERE expires_us > %s;",
                 sql_server_now_us(&server));
        CHECK(sql_server_shows(&server, query, "0"));
        give_back(hold);
        hf_close(client);
        sql_server_kill(&server);
    }
}

TEST(release_hands_over_to_the_one_that_has_waited_longest)
{
    EACH_DATABASE(kind)
    {
        struct sql_server server = { 0 };
        struct outcome outcome = { 0 };
        sql_server_start(&server, *kind);
        hf_client *client = open_at(&server), *other = open_at(&server);
        hf_hold *hold = take_fair(client);
        let_stranger_wait(&server, 60);
        begin_wait(other, "one", HF_FAIR, &outcome);
        EVENTUALLY(sql_server_shows(&server, "SELECT COUNT(*) FROM hf_wait;", "2"), SOON_MS);
        give_back(hold);
        CHECK(sql_server_shows(&server,
                               "SELECT COUNT(*) FROM hf_lock WHERE owner = '" STRANGER "';", "1"));
        /* It never confirms. */
        give_back(await_grant(&outcome));
        hf_close(client);
        hf_close(other);
        sql_server_kill(&server);
    }
}

/* A head that looks repairs the flag after 250 ms: MariaDB notes what the place comes with. */
static void note_flag_of_place(const struct sql_server *server)
{
    sql_server_says(server, "CREATE TABLE noted (flag INT);"
                            "CREATE TRIGGER note AFTER INSERT ON hf_wait FOR EACH ROW "
                            "INSERT INTO noted SELECT waiting FROM hf_lock WHERE name = NEW.name;");
}

/* The owner sees it by the flag alone: it has not been refused itself. */
TEST(place_in_the_queue_is_noted_at_the_lock)
{
    EACH_DATABASE(kind)
    {
        struct sql_server server = { 0 };
        struct outcome outcome = { 0 };
        sql_server_start(&server, *kind);
        hf_client *client = open_at(&server), *other = open_at(&server);
        hf_hold *hold = take_fair(client);
        bool is_mariadb = sql_server_is_mariadb(&server);
        if (is_mariadb)
            note_flag_of_place(&server);
        begin_wait(other, "one", HF_FAIR, &outcome);
        EVENTUALLY(sql_server_shows(&server, "SELECT COUNT(*) FROM hf_wait;", "1"), SOON_MS);
        CHECK(sql_server_shows(&server, "SELECT waiting FROM hf_lock WHERE name = 'one';", "1"));
        if (is_mariadb)
            CHECK(sql_server_shows(&server, "SELECT MIN(flag) FROM noted;", "1"));
        give_back(hold);
        give_back(await_grant(&outcome));
        /* It remembers that the name was held, and is wrong. */
        CHECK_CODE(probe(other, "one", HF_FAIR, 0), HF_OK);
        hf_close(client);
        hf_close(other);
        sql_server_kill(&server);
    }
}

/* It leaves while the release already waits for the row. */
static void let_stranger_leave(void *arg)
{
    sql_server_says(arg, "BEGIN;"
                         "SELECT 1 FROM hf_lock WHERE name = 'one' FOR UPDATE;"
                         "DELETE FROM hf_wait;"
                         "SELECT pg_sleep(1);"
                         "COMMIT;");
}

TEST(release_passes_over_a_waiter_that_leaves_at_the_same_time)
{
    struct sql_server server = { 0 };
    struct thread thread;
    sql_server_start(&server, "postgres");
    hf_client *client = open_at(&server);
    hf_hold *hold = take_fair(client);
    let_stranger_wait(&server, 60);
    thread_start(&thread, let_stranger_leave, &server);
    EVENTUALLY(sql_server_shows(
                   &server,
                   "SELECT COUNT(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' "
                   "AND state = 'active' AND pid <> pg_backend_pid();",
                   "1"),
               SOON_MS);
    give_back(hold);
    thread_join(&thread);
    CHECK(sql_server_shows(
        &server, "SELECT COUNT(*) FROM hf_lock WHERE name = 'one' AND owner IS NULL;", "1"));
    hf_close(client);
    sql_server_kill(&server);
}
