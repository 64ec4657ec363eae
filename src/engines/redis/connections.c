/* SPDX-License-Identifier: Apache-2.0 */
/* The connections to a server with locks, and what each is for: requests, hearing of releases and
 * grants, asking for replicas. */
#include "engines/redis/topology/cluster.h"

static bool redis_place(struct connection *connection, struct hf_peer_try *ret)
{
    const struct redis_settings *settings = &connection->redis->settings;
    ret->place = settings->place;
    if (settings->master)
        hf__sentinel_find(connection);
    return !settings->master;
}

static void ready(struct connection *connection)
{
    hf__sentinel_watch_begin(connection->redis);
}

static void redis_failed(struct connection *connection, enum hf_peer_state was)
{
    struct redis *redis = connection->redis;
    /* mutant: idle-client-of-cluster */
    bool concerns_cluster = redis->cluster && hf__cluster_is_concerned(connection, was);
    if (redis->settings.master && was != HF_PEER_FINDING && was != HF_PEER_READY)
        hf__sentinel_doubt(connection);
    hf__connection_fail(connection);
    if (concerns_cluster) /* mutant: broken-connection-is-no-reason */
        hf__cluster_want_map(redis->cluster);
}

/* It may have come back to another server. The listening one would stay at the old server for as
 * long as that lives: grants at the new one would not be heard. */
static void cmd_ready(struct connection *cmd)
{
    struct connection *pubsub = &cmd->redis->pubsub;
    bool follows = hf__connection_is_ready(pubsub) && !hf__connections_surely_match(cmd, pubsub);
    if (follows) /* mutant: listening-connection */
        hf__peer_break(&pubsub->peer, HF_UNREACHABLE, 0, "requests go to another server now");
    ready(cmd);
}

static void pubsub_ready(struct connection *pubsub)
{
    hf__release_channels_ready(pubsub->redis);
    ready(pubsub);
}

static void pubsub_failed(struct connection *pubsub, enum hf_peer_state was)
{
    redis_failed(pubsub, was);
    if (was == HF_PEER_READY)
        hf__release_channels_lost(pubsub->redis);
}

#define COMMON                                                                                     \
    .store = "Redis", .place = redis_place, .greet = hf__handshake_begin,                          \
    .redirects = hf__cluster_redirects

void hf__connections_open(struct redis *redis)
{
    static const struct connection_use for_cmd = { COMMON, .ready = cmd_ready,
                                                   .failed = redis_failed };
    static const struct connection_use for_pubsub = { COMMON, .ready = pubsub_ready,
                                                      .failed = pubsub_failed,
                                                      .pushed = hf__release_channels_pushed,
                                                      .oldest_ms = hf__pubsub_heartbeat_oldest_ms };
    static const struct connection_use for_replicas = { COMMON, .ready = ready,
                                                        .failed = redis_failed };
    hf__connection_init(&redis->cmd, redis, &for_cmd);
    hf__connection_init(&redis->pubsub, redis, &for_pubsub);
    hf__connection_init(&redis->replicas, redis, &for_replicas);
}
