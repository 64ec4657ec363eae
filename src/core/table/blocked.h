/* SPDX-License-Identifier: Apache-2.0 */
/* Calls in which a thread of this process waits for a lock, of all clients, to be found by the
 * thread. A stripe's mutex is locked before a shard's, never after it. */
#ifndef HF_CORE_TABLE_BLOCKED_H
#define HF_CORE_TABLE_BLOCKED_H

#include "core/claim/claim.h"

/* On the stack of the call. */
struct hf_blocked {
    struct hf_link link; /* in the stripe that the owner's number leads to */
    struct hf_client *client;
    const struct hf_lock_args *ask;
    hf_request request;
    /* With all stripes locked: the call that looks for circles and has come by, from which call, by
     * which hold of the thread (0: that one is behind this one), and the call after this one. */
    const struct hf_blocked *seen_by;
    struct hf_blocked *from, *next;
    hf_request by_hold;
    bool ended;  /* it is told of a circle, and so in no other (under the stripe's mutex) */
    bool listed; /* written before the call has its answer, under the mutex of the stripe */
};

struct hf_blocked_stripe {
    pthread_mutex_t mutex;
    struct hf_link calls;
} __attribute__((aligned(64)));

/* A thread holds all of them at once; the thread sanitizer allows for 64 mutexes. */
#define HF_BLOCKED_STRIPES 16u
extern struct hf_blocked_stripe hf__blocked_stripes[HF_BLOCKED_STRIPES];

/* Before anything else. May be said again. */
void hf__blocked_open(void);
/* All of them are one moment: no call that is listed has its answer in between, and so no thread
 * that waits takes or releases anything. Also around a fork(). */
void hf__blocked_lock_all(void);
void hf__blocked_unlock_all(void);
/* In a forked child, whose parent had locked all: no thread waits there. */
void hf__blocked_forked(void);

static inline struct hf_blocked_stripe *hf__blocked_stripe(uint64_t owner)
{
    return &hf__blocked_stripes[owner % HF_BLOCKED_STRIPES];
}

static inline void hf__blocked_list(struct hf_blocked *blocked)
{
    struct hf_blocked_stripe *stripe = hf__blocked_stripe(blocked->ask->owner);
    pthread_mutex_lock(&stripe->mutex);
    if (!blocked->listed)
        hf__list_append(&stripe->calls, &blocked->link);
    blocked->listed = true;
    pthread_mutex_unlock(&stripe->mutex);
}

/* After the answer. */
static inline void hf__blocked_end(struct hf_blocked *blocked)
{
    if (!blocked->listed)
        return;
    struct hf_blocked_stripe *stripe = hf__blocked_stripe(blocked->ask->owner);
    pthread_mutex_lock(&stripe->mutex);
    hf__link_remove(&blocked->link);
    pthread_mutex_unlock(&stripe->mutex);
}

#endif
