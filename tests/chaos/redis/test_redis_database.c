/* SPDX-License-Identifier: Apache-2.0 */
/* The database that a URL of Redis names, in its path or behind a socket's path: all is there, on
 * new connections as well, and nothing is elsewhere. */
#include "conformance.h"
#include "server.h"

#include <stdio.h>

struct scene {
    struct server server;
    char in_path[100], by_option[200]; /* URLs without the database's number */
};

static void begin(struct scene *scene)
{
    static char socket_path[120];
    static const char *const arguments[] = { "--unixsocket", socket_path, NULL };

    snprintf(socket_path, sizeof(socket_path), "%s", temp_path("redis.sock"));
    scene->server.arguments = arguments;
    server_start(&scene->server);
    snprintf(scene->in_path, sizeof(scene->in_path), "redis://127.0.0.1:%d/", scene->server.port);
    snprintf(scene->by_option, sizeof(scene->by_option), "redis+unix://%s?db=", socket_path);
}

static hf_client *open_database(const char *url, const char *number)
{
    hf_client *client = NULL;
    char whole[220];

    snprintf(whole, sizeof(whole), "%s%s", url, number);
    CHECK_CODE(hf_open(&client, whole, NULL), HF_OK);
    return client;
}

static void lock_in_the_third(const struct scene *scene, const char *url)
{
    const struct server *server = &scene->server;
    struct outcome outcome = { 0 };
    hf_client *client = open_database(url, "3"), *other = open_database(url, "3");
    hf_client *elsewhere = open_database(url, "0");
    hf_hold *hold = take_patiently(client, "one");

    CHECK(server_has_in(server, 3, "one"));
    CHECK(server_has_in(server, 3, "redisson_lock_token:{one}"));
    CHECK_CODE(probe(elsewhere, "one", HF_MUTEX, 0), HF_OK);
    begin_wait(other, "one", HF_MUTEX, &outcome);
    EVENTUALLY(server_has_in(server, 3, "holdfast_lock_queue:{one}"), SOON_MS);
    give_back(hold);
    await_grant(&outcome);
    CHECK(server_has_in(server, 3, "one"));
    CHECK(server_tell(server, "CLIENT KILL TYPE normal", NULL, 0));
    hold = take_patiently(client, "two");
    CHECK(server_has_in(server, 3, "two"));
    give_back(hold);
    give_back(outcome.hold);
    CHECK(!server_has_in(server, 3, "one"));
    CHECK(!server_has_in(server, 3, "two"));
    hf_close(client);
    hf_close(other);
    hf_close(elsewhere);
}

TEST(all_is_in_the_database_of_the_path)
{
    struct scene scene = { 0 };

    begin(&scene);
    lock_in_the_third(&scene, scene.in_path);
    server_kill(&scene.server);
}

TEST(all_is_in_the_database_behind_a_sockets_path)
{
    struct scene scene = { 0 };

    begin(&scene);
    lock_in_the_third(&scene, scene.by_option);
    server_kill(&scene.server);
}

TEST(a_database_that_is_not_there_is_named)
{
    struct scene scene = { 0 };
    hf_hold *hold = NULL;

    begin(&scene);
    const char *const urls[] = { scene.in_path, scene.by_option };
    for (int i = 0; i < 2; i++) {
        hf_client *client = open_database(urls[i], "16");
        CHECK_ERROR(hf_lock(client, "one", 0, NULL, &hold), HF_EINVAL);
        CHECK(strstr(hf_last_error()->text, "no database 16") != NULL);
        hf_close(client);
    }
    server_kill(&scene.server);
}
