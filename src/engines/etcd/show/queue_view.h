/* SPDX-License-Identifier: Apache-2.0 */
/* A name's queue as a reply shows it: its keys in the order of their creation, and which of them
 * hold. */
#ifndef HF_ENGINES_ETCD_SHOW_QUEUE_VIEW_H
#define HF_ENGINES_ETCD_SHOW_QUEUE_VIEW_H

#include "engines/etcd/etcd.h"
#include "note.h"

enum etcd_key_kind {
    ETCD_KEY_FOREIGN,
    ETCD_KEY_MUTEX,
    ETCD_KEY_READER,
    ETCD_KEY_WRITER,
    ETCD_KEY_CLAIM, /* of a semaphore, a counter or a latch */
    ETCD_KEY_OBJECT /* of one of them */
};

struct etcd_seen_key {
    const etcd_key_value *key;
    size_t name_length; /* of the lock's name in it, the root included */
    size_t suffix;      /* where the rest begins, behind "name/" */
    enum etcd_key_kind kind;
    hf_mode mode;    /* of a claim, or an object: HF_PERMIT, HF_COUNTER, HF_LATCH */
    uint32_t weight; /* of a claim: permits, or units */
    bool holds;
};

/* What kind of key it is, and of which name. */
struct etcd_seen_key hf__etcd_see_key(const etcd_key_value *key);
/* By name, then by creation, without the second keys of writers. Returns how many are left. */
size_t hf__etcd_sort_seen(struct etcd_seen_key *keys, size_t count);
/* The object among the keys of one name, or NULL. */
const struct etcd_seen_key *hf__etcd_find_object(const struct etcd_seen_key *keys, size_t count);
/* Says which of the keys of one name, in order, hold. */
void hf__etcd_find_holders(struct etcd_seen_key *keys, size_t count);

#endif
