/* SPDX-License-Identifier: Apache-2.0 */
/* A connection that comes back by itself: where it goes, how commands and replies are matched, and
 * what its end means. When it is lost, every request that was out or has waited for it is
 * unanswered. */
#include "engines/redis/redis.h"

#include <stdlib.h>
#include <string.h>

static struct connection *connection_of(struct hf_peer *peer)
{
    return HF_CONTAINER(peer, struct connection, peer);
}

bool hf__connections_match(const struct connection *a, const struct connection *b)
{
    return a->master_port == b->master_port && strcmp(a->master_host, b->master_host) == 0 &&
           strcmp(a->server_run, b->server_run) == 0; /* mutant: owner-is-behind-address-knows */
}

bool hf__connections_surely_match(const struct connection *a, const struct connection *b)
{
    return hf__connection_is_ready(a) && hf__connection_is_ready(b) && *a->server_run &&
           hf__connections_match(a, b);
}

/* ---- ending ---- */

static void unanswered(struct hf_pipeline *pipeline, struct hf_pipeline_item *item)
{
    struct redis_request *request = (struct redis_request *)item;
    request->answered(HF_CONTAINER(pipeline, struct connection, pipeline), request, NULL);
}

static void forget_connection(struct connection *connection)
{
    redisReaderFree(connection->reader);
    connection->reader = NULL;
    connection->unread = 0;
    connection->known_scripts = 0;
}

void hf__connection_fail(struct connection *connection)
{
    forget_connection(connection);
    hf__pipeline_fail(&connection->pipeline, true);
}

static void connection_failed(struct hf_peer *peer, enum hf_peer_state was)
{
    struct connection *connection = connection_of(peer);
    if (connection->use->failed)
        connection->use->failed(connection, was);
    else
        hf__connection_fail(connection);
}

/* ---- writing ---- */

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
    if (request && request->asks) /* mutant: none-asks-for-exception */
        say_asking(connection);
    if (request) {
        hf__pipeline_sent(&connection->pipeline, &request->item,
                          hf__loop_now(connection->redis->base.host->loop));
        hf__peer_await(&connection->peer);
    }
    if (!hf__command_write(command, connection->peer.stream))
        hf__peer_break(&connection->peer, HF_ENOMEM, 0, "out of memory for a request");
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
    bool sharded = connection->redis->sharded; /* mutant: all-messages-go-to-all-servers */
    const char *body = known ? scripts[script][sharded].digest : scripts[script][sharded].text;
    connection->known_scripts |= UINT64_C(1) << script;
    hf__command_begin(command, known ? "EVALSHA" : "EVAL");
    hf__command_add(command, body, strlen(body));
    hf__command_number(command, keys);
}

void hf__connection_ask(struct connection *connection, struct redis_request *request)
{
    /* mutant: release-waits-for-greeting */
    bool early = request->early && connection->peer.state == HF_PEER_GREETING;
    if (hf__connection_is_ready(connection) || (early && !connection->peer.failing)) {
        request->send(connection, request);
        return;
    }
    hf__pipeline_wait(&connection->pipeline, &request->item);
    if (request->early)
        hf__peer_end_pause(&connection->peer);
    hf__peer_want(&connection->peer);
}

/* ---- reading ---- */

/* The server may refuse the client before it reads anything, which looks like the answer to the
 * first command, whatever that is. */
static void check_door(struct connection *connection, const redisReply *reply)
{
    if (strstr(reply->str, "max number of clients"))
        hf__peer_break(&connection->peer, HF_ELIMIT, 0,
                       "it has as many clients as its maxclients allows; raise maxclients, "
                       "or end connections that are not needed: %.80s",
                       reply->str);
    else if (strstr(reply->str, "protected mode"))
        hf__peer_break(&connection->peer, HF_DENIED, 0,
                       "it is in protected mode, and so refuses clients on other machines; "
                       "set a password there (requirepass), or protected-mode no where its "
                       "network is trusted");
}

static void take_reply(struct connection *connection, const redisReply *reply)
{
    struct redis_request *request =
        (struct redis_request *)hf__pipeline_replied(&connection->pipeline);
    if (!request) {
        if (connection->use->pushed)
            connection->use->pushed(connection, reply);
        else
            hf__peer_break(&connection->peer, HF_ECORRUPT, 0, "a reply without a request");
        return;
    }
    /* mutant: server-that-is-full-looks-like */
    if (connection->peer.state == HF_PEER_GREETING && reply->type == REDIS_REPLY_ERROR)
        check_door(connection, reply);
    if (request->send && reply->type == REDIS_REPLY_ERROR && hf__reply_says(reply, "NOSCRIPT") &&
        request->repeats++ < REDIS_REPEATS_MAX) {
        connection->known_scripts = 0;
        request->send(connection, request); /* mutant: scripts-that-server */
        return;
    }
    if (request->send && reply->type == REDIS_REPLY_ERROR && connection->use->redirects &&
        connection->use->redirects(connection, request, reply))
        return;
    request->answered(connection, request, reply);
    /* It was a master when we connected; where that is now is found by connecting again. */
    /* mutant: server-that-has-become-replica */
    if (reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "READONLY"))
        hf__peer_break(&connection->peer, HF_UNREACHABLE, 0, "it is a replica now");
}

static void take_bytes(struct hf_peer *peer, const char *bytes, size_t length)
{
    struct connection *connection = connection_of(peer);
    redisReader *reader = connection->reader;
    void *reply = NULL;
    if (connection->silenced)
        return;
    bool fits = hf__reply_feed(reader, bytes, length, &connection->unread);
    while (fits && hf__peer_can_read(peer)) {
        fits = redisReaderGetReply(reader, &reply) == REDIS_OK;
        if (!fits || !reply)
            break;
        connection->unread = reader->len - reader->pos;
        take_reply(connection, reply);
        freeReplyObject(reply);
    }
    if (!fits)
        hf__peer_break(peer, HF_ECORRUPT, 0, "its answer cannot be read: %s",
                       *reader->errstr ? reader->errstr : "it is too long");
}

/* ---- opening ---- */

static bool connection_place(struct hf_peer *peer, struct hf_peer_try *ret)
{
    struct connection *connection = connection_of(peer);
    ret->limit_ms = 0; /* each request of the handshake has the limit of requests */
    return connection->use->place(connection, ret);
}

/* They leave right behind the greeting, which has said the password and the database. If either is
 * refused, a release finds nothing of ours. */
static void send_early(struct connection *connection)
{
    HF_LIST_FOREACH (link, following, &connection->pipeline.waiting) {
        struct redis_request *request = hf__request_at(link);
        if (connection->peer.failing || !request->early)
            continue;
        hf__link_remove(link);
        request->send(connection, request);
    }
}

static void connection_greet(struct hf_peer *peer)
{
    struct connection *connection = connection_of(peer);
    redisReaderFree(connection->reader);
    connection->unread = 0;
    connection->reader = hf__reply_reader();
    if (!connection->reader)
        hf__peer_break(peer, HF_ENOMEM, 0, "out of memory for a connection");
    else
        connection->use->greet(connection);
    send_early(connection);
}

void hf__connection_greeted(struct connection *connection)
{
    struct hf_pipeline_item *item;
    hf__peer_ready(&connection->peer);
    if (!hf__connection_is_ready(connection))
        return;
    if (connection->use->ready)
        connection->use->ready(connection);
    while (!connection->peer.failing && (item = hf__pipeline_next(&connection->pipeline))) {
        struct redis_request *request = (struct redis_request *)item;
        request->send(connection, request);
    }
}

static bool connection_needed(struct hf_peer *peer)
{
    const struct connection *connection = connection_of(peer);
    return !hf__list_empty(&connection->pipeline.waiting) ||
           (connection->use->pushed && !hf__list_empty(&connection->redis->waiters));
}

/* ---- beginning and ending ---- */

static int64_t connection_oldest(struct hf_peer *peer)
{
    struct connection *connection = connection_of(peer);
    if (peer->state == HF_PEER_READY && connection->use->oldest_ms)
        return connection->use->oldest_ms(connection->redis);
    return hf__pipeline_oldest_ms(&connection->pipeline);
}

void hf__connection_init(struct connection *connection, struct redis *redis,
                         const struct connection_use *use)
{
    static const struct hf_peer_callbacks callbacks = { connection_place,  connection_greet,
                                                        take_bytes,        connection_failed,
                                                        connection_needed, connection_oldest };
    connection->redis = redis;
    connection->use = use;
    hf__peer_init(&connection->peer,
                  &(struct hf_peer_config){ .host = redis->base.host,
                                            .callbacks = &callbacks,
                                            .store = use->store,
                                            .shown = redis->settings.shown,
                                            .place_count = 1,
                                            .timeout_ms = redis->settings.timeout_ms });
    hf__pipeline_init(&connection->pipeline, unanswered);
}

static void free_late_requests(struct connection *connection, struct hf_link *requests)
{
    HF_LIST_FOREACH (link, following, requests) {
        struct redis_request *request = hf__request_at(link);
        if (!request->early)
            hf__request_free(connection->redis, request);
    }
}

void hf__connection_silence(struct connection *connection)
{
    connection->silenced = true;
    free_late_requests(connection, &connection->pipeline.out);
    free_late_requests(connection, &connection->pipeline.waiting);
}

void hf__connection_close(struct connection *connection)
{
    struct hf_pipeline_item *item;
    if (connection->search)
        hf__connection_close(connection->search);
    free(connection->search);
    connection->search = NULL;
    forget_connection(connection);
    hf__peer_close(&connection->peer);
    while ((item = hf__pipeline_replied(&connection->pipeline)) ||
           (item = hf__pipeline_next(&connection->pipeline)))
        hf__request_free(connection->redis, (struct redis_request *)item);
}

void hf__connection_forked(struct connection *connection)
{
    hf__peer_forked(&connection->peer);
    if (connection->search)
        hf__peer_forked(&connection->search->peer);
}
