/* SPDX-License-Identifier: Apache-2.0 */
/* Units of a counter, which no lease gives back: those of a take that was not told to be done are
 * there again. */
#include "conformance.h"
#include "relay.h"
#include "sql_server.h"

#include <stdlib.h>

#define UNITS 100
#define TAKES 20
/* Shorter than a test's patience. */
#define TIMEOUT_MS 1500

struct scene {
    struct sql_server server;
    struct relay relay;
    hf_client *client;
};

static void begin(struct scene *scene, const char *kind, hf_driver driver)
{
    TEST_TIMEOUT(120);
    memset(scene, 0, sizeof(*scene));
    sql_server_start(&scene->server, kind);
    relay_start(&scene->relay, scene->server.port);
    CHECK_CODE(hf_open(&scene->client, sql_server_url(&scene->server, scene->relay.port),
                       &HF_CLIENT_OPTIONS(.driver = driver, .request_timeout_ms = TIMEOUT_MS)),
               HF_OK);
    CHECK_CODE(hf_counter_set(scene->client, "c", UNITS), HF_OK);
}

static void end(struct scene *scene)
{
    hf_close(scene->client);
    relay_stop(&scene->relay);
    sql_server_kill(&scene->server);
}

static long value_of(const struct scene *scene)
{
    return strtol(sql_server_says(&scene->server, "SELECT value FROM hf_lock;"), NULL, 10);
}

static void begin_take(struct scene *scene, struct outcome *outcome, hf_request *request)
{
    *outcome = (struct outcome){ 0 };
    CHECK_CODE(hf_lock_async(scene->client, "c", 0,
                             LOCK_OPTIONS(.mode = HF_COUNTER, .owner = HF_OWNER_NEW),
                             record_outcome, outcome, request),
               HF_OK);
}

/* `ends`: the connection does; else the client gives it up by itself. */
static void lose_the_reply(struct scene *scene, bool ends)
{
    static struct outcome outcome;
    hf_request request;

    relay_swallow(&scene->relay);
    begin_take(scene, &outcome, &request);
    EVENTUALLY(value_of(scene) == UNITS - 1, SOON_MS);
    if (ends)
        relay_cut(&scene->relay);
    else
        relay_pass(&scene->relay);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_UNREACHABLE);
    EVENTUALLY(value_of(scene) == UNITS, SOON_MS);
}

TEST(take_without_a_reply_takes_nothing)
{
    EACH_DATABASE(kind)
    {
        struct scene scene;
        begin(&scene, *kind, HF_DRIVE_THREAD);
        lose_the_reply(&scene, true);
        lose_the_reply(&scene, false);
        end(&scene);
    }
}

/* Dispatches what is due, until the condition holds. */
#define DISPATCH_UNTIL(scene, condition)                                                           \
    EVENTUALLY(hf_dispatch((scene)->client) == HF_OK && (condition), SOON_MS)

/* The first one is told that it was done. Those behind it are given up when their replies are here
 * already, but have not been heard. */
static void give_up_all_but_the_first(struct scene *scene)
{
    static struct outcome outcomes[TAKES];
    hf_request requests[TAKES];

    for (int i = 0; i < TAKES; i++)
        begin_take(scene, &outcomes[i], &requests[i]);
    CHECK_CODE(hf_dispatch(scene->client), HF_OK);
    EVENTUALLY(value_of(scene) == UNITS - TAKES, SOON_MS);
    for (int i = 1; i < TAKES; i++)
        hf_cancel(scene->client, requests[i]);
    for (int i = 0; i < TAKES; i++) {
        DISPATCH_UNTIL(scene, outcomes[i].calls > 0);
        CHECK_CODE(outcomes[i].code, i == 0 ? HF_OK : HF_CANCELED);
    }
    DISPATCH_UNTIL(scene, value_of(scene) == UNITS - 1);
}

TEST(takes_given_up_among_others_that_are_done_take_nothing)
{
    EACH_DATABASE(kind)
    {
        struct scene scene;
        begin(&scene, *kind, HF_DRIVE_CALLER);
        give_up_all_but_the_first(&scene);
        end(&scene);
    }
}
