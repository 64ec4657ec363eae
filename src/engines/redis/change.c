/* SPDX-License-Identifier: Apache-2.0 */
/* The one-shot verbs: breaking, values, and what concerns a hold's own lease. */
#include "engines/redis/kinds/keys.h"
#include "engines/redis/kinds/kinds.h"
#include "redis.h"

#include <string.h>

static void finish_change(struct connection *connection, struct redis_request *request, int code)
{
    struct redis *redis = connection->redis;
    struct hf_oneshot *change = request->change;
    hf__request_free(redis, request);
    change->code = code;
    hf__oneshot_done(&redis->base, change);
}

/* ---- breaking ---- */

static void break_answered(struct connection *connection, struct redis_request *request,
                           const redisReply *reply)
{
    struct hf_oneshot *change = request->change;
    bool definite;
    change->contacted = reply != NULL;
    int64_t held = hf__reply_is_array(reply, 2) ? hf__reply_number(reply->element[0]) : -2;
    if (held >= 0) {
        int64_t broken = hf__reply_number(reply->element[1]);
        change->result = broken > 0 ? (uint32_t)broken : 0;
        finish_change(connection, request, held > 0 && broken == 0 ? HF_BUSY : HF_OK);
    } else if (held == -1) {
        hf__explain(&change->error, HF_EKIND, 0, "\"%.200s\" %.100s", change->name,
                    hf__reply_text(reply->element[1]));
        finish_change(connection, request, HF_EKIND);
    } else {
        finish_change(connection, request,
                      hf__request_failed(connection, request, reply, change->name, &change->error,
                                         &definite));
    }
}

static void add_break(struct connection *connection, struct command *command,
                      const struct hf_oneshot *change)
{
    hf__keys_script(connection, command, REDIS_BREAK, REDIS_CHANNEL_SEMAPHORE, change->name,
                    change->name_length);
    hf__keys_channel(command, REDIS_CHANNEL_MUTEX, change->name, change->name_length);
    hf__command_own(command, REDIS_QUEUE_PREFIX, change->name, change->name_length);
    hf__keys_channel(command, REDIS_CHANNEL_RW, change->name, change->name_length);
    hf__command_derived(command, REDIS_FAIR_QUEUE_PREFIX, change->name, change->name_length);
    hf__command_derived(command, REDIS_FAIR_TIMES_PREFIX, change->name, change->name_length);
    hf__command_number(command, REDIS_TOKEN_MS);
    hf__command_number(command, REDIS_GRANT_MS);
}

static void send_break(struct connection *connection, struct redis_request *request)
{
    const struct hf_oneshot *change = request->change;
    struct command command;
    if (connection->redis->settings.simple) {
        hf__connection_script(connection, &command, REDIS_SIMPLE_BREAK, 1);
        hf__command_add(&command, change->name, change->name_length);
    } else {
        add_break(connection, &command, change);
    }
    if (change->key)
        hf__command_add(&command, change->key, hf__fair_field_length(change->key));
    hf__connection_write(connection, request, &command);
}

/* ---- forgetting ---- */

static void forget_answered(struct connection *connection, struct redis_request *request,
                            const redisReply *reply)
{
    bool definite;
    int code = HF_BUSY;
    request->change->contacted = reply != NULL;
    if (!reply || reply->type != REDIS_REPLY_INTEGER)
        code = hf__request_failed(connection, request, reply, request->change->name,
                                  &request->change->error, &definite);
    else if (reply->integer == 1)
        code = HF_OK;
    finish_change(connection, request, code);
}

static void send_forget(struct connection *connection, struct redis_request *request)
{
    const struct hf_oneshot *change = request->change;
    struct command command;
    hf__connection_script(connection, &command, REDIS_FORGET, 2);
    hf__command_add(&command, change->name, change->name_length);
    hf__command_derived(&command, REDIS_TOKEN_PREFIX, change->name, change->name_length);
    if (!connection->redis->settings.simple) {
        hf__command_own(&command, REDIS_QUEUE_PREFIX, change->name, change->name_length);
        hf__command_own(&command, REDIS_PLACES_PREFIX, change->name, change->name_length);
        hf__command_derived(&command, REDIS_FAIR_QUEUE_PREFIX, change->name, change->name_length);
    }
    hf__connection_write(connection, request, &command);
}

/* ---- values: semaphores, counters, latches ---- */

static const struct {
    enum redis_script script;
    enum redis_channel channel;
    const char *word; /* NULL: the script has but one use */
} values[] = {
    [HF_ONESHOT_SEMAPHORE_SET] = { REDIS_SEMAPHORE_SET, REDIS_CHANNEL_SEMAPHORE, NULL },
    [HF_ONESHOT_COUNTER_SET] = { REDIS_COUNTER_CHANGE, REDIS_CHANNEL_SEMAPHORE, "set" },
    [HF_ONESHOT_COUNTER_ADD] = { REDIS_COUNTER_CHANGE, REDIS_CHANNEL_SEMAPHORE, "add" },
    [HF_ONESHOT_COUNTER_GET] = { REDIS_COUNTER_CHANGE, REDIS_CHANNEL_SEMAPHORE, "get" },
    [HF_ONESHOT_COUNTER_REMOVE] = { REDIS_COUNTER_CHANGE, REDIS_CHANNEL_SEMAPHORE, "remove" },
    [HF_ONESHOT_LATCH_SET] = { REDIS_LATCH_CHANGE, REDIS_CHANNEL_LATCH, "set" },
    [HF_ONESHOT_LATCH_DOWN] = { REDIS_LATCH_CHANGE, REDIS_CHANNEL_LATCH, "down" },
    [HF_ONESHOT_LATCH_GET] = { REDIS_LATCH_CHANGE, REDIS_CHANNEL_LATCH, "get" },
};

static void send_value(struct connection *connection, struct redis_request *request)
{
    const struct hf_oneshot *change = request->change;
    struct command command;
    hf__keys_script(connection, &command, values[change->verb].script, values[change->verb].channel,
                    change->name, change->name_length);
    if (values[change->verb].word)
        hf__command_print(&command, "%s", values[change->verb].word);
    hf__command_number(&command, change->value);
    hf__connection_write(connection, request, &command);
}

static void send_rate(struct connection *connection, struct redis_request *request)
{
    const struct hf_oneshot *change = request->change;
    struct command command;
    hf__keys_script(connection, &command, REDIS_RATE_TAKE, REDIS_CHANNEL_SEMAPHORE, change->name,
                    change->name_length);
    hf__command_number(&command, change->rate.cost_us);
    hf__command_number(&command, change->rate.burst_us);
    hf__command_number(&command, change->rate.wait_us);
    hf__connection_write(connection, request, &command);
}

static void value_answered(struct connection *connection, struct redis_request *request,
                           const redisReply *reply)
{
    struct hf_oneshot *change = request->change;
    const redisReply *second = hf__reply_is_array(reply, 2) ? reply->element[1] : NULL;
    int64_t number = second ? hf__reply_number(second) : 0;
    int64_t word = hf__reply_is_array(reply, 1) && reply->element[0]->type == REDIS_REPLY_INTEGER
                       ? reply->element[0]->integer
                       : -3;
    bool definite;
    int code = word == 1 ? HF_OK : HF_BUSY;
    change->contacted = reply != NULL;
    change->delay_us = number;
    change->result = number < 0 ? 0 : number > UINT32_MAX ? UINT32_MAX : (uint32_t)number;
    if (word == -1 && second) {
        code = HF_EKIND;
        hf__explain(&change->error, code, 0, "\"%.200s\" %.100s", change->name,
                    hf__reply_text(second));
    } else if (word == -2) {
        code = HF_ELIMIT;
        hf__explain(&change->error, code, 0, "the counter \"%.200s\" would exceed %u; add less",
                    change->name, UINT32_MAX);
    } else if (word < 0) {
        code =
            hf__request_failed(connection, request, reply, change->name, &change->error, &definite);
    }
    finish_change(connection, request, code);
}

/* ---- a fixed lease ---- */

static void extend_answered(struct connection *connection, struct redis_request *request,
                            const redisReply *reply)
{
    bool definite;
    int code = HF_OK;
    request->change->contacted = reply != NULL;
    if (!reply || reply->type != REDIS_REPLY_INTEGER)
        code = hf__request_failed(connection, request, reply, request->change->name,
                                  &request->change->error, &definite);
    /* The name has been overwritten with something else. */
    if (code == HF_EKIND || (code == HF_OK && reply->integer == 0))
        code = HF_LOST;
    finish_change(connection, request, code);
}

static void send_extend(struct connection *connection, struct redis_request *request)
{
    const struct hf_oneshot *change = request->change;
    struct command command;
    const struct redis_kind *kind = hf__redis_kind(connection->redis, change->op->in.mode);
    kind->extend(connection, &command, change->op, change->lease_ms);
    hf__connection_write(connection, request, &command);
}

/* ---- all of them ---- */

/* Nothing at the server depends on our being there: the lease alone keeps what is detached. */
void hf__redis_detach(struct hf_engine *engine, struct hf_oneshot *change)
{
    const struct redis *redis = (const struct redis *)engine;
    const struct redis_kind *kind = hf__redis_kind(redis, change->op->in.mode);
    if (kind->owner_key)
        kind->owner_key(redis, change->op, change->key_out);
    else
        hf__redis_field(redis, change->op, change->key_out);
    change->code = HF_OK;
    hf__oneshot_done(engine, change);
}

static void set_question(struct redis_request *request, struct hf_oneshot *change)
{
    request->change = change;
    if (change->verb == HF_ONESHOT_BREAK) {
        request->send = send_break;
        request->answered = break_answered;
    } else if (change->verb == HF_ONESHOT_FORGET) {
        request->send = send_forget;
        request->answered = forget_answered;
    } else if (change->verb == HF_ONESHOT_RENEW) {
        request->send = send_extend;
        request->answered = extend_answered;
    } else if (change->verb == HF_ONESHOT_RATE_TAKE) {
        request->send = send_rate;
        request->answered = value_answered;
    } else {
        request->send = send_value;
        request->answered = value_answered;
    }
}

void hf__redis_change(struct hf_engine *engine, struct hf_oneshot *change)
{
    struct redis *redis = (struct redis *)engine;
    struct redis_request *request = hf__request_new(redis);
    if (!request) {
        change->code = HF_ENOMEM;
        hf__oneshot_done(&redis->base, change);
        return;
    }
    set_question(request, change);
    hf__batch_flush(redis);
    hf__redis_ask(redis, request, change->name, change->name_length);
}
