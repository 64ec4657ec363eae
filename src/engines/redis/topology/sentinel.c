/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the master by asking sentinels, one after the other, beginning with the one that knew it
 * last time. Each time that a connection is opened it is asked for anew; the greeting then makes
 * sure that it is a master. As an old master may answer as one for long after a failover, a
 * sentinel is asked again and again meanwhile (sentinel_watch.c). */
#include "base/testing.h"
#include "engines/redis/redis.h"

#include <stdio.h>
#include <string.h>

/* The part of the time-out of a server that a sentinel has. */
#define SENTINEL_SHARE 3

static void ask_one(struct connection *connection);

static void go_past(struct redis *redis)
{
    /* mutant: sentinel-that-does-not-answer */
    redis->sentinel = (redis->sentinel + 1) % redis->settings.sentinel_count;
}

/* `why`: of the one that was asked last. */
static void try_next(struct connection *connection, const char *why)
{
    go_past(connection->redis);
    if (--connection->search_left > 0)
        ask_one(connection);
    else
        hf__peer_break(&connection->peer, HF_UNREACHABLE, 0,
                       "no sentinel names the master; the last one: %.150s", why);
}

bool hf__sentinel_names(const redisReply *reply)
{
    return hf__reply_is_array(reply, 2) && hf__reply_number(reply->element[1]) > 0 &&
           hf__reply_number(reply->element[1]) <= 65535 && *hf__reply_text(reply->element[0]) &&
           strlen(hf__reply_text(reply->element[0])) < REDIS_HOST_SIZE;
}

static void found(struct connection *connection, const redisReply *reply)
{
    connection->named_by = connection->redis->sentinel;
    struct redis_settings *settings = &connection->redis->settings;
    struct hf_peer_try attempt = { .place = settings->place };
    const char *host = hf__reply_text(reply->element[0]);
    unsigned port = (unsigned)hf__reply_number(reply->element[1]);
    /* The last connection's number means nothing to another server, nor does what a sentinel has
     * said of the last one. */
    if (strcmp(host, connection->master_host) != 0 || port != connection->master_port) {
        connection->server_id = 0;
        if (connection == &connection->redis->cmd) /* mutant: what-sentinel-has-said */
            connection->redis->watch_agreed = false;
    }
    snprintf(connection->master_host, sizeof connection->master_host, "%s", host);
    connection->master_port = port;
    attempt.place.host = connection->master_host;
    attempt.place.port = port;
    char shown[REDIS_HOST_SIZE];
    hf__url_write_place(shown, sizeof shown, connection->master_host, port);
    snprintf(settings->shown, sizeof settings->shown, "%.190s (master \"%.60s\")", shown,
             settings->master);
    hf__peer_go(&connection->peer, &attempt);
}

static void sentinel_answered(struct connection *search, struct redis_request *request,
                              const redisReply *reply)
{
    struct connection *connection = request->finding;
    hf__request_free(search->redis, request);
    if (reply) /* else it has ended already */
        hf__peer_reconnect(&search->peer);
    if (!reply)
        try_next(connection, search->peer.why.text);
    else if (hf__sentinel_names(reply))
        found(connection, reply);
    else if (reply->type == REDIS_REPLY_ERROR)
        try_next(connection, reply->str);
    else
        try_next(connection, reply->type == REDIS_REPLY_NIL ? "it does not know that name"
                                                            : "its answer names no host and port");
}

void hf__sentinel_send_question(struct connection *connection, struct redis_request *request)
{
    const char *master = connection->redis->settings.master;
    struct command command;
    hf__command_begin(&command, "SENTINEL");
    hf__command_print(&command, "get-master-addr-by-name");
    hf__command_add(&command, master, strlen(master));
    hf__connection_write(connection, request, &command);
}

/* Another connection may have turned away from it already. */
void hf__sentinel_doubt(struct connection *connection)
{
    struct redis *redis = connection->redis;
    if (redis->sentinel == connection->named_by) /* mutant: sentinel-that-names-dead */
        go_past(redis);
}

void hf__sentinel_place(const struct redis *redis, unsigned sentinel, struct hf_peer_try *ret)
{
    const struct redis_settings *settings = &redis->settings;
    const struct hf_url_host *host = &settings->sentinels[sentinel];
    ret->place = settings->place;
    ret->place.host = host->name;
    ret->place.port = host->port ? host->port : REDIS_SENTINEL_PORT;
    ret->place.limit_ms = settings->timeout_ms / SENTINEL_SHARE;
}

static void authenticated(struct connection *link, struct redis_request *request,
                          const redisReply *reply)
{
    hf__request_free(link->redis, request);
    if (reply && reply->type == REDIS_REPLY_ERROR)
        hf__peer_break(&link->peer, HF_DENIED, 0, "%.150s", reply->str);
}

void hf__sentinel_greet(struct connection *link)
{
    const char *password = link->redis->settings.sentinel_password;
    struct redis_request *request;
    struct command command;
    if (password && (request = hf__request_new(link->redis))) {
        request->answered = authenticated;
        hf__command_begin(&command, "AUTH");
        hf__command_add(&command, password, strlen(password));
        hf__connection_write(link, request, &command);
    }
    hf__connection_greeted(link);
}

static bool sentinel_place(struct connection *search, struct hf_peer_try *ret)
{
    hf__sentinel_place(search->redis, search->redis->sentinel, ret);
    hf__url_write_place(search->master_host, REDIS_HOST_SIZE, ret->place.host, ret->place.port);
    return true;
}

/* Each on a connection of its own, which ends with its answer. */
static void ask_one(struct connection *connection)
{
    struct redis_request *request = hf__request_new(connection->redis);
    if (!request) {
        hf__peer_break(&connection->peer, HF_ENOMEM, 0, "out of memory for a request");
        return;
    }
    request->finding = connection;
    request->send = hf__sentinel_send_question;
    request->answered = sentinel_answered;
    hf__peer_end_pause(&connection->search->peer);
    hf__connection_ask(connection->search, request);
}

void hf__sentinel_find(struct connection *connection)
{
    static const struct connection_use use = { .store = "Sentinel",
                                               .place = sentinel_place,
                                               .greet = hf__sentinel_greet };
    struct redis *redis = connection->redis;
    if (!connection->search && (connection->search = hf__calloc(1, sizeof *connection->search))) {
        hf__connection_init(connection->search, redis, &use);
        connection->search->peer.config.shown = connection->search->master_host;
        /* mutant: silent-sentinel-is-waited-for */
        connection->search->peer.silence_ms = redis->settings.timeout_ms / SENTINEL_SHARE;
    }
    connection->search_left = redis->settings.sentinel_count;
    if (connection->search)
        ask_one(connection);
    else
        hf__peer_break(&connection->peer, HF_ENOMEM, 0, "out of memory for a connection");
}
