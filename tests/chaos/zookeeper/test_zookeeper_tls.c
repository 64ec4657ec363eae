/* SPDX-License-Identifier: Apache-2.0 */
/* TLS to a real ZooKeeper server: who is trusted, who is refused, and in which words. */
#include "certificate.h"
#include "conformance.h"
#include "zookeeper_server.h"

#include <stdio.h>

static void make_certificates(void)
{
    certificate_make("ours", NULL, NULL, -DAY_S, DAY_S);
    certificate_make("good", "ours", "IP:127.0.0.1,DNS:localhost", -DAY_S, DAY_S);
    certificate_make("elsewhere", "ours", "DNS:elsewhere.example", -DAY_S, DAY_S);
    certificate_make("guest", "ours", "DNS:guest", -DAY_S, DAY_S);
}

/* The time is for virtual machines that shake hands for the first time. */
static hf_client *open_secured(const struct zookeeper_server *server, const char *host,
                               const char *options)
{
    char url[1500];
    hf_client *client = NULL;

    snprintf(url, sizeof(url), "zks://%s:%d/locks?timeout=60000%s", host, server->secure_port,
             options);
    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = 40000)), HF_OK);
    return client;
}

/* What who waits a while hears; the sentence has these words in it. */
static void meet(const struct zookeeper_server *server, const char *options, int code,
                 const char *words)
{
    hf_client *client = open_secured(server, "127.0.0.1", options);
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), code);
    if (code == HF_OK)
        give_back(hold);
    else if (!strstr(hf_last_error()->text, words))
        FAIL("\"%s\" is not in \"%s\"", words, hf_last_error()->text);
    hf_close(client);
}

static const char *trusting(const char *more)
{
    static _Thread_local char options[1500];

    snprintf(options, sizeof(options), "&ca=%s%s", temp_path("ours.crt"), more);
    return options;
}

static const char *showing(const char *name)
{
    static _Thread_local char options[900];

    snprintf(options, sizeof(options), "&cert=%s", temp_path("%s.crt", name));
    size_t length = strlen(options);
    snprintf(options + length, sizeof(options) - length, "&key=%s", temp_path("%s.key", name));
    return options;
}

TEST(locks_are_taken_waited_for_and_given_back)
{
    struct zookeeper_server server = { .shows = "good" };
    make_certificates();
    zookeeper_start(&server);
    hf_client *client = open_secured(&server, "127.0.0.1", trusting(""));
    hf_client *other = open_secured(&server, "localhost", trusting(""));

    for (int i = 0; i < 20; i++) {
        struct outcome outcome = { 0 };
        hf_hold *hold = NULL;
        CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
        CHECK_CODE(hf_lock_async(other, "one", HF_FOREVER, NULL, record_outcome, &outcome, NULL),
                   HF_OK);
        EVENTUALLY(waiters(client, "one") == 1, SOON_MS);
        CHECK_INT(outcome.calls, 0);
        give_back(hold);
        WAIT_OUTCOME(&outcome);
        CHECK_CODE(outcome.code, HF_OK);
        give_back(outcome.hold);
    }
    check_nothing_left(client, "one");
    hf_close(client);
    hf_close(other);
    meet(&server, "", HF_DENIED, "ca=FILE");
    zookeeper_kill(&server);
}

TEST(who_cannot_be_trusted_is_refused)
{
    struct zookeeper_server server = { .shows = "elsewhere", .wants = true };
    char guest[900], careless[1000];
    make_certificates();
    zookeeper_start(&server);

    snprintf(guest, sizeof(guest), "%s", showing("guest"));
    meet(&server, trusting(guest), HF_DENIED, "another host than \"127.0.0.1\"");
    snprintf(careless, sizeof(careless), "%s&verify=insecure", guest);
    meet(&server, trusting(careless), HF_OK, "");
    zookeeper_kill(&server);
}
