/* SPDX-License-Identifier: Apache-2.0 */
/* A connection that comes back by itself. It is opened when somebody has a request, and broken
 * when the server is silent for too long; then every request that was out is unanswered, and the
 * next try waits a little longer each time, not at the same moment as everybody else's. */
#include "base/error.h"
#include "base/rand.h"
#include "engines/redis/topology/cluster.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static struct hf_loop *loop_of(const struct connection *connection)
{
    return connection->redis->base.host->loop;
}

/* ---- ending ---- */

static void drop_stream(struct connection *connection)
{
    if (connection->stream)
        hf__stream_close(connection->stream);
    connection->stream = NULL;
    if (connection->reader)
        redisReaderFree(connection->reader);
    connection->reader = NULL;
    connection->unread = 0;
    connection->known_scripts = 0;
    connection->failing = false;
    hf__timer_stop(loop_of(connection), &connection->limit);
}

static void begin_pause(struct connection *connection)
{
    int64_t pause_ms = hf__backoff_ms(connection->failures++);
    hf__timer_start(loop_of(connection), &connection->pause,
                    hf__loop_now(loop_of(connection)) + pause_ms);
}

static void leave_unanswered(struct connection *connection, struct hf_link *requests)
{
    struct hf_link unanswered;
    hf__link_init(&unanswered);
    struct hf_link *link;
    /* What is asked anew meanwhile belongs to the next connection. */
    while ((link = hf__list_pop(requests)))
        hf__list_append(&unanswered, link);
    while ((link = hf__list_pop(&unanswered))) {
        struct redis_request *request = HF_CONTAINER(link, struct redis_request, link);
        request->answered(connection, request, NULL);
    }
}

bool hf__connection_is_ready(const struct connection *connection)
{
    return connection->state == CONNECTION_READY && !connection->failing;
}

bool hf__connections_match(const struct connection *a, const struct connection *b)
{
    return a->master_port == b->master_port && strcmp(a->master_host, b->master_host) == 0 &&
           strcmp(a->server_run, b->server_run) == 0;
}

bool hf__connections_surely_match(const struct connection *a, const struct connection *b)
{
    return hf__connection_is_ready(a) && hf__connection_is_ready(b) && *a->server_run &&
           hf__connections_match(a, b);
}

static bool goes_to_sentinel(const struct connection *connection)
{
    return connection == &connection->redis->sentinel_link;
}

/* `why` is set. */
static void fail(struct connection *connection)
{
    bool was_ready = connection->state == CONNECTION_READY;
    bool concerns_cluster = connection->redis->cluster && hf__cluster_is_concerned(connection);
    if (connection->redis->settings.master && connection->state != CONNECTION_FINDING &&
        !was_ready && !goes_to_sentinel(connection))
        hf__sentinel_doubt(connection);
    drop_stream(connection);
    connection->state = CONNECTION_DOWN;
    begin_pause(connection);
    leave_unanswered(connection, &connection->out);
    leave_unanswered(connection, &connection->requests);
    if (was_ready && connection->lost)
        connection->lost(connection);
    if (concerns_cluster)
        hf__cluster_suspects(connection->redis->cluster);
}

/* The failure is told when whoever finds it has returned. */
void hf__connection_break(struct connection *connection, int code, int native, const char *format,
                          ...)
{
    char what[240];
    va_list arguments;
    if (connection->failing || connection->state == CONNECTION_DOWN)
        return;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    hf__error_set(&connection->why, code, native, "Redis at %.100s: %s",
                  connection->redis->settings.shown, what);
    connection->failing = true;
    hf__timer_start(loop_of(connection), &connection->limit, hf__loop_now(loop_of(connection)));
}

static void limit_fired(struct hf_timer *timer)
{
    struct connection *connection = HF_CONTAINER(timer, struct connection, limit);
    if (connection->failing) {
        fail(connection);
        return;
    }
    if (connection->state == CONNECTION_FINDING) {
        hf__sentinel_silent(connection);
        return;
    }
    struct hf_link *first = hf__list_first(&connection->out);
    if (!first)
        return;
    int64_t timeout_ms = connection->redis->settings.timeout_ms;
    int64_t due_ms = HF_CONTAINER(first, struct redis_request, link)->sent_at_ms + timeout_ms;
    if (hf__loop_now(loop_of(connection)) < due_ms)
        hf__timer_start(loop_of(connection), &connection->limit, due_ms);
    else
        hf__connection_break(connection, HF_UNREACHABLE, 0, "no answer for %lld ms",
                             (long long)timeout_ms);
}

void hf__connection_why_silent(struct connection *connection, hf_error **error)
{
    struct hf_link *first = hf__list_first(&connection->out);
    if (connection->state == CONNECTION_READY && first)
        hf__explain(error, HF_UNREACHABLE, 0, "Redis at %.100s: no answer for %lld ms",
                    connection->redis->settings.shown,
                    (long long)(hf__loop_now(loop_of(connection)) -
                                HF_CONTAINER(first, struct redis_request, link)->sent_at_ms));
    else if (connection->state != CONNECTION_READY && connection->why.code != HF_OK)
        hf__explain(error, HF_UNREACHABLE, connection->why.native, "%s", connection->why.text);
    else if (connection->state != CONNECTION_DOWN && connection->state != CONNECTION_READY)
        hf__explain(error, HF_UNREACHABLE, 0, "Redis at %.100s: no connection in time",
                    connection->redis->settings.shown);
}

/* ---- writing ---- */

static void await(struct connection *connection, struct redis_request *request)
{
    request->sent = true;
    request->sent_at_ms = hf__loop_now(loop_of(connection));
    hf__list_append(&connection->out, &request->link);
    if (!connection->limit.started)
        hf__timer_start(loop_of(connection), &connection->limit,
                        request->sent_at_ms + connection->redis->settings.timeout_ms);
}

/* It lets the next command into a slot that is on its way to this node. */
static void say_asking(struct connection *connection)
{
    struct redis_request *request = hf__request_new(connection->redis);
    struct command command;
    if (!request)
        return;
    request->answered = hf__request_ignored;
    hf__command_begin(&command, "ASKING");
    hf__connection_write(connection, request, &command);
}

void hf__connection_write(struct connection *connection, struct redis_request *request,
                          struct command *command)
{
    if (request && request->asks)
        say_asking(connection);
    if (request)
        await(connection, request);
    if (!hf__command_write(command, connection->stream))
        hf__connection_break(connection, HF_ENOMEM, 0, "out of memory for a request");
}

/* The standard asks compilers for strings of 4095 bytes, and ours take any. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"
static const struct {
    const char *digest, *text;
} scripts[][2] = {
#define HF_SCRIPT(name, sha, body, sharded_sha, sharded_body)                                      \
    [REDIS_##name] = { { sha, body }, { sharded_sha, sharded_body } },
#include "engines/redis/scripts.inc"
#undef HF_SCRIPT
};
#pragma GCC diagnostic pop

void hf__connection_script(struct connection *connection, struct command *command,
                           enum redis_script script, unsigned keys)
{
    _Static_assert(REDIS_SCRIPTS <= 64, "a bit for each script");
    bool known = connection->known_scripts >> script & 1;
    bool sharded = connection->redis->sharded;
    const char *body = known ? scripts[script][sharded].digest : scripts[script][sharded].text;
    connection->known_scripts |= UINT64_C(1) << script;
    hf__command_begin(command, known ? "EVALSHA" : "EVAL");
    hf__command_add(command, body, strlen(body));
    hf__command_number(command, keys);
}

void hf__connection_ask(struct connection *connection, struct redis_request *request)
{
    bool greeted = connection->state == CONNECTION_READY;
    bool early = request->early && connection->state == CONNECTION_GREETING;
    if ((greeted || early) && !connection->failing) {
        request->send(connection, request);
        return;
    }
    request->sent = false;
    hf__list_append(&connection->requests, &request->link);
    if (request->early)
        hf__timer_stop(loop_of(connection), &connection->pause);
    hf__connection_want(connection);
}

/* ---- reading ---- */

static void take_reply(struct connection *connection, const redisReply *reply)
{
    struct hf_link *first = hf__list_pop(&connection->out);
    if (!first) {
        if (connection->pushed)
            connection->pushed(connection, reply);
        else
            hf__connection_break(connection, HF_ECORRUPT, 0, "a reply without a request");
        return;
    }
    struct redis_request *request = HF_CONTAINER(first, struct redis_request, link);
    if (connection->state == CONNECTION_GREETING && reply->type == REDIS_REPLY_ERROR)
        hf__greeting_check_door(connection, reply);
    if (request->send && reply->type == REDIS_REPLY_ERROR && hf__reply_says(reply, "NOSCRIPT") &&
        request->repeats++ < REDIS_REPEATS_MAX) {
        connection->known_scripts = 0;
        request->send(connection, request);
        return;
    }
    if (request->send && reply->type == REDIS_REPLY_ERROR && connection->redis->cluster &&
        hf__cluster_redirects(connection, request, reply))
        return;
    request->answered(connection, request, reply);
    /* It was a master when we connected; where that is now is found by connecting again. */
    if (reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "READONLY"))
        hf__connection_break(connection, HF_UNREACHABLE, 0, "it is a replica now");
}

static void received(void *arg, const char *bytes, size_t length)
{
    struct connection *connection = arg;
    redisReader *reader = connection->reader;
    void *reply = NULL;
    if (connection->failing || connection->silenced)
        return;
    bool fits = hf__reply_feed(reader, bytes, length, &connection->unread);
    while (fits && !connection->failing) {
        fits = redisReaderGetReply(reader, &reply) == REDIS_OK;
        if (!fits || !reply)
            break;
        connection->unread = reader->len - reader->pos;
        take_reply(connection, reply);
        freeReplyObject(reply);
    }
    if (!fits)
        hf__connection_break(connection, HF_ECORRUPT, 0, "its answer cannot be read: %s",
                             *reader->errstr ? reader->errstr : "it is too long");
}

/* ---- opening ---- */

/* They leave right behind the greeting, which has said the password and the database. If either is
 * refused, a release finds nothing of ours. */
static void send_early(struct connection *connection)
{
    HF_LIST_FOREACH (link, following, &connection->requests) {
        struct redis_request *request = HF_CONTAINER(link, struct redis_request, link);
        if (connection->failing || !request->early)
            continue;
        hf__link_remove(link);
        request->send(connection, request);
    }
}

static void opened(void *arg)
{
    struct connection *connection = arg;
    connection->state = CONNECTION_GREETING;
    if (goes_to_sentinel(connection))
        hf__sentinel_watch_greet(connection);
    else
        hf__handshake_begin(connection);
    send_early(connection);
}

/* The command connection may have come back to another server. The listening one would stay at the
 * old server for as long as that lives: grants at the new one would not be heard. */
static void follow(struct redis *redis)
{
    if (hf__connection_is_ready(&redis->pubsub) &&
        !hf__connections_surely_match(&redis->cmd, &redis->pubsub))
        hf__connection_break(&redis->pubsub, HF_UNREACHABLE, 0,
                             "requests go to another server now");
}

void hf__connection_greeted(struct connection *connection)
{
    connection->state = CONNECTION_READY;
    connection->failures = 0;
    connection->openings++;
    if (connection == &connection->redis->cmd)
        follow(connection->redis);
    struct hf_link *link;
    while (!connection->failing && (link = hf__list_pop(&connection->requests))) {
        struct redis_request *request = HF_CONTAINER(link, struct redis_request, link);
        request->send(connection, request);
    }
    if (connection->ready)
        connection->ready(connection);
    if (!goes_to_sentinel(connection))
        hf__sentinel_watch_begin(connection->redis);
}

static void broken(void *arg, int code, int native, const char *why)
{
    struct connection *connection = arg;
    bool was_open = connection->state != CONNECTION_OPENING;
    connection->stream = NULL;
    if (!connection->failing)
        hf__error_set(&connection->why, code, native, "Redis at %.100s: %s%s",
                      connection->redis->settings.shown, was_open ? "" : "cannot connect: ", why);
    fail(connection);
}

void hf__connection_open_at(struct connection *connection)
{
    static const struct hf_stream_events events = { opened, received, broken };
    const struct hf_host *host = connection->redis->base.host;
    connection->state = CONNECTION_OPENING;
    connection->place.route = &connection->route;
    redisReaderFree(connection->reader);
    connection->reader = hf__reply_reader();
    connection->unread = 0;
    if (connection->reader)
        connection->stream =
            hf__stream_open(host->uv, host->loop, &connection->place, &events, connection);
    if (!connection->stream)
        hf__connection_break(connection, HF_ENOMEM, 0, "out of memory for a connection");
}

void hf__connection_want(struct connection *connection)
{
    if (connection->state != CONNECTION_DOWN || connection->pause.started)
        return;
    connection->place = connection->redis->settings.place;
    if (goes_to_sentinel(connection))
        hf__sentinel_watch_place(connection);
    if (connection->redis->settings.master && !goes_to_sentinel(connection))
        hf__sentinel_find(connection);
    else
        hf__connection_open_at(connection);
}

static bool is_needed(const struct connection *connection)
{
    return !hf__list_empty(&connection->requests) ||
           (connection->pushed && !hf__list_empty(&connection->redis->waiters));
}

static void pause_over(struct hf_timer *timer)
{
    struct connection *connection = HF_CONTAINER(timer, struct connection, pause);
    if (is_needed(connection))
        hf__connection_want(connection);
}

void hf__connection_init(struct connection *connection, struct redis *redis)
{
    connection->redis = redis;
    hf__link_init(&connection->requests);
    hf__link_init(&connection->out);
    hf__timer_init(&connection->pause, pause_over);
    hf__timer_init(&connection->limit, limit_fired);
}

static void free_questions(struct connection *connection, struct hf_link *requests)
{
    struct hf_link *link;
    while ((link = hf__list_pop(requests)))
        hf__request_free(connection->redis, HF_CONTAINER(link, struct redis_request, link));
}

static void free_late_requests(struct connection *connection, struct hf_link *requests)
{
    HF_LIST_FOREACH (link, following, requests) {
        struct redis_request *request = HF_CONTAINER(link, struct redis_request, link);
        if (!request->early)
            hf__request_free(connection->redis, request);
    }
}

void hf__connection_silence(struct connection *connection)
{
    connection->silenced = true;
    free_late_requests(connection, &connection->out);
    free_late_requests(connection, &connection->requests);
}

void hf__connection_close(struct connection *connection)
{
    drop_stream(connection);
    connection->state = CONNECTION_DOWN;
    hf__timer_stop(loop_of(connection), &connection->pause);
    hf__route_end(&connection->route);
    free_questions(connection, &connection->out);
    free_questions(connection, &connection->requests);
}
