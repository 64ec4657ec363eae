/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of locks, by what an op asks for, and what they ask about an op. */
#include "kinds.h"
#include "engines/redis/redis.h"

#include <assert.h>
#include <string.h>

const struct redis_kind *hf__redis_kind(const struct redis *redis, hf_mode mode)
{
    static const struct redis_kind *const kinds[] = {
        [HF_MUTEX] = &hf__redis_mutex,     [HF_FAIR] = &hf__redis_fair,
        [HF_READ] = &hf__redis_rw,         [HF_UPGRADE] = &hf__redis_rw,
        [HF_WRITE] = &hf__redis_rw,        [HF_PERMIT] = &hf__redis_semaphore,
        [HF_COUNTER] = &hf__redis_counter, [HF_LATCH] = &hf__redis_latch,
    };
    if (redis->settings.simple)
        return &hf__redis_simple;
    /* The core asks for nothing that is not among the engine's capabilities. */
    assert((unsigned)mode < sizeof kinds / sizeof *kinds && kinds[mode]);
    return kinds[mode];
}

void hf__redis_field(const struct redis *redis, const struct hf_op *op,
                     char field[REDIS_FIELD_SIZE])
{
    const size_t length = sizeof redis->uuid - 1;
    _Static_assert(sizeof redis->uuid + REDIS_DIGITS_MAX + 1 <= REDIS_FIELD_SIZE, "a field fits");
    memcpy(field, redis->uuid, length);
    field[length] = ':';
    size_t digits = hf__write_number(field + length + 1, op->engine.word[0]);
    field[length + 1 + digits] = 0;
}

void hf__redis_add_field(const struct redis *redis, struct command *command, const struct hf_op *op)
{
    char field[REDIS_FIELD_SIZE];
    hf__redis_field(redis, op, field);
    hf__command_copy(command, field, strlen(field));
}

bool hf__redis_may_wait(const struct hf_op *op)
{
    return op->engine.known.now & ~HF_KNOWN_LOCK;
}

unsigned hf__redis_waits(const struct hf_op *op)
{
    if (!op->in.enqueue)
        return 0;
    if (op->engine.known.now & ~HF_KNOWN_LOCK)
        return 2;
    return op->engine.word[1] & REDIS_LISTENS ? 1 : 0; /* mutant: owner-cannot-be-told-has-place */
}

int64_t hf__redis_lease_ms(const struct redis *redis, const struct hf_op *op)
{
    return op->in.lease_ms ? op->in.lease_ms : redis->base.host->lease_ms;
}

void hf__redis_lease_script(struct connection *connection, struct command *command,
                            enum redis_script script, const struct hf_op *op)
{
    const struct redis_kind *kind = hf__redis_kind(connection->redis, op->in.mode);
    /* mutant: half-lease-is-taken-for-none-when */
    hf__connection_script(connection, command, script, kind->pair ? 2 : 1);
    hf__command_add(command, op->in.name, op->in.name_length);
    if (kind->pair)
        kind->pair(connection->redis, command, op);
}

static const char *const modes[] = {
    [HF_MUTEX] = "mutex",     [HF_FAIR] = "fair",   [HF_READ] = "read",
    [HF_UPGRADE] = "upgrade", [HF_WRITE] = "write", [HF_PERMIT] = "permit",
    [HF_COUNTER] = "counter", [HF_LATCH] = "latch",
};

const char *hf__redis_mode_name(hf_mode mode)
{
    return modes[mode];
}

hf_mode hf__redis_mode_of(const redisReply *name)
{
    for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(modes[i], hf__reply_text(name)) == 0)
            return (hf_mode)i;
    return HF_MUTEX;
}
