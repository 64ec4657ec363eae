/* SPDX-License-Identifier: Apache-2.0 */
/* A quorum of real servers; see the header. */
#include "quorum.h"

void quorum_start(struct server servers[QUORUM_SERVERS])
{
    for (int i = 0; i < QUORUM_SERVERS; i++)
        server_start(&servers[i]);
}

void quorum_end(struct server servers[QUORUM_SERVERS])
{
    for (int i = 0; i < QUORUM_SERVERS; i++)
        server_kill(&servers[i]);
}

hf_client *quorum_open(const struct server *servers, int timeout_ms, int64_t lease_ms)
{
    hf_client *client = NULL;

    CHECK_CODE(
        hf_open(&client, quorum_url(servers, timeout_ms), &HF_CLIENT_OPTIONS(.lease_ms = lease_ms)),
        HF_OK);
    return client;
}

void quorum_expect_everywhere(const struct server servers[QUORUM_SERVERS])
{
    for (int i = 0; i < QUORUM_SERVERS; i++)
        EVENTUALLY(server_says(&servers[i], "EXISTS one", ":1"), SOON_MS);
}

void quorum_expect_nothing_left(const struct server servers[QUORUM_SERVERS])
{
    for (int i = 0; i < QUORUM_SERVERS; i++)
        EVENTUALLY(server_says(&servers[i], "EXISTS one two", ":0"), SOON_MS);
}
