/* SPDX-License-Identifier: Apache-2.0 */
/* The lease store's engine: every grant rests on a lease of its own. */
#include "lease_store.h"

static void attempt(struct hf_engine *base, struct hf_op *op)
{
    struct sim_engine *engine = HF_CONTAINER(base, struct sim_engine, base);
    struct message message = engine_message(engine, MESSAGE_ATTEMPT, op);
    enum hf_asked asked = engine_attempt(op);
    if (asked == HF_ASKED_ATTACH)
        message.attach = engine_key(op->in.attach_key);
    engine_ask(engine, op, asked, &message);
}

/* From here on the answers to what was asked about it come too late. */
static bool compact(struct hf_engine *base, struct hf_op *op)
{
    engine_forget(HF_CONTAINER(base, struct sim_engine, base), op);
    return true;
}

static void release(struct hf_engine *base, struct hf_op *op)
{
    struct sim_engine *engine = HF_CONTAINER(base, struct sim_engine, base);
    struct message message = engine_message(engine, MESSAGE_RELEASE, op);
    engine_release(engine, op, &message);
}

static void renew(struct hf_engine *base, struct hf_lease *lease)
{
    struct sim_engine *engine = HF_CONTAINER(base, struct sim_engine, base);
    struct hf_op *op = HF_CONTAINER(lease, struct hf_op, engine.own_lease);
    struct message message = engine_message(engine, MESSAGE_RENEW, op);
    engine_know(engine, op);
    message.lease_ms = lease->lease_ms;
    message.asked_at_ms = hf__loop_now(base->host->loop);
    network_send_to_store(engine->client, &message);
}

static void granted(struct sim_engine *engine, struct hf_op *op, int64_t asked_at_ms,
                    const struct message *answer)
{
    struct hf_lease *lease = &op->engine.own_lease;
    bool held = answer->held;
    if (!hf__mode_leaves_hold(op->in.mode))
        return;
    if (answer->attach.claim) {
        op->in.mode = answer->mode;
        op->in.permits = answer->permits;
        op->in.lease_ms = answer->lease_ms;
    }
    /* Raising a hold leaves a lease of its own as it is. */
    if (!held || op->in.lease_ms == 0) {
        lease->asked_at_ms = asked_at_ms; /* mutant: grant-counts-from-its-answer */
        lease->lease_ms = answer->lease_ms;
    }
    lease->engine = &engine->base;
    lease->fixed = op->in.lease_ms > 0;
    op->out.rests_on = lease;
    op->out.token = answer->token;
    engine_know(engine, op);
}

static void refused(struct sim_engine *engine, struct hf_op *op, const struct message *answer)
{
    bool held = hf__known_holds(&op->engine.known);
    op->out.retry_at_ms = hf__loop_now(engine->base.host->loop) + answer->left_ms;
    if (!hf__mode_leaves_hold(op->in.mode))
        return;
    if (!held)
        op->out.rests_on = NULL;
    if (op->in.enqueue || held)
        engine_know(engine, op);
}

static void answered(struct sim_engine *engine, const struct message *answer)
{
    int64_t asked_at_ms;
    struct hf_op *op = engine_take(engine, answer, &asked_at_ms);
    if (!op)
        return;
    enum hf_known_verdict verdict = engine_judge(op, answer);
    if (verdict == HF_KNOWN_GRANTED)
        granted(engine, op, asked_at_ms, answer);
    else if (verdict == HF_KNOWN_REFUSED)
        refused(engine, op, answer);
    hf__op_done(&engine->base, op);
}

static void renewed(struct sim_engine *engine, const struct message *answer)
{
    struct hf_op *op = engine_find(engine, answer->claim);
    if (op && hf__known_holds(&op->engine.known))
        hf__lease_answer(&op->engine.own_lease, answer->asked_at_ms,
                         answer->ours ? HF_LEASE_RENEWED : HF_LEASE_GONE, 0, NULL);
}

static void receive(struct sim_engine *engine, const struct message *message)
{
    if (message->kind == MESSAGE_ANSWER && message->answers == MESSAGE_RENEW)
        renewed(engine, message);
    else if (message->kind == MESSAGE_ANSWER && message->answers == MESSAGE_CHANGE)
        engine_changed(engine, message);
    else if (message->kind == MESSAGE_ANSWER)
        answered(engine, message);
    struct hf_op *op = message->kind == MESSAGE_WAKE ? engine_find(engine, message->claim) : NULL;
    if (op)
        hf__op_wake(op);
}

static const struct hf_engine_ops lease_ops = {
    .name = "lease",
    .caps = HF_CAP_MUTEX | HF_CAP_FAIR | HF_CAP_RW | HF_CAP_UPGRADE | HF_CAP_PERMIT | HF_CAP_TOKEN |
            HF_CAP_COUNTER | HF_CAP_LATCH | HF_CAP_DETACH | HF_CAP_BREAK,
    .close = engine_close,
    .attempt = attempt,
    .release = release,
    .renew = renew,
    .compact = compact,
    .oneshot = engine_change,
    .detach = engine_change,
};

struct sim_engine *lease_engine_open(struct sim_client *client)
{
    struct sim_engine *engine = engine_new(client, &lease_ops);
    engine->receive = receive;
    return engine;
}
