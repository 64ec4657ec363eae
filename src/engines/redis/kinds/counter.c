/* SPDX-License-Identifier: Apache-2.0 */
/* The plain counter: a number. What was taken has no owner, so a record of its own tells whether a
 * request that had no answer was executed. counter_*.lua decide. */
#include "engines/redis/redis.h"
#include "keys.h"
#include "kinds.h"

#include "base/testing.h"

#include <string.h>

/* Longer than any claim goes on asking. */
#define RECORD_MS INT64_C(86400000)

static void add_record(const struct redis *redis, struct command *command, const struct hf_op *op)
{
    char field[REDIS_FIELD_SIZE];
    hf__redis_field(redis, op, field);
    hf__command_print(command,
                      memchr(op->in.name, '{', op->in.name_length) ? "holdfast_taken:%s:%s"
                                                                   : "holdfast_taken:{%s}:%s",
                      op->in.name, field);
}

static void begin_counter(struct connection *connection, struct command *command,
                          enum redis_script script, const struct hf_op *op)
{
    hf__keys_script(connection, command, script, REDIS_CHANNEL_SEMAPHORE, op->in.name,
                    op->in.name_length);
    hf__redis_add_field(connection->redis, command, op);
    add_record(connection->redis, command, op);
    hf__command_number(command, RECORD_MS);
}

static void counter_acquire(struct connection *connection, struct command *command,
                            const struct hf_op *op)
{
    begin_counter(connection, command, REDIS_COUNTER_TAKE, op);
    hf__command_number(command, op->in.enqueue);
    hf__command_number(command, op->in.permits);
}

static void counter_release(struct connection *connection, struct command *command,
                            const struct hf_op *op)
{
    begin_counter(connection, command, REDIS_COUNTER_RETURN, op);
    hf__command_number(command, hf__known_holds(&op->engine.known));
    hf__command_number(command, op->in.permits);
    hf__command_number(command, (op->engine.known.now & HF_KNOWN_MAY_COME) != 0);
}

static void counter_channel(const struct redis *redis, struct command *command,
                            const struct hf_op *op)
{
    (void)redis;
    hf__keys_channel(command, REDIS_CHANNEL_SEMAPHORE, op->in.name, op->in.name_length);
}

/* ---- the record has served ---- */

static void forgotten(struct connection *connection, struct redis_request *request,
                      const redisReply *reply)
{
    (void)reply;
    hf__request_free(connection->redis, request);
}

static void send_forget(struct connection *connection, struct redis_request *request)
{
    const char *record = request->memory;
    struct command command;
    hf__command_begin(&command, "DEL");
    hf__command_add(&command, record, strlen(record));
    hf__connection_write(connection, request, &command);
}

/* If that gets lost, the record ends by itself. */
static void settled(struct redis *redis, const struct hf_op *op)
{
    struct command command;
    hf__command_begin(&command, "");
    add_record(redis, &command, op);
    char *record = hf__calloc(1, command.lengths[1] + 1);
    struct redis_request *request = record ? hf__request_new(redis) : NULL;
    if (!request) {
        free(record);
        return;
    }
    memcpy(record, command.arguments[1], command.lengths[1]);
    request->memory = record;
    request->send = send_forget;
    request->answered = forgotten;
    hf__redis_ask(redis, request, record, strlen(record));
}

const struct redis_kind hf__redis_counter = {
    .queues = true,
    .acquire = counter_acquire,
    .release = counter_release,
    .channel = counter_channel,
    .settled = settled,
};
