/* SPDX-License-Identifier: Apache-2.0 */
/* Semaphores, counters and latches: an object with a value, and the keys of those that have some of
 * it, or wait for it.
 *
 *   NAME/permits    a semaphore's permits in all     NAME/permits/NUMBER.COUNT   a holder, a waiter
 *   NAME/counter    a counter's value                NAME/counter/NUMBER.COUNT   a waiter
 *   NAME/latch      what a latch has left; an        NAME/latch/NUMBER.1         a waiter
 *                   open one has no key
 *
 * They lie below "NAME/", where those that take NAME for a mutex see them, and before "NAME/read/",
 * where a reader does. */
#ifndef HF_ENGINES_ETCD_KINDS_H
#define HF_ENGINES_ETCD_KINDS_H

#include "engines/etcd/etcd.h"

/* ---- layout.c: where the keys of a name are ---- */

struct etcd_span {
    struct etcd_bytes begin, end;
};

struct etcd_layout {
    struct etcd_bytes object;
    struct etcd_span claims;       /* below the object */
    struct etcd_span before, past; /* of "NAME/": keys of other kinds */
    char *memory;
};

/* False: out of memory. */
bool hf__etcd_layout_new(struct etcd_layout *layout, const struct etcd *etcd, const char *name,
                         size_t name_length, const char *word);
void hf__etcd_layout_free(struct etcd_layout *layout);
/* "permits", "counter" or "latch"; NULL: another mode. */
const char *hf__etcd_kind_word(hf_mode mode);
/* The word of a kind that `text` begins with, at a slash or at its end; NULL: none. */
const char *hf__etcd_kind_of_suffix(const char *text, size_t length);
/* How many permits, or units, the claim with this key has or wants. */
uint32_t hf__etcd_weight(const char *key, size_t length);

/* The condition that no key of another kind is there. */
void hf__etcd_txn_if_kind(struct etcd_txn *txn, const struct etcd_layout *layout);
/* Two ranges: the keys of other kinds. */
void hf__etcd_txn_other_kinds(struct etcd_txn *txn, enum etcd_branch branch,
                              const struct etcd_layout *layout);
etcd_range *hf__etcd_txn_claims(struct etcd_txn *txn, enum etcd_branch branch,
                                const struct etcd_layout *layout);
void hf__etcd_txn_object(struct etcd_txn *txn, enum etcd_branch branch,
                         const struct etcd_layout *layout);

/* ---- total.c: what the object of a semaphore says ---- */

#define ETCD_TOTAL_SIZE 40

struct etcd_total {
    bool there;
    bool readable;
    uint32_t permits;
    /* Claims up to this revision hold, however few permits there are by now: they were granted
     * when there were more. 0: none. */
    int64_t held_until;
    int64_t changed; /* the revision of its last change; 0: it is not there */
};

struct etcd_total hf__etcd_total_read(const etcd_key_value *object);
/* Returns the length. */
size_t hf__etcd_total_write(uint32_t permits, int64_t held_until, char text[ETCD_TOTAL_SIZE]);
/* The permits of all claims of the reply that are older than `created`. */
uint64_t hf__etcd_permits_before(const etcd_range_reply *claims, int64_t created);
/* The newest claim that holds, of a semaphore with that many permits: its revision; 0: none. */
int64_t hf__etcd_last_holder(const etcd_range_reply *claims, const struct etcd_total *total);

/* ---- wake.c: what lets a waiter in ---- */

/* Is that the object of a semaphore, a counter or a latch, behind "NAME/"? */
bool hf__etcd_is_object(const ProtobufCBinaryData *key, size_t prefix_length);
/* The object has changed: does the claim look again? */
bool hf__etcd_waits_for_object(const struct etcd_claim *claim, const ProtobufCBinaryData *object);
/* A key is gone: has the claim, of a semaphore, what it was missing? */
bool hf__etcd_takes_note(struct etcd_claim *claim, const etcd_key_value *gone);

/* ---- mutex.c, semaphore.c: attempts ---- */

void hf__etcd_mutex_go_on(struct etcd *etcd, struct etcd_claim *claim);
void hf__etcd_semaphore_go_on(struct etcd *etcd, struct etcd_claim *claim);

/* ---- counter.c, latch.c ---- */

void hf__etcd_counter_go_on(struct etcd *etcd, struct etcd_claim *claim);
/* False: it is released as any other claim is. */
bool hf__etcd_counter_release(struct etcd *etcd, struct hf_op *op);
/* The op has units, and no claim. */
bool hf__etcd_counter_is_taken(const struct hf_op *op);
void hf__etcd_latch_go_on(struct etcd *etcd, struct etcd_claim *claim);

/* ---- change.c: values are read, decided on, and written if nothing has changed meanwhile ---- */

void hf__etcd_change(struct etcd *etcd, struct hf_oneshot *oneshot);
void hf__etcd_changes_free(struct etcd *etcd);
void hf__etcd_marks_free(struct etcd_session *session);

#endif
