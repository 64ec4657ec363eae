/* SPDX-License-Identifier: Apache-2.0 */
/* A server that refuses a client before it reads what the client wants, or that is not the server
 * that the URL needs. Each refusal has its code, and a sentence that says what to do. */
#include "conformance.h"
#include "server.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define LEASE_MS 3000
#define CLIENTS_MAX 6

static hf_client *open_url(const char *url)
{
    hf_client *client = NULL;
    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = LEASE_MS)), HF_OK);
    return client;
}

static void check_words(const char *words)
{
    test_note("%s", hf_last_error()->text);
    if (!strstr(hf_last_error()->text, words))
        FAIL("\"%s\" is not in it", words);
}

/* A bare try, and one that waits for a moment. */
static void check_refused(const char *url, int code, const char *words)
{
    hf_client *client = open_url(url);
    hf_hold *hold = NULL;

    CHECK_ERROR(hf_lock(client, "one", 0, NULL, &hold), code);
    check_words(words);
    CHECK_ERROR(hf_lock(client, "one", 1500, NULL, &hold), code);
    check_words(words);
    hf_close(client);
}

/* ---- maxclients ---- */

static bool can_connect(const struct server *server)
{
    return server_says(server, "PING", "+PONG");
}

/* Takes every connection that the server has left, but for those that are just ending. */
static int fill(const struct server *server, int fds[CLIENTS_MAX])
{
    char command[60];
    int count = 0;

    snprintf(command, sizeof command, "CONFIG SET maxclients %d", CLIENTS_MAX);
    CHECK(server_says(server, command, "+OK"));
    while (count < CLIENTS_MAX && can_connect(server))
        fds[count++] = server_listen(server, "nothing");
    EVENTUALLY(!can_connect(server), SOON_MS);
    return count;
}

TEST(server_that_is_full_says_so)
{
    struct server server = { 0 };
    struct outcome outcome = { 0 };
    int fds[CLIENTS_MAX];
    char url[100];

    server_start(&server);
    int count = fill(&server, fds);
    check_refused(server_url(&server, 5000), HF_ELIMIT, "maxclients");
    snprintf(url, sizeof url, "redis://127.0.0.1:%d/2", server.port);
    check_refused(url, HF_ELIMIT, "maxclients");
    /* A client that waits is let in when there is room. */
    hf_client *client = open_url(server_url(&server, 5000));
    begin_wait(client, "one", HF_MUTEX, &outcome);
    let_pass_ms(500);
    CHECK_INT(outcome.calls, 0);
    for (int i = 0; i < count; i++)
        close(fds[i]);
    give_back(await_grant(&outcome));
    hf_close(client);
    server_kill(&server);
}

/* ---- protected mode ---- */

/* An address of this machine that other machines use, or NULL. */
static const char *outer_address(void)
{
    static char text[INET_ADDRSTRLEN];
    struct ifaddrs *all = NULL;

    *text = '\0';
    CHECK(getifaddrs(&all) == 0);
    for (struct ifaddrs *each = all; each && !*text; each = each->ifa_next)
        if (each->ifa_addr && each->ifa_addr->sa_family == AF_INET &&
            !(each->ifa_flags & IFF_LOOPBACK))
            inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)each->ifa_addr)->sin_addr, text,
                      sizeof text);
    freeifaddrs(all);
    return *text ? text : NULL;
}

TEST(server_in_protected_mode_says_so)
{
    static const char *const everywhere[] = { "--bind", "*", "--protected-mode", "yes", NULL };
    struct server server = { .arguments = everywhere };
    const char *address = outer_address();
    char url[100];

    if (!address)
        SKIP("this machine has no address but loopback");
    server_start(&server);
    snprintf(url, sizeof url, "redis://%s:%d", address, server.port);
    check_refused(url, HF_DENIED, "protected mode");
    server_kill(&server);
}

/* ---- a password that changes ---- */

struct told {
    _Atomic int losses;
    char reason[400];
};

static void lost(void *arg, const hf_loss *loss)
{
    struct told *told = arg;

    snprintf(told->reason, sizeof told->reason, "%s", loss->reason);
    told->losses++;
}

TEST(holder_hears_that_the_password_is_wrong)
{
    struct server server = { .password = "one" };
    struct told told = { 0 };
    hf_hold *hold = NULL;
    char url[100];

    server_start(&server);
    snprintf(url, sizeof url, "redis://:one@127.0.0.1:%d", server.port);
    hf_client *client = open_url(url);
    CHECK_CODE(
        hf_lock(client, "one", SOON_MS, LOCK_OPTIONS(.on_lost = lost, .lost_arg = &told), &hold),
        HF_OK);
    CHECK(server_says(&server, "CONFIG SET requirepass two", "+OK"));
    server.password = "two";
    CHECK(server_tell(&server, "CLIENT KILL TYPE normal SKIPME yes", NULL, 0));
    EVENTUALLY(told.losses == 1, SOON_MS);
    test_note("%s", told.reason);
    CHECK(strstr(told.reason, "its lease could not be renewed: Redis at 127.0.0.1") != NULL);
    CHECK(strstr(told.reason, "the password is wrong") != NULL);
    hf_unlock_nowait(hold);
    hf_close(client);
    server_kill(&server);
}

/* ---- servers that cannot do it ---- */

TEST(server_without_eval_is_not_supported)
{
    static const char *const renamed[] = { "--rename-command", "EVAL", "UNHEARD", NULL };
    struct server server = { 0 };

    server_start(&server);
    server_kill(&server);
    server.arguments = renamed;
    server_start_again(&server);
    check_refused(server_url(&server, 5000), HF_ENOTSUP, "rename-command");
    check_words("EVAL");
    CHECK(strstr(hf_last_error()->text, "local ") == NULL);
    server_kill(&server);
}

TEST(sentinel_given_as_a_server_is_not_supported)
{
    struct server sentinel = { 0 };

    server_start_sentinel(&sentinel, "");
    check_refused(server_url(&sentinel, 5000), HF_ENOTSUP, "redis+sentinel:");
    server_kill(&sentinel);
}
