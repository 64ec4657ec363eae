/* SPDX-License-Identifier: Apache-2.0 */
/* The slots that run on calling threads, for an inner engine that has them. */
#include "trace.h"

static enum hf_verdict attempt_sync(struct hf_engine *base, struct hf_op *op)
{
    struct trace *trace = hf__trace_of(base);
    hf__trace_attempt(trace, op);
    op->out.verdict = trace->inner->ops->sync->attempt(trace->inner, op);
    hf__trace_answer(trace, op);
    return op->out.verdict;
}

static enum hf_verdict release_sync(struct hf_engine *base, struct hf_op *op)
{
    struct trace *trace = hf__trace_of(base);
    hf__trace_release(trace, op, "release");
    op->out.verdict = trace->inner->ops->sync->release(trace->inner, op);
    hf__trace_answer(trace, op);
    return op->out.verdict;
}

static void sleep_until(struct hf_engine *base, struct hf_op *op, int64_t until_ms)
{
    struct trace *trace = hf__trace_of(base);
    trace->inner->ops->sync->sleep(trace->inner, op, until_ms);
}

static void wake_op(struct hf_engine *base, struct hf_op *op)
{
    struct trace *trace = hf__trace_of(base);
    trace->inner->ops->sync->wake(trace->inner, op);
}

static bool is_held(struct hf_engine *base, const struct hf_op *op)
{
    struct trace *trace = hf__trace_of(base);
    return trace->inner->ops->sync->held(trace->inner, op);
}

/* No fast path: what it does would not be seen. */
static bool take_common_path(struct hf_engine *base, struct hf_op *op, uint64_t *kept)
{
    (void)base, (void)op, (void)kept;
    return false;
}

static bool drop_nothing(struct hf_engine *base, uint64_t *kept)
{
    (void)base, (void)kept;
    return true;
}

const struct hf_engine_sync_ops hf__trace_sync = {
    .attempt = attempt_sync,
    .release = release_sync,
    .sleep = sleep_until,
    .wake = wake_op,
    .held = is_held,
    .fast_acquire = take_common_path,
    .fast_release = take_common_path,
    .fast_drop = drop_nothing,
};
