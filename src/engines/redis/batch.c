/* SPDX-License-Identifier: Apache-2.0 */
/* Batches requests that were made in the same turn of the loop into one call of a script, which
 * costs the server and the client much less than one call each. Each request gets the reply that it
 * would have had alone. If the script fails, each of its requests is sent again by itself. */
#include "engines/redis/kinds/keys.h"
#include "engines/redis/kinds/kinds.h"
#include "redis.h"

#include <string.h>

/* The number that goes together: the server does nothing else meanwhile. */
#define TOGETHER_MAX 32u
/* Among this number it is looked for those that are alike. */
#define LOOKED_MAX 128u
/* What the keys and arguments of one take of a command's text, beside its name, and of the name. */
#define ROOM_OF_ONE 192u
#define NAMES_OF_ONE 3u

static const struct hf_op *op_of(struct hf_link *link)
{
    return hf__request_at(link)->op;
}

static void write_whole(struct connection *connection, struct redis_request *whole, unsigned count)
{
    const struct redis_many *many = whole->many;
    const struct redis *redis = connection->redis;
    struct command command;
    unsigned keys = many->needs ? many->needs(op_of(whole->parts.next)) : many->keys;
    hf__connection_script(connection, &command, many->script, count * keys);
    for (unsigned i = 0; i < keys; i++)
        HF_LIST_FOREACH (link, following, &whole->parts)
            many->add_key[i](redis, &command, op_of(link));
    if (many->add_common)
        many->add_common(redis, &command, op_of(whole->parts.next));
    HF_LIST_FOREACH (link, following, &whole->parts)
        hf__redis_add_field(redis, &command, op_of(link));
    hf__connection_write(connection, whole, &command);
}

void hf__batch_leaves(struct connection *connection, struct redis_request *request)
{
    struct redis *redis = connection->redis;
    struct hf_op *op = request->op;
    const struct waiter *waiter = op->engine.pointer;
    /* A request that is out, and is sent again, has done nothing: the server does not know the
     * script, or another node of the cluster has the slot. */
    if (op->engine.known.asked) /* mutant: request-sent-again-did-nothing */
        hf__known_reply(&op->engine.known, HF_WORD_NEVER);
    if (request->asked == HF_ASKED_RELEASE && (op->engine.word[1] & REDIS_CONTENDED))
        hf__fast_enqueue_ask_clock(connection);
    if (request->asked != HF_ASKED_TRY && request->asked != HF_ASKED_ATTEMPT)
        return;
    if (waiter && waiter->redis != redis)
        hf__waiter_leave(op);
    hf__token_floor_raise(connection, op);
    request->heard = redis->releases_heard;
    request->listened = hf__grant_channel_is_sure(redis);
    op->engine.word[1] &= ~(uint64_t)REDIS_LISTENS;
    op->engine.word[1] |= request->listened ? REDIS_LISTENS : 0;
    /* The word of a grant may come before the refusal that it follows. */
    /* mutant: grant-that-comes */
    if (request->listened && op->in.enqueue && request->kind->grants)
        hf__grant_channel_join(redis, op);
}

static void send_whole(struct connection *connection, struct redis_request *whole)
{
    unsigned count = 0;
    HF_LIST_FOREACH (link, following, &whole->parts) {
        hf__batch_leaves(connection, hf__request_at(link));
        count++;
    }
    write_whole(connection, whole, count);
    HF_LIST_FOREACH (link, following, &whole->parts) {
        struct redis_request *part = hf__request_at(link);
        part->item.sent = whole->item.sent;
        part->item.sent_at_ms = whole->item.sent_at_ms;
        hf__known_sent(&part->op->engine.known, part->asked);
    }
}

static size_t count_of(const struct hf_link *head)
{
    size_t count = 0;
    for (const struct hf_link *link = head->next; link != head; link = link->next)
        count++;
    return count;
}

static void ask_alone(struct redis *redis, struct redis_request *request)
{
    request->many = NULL;
    hf__connection_ask(&redis->cmd, request);
}

/* An error is everybody's. */
static void whole_answered(struct connection *connection, struct redis_request *whole,
                           const redisReply *reply)
{
    struct redis *redis = connection->redis;
    struct hf_link parts, *link;
    size_t count = count_of(&whole->parts), i = 0;
    bool each = hf__reply_is_array(reply, count) && reply->elements == count;
    if (reply && !each && reply->type != REDIS_REPLY_ERROR) {
        hf__peer_break(&connection->peer, HF_ECORRUPT, 0, "its answer is not what was asked for");
        reply = NULL;
    }
    hf__link_init(&parts);
    while ((link = hf__list_pop(&whole->parts)))
        hf__list_append(&parts, link);
    while ((link = hf__list_pop(&parts))) {
        struct redis_request *part = hf__request_at(link);
        /* mutant: all-owner-ask-together */
        const redisReply *answer = each ? reply->element[i++] : reply;
        /* mutant: owner-asks-with-others */
        bool failed = answer && answer->type == REDIS_REPLY_NIL;
        if (!failed) {
            part->answered(connection, part, answer);
            continue;
        }
        hf__request_executed(part); /* mutant: owner-may-have-let-go-already */
        ask_alone(redis, part);
    }
    hf__request_free(redis, whole);
}

static bool are_alike(const struct redis_request *request, const struct redis_request *other)
{
    const struct redis_many *many = request->many;
    return other->many == many && (!many->are_alike || many->are_alike(request->op, other->op));
}

/* A batch that is being filled. */
struct filling {
    struct redis_request *whole;
    size_t room;
    unsigned count;
    const struct hf_op *ops[TOGETHER_MAX];
    uint64_t name_hashes[TOGETHER_MAX]; /* the ops', side by side for a quick comparison */
};

static bool is_same_name(const struct hf_op *op, const struct hf_op *other)
{
    return op->in.name_length == other->in.name_length &&
           memcmp(op->in.name, other->in.name, op->in.name_length) == 0;
}

/* The scripts check once whether all locks of a batch are free, and then take each of them. So a
 * name must not be in a batch twice: each request for it would be granted. */
static bool has_name(const struct filling *filling, const struct hf_op *op)
{
    for (unsigned i = 0; i < filling->count; i++)
        if (filling->name_hashes[i] == op->in.name_hash && is_same_name(filling->ops[i], op))
            return true;
    return false;
}

/* Moves a request from its list into the batch. */
static void add_question(struct filling *filling, struct redis_request *request, size_t needed)
{
    filling->ops[filling->count] = request->op;
    filling->name_hashes[filling->count++] = request->op->in.name_hash;
    filling->room -= needed;
    hf__link_remove(&request->item.link);
    hf__list_append(&filling->whole->parts, &request->item.link);
}

/* Asks those that fit into one call with the first; the rest is left. */
static void ask_some(struct redis *redis, struct hf_link *requests)
{
    struct redis_request *first = hf__request_at(requests->next);
    /* mutant: each-asks-alone */
    bool alone = first->item.link.next == requests || redis->cmd.peer.state != HF_PEER_READY;
    struct redis_request *whole = alone ? NULL : hf__request_new(redis);
    if (!whole) {
        hf__link_remove(&first->item.link);
        ask_alone(redis, first);
        return;
    }
    struct filling filling;
    filling.whole = whole;
    filling.room = REDIS_TEXT_SIZE;
    filling.count = 0;
    unsigned looked_at = 0;
    whole->many = first->many;
    whole->send = send_whole;
    whole->answered = whole_answered;
    HF_LIST_FOREACH (link, following, requests) {
        struct redis_request *next = hf__request_at(link);
        size_t needed = NAMES_OF_ONE * next->op->in.name_length + ROOM_OF_ONE;
        /* mutant: names-do-not-have-to-fit */
        if (needed > filling.room || filling.count == TOGETHER_MAX || looked_at++ == LOOKED_MAX)
            break;
        /* mutant: one-name-is-in-batch-several */
        if (are_alike(first, next) && !has_name(&filling, next->op))
            add_question(&filling, next, needed);
    }
    hf__connection_ask(&redis->cmd, whole);
}

/* What is free again may be what others ask for. */
void hf__batch_flush(struct redis *redis)
{
    while (!hf__list_empty(&redis->giving))
        ask_some(redis, &redis->giving);
    while (!hf__list_empty(&redis->taking))
        ask_some(redis, &redis->taking);
}

static void turn_ends(struct hf_task *task)
{
    hf__batch_flush(HF_CONTAINER(task, struct redis, ask_together));
}

void hf__batch_ask(struct redis *redis, struct redis_request *request,
                   const struct redis_many *many)
{
    /* In a cluster, what is asked together hardly ever has one slot. Where several servers vote,
     * each is told another least token. What has another's token must not be counted on together
     * with it. */
    if (!many || redis->cluster || hf__redis_is_part(redis) ||
        hf__keys_may_share_token(request->op)) {
        hf__redis_ask(redis, request, request->op->in.name, request->op->in.name_length);
        return;
    }
    bool takes = many == request->kind->take_many;
    request->many = many;
    hf__list_append(takes ? &redis->taking : &redis->giving, &request->item.link);
    hf__loop_defer(redis->base.host->loop, &redis->ask_together);
}

void hf__batch_open(struct redis *redis)
{
    hf__link_init(&redis->giving);
    hf__link_init(&redis->taking);
    hf__task_init(&redis->ask_together, turn_ends);
}

void hf__batch_close(struct redis *redis)
{
    struct hf_link *link;
    hf__link_remove(&redis->ask_together.link);
    while ((link = hf__list_pop(&redis->giving)) || (link = hf__list_pop(&redis->taking)))
        hf__request_free(redis, hf__request_at(link));
}
