/* The mutex: a hash with one field, the holder's. mutex_*.lua decide. */
#include "redis.h"

static void add_queue(struct command *command, const struct hf_op *op)
{
    hf__command_derived(command, REDIS_QUEUE_PREFIX, op->name, op->name_length);
}

static void acquire(struct connection *connection, struct command *command, const struct hf_op *op)
{
    const struct redis *redis = connection->redis;
    hf__connection_script(connection, command, REDIS_MUTEX_ACQUIRE, 3);
    hf__command_add(command, op->name, op->name_length);
    hf__command_derived(command, REDIS_TOKEN_PREFIX, op->name, op->name_length);
    add_queue(command, op);
    hf__redis_add_field(redis, command, op);
    hf__command_print(command, "%lld", (long long)hf__redis_lease_ms(redis, op));
    hf__command_print(command, "%lld", (long long)REDIS_TOKEN_MS);
    hf__command_print(command, "%u", hf__redis_waits(op));
    hf__command_print(command, "%lld", (long long)REDIS_QUEUE_MS);
}

static void channel(const struct redis *redis, struct command *command, const struct hf_op *op)
{
    (void)redis;
    hf__names_channel(command, REDIS_CHANNEL_MUTEX, op->name, op->name_length);
}

static void release(struct connection *connection, struct command *command, const struct hf_op *op)
{
    hf__connection_script(connection, command, REDIS_MUTEX_RELEASE, 4);
    hf__command_add(command, op->name, op->name_length);
    channel(connection->redis, command, op);
    hf__command_derived(command, REDIS_TOKEN_PREFIX, op->name, op->name_length);
    add_queue(command, op);
    hf__redis_add_field(connection->redis, command, op);
    hf__command_print(command, "%lld", (long long)REDIS_TOKEN_MS);
    hf__command_print(command, "%lld", (long long)REDIS_GRANT_MS);
}

static void extend(struct connection *connection, struct command *command, const struct hf_op *op,
                   int64_t lease_ms)
{
    hf__connection_script(connection, command, REDIS_MUTEX_EXTEND, 1);
    hf__command_add(command, op->name, op->name_length);
    hf__redis_add_field(connection->redis, command, op);
    hf__command_print(command, "%lld", (long long)lease_ms);
}

static void renewal(const struct redis *redis, struct command *command, const struct hf_op *op)
{
    hf__redis_add_field(redis, command, op);
    hf__command_print(command, "%lld", (long long)hf__redis_lease_ms(redis, op));
}

const struct redis_kind hf__redis_mutex = {
    .leased = true,
    .grants = true,
    .renew = REDIS_MUTEX_RENEW,
    .acquire = acquire,
    .release = release,
    .extend = extend,
    .renewal = renewal,
    .channel = channel,
};
