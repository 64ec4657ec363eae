/* SPDX-License-Identifier: Apache-2.0 */
/* Who has just given a mutex to another, and comes back, takes its place in the queue by plain
 * commands, without a script that looks first. Whatever has become of the lock meanwhile, that is
 * found at once. */
#include "conformance.h"
#include "server.h"

#include <stdio.h>
#include <stdlib.h>

#define QUEUE "holdfast_lock_queue:{one}"
#define CHANNEL "redisson_lock__channel:{one}"
#define JAVAS "f81d4fae-7dec-41d0-a765-00a0c91e6bf6:7"
#define OURS "f81d4fae-7dec-81d0-a765-00a0c91e6bf6:7"
/* Who has a place looks again after three seconds by itself: what is found sooner, is found at
 * once. */
#define AT_ONCE_MS 2500
/* Only who comes back within a second does so, and the machine may stand still for as long. */
#define TRIES 40

struct scene {
    struct server server;
    hf_client *clients[3];
    int holder; /* one of the first two; the other has just given the lock to it */
    hf_hold *hold;
};

static void tell(const struct scene *scene, const char *command)
{
    CHECK(server_tell(&scene->server, command, NULL, 0));
}

static int64_t answer(const struct scene *scene, const char *command)
{
    char line[60] = "";

    CHECK(server_tell(&scene->server, command, line, sizeof(line)));
    if (line[0] != ':')
        FAIL("%s: %s", command, line);
    return strtoll(line + 1, NULL, 10);
}

static struct scene *begin(const char *options)
{
    static struct scene scene;
    char url[160];

    TEST_TIMEOUT(120);
    memset(&scene, 0, sizeof(scene));
    server_start(&scene.server);
    tell(&scene, "CONFIG SET slowlog-log-slower-than 0");
    tell(&scene, "CONFIG SET slowlog-max-len 100000");
    snprintf(url, sizeof(url), "%s%s", server_url(&scene.server, 20000), options);
    for (int i = 0; i < 3; i++)
        CHECK_CODE(hf_open(&scene.clients[i], url, NULL), HF_OK);
    scene.hold = take_patiently(scene.clients[0], "one");
    return &scene;
}

static void end(struct scene *scene)
{
    for (int i = 0; i < 3; i++)
        hf_close(scene->clients[i]);
    CHECK(server_says(&scene->server, "EXISTS one " QUEUE, ":0"));
    server_kill(&scene->server);
}

/* How many places were taken by plain commands since it was asked last. */
static int plain_places(const struct scene *scene)
{
    int64_t count = answer(scene, "EVAL \"local count = 0 "
                                  "for _, entry in ipairs(redis.call('slowlog', 'get', '-1')) do "
                                  "if entry[4][1] == 'ZADD' and entry[4][2] == KEYS[1] then "
                                  "count = count + 1 end end return count\" 1 " QUEUE);

    tell(scene, "SLOWLOG RESET");
    return (int)count;
}

static void begin_to_wait(const struct scene *scene, int client, struct outcome *outcome)
{
    int64_t before = answer(scene, "ZCARD " QUEUE);

    begin_wait(scene->clients[client], "one", HF_MUTEX, outcome);
    EVENTUALLY(answer(scene, "ZCARD " QUEUE) == before + 1, SOON_MS);
}

static hf_hold *hold_of(struct outcome *outcome)
{
    await_grant(outcome);
    return outcome->hold;
}

/* The other one waits, and is given the lock by this one's release; both have waited for it then.
 */
static void hand_over(struct scene *scene)
{
    struct outcome outcome = { 0 };

    scene->holder = !scene->holder;
    begin_to_wait(scene, scene->holder, &outcome);
    give_back(scene->hold);
    scene->hold = hold_of(&outcome);
}

static void hand_over_twice(struct scene *scene)
{
    hand_over(scene);
    hand_over(scene);
    plain_places(scene);
}

/* ---- it is held by who was given it ---- */

static void check_plain_places(struct scene *scene)
{
    int64_t seconds, score;

    for (int i = 0; i < TRIES && plain_places(scene) == 0; i++) {
        struct outcome outcome = { 0 };
        hand_over(scene);
        begin_to_wait(scene, !scene->holder, &outcome);
        CHECK(answer(scene, "PTTL " QUEUE) > 30000);
        score = answer(scene, "EVAL \"return redis.call('zrange',KEYS[1],0,0,'withscores')[2]/1e6\""
                              " 1 " QUEUE);
        seconds = answer(scene, "EVAL \"return tonumber(redis.call('time')[1])\" 0");
        CHECK(score <= seconds);
        CHECK(score > seconds - 60);
        give_back(scene->hold);
        scene->hold = hold_of(&outcome);
        scene->holder = !scene->holder;
        CHECK(i + 1 < TRIES);
    }
    give_back(scene->hold);
    end(scene);
}

TEST(who_comes_back_takes_its_place_by_plain_commands)
{
    check_plain_places(begin(""));
}

TEST(who_wants_no_token_does_so_too)
{
    check_plain_places(begin("&fence=off"));
}

/* One of them takes its place by plain commands, the other by a script. False: none did so. */
static bool check_order(struct scene *scene, int one, int two)
{
    struct outcome outcomes[3] = { 0 };
    hf_hold *hold;

    begin_to_wait(scene, one, &outcomes[one]);
    begin_to_wait(scene, two, &outcomes[two]);
    give_back(scene->hold);
    hold = hold_of(&outcomes[one]);
    CHECK_INT(outcomes[two].calls, 0);
    give_back(hold);
    give_back(hold_of(&outcomes[two]));
    scene->holder = 0;
    scene->hold = take_patiently(scene->clients[0], "one");
    return plain_places(scene) > 0;
}

TEST(places_are_in_the_order_in_which_they_were_asked_for)
{
    struct scene *scene = begin("");
    bool seen[2] = { false };

    for (int i = 0; i < TRIES && !(seen[0] && seen[1]); i++) {
        hand_over_twice(scene);
        int back = !scene->holder;
        if (i % 2)
            seen[1] |= check_order(scene, 2, back);
        else
            seen[0] |= check_order(scene, back, 2);
    }
    CHECK(seen[0]);
    CHECK(seen[1]);
    give_back(scene->hold);
    end(scene);
}

/* ---- it is not any more ---- */

/* Who comes back finds what `meanwhile` has made of it, which may be NULL: it is free. */
static int come_back(struct scene *scene, const char *meanwhile, hf_hold **hold)
{
    int code = HF_UNREACHABLE, places = 0;
    bool found_at_once = false;

    for (int i = 0; i < TRIES && (code == HF_UNREACHABLE || places == 0); i++) {
        hand_over_twice(scene);
        if (!meanwhile || !strstr(meanwhile, QUEUE)) {
            give_back(scene->hold);
            scene->hold = NULL;
        }
        if (meanwhile)
            tell(scene, meanwhile);
        int64_t began_ms = monotonic_ms();
        code = hf_lock(scene->clients[!scene->holder], "one", SOON_MS, NULL, hold);
        found_at_once = monotonic_ms() - began_ms < AT_ONCE_MS;
        places = plain_places(scene);
        if (code != HF_UNREACHABLE && places > 0)
            break;
        if (code == HF_OK)
            give_back(*hold);
        if (scene->hold)
            give_back(scene->hold);
        tell(scene, "DEL one " QUEUE);
        scene->holder = 0;
        scene->hold = take_patiently(scene->clients[0], "one");
    }
    CHECK_INT(places, 1);
    CHECK(found_at_once);
    return code;
}

TEST(what_is_free_by_then_is_taken_at_once)
{
    struct scene *scene = begin("");
    hf_hold *hold;

    CHECK_CODE(come_back(scene, NULL, &hold), HF_OK);
    CHECK_INT(answer(scene, "ZCARD " QUEUE), 0);
    give_back(hold);
    end(scene);
}

/* A holder that dies with a lease much shorter than the waiter's own. */
TEST(waiter_behind_a_short_lease_has_the_lock_when_it_ends)
{
    struct scene *scene = begin("");
    hf_hold *hold;

    CHECK_CODE(come_back(scene,
                         "EVAL \"redis.call('hset', KEYS[1], ARGV[1], '1') "
                         "return redis.call('pexpire', KEYS[1], '500')\" 1 one " OURS,
                         &hold),
               HF_OK);
    give_back(hold);
    end(scene);
}

TEST(what_is_of_another_kind_by_then_is_no_mutex)
{
    struct scene *scene = begin("");
    hf_hold *hold;

    CHECK_CODE(come_back(scene, "HSET one " OURS " 1 mode read", &hold), HF_EKIND);
    CHECK_INT(answer(scene, "EXISTS " QUEUE), 0);
    tell(scene, "DEL one");
    end(scene);
}

TEST(what_is_no_lock_by_then_is_said_to_be_none)
{
    struct scene *scene = begin("");
    hf_hold *hold;

    CHECK_CODE(come_back(scene, "SET one 5", &hold), HF_EKIND);
    tell(scene, "DEL one");
    end(scene);
}

TEST(who_gets_no_place_does_not_wait_in_it)
{
    struct scene *scene = begin("");
    hf_hold *hold;

    CHECK_CODE(come_back(scene, "SET " QUEUE " 5", &hold), HF_EKIND);
    tell(scene, "DEL " QUEUE);
    give_back(scene->hold);
    end(scene);
}

/* A Java client has it: then releases are heard of on the lock's channel. */
TEST(what_is_others_by_then_is_listened_for)
{
    struct scene *scene = begin("");
    int places = 0;

    for (int i = 0; i < TRIES && places == 0; i++) {
        struct outcome outcome = { 0 };
        hand_over_twice(scene);
        give_back(scene->hold);
        tell(scene, "HSET one " JAVAS " 1");
        begin_to_wait(scene, !scene->holder, &outcome);
        EVENTUALLY(
            answer(scene,
                   "EVAL \"return redis.call('pubsub', 'numsub', KEYS[1])[2]\" 1 " CHANNEL) == 1,
            AT_ONCE_MS);
        places = plain_places(scene);
        tell(scene, "DEL one");
        tell(scene, "PUBLISH " CHANNEL " 0");
        scene->holder = !scene->holder;
        scene->hold = hold_of(&outcome);
    }
    CHECK_INT(places, 1);
    give_back(scene->hold);
    end(scene);
}
