/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that an administrator ends at the server: of a holder, of a waiter, and the one that
 * listens. The rows stay, so nothing is lost. */
#include "conformance.h"
#include "sql_server.h"

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
