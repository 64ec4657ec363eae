/* SPDX-License-Identifier: Apache-2.0 */
/* hf_examine: the engine's remarks are copied on the loop, and shown on the calling thread. */
#include "base/cancel.h"
#include "base/error.h"
#include "core/api/args.h"
#include "core/api/client.h"
#include "core/api/explain.h"
#include "core/oneshot/oneshot.h"
#include "core/table/lock_table.h"

#include "base/testing.h"

#include <stdlib.h>
#include <string.h>

struct copied_remark {
    struct copied_remark *next;
    hf_remark remark;
    char strings[];
};

struct asked {
    struct hf_oneshot_call call;
    struct copied_remark *first, **end;
    bool out_of_memory;
    char name[HF_NAME_MAX + 1];
};

static size_t size_of(const char *string)
{
    return string ? strlen(string) + 1 : 0;
}

static const char *copy_string(char **at, const char *string)
{
    char *copy = *at;
    if (!string)
        return NULL;
    memcpy(copy, string, size_of(string));
    *at += size_of(string);
    return copy;
}

void hf__oneshot_remark(struct hf_oneshot *oneshot, const hf_remark *remark)
{
    struct asked *asked = HF_CONTAINER(oneshot, struct asked, call.question);
    size_t room = size_of(remark->what) + size_of(remark->value) + size_of(remark->consequence) +
                  size_of(remark->cure) + size_of(remark->id);
    struct copied_remark *copied = hf__calloc(1, sizeof *copied + room);
    if (!copied) {
        asked->out_of_memory = true;
        return;
    }
    char *at = copied->strings;
    copied->remark.size = sizeof copied->remark;
    copied->remark.what = copy_string(&at, remark->what);
    copied->remark.value = copy_string(&at, remark->value);
    copied->remark.consequence = copy_string(&at, remark->consequence);
    copied->remark.cure = copy_string(&at, remark->cure);
    copied->remark.id = copy_string(&at, remark->id);
    *asked->end = copied;
    asked->end = &copied->next;
}

static void discard(struct hf_oneshot_call *call)
{
    struct asked *asked = HF_CONTAINER(call, struct asked, call);
    while (asked->first) {
        struct copied_remark *next = asked->first->next;
        free(asked->first);
        asked->first = next;
    }
    free(asked->call.question.error);
    free(asked);
}

static struct asked *new_question(struct hf_client *client, const char *name, uint32_t length)
{
    struct asked *asked = hf__calloc(1, sizeof *asked);
    if (!asked)
        return NULL;
    asked->call = (struct hf_oneshot_call){ .client = client, .discard = discard };
    asked->call.question.verb = HF_ONESHOT_DIAGNOSE;
    asked->end = &asked->first;
    if (name) {
        asked->call.question.name = memcpy(asked->name, name, length + 1);
        asked->call.question.name_length = length;
    }
    return asked;
}

static struct hf_answer answer_of(struct asked *asked)
{
    struct hf_answer answer = { .code = asked->call.question.code,
                                .error = asked->call.question.error };
    asked->call.question.error = NULL;
    if (answer.code == HF_OK && asked->out_of_memory)
        answer.code = HF_ENOMEM;
    return answer;
}

int hf_examine(hf_client *client, const char *name, hf_remark_cb *visit, void *arg)
{
    HF_NO_CANCELLATION;
    struct hf_store_name full = { .text = NULL };
    int code = hf__args_client(client, true);
    if (code == HF_OK && name)
        code = hf__args_name(client, name, &full);
    if (code != HF_OK)
        return code;
    if (!visit)
        return hf__answer_fail(HF_EINVAL, "visit is NULL: the remarks would be lost");
    struct asked *asked = new_question(client, full.text, full.length);
    if (!asked)
        return hf__answer_fail(HF_ENOMEM, "out of memory");
    if (!hf__lock_entry_call_begin(client, 0)) {
        discard(&asked->call);
        return hf__answer_fail(HF_ECLOSED, "the client is being closed");
    }
    struct hf_answer answer = hf__oneshot_call_run(&asked->call);
    bool in_time = answer.code == HF_OK;
    if (in_time)
        answer = answer_of(asked);
    hf_error error;
    code = hf__answer_settle(client, NULL, &answer, &error);
    hf__lock_entry_call_ended(client, 0);
    if (in_time) {
        /* Shows what was found, even if the whole failed after it. Ends the question. */
        for (struct copied_remark *at = asked->first; at && visit(arg, &at->remark);)
            at = at->next;
        discard(&asked->call);
    }
    if (code != HF_OK)
        hf__error_keep(&error);
    return code;
}
