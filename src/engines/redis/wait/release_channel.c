/* SPDX-License-Identifier: Apache-2.0 */
/* Hearing of releases. One channel a lock, listened to while one of our ops waits for it. An op
 * that begins to listen, or listens again, is woken when the server confirms it: what was released
 * before that moment was not heard. */
#include "base/rand.h"
#include "base/testing.h"
#include "engines/redis/kinds/kinds.h"
#include "engines/redis/redis.h"

#include <string.h>
#include <strings.h>

/* How many channels that were refused are asked for again in a pulse. */
#define ASKED_AGAIN_MAX 100u

struct channel {
    struct channel *next;
    struct hf_link waiters;
    bool confirmed;
    uint64_t heard; /* the number of the last release that was heard of */
    size_t length;
    char name[];
};

static struct channel **release_channel_bucket_of(struct redis *redis, const char *name,
                                                  size_t length)
{
    uint64_t hash = hf__hash(name, length);
    return &redis->channels[hash % REDIS_CHANNEL_BUCKETS];
}

/* Where it is linked in, or NULL. */
static struct channel **find_channel(struct redis *redis, const char *name, size_t length)
{
    struct channel **at = release_channel_bucket_of(redis, name, length);
    for (; *at; at = &(*at)->next)
        if ((*at)->length == length && memcmp((*at)->name, name, length) == 0)
            return at;
    return NULL;
}

/* In a cluster that can, a channel belongs to the lock's own server. */
enum word { SUBSCRIBE, UNSUBSCRIBE };

static void send_word(struct redis *redis, enum word word, const struct channel *channel)
{
    static const char *const words[][2] = { [SUBSCRIBE] = { "SUBSCRIBE", "SSUBSCRIBE" },
                                            [UNSUBSCRIBE] = { "UNSUBSCRIBE", "SUNSUBSCRIBE" } };
    /* mutant: none-listens-at-lock-own */
    hf__listening_say(redis, words[word][redis->sharded], channel->name, channel->length);
}

/* ---- joining and leaving ---- */

static struct channel *add(struct redis *redis, const char *name, size_t length)
{
    struct channel *channel = hf__calloc(1, sizeof *channel + length);
    if (!channel)
        return NULL;
    struct channel **bucket = release_channel_bucket_of(redis, name, length);
    hf__link_init(&channel->waiters);
    memcpy(channel->name, name, length);
    channel->length = length;
    channel->next = *bucket;
    *bucket = channel;
    hf__peer_want(&redis->pubsub.peer);
    send_word(redis, SUBSCRIBE, channel);
    return channel;
}

bool hf__release_channel_join(struct redis *redis, struct hf_op *op)
{
    struct command name;
    const struct redis_kind *kind = hf__redis_kind(redis, op->in.mode);
    struct waiter *waiter = kind->channel ? hf__waiter_of(redis, op) : NULL;
    if (!waiter || waiter->channel)
        return waiter != NULL;
    hf__command_begin(&name, "");
    kind->channel(redis, &name, op);
    struct channel **found = find_channel(redis, name.arguments[1], name.lengths[1]);
    waiter->channel = found ? *found : add(redis, name.arguments[1], name.lengths[1]);
    if (!waiter->channel)
        return false;
    hf__list_append(&waiter->channel->waiters, &waiter->link);
    return true;
}

static void drop(struct channel **at)
{
    struct channel *channel = *at;
    *at = channel->next;
    free(channel);
}

void hf__release_channel_quit(struct hf_op *op)
{
    struct waiter *waiter = op->engine.pointer;
    struct channel *channel = waiter ? waiter->channel : NULL;
    if (!channel)
        return;
    struct redis *redis = waiter->redis;
    waiter->channel = NULL;
    hf__link_remove(&waiter->link);
    if (!hf__list_empty(&channel->waiters))
        return;
    send_word(redis, UNSUBSCRIBE, channel);
    drop(find_channel(redis, channel->name, channel->length));
}

void hf__waiter_leave(struct hf_op *op)
{
    struct waiter *waiter = op->engine.pointer;
    if (!waiter)
        return;
    struct redis *redis = waiter->redis;
    hf__release_channel_quit(op);
    hf__link_remove(&waiter->in_inbox);
    hf__timer_stop(redis->base.host->loop, &waiter->look);
    op->engine.pointer = NULL;
    hf__link_remove(&waiter->of_all);
    hf__list_append(&redis->free_waiters, &waiter->of_all);
}

/* Is the server known to tell us? */
static bool is_sure(const struct hf_op *op)
{
    const struct waiter *waiter = op->engine.pointer;
    return waiter->channel->confirmed && hf__listening_is_there(waiter->redis);
}

/* ---- what the server says ---- */

/* The channel goes with the last op that leaves it, so nothing of it is read after that one's
 * turn. */
static void wake_all(struct channel *channel)
{
    struct hf_link *end = &channel->waiters, *following;
    for (struct hf_link *link = end->next; link != end; link = following) {
        following = link->next;
        hf__op_wake(HF_CONTAINER(link, struct waiter, link)->op);
    }
}

static bool is_either(const char *word, const char *plain, const char *sharded)
{
    return strcmp(word, plain) == 0 || strcmp(word, sharded) == 0;
}

/* The waiters look for themselves until the channel is listened to again. */
static void deafen(struct redis *redis, struct channel *channel)
{
    (void)redis;
    channel->confirmed = false;
    wake_all(channel);
}

static void listen_to(struct redis *redis, struct channel *channel)
{
    send_word(redis, SUBSCRIBE, channel);
}

/* The lock's slot has gone to another node, where its waiters will follow; or it comes back. */
static void dismissed(struct redis *redis, const char *name)
{
    struct channel **found = find_channel(redis, name, strlen(name));
    if (!found)
        return;
    listen_to(redis, *found);
    deafen(redis, *found);
}

static void for_all(struct redis *redis, void (*act)(struct redis *, struct channel *))
{
    for (unsigned i = 0; i < REDIS_CHANNEL_BUCKETS; i++)
        for (struct channel *channel = redis->channels[i], *next; channel; channel = next) {
            next = channel->next;
            act(redis, channel);
        }
}

static void ask_if_refused(struct redis *redis, struct channel *channel)
{
    if (!channel->confirmed && redis->asked_again < ASKED_AGAIN_MAX) {
        redis->asked_again++;
        listen_to(redis, channel);
    }
}

/* The server replies in order, so what it has not confirmed by now it has refused, or was asked
 * just now: the user may have the right by the next pulse. */
static void pulse_answered(struct redis *redis)
{
    hf__pubsub_heartbeat_answered(redis);
    redis->asked_again = 0;
    for_all(redis, ask_if_refused);
    if (!redis->inbox.confirmed)
        hf__grant_channel_ready(redis);
}

void hf__release_channels_pushed(struct connection *connection, const redisReply *reply)
{
    struct redis *redis = connection->redis;
    hf__pubsub_heartbeat_heard(redis);
    bool whole = hf__reply_is_array(reply, 2);
    const char *word = hf__reply_text(whole ? reply->element[0] : reply);
    const char *name = whole ? hf__reply_text(reply->element[1]) : "";
    bool confirmed = is_either(word, "subscribe", "ssubscribe");
    struct channel **found;
    /* An error here is a refusal to let us listen: then waiting is looking again and again. */
    if (strcasecmp(word, "pong") == 0)
        pulse_answered(redis); /* mutant: refused-channel-is-asked-for-again */
    else if (strcmp(word, "sunsubscribe") == 0)
        dismissed(redis, name);
    else if (!confirmed &&
             (!is_either(word, "message", "smessage") || !hf__reply_is_array(reply, 3)))
        return;
    else if (strcmp(name, redis->inbox.channel) == 0 && confirmed)
        hf__grant_channel_confirmed(redis);
    else if (strcmp(name, redis->inbox.channel) == 0)
        hf__grant_channel_heard(redis, hf__reply_text(reply->element[2]));
    else if ((found = find_channel(redis, name, strlen(name))) != NULL) {
        (*found)->confirmed |= confirmed;
        (*found)->heard = ++redis->releases_heard;
        wake_all(*found);
    }
}

void hf__release_channels_ready(struct redis *redis)
{
    for_all(redis, listen_to); /* mutant: none-hears-that-listening */
    hf__grant_channel_ready(redis);
    hf__pubsub_heartbeat_begin(redis);
}

void hf__release_channels_lost(struct redis *redis)
{
    hf__pubsub_heartbeat_end(redis);
    for_all(redis, deafen);
    hf__grant_channel_lost(redis);
}

void hf__release_channels_open(struct redis *redis)
{
    hf__pubsub_heartbeat_init(redis);
    hf__link_init(&redis->waiters);
    hf__link_init(&redis->free_waiters);
}

void hf__release_channels_close(struct redis *redis)
{
    struct hf_link *link;
    hf__pubsub_heartbeat_end(redis);
    while ((link = hf__list_first(&redis->waiters)))
        hf__waiter_leave(HF_CONTAINER(link, struct waiter, of_all)->op);
    while ((link = hf__list_pop(&redis->free_waiters)))
        free(HF_CONTAINER(link, struct waiter, of_all));
}

/* Without a sure wake it looks again after a while, and when the wake becomes sure it is woken. */
int64_t hf__waiter_pause_ms(struct redis *redis, const struct redis_request *request,
                            int64_t left_ms)
{
    struct hf_op *op = request->op;
    const struct waiter *waiter = op->engine.pointer;
    const struct redis_kind *kind = hf__redis_kind(redis, op->in.mode);
    bool queued = kind->grants && (op->engine.word[1] & REDIS_CONTENDED);
    /* The message may overtake the refusal: then it has woken only those that listened before. */
    /* mutant: release-overtakes-refusal */
    if (waiter && waiter->channel && waiter->channel->heard > request->heard)
        return 0;
    /* From now on it can have a place. */
    if (queued && hf__grant_channel_is_sure(redis) && !request->listened)
        return 0;
    if (kind->queues && waiter && waiter->channel && is_sure(op))
        /* mutant: none-asks-again-while-wake-may */
        return left_ms >= 0 && left_ms < REDIS_PLACE_MS ? left_ms : REDIS_PLACE_MS;
    bool sure = waiter && left_ms >= 0 && (waiter->channel ? is_sure(op) : queued) &&
                (!queued || request->listened);
    if (!sure && !kind->channel)
        return hf__poll_pause_ms(left_ms, 0);
    if (!sure)
        return left_ms >= 0 && left_ms < REDIS_POLL_MS ? left_ms : REDIS_POLL_MS;
    return queued && left_ms > REDIS_QUEUE_LOOK_MS ? REDIS_QUEUE_LOOK_MS : left_ms;
}
