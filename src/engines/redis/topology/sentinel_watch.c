/* SPDX-License-Identifier: Apache-2.0 */
/* Noticing a failover in which the old master goes on answering as one: Sentinel demotes it long
 * after it has named the new one. While there is a connection to the master, a sentinel is asked
 * once a second for the master, on a connection that is good for nothing else. What is not answered
 * there disturbs no request.
 *
 * A sentinel that is cut off may name a master of long ago. So a master is left only on the word of
 * a sentinel that has named it before, and once for each other address: a client that then finds
 * the way back to the same master stays there. A sentinel that is not believed is left for the next
 * one. */
#include "engines/redis/redis.h"

#include <stdio.h>
#include <string.h>

#define WATCH_MS 1000

static struct hf_loop *sentinel_watch_loop_of(const struct redis *redis)
{
    return redis->base.host->loop;
}

static bool is_at(const struct connection *connection, const char *host, unsigned port)
{
    return connection->master_port == port && strcmp(connection->master_host, host) == 0;
}

/* A connection that is opened during a failover may lead to the old master, and stay there. */
static void leave_other_masters(struct redis *redis, const char *host, unsigned port)
{
    struct connection *connections[] = { &redis->cmd, &redis->pubsub, &redis->replicas };
    for (unsigned i = 0; i < sizeof connections / sizeof *connections; i++)
        if (hf__connection_is_ready(connections[i]) && !is_at(connections[i], host, port))
            hf__peer_break(&connections[i]->peer, HF_UNREACHABLE, 0,
                           "the sentinels name another master now, %.100s:%u", host, port);
}

/* The sentinel connection's own master is the one for which another was left last. */
static void leave_for(struct redis *redis, const char *host, unsigned port)
{
    struct connection *link = &redis->sentinel_link;
    leave_other_masters(redis, host, port);
    snprintf(link->master_host, sizeof link->master_host, "%s", host);
    link->master_port = port;
    redis->sentinel = link->named_by;
}

static void named(struct redis *redis, const char *host, unsigned port)
{
    struct connection *link = &redis->sentinel_link;
    const struct connection *cmd = &redis->cmd;
    if (!hf__connection_is_ready(cmd))
        return;
    if (is_at(cmd, host, port)) {               /* mutant: what-sentinels-name */
        leave_other_masters(redis, host, port); /* mutant: listening-connection-at-old */
        redis->watch_agreed = true;
        link->master_port = 0;
        return;
    }
    bool changed_its_mind = redis->watch_agreed || cmd->named_by == link->named_by;
    if (!changed_its_mind) /* mutant: sentinel-that-always-named */
        hf__peer_break(&link->peer, HF_UNREACHABLE, 0, "it names another master, %.100s:%u", host,
                       port);
    else if (!is_at(link, host, port)) /* mutant: master-is-left-again-and-again */
        leave_for(redis, host, port);
}

static void sentinel_answered(struct connection *connection, struct redis_request *request,
                              const redisReply *reply)
{
    struct redis *redis = connection->redis;
    hf__request_free(redis, request);
    redis->watch_asks = false;
    if (reply && hf__sentinel_names(reply))
        named(redis, hf__reply_text(reply->element[0]),
              (unsigned)hf__reply_number(reply->element[1]));
    else if (reply)
        hf__peer_break(&connection->peer, HF_UNREACHABLE, 0, "it names no master");
}

static void watch_timer_fired(struct hf_timer *timer)
{
    struct redis *redis = HF_CONTAINER(timer, struct redis, watch);
    struct redis_request *request;
    if (!hf__connection_is_ready(&redis->cmd) && !hf__connection_is_ready(&redis->pubsub))
        return;
    hf__timer_start(sentinel_watch_loop_of(redis), timer,
                    hf__loop_now(sentinel_watch_loop_of(redis)) + WATCH_MS);
    if (redis->watch_asks || !(request = hf__request_new(redis)))
        return;
    request->send = hf__sentinel_send_question;
    request->answered = sentinel_answered;
    redis->watch_asks = true;
    hf__connection_ask(&redis->sentinel_link, request);
}

void hf__sentinel_watch_begin(struct redis *redis)
{
    if (redis->settings.master && !redis->watch.started)
        hf__timer_start(sentinel_watch_loop_of(redis), &redis->watch,
                        hf__loop_now(sentinel_watch_loop_of(redis)) + WATCH_MS);
}

/* Begins with the sentinel that has named the master; after a failure the next one has its turn. */
static bool sentinel_watch_place(struct connection *link, struct hf_peer_try *ret)
{
    struct redis *redis = link->redis;
    if (link->peer.openings == 0 && link->peer.failures == 0)
        link->named_by = redis->cmd.named_by;
    else if (link->peer.failures > 0)
        link->named_by = (link->named_by + 1) % redis->settings.sentinel_count;
    redis->watch_agreed = false;
    hf__sentinel_place(redis, link->named_by, ret);
    return true;
}

void hf__sentinel_watch_open(struct redis *redis)
{
    static const struct connection_use use = { .store = "Sentinel",
                                               .place = sentinel_watch_place,
                                               .greet = hf__sentinel_greet };
    hf__timer_init(&redis->watch, watch_timer_fired);
    hf__connection_init(&redis->sentinel_link, redis, &use);
}

void hf__sentinel_watch_close(struct redis *redis)
{
    hf__timer_stop(sentinel_watch_loop_of(redis), &redis->watch);
    hf__connection_close(&redis->sentinel_link);
}
