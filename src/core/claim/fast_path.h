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

/* The entry's last claim is gone. The entry goes too, or stays a while for what is kept in it. */
void hf__lock_entry_left(struct hf_client *client, struct hf_shard *shard,
                         struct hf_lock_entry *entry);

/* Without the shards locked, once no claim is left: what engines keep goes back. */
void hf__lock_table_drop_idle(struct hf_client *client);

#endif
