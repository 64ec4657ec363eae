/* Mutexes that are given back in one turn go by plain commands, and the look at who waits comes
 * behind them: who is still there is given his all the same, and what was lost is lost. */
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

static void take_two(hf_client *client, struct told *told)
{
    ask(client, "beside", 0, &told[0]);
    ask(client, "one", 0, &told[1]);
    turn_until_told(client, told, 2);
    CHECK_INT(told[0].code, HF_OK);
    CHECK_INT(told[1].code, HF_OK);
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

static long scripts(const struct server *server)
{
    return server_counts(server, "commandstats", "cmdstat_eval:calls=") +
           server_counts(server, "commandstats", "cmdstat_evalsha:calls=");
}

TEST(what_nobody_waits_for_is_given_back_without_a_script)
{
    struct server server = { 0 };
    struct told told[2] = { 0 };

    server_start(&server);
    hf_client *client = open_at(&server, 30000);
    take_two(client, told);
    long before = scripts(&server);
    hf_unlock_nowait(told[0].hold);
    CHECK_CODE(hf_unlock(told[1].hold), HF_OK);
    CHECK_INT(scripts(&server), before);
    CHECK_INT(count(&server, "EXISTS one beside"), 0);
    hf_close(client);
    server_kill(&server);
}

TEST(who_began_to_wait_meanwhile_is_given_it)
{
    struct server server = { 0 };
    struct told told[2] = { 0 };

    server_start(&server);
    hf_client *client = open_at(&server, 30000);
    take_two(client, told);
    uint64_t token = hf_token(told[1].hold);
    int fd = begin_to_wait(&server);
    hf_unlock_nowait(told[0].hold);
    CHECK_CODE(hf_unlock(told[1].hold), HF_OK);
    CHECK(hear_grant(fd) > token);
    CHECK_INT(count(&server, "HEXISTS one " WAITER ":7"), 1);
    CHECK_INT(count(&server, "EXISTS beside"), 0);
    close(fd);
    hf_close(client);
    server_kill(&server);
}

/* Who takes both again in the turn in which it gives them back is before him once. */
TEST(who_waits_is_before_who_comes_again_and_again)
{
    struct server server = { 0 };
    struct told told[2] = { 0 };

    server_start(&server);
    hf_client *client = open_at(&server, 30000);
    take_two(client, told);
    int fd = begin_to_wait(&server);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(told[1].code, HF_OK);
        hf_unlock_nowait(told[0].hold);
        hf_unlock_nowait(told[1].hold);
        told[0] = told[1] = (struct told){ 0 };
        ask(client, "beside", 0, &told[0]);
        ask(client, "one", 0, &told[1]);
        turn_until_told(client, told, 2);
    }
    CHECK_INT(told[1].code, HF_BUSY);
    CHECK(hear_grant(fd) > 0);
    CHECK_INT(count(&server, "HEXISTS one " WAITER ":7"), 1);
    give_back(told[0].hold);
    close(fd);
    hf_close(client);
    server_kill(&server);
}

/* The server has taken the fields out and looked, and nobody has heard what it saw. */
TEST(who_waits_is_given_it_where_the_answers_were_lost)
{
    struct server server = { 0 }, behind;
    struct relay relay = { 0 };
    struct told told[2] = { 0 };

    server_start(&server);
    relay_start(&relay, server.port);
    behind = server;
    behind.port = relay.port;
    hf_client *client = open_at(&behind, 20000);
    take_two(client, told);
    uint64_t token = hf_token(told[1].hold);
    int fd = begin_to_wait(&server);
    relay_swallow(&relay);
    hf_unlock_nowait(told[0].hold);
    hf_unlock_nowait(told[1].hold);
    EVENTUALLY((turn(client), count(&server, "EXISTS one beside") == 0), SOON_MS);
    relay_cut(&relay);
    EVENTUALLY((turn(client), count(&server, "EXISTS one") == 1), SOON_MS);
    CHECK(hear_grant(fd) > token);
    close(fd);
    hf_close(client);
    relay_stop(&relay);
    server_kill(&server);
}

TEST(what_was_lost_is_lost_whoever_else_is_given_back)
{
    struct server server = { 0 };
    struct told told[2] = { 0 };

    server_start(&server);
    hf_client *client = open_at(&server, 30000);
    take_two(client, told);
    run(&server, "DEL one");
    hf_unlock_nowait(told[0].hold);
    CHECK_CODE(hf_unlock(told[1].hold), HF_LOST);
    CHECK_INT(count(&server, "EXISTS one beside"), 0);
    hf_close(client);
    server_kill(&server);
}

/* Alone, by the script, which passes on what it finds free: with the token after the last one, or
 * with the clock's where that is not known. */
static void lose_one_for_who_waits(const char *loss)
{
    struct server server = { 0 };
    struct told told[2] = { 0 };

    server_start(&server);
    hf_client *client = open_at(&server, 30000);
    take_two(client, told);
    uint64_t token = hf_token(told[1].hold);
    run(&server, loss);
    int fd = begin_to_wait(&server);
    CHECK_CODE(hf_unlock(told[1].hold), HF_LOST);
    CHECK(hear_grant(fd) > token);
    give_back(told[0].hold);
    close(fd);
    hf_close(client);
    server_kill(&server);
}

TEST(what_was_lost_is_lost_though_it_is_passed_on)
{
    lose_one_for_who_waits("DEL one");
    lose_one_for_who_waits("DEL one redisson_lock_token:{one}");
}

/* Just after somebody was seen to wait, many are given back by the script. */
static hf_client *begin_by_script(const struct server *server)
{
    struct told told[2] = { 0 };
    hf_client *client = open_at(server, 30000);

    take_two(client, told);
    run(server, "ZADD holdfast_lock_queue:{one} 1 " WAITER ":7");
    hf_unlock_nowait(told[0].hold);
    give_back(told[1].hold);
    CHECK_INT(count(server, "EXISTS one beside"), 0);
    return client;
}

/* What is said of the other one is not said of this one, for which others wait, or one of ours. */
static void give_back_beside(const char *nonsense, bool ours_waits, bool is_last)
{
    struct server server = { 0 };
    struct told told[2] = { 0 };
    char line[100];

    server_start(&server);
    hf_client *client = begin_by_script(&server);
    take_two(client, told);
    run(&server, nonsense);
    int fd = ours_waits ? begin_to_wait(&server)
                        : server_listen(&server, "redisson_lock__channel:{one}");
    long before = scripts(&server);
    hf_unlock_nowait(told[!is_last].hold);
    if (is_last)
        CHECK_CODE(hf_unlock(told[1].hold), HF_OK);
    else
        CHECK_CODE(hf_unlock(told[0].hold), HF_EKIND);
    CHECK(scripts(&server) > before);
    if (ours_waits)
        CHECK(hear_grant(fd) > 0);
    for (int i = 0; !ours_waits && i < 7; i++)
        CHECK(server_hear(fd, line, sizeof(line)));
    CHECK_INT(count(&server, "EXISTS one"), ours_waits);
    close(fd);
    hf_close(client);
    server_kill(&server);
}

TEST(by_the_script_as_well_an_error_is_ones_own)
{
    give_back_beside("SET beside text", false, false);
    give_back_beside("SET beside text", false, true);
    give_back_beside("SET holdfast_lock_queue:{beside} text", true, true);
}
