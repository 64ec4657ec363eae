/* SPDX-License-Identifier: Apache-2.0 */
/* Acquiring: how an attempt becomes a key in a queue, and its neighbours a verdict.
 *
 *   a bare try:   if no key is in its way, put the key: GRANTED; else REFUSED, and nothing is left
 *   a wait:       put the key, and look for an older one in its way, in one transaction
 *                   none: GRANTED
 *                   one: it is remembered and watched, REFUSED
 *   asked again:  look for the own key and for an older one, in one read
 *
 * Each transaction may be asked again after it was not answered: the key is the claim's alone. */
#include "engines/etcd/kinds/kinds.h"

/* Keys come and go, and so do sessions; somewhere it has to end. */
#define TRIES_MAX 8u
/* A wake that gets lost costs so much: only a server that leaves its watches behind loses one. */
#define LOOK_AGAIN_MS 5000

static void attempt_begin(struct etcd *etcd, struct etcd_claim *claim);
static void ask_position(struct etcd *etcd, struct etcd_claim *claim);

/* ---- how an attempt ends ---- */

void hf__etcd_finish(struct etcd *etcd, struct etcd_claim *claim, enum hf_verdict verdict)
{
    struct hf_op *op = claim->op;
    op->out.verdict = verdict;
    op->out.retry_at_ms = verdict == HF_REFUSED ? hf__etcd_now(etcd) + LOOK_AGAIN_MS : HF_NEVER;
    /* A place in the queue rests on the session as a hold does. */
    if (verdict == HF_REFUSED && claim->created != 0)
        op->out.rests_on = &claim->session->lease;
    if (verdict == HF_FAILED || (verdict == HF_REFUSED && !op->in.enqueue)) {
        if (claim->unknown)
            hf__etcd_session_doubt(etcd, claim);
        hf__etcd_claim_leave(etcd, claim);
    }
    hf__op_done(&etcd->base, op);
}

/* A definite no fails the claim, and a key that is there goes. */
void hf__etcd_fail(struct etcd *etcd, struct etcd_claim *claim, const struct etcd_reply *reply)
{
    /* Another request, or a heartbeat, has heard that the member cannot serve us: this one needs no
     * reply of its own, as attempting again has the effect of attempting once. */
    /* mutant: etcd-unanswered-try-goes-to-another-member */
    if (!hf__etcd_is_definite(reply) && etcd->wrong_member && !etcd->closing &&
        ++claim->tries < TRIES_MAX) {
        attempt_begin(etcd, claim);
        return;
    }
    int code = hf__etcd_explain(etcd, reply, &claim->op->out.error);
    if (code == HF_UNREACHABLE || (claim->unknown && !hf__etcd_is_definite(reply))) {
        hf__etcd_finish(etcd, claim, HF_NO_ANSWER);
        return;
    }
    /* What refuses the attempt may refuse the deletion. */
    if (claim->created != 0 || claim->unknown) {
        hf__etcd_session_doubt(etcd, claim);
        hf__etcd_delete_quietly(etcd, claim);
    }
    claim->op->out.contacted = hf__etcd_is_definite(reply);
    hf__etcd_finish(etcd, claim, HF_FAILED);
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

/* The key is gone: now it can be said. */
static void withdrawn(struct etcd *etcd, struct etcd_request *request,
                      const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    if (hf__etcd_has_left(request))
        return;
    if (reply->status == HF_GRPC_OK)
        hf__etcd_finish(etcd, claim, claim->verdict);
    else
        hf__etcd_fail(etcd, claim, reply);
}

void hf__etcd_withdraw(struct etcd *etcd, struct etcd_claim *claim, enum hf_verdict verdict)
{
    claim->verdict = verdict;
    if (claim->created == 0)
        hf__etcd_finish(etcd, claim, verdict);
    else if (!hf__etcd_ask_to_delete(etcd, claim, withdrawn, 0))
        hf__etcd_no_memory(etcd, claim);
}

void hf__etcd_wrong_kind(struct etcd *etcd, struct etcd_claim *claim)
{
    claim->op->out.contacted = true;
    hf__op_explain(claim->op, HF_EKIND, 0, "\"%.200s\" is in use as another kind of lock",
                   claim->op->in.name);
    hf__etcd_withdraw(etcd, claim, HF_FAILED);
}

void hf__etcd_unreadable(struct etcd *etcd, struct etcd_claim *claim)
{
    hf__peer_break(&etcd->peer, HF_ECORRUPT, 0, "its reply cannot be read");
    hf__op_explain(claim->op, HF_UNREACHABLE, 0, "etcd at %.200s: its reply cannot be read",
                   etcd->settings.servers.shown);
    hf__etcd_finish(etcd, claim, HF_NO_ANSWER);
}

static void rest_on_own_lease(struct etcd *etcd, struct etcd_claim *claim)
{
    struct hf_op *op = claim->op;
    hf__own_end_start(&claim->end, op);
    if (claim->own_id == 0) { /* its key is on the session's lease still */
        hf__own_end_follow(&claim->end, &etcd->leased, &claim->session->lease, op);
        return;
    }
    op->engine.own_lease.engine = &etcd->base;
    op->engine.own_lease.lease_ms = op->in.lease_ms;
    op->engine.own_lease.asked_at_ms = op->in.asked_at_ms;
    op->engine.own_lease.ends_at_ms = 0;
    op->engine.own_lease.fixed = true;
    op->out.rests_on = &op->engine.own_lease;
}

/* The revision is later than the end of whatever was in the way, and its own end comes after it. */
static void hold_begin(struct etcd *etcd, struct etcd_claim *claim, int64_t revision)
{
    struct hf_op *op = claim->op;
    op->out.token = (uint64_t)revision;
    op->out.rests_on = &claim->session->lease;
    if (op->in.lease_ms > 0)
        rest_on_own_lease(etcd, claim);
    claim->held = true;
    claim->rests = claim->own_id == 0;
    claim->session->holds += claim->rests;
    hf__etcd_watch_held(etcd, claim);
    hf__etcd_finish(etcd, claim, HF_GRANTED);
}

static void own_lease_moved(struct etcd *etcd, struct etcd_request *request,
                            const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    const etcd_txn_reply *txn = reply->message;
    if (hf__etcd_has_left(request))
        return;
    if (reply->status != HF_GRPC_OK) {
        hf__etcd_fail(etcd, claim, reply);
        return;
    }
    enum etcd_move move = hf__etcd_own_lease_moved(etcd, claim, txn);
    if (move == ETCD_MOVED)
        hold_begin(etcd, claim, hf__etcd_revision(txn->header));
    else if (move == ETCD_MOVE_LOST)
        hf__etcd_begin_again(etcd, claim);
    else if (!hf__etcd_own_lease_move(etcd, claim, own_lease_moved))
        hf__etcd_no_memory(etcd, claim);
}

static void own_lease_granted(struct etcd *etcd, struct etcd_request *request,
                              const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    if (hf__etcd_has_left(request))
        return;
    if (reply->status != HF_GRPC_OK)
        hf__etcd_fail(etcd, claim, reply);
    else if (!hf__etcd_own_lease_move(etcd, claim, own_lease_moved))
        hf__etcd_no_memory(etcd, claim);
}

void hf__etcd_grant(struct etcd *etcd, struct etcd_claim *claim, int64_t revision)
{
    const struct hf_op *op = claim->op;
    bool moves = op->in.lease_ms > 0 && op->in.mode != HF_READ && op->in.mode != HF_WRITE;
    if (!moves)
        hold_begin(etcd, claim, revision);
    else if (!hf__etcd_own_lease_ask(etcd, claim, op->in.lease_ms, own_lease_granted))
        hf__etcd_no_memory(etcd, claim);
}

void hf__etcd_grant_without_key(struct etcd *etcd, struct etcd_claim *claim)
{
    struct hf_op *op = claim->op;
    if (claim->unknown)
        hf__etcd_session_doubt(etcd, claim);
    hf__etcd_claim_leave(etcd, claim);
    op->out.verdict = HF_GRANTED;
    op->out.token = 0;
    hf__op_done(&etcd->base, op);
}

/* Something that it stood on is gone, its session or its key. */
void hf__etcd_begin_again(struct etcd *etcd, struct etcd_claim *claim)
{
    if (claim->unknown)
        hf__etcd_session_doubt(etcd, claim);
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

bool hf__etcd_is_reply_good(struct etcd *etcd, struct etcd_claim *claim,
                            const struct etcd_reply *reply)
{
    if (reply->status == HF_GRPC_OK)
        return true;
    if (hf__etcd_is_lease_gone(reply)) {
        hf__etcd_session_lose(etcd, claim->session, true);
        hf__etcd_begin_again(etcd, claim);
    } else {
        hf__etcd_fail(etcd, claim, reply);
    }
    return false;
}

bool hf__etcd_is_put_answered(struct etcd *etcd, struct etcd_claim *claim,
                              const struct etcd_reply *reply)
{
    if (hf__etcd_may_be_done(reply))
        claim->unknown = true;
    return hf__etcd_is_reply_good(etcd, claim, reply);
}

bool hf__etcd_take_over_key(struct etcd_claim *claim, const etcd_key_value *own)
{
    if (!own || own->lease != claim->session->id)
        return false;
    claim->created = own->create_revision;
    return true;
}

/* ---- who is in the way ---- */

void hf__etcd_wait_for_key(struct etcd *etcd, struct etcd_claim *claim,
                           const ProtobufCBinaryData *key, int64_t revision,
                           void (*look_again)(struct etcd *etcd, struct etcd_claim *claim))
{
    bool registered = false;
    if (!hf__etcd_claim_set_blocker(claim, key) || !hf__etcd_watch_wait(etcd, claim, &registered))
        hf__etcd_no_memory(etcd, claim);
    else if (registered && claim->watch->last_change > revision && ++claim->tries < TRIES_MAX)
        look_again(etcd, claim);
    else
        hf__etcd_finish(etcd, claim, HF_REFUSED);
}

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
    if (hf__etcd_has_left(request) || !hf__etcd_is_put_answered(etcd, claim, reply))
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
    claim->created = claim->changed = revision;
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
 * becomes one: it must be older than those of writers that wait. */
static void put_keys(const struct etcd *etcd, struct etcd_txn *txn, const struct etcd_claim *claim,
                     struct etcd_put *put)
{
    int64_t lease = claim->session->id;
    struct etcd_bytes note = hf__etcd_bytes(
        put->note, hf__etcd_claim_note(etcd, claim, claim->op->in.lease_ms, put->note));
    hf__etcd_txn_put(txn, ETCD_THEN, hf__etcd_key_of(claim), note, lease);
    if (hf__etcd_claim_is_writer(claim))
        hf__etcd_txn_put(txn, ETCD_THEN,
                         hf__etcd_bytes(put->reader, hf__etcd_claim_reader_key(claim, put->reader)),
                         note, lease);
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
    hf__etcd_txn_if_created(&txn, key, 0);
    /* All that are there before the key is put are older. */
    add_blocking(&txn, ETCD_THEN, claim, false);
    if (claim->op->in.mode == HF_READ)
        add_mutexes(&txn, ETCD_THEN, claim);
    put_keys(etcd, &txn, claim, &put);
    hf__etcd_txn_range(&txn, ETCD_ELSE, key, none);
    hf__etcd_ask(etcd, request, &txn.message.base);
}

/* ---- a bare try ---- */

static void try_answered(struct etcd *etcd, struct etcd_request *request,
                         const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    const etcd_txn_reply *txn = reply->message;
    if (hf__etcd_has_left(request) || !hf__etcd_is_put_answered(etcd, claim, reply))
        return;
    int64_t revision = hf__etcd_revision(txn->header);
    const etcd_key_value *first = txn->succeeded ? NULL : hf__etcd_txn_first_key(txn, 1);
    if (revision <= 0) {
        hf__etcd_unreadable(etcd, claim);
    } else if (txn->succeeded) {
        claim->created = claim->changed = revision;
        hf__etcd_grant(etcd, claim, revision);
    } else if (hf__etcd_take_over_key(claim, hf__etcd_txn_first_key(txn, 0))) {
        ask_position(etcd, claim);
    } else if ((first && !hf__etcd_claim_is_same_kind(claim, &first->key)) ||
               (!txn->succeeded && hf__etcd_txn_first_key(txn, 2))) {
        hf__etcd_wrong_kind(etcd, claim);
    } else {
        hf__etcd_finish(etcd, claim, HF_REFUSED);
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
    hf__etcd_txn_if_created(&txn, key, 0);
    put_keys(etcd, &txn, claim, &put);
    hf__etcd_txn_range(&txn, ETCD_ELSE, key, none);
    add_blocking(&txn, ETCD_ELSE, claim, true);
    if (claim->op->in.mode == HF_READ)
        add_mutexes(&txn, ETCD_ELSE, claim);
    hf__etcd_ask(etcd, request, &txn.message.base);
}

/* ---- an attempt ---- */

void hf__etcd_go_on(struct etcd *etcd, struct etcd_claim *claim)
{
    if (claim->session->state != ETCD_SESSION_ALIVE)
        attempt_begin(etcd, claim);
    else if (claim->op->in.mode == HF_PERMIT)
        hf__etcd_semaphore_go_on(etcd, claim);
    else if (claim->op->in.mode == HF_COUNTER)
        hf__etcd_counter_go_on(etcd, claim);
    else if (claim->op->in.mode == HF_LATCH)
        hf__etcd_latch_go_on(etcd, claim);
    else if (claim->created != 0)
        ask_position(etcd, claim);
    else if (claim->op->in.enqueue)
        ask_for_key(etcd, claim);
    else
        ask_to_try(etcd, claim);
}

static void attempt_begin(struct etcd *etcd, struct etcd_claim *claim)
{
    bool same = claim->key_length > 0 && hf__etcd_session_lives(etcd, claim->session);
    if (!same && !hf__etcd_claim_name_key(etcd, claim)) {
        hf__op_explain(claim->op, HF_ENOMEM, 0, "out of memory for a session");
        hf__etcd_finish(etcd, claim, HF_NO_ANSWER);
        return;
    }
    if (!same) {
        claim->op->out.rests_on = NULL;
        hf__etcd_watch_leave(etcd, claim);
    }
    if (hf__etcd_session_is_ready(etcd, claim))
        hf__etcd_go_on(etcd, claim);
}

void hf__etcd_attempt(struct hf_engine *engine, struct hf_op *op)
{
    struct etcd *etcd = (struct etcd *)engine;
    struct etcd_claim *claim = op->engine.pointer;
    if (!claim)
        claim = hf__etcd_claim_new(etcd, op);
    if (!claim) {
        hf__op_explain(op, HF_ENOMEM, 0, "out of memory for a place in a queue");
        op->out.verdict = HF_FAILED;
        hf__op_done(engine, op);
        return;
    }
    claim->tries = 0;
    attempt_begin(etcd, claim);
}
