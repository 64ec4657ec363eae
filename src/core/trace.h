/* SPDX-License-Identifier: Apache-2.0 */
/* One line for each step of the wait loop, for tests. In the product this is nothing. */
#ifndef HF_CORE_TRACE_H
#define HF_CORE_TRACE_H

#include "core/claim/claim_fsm.h"

#ifdef HF_TESTING
/* Gets "orders/42 #7: waiting, wake -> asking". */
extern void (*hf__trace_sink)(const char *line);
void hf__trace_step(const struct hf_claim *claim, enum hf_claim_event event,
                    enum hf_claim_state before);
#else
static inline void hf__trace_step(const struct hf_claim *claim, enum hf_claim_event event,
                                  enum hf_claim_state before)
{
    (void)claim, (void)event, (void)before;
}
#endif

#endif
