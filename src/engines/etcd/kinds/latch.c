/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a latch. It is open when its object is not there. One transaction looks whether it
 * is, and takes the waiter's key away then. */
#include "change.h"

static void count_answered(struct etcd *etcd, struct etcd_request *request,
                           const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    const etcd_txn_reply *txn = reply->message;
    if (hf__etcd_has_left(request) || !hf__etcd_is_reply_good(etcd, claim, reply))
        return;
    int64_t revision = hf__etcd_revision(txn->header);
    const etcd_key_value *own = hf__etcd_txn_first_key(txn, 0);
    if (revision <= 0) {
        hf__etcd_unreadable(etcd, claim);
    } else if (txn->succeeded &&
               (hf__etcd_txn_first_key(txn, 1) || hf__etcd_txn_first_key(txn, 2))) {
        hf__etcd_wrong_kind(etcd, claim);
    } else if (txn->succeeded) {
        hf__etcd_grant_without_key(etcd, claim);
    } else if (!claim->op->in.enqueue) {
        hf__etcd_refuse(etcd, claim);
    } else if (claim->created != 0 && (!own || own->create_revision != claim->created)) {
        hf__etcd_begin_again(etcd, claim);
    } else {
        /* What was not there when this was read has been put by it. */
        hf__etcd_key_is_there(claim, own ? own->create_revision : revision,
                              own ? own->mod_revision : revision);
        ProtobufCBinaryData object = hf__etcd_binary(claim->layout->object);
        hf__etcd_wait_for_key(etcd, claim, &object, revision, hf__etcd_latch_go_on);
    }
}

/* A key that is there already is put once more, which changes nothing but its revision. */
void hf__etcd_latch_go_on(struct etcd *etcd, struct etcd_claim *claim)
{
    struct etcd_txn txn;
    char note[ETCD_NOTE_SIZE];
    struct etcd_bytes key = hf__etcd_key_of(claim), none = hf__etcd_bytes("", 0);
    struct etcd_request *request = hf__etcd_attempt_request(etcd, claim, count_answered);
    if (!request)
        return;
    bool puts = claim->op->in.enqueue && claim->created == 0;
    hf__etcd_txn_begin(&txn);
    hf__etcd_txn_if_created(&txn, claim->layout->object, 0);
    hf__etcd_txn_range(&txn, ETCD_THEN, key, none)->keys_only = true;
    hf__etcd_txn_other_kinds(&txn, ETCD_THEN, claim->layout);
    hf__etcd_txn_range(&txn, ETCD_ELSE, key, none)->keys_only = true;
    if (hf__known_is_there(&claim->known))
        hf__etcd_txn_delete(&txn, ETCD_THEN, key);
    if (puts) {
        size_t length = hf__etcd_claim_note(etcd, claim, 0, note);
        hf__etcd_txn_put(&txn, ETCD_ELSE, key, hf__etcd_bytes(note, length), claim->session->id);
        hf__etcd_ask_to_put(etcd, claim, request, &txn);
    } else {
        hf__etcd_ask(etcd, request, &txn.message.base);
    }
}
