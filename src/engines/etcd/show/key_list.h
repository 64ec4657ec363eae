/* SPDX-License-Identifier: Apache-2.0 */
/* The locks' keys among all keys of a range, read page by page: other programs may have very many
 * there, with large values. */
#ifndef HF_ENGINES_ETCD_SHOW_KEY_LIST_H
#define HF_ENGINES_ETCD_SHOW_KEY_LIST_H

#include "queue_view.h"

struct etcd_key_copy;
struct etcd_key_list;

/* `failure` NULL: they are all there. Else what is there is not all; its text lives until this
 * returns. The list is the function's then: it ends by hf__etcd_key_list_free, or with the client.
 */
typedef void etcd_keys_listed(struct etcd *etcd, struct etcd_key_list *list,
                              const struct etcd_reply *failure);

struct etcd_key_list {
    struct hf_oneshot *oneshot;
    struct etcd_seen_key *keys; /* by name, then by creation */
    size_t count;
    unsigned out; /* requests about them that have no reply yet */
    int code;     /* what they have come to */
    /* The list's own. */
    struct hf_link link; /* in etcd->key_lists */
    etcd_keys_listed *listed;
    struct etcd_key_copy *copies;
    size_t room;
    size_t valued;    /* the keys before this one have their values */
    int64_t revision; /* at which all of it is read; 0: not known yet, or any */
    size_t from_length, end_length;
    char from[ETCD_KEY_SIZE], end[ETCD_KEY_SIZE];
    bool *follows; /* no other program's key is between this one and the one before */
};

/* The keys of the one-shot's name, or of all names. False: out of memory. */
bool hf__etcd_list_keys(struct etcd *etcd, struct hf_oneshot *oneshot, etcd_keys_listed *listed);
void hf__etcd_key_list_free(struct etcd_key_list *list);

#endif
