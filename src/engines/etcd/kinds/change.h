/* SPDX-License-Identifier: Apache-2.0 */
/* A change of a value: read, decided on, and written if nothing has changed meanwhile. A mark says
 * that it was done: a key on a long lease of ours, written in the same transaction with the
 * change's number. So a change whose reply was lost looks whether it was done. If not, it changes
 * the mark, on whose revision the lost request relies: that can never be done then. */
#ifndef HF_ENGINES_ETCD_KINDS_CHANGE_H
#define HF_ENGINES_ETCD_KINDS_CHANGE_H

#include "kinds.h"

struct etcd_change;

/* What was read, at one revision. */
struct etcd_state {
    const etcd_key_value *object;   /* NULL: there is none */
    const etcd_range_reply *claims; /* in the order of their creation */
    const etcd_key_value *own;      /* the key of the claim, if the change is one's */
    int64_t revision;
};

struct etcd_change_kind {
    /* Calls one of hf__etcd_change_end, hf__etcd_change_fail, hf__etcd_change_write. */
    void (*decide)(struct etcd_change *change, const struct etcd_state *state);
    /* It was written; `claims`: as they were by then. Ends the change, or writes once more; NULL:
     * ends it. */
    void (*written)(struct etcd_change *change, const etcd_range_reply *claims);
    void (*ended)(struct etcd_change *change, int code);
    bool reads_only;
    bool stays; /* one that is open stays when it has ended, for hf__etcd_change_ask_again */
};

struct etcd_change {
    const struct etcd_change_kind *kind;
    struct etcd *etcd;
    struct hf_link link;   /* in etcd->changes */
    struct etcd_wait wait; /* for its session */
    struct hf_timer pause;
    struct etcd_layout layout;
    /* Of a claim: its key, which goes when the change is done; and the revision of that. */
    struct etcd_bytes own;
    int64_t own_created;
    /* Whose it is, one of these; and what the answer is. */
    struct hf_oneshot *oneshot;
    struct etcd_claim *claim;
    struct hf_op *op;
    hf_error **error;
    bool contacted;
    uint32_t result;
    /* How it is known again. */
    struct etcd_session *session; /* counted */
    struct etcd_mark *mark;
    uint64_t number;
    struct hf_known known; /* open: it may have been done, or may be yet */
    bool done;             /* as its mark says */
    bool full;             /* it was refused for want of room, and comes no later than that */
    bool lost;             /* and nothing can tell that any more: our session has ended */
    bool second;           /* it was done, and is being completed */
    unsigned tries, silences;
    /* Of a semaphore that gets fewer permits: as it was, and the last claim that holds. */
    struct etcd_total earlier;
    bool lowers;
    int64_t held_until;
    /* What is written. */
    struct etcd_write {
        char text[ETCD_TOTAL_SIZE];
        size_t length; /* 0: the object goes */
        int64_t if_changed;
        int64_t claims_before; /* not 0: if no claim is as new as this revision */
    } write;
};

/* NULL: out of memory. */
struct etcd_change *hf__etcd_change_new(struct etcd *etcd, const struct etcd_change_kind *kind,
                                        const char *name, size_t name_length, const char *word);
void hf__etcd_change_begin(struct etcd_change *change);
/* It is read again. */
void hf__etcd_change_ask_again(struct etcd_change *change);
/* Without a word to its owner. */
void hf__etcd_change_drop(struct etcd_change *change);
void hf__etcd_change_end(struct etcd_change *change, int code);
__attribute__((format(printf, 3, 4))) void hf__etcd_change_fail(struct etcd_change *change,
                                                                int code, const char *format, ...);
/* `change->write` says what. */
void hf__etcd_change_write(struct etcd_change *change);

/* ---- mark.c ---- */

struct etcd_mark {
    struct hf_link link; /* in its session's `marks`, while no change has it */
    unsigned index;
    int64_t changed; /* its revision; 0: it is not there */
    char *key, *earlier;
    size_t key_length, earlier_length; /* earlier_length not 0: a key that goes with the next one */
};

/* A mark of this session for a change of this name. NULL: out of memory. */
struct etcd_mark *hf__etcd_mark_take(const struct etcd *etcd, struct etcd_session *session,
                                     const char *name, size_t name_length);
void hf__etcd_mark_give_back(struct etcd_session *session, struct etcd_mark *mark);

#endif
