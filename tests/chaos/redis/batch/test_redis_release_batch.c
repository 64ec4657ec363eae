/* SPDX-License-Identifier: Apache-2.0 */
/* Mutexes that are released in one turn leave in one batch: a waiter is given its lock, what was
 * lost is lost, and an error concerns one lock alone. */
#include "relay.h"
#include "turns.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A place in the queue, of a client that this test listens for. */
#define WAITER "01234567-89ab-8def-8123-456789abcdef"

static long count(const struct server *server, const char *command)
{
    char line[100] = "";

    CHECK(server_tell(server, command, line, sizeof(line)));
    CHECK(line[0] == ':');
    return strtol(line + 1, NULL, 10);
}

/* A client that has taken "beside" and "one". */
struct scene {
    struct server server;
    hf_client *client;
    struct told told[2];
};

static void take_two(struct scene *scene)
{
    struct told *told = scene->told;

    told[0] = told[1] = (struct told){ 0 };
    ask(scene->client, "beside", 0, &told[0]);
    ask(scene->client, "one", 0, &told[1]);
    turn_until_told(scene->client, told, 2);
}

static void begin(struct scene *scene)
{
    server_start(&scene->server);
    scene->client = open_at(&scene->server, 30000);
    take_two(scene);
}

static void end(struct scene *scene)
{
    hf_close(scene->client);
    server_kill(&scene->server);
}

static int begin_to_wait(const struct server *server)
{
    int fd = server_listen(server, "holdfast:" WAITER);

    run(server, "ZADD holdfast_lock_queue:{one} 1 " WAITER ":7");
    return fd;
}

/* The word of the grant is "7 TOKEN LEASE". */
static uint64_t hear_grant(int fd)
{
    char line[200] = "";
    uint64_t token = 0;

    for (int i = 0; i < 7; i++)
        CHECK(server_hear(fd, line, sizeof(line)));
    CHECK_INT(sscanf(line, "7 %" SCNu64 " ", &token), 1);
    return token;
}

static void check_is_the_waiters(const struct server *server)
{
    CHECK_INT(count(server, "HLEN one"), 1);
    CHECK_INT(count(server, "HEXISTS one " WAITER ":7"), 1);
    CHECK_INT(count(server, "EXISTS holdfast_lock_queue:{one}"), 0);
}

TEST(who_began_to_wait_meanwhile_is_given_it)
{
    struct scene scene = { 0 };

    begin(&scene);
    uint64_t token = hf_token(scene.told[1].hold);
    int fd = begin_to_wait(&scene.server);
    hf_unlock_nowait(scene.told[0].hold);
    CHECK_CODE(hf_unlock(scene.told[1].hold), HF_OK);
    CHECK(hear_grant(fd) > token);
    check_is_the_waiters(&scene.server);
    CHECK_INT(count(&scene.server, "EXISTS beside"), 0);
    close(fd);
    end(&scene);
}

TEST(waiter_is_before_an_owner_that_takes_the_lock_again_in_the_same_turn)
{
    struct scene scene = { 0 };

    begin(&scene);
    int fd = begin_to_wait(&scene.server);
    hf_unlock_nowait(scene.told[0].hold);
    hf_unlock_nowait(scene.told[1].hold);
    take_two(&scene);
    CHECK_INT(scene.told[1].code, HF_BUSY);
    CHECK(hear_grant(fd) > 0);
    check_is_the_waiters(&scene.server);
    give_back(scene.told[0].hold);
    close(fd);
    end(&scene);
}

/* The script has released both and handed one on. Its reply is lost, and the release repeated. */
TEST(waiter_keeps_its_lock_where_the_reply_to_the_release_was_lost)
{
    struct scene scene = { 0 };
    struct relay relay = { 0 };

    server_start(&scene.server);
    relay_start(&relay, scene.server.port);
    struct server behind = scene.server;
    behind.port = relay.port;
    scene.client = open_at(&behind, 20000);
    take_two(&scene);
    uint64_t token = hf_token(scene.told[1].hold);
    int fd = begin_to_wait(&scene.server);
    relay_swallow(&relay);
    hf_unlock_nowait(scene.told[0].hold);
    hf_unlock_nowait(scene.told[1].hold);
    EVENTUALLY((turn(scene.client), count(&scene.server, "EXISTS beside") == 0), SOON_MS);
    CHECK(hear_grant(fd) > token);
    check_is_the_waiters(&scene.server);
    relay_cut(&relay);
    long before = server_counts(&scene.server, "commandstats", "cmdstat_evalsha:calls=");
    EVENTUALLY((turn(scene.client),
                server_counts(&scene.server, "commandstats", "cmdstat_evalsha:calls=") > before),
               SOON_MS);
    CHECK_INT(count(&scene.server, "HEXISTS one " WAITER ":7"), 1);
    close(fd);
    relay_stop(&relay);
    end(&scene);
}

TEST(what_was_lost_is_lost_whoever_else_is_given_back)
{
    struct scene scene = { 0 };

    begin(&scene);
    run(&scene.server, "DEL one");
    hf_unlock_nowait(scene.told[0].hold);
    CHECK_CODE(hf_unlock(scene.told[1].hold), HF_LOST);
    CHECK_INT(count(&scene.server, "EXISTS one beside"), 0);
    end(&scene);
}

/* Alone, by the script, which passes on what it finds free: with the token after the last one, or
 * with the clock's where that is not known. */
static void lose_one_for_who_waits(const char *loss)
{
    struct scene scene = { 0 };

    begin(&scene);
    uint64_t token = hf_token(scene.told[1].hold);
    run(&scene.server, loss);
    int fd = begin_to_wait(&scene.server);
    CHECK_CODE(hf_unlock(scene.told[1].hold), HF_LOST);
    CHECK(hear_grant(fd) > token);
    check_is_the_waiters(&scene.server);
    give_back(scene.told[0].hold);
    close(fd);
    end(&scene);
}

/* Who may not look whether somebody waits has given them back all the same. */
TEST(who_may_not_look_gives_back_all_the_same)
{
    struct scene scene = { 0 };

    begin(&scene);
    run(&scene.server, "ACL SETUSER default -exists");
    hf_unlock_nowait(scene.told[0].hold);
    CHECK_CODE(hf_unlock(scene.told[1].hold), HF_OK);
    run(&scene.server, "ACL SETUSER default +exists");
    CHECK_INT(count(&scene.server, "EXISTS one beside"), 0);
    end(&scene);
}

TEST(what_was_lost_is_lost_though_it_is_passed_on)
{
    lose_one_for_who_waits("DEL one");
    lose_one_for_who_waits("DEL one redisson_lock_token:{one}");
}

/* What is said of the other one is not said of this one, for which others wait, or one of ours. */
static void give_back_beside(const char *nonsense, bool ours_waits, bool is_last)
{
    struct scene scene = { 0 };
    char line[100];

    begin(&scene);
    run(&scene.server, nonsense);
    int fd = ours_waits ? begin_to_wait(&scene.server)
                        : server_listen(&scene.server, "redisson_lock__channel:{one}");
    hf_unlock_nowait(scene.told[!is_last].hold);
    if (is_last)
        CHECK_CODE(hf_unlock(scene.told[1].hold), HF_OK);
    else
        CHECK_CODE(hf_unlock(scene.told[0].hold), HF_LOST);
    if (ours_waits)
        CHECK(hear_grant(fd) > 0);
    for (int i = 0; !ours_waits && i < 7; i++)
        CHECK(server_hear(fd, line, sizeof(line)));
    CHECK_INT(count(&scene.server, "EXISTS one"), ours_waits);
    close(fd);
    end(&scene);
}

TEST(error_of_one_lock_concerns_no_other_lock_of_the_batch)
{
    give_back_beside("SET beside text", false, false);
    give_back_beside("SET beside text", false, true);
    give_back_beside("SET holdfast_lock_queue:{beside} text", true, true);
}
