/* SPDX-License-Identifier: Apache-2.0 */
/* Telling a holder that it has lost: once per hold, on the loop. */
#ifndef HF_CORE_CLAIM_LOSS_H
#define HF_CORE_CLAIM_LOSS_H

#include "core/claim/claim.h"

/* Marks a held claim as lost and runs the on_lost of its holds; where a caller turns the loop, the
 * client's thread is called to do the latter. Loop only. `reason` lives as long as the engine. */
void hf__claim_lose(struct hf_claim *claim, const char *reason);

/* Loses what is suspected to be lost already. On the loop, with the shard locked, which it unlocks
 * for a while. */
void hf__claim_lose_suspect(struct hf_claim *claim);

/* Runs the on_lost of its holds that have not heard of it. On the loop of the client's thread, with
 * the shard locked, which it unlocks for a while. */
void hf__claim_announce(struct hf_claim *claim);

#endif
