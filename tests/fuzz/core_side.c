/* SPDX-License-Identifier: Apache-2.0 */
/* The core as an engine sees it, in a few lines; see the header. It insists on what the engine
 * promises: an answer for each question, once, with words where something is wrong. */
#include "core_side.h"

#include <stdlib.h>
#include <string.h>

#define QUESTIONS_MAX 12u

static void must(bool so)
{
    if (!so)
        abort();
}

static int64_t read_clock(void *arg)
{
    const struct core_side *core = arg;
    return core->now_ms;
}

static void wake_nobody(void *arg)
{
    (void)arg;
}

void core_side_init(struct core_side *core)
{
    *core = (struct core_side){ .now_ms = 1000, .closed = true };
    hf__loop_init(&core->loop, read_clock, wake_nobody, core);
    core->host = (struct hf_host){ .loop = &core->loop,
                                   .id = { 1, 2 },
                                   .owner_text = "me",
                                   .host_name = "here",
                                   .lease_ms = 30000,
                                   .core = core };
}

int core_side_open(struct core_side *core, const struct hf_engine_ops *ops, struct hf_url *url,
                   hf_error *error)
{
    int code = ops->open(&core->engine, &core->host, url, error);
    must(code == HF_OK ? core->engine != NULL : *error->text != 0);
    core->closed = code != HF_OK;
    return code;
}

static void note_closed(void *arg)
{
    struct core_side *core = arg;
    must(!core->closed);
    core->closed = true;
}

void core_side_close(struct core_side *core)
{
    if (!core->closed)
        core->engine->ops->close(core->engine, note_closed, core);
    while (!core->closed) {
        core_side_turn(core);
        core_side_pass(core, HF_NEVER);
    }
    free(core->op.out.error);
    free(core->query.error);
    free(core->examination.error);
}

void core_side_turn(struct core_side *core)
{
    hf__loop_turn(&core->loop);
}

void core_side_pass(struct core_side *core, int64_t most_ms)
{
    int64_t next_ms = hf__loop_next(&core->loop);
    int64_t end_ms = most_ms == HF_NEVER ? HF_NEVER : core->now_ms + most_ms;
    if (next_ms > end_ms)
        next_ms = end_ms;
    if (next_ms != HF_NEVER && next_ms > core->now_ms)
        core->now_ms = next_ms;
}

/* ---- the lock ---- */

static void ask(struct core_side *core)
{
    struct hf_op *op = &core->op;
    if (core->out || core->questions++ >= QUESTIONS_MAX)
        return;
    core->out = true;
    hf__timer_stop(&core->loop, &core->again);
    op->in.asked_at_ms = hf__loop_now(&core->loop);
    if (core->releasing)
        core->engine->ops->release(core->engine, op);
    else
        core->engine->ops->attempt(core->engine, op);
}

static void ask_again(struct hf_timer *timer)
{
    ask(HF_CONTAINER(timer, struct core_side, again));
}

static void op_woken(struct hf_op *op)
{
    struct core_side *core = HF_CONTAINER(op, struct core_side, op);
    if (!core->releasing)
        hf__timer_start(&core->loop, &core->again, hf__loop_now(&core->loop));
}

static void op_answered(struct hf_task *task)
{
    struct core_side *core = HF_CONTAINER(task, struct core_side, op.core.answer);
    struct hf_op *op = &core->op;
    int64_t now_ms = hf__loop_now(&core->loop);
    must(core->out);
    core->out = false;
    if (op->out.verdict == HF_NO_ANSWER || op->out.verdict == HF_FAILED)
        must(op->out.error && *op->out.error->text);
    if (op->out.verdict == HF_GONE || op->out.verdict == HF_FAILED)
        return;
    bool refused = op->out.verdict == HF_REFUSED || op->out.verdict == HF_REFUSED_NOT_QUEUED;
    must(core->releasing ? !refused : op->out.verdict != HF_GONE);
    core->releasing = core->releasing || op->out.verdict == HF_GRANTED;
    if (refused && op->out.retry_at_ms != HF_NEVER)
        hf__timer_start(&core->loop, &core->again, op->out.retry_at_ms);
    else if (!refused)
        hf__timer_start(&core->loop, &core->again, now_ms + 10);
}

void core_side_want(struct core_side *core, hf_mode mode)
{
    core->op = (struct hf_op){ .in.name = "one",
                               .in.name_length = 3,
                               .in.name_hash = 1,
                               .in.owner = 7,
                               .in.owner_text = "me",
                               .in.mode = mode,
                               .in.keep = HF_KEEP_NOTHING,
                               .in.permits = 1,
                               .in.enqueue = true,
                               .core.woken = op_woken };
    hf__task_init(&core->op.core.answer, op_answered);
    hf__timer_init(&core->again, ask_again);
    ask(core);
}

void hf__op_done(struct hf_engine *engine, struct hf_op *op)
{
    hf__loop_defer(engine->host->loop, &op->core.answer);
}

void hf__op_wake(struct hf_op *op)
{
    op->core.woken(op);
}

/* There is one claim. */
struct hf_op *hf__op_next(struct hf_op *op)
{
    (void)op;
    return NULL;
}

bool hf__op_is_held_here(struct hf_op *op)
{
    (void)op;
    return false;
}

/* ---- leases: nobody renews them here ---- */

void hf__lease_answer(struct hf_lease *lease, int64_t asked_at_ms, enum hf_lease_answer answer,
                      int64_t length_ms, const char *reason)
{
    (void)lease;
    (void)asked_at_ms;
    must(length_ms >= 0);
    must((answer != HF_LEASE_REFUSED && answer != HF_LEASE_NOT_READY) || *reason != 0);
}

/* ---- what is shown ---- */

static size_t length_of(const char *text)
{
    return text ? strlen(text) : 0;
}

void hf__oneshot_entry(struct hf_oneshot *query, const hf_entry *entry)
{
    struct core_side *core = HF_CONTAINER(query, struct core_side, query);
    must(entry->name_length > 0 && entry->name_length <= HF_NAME_MAX);
    must(strnlen(entry->name, entry->name_length) == entry->name_length);
    core->seen +=
        length_of(entry->owner_key) + length_of(entry->owner_text) + length_of(entry->host) + 1;
}

static void oneshot_answered(struct hf_task *task)
{
    const struct hf_oneshot *oneshot = HF_CONTAINER(task, struct hf_oneshot, answer);
    must(oneshot->code == HF_OK || oneshot->code == HF_ENOMEM ||
         (oneshot->error && *oneshot->error->text));
}

/* These requests have no time-out here. */
void hf__oneshot_progress(struct hf_oneshot *oneshot)
{
    (void)oneshot;
}

void hf__oneshot_done(struct hf_engine *engine, struct hf_oneshot *oneshot)
{
    must(oneshot->verb == HF_ONESHOT_INSPECT || oneshot->verb == HF_ONESHOT_DIAGNOSE);
    hf__loop_defer(engine->host->loop, &oneshot->answer);
}

void core_side_inspect(struct core_side *core, const char *name)
{
    core->query = (struct hf_oneshot){ .verb = HF_ONESHOT_INSPECT,
                                       .name = name,
                                       .name_length = name ? (uint32_t)strlen(name) : 0 };
    hf__task_init(&core->query.answer, oneshot_answered);
    core->engine->ops->oneshot(core->engine, &core->query);
}

void hf__oneshot_remark(struct hf_oneshot *examination, const hf_remark *remark)
{
    struct core_side *core = HF_CONTAINER(examination, struct core_side, examination);
    must(*remark->what != 0);
    core->seen +=
        length_of(remark->value) + length_of(remark->consequence) + length_of(remark->cure) + 1;
}

void core_side_examine(struct core_side *core)
{
    core->examination = (struct hf_oneshot){ .verb = HF_ONESHOT_DIAGNOSE };
    hf__task_init(&core->examination.answer, oneshot_answered);
    core->engine->ops->oneshot(core->engine, &core->examination);
}
