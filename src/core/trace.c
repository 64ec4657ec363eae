/* SPDX-License-Identifier: Apache-2.0 */
/* The trace of the wait loop, in the test build only. */
#include "core/trace.h"

#ifdef HF_TESTING

#include <stdio.h>

void (*hf__trace_sink)(const char *line);

static const char *event_name(enum hf_claim_event event)
{
    static const char *const names[] = { "turn", "answer", "wake",  "retry",     "deadline",
                                         "end",  "raise",  "lower", "lease lost" };
    return names[event];
}

static const char *answer_name(enum hf_verdict verdict)
{
    static const char *const names[] = { "granted",   "refused", "gone",
                                         "no answer", "failed",  "refused, not queued" };
    return names[verdict];
}

void hf__trace_step(const struct hf_claim *claim, enum hf_claim_event event,
                    enum hf_claim_state before)
{
    if (!hf__trace_sink)
        return;
    char line[256];
    snprintf(line, sizeof line, "%.100s #%llu: %s, %s -> %s", claim->op.in.name,
             (unsigned long long)claim->op.in.owner, hf__claim_state_name(before),
             event == HF_ON_ANSWER ? answer_name(claim->op.out.verdict) : event_name(event),
             hf__claim_state_name(claim->state));
    hf__trace_sink(line);
}

#endif
