/* SPDX-License-Identifier: Apache-2.0 */
/* The keys and channels of a lock: Redisson's, and a few of our own (keys.c; names.lua is the same
 * for scripts). */
#ifndef HF_ENGINES_REDIS_KINDS_KEYS_H
#define HF_ENGINES_REDIS_KINDS_KEYS_H

#include "core/engine.h"
#include "engines/redis/wire/command.h"

struct redis;
struct connection;

#define REDIS_TOKEN_PREFIX "redisson_lock_token"
#define REDIS_CHANNEL_PREFIX "redisson_lock__channel"
/* Where no client listens: what is said there is said to replicas. */
#define REDIS_SYNC_CHANNEL REDIS_CHANNEL_PREFIX ":{holdfast}:sync"
#define REDIS_MARK_PREFIX "holdfast_kind"
#define REDIS_ALIVE_PREFIX "holdfast_alive"
#define REDIS_QUEUE_PREFIX "holdfast_lock_queue"
#define REDIS_PLACES_PREFIX "holdfast_queue"
#define REDIS_FAIR_QUEUE_PREFIX "redisson_lock_queue"
#define REDIS_FAIR_TIMES_PREFIX "redisson_lock_timeout"

enum redis_channel {
    REDIS_CHANNEL_MUTEX,
    REDIS_CHANNEL_RW,
    REDIS_CHANNEL_SEMAPHORE, /* counters, too */
    REDIS_CHANNEL_LATCH
};

void hf__keys_channel(struct command *command, enum redis_channel channel, const char *name,
                      uint32_t length);
void hf__keys_permits(struct command *command, const char *name, uint32_t length);
/* The lock's own key, and its token's. */
void hf__redis_add_lock(const struct redis *redis, struct command *command, const struct hf_op *op);
void hf__redis_add_token(const struct redis *redis, struct command *command,
                         const struct hf_op *op);
/* `a` and `{a}` have one token. */
bool hf__keys_may_share_token(const struct hf_op *op);
/* Begins a script's command with all the keys that names.lua expects. */
void hf__keys_script(struct connection *connection, struct command *command,
                     enum redis_script script, enum redis_channel channel, const char *name,
                     uint32_t length);

#endif
