/* SPDX-License-Identifier: Apache-2.0 */
/* The read-write lock: a hash with the mode and the holders' fields, and for each read hold a key
 * of its own that lives as long as its lease. rw_*.lua decide. */
#include "engines/redis/redis.h"
#include "keys.h"
#include "kinds.h"

#include <string.h>

static void begin_rw(struct connection *connection, struct command *command,
                     enum redis_script script, const struct hf_op *op)
{
    hf__keys_script(connection, command, script, REDIS_CHANNEL_RW, op->in.name, op->in.name_length);
    hf__redis_add_field(connection->redis, command, op);
}

/* A writer that was not raised has the number 1, and what can be no writer 0. */
static void add_raise(struct command *command, const struct hf_op *op)
{
    int64_t raises = (int64_t)(op->engine.word[1] >> REDIS_RAISES_SHIFT);
    hf__command_number(command, op->in.mode == HF_READ ? 0 : 1 + raises);
}

static void rw_acquire(struct connection *connection, struct command *command,
                       const struct hf_op *op)
{
    if (hf__redis_raises(op)) {
        begin_rw(connection, command, REDIS_RW_RAISE, op);
        hf__command_number(command, REDIS_TOKEN_MS);
        hf__command_number(command, op->in.enqueue);
        add_raise(command, op);
        return;
    }
    begin_rw(connection, command, REDIS_RW_ACQUIRE, op);
    hf__command_number(command, hf__redis_lease_ms(connection->redis, op));
    hf__command_number(command, REDIS_TOKEN_MS);
    hf__command_number(command, op->in.enqueue);
    hf__command_print(command, "%s", hf__redis_mode_name(op->in.mode));
}

static void rw_release(struct connection *connection, struct command *command,
                       const struct hf_op *op)
{
    begin_rw(connection, command, REDIS_RW_RELEASE, op);
    hf__command_print(command, "%s",
                      op->in.keep == HF_KEEP_NOTHING ? ""
                                                     : hf__redis_mode_name((hf_mode)op->in.keep));
    add_raise(command, op);
}

static void rw_channel(const struct redis *redis, struct command *command, const struct hf_op *op)
{
    (void)redis;
    hf__keys_channel(command, REDIS_CHANNEL_RW, op->in.name, op->in.name_length);
}

static void rw_extend(struct connection *connection, struct command *command,
                      const struct hf_op *op, int64_t lease_ms)
{
    hf__redis_lease_script(connection, command, REDIS_RW_EXTEND, op);
    hf__redis_add_field(connection->redis, command, op);
    hf__command_number(command, lease_ms);
}

/* A read hold's own lease. A writer has none, and would wait for it until the slot has arrived; the
 * mode that an op asks for does not say which it is. */
static void pair(const struct redis *redis, struct command *command, const struct hf_op *op)
{
    char field[REDIS_FIELD_SIZE];
    /* mutant: writer-waits-for-reader-lease */
    if (op->engine.word[1] & REDIS_WRITES) {
        hf__command_add(command, op->in.name, op->in.name_length);
        return;
    }
    hf__redis_field(redis, op, field);
    hf__command_print(command,
                      memchr(op->in.name, '{', op->in.name_length) ? "%s:%s:rwlock_timeout:1"
                                                                   : "{%s}:%s:rwlock_timeout:1",
                      op->in.name, field);
}

const struct redis_kind hf__redis_rw = {
    .leased = true,
    .queues = true,
    .renew = REDIS_RW_RENEW,
    .acquire = rw_acquire,
    .release = rw_release,
    .extend = rw_extend,
    .renewal = hf__redis_add_field,
    .pair = pair,
    .channel = rw_channel,
};
