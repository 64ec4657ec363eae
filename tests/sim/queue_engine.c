/* SPDX-License-Identifier: Apache-2.0 */
/* The queue store's engine: grants and places rest on the session, which is opened with the first
 * question and anew when it was lost. */
#include "queue_store.h"

#include <string.h>

/* op->engine.word[1]: the session that the claim's node is in, or may be. */
#define SESSION_OF(op) ((op)->engine.word[1])

static struct hf_lease *lease_of(struct sim_engine *engine, uint64_t session)
{
    return &engine->leases[session % SESSIONS];
}

/* What an older session has made is not ours, and its late answers are none. */
static void new_session(struct sim_engine *engine)
{
    engine->session++;
    /* The watchdog may be just telling those who rest on the old one, so that stays as it is. */
    engine->doubtful = false;
    engine->lease = lease_of(engine, engine->session);
    memset(engine->lease, 0, sizeof *engine->lease);
    say("c%u begins session %llu", engine->client->index, (unsigned long long)engine->session);
}

static void confirm(struct sim_engine *engine, struct hf_lease *lease, int64_t asked_at_ms)
{
    if (lease->watched)
        hf__lease_answer(lease, asked_at_ms, HF_LEASE_RENEWED, 0, NULL);
    else if (!lease->lost && asked_at_ms > lease->asked_at_ms)
        lease->asked_at_ms = asked_at_ms;
    lease->engine = &engine->base;
    lease->lease_ms = LEASE_MS;
}

/* op->engine.pointer is set: a claim leaves a session that is lost, or doubtful, before it asks in
 * the next one. Else it would wait behind what is left there, and keep that session alive. */
static bool moves(struct sim_engine *engine, const struct hf_op *op)
{
    const struct hf_known *known = &op->engine.known;
    if (!hf__mode_leaves_hold(op->in.mode) || SESSION_OF(op) >= engine->session)
        return false;
    bool lost = lease_of(engine, SESSION_OF(op))->lost;
    /* mutant: claim-leaves-its-old-session */
    return lost ? hf__known_is_there(known) : hf__known_waits(known) && !hf__known_holds(known);
}

/* Its caller has heard of no grant, so there is none to lose. */
static void ask_release(struct sim_engine *engine, struct hf_op *op)
{
    struct message message = engine_message(engine, MESSAGE_RELEASE, op);
    message.session = SESSION_OF(op);
    message.keep = HF_KEEP_NOTHING;
    engine_ask(engine, op, HF_ASKED_UNDO, &message);
}

static void attempt(struct hf_engine *base, struct hf_op *op)
{
    struct sim_engine *engine = HF_CONTAINER(base, struct sim_engine, base);
    if (engine->session == 0 || engine->lease->lost || engine->doubtful)
        new_session(engine);
    op->engine.pointer = moves(engine, op) ? engine : NULL;
    if (op->engine.pointer) {
        ask_release(engine, op);
        return;
    }
    /* What it has in an older session that lives stays there. */
    if (!hf__known_is_there(&op->engine.known) || lease_of(engine, SESSION_OF(op))->lost)
        SESSION_OF(op) = engine->session;
    struct message message = engine_message(engine, MESSAGE_ATTEMPT, op);
    message.session = SESSION_OF(op);
    engine_ask(engine, op, engine_attempt(op), &message);
}

static void release(struct hf_engine *base, struct hf_op *op)
{
    struct sim_engine *engine = HF_CONTAINER(base, struct sim_engine, base);
    struct message message = engine_message(engine, MESSAGE_RELEASE, op);
    message.session = SESSION_OF(op);
    op->engine.pointer = NULL;
    engine_release(engine, op, &message);
}

static void renew(struct hf_engine *base, struct hf_lease *lease)
{
    struct sim_engine *engine = HF_CONTAINER(base, struct sim_engine, base);
    uint64_t place = (uint64_t)(lease - engine->leases);
    struct message message = { .kind = MESSAGE_RENEW,
                               .client = engine->client->index,
                               .session = engine->session - (engine->session - place) % SESSIONS,
                               .asked_at_ms = hf__loop_now(base->host->loop) };
    network_send_to_store(engine->client, &message);
}

/* The store says that this session is over: so is everything that rests on it. */
static void session_is_over(struct hf_lease *lease)
{
    if (lease->watched)
        hf__lease_answer(lease, 0, HF_LEASE_GONE, 0, NULL);
    lease->lost = true;
}

/* Asked under a session that is over, or that our own clock has given up: the question goes out
 * again under the next one. What the latter has stays, and any message keeps it alive. */
static bool asked_in_vain(struct sim_engine *engine, struct hf_op *op, const struct message *answer)
{
    if (answer->answers != MESSAGE_ATTEMPT)
        return false;
    if (!answer->ours)
        hf__known_forget(&op->engine.known);
    else if (lease_of(engine, answer->session)->lost && hf__mode_leaves_hold(op->in.mode))
        engine_judge(op, answer);
    else
        return false;
    return true;
}

static void answered(struct sim_engine *engine, const struct message *answer)
{
    int64_t asked_at_ms;
    struct hf_op *op = engine_take(engine, answer, &asked_at_ms);
    if (!op)
        return;
    if (asked_in_vain(engine, op, answer)) {
        attempt(&engine->base, op);
        return;
    }
    enum hf_known_verdict verdict = engine_judge(op, answer);
    /* mutant: clean-up-that-was-refused-leaves-the-session */
    if (verdict == HF_KNOWN_LEFT && SESSION_OF(op) == engine->session) {
        engine->doubtful = true;
        engine_wake_all(engine);
    }
    if (op->engine.pointer && verdict == HF_KNOWN_GONE) {
        attempt(&engine->base, op);
        return;
    }
    if (!hf__mode_leaves_hold(op->in.mode)) {
        op->out.retry_at_ms = hf__loop_now(engine->base.host->loop) + answer->left_ms;
        hf__op_done(&engine->base, op);
        return;
    }
    struct hf_lease *lease = lease_of(engine, answer->session);
    if (verdict == HF_KNOWN_GRANTED) {
        op->out.token = answer->token;
        op->out.rests_on = lease;
        engine_know(engine, op);
    } else if (verdict == HF_KNOWN_REFUSED) {
        op->out.rests_on = op->in.enqueue ? lease : NULL;
        if (engine->doubtful || SESSION_OF(op) < engine->session)
            op->out.retry_at_ms = hf__loop_now(engine->base.host->loop);
        if (op->in.enqueue)
            engine_know(engine, op);
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
    struct hf_lease *lease = lease_of(engine, message->session);
    bool answer = message->kind == MESSAGE_ANSWER && message->session > 0;
    if (answer && message->ours && !lease->lost)
        confirm(engine, lease, message->asked_at_ms);
    /* A release opens no session: it may come before the question that does. */
    bool over =
        !message->ours && message->answers != MESSAGE_RELEASE && message->answers != MESSAGE_CHANGE;
    if (answer && over && !lease->lost)
        session_is_over(lease);
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
