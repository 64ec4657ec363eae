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
    /* It makes the tables, which takes a loaded machine longer. */
    EVENTUALLY(hf_counter_set(scene->client, "c", UNITS) == HF_OK, SOON_MS);
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

static long receipts(const struct scene *scene)
{
    return strtol(sql_server_says(&scene->server, "SELECT COUNT(*) FROM hf_hold WHERE mode = %d;",
                                  HF_COUNTER),
                  NULL, 10);
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

/* The take that was given up belongs to the counter that is removed. */
static void remove_while_unheard(struct scene *scene)
{
    static struct outcome outcome;
    hf_request request;
    hf_client *other = sql_open(&scene->server, scene->server.port, 0, 0);

    relay_swallow(&scene->relay);
    begin_take(scene, &outcome, &request);
    EVENTUALLY(value_of(scene) == UNITS - 1, SOON_MS);
    CHECK_CODE(hf_counter_remove(other, "c"), HF_OK);
    CHECK_CODE(hf_counter_set(other, "c", UNITS), HF_OK);
    relay_cut(&scene->relay);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_UNREACHABLE);
    EVENTUALLY(receipts(scene) == 0, SOON_MS);
    CHECK_INT(value_of(scene), UNITS);
    hf_close(other);
}

TEST(units_of_a_removed_counter_do_not_return_to_the_next_one)
{
    EACH_DATABASE(kind)
    {
        struct scene scene;
        begin(&scene, *kind, HF_DRIVE_THREAD);
        remove_while_unheard(&scene);
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

/* ---- receipts that stay ---- */

/* The reply to the take is here already, and what deletes its receipt does not arrive. */
TEST(receipt_whose_deletion_was_lost_is_deleted_later)
{
    EACH_DATABASE(kind)
    {
        struct scene scene;
        static struct outcome outcome;
        hf_request request;
        begin(&scene, *kind, HF_DRIVE_CALLER);
        begin_take(&scene, &outcome, &request);
        CHECK_CODE(hf_dispatch(scene.client), HF_OK);
        EVENTUALLY(value_of(&scene) == UNITS - 1, SOON_MS);
        relay_hold(&scene.relay);
        DISPATCH_UNTIL(&scene, outcome.calls > 0);
        CHECK_CODE(outcome.code, HF_OK);
        CHECK_INT(receipts(&scene), 1);
        DISPATCH_UNTIL(&scene, receipts(&scene) == 0);
        CHECK_INT(value_of(&scene), UNITS - 1);
        end(&scene);
    }
}

/* As a client leaves it that was killed in between. The counter is removed. */
static void leave_receipt(const struct scene *scene)
{
    sql_server_says(&scene->server,
                    "DELETE FROM hf_hold; INSERT INTO hf_hold (name, owner, mode, fixed, permits, "
                    "token, since_us, expires_us) VALUES ('c', 'the-stranger,-24-bytes..', %d, 1, "
                    "1, 0, %s, %s + 86400000000);",
                    HF_COUNTER, sql_server_now_us(&scene->server),
                    sql_server_now_us(&scene->server));
    CHECK_CODE(hf_counter_remove(scene->client, "c"), HF_OK);
}

static int probe_permits(const struct scene *scene, uint32_t permits)
{
    hf_hold *hold = NULL;
    int code =
        hf_lock(scene->client, "c", 0,
                LOCK_OPTIONS(.mode = HF_PERMIT, .permits = permits, .limit = permits), &hold);
    if (code == HF_OK)
        give_back(hold);
    return code;
}

static void look_after_it(const struct scene *scene)
{
    uint32_t count = 1;

    CHECK_CODE(hf_break(scene->client, "c", NULL, &count), HF_OK);
    CHECK_INT(count, 0);
    CHECK_CODE(hf_break(scene->client, "c", "another", &count), HF_OK);
    CHECK_CODE(hf_forget(scene->client, "c"), HF_OK);
    CHECK_CODE(hf_schema_change(scene->client, HF_SCHEMA_CLEAN, &count), HF_OK);
    CHECK_INT(receipts(scene), 1);
}

/* Its time is over since an hour. */
static void clean_it_away(const struct scene *scene)
{
    uint32_t count = 0;

    CHECK_CODE(hf_counter_remove(scene->client, "c"), HF_OK);
    sql_server_says(&scene->server,
                    "UPDATE hf_hold SET expires_us = %s - 3601000000;"
                    "UPDATE hf_lock SET since_us = 1;",
                    sql_server_now_us(&scene->server));
    CHECK_CODE(hf_schema_change(scene->client, HF_SCHEMA_CLEAN, &count), HF_OK);
    CHECK_INT(count, 1);
    CHECK_INT(receipts(scene), 0);
}

static void use_name_for_all(const struct scene *scene)
{
    hf_client *client = scene->client;
    uint32_t value;

    for (hf_mode mode = HF_MUTEX; mode <= HF_WRITE; mode++)
        CHECK_CODE(probe(client, "c", mode, 0), HF_OK);
    CHECK_CODE(probe_permits(scene, 2), HF_OK);
    CHECK_INT(holders(client, "c"), 0);
    CHECK_CODE(hf_semaphore_set(client, "c", 0), HF_OK);
    CHECK_CODE(hf_semaphore_set(client, "c", 0), HF_OK);
    CHECK_CODE(hf_latch_set(client, "c", 1), HF_OK);
    CHECK_CODE(hf_latch_down(client, "c", 1, NULL), HF_OK);
    CHECK_CODE(probe(client, "c", HF_READ, 0), HF_OK);
    CHECK_CODE(hf_latch_wait(client, "c", 0), HF_OK);
    CHECK_CODE(probe(client, "c", HF_COUNTER, 0), HF_BUSY);
    CHECK_CODE(hf_counter_set(client, "c", 1), HF_OK);
    CHECK_CODE(hf_counter_get(client, "c", &value), HF_OK);
    CHECK_INT(value, 1);
}

TEST(receipt_of_a_killed_client_keeps_no_lock_from_its_owners)
{
    EACH_DATABASE(kind)
    {
        struct scene scene;
        begin(&scene, *kind, HF_DRIVE_THREAD);
        leave_receipt(&scene);
        look_after_it(&scene);
        use_name_for_all(&scene);
        CHECK_INT(receipts(&scene), 1);
        clean_it_away(&scene);
        end(&scene);
    }
}

TEST(client_that_closes_after_a_take_leaves_no_receipt)
{
    EACH_DATABASE(kind)
    {
        struct scene scene;
        begin(&scene, *kind, HF_DRIVE_THREAD);
        for (int i = 0; i < TAKES; i++) {
            hf_client *client = sql_open(&scene.server, scene.server.port, 0, 0);
            CHECK_CODE(hf_counter_take(client, "c", 1, 0), HF_OK);
            hf_close(client);
            CHECK_INT(receipts(&scene), 0);
        }
        CHECK_INT(value_of(&scene), UNITS - TAKES);
        end(&scene);
    }
}
