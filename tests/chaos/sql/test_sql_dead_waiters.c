/* SPDX-License-Identifier: Apache-2.0 */
/* Many waiters in front of a live one that die or stop at the same moment: how late a release
 * reaches the live one. docs/guarantees.md has the bound. */
#include "conformance.h"
#include "sql_server.h"

#include <unistd.h>

#define DEAD 20
/* A place ends 10 seconds after its claim has last looked, and a live one looks each 3 seconds. */
#define BOUND_MS 13000
/* What a loaded machine takes for the statements. */
#define SLACK_MS 2000

struct scene {
    struct sql_server server;
    hf_mode mode;
    hf_client *holder, *waiter;
    struct child dead;
};

/* Each is a client of its own: of one client only the first claim has a place. */
static void wait_for_ever(void *arg)
{
    static struct outcome outcomes[DEAD];
    const struct scene *scene = arg;
    hf_client *client = sql_open(&scene->server, scene->server.port, 0, 0);

    EVENTUALLY(holders(client, "one") == 1, SOON_MS);
    for (int i = 0; i < DEAD; i++)
        begin_wait(sql_open(&scene->server, scene->server.port, 0, 0), "one", scene->mode,
                   &outcomes[i]);
    for (;;)
        pause();
}

/* The child is forked before this process has threads. */
static void begin(struct scene *scene, const char *kind, hf_mode mode)
{
    TEST_TIMEOUT(240);
    memset(scene, 0, sizeof(*scene));
    scene->mode = mode;
    sql_server_start(&scene->server, kind);
    child_start(&scene->dead, wait_for_ever, scene);
    scene->holder = sql_open(&scene->server, scene->server.port, 0, 0);
    scene->waiter = sql_open(&scene->server, scene->server.port, 0, 0);
}

static void end_in_the_queue(const char *kind, hf_mode mode, bool stops)
{
    struct scene scene;
    struct outcome outcome = { 0 };
    begin(&scene, kind, mode);
    hf_hold *hold = NULL;
    CHECK_CODE(hf_lock(scene.holder, "one", SOON_MS, LOCK_OPTIONS(.mode = mode), &hold), HF_OK);
    EVENTUALLY(waiters(scene.holder, "one") == DEAD, SOON_MS);
    begin_wait(scene.waiter, "one", mode, &outcome);
    EVENTUALLY(waiters(scene.holder, "one") == DEAD + 1, SOON_MS);
    (stops ? child_stop : child_kill)(&scene.dead);
    int64_t released_us = monotonic_us();
    CHECK_CODE(hf_unlock(hold), HF_OK);
    give_back(await_grant(&outcome));
    int64_t took_ms = (monotonic_us() - released_us) / 1000;
    test_note("%s, mode %d: after %lld ms", kind, (int)mode, (long long)took_ms);
    CHECK(took_ms <= BOUND_MS + SLACK_MS * test_slow());
    if (stops)
        child_kill(&scene.dead);
    hf_close(scene.waiter);
    hf_close(scene.holder);
    sql_server_kill(&scene.server);
}

TEST(dead_waiters_for_a_mutex_delay_a_live_one_within_the_bound)
{
    EACH_DATABASE(kind)
    end_in_the_queue(*kind, HF_MUTEX, false);
}

TEST(dead_waiters_for_a_writer_delay_a_live_one_within_the_bound)
{
    EACH_DATABASE(kind)
    end_in_the_queue(*kind, HF_WRITE, false);
}

/* Their connections stay, and the database goes on to notify them. */
TEST(stopped_waiters_for_a_mutex_delay_a_live_one_within_the_bound)
{
    EACH_DATABASE(kind)
    end_in_the_queue(*kind, HF_MUTEX, true);
}

TEST(stopped_waiters_for_a_writer_delay_a_live_one_within_the_bound)
{
    EACH_DATABASE(kind)
    end_in_the_queue(*kind, HF_WRITE, true);
}
