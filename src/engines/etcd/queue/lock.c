/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a claim, whatever its kind: an attempt, its replies, the verdict, and the release.
 * What a kind asks the server, and what it makes of the reply, is in kinds/; session/own_lease.c
 * has leases of their own, and renewals. What the server may have of the claim's key is in the
 * core's table (core/known.h).
 *
 * Each request may be sent again after its reply was lost: the key is the claim's alone. Requests
 * without a reply may be executed in any order, so none of them ever counts as settled. */
#include "engines/etcd/kinds/kinds.h"

/* Keys come and go, and so do sessions; somewhere it has to end. */
#define TRIES_MAX 8u
/* A lost wake costs this time: only a server that leaves its watches behind loses one. */
#define LOOK_AGAIN_MS 5000
/* A claim whose neighbours change faster than it can look, looks again after this time. */
#define UNSETTLED_MS 5
/* The pause before a deletion is asked for again that no caller waits for. */
#define DELETE_AGAIN_MS 200

/* ---- leaving ---- */

static void rest(struct etcd *etcd, struct etcd_claim *claim)
{
    hf__etcd_watch_leave(etcd, claim);
    hf__link_remove(&claim->wait.link);
    hf__own_end_stop(&claim->end);
}

void hf__etcd_leave(struct etcd *etcd, struct etcd_claim *claim)
{
    struct hf_op *op = claim->op;
    rest(etcd, claim);
    if (!op)
        return;
    hf__etcd_own_lease_drop(etcd, claim);
    op->engine.pointer = NULL;
    op->out.rests_on = NULL;
    claim->op = NULL;
    hf__etcd_claim_drop(claim);
}

void hf__etcd_claims_close(struct etcd *etcd)
{
    HF_LIST_FOREACH (link, following, &etcd->claims)
        rest(etcd, HF_CONTAINER(link, struct etcd_claim, link));
}

/* ---- an attempt ---- */

static void lock_go_on(struct etcd *etcd, struct etcd_wait *wait);

/* A request that it has given up may still be executed. */
static void doubt(struct etcd *etcd, struct etcd_claim *claim)
{
    hf__etcd_session_doubt(etcd, claim->session);
    /* mutant: etcd-late-key-is-watched */
    if (hf__etcd_may_have_key(claim))
        hf__etcd_watch_orphan(etcd, claim);
}

static void attempt_begin(struct etcd *etcd, struct etcd_claim *claim)
{
    bool same = claim->key_length > 0 && hf__etcd_session_lives(etcd, claim->session);
    /* A deletion without a reply would take away what is granted now. */
    /* mutant: etcd-key-that-may-go-is-not-granted */
    if (same && claim->known.now & HF_KNOWN_MAY_BE_GONE) {
        hf__etcd_withdraw(etcd, claim, HF_NO_ANSWER);
        return;
    }
    if (!same && claim->session && hf__etcd_session_current(etcd)) {
        claim->op->out.rests_on = NULL;
        hf__etcd_watch_leave(etcd, claim);
        /* A move without a reply may have put the key on a lease that outlives its session. */
        hf__etcd_own_lease_drop(etcd, claim); /* mutant: etcd-key-before-ends-with-its-own-lease */
        hf__etcd_claim_forget_key(claim);
    }
    if (!same && !hf__etcd_claim_name_key(etcd, claim)) {
        hf__op_explain(claim->op, HF_ENOMEM, 0, "out of memory for a session");
        hf__etcd_finish(etcd, claim, HF_NO_ANSWER);
        return;
    }
    if (hf__etcd_session_is_known(etcd, claim->session))
        lock_go_on(etcd, &claim->wait);
    else
        hf__etcd_session_await(etcd, claim->session, &claim->wait);
}

/* What it has begun goes on, as its session is known to live. */
static void lock_go_on(struct etcd *etcd, struct etcd_wait *wait)
{
    struct etcd_claim *claim = HF_CONTAINER(wait, struct etcd_claim, wait);
    if (claim->session->state != ETCD_SESSION_ALIVE)
        attempt_begin(etcd, claim);
    else
        claim->go_on(etcd, claim);
}

static void wait_failed(struct etcd *etcd, struct etcd_wait *wait, const struct etcd_reply *reply)
{
    hf__etcd_fail(etcd, HF_CONTAINER(wait, struct etcd_claim, wait), reply);
}

static void lease_is_over(struct hf_own_end *end)
{
    struct etcd_claim *claim = HF_CONTAINER(end, struct etcd_claim, end);
    struct etcd *etcd = HF_CONTAINER(end->lease.engine, struct etcd, base);
    claim->over = true;
    hf__etcd_claim_stop_resting(claim);
    hf__etcd_watch_leave(etcd, claim);
    hf__etcd_delete_quietly(etcd, claim);
}

void hf__etcd_attempt(struct etcd *etcd, struct hf_op *op, etcd_go_on *kind)
{
    struct etcd_claim *claim = op->engine.pointer;
    if (!claim)
        claim = hf__etcd_claim_new(etcd, op, lease_is_over);
    if (!claim) {
        hf__op_explain(op, HF_ENOMEM, 0, "out of memory for a place in a queue");
        op->out.verdict = HF_FAILED;
        hf__op_done(&etcd->base, op);
        return;
    }
    claim->go_on = kind;
    claim->wait.go_on = lock_go_on;
    claim->wait.fail = wait_failed;
    claim->tries = claim->looks = 0;
    attempt_begin(etcd, claim);
}

void hf__etcd_no_memory(struct etcd *etcd, struct etcd_claim *claim)
{
    hf__op_explain(claim->op, HF_ENOMEM, 0, "out of memory for a request");
    hf__etcd_finish(etcd, claim, HF_NO_ANSWER);
}

struct etcd_request *hf__etcd_attempt_request(struct etcd *etcd, struct etcd_claim *claim,
                                              etcd_answered *answered)
{
    struct etcd_request *request = hf__etcd_claim_request(etcd, claim, &hf__etcd_txn, answered);
    if (!request)
        hf__etcd_no_memory(etcd, claim);
    return request;
}

static enum hf_asked asked_by(const struct etcd_claim *claim)
{
    return claim->op->in.enqueue ? HF_ASKED_ATTEMPT : HF_ASKED_TRY;
}

void hf__etcd_ask_to_put(struct etcd *etcd, struct etcd_claim *claim, struct etcd_request *request,
                         const struct etcd_txn *txn)
{
    hf__known_sent(&claim->known, asked_by(claim)); /* mutant: etcd-put-is-told-to-the-table */
    hf__etcd_ask(etcd, request, &txn->message.base);
}

/* ---- what its replies say ---- */

void hf__etcd_key_is_there(struct etcd_claim *claim, int64_t created, int64_t changed)
{
    claim->created = created;
    claim->changed = changed;
    hf__known_found(&claim->known, asked_by(claim), HF_WORD_QUEUED);
}

/* An earlier request without a reply has put it. It is not where an earlier session is. */
bool hf__etcd_take_over_key(struct etcd_claim *claim, const etcd_key_value *own)
{
    if (!own || own->lease != claim->session->id)
        return false;
    hf__etcd_key_is_there(claim, own->create_revision, own->mod_revision);
    return true;
}

/* A request that was sent and is refused did nothing, whatever it was. */
static void note_failure(struct etcd_claim *claim, const struct etcd_reply *reply)
{
    hf__known_reply(&claim->known, hf__etcd_leaves_open(reply) ? HF_WORD_OPEN : HF_WORD_NEVER);
}

/* A definite no fails the claim, and a key that is there goes. */
void hf__etcd_fail(struct etcd *etcd, struct etcd_claim *claim, const struct etcd_reply *reply)
{
    struct hf_known *known = &claim->known;
    bool definite = hf__etcd_is_definite(reply), goes = known->now & HF_KNOWN_MAY_BE_GONE;
    note_failure(claim, reply);
    /* Another request, or a heartbeat, has heard that the member cannot serve us: this one needs no
     * reply of its own, as attempting again has the effect of attempting once. */
    bool moves = !definite && !goes && etcd->wrong_member && !etcd->closing;
    /* mutant: etcd-unanswered-try-goes-to-another-member */
    if (moves && ++claim->tries < TRIES_MAX) {
        attempt_begin(etcd, claim);
        return;
    }
    int code = hf__etcd_explain(etcd, reply, &claim->op->out.error);
    if (code == HF_UNREACHABLE || (!definite && hf__known_is_open(known))) {
        hf__etcd_finish(etcd, claim, HF_NO_ANSWER);
        return;
    }
    /* What refuses the attempt may refuse the deletion. */
    if (hf__known_found(known, asked_by(claim), HF_WORD_NEVER) == HF_KNOWN_WITHDRAW) {
        doubt(etcd, claim);
        hf__etcd_delete_quietly(etcd, claim);
    }
    claim->op->out.contacted = definite;
    hf__etcd_finish(etcd, claim, HF_FAILED);
}

bool hf__etcd_is_reply_good(struct etcd *etcd, struct etcd_claim *claim,
                            const struct etcd_reply *reply)
{
    if (reply->status == HF_GRPC_OK)
        return true;
    if (hf__etcd_is_lease_gone(reply)) {
        note_failure(claim, reply);
        hf__etcd_session_lose(etcd, claim->session, true);
        hf__etcd_begin_again(etcd, claim);
    } else {
        hf__etcd_fail(etcd, claim, reply);
    }
    return false;
}

void hf__etcd_unreadable(struct etcd *etcd, struct etcd_claim *claim)
{
    hf__known_reply(&claim->known, HF_WORD_OPEN);
    hf__peer_break(&etcd->peer, HF_ECORRUPT, 0, "its reply cannot be read");
    hf__op_explain(claim->op, HF_UNREACHABLE, 0, "etcd at %.200s: its reply cannot be read",
                   etcd->settings.servers.shown);
    hf__etcd_finish(etcd, claim, HF_NO_ANSWER);
}

void hf__etcd_begin_again(struct etcd *etcd, struct etcd_claim *claim)
{
    hf__known_found(&claim->known, asked_by(claim), HF_WORD_REFUSED);
    if (hf__etcd_may_have_key(claim))
        doubt(etcd, claim);
    hf__etcd_claim_forget_key(claim);
    if (++claim->tries < TRIES_MAX) {
        attempt_begin(etcd, claim);
        return;
    }
    hf__op_explain(claim->op, HF_UNREACHABLE, 0,
                   "etcd at %.120s: the key of \"%.100s\" goes as soon as it has been put",
                   etcd->settings.servers.shown, claim->op->in.name);
    hf__etcd_finish(etcd, claim, HF_NO_ANSWER);
}

/* ---- the verdict ---- */

void hf__etcd_finish(struct etcd *etcd, struct etcd_claim *claim, enum hf_verdict verdict)
{
    struct hf_op *op = claim->op;
    op->out.verdict = verdict;
    op->out.retry_at_ms = verdict == HF_REFUSED ? hf__etcd_now(etcd) + LOOK_AGAIN_MS : HF_NEVER;
    /* A place in the queue rests on the session as a hold does. */
    if (verdict == HF_REFUSED && claim->created != 0)
        op->out.rests_on = &claim->session->lease;
    if (verdict == HF_FAILED || (verdict == HF_REFUSED && !op->in.enqueue)) {
        if (hf__etcd_may_have_key(claim))
            doubt(etcd, claim);
        hf__etcd_leave(etcd, claim);
    }
    hf__op_done(&etcd->base, op);
}

void hf__etcd_refuse(struct etcd *etcd, struct etcd_claim *claim)
{
    hf__known_found(&claim->known, asked_by(claim), HF_WORD_REFUSED);
    hf__etcd_finish(etcd, claim, HF_REFUSED);
}

void hf__etcd_wait(struct etcd *etcd, struct etcd_claim *claim, int64_t revision,
                   etcd_go_on *look_again)
{
    struct hf_op *op = claim->op;
    bool registered = false;
    if (!hf__etcd_watch_wait(etcd, claim, &registered)) {
        hf__etcd_no_memory(etcd, claim);
        return;
    }
    bool settled = !registered || claim->watch->last_change <= revision;
    if (!settled && ++claim->tries < TRIES_MAX) {
        look_again(etcd, claim);
        return;
    }
    hf__etcd_finish(etcd, claim, HF_REFUSED);
    if (!settled)
        op->out.retry_at_ms = hf__etcd_now(etcd) + UNSETTLED_MS;
}

void hf__etcd_wait_for_key(struct etcd *etcd, struct etcd_claim *claim,
                           const ProtobufCBinaryData *key, int64_t revision, etcd_go_on *look_again)
{
    if (hf__etcd_claim_set_blocker(claim, key))
        hf__etcd_wait(etcd, claim, revision, look_again);
    else
        hf__etcd_no_memory(etcd, claim);
}

/* The key is gone: now it can be said, or another one be put. */
static void withdrawn(struct etcd *etcd, struct etcd_request *request,
                      const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    if (hf__etcd_has_left(request))
        return;
    if (reply->status != HF_GRPC_OK) {
        hf__etcd_fail(etcd, claim, reply);
        return;
    }
    hf__known_reply(&claim->known, HF_WORD_DONE);
    if (claim->verdict == HF_NO_ANSWER)
        hf__etcd_begin_again(etcd, claim);
    else
        hf__etcd_finish(etcd, claim, claim->verdict);
}

void hf__etcd_withdraw(struct etcd *etcd, struct etcd_claim *claim, enum hf_verdict verdict)
{
    claim->verdict = verdict;
    if (claim->created == 0 && verdict != HF_NO_ANSWER) {
        hf__known_found(&claim->known, asked_by(claim),
                        verdict == HF_REFUSED ? HF_WORD_REFUSED : HF_WORD_NEVER);
        hf__etcd_finish(etcd, claim, verdict);
    } else if (hf__etcd_ask_to_delete(etcd, claim, withdrawn, 0)) {
        hf__known_sent(&claim->known, HF_ASKED_RELEASE);
    } else {
        hf__etcd_no_memory(etcd, claim);
    }
}

void hf__etcd_wrong_kind(struct etcd *etcd, struct etcd_claim *claim)
{
    claim->op->out.contacted = true;
    hf__op_explain(claim->op, HF_EKIND, 0, "\"%.200s\" is in use as another kind of lock",
                   claim->op->in.name);
    hf__etcd_withdraw(etcd, claim, HF_FAILED);
}

/* The revision is later than the end of whatever was in the way, and its own end comes after it. A
 * leader's term is its key's, which observers see, too: older keys have led before it. */
static void hold_begin(struct etcd *etcd, struct etcd_claim *claim, int64_t revision)
{
    struct hf_op *op = claim->op;
    /* mutant: etcd-term-of-a-leader */
    op->out.token = (uint64_t)(op->in.election ? claim->created : revision);
    op->out.rests_on = &claim->session->lease;
    if (op->in.lease_ms > 0)
        hf__own_end_start(&claim->end, op);
    if (claim->own_id != 0) {
        op->engine.own_lease.engine = &etcd->base;
        op->engine.own_lease.lease_ms = op->in.lease_ms;
        op->engine.own_lease.asked_at_ms = op->in.asked_at_ms;
        op->engine.own_lease.ends_at_ms = 0;
        op->engine.own_lease.fixed = true;
        op->out.rests_on = &op->engine.own_lease;
    } else if (op->in.lease_ms > 0) { /* its key is on the session's lease still */
        hf__own_end_follow(&claim->end, &etcd->leased, &claim->session->lease, op);
    }
    hf__known_found(&claim->known, asked_by(claim), HF_WORD_GRANTED);
    claim->rests = claim->own_id == 0;
    claim->session->holds += claim->rests;
    hf__etcd_watch_held(etcd, claim, revision);
    hf__etcd_finish(etcd, claim, HF_GRANTED);
}

/* Its key is on the lease of its own. */
static void key_moved(struct etcd *etcd, struct etcd_claim *claim, enum etcd_move move,
                      const struct etcd_reply *reply)
{
    if (!claim->op)
        return;
    if (move == ETCD_MOVED)
        hold_begin(etcd, claim, claim->changed);
    else if (move == ETCD_MOVE_LOST)
        hf__etcd_begin_again(etcd, claim);
    else if (move == ETCD_MOVE_NO_MEMORY)
        hf__etcd_no_memory(etcd, claim);
    else
        hf__etcd_fail(etcd, claim, reply);
}

void hf__etcd_grant(struct etcd *etcd, struct etcd_claim *claim, int64_t revision)
{
    const struct hf_op *op = claim->op;
    if (op->in.lease_ms > 0 && op->in.mode != HF_READ && op->in.mode != HF_WRITE)
        hf__etcd_own_lease_begin(etcd, claim, op->in.lease_ms, key_moved);
    else
        hold_begin(etcd, claim, revision);
}

void hf__etcd_grant_without_key(struct etcd *etcd, struct etcd_claim *claim)
{
    struct hf_op *op = claim->op;
    hf__known_found(&claim->known, asked_by(claim), HF_WORD_GRANTED);
    if (hf__etcd_may_have_key(claim))
        doubt(etcd, claim);
    hf__etcd_leave(etcd, claim);
    op->out.verdict = HF_GRANTED;
    op->out.token = 0;
    hf__op_done(&etcd->base, op);
}

/* ---- a release: the key goes if it is still the one that was put ---- */

static void release_finish(struct etcd *etcd, struct hf_op *op, enum hf_known_verdict verdict)
{
    struct etcd_claim *claim = op->engine.pointer;
    hf__op_set_verdict(op, verdict);
    if (claim && verdict == HF_KNOWN_LEFT)
        /* mutant: etcd-key-that-may-not-be-deleted-ends-with-its-session */
        hf__etcd_session_is_stuck(etcd, claim->session);
    if (claim && op->out.verdict != HF_NO_ANSWER)
        hf__etcd_leave(etcd, claim);
    hf__op_done(&etcd->base, op);
}

void hf__etcd_release_no_memory(struct etcd *etcd, struct hf_op *op)
{
    hf__op_explain(op, HF_ENOMEM, 0, "out of memory for a request");
    release_finish(etcd, op, HF_KNOWN_NO_ANSWER);
}

/* What was denied stays for its lease; the claim is over all the same. */
static enum hf_known_verdict clean_up_failed(struct etcd *etcd, struct etcd_claim *claim,
                                             enum hf_asked asked, const struct etcd_reply *reply)
{
    int code = hf__etcd_explain(etcd, reply, &claim->op->out.error);
    note_failure(claim, reply);
    if (!hf__etcd_is_definite(reply) || code == HF_UNREACHABLE)
        return HF_KNOWN_NO_ANSWER;
    claim->op->out.contacted = true;
    return hf__known_found(&claim->known, asked, HF_WORD_NEVER);
}

static void release_answered(struct etcd *etcd, struct etcd_request *request,
                             const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    const etcd_txn_reply *txn = reply->message;
    if (hf__etcd_has_left(request))
        return;
    if (reply->status != HF_GRPC_OK) {
        release_finish(etcd, claim->op, clean_up_failed(etcd, claim, HF_ASKED_RELEASE, reply));
        return;
    }
    claim->op->out.contacted = true;
    release_finish(etcd, claim->op,
                   hf__known_reply(&claim->known, txn->succeeded ? HF_WORD_DONE : HF_WORD_MISSING));
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
    if (claim->created == 0 || hf__etcd_may_have_key(claim))
        doubt(etcd, claim);
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

static void lower(struct etcd *etcd, struct hf_op *op);

void hf__etcd_release_key(struct etcd *etcd, struct hf_op *op)
{
    struct etcd_claim *claim = op->engine.pointer;
    if (op->in.keep != HF_KEEP_NOTHING) {
        lower(etcd, op);
        return;
    }
    if (!claim || hf__known_way_out(&claim->known, false, false) == HF_OUT_NOTHING) {
        release_finish(etcd, op, HF_KNOWN_GONE);
        return;
    }
    hf__etcd_watch_leave(etcd, claim);
    if (claim->earlier && claim->earlier->state != ETCD_SESSION_OVER) {
        hf__op_explain(op, HF_UNREACHABLE, 0,
                       "etcd at %.200s: its earlier session has not ended yet",
                       etcd->settings.servers.shown);
        release_finish(etcd, op, HF_KNOWN_NO_ANSWER);
    } else if (hf__etcd_ask_to_delete(etcd, claim, release_answered, 0)) {
        /* mutant: etcd-release-is-told-to-the-table */
        hf__known_sent(&claim->known, HF_ASKED_RELEASE);
    } else {
        hf__etcd_release_no_memory(etcd, op);
    }
}

/* ---- a writer becomes a reader: of its two keys, the writer's goes ---- */

static void lower_answered(struct etcd *etcd, struct etcd_request *request,
                           const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    const etcd_txn_reply *txn = reply->message;
    if (hf__etcd_has_left(request))
        return;
    struct hf_op *op = claim->op;
    if (reply->status != HF_GRPC_OK) {
        hf__op_set_verdict(op, clean_up_failed(etcd, claim, HF_ASKED_LOWER, reply));
        if (op->out.verdict != HF_NO_ANSWER)
            hf__etcd_watch_held(etcd, claim, INT64_MAX);
        hf__op_done(&etcd->base, op);
        return;
    }
    /* An earlier request without a reply may have done it. */
    const etcd_key_value *reader = txn->succeeded ? NULL : hf__etcd_txn_first_key(txn, 0);
    bool lost = !txn->succeeded && (!reader || reader->create_revision != claim->created);
    hf__known_reply(&claim->known, lost ? HF_WORD_MISSING : HF_WORD_DONE);
    op->out.verdict = HF_GONE;
    op->out.contacted = true;
    op->out.lost = lost;
    if (!lost) {
        hf__etcd_claim_rename_to_reader(etcd, claim);
        hf__etcd_watch_held(etcd, claim, hf__etcd_revision(txn->header));
    }
    hf__op_done(&etcd->base, op);
    if (lost)
        hf__etcd_claim_lost(claim, "it was broken: its key was deleted");
}

static void lower(struct etcd *etcd, struct hf_op *op)
{
    struct etcd_txn txn;
    char reader[ETCD_KEY_SIZE];
    struct etcd_claim *claim = op->engine.pointer;
    if (!claim || claim->created == 0 || op->in.keep != HF_READ ||
        !hf__etcd_claim_is_writer(claim)) {
        hf__op_explain(op, HF_ENOTSUP, 0,
                       "\"%.200s\": a writer can become a reader, and nothing else", op->in.name);
        op->out.verdict = HF_FAILED;
        hf__op_done(&etcd->base, op);
        return;
    }
    struct etcd_bytes key = hf__etcd_key_of(claim);
    struct etcd_bytes other = hf__etcd_bytes(reader, hf__etcd_claim_reader_key(claim, reader));
    struct etcd_request *request =
        hf__etcd_claim_request(etcd, claim, &hf__etcd_txn, lower_answered);
    if (!request) {
        hf__etcd_release_no_memory(etcd, op);
        return;
    }
    hf__etcd_txn_begin(&txn);
    hf__etcd_txn_if_created(&txn, key, claim->created);
    hf__etcd_txn_if_created(&txn, other, claim->created);
    hf__etcd_txn_delete(&txn, ETCD_THEN, key);
    hf__etcd_txn_range(&txn, ETCD_ELSE, other, hf__etcd_bytes("", 0));
    hf__etcd_watch_leave(etcd, claim); /* mutant: etcd-key-that-is-lowered-is-not-watched */
    hf__known_sent(&claim->known, HF_ASKED_LOWER);
    hf__etcd_ask(etcd, request, &txn.message.base);
}

/* ---- a deletion without a caller that waits: the claim is over for the table ---- */

static void quietly_answered(struct etcd *etcd, struct etcd_request *request,
                             const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    bool open = !hf__etcd_is_definite(reply) || reply->word == ETCD_BUSY;
    if (reply->status == HF_GRPC_OK || etcd->closing || claim->session->state != ETCD_SESSION_ALIVE)
        return;
    doubt(etcd, claim);
    if (!open || !hf__etcd_ask_to_delete(etcd, claim, quietly_answered, DELETE_AGAIN_MS))
        /* mutant: etcd-refused-deletion-is-noted */
        hf__etcd_session_is_stuck(etcd, claim->session);
}

void hf__etcd_delete_quietly(struct etcd *etcd, struct etcd_claim *claim)
{
    /* Without memory the key stays until it is given back, or its lease is over. */
    if (claim->key_length > 0)
        hf__etcd_ask_to_delete(etcd, claim, quietly_answered, 0);
}
