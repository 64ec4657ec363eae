/* SPDX-License-Identifier: Apache-2.0 */
/* A database whose clock jumps. Ahead: leases end early, so two owners may believe in a lock until
 * the next renewal of the first one; the second one has the larger token. Back: no token goes
 * down. */
#include "conformance.h"
#include "sql_server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEASE_MS 6000

struct scene {
    struct sql_server server;
    hf_client *client, *other;
};

/* The server's clock is an hour fast while this file is there. */
static void set_ahead(bool is_ahead)
{
    const char *path = temp_path("ahead");
    int fd = is_ahead ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644) : -1;

    if (is_ahead)
        CHECK(fd >= 0 && close(fd) == 0);
    else
        CHECK(unlink(path) == 0 || errno == ENOENT);
    CHECK(setenv("HOLDFAST_SKEWED_SINCE", path, 1) == 0);
}

/* PostgreSQL has an account of its own, which may not enter every build. */
static const char *copy_module(void)
{
    const char *copy = temp_path("skewed_clock.so");
    char command[1000];

    snprintf(command, sizeof(command), "cp %s %s", SKEWED_CLOCK, copy);
    CHECK(system(command) == 0 && chmod(copy, 0755) == 0);
    return copy;
}

static void begin(struct scene *scene, const char *kind, bool is_ahead)
{
    const int64_t lease_ms = LEASE_MS * test_slow();

    *scene = (struct scene){ .client = NULL };
    set_ahead(is_ahead);
    CHECK(setenv("LD_PRELOAD", copy_module(), 1) == 0);
    sql_server_start(&scene->server, kind);
    CHECK(unsetenv("LD_PRELOAD") == 0);
    scene->client = sql_open(&scene->server, scene->server.port, 0, lease_ms);
    scene->other = sql_open(&scene->server, scene->server.port, 0, lease_ms);
}

static void end(struct scene *scene)
{
    hf_close(scene->client);
    hf_close(scene->other);
    sql_server_kill(&scene->server);
}

/* By the server's clock. */
static long left_s(const struct scene *scene, const char *name)
{
    const char *said = sql_server_says(
        &scene->server, "SELECT (expires_us - %s) / 1000000 FROM hf_lock WHERE name = '%s';",
        sql_server_now_us(&scene->server), name);
    return strtol(said, NULL, 10);
}

TEST(clock_that_jumps_ahead_ends_leases_and_the_holder_is_told)
{
    EACH_DATABASE(kind)
    {
        struct scene scene;
        _Atomic int losses = 0;

        begin(&scene, *kind, false);
        hf_hold *hold = take_watched(scene.client, "one", &losses);
        CHECK_CODE(probe(scene.other, "one", HF_MUTEX, 0), HF_BUSY);
        set_ahead(true);
        hf_hold *next = take(scene.other, "one", HF_MUTEX, 0);
        CHECK(hf_token(next) > hf_token(hold));
        EVENTUALLY(losses == 1, SOON_MS);
        CHECK(!hf_held(hold));
        any_code(hf_unlock(hold));
        CHECK(hf_held(next));
        CHECK_CODE(probe(scene.client, "one", HF_MUTEX, 0), HF_BUSY);
        give_back(next);
        end(&scene);
    }
}

/* Its place has ended long ago by that clock. */
TEST(waiter_gets_its_turn_after_the_clock_has_jumped)
{
    EACH_DATABASE(kind)
    {
        struct scene scene;
        begin(&scene, *kind, false);
        for (int i = 0; i < 2; i++) {
            struct outcome outcome = { 0 };
            hf_hold *hold = take(scene.client, "one", HF_FAIR, 0);
            begin_wait(scene.other, "one", HF_FAIR, &outcome);
            EVENTUALLY(waiters(scene.client, "one") == 1, SOON_MS);
            set_ahead(i == 0);
            any_code(hf_unlock(hold));
            give_back(await_grant(&outcome));
        }
        end(&scene);
    }
}

TEST(clock_that_jumps_back_takes_no_lock_and_lowers_no_token)
{
    EACH_DATABASE(kind)
    {
        struct scene scene;
        _Atomic int losses = 0;

        begin(&scene, *kind, true);
        hf_hold *hold = take_watched(scene.client, "one", &losses);
        uint64_t token = hf_token(hold);
        set_ahead(false);
        CHECK_CODE(probe(scene.other, "one", HF_MUTEX, 0), HF_BUSY);
        /* The next renewal puts it right. */
        EVENTUALLY(left_s(&scene, "one") <= LEASE_MS * test_slow() / 1000, SOON_MS);
        CHECK(left_s(&scene, "one") > 0);
        CHECK(hf_held(hold));
        CHECK_INT(losses, 0);
        give_back(hold);
        for (int i = 0; i < 3; i++) {
            hold = take(i % 2 ? scene.client : scene.other, "one", i ? HF_FAIR : HF_MUTEX, 0);
            CHECK(hf_token(hold) > token);
            token = hf_token(hold);
            give_back(hold);
        }
        end(&scene);
    }
}
