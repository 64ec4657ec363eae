/* SPDX-License-Identifier: Apache-2.0 */
/* The queue store's engine: grants and places rest on the session, which is opened with the first
 * question and anew when it was lost. */
#include "queue_store.h"

#include <string.h>

/* What an older session has made is not ours, and its late answers are none. */
static void new_session(struct sim_engine *engine)
{
    engine->session++;
    /* The watchdog may be just telling those who rest on the old one, so that stays as it is. */
    engine->lease = &engine->leases[engine->session % 2];
    memset(engine->lease, 0, sizeof *engine->lease);
    say("c%u begins session %llu", engine->client->index, (unsigned long long)engine->session);
}

static void confirm(struct sim_engine *engine, int64_t asked_at_ms)
{
    struct hf_lease *lease = engine->lease;
    if (lease->watched)
        hf__lease_answer(lease, asked_at_ms, HF_LEASE_RENEWED, 0, NULL);
    else if (!lease->lost && asked_at_ms > lease->asked_at_ms)
        lease->asked_at_ms = asked_at_ms;
    lease->engine = &engine->base;
    lease->lease_ms = LEASE_MS;
}

static void attempt(struct hf_engine *base, struct hf_op *op)
{
    struct sim_engine *engine = HF_CONTAINER(base, struct sim_engine, base);
    if (engine->session == 0 || engine->lease->lost)
        new_session(engine);
    struct message message = engine_message(engine, MESSAGE_ATTEMPT, op);
    message.session = engine->session;
    op->engine.word[1] &= ~(uint64_t)OP_WAITS;
    engine_ask(engine, op, &message);
}

static void release(struct hf_engine *base, struct hf_op *op)
{
    struct sim_engine *engine = HF_CONTAINER(base, struct sim_engine, base);
    struct message message = engine_message(engine, MESSAGE_RELEASE, op);
    message.session = engine->session;
    if (op->in.keep == HF_KEEP_NOTHING)
        engine_forget(engine, op);
    engine_ask(engine, op, &message);
}

static void renew(struct hf_engine *base, struct hf_lease *lease)
{
    struct sim_engine *engine = HF_CONTAINER(base, struct sim_engine, base);
    (void)lease;
    struct message message = { .kind = MESSAGE_RENEW,
                               .client = engine->client->index,
                               .session = engine->session,
                               .asked_at_ms = hf__loop_now(base->host->loop) };
    network_send_to_store(engine->client, &message);
}

/* The store says that this session is over: so is everything that rests on it. */
static void session_is_over(struct sim_engine *engine)
{
    if (engine->lease->watched)
        hf__lease_answer(engine->lease, 0, HF_LEASE_GONE, 0, NULL);
    engine->lease->lost = true;
}

/* Asked under a session that is over: the question goes out again under the next one. */
static bool asked_in_vain(const struct sim_engine *engine, const struct message *answer)
{
    return answer->answers == MESSAGE_ATTEMPT &&
           (!answer->ours || answer->session != engine->session || engine->lease->lost);
}

static void answered(struct sim_engine *engine, const struct message *answer)
{
    int64_t asked_at_ms;
    struct hf_op *op = engine_take(engine, answer, &asked_at_ms);
    if (!op)
        return;
    if (asked_in_vain(engine, answer)) {
        attempt(&engine->base, op);
        return;
    }
    op->out.verdict = answer->verdict;
    op->out.contacted = true;
    op->out.retry_at_ms = HF_NEVER;
    if (!hf__mode_leaves_hold(op->in.mode)) {
        op->out.retry_at_ms = hf__loop_now(engine->base.host->loop) + answer->left_ms;
        hf__op_done(&engine->base, op);
        return;
    }
    if (answer->verdict == HF_GRANTED) {
        op->out.token = answer->token;
        op->out.rests_on = engine->lease;
        engine_know(engine, op, OP_HOLDS);
    } else if (answer->verdict == HF_REFUSED) {
        op->out.rests_on = op->in.enqueue ? engine->lease : NULL;
        if (op->in.enqueue)
            engine_know(engine, op, OP_WAITS);
    }
    hf__op_done(&engine->base, op);
}

/* Any answer says how many wakes were sent before it: a gap means that some got lost. */
static void count_events(struct sim_engine *engine, const struct message *message)
{
    uint64_t expected = engine->events_seen + (message->kind == MESSAGE_WAKE);
    bool gap = message->events > expected;
    if (message->events > engine->events_seen)
        engine->events_seen = message->events;
    if (gap)
        engine_wake_all(engine);
}

static void receive(struct sim_engine *engine, const struct message *message)
{
    bool current = message->session == engine->session;
    if (message->kind == MESSAGE_ANSWER && current && message->ours)
        confirm(engine, message->asked_at_ms);
    /* A release opens no session: it may come before the question that does. */
    bool over =
        !message->ours && message->answers != MESSAGE_RELEASE && message->answers != MESSAGE_CHANGE;
    if (message->kind == MESSAGE_ANSWER && current && over && !engine->lease->lost)
        session_is_over(engine);
    if (message->kind == MESSAGE_ANSWER && message->answers == MESSAGE_CHANGE)
        engine_changed(engine, message);
    else if (message->kind == MESSAGE_ANSWER && message->answers != MESSAGE_RENEW)
        answered(engine, message);
    count_events(engine, message);
    struct hf_op *op = message->kind == MESSAGE_WAKE ? engine_find(engine, message->claim) : NULL;
    if (op)
        hf__op_wake(op);
}

static const struct hf_engine_ops queue_ops = {
    .name = "queue",
    .caps = HF_CAP_MUTEX | HF_CAP_FAIR | HF_CAP_RW | HF_CAP_TOKEN | HF_CAP_COUNTER | HF_CAP_LATCH,
    .close = engine_close,
    .attempt = attempt,
    .release = release,
    .renew = renew,
    .oneshot = engine_change,
};

struct sim_engine *queue_engine_open(struct sim_client *client)
{
    struct sim_engine *engine = engine_new(client, &queue_ops);
    engine->receive = receive;
    return engine;
}
