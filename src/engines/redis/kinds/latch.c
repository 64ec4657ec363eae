/* SPDX-License-Identifier: Apache-2.0 */
/* The count-down latch: a number, or nothing once it is open. latch_*.lua decide. */
#include "keys.h"
#include "kinds.h"

static void begin_latch(struct connection *connection, struct command *command,
                        enum redis_script script, const struct hf_op *op)
{
    hf__keys_script(connection, command, script, REDIS_CHANNEL_LATCH, op->in.name,
                    op->in.name_length);
    hf__redis_add_field(connection->redis, command, op);
}

static void latch_acquire(struct connection *connection, struct command *command,
                          const struct hf_op *op)
{
    begin_latch(connection, command, REDIS_LATCH_PASS, op);
    hf__command_number(command, op->in.enqueue);
}

static void latch_release(struct connection *connection, struct command *command,
                          const struct hf_op *op)
{
    begin_latch(connection, command, REDIS_LATCH_LEAVE, op);
}

static void latch_channel(const struct redis *redis, struct command *command,
                          const struct hf_op *op)
{
    (void)redis;
    hf__keys_channel(command, REDIS_CHANNEL_LATCH, op->in.name, op->in.name_length);
}

const struct redis_kind hf__redis_latch = {
    .queues = true,
    .acquire = latch_acquire,
    .release = latch_release,
    .channel = latch_channel,
};
