/* SPDX-License-Identifier: Apache-2.0 */
/* Of many held locks, most have nothing going on for a long time. Their claims are set aside: what
 * they carry goes into the entry and the grant, and their memory serves other claims. A call that
 * needs such a claim fetches it back. A few claims' memory is kept for that, so that what is held
 * can be renewed, given back and lost when there is no memory left. */
#ifndef HF_CORE_CLAIM_CLAIM_COMPACT_H
#define HF_CORE_CLAIM_CLAIM_COMPACT_H

#include "core/claim/claim.h"

#include "base/testing.h"

/* Of each shard. Tests lower them. */
struct hf_compact_bounds {
    uint32_t resting; /* the number of claims that rest without being set aside */
    uint32_t fetched; /* the number renewed at a time */
    uint32_t spared;  /* claims' memory that no new lock gets while any are set aside */
};

extern HF_TUNABLE struct hf_compact_bounds hf__compact_bounds;

enum hf_fetch {
    HF_FETCH_TO_SHARE,  /* another call wants the name: as a new lock it may have to go without */
    HF_FETCH_TO_RENEW,  /* the loop watches its lease then */
    HF_FETCH_TO_UNLOCK, /* one of its holds is given back */
    HF_FETCH_TO_END     /* it is over */
};

void hf__compact_init(struct hf_shard *shard);
/* On the loop of a client whose engine is about to be closed: nothing is renewed any more. */
void hf__compact_stop(struct hf_client *client);

/* All that follows with the shard locked, unless it says otherwise. */

/* A grant's claim, fetched if need be. NULL: out of memory. */
struct hf_claim *hf__compact_restore(struct hf_grant *grant, enum hf_fetch fetch);
static inline struct hf_claim *hf__compact_fetch(struct hf_grant *grant, enum hf_fetch fetch)
{
    return grant->claim ? grant->claim : hf__compact_restore(grant, fetch);
}

/* Of what a client has that is being closed, as much as should be given back at a time. False: none
 * was set aside. Locks the shard. */
bool hf__compact_fetch_some(struct hf_shard *shard);

/* Gives back a hold of a claim for which there is no memory. The store is asked when there is, and
 * keeps the lock no longer than its lease, which is not renewed. What hf_unlock answers. */
int hf__compact_drop_hold(struct hf_hold *hold);

/* There may be memory for what waits for it. */
void hf__compact_end_one(struct hf_shard *shard);
static inline void hf__compact_end(struct hf_shard *shard)
{
    if (!hf__list_empty(&shard->aside_ended))
        hf__compact_end_one(shard);
}

/* How many free claims a new lock must leave. */
static inline uint32_t hf__compact_spares(const struct hf_shard *shard)
{
    return shard->aside_count ? hf__compact_bounds.spared : 0;
}

/* A claim has come to rest, or has been renewed or lost meanwhile: it may be set aside next. The
 * second locks the shard; on the loop both, where they change something. */
void hf__compact_rests(struct hf_claim *claim);
void hf__compact_may_rest(struct hf_claim *claim);

/* On the loop: others may be renewed in its place, because it is being given back, or the store
 * keeps silent about its lease. The second locks the shard. */
void hf__compact_make_way(struct hf_claim *claim);
void hf__compact_unheard(struct hf_claim *claim);

/* Its memory goes back to the pool. */
void hf__compact_leave(struct hf_claim *claim);
static inline void hf__compact_leaves(struct hf_claim *claim)
{
    if (claim->fetched || hf__link_linked(&claim->rest_link))
        hf__compact_leave(claim);
}

#endif
