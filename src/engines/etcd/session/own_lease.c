/* SPDX-License-Identifier: Apache-2.0 */
/* A claim's own lease, where it asks for one: the key moves from the session's lease to it once it
 * is granted, so that it ends by itself, whatever becomes of this client. It is never renewed by
 * heartbeats: a longer one is another lease. Keys of read-write locks do not move, as their order
 * is that of their last change: they rest on the session, and a timer here ends them. */
#include "engines/etcd/etcd.h"

#include "base/rand.h"

#include <string.h>

static int64_t new_id(void)
{
    uint64_t salt;
    hf__random(&salt, sizeof salt);
    return (int64_t)(salt >> 1) | 1;
}

static void revoke(struct etcd *etcd, int64_t *id)
{
    HfEtcd__LeaseRevokeRequest message = HF_ETCD__LEASE_REVOKE_REQUEST__INIT;
    if (*id == 0)
        return;
    struct etcd_request *request =
        hf__etcd_request(etcd, &hf__etcd_lease_revoke, hf__etcd_ignore_reply);
    message.id = *id;
    *id = 0;
    /* Without memory it ends by itself. */
    if (request)
        hf__etcd_ask(etcd, request, &message.base);
}

/* All but the next one. */
static void drop_earlier(struct etcd *etcd, struct etcd_claim *claim)
{
    revoke(etcd, &claim->own_id);
    for (unsigned i = 0; i < ETCD_STRAYS_MAX; i++)
        revoke(etcd, &claim->stray_ids[i]); /* mutant: etcd-stray-lease-is-revoked */
}

void hf__etcd_own_lease_drop(struct etcd *etcd, struct etcd_claim *claim)
{
    drop_earlier(etcd, claim);
    revoke(etcd, &claim->next_id);
}

/* The move to it has no reply: the key may be on it, or may still come there. One that has no place
 * here ends by itself. */
static void keep_stray(struct etcd_claim *claim)
{
    for (unsigned i = 0; i < ETCD_STRAYS_MAX && claim->next_id != 0; i++)
        if (claim->stray_ids[i] == 0) {
            claim->stray_ids[i] = claim->next_id;
            claim->next_id = 0;
        }
}

static void lease_granted(struct etcd *etcd, struct etcd_request *request,
                          const struct etcd_reply *reply);

void hf__etcd_own_lease_begin(struct etcd *etcd, struct etcd_claim *claim, int64_t lease_ms,
                              etcd_moved *moved)
{
    HfEtcd__LeaseGrantRequest message = HF_ETCD__LEASE_GRANT_REQUEST__INIT;
    struct etcd_request *request =
        hf__etcd_claim_request(etcd, claim, &hf__etcd_lease_grant, lease_granted);
    if (!request) {
        moved(etcd, claim, ETCD_MOVE_NO_MEMORY, NULL);
        return;
    }
    keep_stray(claim);
    request->moved = moved;
    claim->next_id = new_id();
    claim->next_ms = lease_ms;
    message.id = claim->next_id;
    message.ttl = hf__etcd_ttl_of(lease_ms);
    hf__etcd_ask(etcd, request, &message.base);
}

static void key_moved(struct etcd *etcd, struct etcd_request *request,
                      const struct etcd_reply *reply);

/* Only the key as it was seen last moves, so that a request that comes late moves nothing back. */
static void move_key(struct etcd *etcd, struct etcd_claim *claim, etcd_moved *moved)
{
    struct etcd_txn txn;
    char note[ETCD_NOTE_SIZE];
    struct etcd_bytes key = hf__etcd_key_of(claim);
    if (!claim->op || claim->over || claim->created == 0) {
        moved(etcd, claim, ETCD_MOVE_LOST, NULL);
        return;
    }
    struct etcd_request *request = hf__etcd_claim_request(etcd, claim, &hf__etcd_txn, key_moved);
    if (!request) {
        moved(etcd, claim, ETCD_MOVE_NO_MEMORY, NULL);
        return;
    }
    request->moved = moved;
    size_t length = hf__etcd_claim_note(etcd, claim, claim->next_ms, note);
    hf__etcd_txn_begin(&txn);
    hf__etcd_txn_if_changed(&txn, key, claim->changed);
    hf__etcd_txn_put(&txn, ETCD_THEN, key, hf__etcd_bytes(note, length), claim->next_id);
    hf__etcd_txn_range(&txn, ETCD_ELSE, key, hf__etcd_bytes("", 0))->keys_only = true;
    hf__etcd_ask(etcd, request, &txn.message.base);
}

static void lease_granted(struct etcd *etcd, struct etcd_request *request,
                          const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    if (reply->status == HF_GRPC_OK)
        move_key(etcd, claim, request->moved);
    else
        request->moved(etcd, claim, ETCD_MOVE_FAILED, reply);
}

static void key_moved(struct etcd *etcd, struct etcd_request *request,
                      const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    const etcd_txn_reply *txn = reply->message;
    if (reply->status != HF_GRPC_OK) {
        request->moved(etcd, claim, ETCD_MOVE_FAILED, reply);
        return;
    }
    if (txn->succeeded) {
        drop_earlier(etcd, claim); /* nothing is on them any more, nor can be */
        claim->own_id = claim->next_id;
        claim->next_id = 0;
        claim->changed = hf__etcd_revision(txn->header);
        request->moved(etcd, claim, ETCD_MOVED, reply);
        return;
    }
    const etcd_key_value *own = hf__etcd_txn_first_key(txn, 0);
    /* mutant: etcd-broken-lock-is-not-moved */
    if (!own || own->create_revision != claim->created) {
        request->moved(etcd, claim, ETCD_MOVE_LOST, reply);
        return;
    }
    /* An earlier move has been executed whose reply is missing. No more often than there are such
     * moves. */
    claim->changed = own->mod_revision;
    move_key(etcd, claim, request->moved);
}

/* ---- hf_renew ---- */

static void renewal_end(struct etcd *etcd, struct hf_oneshot *oneshot, int code)
{
    struct etcd_claim *claim = oneshot->op ? oneshot->op->engine.pointer : NULL;
    if (code == HF_OK && claim)
        hf__own_end_move(&claim->end, oneshot);
    oneshot->code = code;
    hf__oneshot_done(&etcd->base, oneshot);
}

static void renewal_moved(struct etcd *etcd, struct etcd_claim *claim, enum etcd_move move,
                          const struct etcd_reply *reply)
{
    static const int codes[] = {
        [ETCD_MOVED] = HF_OK, [ETCD_MOVE_LOST] = HF_LOST, [ETCD_MOVE_NO_MEMORY] = HF_ENOMEM
    };
    struct hf_oneshot *oneshot = claim->renewal;
    claim->renewal = NULL;
    oneshot->contacted = reply && hf__etcd_is_definite(reply);
    renewal_end(etcd, oneshot,
                move == ETCD_MOVE_FAILED ? hf__etcd_explain(etcd, reply, &oneshot->error)
                                         : codes[move]);
}

void hf__etcd_renew_own_lease(struct etcd *etcd, struct hf_oneshot *oneshot)
{
    struct etcd_claim *claim = oneshot->op->engine.pointer;
    if (!claim || !hf__etcd_holds(claim) || claim->over || !claim->end.timer.started) {
        renewal_end(etcd, oneshot, HF_LOST);
        return;
    }
    if (claim->own_id == 0) { /* of a read-write lock */
        renewal_end(etcd, oneshot, HF_OK);
        return;
    }
    if (claim->renewal) {
        hf__explain(&oneshot->error, HF_UNREACHABLE, 0, "an earlier renewal is still out");
        renewal_end(etcd, oneshot, HF_UNREACHABLE);
        return;
    }
    claim->renewal = oneshot;
    hf__etcd_own_lease_begin(etcd, claim, hf__own_end_longer_ms(&claim->end, oneshot),
                             renewal_moved);
}
