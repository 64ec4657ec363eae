/* SPDX-License-Identifier: Apache-2.0 */
/* Many mutexes are given back without a script: a field is taken out if it is there, which one
 * plain command does. Whether anybody of ours waits is looked at behind them, once for all, since
 * nearly always nobody does; where somebody does, the script is asked after all, which then finds
 * the lock free and passes it on. So it does where the connection broke in between and it is said
 * again. */
#include "engines/redis/kinds/keys.h"
#include "engines/redis/kinds/kinds.h"
#include "redis.h"

/* Where somebody was seen to wait, or could not be seen, the script is asked at once for so long:
 * behind the plain commands, who takes the lock in the same turn would be before him each time. */
#define SCRIPT_MS 10000

/* ---- answers ---- */

/* What was not ours any more is told as that at once. Should it be free, and somebody wait for it,
 * he looks by himself. */
static void field_answered(struct connection *connection, struct redis_request *part,
                           const redisReply *reply)
{
    const redisReply overwritten = { .type = REDIS_REPLY_INTEGER, .integer = REDIS_OVERWRITTEN };
    struct redis_request *whole = part->whole;
    part->whole = NULL;
    part->answered = hf__release_answered;
    if (reply && reply->type == REDIS_REPLY_INTEGER && reply->integer == 1)
        hf__list_append(&whole->parts, &part->link);
    else if (hf__reply_says(reply, "WRONGTYPE"))
        hf__release_answered(connection, part, &overwritten);
    else
        hf__release_answered(connection, part, reply);
}

static void queues_answered(struct connection *connection, struct redis_request *whole,
                            const redisReply *reply)
{
    struct redis *redis = connection->redis;
    const redisReply given = { .type = REDIS_REPLY_INTEGER, .integer = 1 };
    bool nobody = reply && reply->type == REDIS_REPLY_INTEGER && reply->integer == 0;
    if (reply && !nobody)
        redis->by_script_until_ms = hf__loop_now(redis->base.host->loop) + SCRIPT_MS;
    struct hf_link *link;
    while ((link = hf__list_pop(&whole->parts))) {
        struct redis_request *part = HF_CONTAINER(link, struct redis_request, link);
        if (nobody || !reply) {
            hf__release_answered(connection, part, nobody ? &given : NULL);
            continue;
        }
        part->op->engine_word[1] |= REDIS_UNSURE;
        hf__batch_ask(redis, part, part->many);
    }
    hf__request_free(redis, whole);
}

/* ---- requests ---- */

static void write_field(struct connection *connection, struct redis_request *part)
{
    const struct redis *redis = connection->redis;
    struct command command;
    part->answered = field_answered;
    hf__command_begin(&command, "HDEL");
    hf__redis_add_lock(redis, &command, part->op);
    hf__redis_add_field(redis, &command, part->op);
    hf__connection_write(connection, part, &command);
}

/* To clients of others, who may wait for it. */
static void write_word(struct connection *connection, struct redis_request *word,
                       const struct hf_op *op)
{
    const struct redis *redis = connection->redis;
    struct command command;
    word->answered = hf__request_ignored;
    hf__command_begin(&command, "PUBLISH");
    hf__redis_mutex.channel(redis, &command, op);
    hf__command_add(&command, "0", 1);
    hf__connection_write(connection, word, &command);
}

static void send_plainly(struct connection *connection, struct redis_request *whole)
{
    struct hf_link parts, *link;
    struct command queues;
    hf__link_init(&parts);
    hf__list_append_all(&parts, &whole->parts);
    hf__command_begin(&queues, "EXISTS");
    while ((link = hf__list_pop(&parts))) {
        struct redis_request *part = HF_CONTAINER(link, struct redis_request, link);
        struct redis_request *word = hf__request_new(connection->redis);
        if (!word) {
            part->send(connection, part);
            continue;
        }
        part->whole = whole;
        hf__command_own(&queues, REDIS_QUEUE_PREFIX, part->op->name, part->op->name_length);
        hf__release_leaves(connection, part);
        write_field(connection, part);
        write_word(connection, word, part->op);
    }
    whole->answered = queues_answered;
    hf__connection_write(connection, whole, &queues);
}

/* Whom it is to be passed on to, or what is left of it, the script knows. */
static bool needs_script(const struct redis *redis, const struct redis_request *whole)
{
    const uint64_t known_to_it = REDIS_CONTENDED | REDIS_QUEUED | REDIS_UNSURE;
    if (hf__loop_now(redis->base.host->loop) < redis->by_script_until_ms)
        return true;
    HF_LIST_FOREACH (link, following, &whole->parts)
        if (HF_CONTAINER(link, struct redis_request, link)->op->engine_word[1] & known_to_it)
            return true;
    return false;
}

void hf__plainly_send(struct connection *connection, struct redis_request *whole)
{
    if (needs_script(connection->redis, whole))
        hf__batch_send(connection, whole);
    else
        send_plainly(connection, whole);
}
