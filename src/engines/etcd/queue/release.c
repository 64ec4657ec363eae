/* SPDX-License-Identifier: Apache-2.0 */
/* Giving back: the key goes if it is still the one that was put, so that a release that comes late
 * deletes nothing of a later owner's. Until that is known, nothing is. */
#include "engines/etcd/kinds/kinds.h"

/* The pause before a deletion is asked for again that no caller waits for. */
#define DELETE_AGAIN_MS 200

static void gone(struct etcd *etcd, struct hf_op *op, bool lost)
{
    struct etcd_claim *claim = op->engine.pointer;
    op->out.verdict = HF_GONE;
    op->out.lost = lost;
    if (claim)
        hf__etcd_claim_leave(etcd, claim);
    hf__op_done(&etcd->base, op);
}

void hf__etcd_release_no_memory(struct etcd *etcd, struct hf_op *op)
{
    hf__op_explain(op, HF_ENOMEM, 0, "out of memory for a request");
    op->out.verdict = HF_NO_ANSWER;
    hf__op_done(&etcd->base, op);
}

static void no_reply(struct etcd *etcd, struct etcd_claim *claim, const struct etcd_reply *reply)
{
    struct hf_op *op = claim->op;
    int code = hf__etcd_explain(etcd, reply, &op->out.error);
    /* What was denied stays for its lease; the claim is over all the same. */
    bool definite = hf__etcd_is_definite(reply) && code != HF_UNREACHABLE;
    op->out.verdict = definite ? HF_FAILED : HF_NO_ANSWER;
    op->out.contacted = definite;
    if (definite) {
        /* mutant: etcd-key-that-may-not-be-deleted-ends-with-its-session */
        hf__etcd_session_is_stuck(etcd, claim);
        hf__etcd_claim_leave(etcd, claim);
    }
    hf__op_done(&etcd->base, op);
}

static void release_answered(struct etcd *etcd, struct etcd_request *request,
                             const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    const etcd_txn_reply *txn = reply->message;
    if (hf__etcd_has_left(request))
        return;
    if (reply->status != HF_GRPC_OK) {
        claim->unsure |= hf__etcd_may_be_done(reply);
        no_reply(etcd, claim, reply);
        return;
    }
    claim->op->out.contacted = true;
    gone(etcd, claim->op, claim->held && !txn->succeeded && !claim->unsure);
}

/* A key whose revision is not known is the claim's alone all the same, and stays so: this request
 * may come late. */
bool hf__etcd_ask_to_delete(struct etcd *etcd, struct etcd_claim *claim, etcd_answered *answered,
                            int64_t pause_ms)
{
    struct etcd_txn txn;
    char reader[ETCD_KEY_SIZE];
    struct etcd_request *request = hf__etcd_claim_request(etcd, claim, &hf__etcd_txn, answered);
    if (!request)
        return false;
    if (claim->created == 0 || claim->unknown)
        hf__etcd_session_doubt(etcd, claim);
    hf__etcd_txn_begin(&txn);
    if (claim->created != 0)
        /* mutant: etcd-release-is-fenced */
        hf__etcd_txn_if_created(&txn, hf__etcd_key_of(claim), claim->created);
    /* mutant: etcd-release-of-own-key */
    hf__etcd_txn_delete(&txn, ETCD_THEN, hf__etcd_key_of(claim));
    if (hf__etcd_claim_is_writer(claim))
        hf__etcd_txn_delete(&txn, ETCD_THEN,
                            hf__etcd_bytes(reader, hf__etcd_claim_reader_key(claim, reader)));
    request->pause_ms = pause_ms;
    hf__etcd_ask(etcd, request, &txn.message.base);
    return true;
}

/* ---- a writer becomes a reader: of its two keys, the writer's goes ---- */

static void lowered(struct etcd *etcd, struct etcd_claim *claim)
{
    hf__etcd_watch_leave(etcd, claim);
    hf__etcd_claim_rename_to_reader(etcd, claim);
    hf__etcd_watch_held(etcd, claim);
}

static void lower_answered(struct etcd *etcd, struct etcd_request *request,
                           const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    const etcd_txn_reply *txn = reply->message;
    if (hf__etcd_has_left(request))
        return;
    struct hf_op *op = claim->op;
    if (reply->status != HF_GRPC_OK) {
        int code = hf__etcd_explain(etcd, reply, &op->out.error);
        bool definite = hf__etcd_is_definite(reply) && code != HF_UNREACHABLE;
        op->out.verdict = definite ? HF_FAILED : HF_NO_ANSWER;
        hf__op_done(&etcd->base, op);
        return;
    }
    const etcd_key_value *reader = txn->succeeded ? NULL : hf__etcd_txn_first_key(txn, 0);
    op->out.verdict = HF_GONE;
    op->out.contacted = true;
    /* An earlier request without a reply may have done it. */
    if (txn->succeeded || (reader && reader->create_revision == claim->created))
        lowered(etcd, claim);
    else
        op->out.lost = true;
    hf__op_done(&etcd->base, op);
    if (op->out.lost)
        hf__etcd_claim_lost(claim, "it was broken: its key was deleted");
}

static void lower(struct etcd *etcd, struct etcd_claim *claim)
{
    struct etcd_txn txn;
    char reader[ETCD_KEY_SIZE];
    struct etcd_bytes key = hf__etcd_key_of(claim);
    struct etcd_bytes other = hf__etcd_bytes(reader, hf__etcd_claim_reader_key(claim, reader));
    struct etcd_request *request =
        hf__etcd_claim_request(etcd, claim, &hf__etcd_txn, lower_answered);
    if (!request) {
        hf__etcd_release_no_memory(etcd, claim->op);
        return;
    }
    hf__etcd_txn_begin(&txn);
    hf__etcd_txn_if_created(&txn, key, claim->created);
    hf__etcd_txn_if_created(&txn, other, claim->created);
    hf__etcd_txn_delete(&txn, ETCD_THEN, key);
    hf__etcd_txn_range(&txn, ETCD_ELSE, other, hf__etcd_bytes("", 0));
    hf__etcd_ask(etcd, request, &txn.message.base);
}

static void cannot_lower(struct etcd *etcd, struct hf_op *op)
{
    hf__op_explain(op, HF_ENOTSUP, 0, "\"%.200s\": a writer can become a reader, and nothing else",
                   op->in.name);
    op->out.verdict = HF_FAILED;
    hf__op_done(&etcd->base, op);
}

void hf__etcd_release(struct hf_engine *engine, struct hf_op *op)
{
    struct etcd *etcd = (struct etcd *)engine;
    if (op->in.mode != HF_COUNTER || !hf__etcd_counter_release(etcd, op))
        hf__etcd_release_key(etcd, op);
}

void hf__etcd_release_key(struct etcd *etcd, struct hf_op *op)
{
    struct etcd_claim *claim = op->engine.pointer;
    bool lowers = op->in.keep != HF_KEEP_NOTHING;
    if (lowers && claim && claim->created != 0 && op->in.keep == HF_READ &&
        hf__etcd_claim_is_writer(claim)) {
        lower(etcd, claim);
        return;
    }
    if (lowers) {
        cannot_lower(etcd, op);
        return;
    }
    if (!claim || claim->key_length == 0 || (claim->created == 0 && !claim->unknown)) {
        gone(etcd, op, false);
        return;
    }
    hf__etcd_watch_leave(etcd, claim);
    if (claim->earlier && claim->earlier->state != ETCD_SESSION_OVER) {
        hf__op_explain(op, HF_UNREACHABLE, 0,
                       "etcd at %.200s: its earlier session has not ended yet",
                       etcd->settings.servers.shown);
        op->out.verdict = HF_NO_ANSWER;
        hf__op_done(&etcd->base, op);
        return;
    }
    if (!hf__etcd_ask_to_delete(etcd, claim, release_answered, 0))
        hf__etcd_release_no_memory(etcd, op);
}

/* ---- without a caller that waits ---- */

static void quietly_answered(struct etcd *etcd, struct etcd_request *request,
                             const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    bool open = !hf__etcd_is_definite(reply) || reply->word == ETCD_BUSY;
    if (reply->status == HF_GRPC_OK || etcd->closing || claim->session->state != ETCD_SESSION_ALIVE)
        return;
    hf__etcd_session_doubt(etcd, claim);
    if (!open || !hf__etcd_ask_to_delete(etcd, claim, quietly_answered, DELETE_AGAIN_MS))
        hf__etcd_session_is_stuck(etcd, claim); /* mutant: etcd-refused-deletion-is-noted */
}

void hf__etcd_delete_quietly(struct etcd *etcd, struct etcd_claim *claim)
{
    /* Without memory the key stays until it is given back, or its lease is over. */
    if (claim->key_length > 0)
        hf__etcd_ask_to_delete(etcd, claim, quietly_answered, 0);
}
