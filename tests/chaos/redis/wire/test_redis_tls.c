/* SPDX-License-Identifier: Apache-2.0 */
/* TLS to a real server: what is trusted, what is refused, in which words, and what happens when the
 * server is slow, gone, or somebody else. */
#include "certificate.h"
#include "conformance.h"
#include "server.h"

#include <stdio.h>

/* Held over a connection that is killed, on a machine that may be slow. */
#define LEASE_MS 3000

struct secured {
    struct server server;
    int port; /* with TLS; server.port is the one without */
    char port_text[8];
    char files[3][400];
    const char *arguments[16];
};

/* The authority "ours" and what it signed: "good" for the server, "guest" for a client. */
static void make_certificates(void)
{
    certificate_make("ours", NULL, NULL, -DAY_S, DAY_S);
    certificate_make("good", "ours", "IP:127.0.0.1,DNS:localhost", -DAY_S, DAY_S);
    certificate_make("guest", "ours", "DNS:guest", -DAY_S, DAY_S);
}

/* A server that shows the certificate of that name. */
static void secured_start(struct secured *secured, const char *certificate, const char *clients)
{
    struct server *server = &secured->server;

    secured->port = free_port();
    snprintf(secured->port_text, sizeof(secured->port_text), "%d", secured->port);
    snprintf(secured->files[0], sizeof(secured->files[0]), "%s", temp_path("%s.crt", certificate));
    snprintf(secured->files[1], sizeof(secured->files[1]), "%s", temp_path("%s.key", certificate));
    snprintf(secured->files[2], sizeof(secured->files[2]), "%s", temp_path("ours.crt"));
    const char *const arguments[] = {
        "--tls-port",
        secured->port_text,
        "--tls-cert-file",
        secured->files[0],
        "--tls-key-file",
        secured->files[1],
        "--tls-ca-cert-file",
        secured->files[2],
        "--tls-auth-clients",
        clients,
        NULL,
    };
    memcpy(secured->arguments, arguments, sizeof(arguments));
    server->arguments = secured->arguments;
    server_start(server);
}

/* rediss://HOST:PORT?timeout=...&OPTIONS, valid until the thread asks again. */
static const char *secured_url(const struct secured *secured, const char *host, const char *options)
{
    static _Thread_local char url[1500];

    snprintf(url, sizeof(url), "rediss://%s:%d?timeout=%d%s", host, secured->port,
             3000 * test_slow(), options);
    return url;
}

static const char *trusting(void)
{
    static _Thread_local char option[500];

    snprintf(option, sizeof(option), "&ca=%s", temp_path("ours.crt"));
    return option;
}

static hf_client *open_url(const char *url, int64_t lease_ms)
{
    hf_client *client = NULL;

    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = lease_ms)), HF_OK);
    return client;
}

/* What a bare try at the URL answers; its sentence has these words in it. */
static void meet(const char *url, int code, const char *words)
{
    hf_client *client = open_url(url, 0);
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, "one", 0, NULL, &hold), code);
    if (code == HF_OK) {
        give_back(hold);
    } else {
        test_note("%s", hf_last_error()->text);
        if (!strstr(hf_last_error()->text, words))
            FAIL("\"%s\" is not in \"%s\"", words, hf_last_error()->text);
    }
    hf_close(client);
}

TEST(locks_are_taken_waited_for_and_given_back)
{
    struct secured secured = { 0 };
    make_certificates();
    secured_start(&secured, "good", "no");
    const int64_t lease_ms = LEASE_MS * test_slow();
    hf_client *client = open_url(secured_url(&secured, "127.0.0.1", trusting()), lease_ms);
    hf_client *other = open_url(secured_url(&secured, "localhost", trusting()), lease_ms);
    struct outcome outcome = { 0 };

    for (int i = 0; i < 3; i++) {
        hf_hold *hold = take(client, "one", HF_MUTEX, 0);
        outcome = (struct outcome){ 0 };
        begin_wait(other, "one", HF_MUTEX, &outcome);
        /* Longer than the lease: it is renewed. */
        let_pass_ms(i ? 0 : lease_ms + 200);
        CHECK_INT(outcome.calls, 0);
        CHECK(server_tell(&secured.server, "CLIENT KILL TYPE normal SKIPME yes", NULL, 0));
        give_back(hold);
        give_back(await_grant(&outcome));
    }
    hf_close(client);
    hf_close(other);
    server_kill(&secured.server);
}

/* Many questions gather while nobody reads; none is lost, and none is half sent. */
TEST(much_is_said_to_a_server_that_reads_late)
{
    enum { COUNT = 4000 };
    static struct outcome outcomes[COUNT];
    struct secured secured = { 0 };
    char name[HF_NAME_MAX + 1];

    make_certificates();
    secured_start(&secured, "good", "no");
    char url[1500];
    snprintf(url, sizeof(url), "rediss://127.0.0.1:%d?timeout=60000%s", secured.port, trusting());
    hf_client *client = open_url(url, 120000);
    give_back(take(client, "warm", HF_MUTEX, 0));
    server_stop(&secured.server);
    memset(name, 'n', sizeof(name) - 1);
    for (int i = 0; i < COUNT; i++) {
        snprintf(name + 1000, sizeof(name) - 1000, "%d", i);
        begin_wait(client, name, HF_MUTEX, &outcomes[i]);
    }
    let_pass_ms(100);
    server_continue(&secured.server);
    for (int i = 0; i < COUNT; i++) {
        await_grant(&outcomes[i]);
        hf_unlock_nowait(outcomes[i].hold);
    }
    hf_close(client);
    server_kill(&secured.server);
}

TEST(who_cannot_be_trusted_is_refused)
{
    struct secured secured = { 0 };
    make_certificates();
    certificate_make("theirs", NULL, NULL, -DAY_S, DAY_S);
    certificate_make("elsewhere", "ours", "DNS:elsewhere.example,IP:192.0.2.1", -DAY_S, DAY_S);
    certificate_make("stale", "ours", "IP:127.0.0.1", -2 * DAY_S, -DAY_S);
    certificate_make("early", "ours", "IP:127.0.0.1", DAY_S, 2 * DAY_S);
    static const struct {
        const char *shown, *host, *words;
    } tries[] = {
        { "theirs", "127.0.0.1", "no trusted authority" },
        { "elsewhere", "127.0.0.1", "another host than \"127.0.0.1\"" },
        { "elsewhere", "localhost", "another host than \"localhost\"" },
        { "stale", "127.0.0.1", "has expired" },
        { "early", "127.0.0.1", "not valid yet" },
    };

    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        secured_start(&secured, tries[i].shown, "no");
        meet(secured_url(&secured, tries[i].host, trusting()), HF_DENIED, tries[i].words);
        char options[600];
        snprintf(options, sizeof(options), "%s&verify=insecure", trusting());
        meet(secured_url(&secured, tries[i].host, options), HF_OK, "");
        server_kill(&secured.server);
    }
    secured_start(&secured, "good", "no");
    meet(secured_url(&secured, "127.0.0.1", ""), HF_DENIED, "ca=FILE");
    server_kill(&secured.server);
}

TEST(a_server_may_want_a_certificate_of_ours)
{
    struct secured secured = { 0 };
    char options[1200];

    make_certificates();
    certificate_make("theirs", NULL, NULL, -DAY_S, DAY_S);
    certificate_make("spy", "theirs", "DNS:spy", -DAY_S, DAY_S);
    secured_start(&secured, "good", "yes");
    meet(secured_url(&secured, "127.0.0.1", trusting()), HF_DENIED, "cert=FILE");
    snprintf(options, sizeof(options), "%s&cert=%s&key=%s", trusting(), temp_path("spy.crt"),
             temp_path("spy.key"));
    meet(secured_url(&secured, "127.0.0.1", options), HF_DENIED, "cert=FILE");
    snprintf(options, sizeof(options), "%s&cert=%s&key=%s", trusting(), temp_path("guest.crt"),
             temp_path("guest.key"));
    meet(secured_url(&secured, "127.0.0.1", options), HF_OK, "");
    server_kill(&secured.server);
}

TEST(files_that_cannot_be_used_are_named)
{
    static const struct {
        const char *options, *words;
    } tries[] = {
        { "ca=/nowhere/ca.pem", "/nowhere/ca.pem\" cannot be read (No such file or directory)" },
        { "ca=/dev/null", "/dev/null" },
        { "cert=/nowhere/client.pem", "client.pem\" cannot be read (No such file or directory)" },
        { "key=/nowhere/client.key", "without its certificate" },
        { "verify=no", "insecure" },
        { "verify=", "insecure" },
    };
    char url[1200];
    hf_client *client = NULL;

    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        snprintf(url, sizeof(url), "rediss://127.0.0.1?%s", tries[i].options);
        CHECK_ERROR(hf_open(&client, url, NULL), HF_EINVAL);
        CHECK(strstr(hf_last_error()->text, tries[i].words) != NULL);
        snprintf(url, sizeof(url), "redis://127.0.0.1?%s", tries[i].options);
        CHECK_ERROR(hf_open(&client, url, NULL), HF_EINVAL);
    }
    make_certificates();
    snprintf(url, sizeof(url), "rediss://127.0.0.1?cert=%s&key=/nowhere", temp_path("guest.crt"));
    CHECK_ERROR(hf_open(&client, url, NULL), HF_EINVAL);
    CHECK(strstr(hf_last_error()->text, "cannot be used (No such file or directory)") != NULL);
    snprintf(url, sizeof(url), "rediss://127.0.0.1?cert=%s&key=%s", temp_path("guest.crt"),
             temp_path("good.key"));
    CHECK_ERROR(hf_open(&client, url, NULL), HF_EINVAL);
    snprintf(url, sizeof(url), "rediss://127.0.0.1?cert=%s", temp_path("guest.crt"));
    CHECK_ERROR(hf_open(&client, url, NULL), HF_EINVAL);
}

TEST(ports_that_are_mixed_up_are_told)
{
    struct secured secured = { 0 }, plain = { 0 };
    char url[100];

    make_certificates();
    secured_start(&secured, "good", "no");
    plain.port = secured.server.port;
    /* A server without TLS waits for the end of a line; whether it answers depends on what random
     * bytes there are. */
    snprintf(url, sizeof(url), "rediss://127.0.0.1:%d?timeout=2000", plain.port);
    meet(url, HF_UNREACHABLE, "the port without");
    snprintf(url, sizeof(url), "redis://127.0.0.1:%d?timeout=2000", secured.port);
    meet(url, HF_UNREACHABLE, "127.0.0.1");
    /* One that stands still says nothing either. */
    server_stop(&secured.server);
    snprintf(url, sizeof(url), "rediss://127.0.0.1:%d?timeout=2000", secured.port);
    meet(url, HF_UNREACHABLE, "does not answer the TLS handshake");
    server_continue(&secured.server);
    server_kill(&secured.server);
}

/* A server that was trusted is replaced: whoever waits is not led astray, and a belief ends. */
TEST(another_server_at_the_same_place_is_not_believed)
{
    struct secured secured = { 0 };
    struct outcome outcome = { 0 };

    make_certificates();
    certificate_make("theirs", NULL, NULL, -DAY_S, DAY_S);
    secured_start(&secured, "good", "no");
    hf_client *client = open_url(secured_url(&secured, "127.0.0.1", trusting()), LEASE_MS);
    hf_client *other = open_url(secured_url(&secured, "127.0.0.1", trusting()), LEASE_MS);
    hf_hold *hold = take(client, "one", HF_MUTEX, 0);
    begin_wait(other, "one", HF_MUTEX, &outcome);
    server_kill(&secured.server);
    snprintf(secured.files[0], sizeof(secured.files[0]), "%s", temp_path("theirs.crt"));
    snprintf(secured.files[1], sizeof(secured.files[1]), "%s", temp_path("theirs.key"));
    server_start_again(&secured.server);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_DENIED);
    CHECK(strstr(outcome.text, "no trusted authority") != NULL);
    EVENTUALLY(!hf_held(hold), SOON_MS);
    CHECK(hf_unlock(hold) != HF_OK);
    hf_close(client);
    hf_close(other);
    server_kill(&secured.server);
}

TEST(a_password_does_not_show)
{
    struct secured secured = { .server.password = "hunter2" };
    char host[60];

    make_certificates();
    secured_start(&secured, "good", "no");
    snprintf(host, sizeof(host), "default:hunter2@127.0.0.1");
    meet(secured_url(&secured, host, trusting()), HF_OK, "");
    hf_client *client = open_url(secured_url(&secured, host, ""), 0);
    hf_hold *hold;
    CHECK_CODE(hf_lock(client, "one", 0, NULL, &hold), HF_DENIED);
    CHECK(strstr(hf_last_error()->text, "hunter2") == NULL);
    CHECK(strstr(hf_url(client), "hunter2") == NULL);
    hf_close(client);
    server_kill(&secured.server);
}
