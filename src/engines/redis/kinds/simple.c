/* SPDX-License-Identifier: Apache-2.0 */
/* The plain lock of format=simple: a text under a name that expires, which is what clients take
 * with SET NX PX and give back by comparing and deleting. simple_*.lua decide. A release is not
 * told: a waiter looks again. */
#include "engines/redis/redis.h"
#include "keys.h"
#include "kinds.h"

#include <string.h>

static void begin_simple(struct connection *connection, struct command *command,
                         enum redis_script script, const struct hf_op *op)
{
    hf__connection_script(connection, command, script, 2);
    hf__redis_add_lock(connection->redis, command, op);
    hf__redis_add_token(connection->redis, command, op);
}

static void add_common(const struct redis *redis, struct command *command, const struct hf_op *op)
{
    hf__command_number(command, hf__redis_lease_ms(redis, op));
    hf__command_number(command, REDIS_TOKEN_MS);
}

static bool have_one_lease(const struct hf_op *op, const struct hf_op *other)
{
    return op->in.lease_ms == other->in.lease_ms; /* mutant: all-plain-locks-that-ask */
}

static const struct redis_many take_many = {
    .script = REDIS_SIMPLE_ACQUIRE_MANY,
    .keys = 2,
    .add_key = { hf__redis_add_lock, hf__redis_add_token },
    .are_alike = have_one_lease,
    .add_common = add_common,
};

static const struct redis_many give_many = {
    .script = REDIS_SIMPLE_RELEASE_MANY,
    .keys = 1,
    .add_key = { hf__redis_add_lock },
};

static void simple_acquire(struct connection *connection, struct command *command,
                           const struct hf_op *op)
{
    const struct redis *redis = connection->redis;
    begin_simple(connection, command, REDIS_SIMPLE_ACQUIRE, op);
    hf__redis_add_field(redis, command, op);
    add_common(redis, command, op);
    if (redis->sink->min_token)
        hf__command_print(command, "%llu", (unsigned long long)redis->sink->min_token(op));
}

static void attach(struct connection *connection, struct command *command, const struct hf_op *op,
                   bool back)
{
    begin_simple(connection, command, REDIS_SIMPLE_ATTACH, op);
    if (back)
        hf__redis_add_field(connection->redis, command, op);
    hf__command_add(command, op->in.attach_key, strlen(op->in.attach_key));
    if (!back)
        hf__redis_add_field(connection->redis, command, op);
}

static void simple_release(struct connection *connection, struct command *command,
                           const struct hf_op *op)
{
    begin_simple(connection, command, REDIS_SIMPLE_RELEASE, op);
    hf__redis_add_field(connection->redis, command, op);
}

static void simple_extend(struct connection *connection, struct command *command,
                          const struct hf_op *op, int64_t lease_ms)
{
    begin_simple(connection, command, REDIS_SIMPLE_EXTEND, op);
    hf__redis_add_field(connection->redis, command, op);
    hf__command_number(command, lease_ms);
}

const struct redis_kind hf__redis_simple = {
    .leased = true,
    .renew = REDIS_SIMPLE_RENEW,
    .acquire = simple_acquire,
    .take_many = &take_many,
    .attach = attach,
    .release = simple_release,
    .give_many = &give_many,
    .extend = simple_extend,
    .renewal = hf__redis_add_field,
};
