/* SPDX-License-Identifier: Apache-2.0 */
/* A server that is found by its host's name: slow look-ups, and hosts with several addresses. The
 * store under test is at an address of this machine. */
#include "conformance.h"
#include "resolver.h"
#include "server.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define LOCAL "127.0.0.1:"

/* The server's port, from the URL of the store under test. */
static int store_port(void)
{
    const char *at = strstr(store_url(), LOCAL);
    if (!at)
        SKIP("the store under test is not at %s", LOCAL);
    return (int)strtol(at + strlen(LOCAL), NULL, 10);
}

/* The same URL at the host that the resolver of this program knows. The port is the resolver's
 * matter; this one has no server. */
static hf_client *open_driven(int timeout_ms, hf_driver driver)
{
    char url[500];
    const char *given = store_url(), *at = strstr(given, LOCAL);
    const char *behind = at ? at + strlen(LOCAL) + strspn(at + strlen(LOCAL), "0123456789") : "";
    const char *options = strchr(behind, '?'), *limit = strstr(behind, "timeout=");
    const char *more = limit ? limit + strcspn(limit, "&") : "";
    hf_client *client = NULL;
    CHECK(at != NULL);
    /* A thread that is still connecting when its client is closed ends by itself. */
    test_fds_close_late = store_has_threads();
    snprintf(url, sizeof url, "%.*sstore.test:1%.*s%ctimeout=%d%s", (int)(at - given), given,
             (int)((limit ? limit - 1 : behind + strlen(behind)) - behind), behind,
             limit || !options ? limit ? limit[-1] : '?' : '&', timeout_ms, more);
    hf_client_options options_of_client = HF_CLIENT_OPTIONS_INIT;
    options_of_client.driver = driver;
    CHECK_CODE(hf_open(&client, url, &options_of_client), HF_OK);
    return client;
}

static hf_client *open_named(int timeout_ms)
{
    return open_driven(timeout_ms, HF_DRIVE_THREAD);
}

static void check_lock(hf_client *client)
{
    hf_hold *hold = NULL;
    CHECK_CODE(hf_lock(client, name_of("one"), SOON_MS, NULL, &hold), HF_OK);
    give_back(hold);
}

/* The look-ups end after the client: no hf_close may wait for them. */
TEST(close_during_blocked_lookup_does_not_wait_for_it)
{
    hf_hold *hold;
    TEST_TIMEOUT(60);
    resolver_set(1, &(int){ store_port() });
    hf_client *client = open_named(500);
    resolver_block();
    CHECK_CODE(hf_lock(client, name_of("one"), 1000, NULL, &hold), HF_UNREACHABLE);
    hf_close(client);
    CHECK_INT(resolver_ended(), 0);
    CHECK(resolver_begun() > 0);
    resolver_release();
    EVENTUALLY(resolver_ended() == resolver_begun(), SOON_MS);
}

TEST(reconnecting_during_blocked_lookup_begins_no_other)
{
    hf_hold *hold;
    resolver_set(1, &(int){ store_port() });
    hf_client *client = open_named(200);
    resolver_block();
    /* Each of these sees several connections fail. */
    for (int i = 0; i < 3; i++)
        CHECK_CODE(hf_lock(client, name_of("one"), 1500, NULL, &hold), HF_UNREACHABLE);
    CHECK_INT(resolver_begun(), 1);
    resolver_release();
    hf_close(client);
    EVENTUALLY(resolver_ended() == resolver_begun(), SOON_MS);
}

/* A name server that takes longer than a connection may is still of use to the next one. */
TEST(late_answer_of_a_lookup_serves_the_next_connection)
{
    struct outcome outcome = { 0 };
    hf_hold *hold;
    resolver_set(1, &(int){ store_port() });
    hf_client *client = open_named(1000);
    resolver_block();
    CHECK_CODE(hf_lock(client, name_of("one"), 2500, NULL, &hold), HF_UNREACHABLE);
    CHECK_CODE(
        hf_lock_async(client, name_of("one"), HF_FOREVER, NULL, record_outcome, &outcome, NULL),
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
    TEST_ALLOW_FD_LEAKS();
    resolver_set(3, (int[]){ silent_port(), silent_port(), store_port() });
    hf_client *client = open_named(6000);
    check_lock(client);
    hf_close(client);
}

/* ---- a program that runs the loop itself, and is busy while the address stays silent ---- */

#define SILENT_TIMEOUT_MS 12000

/* Until the time of the first address is over, but not that of the connection. */
static void be_busy(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    int64_t *free_at_ms = arg;
    (void)code, (void)hold, (void)error;
    while (monotonic_ms() < *free_at_ms)
        ;
}

TEST(silent_address_is_passed_over_by_a_program_that_only_polls)
{
    TEST_ALLOW_FD_LEAKS();
    struct outcome outcome = { 0 };
    resolver_set(2, (int[]){ silent_port(), store_port() });
    hf_client *client = open_driven(SILENT_TIMEOUT_MS, HF_DRIVE_CALLER);
    int64_t free_at_ms = monotonic_ms() + SILENT_TIMEOUT_MS * 2 / 3;
    begin_wait(client, name_of("one"), HF_MUTEX, &outcome);
    CHECK_CODE(hf_lock_async(client, name_of("two"), SILENT_TIMEOUT_MS / 3, NULL, be_busy,
                             &free_at_ms, NULL),
               HF_OK);
    /* Then the connection has no time left, and the next one begins with the other address. */
    int64_t until_ms = free_at_ms + SILENT_TIMEOUT_MS / 6;
    while (outcome.calls == 0) {
        struct pollfd pollfd = { .fd = hf_fd(client), .events = POLLIN };
        CHECK(monotonic_ms() < until_ms);
        if (poll(&pollfd, 1, 100) > 0)
            CHECK_CODE(hf_dispatch(client), HF_OK);
    }
    CHECK_CODE(outcome.code, HF_OK);
    give_back(outcome.hold);
    hf_close(client);
}

/* It accepts, so it may take the time that the whole connection has. */
TEST(mute_first_address_is_passed_over_by_the_next_connection)
{
    TEST_ALLOW_FD_LEAKS();
    resolver_set(2, (int[]){ mute_port(), store_port() });
    hf_client *client = open_named(3000);
    check_lock(client);
    hf_close(client);
}

TEST(refused_first_address_is_passed_over)
{
    resolver_set(2, (int[]){ free_port(), store_port() });
    hf_client *client = open_named(SOON_MS);
    check_lock(client);
    hf_close(client);
}

/* The longest idle time before the first probe on our connections to the port, in seconds; 0:
 * there is no such connection. */
static int keepalive_idle_s(int port)
{
    DIR *directory = opendir("/proc/self/fd");
    struct dirent *entry;
    int longest_s = 0;
    CHECK(directory != NULL);
    while ((entry = readdir(directory))) {
        struct sockaddr_in peer = { 0 };
        int idle_s = 0;
        socklen_t peer_size = sizeof peer, idle_size = sizeof idle_s;
        int fd = (int)strtol(entry->d_name, NULL, 10);
        if (getpeername(fd, (struct sockaddr *)&peer, &peer_size) != 0 ||
            peer.sin_family != AF_INET || ntohs(peer.sin_port) != port)
            continue;
        CHECK(getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, &idle_size) == 0);
        longest_s = idle_s > longest_s ? idle_s : longest_s;
    }
    closedir(directory);
    return longest_s;
}

TEST(connections_are_probed_within_20_seconds)
{
    int port = store_port();
    resolver_set(1, &port);
    hf_client *client = open_named(SOON_MS);
    check_lock(client);
    CHECK(keepalive_idle_s(port) > 0);
    CHECK(keepalive_idle_s(port) <= 20);
    hf_close(client);
}
