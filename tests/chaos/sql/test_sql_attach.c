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

static void attach_again(const struct sql_server *server)
{
    struct relay relay = { 0 };
    char key[HF_OWNER_KEY_SIZE];
    hf_hold *hold;

    relay_start(&relay, server->port);
    hf_client *client = sql_open(server, relay.port, 0, 0);
    hf_client *other = sql_open(server, server->port, 0, 0);
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
    TEST_TIMEOUT(120);
    EACH_DATABASE(kind)
    {
        struct sql_server server = { 0 };
        sql_server_start(&server, *kind);
        attach_again(&server);
        sql_server_kill(&server);
    }
}
