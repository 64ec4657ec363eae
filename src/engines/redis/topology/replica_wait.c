/* SPDX-License-Identifier: Apache-2.0 */
/* sync=N: a grant is believed when N replicas have it. They are asked on a connection of its own,
 * because WAIT holds up whatever comes behind it, and a replica that hangs must not keep releases
 * and renewals from the server. What is granted while they are asked about goes into the next
 * round. */
#include "engines/redis/kinds/keys.h"
#include "engines/redis/redis.h"

#include <string.h>

#define REDIS_MARK_KEY_PREFIX "holdfast_sync"

/* It concerns one slot; of a cluster that is down as a whole the node speaks in other words. */
static bool says_slot_is_not_there(const redisReply *error)
{
    return hf__reply_says(error, "MOVED ") || hf__reply_says(error, "ASK ") ||
           hf__reply_says(error, "TRYAGAIN") ||
           /* mutant: slot-that-none-has-breaks */
           hf__reply_says(error, "CLUSTERDOWN Hash slot not served");
}

/* A mark that was refused is none: WAIT would speak of what was written before the grants. Where a
 * slot is not this node's any more, that concerns no other slot. */
static void mark_answered(struct connection *connection, struct redis_request *request,
                          const redisReply *reply)
{
    bool in_cluster = connection->redis->cluster != NULL;
    struct redis_request *granted = request->marked;
    hf__request_free(connection->redis, request);
    if (!reply || reply->type != REDIS_REPLY_ERROR || connection->peer.failing)
        return;
    if (granted && says_slot_is_not_there(reply)) { /* mutant: slot-that-has-left-breaks */
        granted->unmarked = true;
        hf__op_explain(granted->op, HF_UNREACHABLE, 0,
                       "Redis at %.100s: the lock's slot is not, or not for long, at this node, "
                       "so its replicas confirm nothing: %.100s",
                       connection->redis->settings.shown, reply->str);
        return;
    }
    hf__peer_break(&connection->peer, hf__reply_code(reply), 0,
                   in_cluster ? "sync needs to write " REDIS_MARK_KEY_PREFIX ":*: %.150s"
                              : "sync needs PUBLISH on " REDIS_CHANNEL_PREFIX ":*: %.150s",
                   reply->str);
}

/* WAIT speaks of what its own connection wrote: a mark, after which it speaks of all before. In a
 * cluster messages do not go to replicas as what is written does, so there it is a key beside
 * `granted`, which is gone in a moment, and which a slot that has left refuses. */
static void write_mark(struct connection *connection, struct redis_request *granted)
{
    struct command command;
    struct redis_request *request = hf__request_new(connection->redis);
    if (!request) {
        hf__peer_break(&connection->peer, HF_ENOMEM, 0, "out of memory for a request");
        return;
    }
    request->answered = mark_answered; /* mutant: mark-that-server-has-refused */
    if (granted) {
        request->marked = granted;
        request->asks = granted->asks; /* mutant: what-was-granted-as-exception */
        hf__command_begin(&command, "SET");
        hf__command_derived(&command, REDIS_MARK_KEY_PREFIX, granted->op->in.name,
                            granted->op->in.name_length);
        hf__command_print(&command, "sync");
        hf__command_print(&command, "PX");
        hf__command_print(&command, "1");
    } else {
        hf__command_begin(&command, "PUBLISH");
        hf__command_print(&command, REDIS_SYNC_CHANNEL);
        hf__command_print(&command, "0");
    }
    hf__connection_write(connection, request, &command);
}

static void send_round(struct connection *connection, struct redis_request *request)
{
    struct redis *redis = connection->redis;
    struct command command;
    if (!redis->cluster) /* mutant: replicas-are-asked-about */
        write_mark(connection, NULL);
    else
        HF_LIST_FOREACH (link, following, &redis->sync_asked)
            write_mark(connection, hf__request_at(link)); /* mutant: only-first-of-several-grants */
    hf__command_begin(&command, "WAIT");
    hf__command_number(&command, redis->settings.replicas);
    hf__command_number(&command, redis->settings.timeout_ms / 3);
    hf__connection_write(connection, request, &command);
}

static bool at_one_server(const struct redis *redis)
{
    return hf__connections_match(&redis->cmd, &redis->replicas);
}

/* Did the server that granted it speak of its replicas, or another that has become the master? */
static bool by_the_same(const struct redis *redis, const struct redis_request *request)
{
    const struct connection *cmd = &redis->cmd;
    /* mutant: replicas-are-believed-about */
    return hf__connection_is_ready(cmd) && cmd->peer.openings == request->opening &&
           at_one_server(redis);
}

/* The next round asks the server that is behind the address then. The other connection is left
 * alone: what was granted on it is to be given back to the same server. */
static void look_elsewhere(struct redis *redis)
{
    if (hf__connection_is_ready(&redis->cmd) && !at_one_server(redis))
        hf__peer_break(&redis->replicas.peer, HF_UNREACHABLE, 0,
                       "its address leads to another server now");
}

static void begin_round(struct redis *redis);

/* `count`: of the replicas that have it. -1: it is not known, and `reply` (or the connection)
 * why. */
static void end_round(struct redis *redis, struct redis_request *round, int64_t count,
                      const redisReply *reply)
{
    struct hf_link asked, *link;
    hf__link_init(&asked);
    while ((link = hf__list_pop(&redis->sync_asked)))
        hf__list_append(&asked, link);
    while ((link = hf__list_pop(&asked))) {
        struct redis_request *request = hf__request_at(link);
        struct hf_op *op = request->op;
        bool definite, same = by_the_same(redis, request);
        op->engine.word[1] &= ~(uint64_t)REDIS_CONFIRMING;
        if (count < 0)
            hf__request_failed(&redis->replicas, round, reply, NULL, &op->out.error, &definite);
        else if (request->unmarked) /* mutant: slot-that-has-left */
            same = false;
        else if (count < redis->settings.replicas)
            hf__op_explain(op, HF_UNREACHABLE, 0,
                           "Redis at %.100s: only %lld of %u replicas have confirmed the lock",
                           redis->settings.shown, (long long)count,
                           (unsigned)redis->settings.replicas);
        else if (!same)
            hf__op_explain(op, HF_UNREACHABLE, 0,
                           "Redis at %.100s: the connection to the server was lost, or leads to "
                           "another one, before replicas had confirmed the lock",
                           redis->settings.shown);
        /* mutant: grant-is-believed-whatever */
        request->confirmed(redis, request, same && count >= redis->settings.replicas);
    }
    if (count >= 0)
        look_elsewhere(redis);
    if (!hf__list_empty(&redis->sync_gathering))
        begin_round(redis);
}

static void round_answered(struct connection *connection, struct redis_request *round,
                           const redisReply *reply)
{
    bool counted = reply && reply->type == REDIS_REPLY_INTEGER;
    end_round(connection->redis, round, counted ? reply->integer : -1, reply);
    hf__request_free(connection->redis, round);
}

static void begin_round(struct redis *redis)
{
    struct redis_request *round = hf__request_new(redis);
    struct hf_link *link;
    /* The replicas were not asked: it is not believed. */
    while (!round && (link = hf__list_pop(&redis->sync_gathering))) {
        struct redis_request *request = hf__request_at(link);
        request->op->engine.word[1] &= ~(uint64_t)REDIS_CONFIRMING;
        hf__op_explain(request->op, HF_UNREACHABLE, 0,
                       "Redis at %.100s: out of memory to ask its replicas", redis->settings.shown);
        request->confirmed(redis, request, false);
    }
    if (!round)
        return;
    while ((link = hf__list_pop(&redis->sync_gathering)))
        hf__list_append(&redis->sync_asked, link);
    round->send = send_round;
    round->answered = round_answered;
    hf__connection_ask(&redis->replicas, round); /* mutant: replicas-are-waited */
}

static void turn_ends(struct hf_task *task)
{
    struct redis *redis = HF_CONTAINER(task, struct redis, sync_begin);
    if (hf__list_empty(&redis->sync_asked) && !hf__list_empty(&redis->sync_gathering))
        begin_round(redis);
}

void hf__replica_wait_wait(struct redis *redis, struct redis_request *request,
                           void (*confirmed)(struct redis *, struct redis_request *, bool enough))
{
    request->confirmed = confirmed;
    request->opening = redis->cmd.peer.openings;
    request->op->engine.word[1] |= REDIS_CONFIRMING; /* mutant: owner-waits-in-vain-does */
    hf__list_append(&redis->sync_gathering, &request->item.link);
    hf__loop_defer(redis->base.host->loop, &redis->sync_begin);
}

void hf__replica_wait_why_silent(struct hf_engine *engine, struct hf_op *op, hf_error **error)
{
    struct redis *redis = (struct redis *)engine;
    if (op && op->engine.word[1] & REDIS_CONFIRMING)
        hf__explain(error, HF_UNREACHABLE, 0,
                    "\"%.200s\": the server has granted it, but sync=%u replicas have not "
                    "confirmed it in time",
                    op->in.name, (unsigned)redis->settings.replicas);
    else
        hf__peer_why_silent(&redis->cmd.peer, error);
}

void hf__replica_wait_open(struct redis *redis)
{
    hf__link_init(&redis->sync_gathering);
    hf__link_init(&redis->sync_asked);
    hf__task_init(&redis->sync_begin, turn_ends);
}

void hf__replica_wait_close(struct redis *redis)
{
    struct hf_link *link;
    hf__link_remove(&redis->sync_begin.link);
    while ((link = hf__list_pop(&redis->sync_gathering)) ||
           (link = hf__list_pop(&redis->sync_asked)))
        hf__request_free(redis, hf__request_at(link));
}
