/* SPDX-License-Identifier: Apache-2.0 */
/* The semaphore with leased permits: a number of free ones, and a sorted set of those that are
 * taken, by when their leases end. semaphore_*.lua decide. */
#include "engines/redis/redis.h"
#include "keys.h"
#include "kinds.h"

#include <string.h>

/* A permit's id has 16 bytes: of the client, of its claim, and a number among the claim's. */
#define CLIENT_BYTES 8u
#define PREFIX_BYTES 13u

static void write_prefix(const struct redis *redis, const struct hf_op *op,
                         unsigned char prefix[PREFIX_BYTES])
{
    uint64_t client = redis->base.host->id[0], claim = op->engine.word[0];
    for (unsigned i = CLIENT_BYTES; i-- > 0; client >>= 8)
        prefix[i] = client & 0xff;
    for (unsigned i = PREFIX_BYTES; i-- > CLIENT_BYTES; claim >>= 8)
        prefix[i] = claim & 0xff;
}

void hf__semaphore_add_prefix(const struct redis *redis, struct command *command,
                              const struct hf_op *op)
{
    unsigned char prefix[PREFIX_BYTES];
    write_prefix(redis, op, prefix);
    hf__command_copy(command, prefix, sizeof prefix);
}

/* The first permit's id in hexadecimal digits, as Redisson shows ids. */
static void owner_key(const struct redis *redis, const struct hf_op *op,
                      char key[HF_OWNER_KEY_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char prefix[PREFIX_BYTES];
    write_prefix(redis, op, prefix);
    for (unsigned i = 0; i < PREFIX_BYTES; i++) {
        key[2 * i] = digits[prefix[i] >> 4];
        key[2 * i + 1] = digits[prefix[i] & 15];
    }
    memcpy(key + sizeof prefix * 2, "000000", 7);
}

static void begin_semaphore(struct connection *connection, struct command *command,
                            enum redis_script script, const struct hf_op *op)
{
    hf__keys_script(connection, command, script, REDIS_CHANNEL_SEMAPHORE, op->in.name,
                    op->in.name_length);
    hf__semaphore_add_prefix(connection->redis, command, op);
}

static void semaphore_acquire(struct connection *connection, struct command *command,
                              const struct hf_op *op)
{
    char key[HF_OWNER_KEY_SIZE];
    owner_key(connection->redis, op, key);
    begin_semaphore(connection, command, REDIS_SEMAPHORE_ACQUIRE, op);
    hf__command_number(command, hf__redis_lease_ms(connection->redis, op));
    hf__command_number(command, REDIS_TOKEN_MS);
    hf__command_number(command, op->in.enqueue);
    hf__command_print(command, "%s", key);
    hf__command_number(command, op->in.permits);
    hf__command_number(command, op->in.limit);
    hf__redis_add_field(connection->redis, command, op);
}

static void semaphore_release(struct connection *connection, struct command *command,
                              const struct hf_op *op)
{
    char key[HF_OWNER_KEY_SIZE];
    owner_key(connection->redis, op, key);
    begin_semaphore(connection, command, REDIS_SEMAPHORE_RELEASE, op);
    hf__command_print(command, "%s", key);
    hf__command_number(command, op->in.permits);
}

static void semaphore_channel(const struct redis *redis, struct command *command,
                              const struct hf_op *op)
{
    (void)redis;
    hf__keys_channel(command, REDIS_CHANNEL_SEMAPHORE, op->in.name, op->in.name_length);
}

static void renewal(const struct redis *redis, struct command *command, const struct hf_op *op)
{
    hf__semaphore_add_prefix(redis, command, op);
    hf__command_number(command, op->in.permits);
}

static void semaphore_extend(struct connection *connection, struct command *command,
                             const struct hf_op *op, int64_t lease_ms)
{
    hf__redis_lease_script(connection, command, REDIS_SEMAPHORE_EXTEND, op);
    renewal(connection->redis, command, op);
    hf__command_number(command, lease_ms);
}

static void pair(const struct redis *redis, struct command *command, const struct hf_op *op)
{
    (void)redis;
    hf__keys_permits(command, op->in.name, op->in.name_length);
}

const struct redis_kind hf__redis_semaphore = {
    .leased = true,
    .queues = true,
    .renew = REDIS_SEMAPHORE_RENEW,
    .acquire = semaphore_acquire,
    .release = semaphore_release,
    .extend = semaphore_extend,
    .renewal = renewal,
    .pair = pair,
    .channel = semaphore_channel,
    .owner_key = owner_key,
};
