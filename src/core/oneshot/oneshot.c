/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for one answer with limited patience. */
#include "core/oneshot/oneshot.h"

#include "base/clock.h"
#include "core/api/explain.h"
#include "core/api/stop.h"
#include "core/engine_tap.h"
#include "core/loop/uv_loop.h"

#include <stdlib.h>

static void oneshot_let_go(struct hf_oneshot_call *call, int code)
{
    struct hf_waiter *waiter = call->waiter;
    call->waiter = NULL;
    if (call->stoppable)
        *call->stoppable = NULL;
    hf__timer_stop(&call->client->loop, &call->patience);
    waiter->answer.code = code;
    hf__waiter_tell(call->client, waiter);
}

static void abandon(struct hf_oneshot_call *call, int code)
{
    call->abandoned = true;
    if (call->left)
        call->left(call);
    oneshot_let_go(call, code);
}

static void patience_over(struct hf_timer *timer)
{
    struct hf_oneshot_call *call = HF_CONTAINER(timer, struct hf_oneshot_call, patience);
    struct hf_client *client = call->client;
    hf_error *why = NULL;
    if (client->ops->why_silent)
        client->ops->why_silent(client->engine, NULL, &why);
    hf__client_heard(client, false, why);
    /* It holds nothing, so nothing of it is left there. */
    if (!why)
        hf__explain(&why, HF_UNREACHABLE, 0, "the store did not answer in time");
    call->waiter->answer.error = why;
    abandon(call, HF_UNREACHABLE);
}

static void be_patient(struct hf_oneshot_call *call)
{
    struct hf_client *client = call->client;
    hf__timer_start(&client->loop, &call->patience,
                    hf__clock_add(hf__loop_now(&client->loop), client->request_timeout_ms));
}

static void started(struct hf_task *task)
{
    struct hf_oneshot_call *call = HF_CONTAINER(task, struct hf_oneshot_call, start);
    call->started = true;
    if (call->stopped) {
        oneshot_let_go(call, HF_CANCELED);
        call->discard(call);
        return;
    }
    hf__list_append(&call->client->oneshots, &call->link);
    be_patient(call);
    if (call->begin)
        call->begin(call);
    else
        hf__oneshot_call_ask(call);
}

void hf__oneshot_call_ask(struct hf_oneshot_call *call)
{
    struct hf_client *client = call->client;
    struct hf_oneshot *question = &call->question;
    question->asked_at_ms = hf__loop_now(&client->loop);
    hf__count(client->counts, HF_COUNT_REQUESTS, 1);
    if (question->verb == HF_ONESHOT_DETACH)
        client->ops->detach(client->engine, question);
    else
        client->ops->oneshot(client->engine, question);
}

void hf__oneshot_progress(struct hf_oneshot *oneshot)
{
    struct hf_oneshot_call *call = HF_CONTAINER(oneshot, struct hf_oneshot_call, question);
    if (call->waiter) /* mutant: listing-that-goes-on-is-taken */
        be_patient(call);
}

void hf__oneshot_done(struct hf_engine *engine, struct hf_oneshot *oneshot)
{
    struct hf_tap *tap = engine->host->tap;
    if (tap)
        tap->oneshot_done(tap, oneshot);
    hf__loop_defer(engine->host->loop, &oneshot->answer);
}

static void oneshot_answered(struct hf_task *task)
{
    struct hf_oneshot *question = HF_CONTAINER(task, struct hf_oneshot, answer);
    struct hf_oneshot_call *call = HF_CONTAINER(question, struct hf_oneshot_call, question);
    /* mutant: answer-that-engine-makes-up */
    if (question->code == HF_UNREACHABLE || question->contacted)
        hf__client_heard(call->client, question->code != HF_UNREACHABLE, NULL);
    hf__link_remove(&call->link);
    if (call->ended)
        call->ended(call);
    if (call->abandoned)
        call->discard(call);
    else
        oneshot_let_go(call, HF_OK);
}

void hf__oneshot_call_begin(struct hf_oneshot_call *call, struct hf_waiter *waiter)
{
    call->waiter = waiter;
    hf__task_init(&call->question.answer, oneshot_answered);
    hf__link_init(&call->link);
    hf__timer_init(&call->patience, patience_over);
    hf__task_init(&call->start, started);
    hf__loop_post(&call->client->loop, &call->start);
}

struct stoppable {
    struct hf_stop_wait wait;
    struct hf_oneshot_call *call; /* NULL: the caller is being told, and the call may be gone */
};

/* The bell may have been rung for an earlier wait, before the loop has come to this call. */
static void end_by_stop(struct hf_stop_wait *wait)
{
    struct hf_oneshot_call *call = HF_CONTAINER(wait, struct stoppable, wait)->call;
    if (!call)
        return;
    call->stopped = true;
    if (call->started) /* mutant: stop-ends-a-question */
        abandon(call, HF_CANCELED);
}

struct hf_answer hf__oneshot_call_run(struct hf_oneshot_call *call)
{
    struct hf_waiter waiter = { 0 };
    struct hf_client *client = call->client;
    struct stoppable stoppable = { .call = call };
    hf_stop *stop = call->stop;
    call->stoppable = stop ? &stoppable.call : NULL;
    bool turns = hf__uv_loop_begin_wait(client);
    hf__oneshot_call_begin(call, &waiter);
    hf__uv_loop_wait(client, &waiter.answered, turns,
                     hf__stop_wait_begin(&stoppable.wait, client, stop, end_by_stop));
    hf__stop_wait_end(&stoppable.wait);
    return waiter.answer;
}

void hf__oneshots_end(struct hf_client *client)
{
    HF_LIST_FOREACH (link, following, &client->oneshots) {
        struct hf_oneshot_call *call = HF_CONTAINER(link, struct hf_oneshot_call, link);
        if (!call->abandoned)
            abandon(call, HF_ECLOSED);
    }
}

void hf__oneshots_discard(struct hf_client *client)
{
    struct hf_link *link;
    while ((link = hf__list_pop(&client->oneshots))) {
        struct hf_oneshot_call *call = HF_CONTAINER(link, struct hf_oneshot_call, link);
        free(call->question.engine_pointer);
        if (call->waiter) {
            call->waiter->answer.code = HF_ECLOSED;
            hf__waiter_tell(client, call->waiter);
        }
        call->discard(call);
    }
}
