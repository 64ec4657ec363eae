/* SPDX-License-Identifier: Apache-2.0 */
/* What comes late at Redis, or twice, or to the wrong one: questions that were given up, numbers of
 * connections that are no longer ours, answers of a server that has changed meanwhile. */
#include "attaching.h"
#include "relayed.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

/* Far beyond any test's end: nothing goes by itself. */
#define LEASE_MS 600000

static hf_client *open_at(const char *url)
{
    hf_client *client = NULL;

    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = LEASE_MS)), HF_OK);
    return client;
}

static hf_client *open_behind(const struct relay *relay, int timeout_ms)
{
    return open_at(server_url(&(struct server){ .port = relay->port }, timeout_ms));
}

/* Its connection is dead to us, and held up on the way; what was asked on it arrives when it has
 * been asked anew and given back. */
TEST(a_question_that_was_given_up_is_never_executed)
{
    struct server server = { 0 };
    struct relay relay = { 0 };
    hf_hold *hold = NULL;

    server_start(&server);
    relay_start(&relay, server.port);
    hf_client *client = open_behind(&relay, 300);
    give_back(take_patiently(client, "warm"));
    relay_hold(&relay);
    CHECK_CODE(hf_lock(client, "one", 100, NULL, &hold), HF_UNREACHABLE);
    CHECK_CODE(hf_lock(client, "another", SOON_MS, NULL, &hold), HF_OK);
    give_back(hold);
    hf_close(client);
    relay_let_go(&relay);
    CHECK(server_says(&server, "EXISTS one", ":0"));
    relay_stop(&relay);
    server_kill(&server);
}

/* Nothing tells the client whether the attempt without a reply may be executed yet. */
TEST(a_downgrade_after_an_open_attempt_keeps_its_lease)
{
    static const char open_error[] = "-ERR upstream failure\r\n";
    struct server server = { 0 };
    struct relay relay = { 0 };
    hf_hold *hold = NULL;

    server_start(&server);
    relay_start(&relay, server.port);
    hf_client *client = open_behind(&relay, 3000);
    give_back(take_patiently(client, "warm"));
    relay_lie(&relay, open_error, sizeof(open_error) - 1, 1);
    CHECK_CODE(hf_lock(client, "one", SOON_MS, LOCK_OPTIONS(.mode = HF_WRITE, .lease_ms = LEASE_MS),
                       &hold),
               HF_OK);
    CHECK_INT(relay.lies, 0);
    CHECK_CODE(hf_downgrade(hold, HF_READ), HF_OK);
    CHECK_CODE(hf_renew(hold, 2 * LEASE_MS), HF_OK);
    give_back(hold);
    hf_close(client);
    relay_stop(&relay);
    server_kill(&server);
}

/* Each grant has ended when its reply arrives; a bare try asks again as well. */
static void hear_late(void *arg, int index)
{
    struct server *server = (struct server *)arg + index;
    struct relay relay = { 0 };
    hf_client *client = NULL;
    hf_hold *hold = NULL;

    server_start(server);
    relay_start(&relay, server->port);
    CHECK_CODE(hf_open(&client, server_url(&(struct server){ .port = relay.port }, 20000),
                       &HF_CLIENT_OPTIONS(.lease_ms = 500, .request_timeout_ms = 3000)),
               HF_OK);
    give_back(take_patiently(client, "warm"));
    relay.delay_ms = 700;
    CHECK_CODE(hf_lock(client, "one", index ? 0 : 3000, NULL, &hold), HF_UNREACHABLE);
    CHECK(strstr(hf_last_error()->text, "replies take longer than the lease of 500 ms;"));
    relay.delay_ms = 0;
    EVENTUALLY(server_says(server, "EXISTS one", ":0"), SOON_MS);
    hf_close(client);
    relay_stop(&relay);
    server_kill(server);
}

TEST(a_store_with_replies_later_than_the_lease_is_unreachable)
{
    struct server servers[2] = { 0 };

    processes_run(2, hear_late, servers);
}

/* The number that our connection had is somebody else's at a server that was started anew. */
TEST(nobody_loses_a_connection_that_was_never_ours)
{
    enum { STRANGERS = 30 };
    struct server server = { 0 };
    int strangers[STRANGERS];
    char line[100];

    server_start(&server);
    hf_client *client = open_at(server_url(&server, 3000));
    give_back(take(client, "one", HF_MUTEX, 0));
    server_kill(&server);
    server_start_again(&server);
    for (int i = 0; i < STRANGERS; i++)
        strangers[i] = server_listen(&server, "news");
    hf_hold *hold = NULL;
    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
    give_back(hold);
    CHECK(server_says(&server, "PUBLISH news 1", ":30"));
    for (int i = 0; i < STRANGERS; i++) {
        CHECK(server_hear(strangers[i], line, sizeof(line)));
        close(strangers[i]);
    }
    hf_close(client);
    server_kill(&server);
}

static long places(const struct server *server, hf_mode mode)
{
    return value(server, mode == HF_FAIR ? "redis.call('llen','redisson_lock_queue:{one}') + "
                                           "redis.call('zcard','redisson_lock_timeout:{one}')"
                                         : "redis.call('zcard','holdfast_lock_queue:{one}')");
}

static hf_request ask(hf_client *client, hf_mode mode, struct outcome *outcome)
{
    hf_request request;

    CHECK_CODE(hf_lock_async(client, "one", HF_FOREVER, LOCK_OPTIONS(.mode = mode), record_outcome,
                             outcome, &request),
               HF_OK);
    return request;
}

/* The name becomes something else while it waits, and the server has forgotten the script that
 * takes it out of the queue: but for that it would be granted a lock that it does not hear of. */
static void be_told_that_it_cannot_be(void *arg, int index)
{
    struct server *server = (struct server *)arg + index;
    hf_mode mode = index ? HF_FAIR : HF_MUTEX;
    struct outcome outcome = { 0 };

    server_start(server);
    hf_client *client = open_at(server_url(server, 3000)), *other = open_at(hf_url(client));
    hf_hold *hold = take(other, "one", mode, 0);
    give_back(take(client, "warm", mode, 0));
    ask(client, mode, &outcome);
    EVENTUALLY(places(server, mode) > 0, SOON_MS);
    CHECK(server_tell(server, "EVAL \"redis.call('del','one') redis.call('rpush','one','x')\" 0",
                      NULL, 0));
    CHECK(server_tell(server, "SCRIPT FLUSH", NULL, 0));
    /* It knows this one script again, and no other. */
    take(other, "two", mode, 1);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_EKIND);
    EVENTUALLY(places(server, mode) == 0, SOON_MS);
    CHECK(server_says(server, "DEL one", ":1"));
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    hf_close(client);
    hf_close(other);
    server_kill(server);
}

TEST(who_is_told_that_it_cannot_be_leaves_the_queue)
{
    struct server servers[2] = { 0 };

    processes_run(2, be_told_that_it_cannot_be, servers);
}

/* The server hears nothing of us for longer than any lease of ours, while it has a place for us. */
static void leave_unheard(void *arg, int index)
{
    struct server *server = (struct server *)arg + index;
    hf_mode mode = index ? HF_FAIR : HF_MUTEX;
    struct relay relay = { 0 };
    struct outcome outcome = { 0 };
    hf_client *client = NULL;

    server_start(server);
    relay_start(&relay, server->port);
    CHECK_CODE(hf_open(&client, server_url(&(struct server){ .port = relay.port }, 300),
                       &HF_CLIENT_OPTIONS(.lease_ms = 1000)),
               HF_OK);
    hf_client *other = open_at(server_url(server, 60000));
    hf_hold *hold = take(other, "one", mode, 0);
    hf_request request = ask(client, mode, &outcome);
    EVENTUALLY(places(server, mode) > 0, SOON_MS);
    /* What is said on new connections waits for the greeting. */
    relay_hold(&relay);
    server_stop(server);
    hf_cancel(client, request);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_CANCELED);
    let_pass_ms(2500);
    server_continue(server);
    EVENTUALLY(places(server, mode) == 0, SOON_MS);
    give_back(hold);
    hf_close(client);
    hf_close(other);
    relay_stop(&relay);
    server_kill(server);
}

TEST(a_place_is_given_up_until_the_server_hears_of_it)
{
    struct server servers[2] = { 0 };

    processes_run(2, leave_unheard, servers);
}

/* A client of ours that was killed long before its place ends. */
TEST(a_fair_place_that_nobody_listens_for_keeps_nobody_waiting)
{
    struct server server = { 0 };

    server_start(&server);
    hf_client *client = open_at(server_url(&server, 3000));
    CHECK_INT(value(&server, "redis.call('zadd','redisson_lock_timeout:{one}',"
                             "(redis.call('time')[1]+1000)*1000,'01234567-89ab-8def-8123:1')"),
              1);
    CHECK_INT(value(&server, "redis.call('rpush','redisson_lock_queue:{one}',"
                             "'01234567-89ab-8def-8123:1')"),
              1);
    give_back(take(client, "one", HF_FAIR, 0));
    CHECK_INT(places(&server, HF_FAIR), 0);
    hf_close(client);
    server_kill(&server);
}

static void count_queued(void *arg, const char *point, const char *name)
{
    (void)name;
    if (strcmp(point, "queued") == 0)
        atomic_fetch_add((_Atomic int *)arg, 1);
}

/* Its user may not listen to the channel on which it would be told. */
static void wait_unheard(void *arg, int index)
{
    static const char *const user[] = { "--user",        "deaf",        "on",    ">word", "~*",
                                        "resetchannels", "&redisson_*", "+@all", NULL };
    struct server *server = (struct server *)arg + index;
    struct outcome outcome = { 0 };
    hf_mode mode = index ? HF_FAIR : HF_MUTEX;
    _Atomic int queued = 0;
    hf_client_options options = HF_CLIENT_OPTIONS(.on_point = count_queued, .point_arg = &queued);
    hf_client *client = NULL;
    char url[100];

    server->arguments = user;
    server_start(server);
    snprintf(url, sizeof(url), "redis://deaf:word@127.0.0.1:%d", server->port);
    CHECK_CODE(hf_open(&client, url, &options), HF_OK);
    hf_client *other = open_at(server_url(server, 3000));
    hf_hold *hold = take(other, "one", mode, 0);
    ask(client, mode, &outcome);
    EVENTUALLY(value(server, "tonumber(string.match(redis.call('info','commandstats'),"
                             "'cmdstat_hkeys:calls=(%d+)') or '0')") > 1,
               SOON_MS);
    CHECK_INT(places(server, mode), 0);
    CHECK_INT(queued, 0);
    give_back(hold);
    give_back(await_grant(&outcome));
    hf_close(client);
    hf_close(other);
    server_kill(server);
}

TEST(who_cannot_be_told_takes_no_place)
{
    struct server servers[2] = { 0 };

    processes_run(2, wait_unheard, servers);
}

/* ---- detached holds ---- */

static const hf_mode kept[] = { HF_MUTEX, HF_FAIR, HF_READ, HF_UPGRADE, HF_WRITE, HF_PERMIT };
#define KEPT (sizeof(kept) / sizeof(kept[0]))

static void leave_under_key(hf_client *client, const char *name, hf_mode mode,
                            char key[HF_OWNER_KEY_SIZE])
{
    hf_hold *hold = NULL;

    if (mode == HF_PERMIT)
        CHECK_CODE(hf_semaphore_set(client, name, 5), HF_OK);
    CHECK_CODE(hf_lock(client, name, 0,
                       LOCK_OPTIONS(.mode = mode, .lease_ms = LEASE_MS,
                                    .permits = mode == HF_PERMIT ? 3 : 0),
                       &hold),
               HF_OK);
    CHECK_CODE(hf_detach(hold, key), HF_OK);
}

/* Nobody knows the name by which it is held then: it goes back under the key. */
TEST(an_attach_without_an_answer_has_not_been)
{
    char key[HF_OWNER_KEY_SIZE];

    for (size_t i = 0; i < KEPT; i++) {
        struct server server = { 0 };
        struct relay relay = { 0 };
        struct thread thread;
        server_start(&server);
        relay_start(&relay, server.port);
        hf_client *client = open_behind(&relay, 60000), *other = open_at(server_url(&server, 3000));
        struct attaching attaching = { .client = client, .key = key };
        leave_under_key(other, "one", kept[i], key);
        give_back(take_patiently(client, "warm"));
        relay_swallow(&relay);
        thread_start(&thread, attach, &attaching);
        EVENTUALLY(!is_held_under(other, key), SOON_MS);
        relay_cut(&relay);
        thread_join(&thread);
        CHECK_CODE(attaching.code, HF_UNREACHABLE);
        EVENTUALLY(is_held_under(other, key), SOON_MS);
        CHECK_CODE(hf_attach(other, "one", key, &attaching.hold), HF_OK);
        CHECK_INT(hf_hold_mode(attaching.hold), kept[i]);
        CHECK(hf_remaining_ms(attaching.hold) > LEASE_MS / 2);
        give_back(attaching.hold);
        check_nothing_left(other, "one");
        hf_close(client);
        hf_close(other);
        relay_stop(&relay);
        server_kill(&server);
    }
}

/* ---- upgrades ---- */

struct upgrading {
    hf_hold *hold;
    int64_t wait_ms;
    int code;
};

static void upgrade(void *arg)
{
    struct upgrading *upgrading = arg;

    upgrading->code = hf_upgrade(upgrading->hold, upgrading->wait_ms);
}

static bool is_written(const struct server *server)
{
    return value(server, "redis.call('hget','one','mode')=='write' and 1 or 0") == 1;
}

/* The server has upgraded it, and the reply is swallowed, and will be. */
static void upgrade_unheard(struct server *server, struct relay *relay, struct upgrading *upgrading,
                            struct thread *thread)
{
    relay_swallow(relay);
    thread_start(thread, upgrade, upgrading);
    EVENTUALLY(is_written(server), SOON_MS);
    relay_cut(relay);
    thread_join(thread);
}

TEST(upgrade_without_reply_is_done_once)
{
    struct server server = { 0 };
    struct relay relay = { 0 };
    struct thread thread;

    server_start(&server);
    relay_start(&relay, server.port);
    hf_client *client = open_behind(&relay, 60000), *other = open_at(server_url(&server, 3000));
    struct upgrading upgrading = { .hold = take(client, "one", HF_UPGRADE, 0),
                                   .wait_ms = HF_FOREVER };
    uint64_t token = hf_token(upgrading.hold);
    upgrade_unheard(&server, &relay, &upgrading, &thread);
    CHECK_CODE(upgrading.code, HF_OK);
    CHECK_INT(hf_hold_mode(upgrading.hold), HF_WRITE);
    CHECK(hf_token(upgrading.hold) > token);
    CHECK_INT(value(&server, "redis.call('hlen','one')"), 2);
    CHECK_INT(keys_like(&server, "{one}:*"), 0);
    CHECK_CODE(probe(other, "one", HF_READ, 0), HF_BUSY);
    CHECK_CODE(hf_downgrade(upgrading.hold, HF_UPGRADE), HF_OK);
    CHECK_CODE(probe(other, "one", HF_READ, 0), HF_OK);
    CHECK_CODE(probe(other, "one", HF_UPGRADE, 0), HF_BUSY);
    give_back(upgrading.hold);
    check_nothing_left(other, "one");
    hf_close(client);
    hf_close(other);
    relay_stop(&relay);
    server_kill(&server);
}

/* The caller has left by then: what the server has done is undone, and the hold goes on. */
TEST(upgrade_whose_caller_left_without_reply_is_undone)
{
    struct server server = { 0 };
    struct relay relay = { 0 };
    struct thread thread;

    server_start(&server);
    relay_start(&relay, server.port);
    hf_client *client = open_behind(&relay, 60000), *other = open_at(server_url(&server, 3000));
    struct upgrading upgrading = { .hold = take(client, "one", HF_UPGRADE, 0) };
    upgrade_unheard(&server, &relay, &upgrading, &thread);
    CHECK_CODE(upgrading.code, HF_UNREACHABLE);
    EVENTUALLY(probe(other, "one", HF_READ, 0) == HF_OK, SOON_MS);
    CHECK(hf_held(upgrading.hold));
    CHECK_INT(hf_hold_mode(upgrading.hold), HF_UPGRADE);
    CHECK_CODE(probe(other, "one", HF_UPGRADE, 0), HF_BUSY);
    CHECK_CODE(hf_upgrade(upgrading.hold, SOON_MS), HF_OK);
    give_back(upgrading.hold);
    check_nothing_left(other, "one");
    hf_close(client);
    hf_close(other);
    relay_stop(&relay);
    server_kill(&server);
}

static long scripts_called(const struct server *server)
{
    return value(server, "tonumber(string.match(redis.call('info','commandstats'),"
                         "'cmdstat_evalsha:calls=(%d+)') or '0')");
}

/* This user may not end the connection on which the downgrade was given up. */
TEST(downgrade_that_comes_late_does_not_undo_the_next_upgrade)
{
    static const char *const user[] = { "--user", "mild",  "on",      ">word", "~*",
                                        "&*",     "+@all", "-client", NULL };
    struct server server = { .arguments = user };
    struct relay relay = { 0 };
    char url[100];

    server_start(&server);
    relay_start(&relay, server.port);
    snprintf(url, sizeof(url), "redis://mild:word@127.0.0.1:%d?timeout=300", relay.port);
    hf_client *client = open_at(url), *other = open_at(server_url(&server, 3000));
    hf_hold *hold = take_patiently(client, "warm");
    give_back(hold);
    CHECK_CODE(hf_lock(client, "one", SOON_MS, LOCK_OPTIONS(.mode = HF_UPGRADE), &hold), HF_OK);
    CHECK_CODE(hf_upgrade(hold, SOON_MS), HF_OK);
    CHECK_CODE(hf_downgrade(hold, HF_UPGRADE), HF_OK);
    CHECK_CODE(hf_upgrade(hold, SOON_MS), HF_OK);
    relay_hold(&relay);
    CHECK_CODE(hf_downgrade(hold, HF_UPGRADE), HF_OK);
    CHECK_CODE(hf_upgrade(hold, SOON_MS), HF_OK);
    long called = scripts_called(&server);
    relay_let_go(&relay);
    EVENTUALLY(scripts_called(&server) > called, SOON_MS);
    CHECK(is_written(&server));
    CHECK_CODE(probe(other, "one", HF_READ, 0), HF_BUSY);
    CHECK(hf_held(hold));
    give_back(hold);
    check_nothing_left(other, "one");
    hf_close(client);
    hf_close(other);
    relay_stop(&relay);
    server_kill(&server);
}
