/* The one-shot verbs: breaking, and what concerns a hold's own lease. */
#include "redis.h"

#include <string.h>

static void finish(struct connection *connection, struct question *question, int code)
{
    struct hf_change *change = question->change;
    hf__question_free(connection->redis, question);
    change->code = code;
    hf__change_done(&connection->redis->base, change);
}

/* ---- breaking ---- */

static void break_answered(struct connection *connection, struct question *question,
                           const redisReply *reply)
{
    struct hf_change *change = question->change;
    bool definite;
    int64_t held = hf__reply_is_array(reply, 2) ? hf__reply_number(reply->element[0]) : -2;
    if (held >= 0) {
        int64_t broken = hf__reply_number(reply->element[1]);
        change->result = broken > 0 ? (uint32_t)broken : 0;
        finish(connection, question, held > 0 && broken == 0 ? HF_BUSY : HF_OK);
    } else if (held == -1) {
        hf__explain(&change->error, HF_EKIND, 0, "\"%.200s\" is in use as %.40s, which is no lock",
                    change->name, hf__reply_text(reply->element[1]));
        finish(connection, question, HF_EKIND);
    } else {
        finish(connection, question,
               hf__question_failed(connection, question, reply, &change->error, &definite));
    }
}

static void add_break_of_a_lock(struct connection *connection, struct command *command,
                                const struct hf_change *change)
{
    hf__connection_script(connection, command, REDIS_BREAK, 4);
    hf__command_add(command, change->name, change->name_length);
    hf__command_derived(command, REDIS_CHANNEL_PREFIX, change->name, change->name_length);
    hf__command_derived(command, REDIS_TOKEN_PREFIX, change->name, change->name_length);
    hf__command_derived(command, REDIS_QUEUE_PREFIX, change->name, change->name_length);
    hf__command_print(command, "%lld", (long long)REDIS_TOKEN_MS);
    hf__command_print(command, "%lld", (long long)REDIS_GRANT_MS);
}

static void send_break(struct connection *connection, struct question *question)
{
    const struct hf_change *change = question->change;
    struct command command;
    const struct redis *redis = connection->redis;
    if (redis->settings.simple) {
        hf__connection_script(connection, &command, REDIS_SIMPLE_BREAK, 1);
        hf__command_add(&command, change->name, change->name_length);
    } else {
        add_break_of_a_lock(connection, &command, change);
    }
    if (change->key)
        hf__command_add(&command, change->key, strlen(change->key));
    hf__connection_write(connection, question, &command);
}

/* ---- a fixed lease ---- */

static void extend_answered(struct connection *connection, struct question *question,
                            const redisReply *reply)
{
    bool definite;
    int code = HF_OK;
    if (!reply || reply->type != REDIS_REPLY_INTEGER)
        code =
            hf__question_failed(connection, question, reply, &question->change->error, &definite);
    else if (reply->integer == 0)
        code = HF_LOST;
    finish(connection, question, code);
}

static void send_extend(struct connection *connection, struct question *question)
{
    const struct hf_change *change = question->change;
    struct command command;
    const struct redis_kind *kind = hf__redis_kind(connection->redis, change->op->mode);
    kind->extend(connection, &command, change->op, change->lease_ms);
    hf__connection_write(connection, question, &command);
}

/* ---- all of them ---- */

/* Nothing at the server depends on our being there: the lease alone keeps what is detached. */
static int detach(const struct redis *redis, struct hf_change *change)
{
    hf__redis_field(redis, change->op, change->key_out);
    return HF_OK;
}

void hf__redis_change(struct hf_engine *engine, struct hf_change *change)
{
    struct redis *redis = (struct redis *)engine;
    bool is_asked = change->verb == HF_CHANGE_BREAK || change->verb == HF_CHANGE_RENEW;
    struct question *question = is_asked ? hf__question_new(redis) : NULL;
    if (!question) {
        change->code = change->verb == HF_CHANGE_DETACH ? detach(redis, change)
                       : is_asked                       ? HF_ENOMEM
                                                        : HF_ENOTSUP;
        hf__change_done(engine, change);
        return;
    }
    question->change = change;
    question->send = change->verb == HF_CHANGE_BREAK ? send_break : send_extend;
    question->answered = change->verb == HF_CHANGE_BREAK ? break_answered : extend_answered;
    hf__connection_ask(&redis->asking, question);
}
