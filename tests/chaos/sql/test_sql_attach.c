/* SPDX-License-Identifier: Apache-2.0 */
/* Attaches whose replies are lost: what they have taken over goes back under its key, and one that
 * is asked again at once finds it there. */
#include "attaching.h"
#include "relay.h"
#include "sql_server.h"

#include <string.h>

#define LEASE_MS 60000
#define LOST_REPLIES 3

/* It has been executed then, and the connection has ended. */
static void lose_the_reply(struct relay *relay, hf_client *other, struct attaching *attaching)
{
    struct thread thread;

    relay_swallow(relay);
    thread_start(&thread, attach, attaching);
    EVENTUALLY(!is_held_under(other, attaching->key), SOON_MS);
    relay_cut(relay);
    thread_join(&thread);
    CHECK_CODE(attaching->code, HF_UNREACHABLE);
}

static hf_client *open_at_port(const struct sql_server *server, int port)
{
    hf_client *client;

    CHECK_CODE(hf_open(&client, sql_server_url(server, port), NULL), HF_OK);
    return client;
}

static void attach_again(const struct sql_server *server)
{
    struct relay relay = { 0 };
    char key[HF_OWNER_KEY_SIZE];
    hf_hold *hold;

    relay_start(&relay, server->port);
    hf_client *client = open_at_port(server, relay.port);
    hf_client *other = open_at_port(server, server->port);
    struct attaching attaching = { .client = client, .key = key };
    CHECK_CODE(hf_lock(other, "one", 0, LOCK_OPTIONS(.lease_ms = LEASE_MS), &hold), HF_OK);
    CHECK_CODE(hf_detach(hold, key), HF_OK);
    give_back(take_patiently(client, "warm"));
    for (int i = 0; i < LOST_REPLIES; i++) {
        lose_the_reply(&relay, other, &attaching);
        CHECK_CODE(hf_attach(client, "one", key, &hold), HF_OK);
        CHECK(hf_held(hold));
        CHECK_CODE(hf_detach(hold, key), HF_OK);
    }
    lose_the_reply(&relay, other, &attaching);
    EVENTUALLY(is_held_under(other, key), SOON_MS);
    /* It is not waited for any more. */
    CHECK_CODE(hf_attach(other, "one", key, &hold), HF_OK);
    CHECK_ERROR(hf_attach(client, "one", key, &attaching.hold), HF_LOST);
    CHECK_CODE(hf_unlock(hold), HF_OK);
    hf_close(client);
    hf_close(other);
    relay_stop(&relay);
}

TEST(attach_asked_again_after_a_lost_reply_finds_the_lock)
{
    static const char *const kinds[] = { "mariadb", "postgres" };

    TEST_TIMEOUT(120);
    for (size_t i = 0; i < 2; i++) {
        struct sql_server server = { 0 };
        sql_server_start(&server, kinds[i]);
        attach_again(&server);
        sql_server_kill(&server);
    }
}
