/* SPDX-License-Identifier: Apache-2.0 */
/* What a client of Redis does without: questions about what it holds already, and more connections
 * than one to ask on and one to hear on. */
#include "conformance.h"
#include "server.h"

#include <stdio.h>

#define LEASE_MS 600000

static hf_client *open_on(const struct server *server)
{
    hf_client *client = NULL;

    CHECK_CODE(
        hf_open(&client, server_url(server, 60000), &HF_CLIENT_OPTIONS(.lease_ms = LEASE_MS)),
        HF_OK);
    return client;
}

/* ---- nested holds ---- */

static long commands(const struct server *server)
{
    return server_counts(server, "stats", "total_commands_processed:");
}

/* The last of the fields' values is the owner's. */
static void check_counted_once(const struct server *server, int fields)
{
    char command[100];

    snprintf(command, sizeof(command), "EVAL \"return tonumber(redis.call('hvals','one')[%d])\" 0",
             fields);
    CHECK(server_says(server, command, ":1"));
    CHECK(server_says(server, "HLEN one", fields == 1 ? ":1" : ":2"));
}

static void enter_again(hf_client *client, const struct server *server, hf_mode mode, int fields)
{
    hf_hold *outer = take(client, "one", mode, 0);
    long before = commands(server);
    hf_hold *inner = take(client, "one", mode, 0);
    hf_hold *innermost = take(client, "one", mode, 0);

    /* The question for the number is one itself. */
    CHECK_INT(commands(server), before + 1);
    check_counted_once(server, fields);
    before = commands(server);
    give_back(innermost);
    give_back(inner);
    CHECK_INT(commands(server), before + 1);
    check_counted_once(server, fields);
    CHECK(hf_held(outer));
    give_back(outer);
    CHECK(server_says(server, "EXISTS one", ":0"));
}

TEST(who_has_it_already_asks_nothing)
{
    struct server server = { 0 };

    server_start(&server);
    hf_client *client = open_on(&server);
    enter_again(client, &server, HF_MUTEX, 1);
    enter_again(client, &server, HF_FAIR, 1);
    enter_again(client, &server, HF_WRITE, 2);
    enter_again(client, &server, HF_READ, 2);
    hf_close(client);
    server_kill(&server);
}

/* ---- connections ---- */

#define THREADS 64

struct crowd {
    hf_client *client, *holder;
    hf_hold *held[THREADS];
};

static void own_name(char name[20], int index)
{
    snprintf(name, 20, "own/%d", index);
}

static void hold_all(struct crowd *crowd)
{
    char name[20];

    for (int i = 0; i < THREADS; i++) {
        own_name(name, i);
        crowd->held[i] = take(crowd->holder, name, HF_MUTEX, 0);
    }
}

static void let_go_of_all(void *arg)
{
    struct crowd *crowd = arg;
    char name[20];

    for (int i = 0; i < THREADS; i++) {
        own_name(name, i);
        EVENTUALLY(waiters(crowd->holder, name) == 1, SOON_MS);
    }
    for (int i = 0; i < THREADS; i++)
        give_back(crowd->held[i]);
}

static void lock_and_lock(void *arg, int index)
{
    struct crowd *crowd = arg;
    hf_hold *hold = NULL;
    char name[20];

    own_name(name, index);
    CHECK_CODE(hf_lock(crowd->client, name, HF_FOREVER, NULL, &hold), HF_OK);
    give_back(hold);
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof(name), "common/%d", index % 8);
        CHECK_CODE(hf_lock(crowd->client, name, HF_FOREVER, NULL, &hold), HF_OK);
        give_back(hold);
    }
}

TEST(a_crowd_of_threads_has_two_connections)
{
    struct server server = { 0 };
    struct crowd crowd;
    struct thread letting_go;

    server_start(&server);
    crowd.holder = open_on(&server);
    crowd.client = open_on(&server);
    hold_all(&crowd);
    long before = server_counts(&server, "stats", "total_connections_received:");
    thread_start(&letting_go, let_go_of_all, &crowd);
    threads_run(THREADS, lock_and_lock, &crowd);
    thread_join(&letting_go);
    /* One to ask on, one to hear on, and the one that this is asked on. */
    CHECK_INT(server_counts(&server, "stats", "total_connections_received:"), before + 3);
    hf_close(crowd.client);
    hf_close(crowd.holder);
    server_kill(&server);
}
