/* The mutex: a hash with one field, the holder's. mutex_*.lua decide. */
#include "redis.h"

static void add_queue(struct command *command, const struct hf_op *op)
{
    hf__command_derived(command, REDIS_QUEUE_PREFIX, op->name, op->name_length);
}

static void channel(const struct redis *redis, struct command *command, const struct hf_op *op)
{
    (void)redis;
    hf__names_channel(command, REDIS_CHANNEL_MUTEX, op->name, op->name_length);
}

/* ---- taking ---- */

static void add_take_keys(const struct redis *redis, struct command *command,
                          const struct hf_op *op)
{
    (void)redis;
    hf__command_add(command, op->name, op->name_length);
    hf__command_derived(command, REDIS_TOKEN_PREFIX, op->name, op->name_length);
    add_queue(command, op);
}

static void add_take_times(struct command *command)
{
    hf__command_number(command, REDIS_TOKEN_MS);
    hf__command_number(command, REDIS_QUEUE_MS);
}

static void add_take_arguments(const struct redis *redis, struct command *command,
                               const struct hf_op *op)
{
    hf__redis_add_field(redis, command, op);
    hf__command_number(command, hf__redis_lease_ms(redis, op));
    hf__command_number(command, hf__redis_waits(op));
}

static void acquire(struct connection *connection, struct command *command, const struct hf_op *op)
{
    hf__connection_script(connection, command, REDIS_MUTEX_ACQUIRE, 3);
    add_take_keys(connection->redis, command, op);
    add_take_times(command);
    add_take_arguments(connection->redis, command, op);
}

static const struct redis_many take_many = {
    .script = REDIS_MUTEX_ACQUIRE_MANY,
    .keys = 3,
    .leaves = hf__attempt_leaves,
    .add_keys = add_take_keys,
    .add_common = add_take_times,
    .add_arguments = add_take_arguments,
};

/* ---- giving back ---- */

static void add_give_keys(const struct redis *redis, struct command *command,
                          const struct hf_op *op)
{
    hf__command_add(command, op->name, op->name_length);
    channel(redis, command, op);
    hf__command_derived(command, REDIS_TOKEN_PREFIX, op->name, op->name_length);
    add_queue(command, op);
}

static void add_give_times(struct command *command)
{
    hf__command_number(command, REDIS_TOKEN_MS);
    hf__command_number(command, REDIS_GRANT_MS);
}

static void release(struct connection *connection, struct command *command, const struct hf_op *op)
{
    hf__connection_script(connection, command, REDIS_MUTEX_RELEASE, 4);
    add_give_keys(connection->redis, command, op);
    add_give_times(command);
    hf__redis_add_field(connection->redis, command, op);
}

static const struct redis_many give_many = {
    .script = REDIS_MUTEX_RELEASE_MANY,
    .keys = 4,
    .leaves = hf__release_leaves,
    .add_keys = add_give_keys,
    .add_common = add_give_times,
    .add_arguments = hf__redis_add_field,
};

/* ---- leases ---- */

static void extend(struct connection *connection, struct command *command, const struct hf_op *op,
                   int64_t lease_ms)
{
    hf__connection_script(connection, command, REDIS_MUTEX_EXTEND, 1);
    hf__command_add(command, op->name, op->name_length);
    hf__redis_add_field(connection->redis, command, op);
    hf__command_number(command, lease_ms);
}

const struct redis_kind hf__redis_mutex = {
    .leased = true,
    .grants = true,
    .renew = REDIS_MUTEX_RENEW,
    .acquire = acquire,
    .take_many = &take_many,
    .release = release,
    .give_many = &give_many,
    .extend = extend,
    .renewal = hf__redis_add_field,
    .channel = channel,
};
