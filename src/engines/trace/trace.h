/* SPDX-License-Identifier: Apache-2.0 */
/* trace:URL, an engine that stands before the one for URL and prints each question and answer. */
#ifndef HF_ENGINES_TRACE_TRACE_H
#define HF_ENGINES_TRACE_TRACE_H

#include "core/engine_sync.h"
#include "core/engine_tap.h"

struct trace {
    struct hf_engine base;
    struct hf_engine_ops ops; /* the caps of `inner`, and no slot that it lacks */
    struct hf_engine *inner;
    struct hf_url url; /* the inner one */
    struct hf_tap tap;
    int64_t opened_at_us;
    void (*closed)(void *arg);
    void *closed_arg;
};

static inline struct trace *hf__trace_of(struct hf_engine *base)
{
    return HF_CONTAINER(base, struct trace, base);
}

/* Reads what stands behind "trace:". The options of the whole URL are those of the inner one. */
int hf__trace_read_url(struct trace *trace, struct hf_url *whole, hf_error *error);

/* ---- lines.c: one line each, by one write to standard error ---- */

__attribute__((format(printf, 2, 3))) void hf__trace_line(const struct trace *trace,
                                                          const char *format, ...);
void hf__trace_attempt(const struct trace *trace, const struct hf_op *op);
void hf__trace_release(const struct trace *trace, const struct hf_op *op, const char *verb);
void hf__trace_answer(const struct trace *trace, const struct hf_op *op);
void hf__trace_oneshot(const struct trace *trace, const struct hf_oneshot *oneshot);
void hf__trace_tap(struct hf_tap *tap);

/* ---- sync.c ---- */

extern const struct hf_engine_sync_ops hf__trace_sync;
extern const struct hf_engine_ops hf__trace;

#endif
