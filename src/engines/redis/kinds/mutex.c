/* SPDX-License-Identifier: Apache-2.0 */
/* The mutex: a hash with one field, the holder's. mutex_*.lua decide. */
#include "engines/redis/redis.h"
#include "keys.h"
#include "kinds.h"

static void add_queue(const struct redis *redis, struct command *command, const struct hf_op *op)
{
    (void)redis;
    hf__command_own(command, REDIS_QUEUE_PREFIX, op->in.name, op->in.name_length);
}

static void mutex_channel(const struct redis *redis, struct command *command,
                          const struct hf_op *op)
{
    (void)redis;
    hf__keys_channel(command, REDIS_CHANNEL_MUTEX, op->in.name, op->in.name_length);
}

/* What many are asked with is what one is asked with: the keys, one after the other. */
static void add_keys(const struct redis *redis, struct command *command,
                     const struct redis_many *many, const struct hf_op *op)
{
    for (unsigned i = 0; i < many->keys; i++)
        many->add_key[i](redis, command, op);
}

/* ---- taking ---- */

static void add_take_times(struct command *command)
{
    hf__command_number(command, REDIS_TOKEN_MS);
    hf__command_number(command, REDIS_QUEUE_MS);
}

static void add_take_common(const struct redis *redis, struct command *command,
                            const struct hf_op *op)
{
    hf__command_number(command, hf__redis_lease_ms(redis, op));
    add_take_times(command);
    hf__command_number(command, hf__redis_waits(op));
}

/* What hf__redis_waits says of both, once they leave, is the same. */
static bool are_taken_alike(const struct hf_op *op, const struct hf_op *other)
{
    /* mutant: all-that-ask-together */
    return op->in.lease_ms == other->in.lease_ms && op->in.enqueue == other->in.enqueue &&
           hf__redis_may_wait(op) == hf__redis_may_wait(other);
}

/* Without the queue, the last one, where no claim would get a place in it. */
static unsigned keys_to_take(const struct hf_op *op)
{
    return hf__redis_waits(op) ? 3 : 2; /* mutant: owner-asks-together */
}

static const struct redis_many take_many = {
    .script = REDIS_MUTEX_ACQUIRE_MANY,
    .keys = 3,
    .add_key = { hf__redis_add_lock, hf__redis_add_token, add_queue },
    .needs = keys_to_take,
    .are_alike = are_taken_alike,
    .add_common = add_take_common,
};

static void mutex_acquire(struct connection *connection, struct command *command,
                          const struct hf_op *op)
{
    const struct redis *redis = connection->redis;
    hf__connection_script(connection, command, REDIS_MUTEX_ACQUIRE, take_many.keys);
    add_keys(redis, command, &take_many, op);
    add_take_times(command);
    hf__redis_add_field(redis, command, op);
    hf__command_number(command, hf__redis_lease_ms(redis, op));
    hf__command_number(command, hf__redis_waits(op));
}

/* ---- giving back ---- */

static void add_give_common(const struct redis *redis, struct command *command,
                            const struct hf_op *op)
{
    (void)redis;
    (void)op;
    hf__command_number(command, REDIS_TOKEN_MS);
    hf__command_number(command, REDIS_GRANT_MS);
}

static const struct redis_many give_many = {
    .script = REDIS_MUTEX_RELEASE_MANY,
    .keys = 3,
    .add_key = { hf__redis_add_lock, mutex_channel, add_queue },
    .add_common = add_give_common,
};

/* Is it held for so short a time that the token's key need not be looked after? Else the clock says
 * the next token: however long locks are held, a row of counted ones is over in minutes. Nothing
 * but the key's life hangs on that. A release that is said again may have been heard by a server
 * that has forgotten it since, a failed one say, and have given the next number away there. */
static bool may_count_on(const struct redis *redis, const struct hf_op *op)
{
    int64_t granted_at_ms = (int64_t)(op->engine.word[1] >> REDIS_GRANTED_SHIFT);
    bool is_open = hf__known_is_open(&op->engine.known);
    /* mutant: owner-wants-no-token-counts-on */
    return !redis->settings.unfenced && !is_open && op->out.token > 0 &&
           /* mutant: large-token-is-counted */
           op->out.token < REDIS_TOKEN_EXACT && granted_at_ms > 0 &&
           /* mutant: owner-has-held-lock-for-long */
           hf__loop_now(redis->base.host->loop) - granted_at_ms < REDIS_COUNT_ON_MS;
}

static void mutex_release(struct connection *connection, struct command *command,
                          const struct hf_op *op)
{
    const struct redis *redis = connection->redis;
    hf__connection_script(connection, command, REDIS_MUTEX_RELEASE, 4);
    hf__redis_add_lock(redis, command, op);
    mutex_channel(redis, command, op);
    hf__redis_add_token(redis, command, op);
    add_queue(redis, command, op);
    hf__redis_add_field(redis, command, op);
    hf__command_number(command, may_count_on(redis, op) ? (int64_t)(op->out.token + 1) : 0);
}

/* ---- leases ---- */

static void mutex_extend(struct connection *connection, struct command *command,
                         const struct hf_op *op, int64_t lease_ms)
{
    hf__connection_script(connection, command, REDIS_MUTEX_EXTEND, 1);
    hf__command_add(command, op->in.name, op->in.name_length);
    hf__redis_add_field(connection->redis, command, op);
    hf__command_number(command, lease_ms);
}

const struct redis_kind hf__redis_mutex = {
    .leased = true,
    .grants = true,
    .renew = REDIS_MUTEX_RENEW,
    .acquire = mutex_acquire,
    .take_many = &take_many,
    .release = mutex_release,
    .give_many = &give_many,
    .extend = mutex_extend,
    .renewal = hf__redis_add_field,
    .channel = mutex_channel,
};
