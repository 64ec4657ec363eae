/* SPDX-License-Identifier: Apache-2.0 */
/* Locks that our clients and Redisson's wait for side by side, with Java's played by what the
 * server would have of them: each side hears the other's releases, and has its turn. */
#include "contenders.h"

#include <unistd.h>

#define JAVA "f81d4fae-7dec-41d0-a765-00a0c91e6bf6:"

/* A waiter of Java's, which only listens. */
static void listen_on(const struct server *server, const char *channel)
{
    int fd = server_listen(server, channel);
    char line[80];

    parent_say("listening");
    while (server_hear(fd, line, sizeof(line)))
        if (strcmp(line, "0") == 0)
            parent_say("released");
}

static void listen_for_a_release(void *arg)
{
    listen_on(arg, "redisson_lock__channel:{one}");
}

static void listen_for_its_turn(void *arg)
{
    listen_on(arg, "redisson_lock__channel:{one}:" JAVA "7");
}

TEST(other_clients_have_their_turns)
{
    struct scene *scene = begin(HF_MUTEX);
    struct contender *holder = &scene->contenders[0], *heir = &scene->contenders[1];
    struct child java;
    char heard[20];

    child_start(&java, listen_for_a_release, &scene->server);
    child_wait_for(&java, "listening");
    take_it(holder);
    /* With every other release, on the average; the one that waits gets it in either case. */
    for (int i = 0; i < 30; i++) {
        struct contender *last = holder;
        wait_for_it(scene, 1, heir);
        let_go(holder);
        EVENTUALLY(heir->state->holds, SOON_MS);
        holder = heir;
        heir = last;
    }
    CHECK(child_hear(&java, heard, sizeof(heard)));
    let_go(holder);
    child_kill(&java);
    end(scene);
}

TEST(a_release_of_other_clients_is_heard)
{
    struct scene *scene = begin(HF_MUTEX);
    struct contender *heir = &scene->contenders[1];

    CHECK_INT(ask(scene, "redis.call('hset', 'one', '" JAVA "7', 1) "
                         "return redis.call('pexpire', 'one', 600000)"),
              1);
    wait_for_it(scene, 1, heir);
    EVENTUALLY(ask(scene, "return redis.call('pubsub', 'numsub', "
                          "'redisson_lock__channel:{one}')[2]") == 1,
               SOON_MS);
    CHECK_INT(ask(scene, "redis.call('del', 'one') "
                         "return redis.call('publish', 'redisson_lock__channel:{one}', '0')"),
              1);
    EVENTUALLY(heir->state->holds, SOON_MS);
    let_go(heir);
    end(scene);
}

/* Redisson's readers and writers listen for this one word of a writer that goes. */
TEST(a_downgrade_tells_other_clients_once)
{
    struct server server = { 0 };
    char line[80];
    int words = 0;
    hf_client *client = NULL;

    server_start(&server);
    CHECK_CODE(hf_open(&client, server_url(&server, 3000), NULL), HF_OK);
    int fd = server_listen(&server, "redisson_rwlock:{one}");
    hf_hold *hold = take(client, "one", HF_WRITE, 0);
    CHECK_CODE(hf_downgrade(hold, HF_READ), HF_OK);
    CHECK(server_says(&server, "PUBLISH redisson_rwlock:{one} end", ":1"));
    while (server_hear(fd, line, sizeof(line)) && strcmp(line, "end") != 0) {
        CHECK(strcmp(line, "0") != 0);
        words += strcmp(line, "1") == 0;
    }
    CHECK_INT(words, 1);
    give_back(hold);
    close(fd);
    hf_close(client);
    server_kill(&server);
}

/* ---- among fair clients of Redisson ---- */

#define JAVA_QUEUES(seconds)                                                                       \
    "redis.call('rpush', 'redisson_lock_queue:{one}', '" JAVA "7') "                               \
    "return redis.call('zadd', 'redisson_lock_timeout:{one}', "                                    \
    "(redis.call('time')[1] + " seconds ") * 1000, '" JAVA "7')"

/* By how much one in the queue gives itself more time than the one before it. */
#define DISTANCE(place)                                                                            \
    "local function ends(at) return redis.call('zscore', 'redisson_lock_timeout:{one}', "          \
    "redis.call('lindex', 'redisson_lock_queue:{one}', at)) end "                                  \
    "return ends(" place ") - ends(" place " - 1)"

static void look_at_it(struct contender *contender, const char *answer)
{
    child_say(&contender->child, "look");
    child_wait_for(&contender->child, answer);
}

TEST(a_queue_of_the_dead_does_not_keep_the_lock)
{
    struct scene *scene = begin(HF_FAIR);

    CHECK_INT(ask(scene, JAVA_QUEUES("-1")), 1);
    look_at_it(&scene->contenders[0], "free");
    let_go(&scene->contenders[0]);
    /* Without a time, as when that key was thrown away. */
    CHECK_INT(ask(scene, "return redis.call('rpush', 'redisson_lock_queue:{one}', '" JAVA "8')"),
              1);
    look_at_it(&scene->contenders[0], "free");
    let_go(&scene->contenders[0]);
    end(scene);
}

TEST(a_java_client_before_us_is_served_first)
{
    struct scene *scene = begin(HF_FAIR);
    struct contender *holder = &scene->contenders[0], *second = &scene->contenders[1];

    take_it(holder);
    CHECK_INT(ask(scene, JAVA_QUEUES("300")), 1);
    child_say(&second->child, "lock");
    EVENTUALLY(ask(scene, "return redis.call('llen', 'redisson_lock_queue:{one}')") == 2, SOON_MS);
    let_go(holder);
    look_at_it(holder, "busy");
    CHECK_INT(ask(scene, "return redis.call('exists', 'one')"), 0);
    CHECK(!second->state->holds);
    /* What Redisson does when its client takes the lock: all others' times come nearer. */
    CHECK_INT(ask(scene, "redis.call('lpop', 'redisson_lock_queue:{one}') local t = "
                         "'redisson_lock_timeout:{one}' redis.call('zrem', t, '" JAVA "7') "
                         "redis.call('zincrby', t, -300000, redis.call('zrange', t, 0, 0)[1]) "
                         "return redis.call('hset', 'one', '" JAVA "7', 1)"),
              1);
    look_at_it(holder, "busy");
    CHECK_INT(ask(scene, "return redis.call('llen', 'redisson_lock_queue:{one}')"), 1);
    /* And when it gives it back. */
    CHECK(ask(scene, "redis.call('del', 'one') local f = redis.call('lindex', "
                     "'redisson_lock_queue:{one}', 0) return redis.call('publish', "
                     "'redisson_lock__channel:{one}:' .. f, '0')") >= 0);
    EVENTUALLY(second->state->holds, SOON_MS);
    let_go(second);
    end(scene);
}

/* Redisson gives itself that much more than the one before it. Before 3.32 its waiter sleeps for as
 * long as the one before it is going to live, and forever if that time is over: ours, which is
 * short and begins anew, must not leave it behind. */
TEST(a_java_client_behind_us_keeps_its_distance)
{
    struct scene *scene = begin(HF_FAIR);
    struct contender *first = &scene->contenders[0];

    CHECK_INT(ask(scene, "redis.call('hset', 'one', '" JAVA "7', 1) "
                         "return redis.call('pexpire', 'one', 600000)"),
              1);
    child_say(&first->child, "lock");
    EVENTUALLY(ask(scene, "return redis.call('llen', 'redisson_lock_queue:{one}')") == 1, SOON_MS);
    int64_t ends_ms =
        ask(scene, "local q, t = 'redisson_lock_queue:{one}', "
                   "'redisson_lock_timeout:{one}' local f = redis.call('lindex', q, 0) "
                   "for i = 8, 9 do redis.call('rpush', q, '" JAVA "' .. i) "
                   "redis.call('zadd', t, redis.call('zscore', t, f) + 300000, "
                   "'" JAVA "' .. i) f = '" JAVA "' .. i end "
                   "return tonumber(redis.call('zscore', t, redis.call('lindex', q, 0)))");
    EVENTUALLY(ask(scene, "return tonumber(redis.call('zscore', 'redisson_lock_timeout:{one}', "
                          "redis.call('lindex', 'redisson_lock_queue:{one}', 0)))") > ends_ms,
               SOON_MS);
    CHECK_INT(ask(scene, DISTANCE("1")), 300000);
    CHECK_INT(ask(scene, DISTANCE("2")), 300000);
    CHECK(ask(scene, "redis.call('del', 'one') local f = redis.call('lindex', "
                     "'redisson_lock_queue:{one}', 0) return redis.call('publish', "
                     "'redisson_lock__channel:{one}:' .. f, '0')") >= 0);
    EVENTUALLY(first->state->holds, SOON_MS);
    CHECK_INT(ask(scene, "return redis.call('del', 'redisson_lock_queue:{one}', "
                         "'redisson_lock_timeout:{one}')"),
              2);
    let_go(first);
    end(scene);
}

TEST(a_dead_java_client_before_us_is_passed_over)
{
    struct scene *scene = begin(HF_FAIR);
    struct contender *holder = &scene->contenders[0], *second = &scene->contenders[1];

    take_it(holder);
    CHECK_INT(ask(scene, JAVA_QUEUES("5")), 1);
    child_say(&second->child, "lock");
    /* Whether it was passed over before, does not matter. */
    EVENTUALLY(ask(scene, "local q = 'redisson_lock_queue:{one}' return redis.call('llen', q) - "
                          "(redis.call('lpos', q, '" JAVA "7') and 1 or 0)") == 1,
               SOON_MS);
    let_go(holder);
    EVENTUALLY(second->state->holds, SOON_MS);
    let_go(second);
    end(scene);
}

#define JAVAS_SECONDS                                                                              \
    "return math.floor(redis.call('zscore', 'redisson_lock_timeout:{one}', '" JAVA "7') / 1000) "  \
    "- redis.call('time')[1]"

/* By the scripts' digests, as clients call them but the first time. */
static long script_calls(const struct scene *scene)
{
    return server_counts(&scene->server, "commandstats", "cmdstat_evalsha:calls=");
}

/* It was going to wait for long, and has been killed. */
TEST(a_java_client_that_nobody_can_tell_does_not_keep_a_free_lock)
{
    struct scene *scene = begin(HF_FAIR);
    struct contender *holder = &scene->contenders[0], *second = &scene->contenders[1];

    take_it(holder);
    CHECK_INT(ask(scene, JAVA_QUEUES("600")), 1);
    child_say(&second->child, "lock");
    EVENTUALLY(ask(scene, "return redis.call('llen', 'redisson_lock_queue:{one}')") == 2, SOON_MS);
    CHECK(ask(scene, JAVAS_SECONDS) > 500);
    let_go(holder);
    /* If it has only just begun to wait, it has not yet said that it listens. */
    int left_s = ask(scene, JAVAS_SECONDS);
    CHECK(left_s > 5);
    CHECK(left_s <= 11);
    long before = script_calls(scene);
    EVENTUALLY(second->state->holds, SOON_MS);
    /* It looks once a second at most in all that time. */
    CHECK(script_calls(scene) - before <= left_s + 3);
    let_go(second);
    end(scene);
}

TEST(a_java_client_that_listens_keeps_its_place)
{
    struct scene *scene = begin(HF_FAIR);
    struct contender *holder = &scene->contenders[0];
    struct child java;

    child_start(&java, listen_for_its_turn, &scene->server);
    child_wait_for(&java, "listening");
    take_it(holder);
    CHECK_INT(ask(scene, JAVA_QUEUES("600")), 1);
    let_go(holder);
    child_wait_for(&java, "released");
    look_at_it(holder, "busy");
    CHECK(ask(scene, JAVAS_SECONDS) > 500);
    CHECK_INT(ask(scene, "return redis.call('del', 'redisson_lock_queue:{one}', "
                         "'redisson_lock_timeout:{one}')"),
              2);
    child_kill(&java);
    end(scene);
}

#define QUEUE_LIFE "return redis.call('pttl', 'redisson_lock_queue:{one}')"
#define TIMES_LIFE "return redis.call('pttl', 'redisson_lock_timeout:{one}')"

static void wait_in_line(struct scene *scene, struct contender *contender, int place)
{
    child_say(&contender->child, "lock");
    EVENTUALLY(ask(scene, "return redis.call('llen', 'redisson_lock_queue:{one}')") == place,
               SOON_MS);
}

/* What a killed process of ours leaves is gone by itself after a while. */
TEST(a_fair_queue_of_our_clients_alone_has_an_end)
{
    struct scene *scene = begin(HF_FAIR);

    take_it(&scene->contenders[0]);
    wait_in_line(scene, &scene->contenders[1], 1);
    wait_in_line(scene, &scene->contenders[2], 2);
    child_kill(&scene->contenders[1].child);
    child_kill(&scene->contenders[2].child);
    CHECK(ask(scene, QUEUE_LIFE) > 100000 && ask(scene, QUEUE_LIFE) <= 300000);
    CHECK(ask(scene, TIMES_LIFE) > 100000 && ask(scene, TIMES_LIFE) <= 300000);
    CHECK_INT(ask(scene, "local key = 'redisson_lock_' return redis.call('pttl', key .. "
                         "'queue:{one}') - redis.call('pttl', key .. 'timeout:{one}')"),
              0);
    let_go(&scene->contenders[0]);
    leave(&scene->contenders[0]);
    server_kill(&scene->server);
}

/* Redisson never drops a place without a time, and knows of no end. */
TEST(a_fair_queue_with_a_java_client_has_no_end)
{
    struct scene *scene = begin(HF_FAIR);
    struct contender *holder = &scene->contenders[0], *second = &scene->contenders[1];

    take_it(holder);
    wait_in_line(scene, second, 1);
    CHECK(ask(scene, QUEUE_LIFE) > 0);
    CHECK_INT(ask(scene, JAVA_QUEUES("300")), 1);
    /* As soon as ours asks again. */
    EVENTUALLY(ask(scene, QUEUE_LIFE) == -1 && ask(scene, TIMES_LIFE) == -1, SOON_MS);
    /* Another one of ours has just left the line when this one comes. */
    CHECK(ask(scene, "redis.call('pexpire', 'redisson_lock_queue:{one}', 60000) "
                     "return redis.call('pexpire', 'redisson_lock_timeout:{one}', 60000)") == 1);
    let_go(holder);
    EVENTUALLY(second->state->holds, SOON_MS);
    CHECK_INT(ask(scene, QUEUE_LIFE), -1);
    CHECK_INT(ask(scene, TIMES_LIFE), -1);
    let_go(second);
    CHECK(ask(scene, "return redis.call('del', 'redisson_lock_queue:{one}', "
                     "'redisson_lock_timeout:{one}')") == 2);
    end(scene);
}
