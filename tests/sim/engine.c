/* SPDX-License-Identifier: Apache-2.0 */
/* Questions, their timeouts, and the operations that an engine has to remember. */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void timed_out(struct hf_timer *timer)
{
    struct question *question = HF_CONTAINER(timer, struct question, timeout);
    struct hf_engine *engine = &question->engine->base;
    struct hf_op *op = question->op;
    struct hf_oneshot *change = question->change;
    question->op = NULL;
    question->change = NULL;
    if (change) {
        change->code = HF_UNREACHABLE;
        hf__explain(&change->error, HF_UNREACHABLE, 0, "no answer within %d ms", TIMEOUT_MS);
        hf__oneshot_done(engine, change);
        return;
    }
    hf__op_set_verdict(op, hf__known_reply(&op->engine.known, HF_WORD_OPEN));
    hf__op_explain(op, HF_UNREACHABLE, 0, "no answer within %d ms", TIMEOUT_MS);
    hf__op_done(engine, op);
}

struct sim_engine *engine_new(struct sim_client *client, const struct hf_engine_ops *ops)
{
    struct sim_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        violation("out of memory for an engine");
    engine->base = (struct hf_engine){ .ops = ops, .host = &client->client->host };
    engine->client = client;
    for (unsigned i = 0; i < QUESTIONS_MAX; i++) {
        engine->questions[i].engine = engine;
        hf__timer_init(&engine->questions[i].timeout, timed_out);
    }
    return engine;
}

/* What is still out when the client gives up on a silent store is never answered. */
void engine_close(struct hf_engine *base, void (*closed)(void *arg), void *arg)
{
    struct sim_engine *engine = HF_CONTAINER(base, struct sim_engine, base);
    for (unsigned i = 0; i < QUESTIONS_MAX; i++)
        hf__timer_stop(base->host->loop, &engine->questions[i].timeout);
    free(engine);
    closed(arg);
}

struct sim_key engine_key(const char *text)
{
    char *claim;
    struct sim_key key = { .client = (unsigned)strtoul(text, &claim, 10) };
    key.claim = *claim ? strtoull(claim + 1, NULL, 10) : 0;
    return key;
}

static int name_index(const char *name)
{
    for (int i = 0; i < NAMES_MAX; i++)
        if (strcmp(world.store->names[i], name) == 0)
            return i;
    violation("the engine is asked for \"%s\", which nobody uses", name);
}

struct message engine_message(struct sim_engine *engine, enum message_kind kind, struct hf_op *op)
{
    if (!CLAIM_OF(op))
        CLAIM_OF(op) = ++engine->last_claim;
    return (struct message){ .kind = kind,
                             .client = engine->client->index,
                             .name = name_index(op->in.name),
                             .claim = CLAIM_OF(op),
                             .mode = op->in.mode,
                             .keep = op->in.keep,
                             .held = hf__known_holds(&op->engine.known),
                             .fixed = op->in.lease_ms > 0,
                             .permits = op->in.permits,
                             .enqueue = op->in.enqueue,
                             .lease_ms =
                                 op->in.lease_ms ? op->in.lease_ms : engine->base.host->lease_ms };
}

static void send_question(struct sim_engine *engine, struct hf_op *op, struct hf_oneshot *change,
                          struct message *message)
{
    struct question *free_one = NULL;
    for (unsigned i = 0; i < QUESTIONS_MAX; i++) {
        struct question *question = &engine->questions[i];
        if (op && question->op == op)
            violation("c%u asks about %s while a question about it is out", engine->client->index,
                      op->in.name);
        if (!question->op && !question->change)
            free_one = question;
    }
    if (!free_one)
        violation("c%u has too many questions out", engine->client->index);
    struct hf_loop *loop = engine->base.host->loop;
    free_one->op = op;
    free_one->change = change;
    free_one->number = ++engine->last_question;
    free_one->asked_at_ms = hf__loop_now(loop);
    hf__timer_start(loop, &free_one->timeout, free_one->asked_at_ms + TIMEOUT_MS);
    message->question = free_one->number;
    message->asked_at_ms = engine->asked_at_ms = free_one->asked_at_ms;
    network_send_to_store(engine->client, message);
}

void engine_ask(struct sim_engine *engine, struct hf_op *op, enum hf_asked asked,
                struct message *message)
{
    hf__known_sent(&op->engine.known, asked);
    send_question(engine, op, NULL, message);
}

enum hf_asked engine_attempt(const struct hf_op *op)
{
    bool holds = hf__known_holds(&op->engine.known);
    return op->in.attach_key && !holds ? HF_ASKED_ATTACH
           : op->in.enqueue || holds   ? HF_ASKED_ATTEMPT
                                       : HF_ASKED_TRY;
}

void engine_release(struct sim_engine *engine, struct hf_op *op, struct message *message)
{
    static const enum hf_asked asked[] = { [HF_OUT_RELEASE] = HF_ASKED_RELEASE,
                                           [HF_OUT_LOWER] = HF_ASKED_LOWER,
                                           [HF_OUT_UNDO] = HF_ASKED_UNDO };
    enum hf_way_out out =
        hf__known_way_out(&op->engine.known, op->in.attach_key, op->in.keep != HF_KEEP_NOTHING);
    if (op->in.keep == HF_KEEP_NOTHING)
        engine_forget(engine, op);
    if (out == HF_OUT_NOTHING) {
        hf__op_set_verdict(op, HF_KNOWN_GONE);
        hf__op_done(&engine->base, op);
        return;
    }
    if (out == HF_OUT_UNDO)
        message->attach = engine_key(op->in.attach_key);
    engine_ask(engine, op, asked[out], message);
}

enum hf_known_verdict engine_judge(struct hf_op *op, const struct message *answer)
{
    hf__known_settled(&op->engine.known);
    enum hf_known_verdict verdict = hf__known_reply(&op->engine.known, answer->word);
    hf__op_set_verdict(op, verdict);
    op->out.contacted = answer->word != HF_WORD_OPEN;
    op->out.retry_at_ms = HF_NEVER;
    if (answer->word == HF_WORD_OPEN)
        hf__op_explain(op, HF_UNREACHABLE, 0, "an error that is no answer");
    else if (verdict == HF_KNOWN_LEFT)
        hf__op_explain(op, HF_DENIED, 0, "the store does not let it be released");
    return verdict;
}

static struct question *find_question(struct sim_engine *engine, const struct message *message)
{
    for (unsigned i = 0; i < QUESTIONS_MAX; i++) {
        struct question *question = &engine->questions[i];
        if ((question->op || question->change) && question->number == message->question) {
            hf__timer_stop(engine->base.host->loop, &question->timeout);
            return question;
        }
    }
    return NULL;
}

struct hf_op *engine_take(struct sim_engine *engine, const struct message *message,
                          int64_t *ret_asked_at_ms)
{
    struct question *question = find_question(engine, message);
    struct hf_op *op = question ? question->op : NULL;
    if (op) {
        question->op = NULL;
        *ret_asked_at_ms = question->asked_at_ms;
    }
    return op;
}

void engine_change(struct hf_engine *base, struct hf_oneshot *change)
{
    struct sim_engine *engine = HF_CONTAINER(base, struct sim_engine, base);
    struct message message = { .kind = MESSAGE_CHANGE,
                               .client = engine->client->index,
                               .name = name_index(change->name),
                               .claim = change->op ? CLAIM_OF(change->op) : 0,
                               .session = engine->session,
                               .verb = change->verb,
                               .value = change->value,
                               .lease_ms = change->lease_ms };
    send_question(engine, NULL, change, &message);
}

void engine_changed(struct sim_engine *engine, const struct message *answer)
{
    struct question *question = find_question(engine, answer);
    if (!question)
        return;
    struct hf_oneshot *change = question->change;
    question->change = NULL;
    change->code = answer->code;
    change->contacted = true;
    change->result = answer->result;
    snprintf(change->key_out, sizeof change->key_out, "%u.%llu", answer->client,
             (unsigned long long)answer->claim);
    hf__oneshot_done(&engine->base, change);
}

void engine_know(struct sim_engine *engine, struct hf_op *op)
{
    unsigned place = QUESTIONS_MAX;
    for (unsigned i = 0; i < QUESTIONS_MAX; i++) {
        if (engine->known[i] == op)
            return;
        if (!engine->known[i])
            place = i;
    }
    if (place == QUESTIONS_MAX)
        violation("c%u has too many operations", engine->client->index);
    engine->known[place] = op;
}

void engine_forget(struct sim_engine *engine, struct hf_op *op)
{
    for (unsigned i = 0; i < QUESTIONS_MAX; i++)
        if (engine->known[i] == op)
            engine->known[i] = NULL;
}

struct hf_op *engine_find(struct sim_engine *engine, uint64_t claim)
{
    for (unsigned i = 0; i < QUESTIONS_MAX; i++)
        if (engine->known[i] && CLAIM_OF(engine->known[i]) == claim)
            return engine->known[i];
    return NULL;
}

void engine_wake_all(struct sim_engine *engine)
{
    for (unsigned i = 0; i < QUESTIONS_MAX; i++)
        if (engine->known[i] && (hf__known_waits(&engine->known[i]->engine.known)))
            hf__op_wake(engine->known[i]);
}
