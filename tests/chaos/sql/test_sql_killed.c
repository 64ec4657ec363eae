/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that an administrator ends at the server: of a holder, of a waiter, the one that
 * listens, and some of several that a client has. The rows stay, so nothing is lost. */
#include "conformance.h"
#include "sql_server.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

/* Longer than a test's patience: no lease ends meanwhile. */
#define LEASE_MS 300000
#define SESSIONS_SIZE 400

struct scene {
    struct sql_server server;
    hf_client *holder, *waiter;
    hf_hold *hold;
    _Atomic int losses;
    struct outcome outcome;
    char of_holder[SESSIONS_SIZE], of_waiter[SESSIONS_SIZE];
};

/* The sessions of our clients but for these, as "5,7"; `which` is a condition. */
static void note_sessions(const struct scene *scene, const char *which, const char *but, char *ret)
{
    bool mariadb = sql_server_is_mariadb(&scene->server);
    const char *said = sql_server_says(
        &scene->server,
        mariadb ? "SELECT COALESCE(GROUP_CONCAT(id), '') FROM information_schema.processlist WHERE "
                  "user = 'locks' AND %s AND id NOT IN (%s);"
                : "SELECT COALESCE(string_agg(pid::text, ','), '') FROM pg_stat_activity WHERE "
                  "usename = 'locks' AND %s AND pid NOT IN (%s);",
        which, *but ? but : "0");

    snprintf(ret, SESSIONS_SIZE, "%.*s", (int)strcspn(said, "\n"), said);
}

static bool are_gone(const struct scene *scene, const char *sessions)
{
    char left[SESSIONS_SIZE], which[SESSIONS_SIZE + 20];

    snprintf(which, sizeof(which), "%s IN (%s)",
             sql_server_is_mariadb(&scene->server) ? "id" : "pid", sessions);
    note_sessions(scene, which, "", left);
    return *left == '\0';
}

static void end_sessions(const struct scene *scene, const char *sessions)
{
    CHECK(*sessions != '\0');
    if (!sql_server_is_mariadb(&scene->server)) {
        sql_server_says(&scene->server, "SELECT pg_terminate_backend(unnest(ARRAY[%s]));",
                        sessions);
    } else {
        char list[SESSIONS_SIZE], *rest = NULL;
        snprintf(list, sizeof(list), "%s", sessions);
        for (char *id = strtok_r(list, ",", &rest); id; id = strtok_r(NULL, ",", &rest))
            sql_server_says(&scene->server, "KILL %s;", id);
    }
    EVENTUALLY(are_gone(scene, sessions), SOON_MS);
}

static void begin(struct scene *scene, const char *kind)
{
    TEST_TIMEOUT(120);
    memset(scene, 0, sizeof(*scene));
    sql_server_start(&scene->server, kind);
    scene->holder = sql_open(&scene->server, scene->server.port, 0, LEASE_MS);
    scene->hold = take_watched(scene->holder, "one", &scene->losses);
    note_sessions(scene, "1 = 1", "", scene->of_holder);
    scene->waiter = sql_open(&scene->server, scene->server.port, 0, LEASE_MS);
    CHECK_CODE(hf_lock_async(scene->waiter, "one", HF_FOREVER, NULL, record_outcome,
                             &scene->outcome, NULL),
               HF_OK);
    EVENTUALLY(waiters(scene->holder, "one") == 1, SOON_MS);
}

/* The waiter has its turn after a release, and not before. */
static void end(struct scene *scene)
{
    CHECK_INT(scene->losses, 0);
    CHECK(hf_held(scene->hold));
    CHECK_INT(scene->outcome.calls, 0);
    CHECK_INT(waiters(scene->holder, "one"), 1);
    CHECK_CODE(hf_unlock(scene->hold), HF_OK);
    WAIT_OUTCOME(&scene->outcome);
    CHECK_CODE(scene->outcome.code, HF_OK);
    give_back(scene->outcome.hold);
    hf_close(scene->waiter);
    hf_close(scene->holder);
    sql_server_kill(&scene->server);
}

TEST(holder_whose_session_is_killed_keeps_its_lock)
{
    EACH_DATABASE(kind)
    {
        struct scene scene;
        begin(&scene, *kind);
        end_sessions(&scene, scene.of_holder);
        end(&scene);
    }
}

TEST(waiter_whose_sessions_are_killed_keeps_its_place)
{
    EACH_DATABASE(kind)
    {
        struct scene scene;
        begin(&scene, *kind);
        note_sessions(&scene, "1 = 1", scene.of_holder, scene.of_waiter);
        end_sessions(&scene, scene.of_waiter);
        end(&scene);
    }
}

/* A release that nothing tells it of is found by its own look: at PostgreSQL, 3 seconds after the
 * last one. */
#define LOOKS 3
#define AT_ONCE_MS 1000

/* It is released as soon as the waiter is there again. */
static int64_t cut_and_release(const char *kind)
{
    struct scene scene;
    begin(&scene, kind);
    note_sessions(&scene, "1 = 1", scene.of_holder, scene.of_waiter);
    end_sessions(&scene, scene.of_waiter);
    int64_t cut_us = monotonic_us();
    CHECK_CODE(hf_unlock(scene.hold), HF_OK);
    WAIT_OUTCOME(&scene.outcome);
    int64_t took_ms = (monotonic_us() - cut_us) / 1000;
    CHECK_CODE(scene.outcome.code, HF_OK);
    give_back(scene.outcome.hold);
    hf_close(scene.waiter);
    hf_close(scene.holder);
    sql_server_kill(&scene.server);
    return took_ms;
}

TEST(waiter_whose_sessions_are_killed_hears_of_the_next_release)
{
    EACH_DATABASE(kind)
    {
        int64_t least_ms = INT64_MAX;
        for (int i = 0; i < LOOKS && least_ms > AT_ONCE_MS; i++) {
            int64_t took_ms = cut_and_release(*kind);
            least_ms = took_ms < least_ms ? took_ms : least_ms;
        }
        test_note("%s: the waiter has it after %lld ms", *kind, (long long)least_ms);
        CHECK(least_ms <= AT_ONCE_MS * test_slow());
    }
}

static bool listens(struct scene *scene)
{
    note_sessions(scene, "info LIKE 'SELECT GET_LOCK%'", scene->of_holder, scene->of_waiter);
    return *scene->of_waiter != '\0';
}

/* PostgreSQL's waiter listens on its only session. */
TEST(session_that_listens_is_replaced_when_it_is_killed)
{
    struct scene scene;

    begin(&scene, "mariadb");
    EVENTUALLY(listens(&scene), SOON_MS);
    end_sessions(&scene, scene.of_waiter);
    EVENTUALLY(listens(&scene), SOON_MS);
    end(&scene);
}

/* ---- clients with several connections ---- */

#define CONNECTIONS 4
#define NAMES 8
#define THREADS 8
#define TURNS 4
#define KILLS 4

static const char *const names[NAMES] = { "a", "b", "c", "d", "e", "f", "g", "h" };

struct crowd {
    struct scene scene; /* both clients have several connections */
    _Atomic int inside[NAMES], working;
};

static int count_of(const char *sessions)
{
    int count = *sessions != '\0';
    for (; *sessions; sessions++)
        count += *sessions == ',';
    return count;
}

/* Each connection fences its own former session, and no other one of the client's. */
static void check_sessions_stay(struct crowd *crowd)
{
    char before[SESSIONS_SIZE], after[SESSIONS_SIZE];
    hf_hold *holds[NAMES];

    for (int i = 0; i < NAMES; i++)
        holds[i] = take_patiently(crowd->scene.holder, names[i]);
    note_sessions(&crowd->scene, "1 = 1", "", before);
    CHECK_INT(count_of(before), CONNECTIONS);
    for (int i = 0; i < NAMES; i++)
        give_back(holds[i]);
    for (int i = 0; i < NAMES; i++)
        give_back(take_patiently(crowd->scene.holder, names[i]));
    note_sessions(&crowd->scene, "1 = 1", before, after);
    CHECK_STR(after, "");
}

static void be_alone(struct crowd *crowd, int name)
{
    CHECK_INT(crowd->inside[name]++, 0);
    sched_yield();
    CHECK_INT(--crowd->inside[name], 0);
}

/* Names in a row, so that the threads want some of the same. */
static void lock_some(struct crowd *crowd, hf_client *client, int first)
{
    hf_lock_item items[3];
    hf_hold_set *set;

    for (int i = 0; i < 3; i++)
        items[i] = (hf_lock_item){ .client = client, .name = names[(first + i) % NAMES] };
    CHECK_CODE(hf_lock_all(items, 3, HF_FOREVER, NULL, &set), HF_OK);
    for (int i = 0; i < 3; i++)
        be_alone(crowd, (first + i) % NAMES);
    CHECK_CODE(hf_unlock_all(set), HF_OK);
}

static void end_some_sessions(struct crowd *crowd)
{
    char of_all[SESSIONS_SIZE];

    for (int i = 0; i < KILLS && crowd->working > 0; i++) {
        note_sessions(&crowd->scene, "1 = 1", "", of_all);
        char *second = strchr(of_all, ',');
        if (second && strchr(second + 1, ','))
            *strchr(second + 1, ',') = '\0';
        if (*of_all)
            end_sessions(&crowd->scene, of_all);
    }
}

/* One name at the same instant, and several that are behind several connections. */
static void contend(void *arg, int index)
{
    struct crowd *crowd = arg;
    hf_client *client = index % 2 ? crowd->scene.holder : crowd->scene.waiter;

    if (index == THREADS) {
        end_some_sessions(crowd);
        return;
    }
    for (int turn = 0; turn < TURNS; turn++) {
        hf_hold *hold = NULL;
        CHECK_CODE(hf_lock(client, names[turn % NAMES], HF_FOREVER, NULL, &hold), HF_OK);
        be_alone(crowd, turn % NAMES);
        give_back(hold);
        lock_some(crowd, client, index + turn);
    }
    crowd->working--;
}

static void check_exclusion_while_sessions_are_killed(struct crowd *crowd)
{
    crowd->working = THREADS;
    threads_run(THREADS + 1, contend, crowd);
    for (int i = 0; i < NAMES; i++)
        check_nothing_left(crowd->scene.holder, names[i]);
}

static void check_waiters_have_their_turn(struct crowd *crowd)
{
    struct scene *scene = &crowd->scene;
    struct outcome outcomes[NAMES] = { 0 };
    hf_hold *holds[NAMES];

    for (int i = 0; i < NAMES; i++)
        holds[i] = take_patiently(scene->holder, names[i]);
    for (int i = 0; i < NAMES; i++)
        CHECK_CODE(hf_lock_async(scene->waiter, names[i], HF_FOREVER, NULL, record_outcome,
                                 &outcomes[i], NULL),
                   HF_OK);
    for (int i = 0; i < NAMES; i++)
        EVENTUALLY(waiters(scene->holder, names[i]) == 1, SOON_MS);
    note_sessions(scene, "1 = 1", "", scene->of_holder);
    *strchr(scene->of_holder, ',') = '\0';
    end_sessions(scene, scene->of_holder);
    for (int i = 0; i < NAMES; i++) {
        CHECK(hf_held(holds[i]));
        CHECK_INT(outcomes[i].calls, 0);
        CHECK_CODE(hf_unlock(holds[i]), HF_OK);
        give_back(await_grant(&outcomes[i]));
    }
}

TEST(names_of_several_connections_stay_exclusive_while_sessions_are_killed)
{
    EACH_DATABASE(kind)
    {
        struct crowd crowd = { .scene.server.connections = CONNECTIONS };
        struct scene *scene = &crowd.scene;

        sql_server_start(&scene->server, *kind);
        scene->holder = sql_open(&scene->server, scene->server.port, SOON_MS, LEASE_MS);
        check_sessions_stay(&crowd);
        scene->waiter = sql_open(&scene->server, scene->server.port, SOON_MS, LEASE_MS);
        check_exclusion_while_sessions_are_killed(&crowd);
        check_waiters_have_their_turn(&crowd);
        hf_close(scene->waiter);
        hf_close(scene->holder);
        sql_server_kill(&scene->server);
    }
}
