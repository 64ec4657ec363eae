/* SPDX-License-Identifier: Apache-2.0 */
/* A server on which everybody may make nodes, and nobody may delete them: what cannot be given back
 * is said, once, and goes with the session. */
#include "conformance.h"
#include "zookeeper_raw.h"
#include "zookeeper_server.h"

/* So long that nothing here waits for its end. */
#define LONG_MS 40000
/* To read, to write, and to make nodes below; not to delete these. */
#define NO_DELETION (1 | 2 | 4)
#define REVOKED (NO_DELETION | 16)
#define ALL 31

/* ---- the scene ---- */

struct scene {
    struct zookeeper_server server;
    hf_client *near, *far;
    int nodes; /* that stay */
};

static hf_client *open_on(const struct scene *scene)
{
    hf_client *client = NULL;

    CHECK_CODE(hf_open(&client, zookeeper_url(scene->server.port),
                       &HF_CLIENT_OPTIONS(.lease_ms = LONG_MS)),
               HF_OK);
    return client;
}

/* A server that is late is asked again. */
static int nodes_of(const struct scene *scene)
{
    int nodes = -1;

    EVENTUALLY((nodes = zookeeper_nodes(&scene->server)) >= 0, SOON_MS);
    return nodes;
}

static void begin_scene(struct scene *scene)
{
    struct zookeeper_raw maker;

    zookeeper_start(&scene->server);
    raw_begin(&maker, scene->server.port);
    raw_make(&maker, "/chaos", ALL);
    raw_make(&maker, "/chaos/one", NO_DELETION);
    raw_make(&maker, "/chaos/latch", NO_DELETION);
    raw_make(&maker, "/chaos/waited", ALL);
    raw_make(&maker, "/chaos/held", ALL);
    raw_make(&maker, "/chaos/ended", ALL);
    raw_make(&maker, "/chaos/heads", ALL);
    raw_make(&maker, "/chaos/heads/locks", NO_DELETION);
    raw_make(&maker, "/chaos/heads/leases", ALL);
    raw_make(&maker, "/chaos/stuck", ALL);
    raw_make(&maker, "/chaos/stuck/locks", NO_DELETION);
    raw_make(&maker, "/chaos/stuck/leases", NO_DELETION);
    raw_end(&maker);
    scene->nodes = nodes_of(scene);
    scene->near = open_on(scene);
    scene->far = open_on(scene);
}

static void check_denied(int code)
{
    CHECK_ERROR(code, HF_DENIED);
    CHECK(strstr(hf_last_error()->text, "until this client") != NULL);
}

/* Whoever waits for another kind of lock takes his node back. */
static void wait_behind_another_kind(struct scene *scene)
{
    hf_hold *held = take(scene->far, "one", HF_FAIR, 0), *hold = NULL;

    check_denied(hf_lock(scene->near, "one", SOON_MS, NULL, &hold));
    check_denied(hf_unlock(held));
}

static void wait_at_a_latch(struct scene *scene)
{
    struct outcome outcome = { 0 };
    uint32_t count = 0;

    CHECK_CODE(hf_latch_set(scene->far, "latch", 1), HF_OK);
    CHECK_CODE(hf_lock_async(scene->near, "latch", SOON_MS, LOCK_OPTIONS(.mode = HF_LATCH),
                             record_outcome, &outcome, NULL),
               HF_OK);
    EVENTUALLY(waiters(scene->far, "latch") == 1, SOON_MS);
    CHECK_CODE(hf_latch_down(scene->far, "latch", 1, &count), HF_OK);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_DENIED);
    CHECK(strstr(outcome.text, "until this client") != NULL);
}

/* What it has taken meanwhile comes back, if it may; and who failed does not hold. */
static void take_permits(struct scene *scene, const char *name)
{
    const hf_lock_options *two = LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 2, .limit = 3);
    hf_hold *hold = NULL;

    check_denied(hf_lock(scene->near, name, SOON_MS, two, &hold));
    EVENTUALLY(holders(scene->far, name) == 0, SOON_MS);
}

TEST(what_may_not_be_deleted_is_told_and_goes_with_the_session)
{
    static struct scene scene;
    begin_scene(&scene);

    wait_behind_another_kind(&scene);
    wait_at_a_latch(&scene);
    take_permits(&scene, "heads");
    take_permits(&scene, "stuck");
    give_back(take(scene.near, "elsewhere", HF_MUTEX, 0));
    hf_close(scene.near);
    hf_close(scene.far);
    /* But for the one above what was taken elsewhere. */
    EVENTUALLY(nodes_of(&scene) <= scene.nodes + 1, SOON_MS);
    zookeeper_kill(&scene.server);
}

/* ---- rights that come and go ---- */

static void allow(const struct scene *scene, const char *path, int rights)
{
    struct zookeeper_raw raw;

    raw_begin(&raw, scene->server.port);
    raw_allow(&raw, path, rights);
    raw_end(&raw);
}

/* One node of a waiter's stays, and one of a holder's. The rights are back after that, so that no
 * other client is hindered by them. */
static void leave_nodes_behind(struct scene *scene, hf_hold *held)
{
    hf_hold *hold = NULL;

    allow(scene, "/chaos/waited", REVOKED);
    allow(scene, "/chaos/held", REVOKED);
    check_denied(hf_lock(scene->near, "waited", SOON_MS, NULL, &hold));
    check_denied(hf_unlock(held));
    allow(scene, "/chaos/waited", ALL);
    allow(scene, "/chaos/held", ALL);
}

TEST(node_that_may_not_be_deleted_goes_when_no_lock_is_held_on_its_session)
{
    static struct scene scene;
    struct outcome outcome = { 0 };
    begin_scene(&scene);

    hf_hold *kept = take(scene.near, "long", HF_MUTEX, 0);
    hf_hold *in_front = take(scene.far, "waited", HF_FAIR, 0);
    hf_hold *other = take(scene.far, "three", HF_MUTEX, 0);
    begin_wait(scene.near, "three", HF_MUTEX, &outcome);
    EVENTUALLY(waiters(scene.far, "three") == 1, SOON_MS);
    leave_nodes_behind(&scene, take(scene.near, "held", HF_MUTEX, 0));
    /* Held from now on: it must not keep the nodes. */
    hf_hold *later = take(scene.near, "later", HF_MUTEX, 0);
    CHECK(hf_held(kept));
    CHECK_INT(waiters(scene.far, "waited"), 1);
    CHECK_INT(holders(scene.far, "held"), 1);
    give_back(kept);
    EVENTUALLY(waiters(scene.far, "waited") == 0, SOON_MS);
    EVENTUALLY(holders(scene.far, "held") == 0, SOON_MS);
    give_back(in_front);
    give_back(take(scene.far, "waited", HF_MUTEX, 0));
    /* The waiter beside them has taken a new place. */
    give_back(other);
    give_back(await_grant(&outcome));
    CHECK(hf_held(later));
    give_back(later);
    hf_close(scene.near);
    hf_close(scene.far);
    zookeeper_kill(&scene.server);
}

/* The refusal of the deletion at the end of a lease of its own is told to no caller. */
TEST(node_that_may_not_be_deleted_at_its_own_end_goes_with_its_session)
{
    static struct scene scene;
    hf_hold *hold = NULL;
    begin_scene(&scene);

    allow(&scene, "/chaos/ended", REVOKED);
    CHECK_CODE(hf_lock(scene.near, "ended", 0, LOCK_OPTIONS(.lease_ms = 1000), &hold), HF_OK);
    EVENTUALLY(!hf_held(hold), SOON_MS);
    EVENTUALLY(holders(scene.far, "ended") == 0, SOON_MS);
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    allow(&scene, "/chaos/ended", ALL);
    give_back(take(scene.near, "ended", HF_MUTEX, 0));
    hf_close(scene.near);
    hf_close(scene.far);
    zookeeper_kill(&scene.server);
}
