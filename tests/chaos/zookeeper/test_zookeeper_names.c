/* SPDX-License-Identifier: Apache-2.0 */
/* A ZooKeeper server that is found by its host's name. */
#include "conformance.h"
#include "resolver.h"
#include "server.h"
#include "zookeeper_server.h"

static hf_client *open_named(void)
{
    hf_client *client = NULL;
    CHECK_CODE(hf_open(&client, "zk://store.test:2181/chaos?timeout=10000", NULL), HF_OK);
    return client;
}

TEST(silent_first_address_leaves_time_for_the_second)
{
    struct zookeeper_server server = { 0 };
    TEST_ALLOW_FD_LEAKS();
    zookeeper_start(&server);
    hf_client *client = open_named();
    hf_hold *hold = NULL;
    resolver_set(2, (int[]){ silent_port(), server.port });
    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
    give_back(hold);
    hf_close(client);
}

TEST(mute_first_address_is_passed_over_by_the_next_connection)
{
    struct zookeeper_server server = { 0 };
    TEST_ALLOW_FD_LEAKS();
    zookeeper_start(&server);
    hf_client *client = open_named();
    hf_hold *hold = NULL;
    resolver_set(2, (int[]){ mute_port(), server.port });
    CHECK_CODE(hf_lock(client, "one", 2 * SOON_MS, NULL, &hold), HF_OK);
    give_back(hold);
    hf_close(client);
}

TEST(close_during_blocked_lookup_does_not_wait_for_it)
{
    hf_client *client = open_named();
    hf_hold *hold;
    TEST_TIMEOUT(60);
    resolver_set(1, &(int){ free_port() });
    resolver_block();
    CHECK_CODE(hf_lock(client, "one", 1000, NULL, &hold), HF_UNREACHABLE);
    hf_close(client);
    CHECK_INT(resolver_ended(), 0);
    resolver_release();
    EVENTUALLY(resolver_ended() == resolver_begun(), SOON_MS);
}
