/* Taking and giving back: how an op becomes a script, and the script's answer a verdict. */
#include "base/rand.h"
#include "redis.h"

#include <stdio.h>

void hf__redis_field(const struct redis *redis, const struct hf_op *op,
                     char field[REDIS_FIELD_SIZE])
{
    snprintf(field, REDIS_FIELD_SIZE, "%s:%llu", redis->uuid,
             (unsigned long long)op->engine_word[0]);
}

void hf__redis_add_field(const struct redis *redis, struct command *command, const struct hf_op *op)
{
    char field[REDIS_FIELD_SIZE];
    hf__redis_field(redis, op, field);
    hf__command_print(command, "%s", field);
}

int64_t hf__redis_lease_ms(const struct redis *redis, const struct hf_op *op)
{
    return op->lease_ms ? op->lease_ms : redis->base.host->lease_ms;
}

static void set_lease(struct redis *redis, struct hf_op *op, int64_t asked_at_ms, int64_t lease_ms)
{
    struct hf_lease *lease = &op->own_lease;
    lease->engine = &redis->base;
    lease->asked_at_ms = asked_at_ms;
    lease->lease_ms = lease_ms;
    lease->fixed = op->lease_ms > 0 || op->attach_key;
    op->rests_on = lease;
}

static void finish(struct redis *redis, struct question *question, enum hf_verdict verdict)
{
    struct hf_op *op = question->op;
    if (verdict != HF_REFUSED && verdict != HF_NO_ANSWER)
        hf__channel_leave(redis, op);
    hf__question_free(redis, question);
    op->verdict = verdict;
    hf__op_done(&redis->base, op);
}

/* ---- the answers of an attempt ---- */

static void granted(struct redis *redis, struct question *question, int64_t lease_ms,
                    const redisReply *token)
{
    struct hf_op *op = question->op;
    int64_t number = hf__reply_number(token);
    op->token = number > 0 ? (uint64_t)number : 0;
    op->engine_word[1] = REDIS_HOLDS;
    set_lease(redis, op, question->sent_at_ms, lease_ms);
    finish(redis, question, HF_GRANTED);
}

/* How long until it is worth looking again where nobody is sure to tell. */
static int64_t next_look_ms(const struct redis *redis, const struct hf_op *op, int64_t left_ms)
{
    int64_t look_ms = REDIS_POLL_MS;
    if (!hf__redis_kind(redis, op->mode)->channel) {
        uint64_t salt;
        hf__random(&salt, sizeof salt);
        look_ms =
            REDIS_LOOK_LEAST_MS + (int64_t)(salt % (REDIS_LOOK_MOST_MS - REDIS_LOOK_LEAST_MS));
    }
    return left_ms >= 0 && left_ms < look_ms ? left_ms : look_ms;
}

/* Without a sure wake it looks again after a while, and when the wake becomes sure it is woken. */
static void refused(struct redis *redis, struct question *question, int64_t left_ms)
{
    struct hf_op *op = question->op;
    int64_t now_ms = hf__loop_now(redis->base.host->loop);
    bool joined = op->enqueue && hf__channel_join(redis, op);
    bool sure = joined && hf__channel_sure(op) && left_ms >= 0;
    op->engine_word[1] = 0;
    op->rests_on = NULL;
    /* At its last millisecond the key is still there. */
    op->retry_at_ms = now_ms + 1 + (sure ? left_ms : next_look_ms(redis, op, left_ms));
    finish(redis, question, HF_REFUSED);
}

static void attempt_failed(struct connection *connection, struct question *question,
                           const redisReply *reply)
{
    struct redis *redis = connection->redis;
    struct hf_op *op = question->op;
    bool definite;
    hf__question_failed(connection, question, reply, &op->error, &definite);
    if (definite && !(op->engine_word[1] & REDIS_UNSURE)) {
        finish(redis, question, HF_FAILED);
        return;
    }
    /* Should it have been granted, it rests on a lease, after which the server has forgotten it. */
    if (question->sent) {
        op->engine_word[1] |= REDIS_UNSURE;
        set_lease(redis, op, question->sent_at_ms, hf__redis_lease_ms(redis, op));
    }
    finish(redis, question, HF_NO_ANSWER);
}

static void attempt_answered(struct connection *connection, struct question *question,
                             const redisReply *reply)
{
    struct redis *redis = connection->redis;
    struct hf_op *op = question->op;
    int64_t word = hf__reply_is_array(reply, 1) ? hf__reply_number(reply->element[0]) : -2;
    if (word == 1 && hf__reply_is_array(reply, 2)) {
        granted(redis, question, hf__redis_lease_ms(redis, op), reply->element[1]);
    } else if (word == 0 && hf__reply_is_array(reply, 2)) {
        const redisReply *left = reply->element[1];
        refused(redis, question, left->type == REDIS_REPLY_INTEGER ? left->integer : -1);
    } else if (hf__reply_is_array(reply, 2) && reply->element[0]->integer == -1) {
        hf__op_explain(op, HF_EKIND, 0, "\"%.200s\" is in use as %.40s, not as %s", op->name,
                       hf__reply_text(reply->element[1]), hf__redis_kind(redis, op->mode)->what);
        finish(redis, question, HF_FAILED);
    } else {
        attempt_failed(connection, question, reply);
    }
}

static void send_attempt(struct connection *connection, struct question *question)
{
    const struct hf_op *op = question->op;
    struct command command;
    hf__redis_kind(connection->redis, op->mode)->acquire(connection, &command, op);
    hf__connection_write(connection, question, &command);
}

/* ---- attaching ---- */

static void attach_answered(struct connection *connection, struct question *question,
                            const redisReply *reply)
{
    struct hf_op *op = question->op;
    int64_t word = hf__reply_is_array(reply, 1) ? hf__reply_number(reply->element[0]) : -2;
    int64_t left_ms =
        word == 1 && hf__reply_is_array(reply, 3) ? hf__reply_number(reply->element[2]) : -1;
    if (left_ms > 0) {
        granted(connection->redis, question, left_ms, reply->element[1]);
    } else if (word == 0 || word == 1) {
        op->lost = true;
        hf__op_explain(op, HF_LOST, 0,
                       "nobody holds \"%.200s\" under the key %s; its lease may have run out",
                       op->name, op->attach_key);
        finish(connection->redis, question, HF_FAILED);
    } else {
        attempt_failed(connection, question, reply);
    }
}

static void send_attach(struct connection *connection, struct question *question)
{
    const struct hf_op *op = question->op;
    struct command command;
    hf__redis_kind(connection->redis, op->mode)->attach(connection, &command, op);
    hf__connection_write(connection, question, &command);
}

/* ---- asking ---- */

static struct question *new_question(struct redis *redis, struct hf_op *op)
{
    struct question *question = hf__question_new(redis);
    if (question) {
        question->op = op;
        return question;
    }
    hf__op_explain(op, HF_ENOMEM, 0, "out of memory for a question");
    return NULL;
}

void hf__redis_attempt(struct hf_engine *engine, struct hf_op *op)
{
    struct redis *redis = (struct redis *)engine;
    struct question *question = new_question(redis, op);
    if (!question) {
        op->verdict = op->engine_word[1] ? HF_NO_ANSWER : HF_FAILED;
        hf__op_done(engine, op);
        return;
    }
    if (!op->engine_word[0])
        op->engine_word[0] = ++redis->claims;
    question->send = op->attach_key ? send_attach : send_attempt;
    question->answered = op->attach_key ? attach_answered : attempt_answered;
    hf__connection_ask(&redis->asking, question);
}

/* ---- giving back ---- */

static void release_answered(struct connection *connection, struct question *question,
                             const redisReply *reply)
{
    struct hf_op *op = question->op;
    if (reply && reply->type == REDIS_REPLY_INTEGER) {
        /* Unless an earlier question of the same kind may have done it. */
        op->lost = reply->integer == 0 && !(op->engine_word[1] & REDIS_UNSURE);
        finish(connection->redis, question, HF_GONE);
        return;
    }
    bool definite;
    hf__question_failed(connection, question, reply, &op->error, &definite);
    if (question->sent)
        op->engine_word[1] |= REDIS_UNSURE;
    finish(connection->redis, question, definite ? HF_FAILED : HF_NO_ANSWER);
}

static void send_release(struct connection *connection, struct question *question)
{
    const struct hf_op *op = question->op;
    struct command command;
    hf__redis_kind(connection->redis, op->mode)->release(connection, &command, op);
    hf__connection_write(connection, question, &command);
}

/* What was only refused has left nothing at the server but an ear. */
void hf__redis_release(struct hf_engine *engine, struct hf_op *op)
{
    struct redis *redis = (struct redis *)engine;
    hf__channel_leave(redis, op);
    hf__renewals_forget(redis, op);
    struct question *question = op->engine_word[1] ? new_question(redis, op) : NULL;
    if (!question) {
        op->verdict = op->engine_word[1] ? HF_NO_ANSWER : HF_GONE;
        hf__op_done(engine, op);
        return;
    }
    question->send = send_release;
    question->answered = release_answered;
    hf__connection_ask(&redis->asking, question);
}
