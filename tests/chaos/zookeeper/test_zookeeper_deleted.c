/* SPDX-License-Identifier: Apache-2.0 */
/* Another client deletes the node of a lock that is held: the lock is lost, and the call that
 * releases it says so. */
#include "conformance.h"
#include "zookeeper_raw.h"
#include "zookeeper_server.h"

/* No session ends by itself within the test. */
#define SESSION_MS 40000

static hf_client *open_on(const struct zookeeper_server *server)
{
    hf_client *client = NULL;
    CHECK_CODE(
        hf_open(&client, zookeeper_url(server->port), &HF_CLIENT_OPTIONS(.lease_ms = SESSION_MS)),
        HF_OK);
    return client;
}

static hf_hold *take_in_mode(hf_client *client, hf_mode mode, _Atomic int *losses)
{
    hf_hold *hold = NULL;
    hf_lock_options options =
        HF_LOCK_OPTIONS(.mode = mode, .on_lost = count_loss, .lost_arg = losses);
    CHECK_CODE(hf_lock(client, "one", 0, &options, &hold), HF_OK);
    return hold;
}

TEST(unlock_of_a_lock_whose_node_was_deleted_is_lost)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR };
    struct zookeeper_server server = { 0 };
    struct zookeeper_raw raw;

    zookeeper_start(&server);
    hf_client *client = open_on(&server), *other = open_on(&server);
    raw_begin(&raw, server.port);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        _Atomic int losses = 0;
        hf_hold *hold = take_in_mode(client, modes[i], &losses);
        CHECK(raw_delete_below(&raw, "/chaos/one"));
        EVENTUALLY(losses == 1, SOON_MS);
        CHECK(!hf_held(hold));
        CHECK_CODE(hf_unlock(hold), HF_LOST);
        give_back(take(other, "one", modes[i], 0));
        CHECK_INT(losses, 1);
    }
    check_nothing_left(other, "one");
    raw_end(&raw);
    hf_close(client);
    hf_close(other);
    zookeeper_kill(&server);
}
