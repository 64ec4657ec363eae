/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the master by asking sentinels, one after the other, beginning with the one that knew it
 * last time. Each time that a connection is opened it is asked for anew; the greeting then makes
 * sure that it is a master. As an old master may answer as one for long after a failover, a
 * sentinel is asked again and again meanwhile (sentinel_watch.c). */
#include "engines/redis/redis.h"

#include <stdio.h>
#include <string.h>

/* So long a sentinel may take, out of the time that the server may be silent. */
#define SENTINEL_SHARE 3

static void ask_one(struct connection *connection);

static void go_past(struct redis *redis)
{
    redis->sentinel = (redis->sentinel + 1) % redis->settings.sentinel_count;
}

/* `why`: of the one that was asked last. */
static void try_next(struct connection *connection, const char *why)
{
    struct redis *redis = connection->redis;
    hf__sentinel_search_stop(connection);
    go_past(redis);
    if (--connection->search.left > 0)
        ask_one(connection);
    else
        hf__peer_break(&connection->peer, HF_UNREACHABLE, 0,
                       "no sentinel names the master; the last one: %.150s", why);
}

void hf__sentinel_authenticate(const struct redis *redis, struct command *command)
{
    const char *password = redis->settings.sentinel_password;
    hf__command_begin(command, "AUTH");
    hf__command_add(command, password, strlen(password));
}

void hf__sentinel_question(const struct redis *redis, struct command *command)
{
    hf__command_begin(command, "SENTINEL");
    hf__command_print(command, "get-master-addr-by-name");
    hf__command_add(command, redis->settings.master, strlen(redis->settings.master));
}

static void say(struct connection *connection, struct command *command)
{
    if (!hf__command_write(command, connection->search.stream))
        hf__peer_break(&connection->peer, HF_ENOMEM, 0, "out of memory for a request");
}

static void opened(void *arg)
{
    struct connection *connection = arg;
    const struct redis *redis = connection->redis;
    struct command command;
    if (redis->settings.sentinel_password) {
        hf__sentinel_authenticate(redis, &command);
        say(connection, &command);
    }
    hf__sentinel_question(redis, &command);
    say(connection, &command);
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
        if (connection == &connection->redis->cmd)
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
    hf__sentinel_search_stop(connection);
    hf__peer_go(&connection->peer, &attempt);
}

static void take(struct connection *connection, const redisReply *reply)
{
    if (hf__sentinel_names(reply))
        found(connection, reply);
    else if (reply->type == REDIS_REPLY_ERROR)
        try_next(connection, reply->str);
    else if (reply->type == REDIS_REPLY_NIL)
        try_next(connection, "it does not know that name");
    else if (reply->type != REDIS_REPLY_STATUS)
        try_next(connection, "its answer names no host and port");
}

static void received(void *arg, const char *bytes, size_t length)
{
    struct connection *connection = arg;
    struct sentinel_search *search = &connection->search;
    const struct hf_stream *stream = search->stream;
    void *reply = NULL;
    bool fits = hf__reply_feed(search->reader, bytes, length, &search->unread);
    while (fits && stream == search->stream && !connection->peer.failing) {
        fits = redisReaderGetReply(search->reader, &reply) == REDIS_OK;
        if (!fits || !reply)
            break;
        take(connection, reply);
        freeReplyObject(reply);
    }
    if (!fits)
        try_next(connection, "its answer cannot be read");
}

static void broken(void *arg, int code, int native, const char *why)
{
    struct connection *connection = arg;
    (void)code;
    (void)native;
    connection->search.stream = NULL;
    try_next(connection, why);
}

static void limit_fired(struct hf_timer *timer)
{
    try_next(HF_CONTAINER(timer, struct connection, search.limit), "it does not answer");
}

/* Another connection may have turned away from it already. */
void hf__sentinel_doubt(struct connection *connection)
{
    struct redis *redis = connection->redis;
    if (redis->sentinel == connection->named_by)
        go_past(redis);
}

void hf__sentinel_place(const struct redis *redis, unsigned sentinel, struct hf_stream_place *ret)
{
    const struct hf_url_host *host = &redis->settings.sentinels[sentinel];
    *ret = redis->settings.place;
    ret->host = host->name;
    ret->port = host->port ? host->port : REDIS_SENTINEL_PORT;
    ret->limit_ms = redis->settings.timeout_ms / SENTINEL_SHARE;
}

static void ask_one(struct connection *connection)
{
    static const struct hf_stream_events events = { opened, received, broken };
    const struct hf_host *host = connection->redis->base.host;
    struct sentinel_search *search = &connection->search;
    struct hf_stream_place place;
    hf__sentinel_place(connection->redis, connection->redis->sentinel, &place);
    place.route = &search->route;
    search->unread = 0;
    search->reader = hf__reply_reader();
    if (search->reader)
        search->stream = hf__stream_open(host->uv, host->loop, &place, &events, connection);
    if (search->stream)
        hf__timer_start(host->loop, &search->limit, hf__loop_now(host->loop) + place.limit_ms);
    else
        hf__peer_break(&connection->peer, HF_ENOMEM, 0, "out of memory for a connection");
}

void hf__sentinel_find(struct connection *connection)
{
    connection->search.left = connection->redis->settings.sentinel_count;
    ask_one(connection);
}

void hf__sentinel_search_init(struct connection *connection)
{
    hf__timer_init(&connection->search.limit, limit_fired);
}

void hf__sentinel_search_stop(struct connection *connection)
{
    struct sentinel_search *search = &connection->search;
    if (search->stream)
        hf__stream_close(search->stream);
    search->stream = NULL;
    if (search->reader)
        redisReaderFree(search->reader);
    search->reader = NULL;
    hf__timer_stop(connection->redis->base.host->loop, &search->limit);
}
