/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a shard: claims, holds and entries come from pools, so that acquiring and releasing
 * allocate nothing once the pools are warm. With the shard locked. Nothing is returned to the
 * system before the client closes; a stale pointer therefore never reaches foreign memory. */
#ifndef HF_CORE_CLAIM_POOL_H
#define HF_CORE_CLAIM_POOL_H

#include "base/testing.h"
#include "core/claim/claim.h"

/* Frees what a pointer of a shard or a claim pointed to, after the pointer was changed. A fork() of
 * another thread may come at any moment, and hf_close in the child frees what it finds. */
static inline void hf__free_replaced(void *old)
{
    atomic_signal_fence(memory_order_seq_cst);
    free(old);
    HF_POINT("core:freed");
}

static inline void hf__drop_error(struct hf_op *op)
{
    hf_error *old = op->out.error;
    op->out.error = NULL;
    if (old)
        hf__free_replaced(old);
}

int hf__pool_open(struct hf_shard *shard);
void hf__pool_close(struct hf_shard *shard);

/* NULL: out of memory; of claims, that there are no more free ones than are to be spared. */
struct hf_claim *hf__pool_get_claim(struct hf_shard *shard, uint32_t spared);
struct hf_grant *hf__pool_get_grant(struct hf_shard *shard);
struct hf_hold *hf__pool_get_hold(struct hf_shard *shard);
struct hf_lock_entry *hf__pool_get_entry(struct hf_shard *shard, const char *name, uint32_t length);

void hf__pool_put_claim(struct hf_shard *shard, struct hf_claim *claim);
void hf__pool_put_grant(struct hf_shard *shard, struct hf_grant *grant);
/* A grant's first hold stays with it. */
void hf__pool_put_hold(struct hf_shard *shard, struct hf_hold *hold);
void hf__pool_put_entry(struct hf_shard *shard, struct hf_lock_entry *entry);

/* Doubles the hash table when it is full. If memory is short, it stays: longer chains work too. */
void hf__pool_grow_buckets(struct hf_shard *shard);

#endif
