/* The read-write lock: a hash with the mode and the holders' fields, and for each read hold a key
 * of its own that lives as long as its lease. rw_*.lua decide. */
#include "redis.h"

static void begin(struct connection *connection, struct command *command, enum redis_script script,
                  const struct hf_op *op)
{
    hf__names_script(connection, command, script, REDIS_CHANNEL_RW, op->name, op->name_length);
    hf__redis_add_field(connection->redis, command, op);
}

static void acquire(struct connection *connection, struct command *command, const struct hf_op *op)
{
    begin(connection, command, REDIS_RW_ACQUIRE, op);
    hf__command_print(command, "%lld", (long long)hf__redis_lease_ms(connection->redis, op));
    hf__command_print(command, "%lld", (long long)REDIS_TOKEN_MS);
    hf__command_print(command, "%d", op->enqueue);
    hf__command_print(command, "%s", hf__redis_mode_name(op->mode));
}

static void release(struct connection *connection, struct command *command, const struct hf_op *op)
{
    begin(connection, command, REDIS_RW_RELEASE, op);
    hf__command_print(command, "%s", op->keep == HF_READ ? "read" : "");
}

static void channel(const struct redis *redis, struct command *command, const struct hf_op *op)
{
    (void)redis;
    hf__names_channel(command, REDIS_CHANNEL_RW, op->name, op->name_length);
}

static void extend(struct connection *connection, struct command *command, const struct hf_op *op,
                   int64_t lease_ms)
{
    hf__connection_script(connection, command, REDIS_RW_EXTEND, 1);
    hf__command_add(command, op->name, op->name_length);
    hf__redis_add_field(connection->redis, command, op);
    hf__command_print(command, "%lld", (long long)lease_ms);
}

static void renewal(const struct redis *redis, struct command *command, const struct hf_op *op)
{
    hf__redis_add_field(redis, command, op);
    hf__command_print(command, "%lld", (long long)op->own_lease.lease_ms);
}

const struct redis_kind hf__redis_rw = {
    .leased = true,
    .queues = true,
    .renew = REDIS_RW_RENEW,
    .acquire = acquire,
    .release = release,
    .extend = extend,
    .renewal = renewal,
    .channel = channel,
};
