/* Hearing of releases. One channel a lock, listened to while one of our ops waits for it. Whoever
 * begins to listen, or listens again, is woken when the server confirms it: what was released
 * before that moment was heard by nobody. */
#include "base/rand.h"
#include "base/testing.h"
#include "redis.h"

#include <string.h>

struct channel {
    struct channel *next;
    struct hf_link waiters;
    bool confirmed;
    size_t length;
    char name[];
};

struct waiter {
    struct hf_link link;
    struct hf_op *op;
    struct channel *channel;
};

static struct channel **bucket_of(struct redis *redis, const char *name, size_t length)
{
    uint64_t hash = hf__hash(name, length);
    return &redis->channels[hash % REDIS_CHANNEL_BUCKETS];
}

/* Where it is linked in, or NULL. */
static struct channel **find(struct redis *redis, const char *name, size_t length)
{
    struct channel **at = bucket_of(redis, name, length);
    for (; *at; at = &(*at)->next)
        if ((*at)->length == length && memcmp((*at)->name, name, length) == 0)
            return at;
    return NULL;
}

static void say(struct redis *redis, const char *word, const struct channel *channel)
{
    struct command command;
    if (redis->listening.state != CONNECTION_READY || redis->listening.failing)
        return;
    hf__command_begin(&command, word);
    hf__command_add(&command, channel->name, channel->length);
    hf__connection_write(&redis->listening, NULL, &command);
}

static void beat_on(struct redis *redis)
{
    struct hf_loop *loop = redis->base.host->loop;
    hf__timer_start(loop, &redis->heartbeat, hf__loop_now(loop) + redis->settings.timeout_ms);
}

/* ---- joining and leaving ---- */

static struct channel *add(struct redis *redis, const char *name, size_t length)
{
    struct channel *channel = hf__calloc(1, sizeof *channel + length);
    if (!channel)
        return NULL;
    struct channel **bucket = bucket_of(redis, name, length);
    hf__link_init(&channel->waiters);
    memcpy(channel->name, name, length);
    channel->length = length;
    channel->next = *bucket;
    *bucket = channel;
    redis->channel_count++;
    hf__connection_want(&redis->listening);
    say(redis, "SUBSCRIBE", channel);
    return channel;
}

bool hf__channel_join(struct redis *redis, struct hf_op *op)
{
    struct command name;
    const struct redis_kind *kind = hf__redis_kind(redis, op->mode);
    if (op->engine_pointer || !kind->channel)
        return op->engine_pointer != NULL;
    hf__command_begin(&name, "");
    kind->channel(redis, &name, op);
    struct waiter *waiter = hf__calloc(1, sizeof *waiter);
    if (!waiter)
        return false;
    struct channel **found = find(redis, name.arguments[1], name.lengths[1]);
    struct channel *channel = found ? *found : add(redis, name.arguments[1], name.lengths[1]);
    if (!channel) {
        free(waiter);
        return false;
    }
    waiter->op = op;
    waiter->channel = channel;
    hf__list_append(&channel->waiters, &waiter->link);
    op->engine_pointer = waiter;
    return true;
}

static void drop(struct redis *redis, struct channel **at)
{
    struct channel *channel = *at;
    *at = channel->next;
    redis->channel_count--;
    free(channel);
}

void hf__channel_leave(struct redis *redis, struct hf_op *op)
{
    struct waiter *waiter = op->engine_pointer;
    if (!waiter)
        return;
    struct channel *channel = waiter->channel;
    op->engine_pointer = NULL;
    hf__link_remove(&waiter->link);
    free(waiter);
    if (!hf__list_empty(&channel->waiters))
        return;
    say(redis, "UNSUBSCRIBE", channel);
    drop(redis, find(redis, channel->name, channel->length));
}

bool hf__channel_sure(const struct hf_op *op)
{
    const struct waiter *waiter = op->engine_pointer;
    return waiter->channel->confirmed;
}

/* ---- what the server says ---- */

static void wake_all(struct channel *channel)
{
    HF_LIST_FOREACH (link, following, &channel->waiters)
        hf__op_wake(HF_CONTAINER(link, struct waiter, link)->op);
}

static void pushed(struct connection *connection, const redisReply *reply)
{
    struct redis *redis = connection->redis;
    redis->heard = true;
    /* An error here is a refusal to let us listen: then waiting is looking again and again. */
    if (!hf__reply_is_array(reply, 2))
        return;
    const char *word = hf__reply_text(reply->element[0]);
    bool confirmed = strcmp(word, "subscribe") == 0;
    if (!confirmed && strcmp(word, "message") != 0)
        return;
    const redisReply *name = reply->element[1];
    if (name->type != REDIS_REPLY_STRING)
        return;
    struct channel **found = find(redis, name->str, (size_t)name->len);
    if (!found)
        return;
    (*found)->confirmed |= confirmed;
    wake_all(*found);
}

static void for_all(struct redis *redis, void (*act)(struct redis *, struct channel *))
{
    for (unsigned i = 0; i < REDIS_CHANNEL_BUCKETS; i++)
        for (struct channel *channel = redis->channels[i], *next; channel; channel = next) {
            next = channel->next;
            act(redis, channel);
        }
}

static void listen_to(struct redis *redis, struct channel *channel)
{
    say(redis, "SUBSCRIBE", channel);
}

static void ready(struct connection *connection)
{
    connection->redis->heard = true;
    for_all(connection->redis, listen_to);
    beat_on(connection->redis);
}

/* They look for themselves until somebody listens again. */
static void deafen(struct redis *redis, struct channel *channel)
{
    (void)redis;
    channel->confirmed = false;
    wake_all(channel);
}

static void lost(struct connection *connection)
{
    hf__timer_stop(connection->redis->base.host->loop, &connection->redis->heartbeat);
    for_all(connection->redis, deafen);
}

/* A connection on which nothing comes may be dead, or just quiet: asking tells. */
static void beat(struct hf_timer *timer)
{
    struct redis *redis = HF_CONTAINER(timer, struct redis, heartbeat);
    struct command command;
    if (!redis->heard) {
        hf__connection_break(&redis->listening, HF_UNREACHABLE, 0, "no answer for %lld ms",
                             (long long)redis->settings.timeout_ms);
        return;
    }
    redis->heard = false;
    hf__command_begin(&command, "PING");
    hf__connection_write(&redis->listening, NULL, &command);
    beat_on(redis);
}

void hf__channels_open(struct redis *redis)
{
    hf__timer_init(&redis->heartbeat, beat);
    redis->listening.ready = ready;
    redis->listening.lost = lost;
    redis->listening.pushed = pushed;
}

void hf__channels_close(struct redis *redis)
{
    hf__timer_stop(redis->base.host->loop, &redis->heartbeat);
    for (unsigned i = 0; i < REDIS_CHANNEL_BUCKETS; i++)
        while (redis->channels[i]) {
            struct hf_link *link;
            while ((link = hf__list_pop(&redis->channels[i]->waiters)))
                free(HF_CONTAINER(link, struct waiter, link));
            drop(redis, &redis->channels[i]);
        }
}
