/* SPDX-License-Identifier: Apache-2.0 */
/* Hands each question on to the engine behind it, which has the op, its lease and its memory to
 * itself. Answers go from there to the core; the tap prints them on their way. */
#include "trace.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/testing.h"

#include <stdlib.h>

static void trace_attempt(struct hf_engine *base, struct hf_op *op)
{
    struct trace *trace = hf__trace_of(base);
    hf__trace_attempt(trace, op);
    trace->inner->ops->attempt(trace->inner, op);
}

static void trace_release(struct hf_engine *base, struct hf_op *op)
{
    struct trace *trace = hf__trace_of(base);
    hf__trace_release(trace, op, "release");
    trace->inner->ops->release(trace->inner, op);
}

static void renew(struct hf_engine *base, struct hf_lease *lease)
{
    struct trace *trace = hf__trace_of(base);
    hf__trace_line(trace, "renew lease %p, %lld ms", (void *)lease, (long long)lease->lease_ms);
    trace->inner->ops->renew(trace->inner, lease);
}

static void ask_oneshot(struct hf_engine *base, struct hf_oneshot *oneshot)
{
    struct trace *trace = hf__trace_of(base);
    hf__trace_oneshot(trace, oneshot);
    trace->inner->ops->oneshot(trace->inner, oneshot);
}

static void trace_forked(struct hf_engine *base)
{
    struct trace *trace = hf__trace_of(base);
    trace->inner->ops->forked(trace->inner);
}

static void dismiss(struct hf_engine *base, struct hf_op *op)
{
    struct trace *trace = hf__trace_of(base);
    hf__trace_release(trace, op, "dismiss");
    trace->inner->ops->dismiss(trace->inner, op);
}

static void detach(struct hf_engine *base, struct hf_oneshot *oneshot)
{
    struct trace *trace = hf__trace_of(base);
    hf__trace_oneshot(trace, oneshot);
    trace->inner->ops->detach(trace->inner, oneshot);
}

static void ask_why_silent(struct hf_engine *base, struct hf_op *op, hf_error **error)
{
    struct trace *trace = hf__trace_of(base);
    trace->inner->ops->why_silent(trace->inner, op, error);
    hf__trace_line(trace, "silent: %s", *error ? (*error)->text : "no reason is known");
}

static void inner_closed(void *arg)
{
    struct trace *trace = arg;
    void (*closed)(void *) = trace->closed;
    void *closed_arg = trace->closed_arg;
    hf__trace_line(trace, "closed");
    hf__host_set_tap(trace->base.host, NULL);
    free(trace);
    closed(closed_arg);
}

static void close_trace(struct hf_engine *base, void (*closed)(void *arg), void *arg)
{
    struct trace *trace = hf__trace_of(base);
    trace->closed = closed;
    trace->closed_arg = arg;
    hf__trace_line(trace, "close");
    trace->inner->ops->close(trace->inner, inner_closed, trace);
}

/* `compact` stays empty: it saves memory, and takes questions out of sight. */
static void make_ops(struct trace *trace)
{
    const struct hf_engine_ops *inner = trace->inner->ops;
    trace->ops = hf__trace;
    trace->ops.name = inner->name;
    trace->ops.caps = inner->caps;
    trace->ops.forgets = inner->forgets;
    trace->ops.names_threads = inner->names_threads;
    trace->ops.raises_tokens = inner->raises_tokens;
    trace->ops.dismiss = inner->dismiss ? dismiss : NULL;
    trace->ops.detach = inner->detach ? detach : NULL;
    trace->ops.why_silent = inner->why_silent ? ask_why_silent : NULL;
    trace->ops.sync = inner->sync ? &hf__trace_sync : NULL;
}

static int open_inner(struct trace *trace, const struct hf_host *host, struct hf_url *url,
                      hf_error *error)
{
    int code = hf__trace_read_url(trace, url, error);
    if (code != HF_OK)
        return code;
    const struct hf_engine_ops *ops;
    code = hf__engine_find(&ops, &trace->url, error);
    if (code != HF_OK)
        return code;
    if (ops == &hf__trace)
        return hf__url_refuse(url, error, "a trace of a trace shows nothing more");
    code = ops->open(&trace->inner, host, &trace->url, error);
    for (unsigned i = 0; code == HF_OK && i < url->option_count; i++)
        url->options[i].used |= trace->url.options[i].used;
    return code;
}

static int open_trace(struct hf_engine **ret, const struct hf_host *host, struct hf_url *url,
                      hf_error *error)
{
    struct trace *trace = hf__calloc(1, sizeof *trace);
    *ret = NULL;
    if (!trace)
        return hf__error_set(error, HF_ENOMEM, 0, "out of memory for a trace");
    trace->opened_at_us = hf__clock_us();
    int code = open_inner(trace, host, url, error);
    if (code != HF_OK) {
        free(trace);
        return code;
    }
    make_ops(trace);
    trace->base =
        (struct hf_engine){ &trace->ops, host, trace->inner->schema, trace->inner->grants };
    hf__trace_tap(&trace->tap);
    hf__host_set_tap(host, &trace->tap);
    hf__trace_line(trace, "open %s, engine \"%s\"", trace->url.redacted, trace->ops.name);
    *ret = &trace->base;
    return HF_OK;
}

static const char *const schemes[] = { "trace", NULL };

const struct hf_engine_ops hf__trace = {
    .name = "trace",
    .schemes = schemes,
    .open = open_trace,
    .close = close_trace,
    .attempt = trace_attempt,
    .release = trace_release,
    .renew = renew,
    .oneshot = ask_oneshot,
    .forked = trace_forked,
};
