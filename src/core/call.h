/* SPDX-License-Identifier: Apache-2.0 */
/* Acquiring, and what the loop does for a claim that is sent to it. */
#ifndef HF_CORE_CALL_H
#define HF_CORE_CALL_H

#include "core/claim.h"

void hf__call_init_errand(struct hf_claim *claim);

/* May the calling thread drive a question that waits so long? With a loop of its own to turn, only
 * what never waits. */
bool hf__call_may_drive_here(const struct hf_client *client, int64_t wait_ms);

/* Raises a claim that the gate has marked as raising; blocks. */
struct hf_answer hf__call_raise(struct hf_claim *claim, struct hf_ask *ask);

#endif
