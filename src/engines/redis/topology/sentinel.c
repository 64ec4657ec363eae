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

static struct hf_loop *loop_of(const struct connection *connection)
{
    return connection->redis->base.host->loop;
}

static void ask_one(struct connection *connection);

static void go_past(struct redis *redis)
{
    redis->sentinel = (redis->sentinel + 1) % redis->settings.sentinel_count;
}

/* `why`: of the one that was asked last. */
static void try_next(struct connection *connection, const char *why)
{
    struct redis *redis = connection->redis;
    if (connection->stream)
        hf__stream_close(connection->stream);
    connection->stream = NULL;
    hf__timer_stop(loop_of(connection), &connection->limit);
    go_past(redis);
    if (--connection->sentinels_left > 0)
        ask_one(connection);
    else
        hf__connection_break(connection, HF_UNREACHABLE, 0,
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

static void opened(void *arg)
{
    struct connection *connection = arg;
    const struct redis *redis = connection->redis;
    struct command command;
    if (redis->settings.sentinel_password) {
        hf__sentinel_authenticate(redis, &command);
        hf__connection_write(connection, NULL, &command);
    }
    hf__sentinel_question(redis, &command);
    hf__connection_write(connection, NULL, &command);
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
    struct hf_stream_place *place = &connection->place;
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
    *place = settings->place;
    place->host = connection->master_host;
    place->port = port;
    char shown[REDIS_HOST_SIZE];
    hf__url_write_place(shown, sizeof shown, place->host, place->port);
    snprintf(settings->shown, sizeof settings->shown, "%.190s (master \"%.60s\")", shown,
             settings->master);
    hf__stream_close(connection->stream);
    connection->stream = NULL;
    hf__timer_stop(loop_of(connection), &connection->limit);
    hf__connection_open_at(connection);
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
    const struct hf_stream *stream = connection->stream;
    redisReader *reader = connection->reader;
    void *reply = NULL;
    bool fits = hf__reply_feed(reader, bytes, length, &connection->unread);
    while (fits && stream == connection->stream && !connection->failing) {
        fits = redisReaderGetReply(reader, &reply) == REDIS_OK;
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
    connection->stream = NULL;
    try_next(connection, why);
}

void hf__sentinel_silent(struct connection *connection)
{
    try_next(connection, "it does not answer");
}

/* Another connection may have turned away from it already. */
void hf__sentinel_doubt(struct connection *connection)
{
    struct redis *redis = connection->redis;
    if (redis->sentinel == connection->named_by)
        go_past(redis);
}

void hf__sentinel_place(struct connection *connection, unsigned sentinel)
{
    const struct redis_settings *settings = &connection->redis->settings;
    connection->place = settings->place;
    connection->place.host = settings->sentinels[sentinel].name;
    connection->place.port = settings->sentinels[sentinel].port;
    if (!connection->place.port)
        connection->place.port = REDIS_SENTINEL_PORT;
    connection->place.limit_ms = settings->timeout_ms / SENTINEL_SHARE;
}

static void ask_one(struct connection *connection)
{
    static const struct hf_stream_events events = { opened, received, broken };
    const struct redis *redis = connection->redis;
    const struct hf_host *host = redis->base.host;
    redisReaderFree(connection->reader);
    connection->reader = hf__reply_reader();
    connection->unread = 0;
    hf__sentinel_place(connection, redis->sentinel);
    connection->place.route = &connection->route;
    if (connection->reader)
        connection->stream =
            hf__stream_open(host->uv, host->loop, &connection->place, &events, connection);
    if (connection->stream)
        hf__timer_start(loop_of(connection), &connection->limit,
                        hf__loop_now(loop_of(connection)) + connection->place.limit_ms);
    else
        hf__connection_break(connection, HF_ENOMEM, 0, "out of memory for a connection");
}

void hf__sentinel_find(struct connection *connection)
{
    connection->state = CONNECTION_FINDING;
    connection->sentinels_left = connection->redis->settings.sentinel_count;
    ask_one(connection);
}
