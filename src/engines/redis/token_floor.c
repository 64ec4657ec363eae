/* SPDX-License-Identifier: Apache-2.0 */
/* The client's option `token_floor`: the last token of a lock is raised in front of each attempt,
 * on the same connection, so that it costs no round trip. Each later grant, by any client, has a
 * larger one. Servers that vote have it by the least token that they are asked for. */
#include "engines/redis/kinds/keys.h"
#include "engines/redis/kinds/kinds.h"
#include "redis.h"

static bool concerns(const struct redis *redis, const struct hf_op *op)
{
    return redis->base.host->token_floor && !hf__redis_is_part(redis) &&
           op->in.mode != HF_COUNTER && op->in.mode != HF_LATCH;
}

/* If that fails, the grant has a token that is too small, and is not believed. */
void hf__token_floor_raise(struct connection *connection, const struct hf_op *op)
{
    struct redis *redis = connection->redis;
    struct redis_request *request = concerns(redis, op) ? hf__request_new(redis) : NULL;
    struct command command;
    if (!request)
        return;
    request->answered = hf__request_ignored;
    hf__connection_script(connection, &command, REDIS_TOKEN_FLOOR, 1);
    hf__redis_add_token(redis, &command, op);
    hf__command_print(&command, "%llu", (unsigned long long)redis->base.host->token_floor + 1);
    hf__command_number(&command, REDIS_TOKEN_MS);
    hf__connection_write(connection, request, &command);
}

bool hf__token_floor_refuses(const struct redis *redis, const struct hf_op *op, uint64_t token)
{
    return concerns(redis, op) && !op->in.attach_key && token <= redis->base.host->token_floor;
}
