/* SPDX-License-Identifier: Apache-2.0 */
/* How an attempt ends, and what every request about an op ends with. */
#include "engines/redis/kinds/kinds.h"
#include "redis.h"

struct redis_request *hf__request_about(struct redis *redis, struct hf_op *op)
{
    struct redis_request *request = hf__request_new(redis);
    if (request) {
        request->op = op;
        return request;
    }
    hf__op_explain(op, HF_ENOMEM, 0, "out of memory for a request");
    return NULL;
}

void hf__redis_set_lease(struct redis *redis, struct hf_op *op, int64_t asked_at_ms,
                         int64_t lease_ms)
{
    struct hf_lease *lease = &op->engine.own_lease;
    lease->engine = &redis->front->base;
    lease->asked_at_ms = asked_at_ms;
    lease->lease_ms = lease_ms;
    lease->fixed = op->in.lease_ms > 0 || op->in.attach_key;
    op->out.rests_on = lease;
}

void hf__redis_finish(struct redis *redis, struct redis_request *request, enum hf_verdict verdict)
{
    struct hf_op *op = request->op;
    if (verdict != HF_REFUSED && verdict != HF_REFUSED_NOT_QUEUED && verdict != HF_NO_ANSWER)
        hf__waiter_leave(op);
    hf__request_free(redis, request);
    op->out.verdict = verdict;
    redis->sink->op_done(&redis->base, op);
}

void hf__redis_note_when_granted(const struct redis *redis, struct hf_op *op)
{
    op->engine.word[1] |= (uint64_t)hf__loop_now(redis->base.host->loop) << REDIS_GRANTED_SHIFT;
}

void hf__attempt_granted(struct redis *redis, struct redis_request *request, int64_t lease_ms,
                         const redisReply *token)
{
    struct hf_op *op = request->op;
    int64_t number = hf__reply_number(token);
    op->out.token = number > 0 ? (uint64_t)number : 0;
    const struct redis_kind *kind = hf__redis_kind(redis, op->in.mode);
    /* What is held already may just be renewed. */
    uint64_t kept = REDIS_CONTENDED | REDIS_RENEWING | (kind->settled ? REDIS_OUTSTANDING : 0u);
    op->engine.word[1] = REDIS_HOLDS | (op->engine.word[1] & kept);
    if (!op->in.attach_key) /* mutant: owner-has-taken-lock-over */
        hf__redis_note_when_granted(redis, op);
    op->out.rests_on = NULL;
    if (kind->leased)
        /* mutant: lease-counts-from-when-answer */
        hf__redis_set_lease(redis, op, request->item.sent_at_ms, lease_ms);
    if (hf__token_floor_refuses(redis, op, op->out.token)) {
        hf__op_explain(op, HF_UNREACHABLE, 0,
                       "Redis at %.100s: the last token of \"%.200s\" could not be raised to the "
                       "client's token_floor",
                       redis->settings.shown, op->in.name);
        hf__attempt_confirmed(redis, request, false);
        return;
    }
    /* Replicas have confirmed what is taken over when it was granted. If one has not heard of the
     * new key, nobody else has the lock there. */
    if (redis->settings.replicas && !op->in.attach_key) /* mutant: in-cluster-no-replica-is-asked */
        hf__replica_wait_wait(redis, request);
    else
        hf__attempt_confirmed(redis, request, true);
}

/* An attempt that is still on its way to the server finds by the record that it is too late.
 * Without the right to end the connection that it is on, the record stays until it expires. */
void hf__redis_settle(struct redis *redis, const struct hf_op *op)
{
    const struct redis_kind *kind = hf__redis_kind(redis, op->in.mode);
    bool may_come = (op->engine.word[1] & REDIS_OUTSTANDING) && !redis->cmd.last_one_ended;
    if (kind->settled && !may_come)
        kind->settled(redis, op);
}

/* A grant that may be forgotten in a failover is none yet: the core asks again, or gives it back.
 */
void hf__attempt_confirmed(struct redis *redis, struct redis_request *request, bool enough)
{
    if (enough)
        hf__redis_settle(redis, request->op);
    else
        request->op->engine.word[1] |= REDIS_UNSURE;
    hf__redis_finish(redis, request, enough ? HF_GRANTED : HF_NO_ANSWER);
}

/* ---- what cannot be ---- */

static void send_undoing(struct connection *connection, struct redis_request *request)
{
    const struct hf_op *op = request->op;
    struct command command;
    if (op->in.attach_key) {
        hf__attach_send_back(connection, request);
        return;
    }
    hf__redis_kind(connection->redis, op->in.mode)->release(connection, &command, op);
    hf__connection_write(connection, request, &command);
}

/* Who may not give back either has nothing more to say. */
static void undone(struct connection *connection, struct redis_request *request,
                   const redisReply *reply)
{
    struct redis *redis = connection->redis;
    struct hf_op *op = request->op;
    op->out.contacted = reply != NULL;
    if (!reply || hf__request_code(redis, reply) == HF_UNREACHABLE) {
        hf__attempt_unanswered(connection, request, reply);
        return;
    }
    if (reply->type == REDIS_REPLY_INTEGER)
        hf__redis_settle(redis, op);
    op->engine.word[1] = 0; /* mutant: voting-server-that-refused */
    hf__redis_finish(redis, request, HF_FAILED);
}

/* Nothing is left when the failure is told. Should the undoing not be answered, it is said until it
 * is, as after silence. */
static void undo(struct connection *connection, struct redis_request *request)
{
    request->op->engine.word[1] |= REDIS_UNSURE;
    request->many = NULL;
    request->repeats = request->hops = 0;
    request->asks = false;
    request->send = send_undoing;
    request->answered = undone;
    hf__connection_ask(connection, request);
}

void hf__attempt_failed(struct connection *connection, struct redis_request *request)
{
    if (request->op->engine.word[1] & REDIS_QUEUED) /* mutant: owner-cannot-wait-any-more */
        undo(connection, request);
    else
        hf__redis_finish(connection->redis, request, HF_FAILED);
}

void hf__attempt_unanswered(struct connection *connection, struct redis_request *request,
                            const redisReply *reply)
{
    struct redis *redis = connection->redis;
    struct hf_op *op = request->op;
    bool definite;
    hf__request_failed(connection, request, reply, op->in.name, &op->out.error, &definite);
    /* The server does not roll back a script that it stops on its way. */
    if (definite && reply && !request->unmapped) { /* mutant: owner-may-not-have-map-asks */
        undo(connection, request);                 /* mutant: what-script-has-done */
        return;
    }
    if (definite && !(op->engine.word[1] & REDIS_UNSURE)) {
        hf__redis_finish(redis, request, HF_FAILED);
        return;
    }
    /* Should it have been granted, it rests on a lease, after which the server has forgotten it.
     * How long one is that was left under a key, the answer would have said. */
    if (request->item.sent) {
        op->engine.word[1] |= REDIS_UNSURE | REDIS_OUTSTANDING;
        /* mutant: attach-without-answer */
        if (hf__redis_kind(redis, op->in.mode)->leased && !op->in.attach_key)
            hf__redis_set_lease(redis, op, request->item.sent_at_ms, hf__redis_lease_ms(redis, op));
    }
    hf__redis_finish(redis, request, HF_NO_ANSWER);
}
