/* SPDX-License-Identifier: Apache-2.0 */
/* What hearing of releases and hearing of grants have in common: the op that waits, and the
 * connection that listens. */
#include "base/testing.h"
#include "engines/redis/redis.h"

struct waiter *hf__waiter_of(struct redis *redis, struct hf_op *op)
{
    if (op->engine.pointer)
        return op->engine.pointer;
    struct hf_link *link = hf__list_pop(&redis->free_waiters);
    struct waiter *waiter =
        link ? HF_CONTAINER(link, struct waiter, of_all) : hf__calloc(1, sizeof *waiter);
    if (!waiter)
        return NULL;
    *waiter = (struct waiter){ .op = op, .redis = redis };
    hf__link_init(&waiter->of_all);
    hf__link_init(&waiter->link);
    hf__link_init(&waiter->in_inbox);
    hf__timer_init(&waiter->look, NULL);
    op->engine.pointer = waiter;
    hf__list_append(&redis->waiters, &waiter->of_all);
    return waiter;
}

bool hf__listening_is_there(const struct redis *redis)
{
    return hf__connections_match(&redis->cmd, &redis->pubsub);
}

void hf__listening_say(struct redis *redis, const char *word, const char *channel, size_t length)
{
    struct command command;
    if (!hf__connection_is_ready(&redis->pubsub))
        return;
    hf__command_begin(&command, word);
    hf__command_add(&command, channel, length);
    hf__connection_write(&redis->pubsub, NULL, &command);
}
