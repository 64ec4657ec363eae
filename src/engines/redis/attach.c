/* SPDX-License-Identifier: Apache-2.0 */
/* Attaching: a lock that was left under a key is taken over, or goes back under it. */
#include "engines/redis/kinds/keys.h"
#include "engines/redis/kinds/kinds.h"
#include "redis.h"

#include <string.h>

void hf__attach_answered(struct connection *connection, struct redis_request *request,
                         const redisReply *reply)
{
    struct hf_op *op = request->op;
    op->out.contacted = reply != NULL;
    int64_t word = hf__reply_is_array(reply, 1) ? hf__reply_number(reply->element[0]) : -2;
    int64_t left_ms =
        word == 1 && hf__reply_is_array(reply, 3) ? hf__reply_number(reply->element[2]) : -1;
    if (left_ms > 0) {
        if (hf__reply_is_array(reply, 5)) {
            op->in.mode = hf__redis_mode_of(reply->element[3]);
            if (op->in.mode == HF_MUTEX &&
                op->in.attach_key[hf__fair_field_length(op->in.attach_key)])
                op->in.mode = HF_FAIR; /* mutant: fair-mutex-is-attached */
            op->in.permits = (uint32_t)hf__reply_number(reply->element[4]);
        }
        hf__attempt_granted(connection->redis, request, left_ms, reply->element[1]);
    } else if (word == 0 || word == 1) {
        op->out.lost = true;
        hf__redis_finish(connection->redis, request, HF_FAILED);
    } else {
        hf__attempt_unanswered(connection, request, reply);
    }
}

/* Whatever kind of thing was left under the key. */
static void add_attach(struct connection *connection, struct command *command,
                       const struct hf_op *op, bool back)
{
    hf__keys_script(connection, command, REDIS_ATTACH, REDIS_CHANNEL_SEMAPHORE, op->in.name,
                    op->in.name_length);
    hf__command_add(command, op->in.attach_key, hf__fair_field_length(op->in.attach_key));
    hf__redis_add_field(connection->redis, command, op);
    hf__semaphore_add_prefix(connection->redis, command, op);
    if (back)
        hf__command_print(command, "back");
}

static void write_attach(struct connection *connection, struct redis_request *request, bool back)
{
    const struct hf_op *op = request->op;
    const struct redis_kind *kind = hf__redis_kind(connection->redis, op->in.mode);
    struct command command;
    if (kind->attach)
        kind->attach(connection, &command, op, back);
    else
        add_attach(connection, &command, op, back);
    hf__connection_write(connection, request, &command);
}

void hf__attach_send(struct connection *connection, struct redis_request *request)
{
    write_attach(connection, request, false);
}

void hf__attach_send_back(struct connection *connection, struct redis_request *request)
{
    write_attach(connection, request, true);
}
