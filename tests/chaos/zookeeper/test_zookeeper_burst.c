/* SPDX-License-Identifier: Apache-2.0 */
/* A burst of claims is shared out among sessions before the first answer comes, so that a server
 * can read the end of each back. */
#include "conformance.h"
#include "zookeeper_raw.h"
#include "zookeeper_server.h"

#include <stdio.h>
#include <stdlib.h>

/* So long that nothing here waits for its end. */
#define LONG_MS 40000
/* The server reads back twice as much: what a full session carries, and not all of the burst. */
#define LIMITED "-Djute.maxbuffer=300000"
#define BURST 700
#define LONG_NAME 960
/* With what is above it, and its own name. */
#define LONG_WEIGHT (7 + LONG_NAME + 64)
#define ONE_SESSION ((512 << 10) / LONG_WEIGHT)

static struct {
    struct zookeeper_server server;
    hf_client *client;
    hf_hold *holds[BURST];
    _Atomic int answers;
} burst;

static hf_client *open_one(void)
{
    hf_client *client = NULL;

    CHECK_CODE(
        hf_open(&client, zookeeper_url(burst.server.port), &HF_CLIENT_OPTIONS(.lease_ms = LONG_MS)),
        HF_OK);
    return client;
}

static const char *long_name(int number)
{
    static _Thread_local char name[LONG_NAME + 1];

    memset(name, 'x', LONG_NAME);
    name[snprintf(name, sizeof(name), "%d", number)] = '-';
    return name;
}

static void keep_hold(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    CHECK_STR(error ? error->text : "", "");
    CHECK_INT(code, HF_OK);
    *(hf_hold **)arg = hold;
    burst.answers++;
}

/* All of it is asked for before the first answer comes. */
static void take_burst(void)
{
    burst.answers = 0;
    for (int i = 0; i < BURST; i++)
        CHECK_CODE(hf_lock_async(burst.client, long_name(i), HF_FOREVER, NULL, keep_hold,
                                 &burst.holds[i], NULL),
                   HF_OK);
    EVENTUALLY(burst.answers == BURST, 3 * SOON_MS);
}

static void unlock_burst(int wanted)
{
    for (int i = 0; i < BURST; i++)
        CHECK_CODE(hf_unlock(burst.holds[i]), wanted);
}

static int64_t session_of_long(struct zookeeper_raw *raw, int number)
{
    char path[20 + LONG_NAME];

    snprintf(path, sizeof(path), "/chaos/%s", long_name(number));
    return raw_session_below(raw, path);
}

static bool look_no_further(void *arg, const hf_entry *entry)
{
    (void)arg, (void)entry;
    return false;
}

/* A server that cannot read the end of a session back does not start again. */
TEST(the_end_of_a_full_session_can_be_read_back)
{
    struct zookeeper_raw raw;
    int64_t sessions[2];
    CHECK(setenv("JAVA_TOOL_OPTIONS", LIMITED, 1) == 0);
    zookeeper_start(&burst.server);
    burst.client = open_one();

    take_burst();
    unlock_burst(HF_OK);
    take_burst();
    raw_begin(&raw, burst.server.port);
    sessions[0] = session_of_long(&raw, ONE_SESSION - 1);
    sessions[1] = session_of_long(&raw, ONE_SESSION);
    CHECK(sessions[0] != sessions[1]);
    CHECK(sessions[0] == session_of_long(&raw, 0));
    raw_end(&raw);
    for (int i = 0; i < 2; i++)
        raw_end_session(burst.server.port, sessions[i]);
    unlock_burst(HF_LOST);
    zookeeper_kill(&burst.server);
    zookeeper_start_again(&burst.server);
    hf_client *other = open_one();
    EVENTUALLY(hf_inspect(other, "one", look_no_further, NULL) == HF_OK, 2 * SOON_MS);
    hf_close(burst.client);
    hf_close(other);
    zookeeper_kill(&burst.server);
}
