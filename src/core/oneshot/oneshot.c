/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for one answer with limited patience. */
#include "core/oneshot/oneshot.h"

#include "base/clock.h"
#include "core/api/client.h"
#include "core/loop/uv_loop.h"

static void let_go(struct hf_oneshot *verb, int code)
{
    struct hf_waiter *waiter = verb->waiter;
    verb->waiter = NULL;
    hf__timer_stop(&verb->client->loop, &verb->patience);
    waiter->answer.code = code;
    hf__uv_loop_notify(verb->client, &waiter->answered);
}

static void abandon(struct hf_oneshot *verb, int code)
{
    verb->abandoned = true;
    if (verb->left)
        verb->left(verb);
    let_go(verb, code);
}

static void patience_over(struct hf_timer *timer)
{
    struct hf_oneshot *verb = HF_CONTAINER(timer, struct hf_oneshot, patience);
    struct hf_client *client = verb->client;
    hf_error *why = NULL;
    if (client->ops->why_silent)
        client->ops->why_silent(client->engine, NULL, &why);
    hf__client_heard_why(client, why);
    /* It holds nothing, so nothing of it is left there. */
    if (!why)
        hf__explain(&why, HF_UNREACHABLE, 0, "the store did not answer in time");
    verb->waiter->answer.error = why;
    abandon(verb, HF_UNREACHABLE);
}

static void be_patient(struct hf_oneshot *verb)
{
    struct hf_client *client = verb->client;
    hf__timer_start(&client->loop, &verb->patience,
                    hf__clock_add(hf__loop_now(&client->loop), client->request_timeout_ms));
}

static void started(struct hf_task *task)
{
    struct hf_oneshot *verb = HF_CONTAINER(task, struct hf_oneshot, start);
    hf__list_append(&verb->client->verbs, &verb->link);
    be_patient(verb);
    verb->begin(verb);
}

void hf__oneshot_goes_on(struct hf_oneshot *verb)
{
    if (verb->waiter)
        be_patient(verb);
}

void hf__oneshot_answered(struct hf_oneshot *verb)
{
    hf__link_remove(&verb->link);
    if (verb->ended)
        verb->ended(verb);
    if (verb->abandoned)
        verb->discard(verb);
    else
        let_go(verb, HF_OK);
}

struct hf_answer hf__oneshot_run(struct hf_oneshot *verb)
{
    struct hf_waiter waiter = { 0 };
    verb->waiter = &waiter;
    hf__link_init(&verb->link);
    hf__timer_init(&verb->patience, patience_over);
    hf__task_init(&verb->start, started);
    struct hf_client *client = verb->client;
    bool turns = hf__uv_loop_begin_wait(client);
    hf__loop_post(&client->loop, &verb->start);
    hf__uv_loop_wait(client, &waiter.answered, turns);
    return waiter.answer;
}

void hf__oneshots_end(struct hf_client *client)
{
    HF_LIST_FOREACH (link, following, &client->verbs) {
        struct hf_oneshot *verb = HF_CONTAINER(link, struct hf_oneshot, link);
        if (!verb->abandoned)
            abandon(verb, HF_ECLOSED);
    }
}

void hf__oneshots_discard(struct hf_client *client)
{
    struct hf_link *link;
    while ((link = hf__list_pop(&client->verbs))) {
        struct hf_oneshot *verb = HF_CONTAINER(link, struct hf_oneshot, link);
        verb->discard(verb);
    }
}
