/* SPDX-License-Identifier: Apache-2.0 */
/* Replies that get lost after memcached has executed the command: it is done once, and nothing is
 * left of it. */
#include "memcached_server.h"
#include "open_errors.h"
#include "relay.h"

#include <stdio.h>

struct relayed {
    struct memcached_server server;
    struct relay relay;
    hf_client *client;
};

static void begin_relayed(struct relayed *relayed, int64_t lease_ms)
{
    memcached_start(&relayed->server);
    relay_start(&relayed->relay, relayed->server.port);
    CHECK_CODE(hf_open(&relayed->client, memcached_url(relayed->relay.port, 20000),
                       &HF_CLIENT_OPTIONS(.lease_ms = lease_ms)),
               HF_OK);
    give_back(take_patiently(relayed->client, "one"));
}

static void end_relayed(struct relayed *relayed)
{
    hf_close(relayed->client);
    relay_stop(&relayed->relay);
    memcached_kill(&relayed->server);
}

TEST(lock_whose_reply_was_lost_is_taken_once)
{
    struct relayed relayed = { .client = NULL };
    struct outcome outcome = { 0 };

    begin_relayed(&relayed, 30000);
    relay_swallow(&relayed.relay);
    begin_wait(relayed.client, "one", HF_MUTEX, &outcome);
    EVENTUALLY(memcached_has(&relayed.server, "hf:one"), SOON_MS);
    relay_cut(&relayed.relay);
    await_grant(&outcome);
    CHECK(hf_held(outcome.hold));
    CHECK(hf_token(outcome.hold) > 0);
    give_back(outcome.hold);
    CHECK(!memcached_has(&relayed.server, "hf:one"));
    end_relayed(&relayed);
}

TEST(try_whose_reply_was_lost_leaves_nothing)
{
    struct relayed relayed = { .client = NULL };
    struct outcome outcome = { 0 };

    begin_relayed(&relayed, 30000);
    relay_swallow(&relayed.relay);
    CHECK_CODE(hf_lock_async(relayed.client, "one", 0, NULL, record_outcome, &outcome, NULL),
               HF_OK);
    EVENTUALLY(memcached_has(&relayed.server, "hf:one"), SOON_MS);
    relay_cut(&relayed.relay);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_UNREACHABLE);
    EVENTUALLY(!memcached_has(&relayed.server, "hf:one"), SOON_MS);
    end_relayed(&relayed);
}

struct unlocking {
    hf_hold *hold;
    _Atomic int code;
    struct relayed *relayed;
};

static void unlock_or_cut(void *arg, int index)
{
    struct unlocking *unlocking = arg;

    if (index == 0) {
        unlocking->code = hf_unlock(unlocking->hold);
        return;
    }
    EVENTUALLY(!memcached_has(&unlocking->relayed->server, "hf:one"), SOON_MS);
    relay_cut(&unlocking->relayed->relay);
}

TEST(release_whose_reply_was_lost_is_no_loss)
{
    struct relayed relayed = { .client = NULL };
    struct unlocking unlocking = { .relayed = &relayed };

    begin_relayed(&relayed, 30000);
    unlocking.hold = take_patiently(relayed.client, "one");
    relay_swallow(&relayed.relay);
    threads_run(2, unlock_or_cut, &unlocking);
    CHECK_CODE(unlocking.code, HF_OK);
    end_relayed(&relayed);
}

static uint64_t cas_of(const struct memcached_server *server)
{
    char line[100];
    unsigned long long cas = 0;

    CHECK(memcached_tell(server, "mg hf:one c", line, sizeof(line)));
    CHECK(sscanf(line, "HD c%llu", &cas) == 1);
    return cas;
}

/* The item has another CAS id then than the client knows. */
TEST(renewal_whose_reply_was_lost_loses_nothing)
{
    struct relayed relayed = { .client = NULL };
    _Atomic int losses = 0;
    hf_hold *hold = NULL;

    begin_relayed(&relayed, 6000);
    CHECK_CODE(hf_lock(relayed.client, "one", SOON_MS,
                       LOCK_OPTIONS(.on_lost = count_loss, .lost_arg = &losses), &hold),
               HF_OK);
    uint64_t before = cas_of(&relayed.server);
    relay_swallow(&relayed.relay);
    EVENTUALLY(cas_of(&relayed.server) != before, SOON_MS);
    relay_cut(&relayed.relay);
    let_pass_ms(7000);
    CHECK_INT(losses, 0);
    CHECK(hf_held(hold));
    give_back(hold);
    CHECK(!memcached_has(&relayed.server, "hf:one"));
    end_relayed(&relayed);
}

/* The lease of its own that was prolonged, too. */
TEST(item_is_found_by_its_value_after_a_lost_prolongation)
{
    struct relayed relayed = { .client = NULL };
    hf_hold *hold = NULL;

    begin_relayed(&relayed, 30000);
    CHECK_CODE(hf_lock(relayed.client, "one", SOON_MS, LOCK_OPTIONS(.lease_ms = 30000), &hold),
               HF_OK);
    uint64_t before = cas_of(&relayed.server);
    relay_swallow(&relayed.relay);
    CHECK_CODE(hf_renew(hold, 60000), HF_UNREACHABLE);
    CHECK(cas_of(&relayed.server) != before);
    CHECK(hf_held(hold));
    relay_cut(&relayed.relay);
    give_back(hold);
    CHECK(!memcached_has(&relayed.server, "hf:one"));
    end_relayed(&relayed);
}

TEST(release_behind_a_lost_prolongation_tells_of_a_loss)
{
    struct relayed relayed = { .client = NULL };
    hf_hold *hold = NULL, *other = NULL;
    char line[100];

    begin_relayed(&relayed, 30000);
    CHECK_CODE(hf_lock(relayed.client, "one", SOON_MS, LOCK_OPTIONS(.lease_ms = 30000), &hold),
               HF_OK);
    relay_swallow(&relayed.relay);
    CHECK_CODE(hf_renew(hold, 60000), HF_UNREACHABLE);
    CHECK(memcached_tell(&relayed.server, "delete hf:one", line, sizeof(line)));
    relay_cut(&relayed.relay);
    /* On a new connection: the release is not sent on the one that is cut. */
    CHECK_CODE(hf_lock(relayed.client, "two", SOON_MS, NULL, &other), HF_OK);
    give_back(other);
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    end_relayed(&relayed);
}

#define ATTACH_LEASE_MS 60000
/* The replies of an attach have fewer bytes than this. */
#define ATTACH_BYTES_MAX 220
#define ATTACH_BYTES_STEP 10

static hf_client *open_format(int port, const char *format)
{
    char url[200];
    hf_client *client = NULL;

    snprintf(url, sizeof(url), "%s&format=%s", memcached_url(port, 20000), format);
    CHECK_CODE(hf_open(&client, url, NULL), HF_OK);
    return client;
}

/* The connection is cut behind each part of its replies. */
static void attach_with_lost_replies(const char *format, const char *item)
{
    struct memcached_server server = { .port = 0 };
    struct relay relay = { .port = 0 };
    char key[HF_OWNER_KEY_SIZE];
    hf_hold *hold = NULL;
    int lost = 0;

    memcached_start(&server);
    relay_start(&relay, server.port);
    hf_client *client = open_format(relay.port, format), *other = open_format(server.port, format);
    CHECK_CODE(hf_lock(other, "one", 0, LOCK_OPTIONS(.lease_ms = ATTACH_LEASE_MS), &hold), HF_OK);
    for (long bytes = 1; bytes < ATTACH_BYTES_MAX; bytes += ATTACH_BYTES_STEP) {
        CHECK_CODE(hf_detach(hold, key), HF_OK);
        give_back(take_patiently(client, "warm"));
        relay_cut_after(&relay, bytes);
        int code = hf_attach(client, "one", key, &hold);
        CHECK(memcached_has(&server, item));
        if (code != HF_OK) {
            lost++;
            CHECK_CODE(code, HF_UNREACHABLE);
            /* The client itself waits until it has put the key back. */
            hf_client *next = lost % 2 ? client : other;
            if (next == other)
                EVENTUALLY(is_held_under(other, key), SOON_MS);
            CHECK_CODE(hf_attach(next, "one", key, &hold), HF_OK);
        }
        relay_cut(&relay);
    }
    CHECK(lost > 0);
    give_back(hold);
    CHECK(!memcached_has(&server, item));
    hf_close(client);
    hf_close(other);
    relay_stop(&relay);
    memcached_kill(&server);
}

TEST(lock_whose_attach_was_not_heard_is_opened_by_its_key_again)
{
    attach_with_lost_replies("holdfast", "hf:one");
    attach_with_lost_replies("symfony", "one");
    attach_with_lost_replies("laravel", "one");
    attach_with_lost_replies("tooz", "__TOOZ_LOCK_one");
}

TEST(name_at_a_dead_server_is_not_said_to_be_forgotten)
{
    struct memcached_server server = { .port = 0 };
    hf_client *client = NULL;

    memcached_start(&server);
    CHECK_CODE(hf_open(&client, memcached_url(server.port, 20000),
                       &HF_CLIENT_OPTIONS(.request_timeout_ms = 1000)),
               HF_OK);
    CHECK_CODE(hf_forget(client, "one"), HF_OK);
    memcached_kill(&server);
    CHECK_CODE(hf_forget(client, "one"), HF_UNREACHABLE);
    hf_close(client);
}

/* Within `version`, and within `stats`. A proxy ends it between them. */
TEST(connection_that_is_cut_in_the_handshake_blames_no_proxy)
{
    static const long bytes[] = { 3, 200 };
    struct memcached_server server = { .port = 0 };
    struct relay relay = { .port = 0 };
    hf_hold *none = NULL;

    memcached_start(&server);
    relay_start(&relay, server.port);
    for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        hf_client *client = NULL;
        CHECK_CODE(hf_open(&client, memcached_url(relay.port, 20000), NULL), HF_OK);
        relay_cut_after(&relay, bytes[i]);
        CHECK_ERROR(hf_lock(client, "one", 0, NULL, &none), HF_UNREACHABLE);
        CHECK(strstr(hf_last_error()->text, "in the handshake") != NULL);
        CHECK(strstr(hf_last_error()->text, "proxy") == NULL);
        relay_cut(&relay);
        give_back(take_patiently(client, "one"));
        hf_close(client);
    }
    relay_stop(&relay);
    memcached_kill(&server);
}

/* As mcrouter says that its server has not replied. */
TEST(error_that_leaves_open_whether_it_was_executed_is_no_reply)
{
    static const char error[] = "SERVER_ERROR reply timeout\r\n";
    struct memcached_server server = { .port = 0 };
    struct relay relay = { .port = 0 };

    memcached_start(&server);
    relay_start(&relay, server.port);
    struct open_errors scene = { .relay = &relay,
                                 .client = open_format(relay.port, "holdfast"),
                                 .direct = open_format(server.port, "holdfast"),
                                 .error = error,
                                 .length = strlen(error),
                                 .word = "reply timeout" };
    open_errors_are_missing_replies(&scene);
    hf_close(scene.client);
    hf_close(scene.direct);
    relay_stop(&relay);
    memcached_kill(&server);
}
