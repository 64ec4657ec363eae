/* SPDX-License-Identifier: Apache-2.0 */
/* Hearing of grants. Each client listens to one channel of its own, on which it is told what it has
 * been given while it waited: the claim's number, the token, and how long the lease is.
 *
 * A message may come late, when the lease it speaks of has ended long ago and even another owner
 * has been granted the lock. So the lease is never counted from when the message came, but from a
 * moment at which it had not been sent yet (pubsub_heartbeat.c). */
#include "engines/redis/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Others have their turn, and let it pass if they have not taken the lock by then. */
#define LOOK_AFTER_OTHERS_MS 20

void hf__grant_channel_init(struct redis *redis)
{
    struct inbox *inbox = &redis->inbox;
    snprintf(inbox->channel, sizeof inbox->channel, REDIS_INBOX_PREFIX "%s", redis->uuid);
    for (unsigned i = 0; i < REDIS_INBOX_BUCKETS; i++)
        hf__link_init(&inbox->waiters[i]);
}

static struct hf_link *grant_channel_bucket_of(struct redis *redis, uint64_t claim)
{
    return &redis->inbox.waiters[claim % REDIS_INBOX_BUCKETS];
}

static void begin_listening(struct redis *redis)
{
    struct inbox *inbox = &redis->inbox;
    bool first = !inbox->wanted;
    inbox->wanted = true;
    hf__peer_want(&redis->pubsub.peer);
    if (first)
        hf__listening_say(redis, "SUBSCRIBE", inbox->channel, strlen(inbox->channel));
}

static void look_timer_fired(struct hf_timer *timer)
{
    hf__op_wake(HF_CONTAINER(timer, struct waiter, look)->op);
}

void hf__grant_channel_join(struct redis *redis, struct hf_op *op)
{
    struct waiter *waiter = hf__waiter_of(redis, op);
    /* Without memory there is no grant to be heard of: it asks again and again. */
    if (!waiter || hf__link_linked(&waiter->in_inbox))
        return;
    hf__timer_init(&waiter->look, look_timer_fired);
    hf__list_append(grant_channel_bucket_of(redis, op->engine.word[0]), &waiter->in_inbox);
    begin_listening(redis);
    hf__pubsub_heartbeat_hurry(redis);
}

static void wake_all(struct redis *redis)
{
    for (unsigned i = 0; i < REDIS_INBOX_BUCKETS; i++)
        HF_LIST_FOREACH (link, following, &redis->inbox.waiters[i])
            hf__op_wake(HF_CONTAINER(link, struct waiter, in_inbox)->op);
}

void hf__grant_channel_ready(struct redis *redis)
{
    struct inbox *inbox = &redis->inbox;
    if (inbox->wanted)
        hf__listening_say(redis, "SUBSCRIBE", inbox->channel, strlen(inbox->channel));
}

/* What was granted meanwhile is found by asking. So is a grant that was heard of and not taken
 * yet: the next connection may lead to another server. */
void hf__grant_channel_lost(struct redis *redis)
{
    redis->inbox.confirmed = false;
    HF_LIST_FOREACH (link, following, &redis->waiters)
        HF_CONTAINER(link, struct waiter, of_all)->granted_token = 0;
    wake_all(redis);
}

bool hf__grant_channel_is_sure(const struct redis *redis)
{
    return redis->inbox.confirmed && hf__listening_is_there(redis);
}

void hf__grant_channel_confirmed(struct redis *redis)
{
    redis->inbox.confirmed = true;
    wake_all(redis);
}

/* The op is gone: it has given up, and the release that it asked for passes the lock on. */
static struct waiter *find_waiter(struct redis *redis, uint64_t claim)
{
    HF_LIST_FOREACH (link, following, grant_channel_bucket_of(redis, claim)) {
        struct waiter *waiter = HF_CONTAINER(link, struct waiter, in_inbox);
        if (waiter->op->engine.word[0] == claim)
            return waiter;
    }
    return NULL;
}

/* False: no such number stands there, or none that is followed by `end`. What scans by a format
 * costs more, as long as the one that is told waits. */
static bool grant_channel_read_number(const char **text, char end, int64_t *number)
{
    char *after;
    if (**text < '0' || **text > '9')
        return false;
    unsigned long long read = strtoull(*text, &after, 10);
    *number = (int64_t)read;
    *text = after + 1;
    return *after == end && read <= INT64_MAX; /* mutant: number-in-inbox-may */
}

void hf__grant_channel_heard(struct redis *redis, const char *message)
{
    struct hf_loop *loop = redis->base.host->loop;
    int64_t claim, token, lease_ms;
    if (!grant_channel_read_number(&message, ' ', &claim) ||
        !grant_channel_read_number(&message, ' ', &token) ||
        !grant_channel_read_number(&message, 0, &lease_ms))
        return;
    struct waiter *waiter = find_waiter(redis, (uint64_t)claim);
    if (!waiter)
        return;
    if (token == 0) {
        hf__timer_start(loop, &waiter->look, hf__loop_now(loop) + LOOK_AFTER_OTHERS_MS);
        return;
    }
    /* That grant was given back because it came too late; this word of it comes later still. */
    if ((uint64_t)token <= waiter->op->out.token) /* mutant: late-word-of-grant */
        return;
    waiter->granted_token = (uint64_t)token;
    waiter->granted_ms = lease_ms;
    waiter->not_before_ms = redis->pulse.not_before_ms; /* mutant: grant-counts-from-when-we */
    hf__op_wake(waiter->op);
}
