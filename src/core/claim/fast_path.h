/* SPDX-License-Identifier: Apache-2.0 */
/* The short way for an exclusive claim on a name that no other claim wants: granted, or given back,
 * in one step under the shard's mutex, where the engine can do that. */
#ifndef HF_CORE_CLAIM_FAST_PATH_H
#define HF_CORE_CLAIM_FAST_PATH_H

#include "core/claim/claim.h"

/* All with the shard locked. */

/* A new claim that is in no list yet. True: it is held, and `answer` has its hold. */
bool hf__fast_acquire(struct hf_claim *claim, const struct hf_lock_args *ask,
                      struct hf_answer *answer);

/* True: `hold` was the claim's last, and both are gone. */
bool hf__fast_release(struct hf_shard *shard, struct hf_hold *hold);

#endif
