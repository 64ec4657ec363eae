/* SPDX-License-Identifier: Apache-2.0 */
/* Asking for a lock: how an attempt becomes a script, and the script's answer a verdict. */
#include "base/clock.h"
#include "engines/common/poll.h"
#include "engines/redis/kinds/kinds.h"
#include "redis.h"

/* How long until it is worth looking again where nobody is sure to tell. */
static int64_t next_look_ms(const struct redis *redis, const struct hf_op *op, int64_t left_ms)
{
    if (!hf__redis_kind(redis, op->in.mode)->channel)
        return hf__poll_pause_ms(left_ms, 0);
    return left_ms >= 0 && left_ms < REDIS_POLL_MS ? left_ms : REDIS_POLL_MS;
}

/* It is given the lock, and told so, unless others than our clients have it. */
static void queue_up(struct redis *redis, struct hf_op *op, bool others)
{
    op->engine.word[1] = REDIS_CONTENDED | (hf__redis_waits(op) ? REDIS_QUEUED : 0);
    hf__grant_channel_join(redis, op);
    if (others)
        hf__release_channel_join(redis, op);
    else
        hf__release_channel_quit(op);
}

/* Without a sure wake it looks again after a while, and when the wake becomes sure it is woken. */
static int64_t pause_before_asking_again(struct redis *redis, const struct redis_request *request,
                                         int64_t left_ms)
{
    struct hf_op *op = request->op;
    const struct waiter *waiter = op->engine.pointer;
    const struct redis_kind *kind = hf__redis_kind(redis, op->in.mode);
    bool queued = kind->grants && (op->engine.word[1] & REDIS_CONTENDED);
    /* From now on it can have a place. */
    if (queued && hf__grant_channel_is_sure(redis) && !request->listened)
        return 0;
    if (kind->queues && waiter && waiter->channel && hf__release_channel_sure(op))
        /* mutant: none-asks-again-while-wake-may */
        return left_ms >= 0 && left_ms < REDIS_PLACE_MS ? left_ms : REDIS_PLACE_MS;
    bool sure = waiter && left_ms >= 0 &&
                (waiter->channel ? hf__release_channel_sure(op) : queued) &&
                (!queued || request->listened);
    if (!sure)
        return next_look_ms(redis, op, left_ms);
    return queued && left_ms > REDIS_QUEUE_LOOK_MS ? REDIS_QUEUE_LOOK_MS : left_ms;
}

static void look_later(struct redis *redis, struct redis_request *request, int64_t left_ms)
{
    struct hf_op *op = request->op;
    op->out.rests_on = NULL;
    bool queued =
        !hf__redis_kind(redis, op->in.mode)->grants || (op->engine.word[1] & REDIS_QUEUED);
    /* At its last millisecond the key is still there. */
    op->out.retry_at_ms = hf__clock_add(hf__loop_now(redis->base.host->loop) + 1,
                                        pause_before_asking_again(redis, request, left_ms));
    hf__redis_finish(redis, request, queued ? HF_REFUSED : HF_REFUSED_NOT_QUEUED);
}

void hf__attempt_placed(struct redis *redis, struct redis_request *request, int64_t left_ms)
{
    queue_up(redis, request->op, false);
    look_later(redis, request, left_ms);
}

static void refused(struct redis *redis, struct redis_request *request, const redisReply *reply)
{
    struct hf_op *op = request->op;
    const redisReply *left = reply->element[1];
    if (op->in.enqueue && hf__reply_is_array(reply, 3)) {
        queue_up(redis, op, hf__reply_number(reply->element[2]) == 1);
    } else {
        op->engine.word[1] = 0;
        if (op->in.enqueue)
            hf__release_channel_join(redis, op);
    }
    if (op->in.enqueue && hf__redis_kind(redis, op->in.mode)->queues)
        op->engine.word[1] |= REDIS_QUEUED; /* mutant: place-in-line-is-not-given */
    look_later(redis, request, left->type == REDIS_REPLY_INTEGER ? left->integer : -1);
}

/* The code of an answer that says that it cannot be at all, else HF_OK. */
static int never(const redisReply *reply)
{
    int64_t word = hf__reply_is_array(reply, 2) ? reply->element[0]->integer : 0;
    return word == -1 ? HF_EKIND : word == -3 ? HF_EINVAL : HF_OK;
}

/* What it says to be the token, or NULL: it is not granted. Where many are asked together, that
 * alone is a grant. */
static const redisReply *token_in(const struct redis_request *request, const redisReply *reply)
{
    if (request->many && reply &&
        (reply->type == REDIS_REPLY_INTEGER || reply->type == REDIS_REPLY_STRING))
        return reply;
    bool granted = hf__reply_is_array(reply, 2) && hf__reply_number(reply->element[0]) == 1;
    return granted ? reply->element[1] : NULL;
}

static void attempt_answered(struct connection *connection, struct redis_request *request,
                             const redisReply *reply)
{
    struct redis *redis = connection->redis;
    struct hf_op *op = request->op;
    const redisReply *token = token_in(request, reply);
    int64_t word = hf__reply_is_array(reply, 1) ? hf__reply_number(reply->element[0]) : -2;
    int code;
    op->out.contacted = reply != NULL;
    if (hf__reply_number(token) >= 0) { /* mutant: grant-without-token-is */
        hf__attempt_granted(redis, request, hf__redis_lease_ms(redis, op), token);
    } else if (word == 0 && hf__reply_is_array(reply, 2)) {
        refused(redis, request, reply);
    } else if ((code = never(reply)) != HF_OK) {
        hf__op_explain(op, code, 0, "\"%.200s\" %.100s", op->in.name,
                       hf__reply_text(reply->element[1]));
        hf__attempt_failed(connection, request);
    } else {
        hf__attempt_unanswered(connection, request, reply);
    }
}

void hf__attempt_leaves(struct connection *connection, struct redis_request *request)
{
    struct redis *redis = connection->redis;
    struct hf_op *op = request->op;
    const struct waiter *waiter = op->engine.pointer;
    if (waiter && waiter->redis != redis)
        hf__waiter_leave(op);
    hf__token_floor_raise(connection, op);
    request->listened = hf__grant_channel_is_sure(redis);
    op->engine.word[1] &= ~(uint64_t)REDIS_LISTENS;
    op->engine.word[1] |= request->listened ? REDIS_LISTENS : 0;
    /* The word of a grant may come before the refusal that it follows. */
    /* mutant: grant-that-comes */
    if (request->listened && op->in.enqueue && hf__redis_kind(redis, op->in.mode)->grants)
        hf__grant_channel_join(redis, op);
}

static void send_attempt(struct connection *connection, struct redis_request *request)
{
    struct hf_op *op = request->op;
    struct command command;
    hf__attempt_leaves(connection, request);
    if (hf__fast_enqueue_ask(connection, request))
        return;
    request->answered = attempt_answered;
    hf__redis_kind(connection->redis, op->in.mode)->acquire(connection, &command, op);
    hf__connection_write(connection, request, &command);
}

/* ---- asking ---- */

/* What we were told of is taken without asking, if there is time enough to renew its lease. With a
 * lease that nobody renews, or a loop that may stand still, or with replicas to be heard, it is
 * asked for as always; in a cluster, too, where word of a grant may come by another node than the
 * one that the pulse is taken of. After a failover the pub/sub connection may still lead to the
 * old master, whose grants count no more. */
static bool take_what_was_granted(struct redis *redis, struct hf_op *op)
{
    const struct hf_host *host = redis->base.host;
    const struct waiter *waiter = op->engine.pointer;
    /* mutant: lock-that-is-handed-over */
    if (op->in.lease_ms || host->turns_rarely || redis->settings.replicas || redis->cluster ||
        !waiter || !waiter->granted_token ||
        hf__token_floor_refuses(redis, op, waiter->granted_token) ||
        !hf__connections_surely_match(&redis->cmd, &redis->pubsub))
        return false;
    int64_t lease_ms = waiter->granted_ms < host->lease_ms ? waiter->granted_ms : host->lease_ms;
    if (hf__loop_now(host->loop) - waiter->not_before_ms > lease_ms / 2)
        return false;
    op->out.token = waiter->granted_token;
    op->engine.word[1] = REDIS_HOLDS | REDIS_CONTENDED;
    hf__redis_note_when_granted(redis, op);
    hf__redis_set_lease(redis, op, waiter->not_before_ms, lease_ms);
    hf__waiter_leave(op);
    op->out.verdict = HF_GRANTED;
    redis->sink->op_done(&redis->base, op);
    return true;
}

void hf__redis_attempt(struct hf_engine *engine, struct hf_op *op)
{
    struct redis *redis = (struct redis *)engine;
    if (take_what_was_granted(redis, op))
        return;
    struct redis_request *request = hf__request_about(redis, op);
    if (request && op->in.mode == HF_PERMIT && op->in.permits > REDIS_PERMITS_MAX) {
        hf__op_explain(op, HF_EINVAL, 0,
                       "\"%.200s\": %u permits at once are too many; take up to %u", op->in.name,
                       op->in.permits, REDIS_PERMITS_MAX);
        hf__redis_finish(redis, request, HF_FAILED);
        return;
    }
    if (!request) {
        op->out.verdict = op->engine.word[1] & ~(uint64_t)REDIS_LISTENS ? HF_NO_ANSWER : HF_FAILED;
        redis->sink->op_done(engine, op);
        return;
    }
    if (!op->engine.word[0])
        op->engine.word[0] = ++redis->front->claims;
    request->send = op->in.attach_key ? hf__attach_send : send_attempt;
    request->answered = op->in.attach_key ? hf__attach_answered : attempt_answered;
    hf__batch_ask(redis, request,
                  op->in.attach_key ? NULL : hf__redis_kind(redis, op->in.mode)->take_many);
}
