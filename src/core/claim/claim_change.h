/* SPDX-License-Identifier: Apache-2.0 */
/* Changing a held claim: lowering it to what its holds need, and raising it. */
#ifndef HF_CORE_CLAIM_CLAIM_CHANGE_H
#define HF_CORE_CLAIM_CLAIM_CHANGE_H

#include "core/api/stop.h"

/* On the loop, with the shard locked: true if the claim is to be lowered now, to op.in.keep. */
bool hf__claim_begin_lowering(struct hf_claim *claim);

/* Brings what the store has for a claim down to what its holds need, on the calling thread or,
 * where the loop must do it, on the loop; unless the claim has ended since it was in this use. */
void hf__claim_settle(struct hf_claim *claim, struct hf_shard *shard, uint32_t uses);
/* The same on the calling thread. With the shard locked; returns with it unlocked, and the claim
 * possibly gone. */
struct hf_answer hf__claim_settle_here(struct hf_claim *claim);

/* May the calling thread drive a question that waits for that time? With a loop of its own to turn,
 * only what never waits. */
bool hf__claim_may_run_here(const struct hf_client *client, int64_t wait_ms);
/* Sends the claim to the loop with a command, and waits for the answer. */
struct hf_answer hf__claim_ask_on_loop(struct hf_claim *claim, unsigned command,
                                       struct hf_interlude *interlude);
/* Has a request end with HF_CANCELED or HF_EDEADLK; does nothing if it has ended. */
void hf__claim_end(struct hf_client *client, hf_request request, int code);
/* The same for the request of a wait with a stop. */
void hf__claim_end_by_stop(struct hf_stop_wait *wait);
/* Raises a claim that the entry has marked as upgrading; blocks. */
struct hf_answer hf__claim_raise(struct hf_claim *claim, struct hf_lock_args *ask);

#endif
