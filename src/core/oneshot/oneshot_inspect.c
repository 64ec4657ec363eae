/* SPDX-License-Identifier: Apache-2.0 */
/* hf_inspect: the engine's entries are copied on the loop, and shown on the calling thread. */
#include "base/cancel.h"
#include "base/error.h"
#include "core/api/args.h"
#include "core/api/client.h"
#include "core/api/explain.h"
#include "core/api/reply.h"
#include "core/loop/uv_loop.h"
#include "core/oneshot/oneshot.h"
#include "core/table/lock_table.h"

#include "base/testing.h"

#include <stdlib.h>
#include <string.h>

struct copied_entry {
    struct copied_entry *next;
    hf_entry entry;
    char strings[];
};

struct inspection {
    struct hf_oneshot_call call;
    struct copied_entry *first, **end;
    struct copied_entry **found; /* the caller's: where the entries go in the end */
    bool out_of_memory;
    char name[HF_NAME_MAX + 1];
};

static const char *copy_string(char **at, const char *string, size_t length)
{
    char *copy = *at;
    if (length > 0)
        memcpy(copy, string, length);
    copy[length] = 0;
    *at += length + 1;
    return copy;
}

static size_t length_of(const char *string)
{
    return string ? strlen(string) : 0;
}

void hf__oneshot_entry(struct hf_oneshot *oneshot, const hf_entry *entry)
{
    struct inspection *inspection = HF_CONTAINER(oneshot, struct inspection, call.question);
    const struct hf_client *client = inspection->call.client;
    /* What has another prefix is another application's. */
    if (entry->name_length <= client->prefix_length ||
        memcmp(entry->name, client->prefix, client->prefix_length) != 0)
        return;
    size_t length = entry->name_length - client->prefix_length;
    size_t room = length + length_of(entry->owner_key) + length_of(entry->owner_text) +
                  length_of(entry->host) + length_of(entry->thread) + 5;
    struct copied_entry *copied = hf__calloc(1, sizeof *copied + room);
    if (!copied) {
        inspection->out_of_memory = true;
        return;
    }
    char *at = copied->strings;
    copied->entry = *entry;
    copied->entry.size = sizeof copied->entry;
    copied->entry.name = copy_string(&at, entry->name + client->prefix_length, length);
    copied->entry.name_length = (uint32_t)length;
    if (entry->mode != HF_PERMIT && entry->mode != HF_COUNTER)
        copied->entry.permits = 0; /* some engines store a 1 */
    copied->entry.owner_key = copy_string(&at, entry->owner_key, length_of(entry->owner_key));
    copied->entry.owner_text = copy_string(&at, entry->owner_text, length_of(entry->owner_text));
    copied->entry.host = copy_string(&at, entry->host, length_of(entry->host));
    copied->entry.thread = copy_string(&at, entry->thread, length_of(entry->thread));
    *inspection->end = copied;
    inspection->end = &copied->next;
}

static void free_entries(struct copied_entry *first)
{
    while (first) {
        struct copied_entry *next = first->next;
        free(first);
        first = next;
    }
}

static void hand_over(struct inspection *inspection)
{
    *inspection->found = inspection->first;
    inspection->first = NULL;
    inspection->end = &inspection->first;
}

static void abandon(struct hf_oneshot_call *call)
{
    struct inspection *inspection = HF_CONTAINER(call, struct inspection, call);
    inspection->call.question.unwanted = true;
    hand_over(inspection);
}

static void discard(struct hf_oneshot_call *call)
{
    struct inspection *inspection = HF_CONTAINER(call, struct inspection, call);
    free_entries(inspection->first);
    free(inspection->call.question.error);
    free(inspection);
}

static struct inspection *new_inspection(struct hf_client *client, const struct hf_store_name *full)
{
    struct inspection *inspection = hf__calloc(1, sizeof *inspection);
    if (!inspection)
        return NULL;
    inspection->call =
        (struct hf_oneshot_call){ .client = client, .left = abandon, .discard = discard };
    inspection->call.question.verb = HF_ONESHOT_INSPECT;
    inspection->end = &inspection->first;
    if (full->text) {
        memcpy(inspection->name, full->text, full->length + 1);
        inspection->call.question.name = inspection->name;
        inspection->call.question.name_length = full->length;
        inspection->call.question.name_hash = full->hash;
    }
    return inspection;
}

/* What the engine answered, and what it found. Ends the inspection. */
static struct hf_answer finish(struct inspection *inspection)
{
    struct hf_answer answer = { .code = inspection->call.question.code,
                                .error = inspection->call.question.error };
    inspection->call.question.error = NULL;
    if (answer.code == HF_OK && inspection->out_of_memory)
        answer.code = HF_ENOMEM;
    hand_over(inspection);
    discard(&inspection->call);
    return answer;
}

/* ---- in the background ---- */

enum { PEEK_OUT, PEEK_THERE, PEEK_LEFT };

struct hf_peek {
    struct hf_waiter waiter;
    struct inspection *inspection;
    struct copied_entry *found;
    _Atomic int state;
};

/* With its answer. */
static bool peek_free(struct hf_peek *peek, hf_entry_cb *visit, void *arg)
{
    bool complete = peek->waiter.answer.code == HF_OK;
    if (complete) {
        struct hf_answer answer = finish(peek->inspection);
        complete = answer.code == HF_OK;
        free(answer.error);
    }
    free(peek->waiter.answer.error);
    for (struct copied_entry *at = peek->found; at && complete && visit;)
        at = visit(arg, &at->entry) ? at->next : NULL;
    free_entries(peek->found);
    free(peek);
    return complete;
}

/* The last that the loop does to it: its caller may free it from here on. */
static void peek_answered(struct hf_waiter *waiter)
{
    struct hf_peek *peek = HF_CONTAINER(waiter, struct hf_peek, waiter);
    if (atomic_exchange(&peek->state, PEEK_THERE) == PEEK_LEFT)
        peek_free(peek, NULL, NULL);
}

/* However late. */
static void peek_ended(struct hf_oneshot_call *call)
{
    atomic_store(&call->client->peeks, false);
}

struct hf_peek *hf__peek_begin(struct hf_client *client)
{
    struct hf_store_name all = { .text = NULL };
    bool can = client->ops->caps & HF_CAP_INSPECT;
    /* mutant: store-makes-one-list-at-a-time */
    if (!can || atomic_exchange(&client->peeks, true))
        return NULL;
    struct hf_peek *peek = hf__calloc(1, sizeof *peek);
    struct inspection *inspection = peek ? new_inspection(client, &all) : NULL;
    if (!inspection) {
        free(peek);
        atomic_store(&client->peeks, false);
        return NULL;
    }
    peek->waiter.tell = peek_answered;
    peek->inspection = inspection;
    inspection->call.ended = peek_ended;
    inspection->found = &peek->found;
    hf__oneshot_call_begin(&peek->inspection->call, &peek->waiter);
    return peek;
}

bool hf__peek_is_there(struct hf_peek *peek)
{
    return atomic_load(&peek->state) == PEEK_THERE;
}

bool hf__peek_end(struct hf_peek *peek, hf_entry_cb *visit, void *arg)
{
    return atomic_exchange(&peek->state, PEEK_LEFT) == PEEK_THERE && peek_free(peek, visit, arg);
}

/* ---- hf_inspect ---- */

static int begin(struct inspection **ret, hf_client *client, const char *name,
                 struct hf_store_name *full, hf_entry_cb *visit, bool waits)
{
    full->text = NULL;
    full->hash = 0;
    int code = hf__args_client(client, waits);
    if (code == HF_OK && name)
        code = hf__args_name(client, name, full);
    if (code != HF_OK)
        return code;
    if (!visit)
        return hf__answer_fail(HF_EINVAL, "visit is NULL: the entries would be lost");
    if (!(client->ops->caps & HF_CAP_INSPECT))
        return hf__answer_fail(HF_ENOTSUP, "the engine \"%s\" shows no holders and no waiters",
                               client->ops->name);
    *ret = new_inspection(client, full);
    return *ret ? HF_OK : hf__answer_fail(HF_ENOMEM, "out of memory");
}

/* Shows what was found, even if the whole failed after it, and frees it. */
static void show_entries(struct copied_entry *found, hf_entry_cb *visit, void *arg)
{
    for (struct copied_entry *at = found; at && visit(arg, &at->entry);)
        at = at->next;
    free_entries(found);
}

int hf_inspect(hf_client *client, const char *name, hf_entry_cb *visit, void *arg)
{
    HF_NO_CANCELLATION;
    struct inspection *inspection;
    struct hf_store_name full;
    int code = begin(&inspection, client, name, &full, visit, true);
    if (code != HF_OK)
        return code;
    if (!hf__lock_entry_call_begin(client, full.hash)) {
        discard(&inspection->call);
        return hf__answer_fail(HF_ECLOSED, "the client is being closed");
    }
    struct copied_entry *found = NULL;
    inspection->found = &found;
    struct hf_answer answer = hf__oneshot_call_run(&inspection->call);
    if (answer.code == HF_OK)
        answer = finish(inspection);
    hf_error error;
    code = hf__answer_settle(client, full.text, &answer, &error);
    hf__lock_entry_call_ended(client, full.hash);
    /* The entries are the caller's from here on, and the visitor may take its time. */
    show_entries(found, visit, arg);
    if (code != HF_OK)
        hf__error_keep(&error);
    return code;
}

static void finish_reply(struct hf_reply *reply)
{
    struct hf_answer *answer = &reply->waiter.answer;
    if (answer->code == HF_OK)
        *answer = finish(HF_CONTAINER(reply->call, struct inspection, call));
    hf__uv_loop_before_callback(reply->client);
    show_entries(reply->found, reply->visit, reply->arg);
}

int hf_inspect_async(hf_client *client, const char *name, hf_entry_cb *visit, hf_done_cb *done,
                     void *arg)
{
    HF_NO_CANCELLATION;
    struct inspection *inspection;
    struct hf_store_name full;
    struct hf_reply *reply;
    int code = begin(&inspection, client, name, &full, visit, false);
    if (code != HF_OK)
        return code;
    code = hf__reply_new(&reply, client, inspection->name, full.hash, done, arg);
    if (code != HF_OK) {
        discard(&inspection->call);
        return code;
    }
    reply->finish = finish_reply;
    reply->call = &inspection->call;
    reply->visit = visit;
    inspection->found = &reply->found;
    hf__oneshot_call_begin(&inspection->call, &reply->waiter);
    return HF_OK;
}
