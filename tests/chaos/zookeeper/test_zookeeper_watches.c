/* SPDX-License-Identifier: Apache-2.0 */
/* Watches end with a connection, and a client that has many tells the next server of all of them,
 * in messages that are no longer than servers take. */
#include "conformance.h"
#include "zookeeper_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG_MS 40000
/* Together they are longer than a message may be at this server. */
#define NAMES 400
#define NAME_LENGTH 960
#define LIMITED "-Djute.maxbuffer=200000"

static hf_client *open_on(const struct zookeeper_server *server)
{
    hf_client *client = NULL;

    CHECK_CODE(
        hf_open(&client, zookeeper_url(server->port), &HF_CLIENT_OPTIONS(.lease_ms = LONG_MS)),
        HF_OK);
    return client;
}

static const char *name_at(int i)
{
    static char name[NAME_LENGTH + 1];

    memset(name, 'x', sizeof(name) - 1);
    name[snprintf(name, sizeof(name), "%d", i)] = '-';
    return name;
}

/* The holder hears of it by a watch on its node. */
static void break_and_hear(hf_client *other, int i, _Atomic int *losses)
{
    unsigned broken = 0;
    int before = *losses;

    EVENTUALLY(hf_break(other, name_at(i), NULL, &broken) == HF_OK, 2 * SOON_MS);
    CHECK_INT(broken, 1);
    EVENTUALLY(*losses == before + 1, 2 * SOON_MS);
}

TEST(all_that_is_watched_is_watched_at_the_next_server)
{
    static const int broken[] = { 0, NAMES / 3, NAMES / 2, NAMES - 2 };
    static hf_hold *holds[NAMES];
    struct zookeeper_server server = { 0 };
    _Atomic int losses = 0;
    CHECK(setenv("JAVA_TOOL_OPTIONS", LIMITED, 1) == 0);
    zookeeper_start(&server);
    hf_client *client = open_on(&server), *other = open_on(&server);

    for (int i = 0; i < NAMES; i++)
        holds[i] = take_watched(client, name_at(i), &losses);
    /* The last one is watched, and so are those before it. */
    break_and_hear(other, NAMES - 1, &losses);
    zookeeper_kill(&server);
    zookeeper_start_again(&server);
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
        break_and_hear(other, broken[i], &losses);
    for (int i = 0; i < NAMES; i++)
        hf_unlock(holds[i]);
    CHECK_INT(losses, 1 + (int)(sizeof(broken) / sizeof(broken[0])));
    hf_close(client);
    hf_close(other);
    zookeeper_kill(&server);
}
