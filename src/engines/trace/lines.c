/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a trace. They have no owner key and no part of a URL in them but its redacted form,
 * so a trace may be shown to others. */
#include "base/clock.h"
#include "trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define LINE_SIZE 700
#define NAME_SHOWN 64

void hf__trace_line(const struct trace *trace, const char *format, ...)
{
    char line[LINE_SIZE];
    int64_t us = hf__clock_us() - trace->opened_at_us;
    int used = snprintf(line, sizeof line, "trace: %lld.%03d ms  ", (long long)(us / 1000),
                        (int)(us % 1000));
    va_list arguments;
    va_start(arguments, format);
    used += vsnprintf(line + used, sizeof line - (size_t)used, format, arguments);
    va_end(arguments);
    if (used > LINE_SIZE - 2)
        used = LINE_SIZE - 2;
    /* A name may have any byte in it. */
    for (int i = 0; i < used; i++)
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
            line[i] = '.';
    line[used++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, (size_t)used);
    (void)written; /* without a reader the locks still work */
}

static const char *mode_name(int mode)
{
    static const char *const names[] = { "mutex", "fair",   "read",    "upgradeable read",
                                         "write", "permit", "counter", "latch" };
    return mode < 0 ? "nothing" : names[mode];
}

void hf__trace_attempt(const struct trace *trace, const struct hf_op *op)
{
    char permits[40] = "";
    if (op->in.permits > 1)
        snprintf(permits, sizeof permits, " x%u", op->in.permits);
    hf__trace_line(trace, "attempt \"%.*s\" #%llu: %s%s%s%s", NAME_SHOWN, op->in.name,
                   (unsigned long long)op->in.owner, mode_name(op->in.mode), permits,
                   op->in.enqueue ? ", enqueue" : "", op->in.attach_key ? ", attach by a key" : "");
}

void hf__trace_release(const struct trace *trace, const struct hf_op *op, const char *verb)
{
    hf__trace_line(trace, "%s \"%.*s\" #%llu: keep %s", verb, NAME_SHOWN, op->in.name,
                   (unsigned long long)op->in.owner, mode_name(op->in.keep));
}

/* Writes what the verdict says more. */
static void write_details(const struct trace *trace, const struct hf_op *op, char *text,
                          size_t size)
{
    const struct hf_lease *lease = op->out.rests_on;
    enum hf_verdict verdict = op->out.verdict;
    int used = 0;
    text[0] = 0;
    if (verdict == HF_GRANTED && op->out.token)
        used = snprintf(text, size, ", token %llu", (unsigned long long)op->out.token);
    if (verdict == HF_GRANTED && lease)
        snprintf(text + used, size - (size_t)used, ", rests on %s lease of %lld ms%s",
                 lease == &op->engine.own_lease ? "its own" : "a shared",
                 (long long)lease->lease_ms, lease->fixed ? ", fixed" : "");
    else if (verdict == HF_REFUSED || verdict == HF_REFUSED_NOT_QUEUED)
        snprintf(text, size,
                 op->out.retry_at_ms == HF_NEVER ? ", again when woken"
                                                 : ", again in %lld ms at the latest",
                 (long long)(op->out.retry_at_ms - trace->opened_at_us / 1000));
    else if ((verdict == HF_NO_ANSWER || verdict == HF_FAILED) && op->out.error)
        snprintf(text, size, ": %s", op->out.error->text);
    else if (op->out.lost)
        snprintf(text, size, ", was lost before");
}

void hf__trace_answer(const struct trace *trace, const struct hf_op *op)
{
    static const char *const verdicts[] = { "granted",   "refused", "gone",
                                            "no answer", "failed",  "refused, not queued" };
    char details[400];
    write_details(trace, op, details, sizeof details);
    hf__trace_line(trace, "  \"%.*s\" #%llu: %s%s", NAME_SHOWN, op->in.name,
                   (unsigned long long)op->in.owner, verdicts[op->out.verdict], details);
}

static const char *verb_name(enum hf_oneshot_verb verb)
{
    static const char *const names[] = {
        [HF_ONESHOT_SEMAPHORE_SET] = "set semaphore",
        [HF_ONESHOT_COUNTER_SET] = "set counter",
        [HF_ONESHOT_COUNTER_ADD] = "add to counter",
        [HF_ONESHOT_COUNTER_GET] = "get counter",
        [HF_ONESHOT_COUNTER_REMOVE] = "remove counter",
        [HF_ONESHOT_LATCH_SET] = "set latch",
        [HF_ONESHOT_LATCH_DOWN] = "count latch down",
        [HF_ONESHOT_LATCH_GET] = "get latch",
        [HF_ONESHOT_BREAK] = "break",
        [HF_ONESHOT_RENEW] = "renew by hand",
        [HF_ONESHOT_DETACH] = "detach",
        [HF_ONESHOT_INSPECT] = "inspect",
        [HF_ONESHOT_DIAGNOSE] = "diagnose",
        [HF_ONESHOT_FORGET] = "forget",
        [HF_ONESHOT_SCHEMA] = "schema",
    };
    return names[verb];
}

void hf__trace_oneshot(const struct trace *trace, const struct hf_oneshot *oneshot)
{
    hf__trace_line(trace, "%s \"%.*s\" %u", verb_name(oneshot->verb), NAME_SHOWN,
                   oneshot->name ? oneshot->name : "", oneshot->value);
}

/* ---- answers that come by the tap ---- */

static const struct trace *trace_of(struct hf_tap *tap)
{
    return HF_CONTAINER(tap, const struct trace, tap);
}

static int64_t now_ms(const struct trace *trace)
{
    return hf__loop_now(trace->base.host->loop);
}

static void op_done(struct hf_tap *tap, const struct hf_op *op)
{
    hf__trace_answer(trace_of(tap), op);
}

static void op_woken(struct hf_tap *tap, const struct hf_op *op)
{
    hf__trace_line(trace_of(tap), "  \"%.*s\" #%llu: woken", NAME_SHOWN, op->in.name,
                   (unsigned long long)op->in.owner);
}

static void op_lost(struct hf_tap *tap, const struct hf_op *op, const char *reason)
{
    hf__trace_line(trace_of(tap), "  \"%.*s\" #%llu: lost: %s", NAME_SHOWN, op->in.name,
                   (unsigned long long)op->in.owner, reason);
}

static void lease_answer(struct hf_tap *tap, const struct hf_lease *lease, int64_t asked_at_ms,
                         enum hf_lease_answer answer, int64_t length_ms, const char *reason)
{
    static const char *const answers[] = { "renewed", "gone", "refused", "not ready", "no answer" };
    const struct trace *trace = trace_of(tap);
    hf__trace_line(trace, "  lease %p: %s after %lld ms, %lld ms long%s%s", (const void *)lease,
                   answers[answer], (long long)(now_ms(trace) - asked_at_ms),
                   (long long)(length_ms ? length_ms : lease->lease_ms), reason ? ": " : "",
                   reason ? reason : "");
}

static void oneshot_done(struct hf_tap *tap, const struct hf_oneshot *oneshot)
{
    const struct trace *trace = trace_of(tap);
    hf__trace_line(trace, "  %s \"%.*s\": code %d, result %u, after %lld ms%s%s",
                   verb_name(oneshot->verb), NAME_SHOWN, oneshot->name ? oneshot->name : "",
                   oneshot->code, oneshot->result,
                   (long long)(now_ms(trace) - oneshot->asked_at_ms), oneshot->error ? ": " : "",
                   oneshot->error ? oneshot->error->text : "");
}

void hf__trace_tap(struct hf_tap *tap)
{
    *tap = (struct hf_tap){
        .op_done = op_done,
        .op_woken = op_woken,
        .op_lost = op_lost,
        .lease_answer = lease_answer,
        .oneshot_done = oneshot_done,
    };
}
