/* What holds do: giving back, lowering, raising. */
#ifndef HF_CORE_HOLD_H
#define HF_CORE_HOLD_H

#include "core/claim.h"

/* The loop's end of an unlock. */
void hf__hold_unlock_arrived(struct hf_task *task);

/* Brings what the store has for a claim down to what its holds need, on the calling thread or,
 * where the loop must do it, on the loop; unless the claim has ended since it was in this use. */
void hf__hold_settle(struct hf_claim *claim, struct hf_shard *shard, uint32_t uses);

#endif
