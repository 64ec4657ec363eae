/* SPDX-License-Identifier: Apache-2.0 */
/* Acquiring, and what the loop does for a claim that is sent to it. */
#ifndef HF_CORE_API_ACQUIRE_H
#define HF_CORE_API_ACQUIRE_H

#include "core/claim/claim.h"

void hf__acquire_init_command(struct hf_claim *claim);

/* May the calling thread drive a question that waits for that time? With a loop of its own to turn,
 * only what never waits. */
bool hf__acquire_may_run_sync(const struct hf_client *client, int64_t wait_ms);

/* Raises a claim that the entry has marked as upgrading; blocks. */
struct hf_answer hf__acquire_upgrade(struct hf_claim *claim, struct hf_lock_args *ask);

#endif
