/* SPDX-License-Identifier: Apache-2.0 */
/* The engine `redis:`: opening, closing, and its table. */
#include "base/error.h"
#include "base/testing.h"
#include "engines/redis/kinds/kinds.h"
#include "engines/redis/topology/cluster.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Closing gives last releases this time to leave, where there is no connection for them. */
#define FAREWELL_MS 300
#define LOOK_EVERY_MS 3

/* The client's random bits as a UUID, which is what Redisson calls a client by. Redisson's are of
 * version 4; by our version 8 the scripts know a client that can be told what it was granted, and
 * by the bit below the variant one that wants no token, also where another client grants it the
 * lock. */
static void write_uuid(struct redis *redis, const uint64_t id[2])
{
    uint64_t high = (id[0] & ~UINT64_C(0xf000)) | 0x8000;
    /* mutant: none-wish-for-token-is-known */
    uint64_t low = (id[1] & ~(UINT64_C(7) << 61)) | (UINT64_C(2) << 62);
    if (redis->settings.unfenced)
        low |= UINT64_C(1) << 61;
    snprintf(redis->uuid, sizeof redis->uuid,
             "%08" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%012" PRIx64, high >> 32,
             (high >> 16) & 0xffff, high & 0xffff, low >> 48, low & UINT64_C(0xffffffffffff));
}

static void have_left(struct hf_timer *timer);

/* A client of one server, or, with a front, of one node. NULL: out of memory. */
static struct redis *new_redis(const struct hf_host *host, const struct redis_settings *settings,
                               struct redis *front)
{
    struct redis *redis = hf__calloc(1, sizeof *redis);
    if (!redis)
        return NULL;
    redis->base.host = host;
    redis->settings = *settings;
    redis->front = front ? front : redis;
    redis->sink = front ? front->sink : &hf__redis_core_sink;
    if (front)
        redis->base.ops = front->base.ops;
    write_uuid(redis, host->id);
    hf__free_list_init(&redis->free_requests, sizeof(struct redis_request));
    hf__link_init(&redis->listings);
    hf__connections_open(redis);
    hf__sentinel_watch_open(redis);
    hf__replica_wait_open(redis);
    hf__release_channels_open(redis);
    hf__grant_channel_init(redis);
    hf__renewals_open(redis);
    hf__batch_open(redis);
    hf__timer_init(&redis->leaving, have_left);
    return redis;
}

static struct redis *new_node(struct redis *front)
{
    return new_redis(front->base.host, &front->settings, front);
}

/* Ends what it has open; its memory is the caller's. */
static void disconnect(struct redis *redis)
{
    hf__batch_close(redis);
    hf__sentinel_watch_close(redis);
    hf__connection_close(&redis->cmd);
    hf__connection_close(&redis->pubsub);
    hf__connection_close(&redis->replicas);
    hf__replica_wait_close(redis);
    hf__release_channels_close(redis);
}

static void free_redis(struct redis *redis)
{
    hf__renewals_close(redis);
    disconnect(redis);
    if (redis->cluster)
        hf__cluster_close(redis->cluster, disconnect);
    hf__inspect_close(redis);
    hf__free_list_end(&redis->free_requests, NULL);
    hf__redis_settings_close(&redis->settings);
    free(redis);
}

static const struct hf_engine_ops unfenced, plain_unfenced;

int hf__redis_open_part(struct hf_engine **ret, const struct hf_host *host, struct hf_url *url,
                        const struct redis_sink *sink, hf_error *error)
{
    *ret = NULL;
    struct redis_settings settings = { 0 };
    int code = hf__redis_settings(&settings, url, error);
    struct redis *redis = code == HF_OK ? new_redis(host, &settings, NULL) : NULL;
    if (!redis) {
        hf__redis_settings_close(&settings);
        return code != HF_OK
                   ? code
                   : hf__error_set(error, HF_ENOMEM, 0, "out of memory for a client of Redis");
    }
    redis->sink = sink;
    if (redis->settings.simple)
        redis->base.ops = redis->settings.unfenced ? &plain_unfenced : &hf__redis_plain;
    else
        redis->base.ops = redis->settings.unfenced ? &unfenced : &hf__redis;
    if (redis->settings.seeds)
        code = hf__cluster_open(redis, new_node, error);
    if (code == HF_OK)
        *ret = &redis->base;
    else
        free_redis(redis);
    return code;
}

static int open_redis(struct hf_engine **ret, const struct hf_host *host, struct hf_url *url,
                      hf_error *error)
{
    return hf__redis_open_part(ret, host, url, &hf__redis_core_sink, error);
}

/* ---- releases whose reply is not read ---- */

/* It is sent once, with the script's text. By the time of its reply the op may be another claim's;
 * and an attempt of the claim may be out, whose reply is yet to come. So it is not reported to
 * core/known.h. */
static void send_dismissal(struct connection *connection, struct redis_request *request)
{
    connection->known_scripts = 0; /* mutant: what-hangs-is-told-to-forget */
    hf__lock_write_way_out(connection, request);
    request->send = NULL;
    connection->redis->front->dismissals--;
}

/* Without a connection it has not left. */
static void dismissal_ended(struct connection *connection, struct redis_request *request,
                            const redisReply *reply)
{
    (void)reply;
    connection->redis->front->dismissals -= !request->item.sent;
    hf__request_free(connection->redis, request);
}

void hf__redis_dismiss(struct hf_engine *server, struct hf_op *op, bool early)
{
    struct redis *redis = (struct redis *)server;
    struct redis_request *request = hf__request_new(redis);
    if (!request)
        return;
    request->op = op;
    request->kind = hf__redis_kind(redis, op->in.mode);
    request->early = early;
    request->send = send_dismissal;
    request->answered = dismissal_ended;
    redis->front->dismissals++;
    hf__redis_ask(redis, request, op->in.name, op->in.name_length);
}

/* It leaves at once, even behind a handshake that is under way. */
static void dismiss_at_close(struct hf_engine *engine, struct hf_op *op)
{
    struct redis *redis = (struct redis *)engine;
    if (!op->engine.word[0]) /* no attempt of it has left */
        return;
    redis->dismisses = true;
    hf__redis_dismiss(engine, op, true);
}

/* ---- closing ---- */

static void end(struct redis *redis)
{
    void (*closed)(void *arg) = redis->closed;
    void *arg = redis->closed_arg;
    hf__timer_stop(redis->base.host->loop, &redis->leaving);
    free_redis(redis);
    closed(arg);
}

static void have_left(struct hf_timer *timer)
{
    struct redis *redis = HF_CONTAINER(timer, struct redis, leaving);
    int64_t now_ms = hf__loop_now(redis->base.host->loop);
    if (redis->dismissals == 0 || now_ms >= redis->leave_until_ms)
        end(redis);
    else
        hf__timer_start(redis->base.host->loop, timer, now_ms + LOOK_EVERY_MS);
}

/* What is asked goes with its caller, and is answered no more; what was written leaves at the end
 * of this turn of the loop. */
static void silence(struct redis *redis)
{
    hf__batch_close(redis);
    hf__sentinel_watch_close(redis);
    hf__connection_close(&redis->pubsub);
    hf__connection_close(&redis->replicas);
    hf__replica_wait_close(redis);
    hf__release_channels_close(redis);
    hf__connection_silence(&redis->cmd);
}

static void close_redis(struct hf_engine *engine, void (*closed)(void *arg), void *arg)
{
    struct redis *redis = (struct redis *)engine;
    int64_t now_ms = hf__loop_now(engine->host->loop);
    redis->closed = closed;
    redis->closed_arg = arg;
    if (!redis->dismisses) {
        end(redis);
        return;
    }
    hf__renewals_close(redis);
    hf__inspect_close(redis);
    silence(redis);
    if (redis->cluster)
        hf__cluster_silence(redis->cluster, silence);
    redis->leave_until_ms = now_ms + FAREWELL_MS;
    hf__timer_start(engine->host->loop, &redis->leaving, now_ms + LOOK_EVERY_MS);
}

/* The child must not keep the parent's connections open, or speak on them. */
static void redis_let_go(struct redis *redis)
{
    struct connection *connections[] = { &redis->cmd, &redis->pubsub, &redis->replicas,
                                         &redis->sentinel_link };
    for (unsigned i = 0; i < sizeof connections / sizeof *connections; i++)
        hf__connection_forked(connections[i]);
}

static void redis_forked(struct hf_engine *engine)
{
    struct redis *redis = (struct redis *)engine;
    redis_let_go(redis);
    if (redis->cluster)
        hf__cluster_forked(redis->cluster, redis_let_go);
}

static void redis_oneshot(struct hf_engine *engine, struct hf_oneshot *asked)
{
    if (asked->verb == HF_ONESHOT_INSPECT)
        hf__redis_inspect(engine, asked);
    else if (asked->verb == HF_ONESHOT_DIAGNOSE)
        hf__redis_diagnose(engine, asked);
    else
        hf__redis_change(engine, asked);
}

static const char *const schemes[] = { "redis",           "rediss",
                                       "redis+unix",      "redis+sentinel",
                                       "rediss+sentinel", "redis+cluster",
                                       "rediss+cluster",  NULL };

#define COMMON                                                                                     \
    .schemes = schemes, .open = open_redis, .close = close_redis, .attempt = hf__redis_attempt,    \
    .release = hf__redis_release, .dismiss = dismiss_at_close, .renew = hf__redis_renew,           \
    .forgets = true, .compact = hf__redis_compact, .oneshot = redis_oneshot,                       \
    .detach = hf__redis_detach, .forked = redis_forked, .why_silent = hf__replica_wait_why_silent

#define PLAIN_CAPS (HF_CAP_MUTEX | HF_CAP_DETACH | HF_CAP_INSPECT | HF_CAP_BREAK)
#define CAPS                                                                                       \
    (PLAIN_CAPS | HF_CAP_FAIR | HF_CAP_RW | HF_CAP_UPGRADE | HF_CAP_PERMIT | HF_CAP_COUNTER |      \
     HF_CAP_LATCH | HF_CAP_RATE)

const struct hf_engine_ops hf__redis = {
    .name = "redis",
    .caps = CAPS | HF_CAP_TOKEN,
    .names_threads = true,
    .raises_tokens = true,
    COMMON,
};

static const struct hf_engine_ops unfenced = {
    .name = "redis with fence=off",
    .caps = CAPS,
    .names_threads = true,
    COMMON,
};

const struct hf_engine_ops hf__redis_plain = {
    .name = "redis with format=simple",
    .caps = PLAIN_CAPS | HF_CAP_TOKEN,
    .raises_tokens = true,
    COMMON,
};

static const struct hf_engine_ops plain_unfenced = {
    .name = "redis with format=simple and fence=off",
    .caps = PLAIN_CAPS,
    COMMON,
};
