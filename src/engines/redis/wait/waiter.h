/* SPDX-License-Identifier: Apache-2.0 */
/* An op that waits for a lock, and how it hears that it may look again: of releases, on the lock's
 * channel (release_channel.c); that the lock has been given to it, in the client's inbox
 * (grant_channel.c). All of that comes on the connection that listens, and a pulse tells how late
 * it may be (pubsub_heartbeat.c). */
#ifndef HF_ENGINES_REDIS_WAIT_WAITER_H
#define HF_ENGINES_REDIS_WAIT_WAITER_H

#include "engines/redis/wire/connection.h"

/* A waiter that may have missed a release looks again so soon. */
#define REDIS_POLL_MS 1000
/* The longest time between looks of an op in the queue whether it is still there. */
#define REDIS_QUEUE_LOOK_MS 3000
#define REDIS_CHANNEL_BUCKETS 1024u

/* ---- waiter.c: what both have in common ---- */

/* An op that waits. */
struct waiter {
    struct hf_op *op;
    struct redis *redis;     /* where it waits */
    struct channel *channel; /* NULL: it listens to none */
    struct hf_link link;     /* in the channel's */
    struct hf_link in_inbox;
    struct hf_link of_all; /* in redis->waiters */
    struct hf_timer look;  /* the lock may be free then */
    /* What we were told to have been granted (0: nothing), how long the lease is, and a moment at
     * which it had not been granted yet. */
    uint64_t granted_token;
    int64_t granted_ms, not_before_ms;
};

/* The op's place among the waiters, made if there is none. NULL: no memory. */
struct waiter *hf__waiter_of(struct redis *redis, struct hf_op *op);
/* Does what is asked about reach the server that the pub/sub connection hears? A waiter that is
 * told by another server is not told. */
bool hf__listening_is_there(const struct redis *redis);
void hf__listening_say(struct redis *redis, const char *word, const char *channel, size_t length);

/* ---- release_channel.c: hearing of releases ---- */

/* The op is woken when its lock's release is heard of, or may have been missed. False: no memory.
 */
bool hf__release_channel_join(struct redis *redis, struct hf_op *op);
/* No longer that, but it still waits. */
void hf__release_channel_quit(struct hf_op *op);
/* The pub/sub connection is ready; is lost; the server says something there. */
void hf__release_channels_ready(struct redis *redis);
void hf__release_channels_lost(struct redis *redis);
void hf__release_channels_pushed(struct connection *connection, const redisReply *reply);
void hf__release_channels_open(struct redis *redis);
void hf__release_channels_close(struct redis *redis);

/* It does not wait any more, for anything. */
void hf__waiter_leave(struct hf_op *op);

/* After a refusal of a request that left then: the pause before the next attempt, woken or not.
 * `left_ms`: when the lock may be free, or -1. */
int64_t hf__waiter_pause_ms(struct redis *redis, const struct redis_request *request,
                            int64_t left_ms);

/* ---- grant_channel.c: hearing of grants ---- */

#define REDIS_INBOX_BUCKETS 256u
#define REDIS_INBOX_PREFIX "holdfast:"

struct inbox {
    char channel[sizeof REDIS_INBOX_PREFIX + 36];
    bool wanted;                                 /* an op has waited */
    bool confirmed;                              /* the server tells us */
    struct hf_link waiters[REDIS_INBOX_BUCKETS]; /* by the number of the claim */
};

void hf__grant_channel_init(struct redis *redis);
/* The op may be granted its lock from now on. */
void hf__grant_channel_join(struct redis *redis, struct hf_op *op);
/* A grant is heard of. */
bool hf__grant_channel_is_sure(const struct redis *redis);
/* The same; the server says that it tells us; has told us. */
void hf__grant_channel_ready(struct redis *redis);
void hf__grant_channel_lost(struct redis *redis);
void hf__grant_channel_confirmed(struct redis *redis);
void hf__grant_channel_heard(struct redis *redis, const char *message);

/* ---- pubsub_heartbeat.c: is the pub/sub connection alive, and how late may be what comes on it?
 * ---- */

struct pubsub_heartbeat {
    struct hf_timer timer;
    int64_t asked_at_ms; /* the request that is out, or -1 */
    int64_t heard_at_ms; /* anything */
    /* What is heard now, the server has said after this moment: the last request answered left
     * then. */
    int64_t not_before_ms;
};

void hf__pubsub_heartbeat_init(struct redis *redis);
/* Since when a reply is missing, for the silence of the connection; HF_NEVER: none is. */
int64_t hf__pubsub_heartbeat_oldest_ms(const struct redis *redis);
void hf__pubsub_heartbeat_begin(struct redis *redis);
void hf__pubsub_heartbeat_end(struct redis *redis);
void hf__pubsub_heartbeat_heard(struct redis *redis);
void hf__pubsub_heartbeat_answered(struct redis *redis);
/* An op begins to wait: what is heard from now on should not be of long ago. */
void hf__pubsub_heartbeat_hurry(struct redis *redis);

#endif
