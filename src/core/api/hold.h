/* SPDX-License-Identifier: Apache-2.0 */
/* What holds do: giving back, lowering, upgrading. */
#ifndef HF_CORE_API_HOLD_H
#define HF_CORE_API_HOLD_H

#include "core/claim/claim.h"

/* On the loop, with the shard locked: true if the claim is to be lowered now, to op.in.keep. */
bool hf__hold_begin_downgrade(struct hf_claim *claim);

/* Brings what the store has for a claim down to what its holds need, on the calling thread or,
 * where the loop must do it, on the loop; unless the claim has ended since it was in this use. */
void hf__hold_settle(struct hf_claim *claim, struct hf_shard *shard, uint32_t uses);

#endif
