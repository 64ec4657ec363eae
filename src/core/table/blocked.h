/* SPDX-License-Identifier: Apache-2.0 */
/* Calls in which a thread waits for a lock, to be found by the thread. */
#ifndef HF_CORE_TABLE_BLOCKED_H
#define HF_CORE_TABLE_BLOCKED_H

#include "core/claim/claim.h"

/* On the stack of the call. */
struct hf_blocked {
    struct hf_link link; /* in shard->blocked of the shard that the owner's number leads to */
    struct hf_client *client;
    const struct hf_lock_args *ask;
    hf_request request;
    const struct hf_blocked *seen_by; /* the call that looks for circles (with all shards locked) */
    bool ended;  /* it is told of a circle, and so in no other (under that shard's mutex) */
    bool listed; /* written before the call has its answer, under the mutex of that shard */
};

static inline struct hf_shard *hf__blocked_shard(struct hf_client *client, uint64_t owner)
{
    return &client->shards[owner % HF_SHARDS];
}

static inline void hf__blocked_list(struct hf_blocked *blocked)
{
    struct hf_shard *shard = hf__blocked_shard(blocked->client, blocked->ask->owner);
    hf__shard_lock(shard);
    if (!blocked->listed)
        hf__list_append(&shard->blocked, &blocked->link);
    blocked->listed = true;
    hf__shard_unlock(shard);
}

/* After the answer. */
static inline void hf__blocked_end(struct hf_blocked *blocked)
{
    if (!blocked->listed)
        return;
    struct hf_shard *shard = hf__blocked_shard(blocked->client, blocked->ask->owner);
    hf__shard_lock(shard);
    hf__link_remove(&blocked->link);
    hf__shard_unlock(shard);
}

#endif
