/* SPDX-License-Identifier: Apache-2.0 */
/* Replies to calls that do not block. */
#include "core/api/reply.h"

#include "base/testing.h"
#include "core/api/explain.h"
#include "core/loop/uv_loop.h"
#include "core/table/lock_table.h"

#include <stdlib.h>
#include <string.h>

/* The call is counted out last: the client may be gone then. */
static void deliver(struct hf_task *task)
{
    struct hf_reply *reply = HF_CONTAINER(task, struct hf_reply, task);
    struct hf_client *client = reply->client;
    struct hf_answer *answer = &reply->waiter.answer;
    uint64_t name_hash = reply->name_hash;
    if (hf__uv_loop_defer_to_thread(client, task))
        return;
    if (reply->finish)
        reply->finish(reply);
    if (reply->waiter.lost && answer->code != HF_OK)
        answer->code = HF_LOST;
    int code = answer->code;
    if (!reply->explained)
        hf__answer_settle(client, *reply->name ? reply->name : NULL, answer, &reply->error);
    if (reply->says_released && code == HF_OK)
        hf__host_event(&client->host, HF_EVENT_RELEASED, reply->name, reply->token, "released");
    hf__uv_loop_before_callback(client);
    reply->done(reply->arg, code, code == HF_OK ? reply->hold : NULL,
                code == HF_OK ? NULL : &reply->error);
    hf__uv_loop_request_ended(client);
    free(reply);
    hf__lock_entry_call_ended(client, name_hash);
}

static void reply_tell(struct hf_waiter *waiter)
{
    struct hf_reply *reply = HF_CONTAINER(waiter, struct hf_reply, waiter);
    hf__loop_post(&reply->client->loop, &reply->task);
}

int hf__reply_new(struct hf_reply **ret, struct hf_client *client, const char *name,
                  uint64_t name_hash, hf_done_cb *done, void *arg)
{
    if (!done)
        return hf__answer_fail(HF_EINVAL, "done is NULL: the result would be lost");
    struct hf_reply *reply = hf__calloc(1, sizeof *reply);
    if (!reply)
        return hf__answer_fail(HF_ENOMEM, "out of memory for the answer");
    if (!hf__lock_entry_call_begin(client, name_hash)) {
        free(reply);
        return hf__answer_fail(HF_ECLOSED, "the client is being closed");
    }
    reply->client = client;
    reply->name_hash = name_hash;
    reply->done = done;
    reply->arg = arg;
    reply->waiter.tell = reply_tell;
    memcpy(reply->name, name, strlen(name) + 1);
    hf__task_init(&reply->task, deliver);
    hf__uv_loop_request_begins(client);
    *ret = reply;
    return HF_OK;
}

void hf__reply_send(struct hf_reply *reply, int code)
{
    reply->waiter.answer.code = code;
    reply->explained = true;
    if (code != HF_OK)
        reply->error = *hf_last_error();
    reply_tell(&reply->waiter);
}
