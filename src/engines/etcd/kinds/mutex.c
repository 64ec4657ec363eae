/* SPDX-License-Identifier: Apache-2.0 */
/* Mutexes and read-write locks: how an attempt becomes a key in a queue, and its neighbours a
 * verdict.
 *
 *   a bare try:   if no key is in its way, put the key: GRANTED; else REFUSED, and nothing is left
 *   a wait:       put the key, and look for an older one in its way, in one transaction
 *                   none: GRANTED
 *                   one: it is remembered and watched, REFUSED
 *   asked again:  look for the own key and for an older one, in one read */
#include "kinds.h"

static void ask_position(struct etcd *etcd, struct etcd_claim *claim);

/* ---- what is in the way ---- */

static void wait_for(struct etcd *etcd, struct etcd_claim *claim, const etcd_key_value *blocker,
                     int64_t revision)
{
    if (hf__etcd_claim_is_same_kind(claim, &blocker->key))
        hf__etcd_wait_for_key(etcd, claim, &blocker->key, revision, ask_position);
    else
        hf__etcd_wrong_kind(etcd, claim);
}

static void position_answered(struct etcd *etcd, struct etcd_request *request,
                              const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    const etcd_txn_reply *txn = reply->message;
    if (hf__etcd_has_left(request) || !hf__etcd_is_reply_good(etcd, claim, reply))
        return;
    const etcd_key_value *own = hf__etcd_txn_first_key(txn, 0);
    const etcd_range_reply *blocking = hf__etcd_txn_range_reply(txn, 1);
    if (!blocking || !hf__etcd_revision(txn->header)) {
        hf__etcd_unreadable(etcd, claim);
        /* mutant: etcd-own-key-is-there */
    } else if (!own || own->create_revision != claim->created) {
        hf__etcd_begin_again(etcd, claim);
    } else if (blocking->n_kvs == 0) {
        claim->changed = own->mod_revision;
        hf__etcd_grant(etcd, claim, hf__etcd_revision(txn->header));
    } else {
        wait_for(etcd, claim, blocking->kvs[0], hf__etcd_revision(txn->header));
    }
}

/* The oldest or the newest of those in its way. */
static etcd_range *add_blocking(struct etcd_txn *txn, enum etcd_branch branch,
                                const struct etcd_claim *claim, bool oldest)
{
    etcd_range *range =
        hf__etcd_txn_range(txn, branch, hf__etcd_bytes(claim->blocking, claim->blocking_length),
                           hf__etcd_bytes(claim->blocking_end, claim->blocking_end_length));
    hf__etcd_range_by_creation(range, oldest, 1);
    range->keys_only = true;
    return range;
}

static void ask_position(struct etcd *etcd, struct etcd_claim *claim)
{
    struct etcd_txn txn;
    struct etcd_request *request = hf__etcd_attempt_request(etcd, claim, position_answered);
    if (!request)
        return;
    hf__etcd_txn_begin(&txn);
    hf__etcd_txn_range(&txn, ETCD_THEN, hf__etcd_key_of(claim), hf__etcd_bytes("", 0))->keys_only =
        true;
    add_blocking(&txn, ETCD_THEN, claim, false)->max_create_revision = claim->created - 1;
    hf__etcd_ask(etcd, request, &txn.message.base);
}

/* ---- making the key ---- */

static void key_answered(struct etcd *etcd, struct etcd_request *request,
                         const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    const etcd_txn_reply *txn = reply->message;
    if (hf__etcd_has_left(request) || !hf__etcd_is_reply_good(etcd, claim, reply))
        return;
    int64_t revision = hf__etcd_revision(txn->header);
    if (!txn->succeeded) {
        if (hf__etcd_take_over_key(claim, hf__etcd_txn_first_key(txn, 0)))
            ask_position(etcd, claim);
        else
            hf__etcd_begin_again(etcd, claim);
        return;
    }
    const etcd_range_reply *blocking = hf__etcd_txn_range_reply(txn, 0);
    if (!blocking || revision <= 0) {
        hf__etcd_unreadable(etcd, claim);
        return;
    }
    hf__etcd_key_is_there(claim, revision, revision);
    if (hf__etcd_txn_first_key(txn, 1))
        hf__etcd_wrong_kind(etcd, claim);
    else if (blocking->n_kvs > 0)
        wait_for(etcd, claim, blocking->kvs[0], revision);
    else
        hf__etcd_grant(etcd, claim, revision);
}

/* What a transaction points to that puts a claim's keys. */
struct etcd_put {
    char note[ETCD_NOTE_SIZE], reader[ETCD_KEY_SIZE];
};

/* The last ones of the transaction. A writer has the key of a reader besides, which stays when it
 * becomes one: it must be older than those of writers that wait. And it keeps a late repetition
 * from putting the writer's key again. */
static void put_keys(const struct etcd *etcd, struct etcd_txn *txn, const struct etcd_claim *claim,
                     struct etcd_put *put)
{
    int64_t lease = claim->session->id;
    struct etcd_bytes note = hf__etcd_bytes(
        put->note, hf__etcd_claim_note(etcd, claim, claim->op->in.lease_ms, put->note));
    hf__etcd_txn_if_created(txn, hf__etcd_key_of(claim), 0);
    hf__etcd_txn_put(txn, ETCD_THEN, hf__etcd_key_of(claim), note, lease);
    if (hf__etcd_claim_is_writer(claim)) {
        struct etcd_bytes reader =
            hf__etcd_bytes(put->reader, hf__etcd_claim_reader_key(claim, put->reader));
        hf__etcd_txn_if_created(txn, reader, 0); /* mutant: etcd-late-writer-finds-reader */
        hf__etcd_txn_put(txn, ETCD_THEN, reader, note, lease);
    }
}

/* Keys of a mutex of this name are not among those that are in a reader's way. They come before
 * "name/read/", as they begin with a digit or a letter up to "f". */
static void add_mutexes(struct etcd_txn *txn, enum etcd_branch branch,
                        const struct etcd_claim *claim)
{
    etcd_range *mutexes =
        hf__etcd_txn_range(txn, branch, hf__etcd_bytes(claim->key, claim->prefix_length),
                           hf__etcd_bytes(claim->key, claim->prefix_length + sizeof "read/" - 1));
    mutexes->limit = 1;
    mutexes->keys_only = true;
}

static void ask_for_key(struct etcd *etcd, struct etcd_claim *claim)
{
    struct etcd_put put;
    struct etcd_txn txn;
    struct etcd_bytes key = hf__etcd_key_of(claim), none = hf__etcd_bytes("", 0);
    struct etcd_request *request = hf__etcd_attempt_request(etcd, claim, key_answered);
    if (!request)
        return;
    hf__etcd_txn_begin(&txn);
    /* All that are there before the key is put are older. */
    add_blocking(&txn, ETCD_THEN, claim, false);
    if (claim->op->in.mode == HF_READ)
        add_mutexes(&txn, ETCD_THEN, claim);
    put_keys(etcd, &txn, claim, &put);
    hf__etcd_txn_range(&txn, ETCD_ELSE, key, none);
    hf__etcd_ask_to_put(etcd, claim, request, &txn);
}

/* ---- a bare try ---- */

static void try_answered(struct etcd *etcd, struct etcd_request *request,
                         const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    const etcd_txn_reply *txn = reply->message;
    if (hf__etcd_has_left(request) || !hf__etcd_is_reply_good(etcd, claim, reply))
        return;
    int64_t revision = hf__etcd_revision(txn->header);
    const etcd_key_value *first = txn->succeeded ? NULL : hf__etcd_txn_first_key(txn, 1);
    if (revision <= 0) {
        hf__etcd_unreadable(etcd, claim);
    } else if (txn->succeeded) {
        hf__etcd_key_is_there(claim, revision, revision);
        hf__etcd_grant(etcd, claim, revision);
    } else if (hf__etcd_take_over_key(claim, hf__etcd_txn_first_key(txn, 0))) {
        ask_position(etcd, claim);
    } else if ((first && !hf__etcd_claim_is_same_kind(claim, &first->key)) ||
               (!txn->succeeded && hf__etcd_txn_first_key(txn, 2))) {
        hf__etcd_wrong_kind(etcd, claim);
    } else {
        hf__etcd_refuse(etcd, claim);
    }
}

static void ask_to_try(struct etcd *etcd, struct etcd_claim *claim)
{
    struct etcd_put put;
    struct etcd_txn txn;
    struct etcd_bytes key = hf__etcd_key_of(claim), none = hf__etcd_bytes("", 0);
    struct etcd_bytes begin = hf__etcd_bytes(claim->blocking, claim->blocking_length);
    struct etcd_bytes end = hf__etcd_bytes(claim->blocking_end, claim->blocking_end_length);
    struct etcd_request *request = hf__etcd_attempt_request(etcd, claim, try_answered);
    if (!request)
        return;
    hf__etcd_txn_begin(&txn);
    hf__etcd_txn_if_all_older(&txn, begin, end, 1);
    if (claim->op->in.mode == HF_READ)
        hf__etcd_txn_if_all_older(
            &txn, hf__etcd_bytes(claim->key, claim->prefix_length),
            hf__etcd_bytes(claim->key, claim->prefix_length + sizeof "read/" - 1), 1);
    put_keys(etcd, &txn, claim, &put);
    hf__etcd_txn_range(&txn, ETCD_ELSE, key, none);
    add_blocking(&txn, ETCD_ELSE, claim, true);
    if (claim->op->in.mode == HF_READ)
        add_mutexes(&txn, ETCD_ELSE, claim);
    hf__etcd_ask_to_put(etcd, claim, request, &txn);
}

void hf__etcd_mutex_go_on(struct etcd *etcd, struct etcd_claim *claim)
{
    if (claim->created != 0)
        ask_position(etcd, claim);
    else if (claim->op->in.enqueue)
        ask_for_key(etcd, claim);
    else
        ask_to_try(etcd, claim);
}
