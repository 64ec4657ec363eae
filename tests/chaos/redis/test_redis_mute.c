/* SPDX-License-Identifier: Apache-2.0 */
/* A user who may not publish: what it does is done, its caller is told so, and who waits finds out
 * by looking. */
#include "deeds.h"
#include "server.h"

#include <stdio.h>
#include <stdlib.h>

static hf_client *open_at(const char *url)
{
    hf_client *client = NULL;

    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = 600000)), HF_OK);
    return client;
}

struct scene {
    struct server server;
    hf_client *mute, *other;
};

static void begin_with(struct scene *scene, const char *rights)
{
    char command[120], url[100];

    server_start(&scene->server);
    snprintf(command, sizeof(command), "ACL SETUSER mute on >word ~* +@all %s", rights);
    CHECK(server_says(&scene->server, command, "+OK"));
    snprintf(url, sizeof(url), "redis://mute:word@127.0.0.1:%d?timeout=%d", scene->server.port,
             3000 * test_slow());
    scene->mute = open_at(url);
    scene->other = open_at(server_url(&scene->server, 3000));
}

static void begin(struct scene *scene)
{
    begin_with(scene, "resetchannels");
}

static void end(struct scene *scene)
{
    hf_close(scene->mute);
    hf_close(scene->other);
    server_kill(&scene->server);
}

static long number(const struct scene *scene, const char *command)
{
    char line[60] = "";

    CHECK(server_tell(&scene->server, command, line, sizeof(line)));
    CHECK(line[0] == ':');
    return strtol(line + 1, NULL, 10);
}

/* ---- what is done while ours wait ---- */

static const char *const rights[] = { "resetchannels", "resetchannels &holdfast:*",
                                      "resetchannels &redisson_*", "&* -publish" };
#define RIGHTS (int)(sizeof(rights) / sizeof(rights[0]))

static void do_all(void *arg, int index)
{
    struct scene *scene = (struct scene *)arg + index;

    test_note("%s", rights[index]);
    begin_with(scene, rights[index]);
    deeds_do(scene->mute, scene->other);
    end(scene);
}

TEST(what_nobody_can_be_told_of_is_done_all_the_same)
{
    static struct scene scenes[RIGHTS];

    TEST_TIMEOUT(200);
    processes_run(RIGHTS, do_all, scenes);
}

/* ---- what is done while others may listen ---- */

#define PLACE "01234567-89ab-8def-8123-0123456789ab:1"

/* Whose client is dead. */
static hf_hold *take_and_queue_another(const struct scene *scene)
{
    hf_hold *hold = take(scene->mute, "one", HF_MUTEX, 0);

    CHECK_INT(number(scene, "ZADD holdfast_lock_queue:{one} 1 " PLACE), 1);
    return hold;
}

static void check_free(const struct scene *scene)
{
    CHECK_INT(number(scene, "EXISTS one holdfast_lock_queue:{one}"), 0);
}

/* Each fourth turn is the others', or that of each second microsecond. */
TEST(a_turn_that_others_cannot_be_told_of_is_no_error)
{
    struct scene scene = { 0 };

    begin(&scene);
    for (int i = 0; i < 40; i++) {
        uint32_t broken = 0;
        give_back(take_and_queue_another(&scene));
        check_free(&scene);
        hf_hold *hold = take_and_queue_another(&scene);
        CHECK_CODE(hf_break(scene.mute, "one", NULL, &broken), HF_OK);
        CHECK_INT(broken, 1);
        CHECK_CODE(hf_unlock(hold), HF_LOST);
        check_free(&scene);
    }
    end(&scene);
}

#define JAVA "12345678-1234-4123-8123-123456789012:1"

/* It may be dead, as one may be whom nobody hears. */
TEST(a_fair_place_that_cannot_be_told_of_its_turn_ends_soon)
{
    struct scene scene = { 0 };

    begin(&scene);
    hf_hold *hold = take(scene.mute, "one", HF_FAIR, 0);
    CHECK_INT(number(&scene, "RPUSH redisson_lock_queue:{one} " JAVA), 1);
    CHECK_INT(number(&scene, "ZADD redisson_lock_timeout:{one} 99999999999999 " JAVA), 1);
    CHECK_CODE(hf_unlock(hold), HF_OK);
    CHECK_INT(number(&scene, "EXISTS one"), 0);
    CHECK(number(&scene,
                 "EVAL \"return tonumber(redis.call('zscore', KEYS[1], ARGV[1])) - "
                 "redis.call('time')[1] * 1000\" 1 redisson_lock_timeout:{one} " JAVA) <= 11000);
    end(&scene);
}

static void lock_and_unlock(void *arg, int index)
{
    struct scene *scene = arg;
    char name[20];

    snprintf(name, sizeof(name), "many/%d", index);
    for (int i = 0; i < 50; i++) {
        hf_hold *hold = take(scene->mute, name, HF_MUTEX, 0);
        CHECK_CODE(hf_unlock(hold), HF_OK);
    }
}

TEST(what_many_give_back_together_is_given_back)
{
    struct scene scene = { 0 };

    begin(&scene);
    threads_run(16, lock_and_unlock, &scene);
    CHECK_INT(number(&scene, "EVAL \"return #redis.call('keys', 'many/*')\" 0"), 0);
    end(&scene);
}

/* ---- what is only said by the way ---- */

static void want_units(hf_client *client, uint32_t wanted, struct outcome *outcome,
                       hf_request *request)
{
    CHECK_CODE(hf_lock_async(client, "count", HF_FOREVER,
                             LOCK_OPTIONS(.mode = HF_COUNTER, .permits = wanted), record_outcome,
                             outcome, request),
               HF_OK);
}

TEST(who_finds_permits_that_ran_out_has_one)
{
    struct scene scene = { 0 };

    begin(&scene);
    CHECK_CODE(hf_semaphore_set(scene.mute, "sem", 2), HF_OK);
    CHECK_INT(number(&scene, "DECRBY sem 2"), 0);
    CHECK_INT(number(&scene, "ZADD {sem}:timeout 1000 0123456789abcdef 2000 fedcba9876543210"), 2);
    hf_hold *hold = take(scene.mute, "sem", HF_PERMIT, 0);
    CHECK_INT(number(&scene, "INCRBY sem 0"), 1);
    CHECK_CODE(hf_unlock(hold), HF_OK);
    CHECK_INT(number(&scene, "INCRBY sem 0"), 2);
    end(&scene);
}

/* Those behind it may want what it has left. */
TEST(who_takes_units_before_others_has_them_once)
{
    struct scene scene = { 0 };
    struct outcome before = { 0 }, behind = { 0 };
    hf_request request = 0;

    begin(&scene);
    want_units(scene.mute, 2, &before, NULL);
    EVENTUALLY(waiters(scene.other, "count") == 1, SOON_MS);
    want_units(scene.other, 5, &behind, &request);
    EVENTUALLY(waiters(scene.other, "count") == 2, SOON_MS);
    CHECK_INT(number(&scene, "INCRBY count 3"), 3);
    await_grant(&before);
    CHECK_INT(number(&scene, "INCRBY count 0"), 1);
    hf_cancel(scene.other, request);
    WAIT_OUTCOME(&behind);
    end(&scene);
}
