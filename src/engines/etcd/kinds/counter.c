/* SPDX-License-Identifier: Apache-2.0 */
/* Taking from a counter, in the order of arrival. It is a change of the value (change.c), which the
 * oldest waiter may make; a newcomer only where there is no waiter.
 *
 *   asked:  read the value, the own key, and the oldest waiter
 *             enough, and no older one:  write the rest, and delete the own key: GRANTED
 *             else:  put the own key, if it is not there; wait for the waiter before it to go, or,
 *                    at the head, for the value to change
 *
 * A take whose reply is missing keeps its change, which knows it again. Giving up such a take, or
 * one that came too late, settles first whether it was done: then the units go back; else a mark of
 * a later number makes sure that it never will be. */
#include "change.h"

#include "base/testing.h"

#include <inttypes.h>
#include <stdio.h>

/* op->engine.word[0]: the units were taken. */
#define TAKEN UINT64_C(1)

/* ---- how an attempt ends ---- */

static void take_ended(struct etcd_change *change, int code)
{
    struct etcd *etcd = change->etcd;
    struct etcd_claim *claim = change->claim;
    claim->change = hf__known_is_open(&change->known) ? change : NULL;
    claim->op->out.contacted = change->contacted;
    if (code == HF_OK) {
        claim->op->engine.word[0] = TAKEN;
        hf__etcd_grant_without_key(etcd, claim);
    } else if ((code == HF_UNREACHABLE || code == HF_ENOMEM || hf__known_is_open(&change->known)) &&
               !change->lost) {
        hf__etcd_finish(etcd, claim, HF_NO_ANSWER);
    } else {
        hf__etcd_withdraw(etcd, claim, HF_FAILED);
    }
}

/* ---- waiting ---- */

/* Behind the claim before its own, the newest of those that are older, in a list by creation; at
 * the head, for the value. */
static void wait_in_line(struct etcd *etcd, struct etcd_claim *claim,
                         const etcd_range_reply *claims, int64_t revision)
{
    ProtobufCBinaryData blocker = hf__etcd_binary(claim->layout->object);
    for (size_t i = 0; i < claims->n_kvs; i++)
        if (claims->kvs[i]->create_revision < claim->created)
            blocker = claims->kvs[i]->key;
    hf__etcd_wait_for_key(etcd, claim, &blocker, revision, hf__etcd_counter_go_on);
}

/* It is the newest. */
static void key_is_put(struct etcd *etcd, struct etcd_claim *claim, const etcd_txn_reply *txn)
{
    const etcd_range_reply *claims = hf__etcd_txn_range_reply(txn, 0);
    struct etcd_total value = hf__etcd_total_read(hf__etcd_txn_first_key(txn, 1));
    int64_t revision = hf__etcd_revision(txn->header);
    if (!claims || revision <= 0) {
        hf__etcd_unreadable(etcd, claim);
        return;
    }
    hf__etcd_key_is_there(claim, revision, revision);
    if (claims->n_kvs > 0 || value.permits < claim->op->in.permits)
        wait_in_line(etcd, claim, claims, revision);
    else
        hf__etcd_counter_go_on(etcd, claim);
}

static void put_answered(struct etcd *etcd, struct etcd_request *request,
                         const struct etcd_reply *reply)
{
    struct etcd_claim *claim = request->claim;
    const etcd_txn_reply *txn = reply->message;
    if (hf__etcd_has_left(request) || !hf__etcd_is_reply_good(etcd, claim, reply))
        return;
    if (txn->succeeded) {
        key_is_put(etcd, claim, txn);
    } else if (hf__etcd_take_over_key(claim, hf__etcd_txn_first_key(txn, 0))) {
        hf__etcd_counter_go_on(etcd, claim);
    } else if (hf__etcd_txn_first_key(txn, 1) || hf__etcd_txn_first_key(txn, 2)) {
        hf__etcd_wrong_kind(etcd, claim);
    } else {
        hf__etcd_begin_again(etcd, claim);
    }
}

static void put_key(struct etcd *etcd, struct etcd_claim *claim)
{
    struct etcd_txn txn;
    char note[ETCD_NOTE_SIZE];
    struct etcd_request *request = hf__etcd_attempt_request(etcd, claim, put_answered);
    if (!request)
        return;
    size_t length = hf__etcd_claim_note(etcd, claim, 0, note);
    hf__etcd_txn_begin(&txn);
    hf__etcd_txn_if_created(&txn, hf__etcd_key_of(claim), 0);
    hf__etcd_txn_if_kind(&txn, claim->layout);
    hf__etcd_range_by_creation(hf__etcd_txn_claims(&txn, ETCD_THEN, claim->layout), true, 0);
    hf__etcd_txn_object(&txn, ETCD_THEN, claim->layout);
    hf__etcd_txn_put(&txn, ETCD_THEN, hf__etcd_key_of(claim), hf__etcd_bytes(note, length),
                     claim->session->id);
    hf__etcd_txn_range(&txn, ETCD_ELSE, hf__etcd_key_of(claim), hf__etcd_bytes("", 0));
    hf__etcd_txn_other_kinds(&txn, ETCD_ELSE, claim->layout);
    hf__etcd_ask_to_put(etcd, claim, request, &txn);
}

/* ---- taking ---- */

static bool has_older(const struct etcd_change *change, const etcd_range_reply *claims)
{
    if (claims->n_kvs == 0)
        return false;
    return change->own_created == 0 || claims->kvs[0]->create_revision < change->own_created;
}

/* Nothing of it is open, so nothing of the change is left. */
static struct etcd_claim *leave_change(struct etcd_change *change)
{
    struct etcd_claim *claim = change->claim;
    claim->change = NULL;
    hf__etcd_change_drop(change);
    return claim;
}

static void refuse_change(struct etcd_change *change, const struct etcd_state *state)
{
    struct etcd *etcd = change->etcd;
    struct etcd_claim *claim = leave_change(change);
    if (!claim->op->in.enqueue)
        hf__etcd_refuse(etcd, claim);
    else if (claim->created == 0)
        put_key(etcd, claim);
    else
        wait_in_line(etcd, claim, state->claims, state->revision);
}

static void decide_take(struct etcd_change *change, const struct etcd_state *state)
{
    struct etcd_total value = hf__etcd_total_read(state->object);
    const struct hf_op *op = change->claim->op;
    if (change->own_created != 0 &&
        (!state->own || state->own->create_revision != change->own_created)) {
        struct etcd *etcd = change->etcd;
        hf__etcd_begin_again(etcd, leave_change(change));
    } else if (value.there && !value.readable) {
        hf__etcd_change_fail(change, HF_EKIND, "\"%.200s\" is no number", op->in.name);
    } else if (value.permits < op->in.permits || has_older(change, state->claims)) {
        refuse_change(change, state);
    } else {
        struct etcd_write *write = &change->write;
        /* A newcomer takes nothing where others wait. */
        *write = (struct etcd_write){ .if_changed = value.changed,
                                      .claims_before = change->own_created == 0 };
        write->length = (size_t)snprintf(write->text, sizeof write->text, "%" PRIu32,
                                         value.permits - op->in.permits);
        hf__etcd_change_write(change);
    }
}

static const struct etcd_change_kind take = { .decide = decide_take,
                                              .ended = take_ended,
                                              .stays = true };

void hf__etcd_counter_go_on(struct etcd *etcd, struct etcd_claim *claim)
{
    const struct hf_op *op = claim->op;
    if (claim->change) {
        /* With another session the claim has another key. */
        claim->change->own = hf__etcd_key_of(claim);
        claim->change->own_created = claim->created;
        hf__etcd_change_ask_again(claim->change);
        return;
    }
    struct etcd_change *change =
        hf__etcd_change_new(etcd, &take, op->in.name, op->in.name_length, "counter");
    if (!change) {
        hf__etcd_no_memory(etcd, claim);
        return;
    }
    claim->change = change;
    change->claim = claim;
    change->error = &claim->op->out.error;
    change->own = hf__etcd_key_of(claim);
    change->own_created = claim->created;
    hf__etcd_change_begin(change);
}

/* ---- giving back what was taken in vain ---- */

static void returned(struct etcd_change *change, int code)
{
    struct hf_op *op = change->op;
    bool done = code != HF_UNREACHABLE && code != HF_ENOMEM && code != HF_ELIMIT;
    op->engine.pointer = hf__known_is_open(&change->known) ? change : NULL;
    op->out.contacted = change->contacted;
    op->out.verdict = done || change->lost ? HF_GONE : HF_NO_ANSWER;
    if (op->out.verdict == HF_GONE)
        op->engine.word[0] = 0;
    hf__op_done(&change->etcd->base, op);
}

static void decide_return(struct etcd_change *change, const struct etcd_state *state)
{
    struct etcd_total value = hf__etcd_total_read(state->object);
    uint64_t sum = (uint64_t)value.permits + change->op->in.permits;
    struct etcd_write *write = &change->write;
    *write = (struct etcd_write){ .if_changed = value.changed };
    write->length = (size_t)snprintf(write->text, sizeof write->text, "%" PRIu64,
                                     sum < UINT32_MAX ? sum : UINT32_MAX);
    hf__etcd_change_write(change);
}

static const struct etcd_change_kind give_back = { .decide = decide_return,
                                                   .ended = returned,
                                                   .stays = true };

static void begin_return(struct etcd *etcd, struct hf_op *op)
{
    struct etcd_change *change =
        op->engine.pointer
            ? op->engine.pointer
            : hf__etcd_change_new(etcd, &give_back, op->in.name, op->in.name_length, "counter");
    if (!change) {
        hf__etcd_release_no_memory(etcd, op);
        return;
    }
    change->op = op;
    change->error = &op->out.error;
    if (op->engine.pointer)
        hf__etcd_change_ask_again(change);
    else
        hf__etcd_change_begin(change);
}

/* ---- a take that is given up, and may have been done ---- */

static void settled(struct etcd_change *change, int code)
{
    struct etcd *etcd = change->etcd;
    struct etcd_claim *claim = change->claim;
    struct hf_op *op = claim->op;
    claim->change = hf__known_is_open(&change->known) ? change : NULL;
    if (code == HF_OK && change->done) {
        hf__etcd_leave(etcd, claim);
        op->engine.word[0] = TAKEN;
        begin_return(etcd, op);
    } else if (code == HF_OK || change->lost) {
        hf__etcd_release_key(etcd, op);
    } else {
        op->out.verdict = HF_NO_ANSWER;
        hf__op_done(&etcd->base, op);
    }
}

static void decide_nothing(struct etcd_change *change, const struct etcd_state *state)
{
    (void)state;
    hf__etcd_change_end(change, HF_OK);
}

static const struct etcd_change_kind settle = { .decide = decide_nothing,
                                                .ended = settled,
                                                .stays = true };

bool hf__etcd_counter_is_taken(const struct hf_op *op)
{
    return op->in.mode == HF_COUNTER && op->engine.word[0] == TAKEN;
}

bool hf__etcd_counter_release(struct etcd *etcd, struct hf_op *op)
{
    struct etcd_claim *claim = op->engine.pointer;
    if (op->engine.word[0] == TAKEN) {
        begin_return(etcd, op);
        return true;
    }
    if (!claim || !claim->change)
        return false;
    claim->change->kind = &settle;
    hf__etcd_change_ask_again(claim->change);
    return true;
}
