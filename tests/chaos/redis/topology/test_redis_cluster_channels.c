/* SPDX-License-Identifier: Apache-2.0 */
/* redis+cluster: where channels do not belong to a lock's own server, since the servers are older
 * than that or the user may not use them: waiters are woken, or look in time. */
#include "cluster.h"
#include "conformance.h"
#include "deeds.h"

#include <stdio.h>
#include <unistd.h>

#define JAVA "12345678-1234-4123-8123-123456789012:1"

/* The lock's own server; what is asked of the others as well must reach it. */
#define OWNER 1
#define ANOTHER 0

struct scene {
    struct cluster cluster;
    struct server *owner, *another;
    char name[40], channel[80];
};

static void begin(struct scene *scene)
{
    TEST_TIMEOUT(200);
    cluster_start(&scene->cluster, 0);
    scene->owner = &scene->cluster.nodes[OWNER];
    scene->another = &scene->cluster.nodes[ANOTHER];
    cluster_name(&scene->cluster, "one", 6000, 10000, scene->name, sizeof(scene->name));
    snprintf(scene->channel, sizeof(scene->channel), "redisson_lock__channel:{%s}", scene->name);
}

static hf_client *open_by(const char *url)
{
    hf_client *client = NULL;

    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = 600000)), HF_OK);
    return client;
}

static void begin_to_wait(const struct scene *scene, hf_client *client, struct outcome *outcome)
{
    begin_wait(client, scene->name, HF_MUTEX, outcome);
}

/* The command has the lock's name, or what is made of it, in the middle. */
static bool says(const struct server *server, const char *before, const char *name,
                 const char *after, const char *line)
{
    char command[300];

    snprintf(command, sizeof(command), "%s%s%s", before, name, after);
    return server_says(server, command, line);
}

static hf_client *open_as(const struct scene *scene, const char *user, const char *forbidden)
{
    char url[200];

    for (int i = 0; i < CLUSTER_NODES; i++)
        CHECK(says(&scene->cluster.nodes[i], "ACL SETUSER ", user, forbidden, "+OK"));
    snprintf(url, sizeof(url), "redis+cluster://%s:word@127.0.0.1:%d?timeout=%d", user,
             scene->another->port, 3000 * test_slow());
    return open_by(url);
}

#define MAY_ALL_BUT " on >word ~* &* +@all "

static bool is_queued(const struct scene *scene)
{
    return says(scene->owner, "ZCARD holdfast_lock_queue:{", scene->name, "}", ":1");
}

static void java_takes_it(const struct scene *scene)
{
    CHECK(says(scene->owner, "HSET ", scene->name, " " JAVA " 1", ":1"));
    CHECK(says(scene->owner, "PEXPIRE ", scene->name, " 600000", ":1"));
}

static void java_lets_go(const struct scene *scene)
{
    CHECK(says(scene->owner, "DEL ", scene->name, "", ":1"));
}

static void check_granted(struct outcome *outcome)
{
    give_back(await_grant(outcome));
}

/* ---- servers of before version 7 ---- */

/* To the question for a lock's own channels they answer an error, too. What has the other name is
 * for the test. */
static const char *const older[] = { "--rename-command", "PUBSUB", "HEARD", NULL };

static bool is_heard_everywhere(const struct scene *scene)
{
    return says(scene->owner, "EVAL \"return redis.call('heard', 'numsub', '", scene->channel,
                "')[2]\" 0", ":1");
}

static long looks(const struct scene *scene)
{
    return server_counts(scene->owner, "commandstats", "cmdstat_evalsha:calls=");
}

/* By looking alone it would take twice as long. */
static void check_wakes(const struct scene *scene)
{
    enum { WAKES = 20 };
    int64_t until = monotonic_ms() + WAKES / 2 * 3000;

    for (int i = 0; i < WAKES; i++) {
        long before = looks(scene);
        says(scene->another, "PUBLISH ", scene->channel, " 0", "");
        EVENTUALLY(looks(scene) > before, SOON_MS);
    }
    CHECK(monotonic_ms() < until);
}

static void check_tells(const struct scene *scene, hf_client *client)
{
    char line[200] = "";
    int words = 0;
    int fd = server_listen(scene->another, scene->channel);

    give_back(take_patiently(client, scene->name));
    says(scene->owner, "PUBLISH ", scene->channel, " end", "");
    while (strcmp(line, "end") != 0) {
        CHECK(server_hear(fd, line, sizeof(line)));
        words += strcmp(line, "0") == 0;
    }
    CHECK_INT(words, 1);
    close(fd);
}

static void check_gives_back(const struct scene *scene, const char *user, const char *rights)
{
    hf_client *client = open_as(scene, user, rights);

    give_back(take_patiently(client, scene->name));
    CHECK(says(scene->owner, "EXISTS ", scene->name, "", ":0"));
    hf_close(client);
}

TEST(older_servers_say_and_hear_releases_everywhere)
{
    static struct scene scene = { .cluster.more = older };
    struct outcome outcome = { 0 };

    begin(&scene);
    hf_client *client = open_by(cluster_url(&scene.cluster, 3000));
    check_tells(&scene, client);
    check_gives_back(&scene, "mute", MAY_ALL_BUT "-publish");
    java_takes_it(&scene);
    begin_to_wait(&scene, client, &outcome);
    EVENTUALLY(is_heard_everywhere(&scene), SOON_MS);
    check_wakes(&scene);
    CHECK_INT(outcome.calls, 0);
    java_lets_go(&scene);
    says(scene.another, "PUBLISH ", scene.channel, " 0", "");
    check_granted(&outcome);
    hf_close(client);
    cluster_kill(&scene.cluster);
}

/* ---- users who may not ---- */

TEST(who_may_not_listen_in_a_cluster_looks)
{
    static struct scene scene;
    struct outcome outcome = { 0 };
    hf_hold *hold = NULL;

    begin(&scene);
    hf_client *client = open_as(&scene, "unasking", MAY_ALL_BUT "-pubsub");
    CHECK_ERROR(hf_lock(client, scene.name, SOON_MS, NULL, &hold), HF_DENIED);
    CHECK(strstr(hf_last_error()->text, "in a cluster a user needs PUBSUB") != NULL);
    hf_close(client);
    client = open_as(&scene, "deaf", MAY_ALL_BUT "-ssubscribe");
    java_takes_it(&scene);
    begin_to_wait(&scene, client, &outcome);
    EVENTUALLY(is_queued(&scene), SOON_MS);
    CHECK_INT(outcome.calls, 0);
    java_lets_go(&scene);
    check_granted(&outcome);
    hf_close(client);
    cluster_kill(&scene.cluster);
}

/* What it does is done, though it may tell nobody, and it is told so itself. */
static void check_done_by(const struct scene *scene, const char *user, const char *rights)
{
    hf_client *client = open_as(scene, user, rights);
    hf_client *other = open_by(cluster_url(&scene->cluster, 3000));

    deeds_do(client, other);
    hf_close(client);
    hf_close(other);
}

TEST(who_may_not_say_in_a_cluster_keeps_nobody_waiting)
{
    static struct scene scene;

    begin(&scene);
    check_done_by(&scene, "mute", MAY_ALL_BUT "-spublish -publish");
    check_done_by(&scene, "half-mute", MAY_ALL_BUT "-spublish");
    check_done_by(&scene, "deaf-mute", " on >word ~* resetchannels +@all");
    cluster_kill(&scene.cluster);
}

static void wait_for_ever(void *arg)
{
    const struct scene *scene = arg;
    hf_hold *hold;

    parent_wait_for("wait");
    any_code(
        hf_lock(open_by(cluster_url(&scene->cluster, 3000)), scene->name, HF_FOREVER, NULL, &hold));
}

/* Who lives listens to its inbox at the lock's own server. */
TEST(of_waiters_the_living_are_shown)
{
    struct scene scene = { 0 };
    struct outcome outcome = { 0 };
    struct child dying;
    begin(&scene);
    child_start(&dying, wait_for_ever, &scene);
    hf_client *holder = open_by(cluster_url(&scene.cluster, 3000));
    hf_client *waiter = open_by(cluster_url(&scene.cluster, 3000));

    hf_hold *hold = take(holder, scene.name, HF_MUTEX, 0);
    child_say(&dying, "wait");
    EVENTUALLY(waiters(holder, scene.name) == 1, SOON_MS);
    begin_to_wait(&scene, waiter, &outcome);
    EVENTUALLY(waiters(holder, scene.name) == 2, SOON_MS);
    child_kill(&dying);
    EVENTUALLY(waiters(holder, scene.name) == 1, SOON_MS);
    CHECK(says(scene.owner, "ZCARD holdfast_lock_queue:{", scene.name, "}", ":2"));
    give_back(hold);
    WAIT_OUTCOME(&outcome);
    give_back(outcome.hold);
    hf_close(waiter);
    hf_close(holder);
    cluster_kill(&scene.cluster);
}

/* Nobody asks the servers for the lock without it, or they would say where it is. */
TEST(who_may_not_have_the_map_has_no_lock_the_next_time_either)
{
    static struct scene scene;
    hf_hold *hold = NULL;

    begin(&scene);
    hf_client *client = open_as(&scene, "lost", MAY_ALL_BUT "-cluster");
    for (int i = 0; i < 3; i++) {
        CHECK_ERROR(hf_lock(client, scene.name, 0, NULL, &hold), HF_DENIED);
        CHECK(strstr(hf_last_error()->text, "+cluster|slots") != NULL);
    }
    hf_close(client);
    cluster_kill(&scene.cluster);
}

/* It is the first question of a greeting there that says so. */
TEST(who_lacks_the_password_of_a_cluster_is_denied)
{
    struct server server = { 0 };
    hf_client *client = NULL;
    hf_hold *hold = NULL;
    char url[80];

    server_start(&server);
    CHECK(server_says(&server, "CONFIG SET requirepass secret", "+OK"));
    snprintf(url, sizeof(url), "redis+cluster://127.0.0.1:%d", server.port);
    CHECK_CODE(hf_open(&client, url, NULL), HF_OK);
    CHECK_ERROR(hf_lock(client, "one", HF_FOREVER, NULL, &hold), HF_DENIED);
    CHECK(strstr(hf_last_error()->text, "password") != NULL);
    hf_close(client);
    server_kill(&server);
}
