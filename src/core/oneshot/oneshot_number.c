/* SPDX-License-Identifier: Apache-2.0 */
/* One-shot verbs about a number: of a semaphore, counter or latch. A thread waits for the answer,
 * or a callback is told. */
#include "base/cancel.h"
#include "core/api/explain.h"
#include "core/api/reply.h"
#include "core/oneshot/oneshot_change.h"

/* A verb that sets, adds to, or reads a number. */
struct number {
    unsigned cap;
    enum hf_oneshot_verb verb;
    const char *what; /* what an engine without the cap has not */
};

static const struct number semaphore_set = { HF_CAP_PERMIT, HF_ONESHOT_SEMAPHORE_SET,
                                             "semaphores" };
static const struct number schema_change = { HF_CAP_SCHEMA, HF_ONESHOT_SCHEMA, "tables" };
static const struct number forget = { HF_CAP_MUTEX, HF_ONESHOT_FORGET, "mutexes" };
static const struct number counter_set = { HF_CAP_COUNTER, HF_ONESHOT_COUNTER_SET, "counters" };
static const struct number counter_add = { HF_CAP_COUNTER, HF_ONESHOT_COUNTER_ADD, "counters" };
static const struct number counter_get = { HF_CAP_COUNTER, HF_ONESHOT_COUNTER_GET, "counters" };
static const struct number counter_remove = { HF_CAP_COUNTER, HF_ONESHOT_COUNTER_REMOVE,
                                              "counters" };
static const struct number latch_set = { HF_CAP_LATCH, HF_ONESHOT_LATCH_SET, "latches" };
static const struct number latch_down = { HF_CAP_LATCH, HF_ONESHOT_LATCH_DOWN, "latches" };
static const struct number latch_get = { HF_CAP_LATCH, HF_ONESHOT_LATCH_GET, "latches" };

static int new_number(struct hf_change **ret, hf_client *client, const struct number *number,
                      const char *name, uint32_t value, bool waits)
{
    struct hf_store_name full;
    int code = hf__change_check_named(client, number->cap, number->what, name, &full, waits);
    if (code != HF_OK)
        return code;
    *ret = hf__change_new(client, number->verb, full.text, full.length, full.hash);
    if (!*ret)
        return hf__answer_fail(HF_ENOMEM, "out of memory");
    (*ret)->call.question.value = value;
    return HF_OK;
}

static int change_number(hf_client *client, const struct number *number, const char *name,
                         uint32_t value, uint32_t *ret_result)
{
    struct hf_change *whole;
    int code = new_number(&whole, client, number, name, value, true);
    return code == HF_OK ? hf__change_run(whole, ret_result, NULL, NULL) : code;
}

static void finish_number(struct hf_reply *reply)
{
    struct hf_answer *answer = &reply->waiter.answer;
    uint32_t result;
    if (answer->code != HF_OK)
        return; /* without an answer the question goes on by itself */
    *answer =
        hf__change_take(HF_CONTAINER(reply->call, struct hf_change, call), &result, NULL, NULL);
    if (answer->code == HF_OK && reply->ret_value)
        *reply->ret_value = result;
}

static int begin_number(hf_client *client, const struct number *number, const char *name,
                        uint32_t value, uint32_t *ret_result, hf_done_cb *done, void *arg)
{
    HF_NO_CANCELLATION;
    struct hf_change *whole;
    int code = new_number(&whole, client, number, name, value, false);
    if (code != HF_OK)
        return code;
    struct hf_reply *reply;
    code = hf__reply_new(&reply, client, whole->name, whole->call.question.name_hash, done, arg);
    if (code != HF_OK) {
        hf__change_discard(&whole->call);
        return code;
    }
    reply->finish = finish_number;
    reply->call = &whole->call;
    reply->ret_value = ret_result;
    hf__oneshot_call_begin(&whole->call, &reply->waiter);
    return HF_OK;
}

int hf_semaphore_set(hf_client *client, const char *name, uint32_t permits)
{
    return change_number(client, &semaphore_set, name, permits, NULL);
}

/* It is about no name; the call has one for its place among the others. */
int hf_schema_change(hf_client *client, hf_schema_action action, uint32_t *ret_count)
{
    int code = hf__change_check(client, HF_CAP_SCHEMA, "tables", true);
    if (code != HF_OK)
        return code;
    if (action < HF_SCHEMA_CREATE || action > HF_SCHEMA_CLEAN)
        return hf__answer_fail(HF_EINVAL, "there is no schema action %d", (int)action);
    return change_number(client, &schema_change, "schema", (uint32_t)action, ret_count);
}

static int no_place(void)
{
    return hf__answer_fail(HF_EINVAL, "ret_value is NULL: there is nowhere to put the value");
}

static int no_amount(void)
{
    return hf__answer_fail(HF_EINVAL, "counting a latch down by 0 is nothing; use at least 1");
}

int hf_counter_set(hf_client *client, const char *name, uint32_t value)
{
    return change_number(client, &counter_set, name, value, NULL);
}

int hf_counter_set_async(hf_client *client, const char *name, uint32_t value, hf_done_cb *done,
                         void *arg)
{
    return begin_number(client, &counter_set, name, value, NULL, done, arg);
}

int hf_counter_add(hf_client *client, const char *name, uint32_t amount)
{
    return change_number(client, &counter_add, name, amount, NULL);
}

int hf_counter_add_async(hf_client *client, const char *name, uint32_t amount, hf_done_cb *done,
                         void *arg)
{
    return begin_number(client, &counter_add, name, amount, NULL, done, arg);
}

int hf_counter_get(hf_client *client, const char *name, uint32_t *ret_value)
{
    if (!ret_value)
        return no_place();
    return change_number(client, &counter_get, name, 0, ret_value);
}

int hf_counter_get_async(hf_client *client, const char *name, uint32_t *ret_value, hf_done_cb *done,
                         void *arg)
{
    if (!ret_value)
        return no_place();
    return begin_number(client, &counter_get, name, 0, ret_value, done, arg);
}

int hf_counter_remove(hf_client *client, const char *name)
{
    return change_number(client, &counter_remove, name, 0, NULL);
}

int hf_counter_remove_async(hf_client *client, const char *name, hf_done_cb *done, void *arg)
{
    return begin_number(client, &counter_remove, name, 0, NULL, done, arg);
}

int hf_latch_set(hf_client *client, const char *name, uint32_t count)
{
    return change_number(client, &latch_set, name, count, NULL);
}

int hf_latch_set_async(hf_client *client, const char *name, uint32_t count, hf_done_cb *done,
                       void *arg)
{
    return begin_number(client, &latch_set, name, count, NULL, done, arg);
}

int hf_latch_down(hf_client *client, const char *name, uint32_t amount, uint32_t *ret_left)
{
    if (amount == 0)
        return no_amount();
    return change_number(client, &latch_down, name, amount, ret_left);
}

int hf_latch_down_async(hf_client *client, const char *name, uint32_t amount, uint32_t *ret_left,
                        hf_done_cb *done, void *arg)
{
    if (amount == 0)
        return no_amount();
    return begin_number(client, &latch_down, name, amount, ret_left, done, arg);
}

int hf_latch_get(hf_client *client, const char *name, uint32_t *ret_left)
{
    return change_number(client, &latch_get, name, 0, ret_left);
}

int hf_latch_get_async(hf_client *client, const char *name, uint32_t *ret_left, hf_done_cb *done,
                       void *arg)
{
    return begin_number(client, &latch_get, name, 0, ret_left, done, arg);
}

static bool note_use(void *arg, const hf_entry *entry)
{
    bool *in_use = arg;
    bool is_value = entry->kind == HF_KIND_SEMAPHORE || entry->kind == HF_KIND_COUNTER ||
                    entry->kind == HF_KIND_LATCH || entry->kind == HF_KIND_RATE;
    *in_use |= is_value || entry->role != HF_ROLE_OBJECT;
    return !*in_use;
}

/* Where nothing is kept of a name that is free, it is enough to see that it is. */
int hf_forget(hf_client *client, const char *name)
{
    struct hf_store_name full;
    bool in_use = false;
    int code = hf__change_check_named(client, HF_CAP_MUTEX, "mutexes", name, &full, true);
    if (code != HF_OK)
        return code;
    if (client->ops->forgets)
        return change_number(client, &forget, name, 0, NULL);
    code = hf_inspect(client, name, note_use, &in_use);
    if (code == HF_OK && in_use)
        return hf__answer_fail(HF_BUSY, "\"%.200s\": " HF_NOT_FORGOTTEN, name);
    return code;
}
