/* SPDX-License-Identifier: Apache-2.0 */
/* The local queue per name: threads of one process that want the same name line up here, and only
 * the head asks the store. Also the place where an owner finds what it already holds. */
#ifndef HF_CORE_TABLE_LOCK_TABLE_H
#define HF_CORE_TABLE_LOCK_TABLE_H

#include "core/claim/claim.h"

enum hf_admission {
    HF_ADMIT_UPGRADE, /* the owner holds HF_UPGRADE: claim, with new_hold set, asks for HF_WRITE */
    HF_ADMIT_ASK,     /* claim is new and may ask the store */
    HF_ADMIT_QUEUED,  /* claim is new, and waits until it is the head */
    HF_ADMIT_EARLY,   /* the owner's claim, pinned, has to come to rest before it can be raised */
    /* The answer is there: */
    HF_ADMIT_NESTED, /* the owner holds it already: answer.hold is the second hold */
    HF_ADMIT_TAKEN,  /* granted at once: answer.hold is the hold */
    HF_ADMIT_NO      /* answer says why */
};

struct hf_entrance {
    enum hf_admission how;
    unsigned calls; /* how often the call has been counted in, and must be counted out */
    struct hf_claim *claim;
    bool contended; /* ASK, QUEUED: this client holds the name, or asks for it */
    struct hf_answer answer;
};

struct hf_shard *hf__shard_of(struct hf_client *client, uint64_t name_hash);
int hf__lock_table_open(struct hf_client *client);
void hf__lock_table_close(struct hf_client *client);

/* The table of entries. With the shard locked. */
struct hf_lock_entry *hf__lock_entry_find(struct hf_shard *shard, const struct hf_lock_args *ask);
struct hf_lock_entry *hf__lock_entry_make(struct hf_shard *shard, const struct hf_lock_args *ask);
void hf__lock_entry_unlink(struct hf_shard *shard, struct hf_lock_entry *entry);
void hf__lock_entry_add_hold(struct hf_claim *claim, struct hf_hold *hold);

/* Counts the call in, unless the answer is there already. */
void hf__lock_entry_admit(struct hf_client *client, const struct hf_lock_args *ask,
                          struct hf_entrance *entrance);

/* hf_close frees nothing while a call is counted in (shard->calls_begun). Counting out is the last
 * that a call does with its client. Begin answers false when the client is closing. */
bool hf__lock_entry_call_begin(struct hf_client *client, uint64_t name_hash);
void hf__lock_entry_call_ended(struct hf_client *client, uint64_t name_hash);
uint64_t hf__lock_entry_calls(struct hf_client *client);

/* Keeps the entry in step after a claim has moved on from `before`: a granted one joins the
 * holders, with its new hold, and one that no longer asks gives its turn to the next. */
void hf__lock_entry_follow(struct hf_claim *claim, enum hf_claim_state before);

/* Is a claim of this entry being undone? A bare try waits for that, else it might meet nothing but
 * what a request of its own client has left. An attach waits also while the store is silent: what
 * an earlier one has taken from under its key goes back there. With the shard locked. */
bool hf__lock_entry_is_undone(const struct hf_shard *shard, const struct hf_lock_entry *entry,
                              const char *attach_key);

/* Tells the client's sink, once a call, that the claim has begun to wait. */
void hf__lock_entry_say_waiting(struct hf_claim *claim);

/* The claim has come to rest, held, and its driver is done with it: from here on others may begin
 * something. `watch`: it rests on a lease that the loop has not heard of. */
void hf__lock_entry_settle(struct hf_claim *claim, bool watch);

/* Both at once, for a claim that was granted on the calling thread: it joins the holders, its
 * answer is taken, it rests. */
struct hf_answer hf__lock_entry_grant_sync(struct hf_claim *claim);
/* The same with the shard locked all the time since the store was asked, and only the caller
 * told. */
struct hf_answer hf__lock_entry_grant(struct hf_claim *claim);

/* Notes whether the head of the claim's queue has been without an answer for too long. */
void hf__lock_entry_judge_head(struct hf_claim *claim, int64_t now_ms);

/* With the shard locked. */
void hf__lock_entry_leave_queue(struct hf_claim *claim);

/* The claim is over: out of the entry, memory back to the pool. */
void hf__claim_forget(struct hf_claim *claim);
/* With the shard locked, for a claim that has no task out. */
void hf__claim_free(struct hf_shard *shard, struct hf_claim *claim);
/* With the shard locked: the end of hf__claim_pin. */
void hf__claim_unpin(struct hf_claim *claim);

/* The entry's last claim is gone. The entry goes too, or stays a while for what is kept in it. */
void hf__lock_entry_left(struct hf_client *client, struct hf_shard *shard,
                         struct hf_lock_entry *entry);

/* Without the shards locked, once no claim is left: what engines keep goes back. */
void hf__lock_table_drop_idle(struct hf_client *client);

/* The strongest mode among the claim's holds, or HF_KEEP_NOTHING. With the shard locked. */
int hf__lock_entry_needed(const struct hf_claim *claim);
/* Is there nothing to lower to `needed`? What the store has refused is not asked for again until a
 * caller wants it anew. With the shard locked. */
static inline bool hf__lock_entry_is_settled(const struct hf_claim *claim, int needed)
{
    bool refused = needed != HF_KEEP_NOTHING && needed == claim->refused_keep;
    return needed == claim->store_mode || refused; /* mutant: lowering-that-store-refuses-is */
}
/* Takes `hold` out of its claim and frees it, after its on_lost has returned. With the shard
 * locked, which it may unlock for a while. */
void hf__lock_entry_drop_hold(struct hf_hold *hold);

#endif
