/* SPDX-License-Identifier: Apache-2.0 */
/* Acquiring permits. A claim's key has its place by its creation, and how many permits it wants in
 * its name. It holds when those before it and its own are no more than there are (total.c).
 *
 *   a wait:       put the key, and read the keys before it and the object, in one transaction
 *   asked again:  read the own key, those before it and the object, in one
 *   a bare try:   read them; if there are enough, put the key, provided that no key has come since
 *
 * A waiter counts the permits that come back, as keys that go name theirs, and looks again when
 * there may be enough: a release wakes those that it lets in, and no others. */
#include "kinds.h"

#include "base/error.h"
#include "base/testing.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define TRIES_MAX 8u
/* How often a bare try looks again before it takes a place. While the place is there, other tries
 * count it, and may be refused a permit that has just come back. */
#define LOOKS_MAX 64u

static void ask_position(struct etcd *etcd, struct etcd_claim *claim);
static void ask_for_place(struct etcd *etcd, struct etcd_claim *claim);
static void look_at_claims(struct etcd *etcd, struct etcd_claim *claim);

/* ---- what can never be ---- */

__attribute__((format(printf, 4, 5))) static void never(struct etcd *etcd, struct etcd_claim *claim,
                                                        int code, const char *format, ...)
{
    char why[120];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    claim->op->out.contacted = true;
    hf__op_explain(claim->op, code, 0, "\"%.200s\" %s", claim->op->in.name, why);
    hf__etcd_withdraw(etcd, claim, HF_FAILED);
}

/* True: the claim has heard so. */
static bool is_in_vain(struct etcd *etcd, struct etcd_claim *claim, const struct etcd_total *total)
{
    const struct hf_op *op = claim->op;
    uint32_t permits = total->there ? total->permits : op->in.limit;
    if (total->there && !total->readable)
        never(etcd, claim, HF_EKIND, "does not say how many permits it has; set the number");
    else if (!total->there && op->in.limit == 0)
        never(etcd, claim, HF_EKIND,
              "does not exist; set how many permits it has, or name a limit");
    else if (op->in.limit > 0 && permits != op->in.limit)
        never(etcd, claim, HF_EKIND, "has %" PRIu32 " permit%s, not %" PRIu32, permits,
              hf__plural(permits), op->in.limit);
    else if (op->in.permits > permits)
        never(etcd, claim, HF_EINVAL,
              "has %" PRIu32 " permit%s: %" PRIu32 " can never be had; ask for fewer", permits,
              hf__plural(permits), op->in.permits);
    else
        return false;
    return true;
}

/* ---- a semaphore that does not exist yet ---- */

static void created(struct etcd *etcd, struct etcd_request *request, const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    /* Whatever it says: another claim may have been faster. */
    if (!hf__etcd_has_left(request) && hf__etcd_is_reply_good(etcd, claim, reply))
        ask_position(etcd, claim);
}

static void create(struct etcd *etcd, struct etcd_claim *claim)
{
    struct etcd_txn txn;
    char text[ETCD_TOTAL_SIZE];
    struct etcd_request *request = hf__etcd_attempt_request(etcd, claim, created);
    if (!request)
        return;
    size_t length = hf__etcd_total_write(claim->op->in.limit, 0, text);
    hf__etcd_txn_begin(&txn);
    hf__etcd_txn_if_created(&txn, claim->layout->object, 0);
    hf__etcd_txn_if_created(&txn, hf__etcd_key_of(claim), claim->created);
    hf__etcd_txn_put(&txn, ETCD_THEN, claim->layout->object, hf__etcd_bytes(text, length), 0);
    hf__etcd_ask(etcd, request, &txn.message.base);
}

/* ---- holders ---- */

static void wait_for_permits(struct etcd *etcd, struct etcd_claim *claim, uint64_t missing,
                             int64_t revision)
{
    claim->missing = missing;
    claim->seen = revision;
    hf__etcd_wait(etcd, claim, revision, ask_position);
}

/* Its key is there. */
static void judge(struct etcd *etcd, struct etcd_claim *claim, const etcd_range_reply *claims,
                  const etcd_key_value *object, int64_t revision)
{
    struct etcd_total total = hf__etcd_total_read(object);
    uint64_t wanted = hf__etcd_permits_before(claims, claim->created) + claim->op->in.permits;
    bool granted = total.readable && claim->created <= total.held_until;
    if (!granted && is_in_vain(etcd, claim, &total))
        return;
    if (!total.there) {
        if (++claim->tries < TRIES_MAX)
            create(etcd, claim);
        else
            hf__etcd_begin_again(etcd, claim);
        /* mutant: etcd-permits-in-order */
    } else if (granted || wanted <= total.permits) {
        hf__etcd_grant(etcd, claim, revision);
    } else if (!claim->op->in.enqueue) {
        hf__etcd_withdraw(etcd, claim, HF_REFUSED);
    } else {
        wait_for_permits(etcd, claim, wanted - total.permits, revision);
    }
}

static void position_answered(struct etcd *etcd, struct etcd_request *request,
                              const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    const etcd_txn_reply *txn = reply->message;
    if (hf__etcd_has_left(request) || !hf__etcd_is_reply_good(etcd, claim, reply))
        return;
    const etcd_key_value *own = hf__etcd_txn_first_key(txn, 0);
    const etcd_range_reply *claims = hf__etcd_txn_range_reply(txn, 1);
    int64_t revision = hf__etcd_revision(txn->header);
    if (!claims || !revision) {
        hf__etcd_unreadable(etcd, claim);
    } else if (!own || own->create_revision != claim->created) {
        hf__etcd_begin_again(etcd, claim);
    } else {
        claim->changed = own->mod_revision;
        judge(etcd, claim, claims, hf__etcd_txn_first_key(txn, 2), revision);
    }
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
    hf__etcd_txn_claims(&txn, ETCD_THEN, claim->layout)->max_create_revision = claim->created - 1;
    hf__etcd_txn_object(&txn, ETCD_THEN, claim->layout);
    hf__etcd_ask(etcd, request, &txn.message.base);
}

/* ---- a place in the order ---- */

static bool is_other_kind(const etcd_txn_reply *txn, size_t index)
{
    return hf__etcd_txn_first_key(txn, index) || hf__etcd_txn_first_key(txn, index + 1);
}

static void place_answered(struct etcd *etcd, struct etcd_request *request,
                           const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    const etcd_txn_reply *txn = reply->message;
    if (hf__etcd_has_left(request) || !hf__etcd_is_reply_good(etcd, claim, reply))
        return;
    int64_t revision = hf__etcd_revision(txn->header);
    const etcd_range_reply *claims = hf__etcd_txn_range_reply(txn, 0);
    if (!claims || revision <= 0) {
        hf__etcd_unreadable(etcd, claim);
    } else if (txn->succeeded) {
        hf__etcd_key_is_there(claim, revision, revision);
        judge(etcd, claim, claims, hf__etcd_txn_first_key(txn, 1), revision);
    } else if (hf__etcd_take_over_key(claim, hf__etcd_txn_first_key(txn, 0))) {
        ask_position(etcd, claim);
    } else if (is_other_kind(txn, 1)) {
        hf__etcd_wrong_kind(etcd, claim);
    } else {
        hf__etcd_begin_again(etcd, claim);
    }
}

static void put_key(const struct etcd *etcd, struct etcd_txn *txn, const struct etcd_claim *claim,
                    char note[ETCD_NOTE_SIZE])
{
    size_t length = hf__etcd_claim_note(etcd, claim, claim->op->in.lease_ms, note);
    hf__etcd_txn_put(txn, ETCD_THEN, hf__etcd_key_of(claim), hf__etcd_bytes(note, length),
                     claim->session->id);
}

static void ask_for_place(struct etcd *etcd, struct etcd_claim *claim)
{
    struct etcd_txn txn;
    char note[ETCD_NOTE_SIZE];
    struct etcd_request *request = hf__etcd_attempt_request(etcd, claim, place_answered);
    if (!request)
        return;
    hf__etcd_txn_begin(&txn);
    hf__etcd_txn_if_created(&txn, hf__etcd_key_of(claim), 0);
    hf__etcd_txn_if_kind(&txn, claim->layout);
    hf__etcd_txn_claims(&txn, ETCD_THEN, claim->layout);
    hf__etcd_txn_object(&txn, ETCD_THEN, claim->layout);
    put_key(etcd, &txn, claim, note);
    hf__etcd_txn_range(&txn, ETCD_ELSE, hf__etcd_key_of(claim), hf__etcd_bytes("", 0));
    hf__etcd_txn_other_kinds(&txn, ETCD_ELSE, claim->layout);
    hf__etcd_ask_to_put(etcd, claim, request, &txn);
}

/* ---- a bare try ---- */

static void add_look(struct etcd_txn *txn, enum etcd_branch branch, const struct etcd_claim *claim)
{
    hf__etcd_txn_range(txn, branch, hf__etcd_key_of(claim), hf__etcd_bytes("", 0));
    hf__etcd_txn_claims(txn, branch, claim->layout);
    hf__etcd_txn_object(txn, branch, claim->layout);
    hf__etcd_txn_other_kinds(txn, branch, claim->layout);
}

static void judge_look(struct etcd *etcd, struct etcd_claim *claim, const etcd_txn_reply *txn);

static void try_answered(struct etcd *etcd, struct etcd_request *request,
                         const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    const etcd_txn_reply *txn = reply->message;
    if (hf__etcd_has_left(request) || !hf__etcd_is_reply_good(etcd, claim, reply))
        return;
    int64_t revision = hf__etcd_revision(txn->header);
    if (txn->succeeded && revision > 0) {
        hf__etcd_key_is_there(claim, revision, revision);
        hf__etcd_grant(etcd, claim, revision);
    } else if (txn->succeeded) {
        hf__etcd_unreadable(etcd, claim);
    } else {
        hf__known_reply(&claim->known, HF_WORD_REFUSED);
        judge_look(etcd, claim, txn);
    }
}

/* What comes in between makes it look again. Where others come again and again, it takes a place
 * like them, and gives that back if it is too far behind. */
static void try_to_take(struct etcd *etcd, struct etcd_claim *claim, const struct etcd_total *total,
                        int64_t revision)
{
    struct etcd_txn txn;
    char note[ETCD_NOTE_SIZE], text[ETCD_TOTAL_SIZE];
    const struct etcd_span *claims = &claim->layout->claims;
    if (++claim->looks >= LOOKS_MAX) { /* mutant: etcd-try-that-is-overtaken-puts-no-key */
        ask_for_place(etcd, claim);
        return;
    }
    struct etcd_request *request = hf__etcd_attempt_request(etcd, claim, try_answered);
    if (!request)
        return;
    hf__etcd_txn_begin(&txn);
    hf__etcd_txn_if_created(&txn, hf__etcd_key_of(claim), 0);
    hf__etcd_txn_if_changed(&txn, claim->layout->object, total->changed);
    /* mutant: etcd-try-that-others-precede */
    hf__etcd_txn_if_all_older(&txn, claims->begin, claims->end, revision + 1);
    hf__etcd_txn_if_kind(&txn, claim->layout);
    put_key(etcd, &txn, claim, note);
    if (!total->there) {
        size_t length = hf__etcd_total_write(claim->op->in.limit, 0, text);
        hf__etcd_txn_put(&txn, ETCD_THEN, claim->layout->object, hf__etcd_bytes(text, length), 0);
    }
    add_look(&txn, ETCD_ELSE, claim);
    hf__etcd_ask_to_put(etcd, claim, request, &txn);
}

static void judge_look(struct etcd *etcd, struct etcd_claim *claim, const etcd_txn_reply *txn)
{
    const etcd_range_reply *claims = hf__etcd_txn_range_reply(txn, 1);
    struct etcd_total total = hf__etcd_total_read(hf__etcd_txn_first_key(txn, 2));
    int64_t revision = hf__etcd_revision(txn->header);
    if (!claims || revision <= 0) {
        hf__etcd_unreadable(etcd, claim);
        return;
    }
    if (hf__etcd_take_over_key(claim, hf__etcd_txn_first_key(txn, 0))) {
        ask_position(etcd, claim);
        return;
    }
    if (is_other_kind(txn, 3)) {
        hf__etcd_wrong_kind(etcd, claim);
        return;
    }
    if (is_in_vain(etcd, claim, &total))
        return;
    uint32_t permits = total.there ? total.permits : claim->op->in.limit;
    if (hf__etcd_permits_before(claims, INT64_MAX) + claim->op->in.permits > permits)
        hf__etcd_refuse(etcd, claim);
    else
        try_to_take(etcd, claim, &total, revision);
}

static void claims_answered(struct etcd *etcd, struct etcd_request *request,
                            const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    if (!hf__etcd_has_left(request) && hf__etcd_is_reply_good(etcd, claim, reply))
        judge_look(etcd, claim, reply->message);
}

static void look_at_claims(struct etcd *etcd, struct etcd_claim *claim)
{
    struct etcd_txn txn;
    struct etcd_request *request = hf__etcd_attempt_request(etcd, claim, claims_answered);
    if (!request)
        return;
    hf__etcd_txn_begin(&txn);
    add_look(&txn, ETCD_THEN, claim);
    hf__etcd_ask(etcd, request, &txn.message.base);
}

void hf__etcd_semaphore_go_on(struct etcd *etcd, struct etcd_claim *claim)
{
    if (claim->created != 0)
        ask_position(etcd, claim);
    else if (claim->op->in.enqueue)
        ask_for_place(etcd, claim);
    else
        look_at_claims(etcd, claim);
}
