/* SPDX-License-Identifier: Apache-2.0 */
/* The fair mutex: the mutex's hash, and Redisson's queue of waiters, with the time until which each
 * is taken to be alive. fair_*.lua decide. */
#include "engines/redis/redis.h"
#include "keys.h"
#include "kinds.h"

#include <string.h>

static void begin_fair(struct connection *connection, struct command *command,
                       enum redis_script script, const struct hf_op *op)
{
    hf__connection_script(connection, command, script, 4);
    hf__command_add(command, op->in.name, op->in.name_length);
    hf__command_derived(command, REDIS_TOKEN_PREFIX, op->in.name, op->in.name_length);
    hf__command_derived(command, REDIS_FAIR_QUEUE_PREFIX, op->in.name, op->in.name_length);
    hf__command_derived(command, REDIS_FAIR_TIMES_PREFIX, op->in.name, op->in.name_length);
    hf__redis_add_field(connection->redis, command, op);
}

static void fair_acquire(struct connection *connection, struct command *command,
                         const struct hf_op *op)
{
    begin_fair(connection, command, REDIS_FAIR_ACQUIRE, op);
    hf__command_number(command, hf__redis_lease_ms(connection->redis, op));
    hf__command_number(command, REDIS_TOKEN_MS);
    hf__command_number(command, hf__redis_waits(op));
    hf__command_number(command, REDIS_FAIR_PLACE_MS);
    hf__command_number(command, REDIS_FAIR_OTHERS_MS);
    hf__command_number(command, REDIS_GRANT_MS);
    hf__command_derived(command, REDIS_CHANNEL_PREFIX, op->in.name, op->in.name_length);
}

static void fair_release(struct connection *connection, struct command *command,
                         const struct hf_op *op)
{
    begin_fair(connection, command, REDIS_FAIR_RELEASE, op);
    hf__command_number(command, REDIS_TOKEN_MS);
    hf__command_number(command, REDIS_GRANT_MS);
    hf__command_derived(command, REDIS_CHANNEL_PREFIX, op->in.name, op->in.name_length);
}

/* Each waiter has its own, by which others' releases call it. */
static void fair_channel(const struct redis *redis, struct command *command, const struct hf_op *op)
{
    bool braced = memchr(op->in.name, '{', op->in.name_length) != NULL;
    char field[REDIS_FIELD_SIZE];
    hf__redis_field(redis, op, field);
    hf__command_print(command, braced ? "%s:%s:%s" : "%s:{%s}:%s", REDIS_CHANNEL_PREFIX,
                      op->in.name, field);
}

/* A holder holds it like a mutex. */
static void fair_extend(struct connection *connection, struct command *command,
                        const struct hf_op *op, int64_t lease_ms)
{
    hf__redis_mutex.extend(connection, command, op, lease_ms);
}

/* Nothing at the server tells a fair mutex without waiters from another one. So the key under which
 * it is left does. */
#define KEY_END ":fair"

static void owner_key(const struct redis *redis, const struct hf_op *op,
                      char key[HF_OWNER_KEY_SIZE])
{
    _Static_assert(sizeof redis->uuid + REDIS_DIGITS_MAX + sizeof KEY_END <= HF_OWNER_KEY_SIZE,
                   "a key fits");
    hf__redis_field(redis, op, key);
    memcpy(key + strlen(key), KEY_END, sizeof KEY_END);
}

size_t hf__fair_field_length(const char *key)
{
    const size_t length = strlen(key), end = sizeof KEY_END - 1;
    bool is_fair = length > end && strcmp(key + length - end, KEY_END) == 0;
    return is_fair ? length - end : length;
}

const struct redis_kind hf__redis_fair = {
    .leased = true,
    .grants = true,
    .renew = REDIS_MUTEX_RENEW,
    .acquire = fair_acquire,
    .release = fair_release,
    .extend = fair_extend,
    .renewal = hf__redis_add_field,
    .channel = fair_channel,
    .owner_key = owner_key,
};
