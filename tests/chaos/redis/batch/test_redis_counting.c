/* SPDX-License-Identifier: Apache-2.0 */
/* A release that counts on from its own token: whatever becomes of the token's key, tokens rise and
 * the key has the life that it should; and others than our clients have their turns. */
#include "conformance.h"
#include "relay.h"
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Far beyond any test's end: nothing goes by itself. */
#define LEASE_MS 600000
#define TOKEN "redisson_lock_token:{one}"
#define QUEUE "holdfast_lock_queue:{one}"
#define CHANNEL "redisson_lock__channel:{one}"
/* As if the clock had been set back by centuries: what is not counted is seen. It is a multiple of
 * 64. */
#define FAR_AHEAD "9000000000000000"
#define A_SHORT_LIFE_MS 100000

struct scene {
    struct server server;
    bool unfenced;
    hf_client *clients[2];
    int holder;
    hf_hold *hold;
    uint64_t token; /* the hold's */
};

static hf_client *open_at(const struct server *server, bool unfenced)
{
    hf_client *client = NULL;
    char url[160];

    snprintf(url, sizeof(url), "%s%s", server_url(server, 20000), unfenced ? "&fence=off" : "");
    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = LEASE_MS)), HF_OK);
    return client;
}

static void tell(const struct scene *scene, const char *command)
{
    CHECK(server_tell(&scene->server, command, NULL, 0));
}

static int64_t answer(const struct scene *scene, const char *command)
{
    char line[60] = "";

    CHECK(server_tell(&scene->server, command, line, sizeof(line)));
    CHECK(line[0] == ':');
    return strtoll(line + 1, NULL, 10);
}

static void note(struct scene *scene, hf_hold *hold)
{
    scene->hold = hold;
    CHECK(scene->unfenced || hf_token(hold) > scene->token);
    scene->token = hf_token(hold);
}

/* The first of the clients holds the lock; `before` is what the server is told before that. */
static struct scene *begin_with(const char *before, bool unfenced)
{
    static struct scene scene;

    TEST_TIMEOUT(120);
    memset(&scene, 0, sizeof(scene));
    scene.unfenced = unfenced;
    server_start(&scene.server);
    for (int i = 0; i < 2; i++)
        scene.clients[i] = open_at(&scene.server, unfenced);
    if (before)
        tell(&scene, before);
    note(&scene, take_patiently(scene.clients[0], "one"));
    return &scene;
}

static struct scene *begin(const char *before)
{
    return begin_with(before, false);
}

static void end(struct scene *scene)
{
    give_back(scene->hold);
    CHECK(server_says(&scene->server, "EXISTS one " QUEUE, ":0"));
    for (int i = 0; i < 2; i++)
        hf_close(scene->clients[i]);
    server_kill(&scene->server);
}

static void begin_to_wait(const struct scene *scene, hf_client *client, struct outcome *outcome)
{
    begin_wait(client, "one", HF_MUTEX, outcome);
    EVENTUALLY(answer(scene, "ZCARD " QUEUE) == 1, SOON_MS);
}

/* The other one waits, then is given it. `meanwhile` is what the server is told between. */
static void hand_over(struct scene *scene, const char *meanwhile)
{
    struct outcome outcome = { 0 };

    scene->holder = !scene->holder;
    begin_to_wait(scene, scene->clients[scene->holder], &outcome);
    if (meanwhile)
        tell(scene, meanwhile);
    give_back(scene->hold);
    await_grant(&outcome);
    note(scene, outcome.hold);
}

TEST(a_release_counts_on)
{
    struct scene *scene = begin(NULL);
    int counted = 0;

    for (int i = 0; i < 40; i++) {
        uint64_t last = scene->token;
        hand_over(scene, NULL);
        counted += scene->token == last + 1;
    }
    CHECK(counted > 0);
    CHECK(answer(scene, "PTTL " TOKEN) > A_SHORT_LIFE_MS);
    end(scene);
}

TEST(who_has_held_it_for_long_does_not_count_on)
{
    struct scene *scene = begin(NULL);
    uint64_t last = scene->token;

    let_pass_ms(1100);
    hand_over(scene, NULL);
    CHECK(scene->token - last >= 1000000);
    end(scene);
}

/* The holder gives it back, takes it for a lease of its own, and takes that over. */
static void take_over(struct scene *scene)
{
    hf_client *client = scene->clients[scene->holder];
    char key[HF_OWNER_KEY_SIZE];
    hf_hold *hold = NULL;

    give_back(scene->hold);
    CHECK_CODE(
        hf_lock(client, "one", SOON_MS * test_slow(), LOCK_OPTIONS(.lease_ms = LEASE_MS), &hold),
        HF_OK);
    CHECK_CODE(hf_detach(hold, key), HF_OK);
    CHECK_CODE(hf_attach(client, "one", key, &hold), HF_OK);
    note(scene, hold);
}

/* Nobody knows how long it has been held. */
TEST(who_has_taken_it_over_does_not_count_on)
{
    struct scene *scene = begin(NULL);

    for (int i = 0; i < 10; i++) {
        take_over(scene);
        uint64_t last = scene->token;
        hand_over(scene, NULL);
        CHECK(scene->token > last + 1);
    }
    end(scene);
}

/* Where nobody wants tokens, not even for a moment there is a key. */
TEST(who_wants_no_token_does_not_count_on)
{
    struct scene *scene = begin_with(NULL, true);
    char line[100];
    int events = -1; /* but for our own word */

    tell(scene, "CONFIG SET notify-keyspace-events KA");
    int fd = server_listen(&scene->server, "__keyspace@0__:" TOKEN);
    for (int i = 0; i < 10; i++)
        hand_over(scene, NULL);
    tell(scene, "PUBLISH __keyspace@0__:" TOKEN " end");
    do {
        CHECK(server_hear(fd, line, sizeof(line)));
        events += strcmp(line, "message") == 0;
    } while (strcmp(line, "end") != 0);
    CHECK_INT(events, 0);
    close(fd);
    end(scene);
}

TEST(tokens_rise_when_their_key_is_deleted)
{
    struct scene *scene = begin(NULL);

    /* A release needs no right to that. */
    tell(scene, "ACL SETUSER default -del");
    for (int i = 0; i < 10; i++) {
        hand_over(scene, "UNLINK " TOKEN);
        CHECK(answer(scene, "PTTL " TOKEN) > A_SHORT_LIFE_MS);
    }
    end(scene);
}

/* A counter of Java's: it has no end, and keeps that. */
TEST(tokens_rise_when_their_key_becomes_a_counter)
{
    struct scene *scene = begin(NULL);

    for (int i = 0; i < 10; i++) {
        hand_over(scene, "SET " TOKEN " 5");
        CHECK_INT(answer(scene, "PTTL " TOKEN), -1);
        CHECK(answer(scene, "INCRBY " TOKEN " 0") == (int64_t)scene->token);
    }
    end(scene);
}

/* Somebody else has counted: two names may share a key. */
TEST(tokens_rise_beside_those_of_others)
{
    struct scene *scene = begin("SET " TOKEN " " FAR_AHEAD " PX 10000000");
    uint64_t others = scene->token;

    for (int i = 0; i < 10; i++) {
        others += 1000;
        hand_over(scene, "INCRBY " TOKEN " 1000");
        CHECK(scene->token > others);
        others = scene->token;
    }
    end(scene);
}

/* The clock says nothing for so long: each token is counted, whoever counts. */
TEST(a_tokens_life_begins_anew_while_releases_count_on)
{
    struct scene *scene = begin("SET " TOKEN " " FAR_AHEAD " PX 100000");

    CHECK_INT(answer(scene, "PEXPIRE " TOKEN " 100000"), 1);
    for (int i = 0; i < 65; i++)
        hand_over(scene, NULL);
    CHECK(answer(scene, "PTTL " TOKEN) > A_SHORT_LIFE_MS);
    end(scene);
}

/* As in a failover: the server that hears the release again knows nothing of the first time. */
static void forget_the_release(const struct scene *scene, uint64_t token)
{
    char command[400];

    snprintf(command, sizeof(command),
             "EVAL \"redis.call('del','one') redis.call('rename','before','one') "
             "return redis.call('set','" TOKEN "','%llu','px','10000000')\" 0",
             (unsigned long long)token);
    tell(scene, command);
}

TEST(a_release_that_is_said_again_does_not_count_on)
{
    struct scene *scene = begin(NULL);
    struct outcome first = { 0 }, second = { 0 };
    struct relay relay = { 0 };

    give_back(scene->hold);
    relay_start(&relay, scene->server.port);
    hf_client *client = open_at(&(struct server){ .port = relay.port }, false);
    hf_hold *hold = take_patiently(client, "one");
    uint64_t token = hf_token(hold);
    tell(scene, "EVAL \"redis.call('hset','before',redis.call('hkeys','one')[1],1)\" 0");
    begin_to_wait(scene, scene->clients[0], &first);
    relay_swallow(&relay);
    hf_unlock_nowait(hold);
    await_grant(&first);
    note(scene, first.hold);
    begin_to_wait(scene, scene->clients[1], &second);
    forget_the_release(scene, token);
    relay_cut(&relay);
    await_grant(&second);
    note(scene, second.hold);
    CHECK_CODE(hf_unlock(first.hold), HF_LOST);
    hf_close(client);
    relay_stop(&relay);
    end(scene);
}

/* ---- others than our clients ---- */

/* How often the channel said whose turn it is: others', or, by an inbox, not the first of ours. */
static int turns_said(const struct scene *scene, int fd, const char *channel)
{
    char line[100], command[100];
    int times = 0;

    snprintf(command, sizeof(command), "PUBLISH %s end", channel);
    tell(scene, command);
    do {
        CHECK(server_hear(fd, line, sizeof(line)));
        times += strcmp(line, "0") == 0 || strstr(line, " 0 0") != NULL;
    } while (strcmp(line, "end") != 0);
    return times;
}

/* How often others were told of a release. */
static int times_told(const struct scene *scene, int fd)
{
    return turns_said(scene, fd, CHANNEL);
}

/* What the server knows the holder by: its client's name, and the claim's number. */
static void ask_for_holder(const struct scene *scene, char field[100])
{
    CHECK(server_ask(&scene->server, "EVAL \"return redis.call('hkeys','one')[1]\" 0", field, 100));
    CHECK(strlen(field) > 37);
}

struct inbox {
    char channel[60];
    int fd;
};

/* Hears what the client is told that holds the lock now. */
static struct inbox listen_beside_holder(const struct scene *scene)
{
    char field[100];
    struct inbox inbox;

    ask_for_holder(scene, field);
    snprintf(inbox.channel, sizeof(inbox.channel), "holdfast:%.36s", field);
    inbox.fd = server_listen(&scene->server, inbox.channel);
    return inbox;
}

/* Each time that others have the turn, who is first of ours is told to look a little later. */
static void check_turns(struct scene *scene)
{
    struct inbox inboxes[2];
    int looks = 0;

    for (int i = 0; i < 2; i++) {
        hand_over(scene, NULL);
        inboxes[i] = listen_beside_holder(scene);
    }
    int fd = server_listen(&scene->server, CHANNEL);
    for (int i = 0; i < 30; i++)
        hand_over(scene, NULL);
    int times = times_told(scene, fd);
    CHECK(times > 0);
    CHECK(times < 30);
    for (int i = 0; i < 2; i++) {
        looks += turns_said(scene, inboxes[i].fd, inboxes[i].channel);
        close(inboxes[i].fd);
    }
    CHECK_INT(looks, times);
    close(fd);
    end(scene);
}

TEST(others_have_some_of_the_turns)
{
    check_turns(begin("SET " TOKEN " " FAR_AHEAD " PX 10000000"));
}

/* By a coin, which may fall on the same side 30 times, but will not. */
TEST(others_have_some_of_the_turns_where_nothing_is_counted)
{
    check_turns(begin_with(NULL, true));
}

TEST(others_are_told_of_each_release_that_nobody_of_ours_waits_for)
{
    struct scene *scene = begin(NULL);
    int fd = server_listen(&scene->server, CHANNEL);

    for (int i = 0; i < 8; i++) {
        give_back(scene->hold);
        note(scene, take_patiently(scene->clients[0], "one"));
    }
    CHECK_INT(times_told(scene, fd), 8);
    close(fd);
    end(scene);
}

/* ---- places of nobody ---- */

#define DEAD "f81d4fae-7dec-81d0-a765-00a0c91e6bf6"
#define LIVING "01234567-89ab-8def-8123-456789abcdef"

/* Others are told that it is their turn, and of ours one looks whether they have taken it. */
TEST(of_ours_the_first_that_lives_looks_after_others)
{
    struct server server = { 0 };
    char line[100];

    server_start(&server);
    hf_client *client = open_at(&server, false);
    int others = server_listen(&server, "redisson_lock__channel:{one}");
    int fd = server_listen(&server, "holdfast:" LIVING);
    for (int i = 0; i < 24; i++) {
        hf_hold *hold = take_patiently(client, "one");
        CHECK(server_tell(&server, "ZADD " QUEUE " 1 " DEAD ":7 2 " LIVING ":8", NULL, 0));
        give_back(hold);
        do
            CHECK(server_hear(fd, line, sizeof(line)));
        while (strncmp(line, "8 ", 2) != 0);
        CHECK(server_tell(&server, "DEL one " QUEUE, NULL, 0));
    }
    close(fd);
    close(others);
    hf_close(client);
    server_kill(&server);
}

/* One is no field, the others' clients are not there. */
TEST(places_of_nobody_are_passed_over)
{
    struct scene *scene = begin(NULL);
    uint64_t last = scene->token;

    hand_over(scene, "ZADD " QUEUE " 0 f81d4fae-7dec-81d0-a765-00a0c91e6bf6:7 1 rubbish "
                     "2 f81d4fae-7dec-81d0-a765-00a0c91e6bf6");
    CHECK(scene->token > last);
    CHECK_INT(answer(scene, "HLEN one"), 1);
    CHECK_INT(answer(scene, "ZCARD " QUEUE), 0);
    end(scene);
}

/* They begin with the name of a client that listens. */
TEST(places_that_no_claim_has_are_passed_over)
{
    static const char *const endings[] = { "", ":", ":x", "x999999" };
    struct scene *scene = begin("SET " TOKEN " " FAR_AHEAD " PX 10000000");

    for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
        struct inbox inbox = listen_beside_holder(scene);
        char command[200], field[100], line[100];

        hand_over(scene, NULL);
        snprintf(command, sizeof(command), "ZADD " QUEUE " 0 %s%s",
                 inbox.channel + strlen("holdfast:"), endings[i]);
        hand_over(scene, command);
        CHECK_INT(answer(scene, "ZCARD " QUEUE), 0);
        ask_for_holder(scene, field);
        do
            CHECK(server_hear(inbox.fd, line, sizeof(line)));
        while (!strstr(line, " 4000"));
        /* To whom it was granted first. */
        CHECK_INT(strtol(line, NULL, 10), strtol(field + 37, NULL, 10));
        CHECK(line[0] != ' ');
        close(inbox.fd);
    }
    end(scene);
}
