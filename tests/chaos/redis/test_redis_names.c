/* SPDX-License-Identifier: Apache-2.0 */
/* A Redis server that is found by its host's name: slow look-ups, and hosts with several addresses.
 */
#include "conformance.h"
#include "resolver.h"
#include "server.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>

static hf_client *open_named(int timeout_ms)
{
    char url[100];
    hf_client *client = NULL;
    snprintf(url, sizeof url, "redis://store.test:6379?timeout=%d", timeout_ms);
    CHECK_CODE(hf_open(&client, url, NULL), HF_OK);
    return client;
}

/* The look-ups end after the client: no hf_close may wait for them. */
TEST(close_during_blocked_lookup_does_not_wait_for_it)
{
    hf_client *client = open_named(500);
    hf_hold *hold;
    TEST_TIMEOUT(60);
    resolver_set(1, &(int){ free_port() });
    resolver_block();
    CHECK_CODE(hf_lock(client, "one", 1000, NULL, &hold), HF_UNREACHABLE);
    hf_close(client);
    CHECK_INT(resolver_ended(), 0);
    CHECK(resolver_begun() > 0);
    resolver_release();
    EVENTUALLY(resolver_ended() == resolver_begun(), SOON_MS);
}

TEST(reconnecting_during_blocked_lookup_begins_no_other)
{
    hf_client *client = open_named(200);
    hf_hold *hold;
    resolver_set(1, &(int){ free_port() });
    resolver_block();
    /* Each of these sees several connections fail. */
    for (int i = 0; i < 3; i++)
        CHECK_CODE(hf_lock(client, "one", 1500, NULL, &hold), HF_UNREACHABLE);
    CHECK_INT(resolver_begun(), 1);
    resolver_release();
    hf_close(client);
    EVENTUALLY(resolver_ended() == resolver_begun(), SOON_MS);
}

/* A name server that takes longer than a connection may is still of use to the next one. */
TEST(late_answer_of_a_lookup_serves_the_next_connection)
{
    struct server server = { 0 };
    struct outcome outcome = { 0 };
    TEST_ALLOW_FD_LEAKS();
    server_start(&server);
    hf_client *client = open_named(300);
    hf_hold *hold;
    resolver_set(1, &server.port);
    resolver_block();
    CHECK_CODE(hf_lock(client, "one", 1500, NULL, &hold), HF_UNREACHABLE);
    CHECK_CODE(hf_lock_async(client, "one", HF_FOREVER, NULL, record_outcome, &outcome, NULL),
               HF_OK);
    resolver_release();
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_OK);
    CHECK_INT(resolver_begun(), 1);
    give_back(outcome.hold);
    hf_close(client);
}

TEST(silent_first_address_leaves_time_for_the_second)
{
    struct server server = { 0 };
    TEST_ALLOW_FD_LEAKS();
    server_start(&server);
    /* One connection attempt lasts longer than the caller waits. */
    hf_client *client = open_named(2 * SOON_MS);
    hf_hold *hold = NULL;
    resolver_set(3, (int[]){ silent_port(), silent_port(), server.port });
    CHECK_CODE(hf_lock(client, "one", 2 * SOON_MS, NULL, &hold), HF_OK);
    give_back(hold);
    hf_close(client);
}

/* It accepts, so it takes the time that the whole connection has. */
TEST(mute_first_address_is_passed_over_by_the_next_connection)
{
    struct server server = { 0 };
    TEST_ALLOW_FD_LEAKS();
    server_start(&server);
    hf_client *client = open_named(1000);
    hf_hold *hold = NULL;
    resolver_set(2, (int[]){ mute_port(), server.port });
    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
    give_back(hold);
    hf_close(client);
}

/* The idle time before the first probe on our connections to the port, in seconds; 0: there is no
 * such connection. */
static int keepalive_idle_s(int port)
{
    DIR *directory = opendir("/proc/self/fd");
    struct dirent *entry;
    int idle_s = 0;
    CHECK(directory != NULL);
    while ((entry = readdir(directory))) {
        struct sockaddr_in peer = { 0 };
        socklen_t peer_size = sizeof peer, idle_size = sizeof idle_s;
        int fd = (int)strtol(entry->d_name, NULL, 10);
        if (getpeername(fd, (struct sockaddr *)&peer, &peer_size) == 0 &&
            peer.sin_family == AF_INET && ntohs(peer.sin_port) == port)
            CHECK(getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, &idle_size) == 0);
    }
    closedir(directory);
    return idle_s;
}

TEST(connections_are_probed_after_20_seconds)
{
    struct server server = { 0 };
    TEST_ALLOW_FD_LEAKS();
    server_start(&server);
    hf_client *client = open_named(4000);
    hf_hold *hold = NULL;
    resolver_set(1, &server.port);
    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
    CHECK_INT(keepalive_idle_s(server.port), 20);
    give_back(hold);
    hf_close(client);
}
