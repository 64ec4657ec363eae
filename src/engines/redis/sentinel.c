/* Finding the master by asking sentinels, one after the other, beginning with the one that knew it
 * last time. Each time that a connection is opened it is asked for anew, so a failover is noticed
 * by the connection that breaks in it; the greeting then makes sure that it is a master. */
#include "redis.h"

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

static void command_to(struct connection *connection, struct command *command)
{
    if (!hf__command_write(command, connection->stream))
        hf__connection_break(connection, HF_ENOMEM, 0, "out of memory for a question");
}

static void opened(void *arg)
{
    struct connection *connection = arg;
    const struct redis_settings *settings = &connection->redis->settings;
    struct command command;
    if (settings->sentinel_password) {
        hf__command_begin(&command, "AUTH");
        hf__command_add(&command, settings->sentinel_password, strlen(settings->sentinel_password));
        command_to(connection, &command);
    }
    hf__command_begin(&command, "SENTINEL");
    hf__command_print(&command, "get-master-addr-by-name");
    hf__command_add(&command, settings->master, strlen(settings->master));
    command_to(connection, &command);
}

/* {host, port} */
static bool is_address(const redisReply *reply)
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
    /* The last connection's number means nothing to another server. */
    if (strcmp(host, connection->master_host) != 0 || port != connection->master_port)
        connection->server_id = 0;
    snprintf(connection->master_host, sizeof connection->master_host, "%s", host);
    connection->master_port = port;
    *place = settings->place;
    place->host = connection->master_host;
    place->port = port;
    snprintf(settings->shown, sizeof settings->shown, "%.180s:%u (master \"%.60s\")", place->host,
             place->port, settings->master);
    hf__stream_close(connection->stream);
    connection->stream = NULL;
    hf__timer_stop(loop_of(connection), &connection->limit);
    hf__connection_open_at(connection);
}

static void take(struct connection *connection, const redisReply *reply)
{
    if (is_address(reply))
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

static void ask_one(struct connection *connection)
{
    static const struct hf_stream_events events = { opened, received, broken };
    const struct redis *redis = connection->redis;
    const struct hf_host *host = redis->base.host;
    int64_t share_ms = redis->settings.timeout_ms / SENTINEL_SHARE;
    redisReaderFree(connection->reader);
    connection->reader = hf__reply_reader();
    connection->unread = 0;
    connection->place = redis->settings.place;
    connection->place.host = redis->settings.sentinels[redis->sentinel].name;
    connection->place.port = redis->settings.sentinels[redis->sentinel].port;
    if (!connection->place.port)
        connection->place.port = REDIS_SENTINEL_PORT;
    connection->place.limit_ms = share_ms;
    if (connection->reader)
        connection->stream =
            hf__stream_open(host->uv, host->loop, &connection->place, &events, connection);
    if (connection->stream)
        hf__timer_start(loop_of(connection), &connection->limit,
                        hf__loop_now(loop_of(connection)) + share_ms);
    else
        hf__connection_break(connection, HF_ENOMEM, 0, "out of memory for a connection");
}

void hf__sentinel_find(struct connection *connection)
{
    connection->state = CONNECTION_FINDING;
    connection->sentinels_left = connection->redis->settings.sentinel_count;
    ask_one(connection);
}
