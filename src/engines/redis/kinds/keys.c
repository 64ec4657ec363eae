/* SPDX-License-Identifier: Apache-2.0 */
/* The keys and channels that belong to a lock, as Redisson calls them; and a few of our own. */
#include "keys.h"
#include "engines/redis/wire/connection.h"

#include <string.h>

void hf__keys_channel(struct command *command, enum redis_channel channel, const char *name,
                      uint32_t length)
{
    static const char *const prefixes[] = { [REDIS_CHANNEL_MUTEX] = REDIS_CHANNEL_PREFIX,
                                            [REDIS_CHANNEL_RW] = "redisson_rwlock",
                                            [REDIS_CHANNEL_SEMAPHORE] = "redisson_sc" };
    /* This one has braces always. */
    if (channel == REDIS_CHANNEL_LATCH)
        hf__command_print(command, "redisson_countdownlatch__channel__{%s}", name);
    else
        hf__command_derived(command, prefixes[channel], name, length);
}

void hf__redis_add_lock(const struct redis *redis, struct command *command, const struct hf_op *op)
{
    (void)redis;
    hf__command_add(command, op->in.name, op->in.name_length);
}

void hf__redis_add_token(const struct redis *redis, struct command *command, const struct hf_op *op)
{
    (void)redis;
    hf__command_derived(command, REDIS_TOKEN_PREFIX, op->in.name, op->in.name_length);
}

bool hf__keys_may_share_token(const struct hf_op *op)
{
    /* mutant: two-that-ask-together-count */
    return op->in.name[0] == '{' && op->in.name[op->in.name_length - 1] == '}';
}

void hf__keys_permits(struct command *command, const char *name, uint32_t length)
{
    if (memchr(name, '{', length))
        hf__command_print(command, "%s:timeout", name);
    else
        hf__command_print(command, "{%s}:timeout", name);
}

void hf__keys_script(struct connection *connection, struct command *command,
                     enum redis_script script, enum redis_channel channel, const char *name,
                     uint32_t length)
{
    hf__connection_script(connection, command, script, 7);
    hf__command_add(command, name, length);
    hf__command_derived(command, REDIS_TOKEN_PREFIX, name, length);
    hf__command_own(command, REDIS_PLACES_PREFIX, name, length);
    hf__command_own(command, REDIS_ALIVE_PREFIX, name, length);
    hf__command_own(command, REDIS_MARK_PREFIX, name, length);
    hf__keys_permits(command, name, length);
    hf__keys_channel(command, channel, name, length);
}
