/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a claim at its server, from top to bottom: an attempt, what its replies say, the
 * verdict, an attach, renewals and the release. What the server may have of the claim is in the
 * core's table (core/known.h).
 *
 * A question is one packet: the server's clock, a command, and what the item is then. An item is
 * made by `add`, and changed or deleted by its CAS id; it is looked at first if that is not sure.
 * Never `ms`: it deletes the item that is there when the server has no memory for another. */
#include "memcached.h"

#include <inttypes.h>

#define ATTEMPT_REPLIES_WITH_MARK 4u /* the clock, `add`, the item, the mark */

static int64_t lease_of(const struct memcached *mc, const struct hf_op *op)
{
    return op->in.lease_ms ? op->in.lease_ms : mc->base.host->lease_ms;
}

static bool is_of(const struct memcached *mc, const struct mc_reply *item, const char *owner)
{
    return item->kind == MC_VALUE &&
           hf__mc_value_is_of(mc->settings.format, item->value, item->length, owner);
}

bool hf__mc_is_ours(const struct memcached *mc, const struct hf_op *op, const struct mc_reply *item)
{
    char owner[HF_OWNER_KEY_SIZE];
    hf__mc_write_owner(mc, op, owner);
    return is_of(mc, item, owner);
}

/* The CAS id of the item's first store is the token. Later ones, of renewals, have it written in
 * the item's value. */
static uint64_t mc_token_of(const struct mc_server *server, const struct mc_reply *item)
{
    struct mc_value value;
    hf__mc_read_value(&value, server->mc->settings.format, item->value, item->length);
    return value.token ? value.token : server->token_base + item->cas;
}

/* ---- asking ---- */

static void ask_server(struct mc_server *server, struct mc_request *request, mc_send *send,
                       mc_answered *answered)
{
    request->send = send;
    request->answered = answered;
    hf__mc_ask(server, request);
}

/* NULL: the op says why. */
static struct mc_request *request_about(struct memcached *mc, struct hf_op *op, enum hf_asked asked)
{
    struct mc_request *request = hf__mc_request_new(mc);
    if (!request) {
        hf__op_explain(op, HF_ENOMEM, 0, "out of memory for a request");
        return NULL;
    }
    if (!hf__mc_write_key(request->key, mc->settings.format, op->in.name, op->in.name_length)) {
        hf__op_explain(op, HF_EINVAL, 0,
                       "\"%.200s\": keys of this format have at most %d bytes, no spaces and plain "
                       "ASCII",
                       op->in.name, MC_KEY_MAX);
        hf__mc_request_free(mc, request);
        return NULL;
    }
    request->op = op;
    request->asked = asked;
    return request;
}

static mc_send send_add;
static mc_answered attempt_answered;

void hf__mc_attempt(struct hf_engine *engine, struct hf_op *op)
{
    struct memcached *mc = (struct memcached *)engine;
    bool waits = op->in.enqueue && !hf__known_is_there(&op->engine.known);
    int64_t courtesy_ms = waits ? hf__mc_courtesy_until(mc, op) : 0;
    if (courtesy_ms) {
        op->out.retry_at_ms = courtesy_ms;
        op->out.rests_on = NULL;
        op->out.verdict = HF_REFUSED;
        hf__op_done(engine, op);
        return;
    }
    enum hf_asked asked = op->in.enqueue ? HF_ASKED_ATTEMPT : HF_ASKED_TRY;
    if (op->in.attach_key)
        asked = HF_ASKED_ATTACH;
    struct mc_request *request = NULL;
    if (hf__mc_lease_fits(lease_of(mc, op)))
        request = request_about(mc, op, asked);
    else
        hf__op_explain(op, HF_EINVAL, 0, "\"%.200s\": " MC_LEASE_RULE, op->in.name);
    if (!request) {
        hf__op_set_verdict(op, hf__known_found(&op->engine.known, asked, HF_WORD_NEVER));
        hf__op_done(engine, op);
        return;
    }
    if (!hf__mc_op_claim(op))
        op->engine.word[0] = ++mc->claims;
    struct mc_server *server = hf__mc_server_of(mc, op->in.name, op->in.name_length);
    hf__mc_list_claims(server);
    request->ttl = hf__mc_ttl(lease_of(mc, op));
    mc_send *send = op->in.attach_key ? hf__mc_send_renewal : send_add;
    ask_server(server, request, send, attempt_answered);
}

static void send_add(struct mc_server *server, struct mc_request *request)
{
    const struct memcached *mc = server->mc;
    struct hf_op *op = request->op;
    char owner[HF_OWNER_KEY_SIZE], value[MC_OWNER_MAX + 1];
    hf__mc_write_owner(mc, op, owner);
    size_t length = hf__mc_write_value(value, mc->settings.format, owner, 0, op->in.owner_text);
    hf__known_sent(&op->engine.known, request->asked);
    hf__mc_write_clock(server);
    hf__mc_write(server, "add %s %" PRIu32 " %" PRId64 " %zu\r\n%s\r\nmg %s v c t\r\n",
                 request->key, mc->settings.format->flags, request->ttl, length, value,
                 request->key);
    /* It has been refused before, so it waits; and no release of its own client tells. */
    if (op->engine.pointer && !hf__op_is_held_here(op))
        hf__mc_write_mark(server, request->key);
}

/* The item of an earlier attempt that got through, one that is adopted, or one that is held. `cas`
 * moves the item to the front of its class; a touch needs no memory. The request may outlive a
 * claim that is released meanwhile. */
void hf__mc_send_renewal(struct mc_server *server, struct mc_request *request)
{
    const struct mc_format *format = server->mc->settings.format;
    struct hf_op *op = request->oneshot ? request->oneshot->op : request->op;
    char owner[HF_OWNER_KEY_SIZE], value[MC_OWNER_MAX + 1];
    bool renews = op && hf__mc_cas_is_known(server, request);
    if (renews && request->asked)
        hf__known_sent(&op->engine.known, request->asked);
    hf__mc_write_clock(server);
    if (!renews) {
        hf__mc_write(server, "mg %s v c t\r\n", request->key);
    } else if (request->by_touch) {
        hf__mc_write(server, "md %s I T%" PRId64 " C%" PRIu64 "\r\n", request->key, request->ttl,
                     request->cas);
    } else {
        hf__mc_write_owner(server->mc, op, owner);
        size_t length = hf__mc_write_value(value, format, owner, op->out.token, op->in.owner_text);
        hf__mc_write(server, "cas %s %" PRIu32 " %" PRId64 " %zu %" PRIu64 "\r\n%s\r\n",
                     request->key, format->flags, request->ttl, length, request->cas, value);
    }
    hf__mc_write(server, "mg %s v c t\r\n", request->key);
}

/* ---- the verdict ---- */

/* Connections are answered in order. Of an earlier one, a server that was paused may execute what
 * it has read: such an item ends with its exptime. */
static void finish_request(struct mc_server *server, struct mc_request *request, enum hf_word word)
{
    struct hf_op *op = request->op;
    struct hf_known *known = &op->engine.known;
    if (word != HF_WORD_OPEN)
        hf__known_settled(known);
    if (word == HF_WORD_DONE || word == HF_WORD_MISSING)
        op->engine.word[1] = 0;
    hf__op_set_verdict(op, hf__known_found(known, request->asked, word));
    op->out.contacted = request->item.sent;
    hf__mc_request_free(server->mc, request);
    hf__op_done(&server->mc->base, op);
}

/* The item ends with its exptime. */
static void rest_on_own_lease(struct mc_server *server, struct mc_request *request,
                              int64_t lease_ms, bool fixed)
{
    struct hf_op *op = request->op;
    op->engine.own_lease.engine = &server->mc->base;
    op->engine.own_lease.asked_at_ms = request->item.sent_at_ms;
    op->engine.own_lease.lease_ms = lease_ms;
    op->engine.own_lease.fixed = fixed;
    op->out.rests_on = &op->engine.own_lease;
}

static void grant(struct mc_server *server, struct mc_request *request, const struct mc_reply *item,
                  int64_t lease_ms)
{
    struct hf_op *op = request->op;
    op->out.token = request->token ? request->token : mc_token_of(server, item);
    hf__mc_op_set_cas(server, op, item->cas);
    op->engine.pointer = NULL;
    rest_on_own_lease(server, request, lease_ms, op->in.lease_ms > 0 || op->in.attach_key);
    finish_request(server, request, HF_WORD_GRANTED);
}

/* What may have been stored ends with its exptime; the core repeats the release until then. */
static void end_attempt_open(struct mc_server *server, struct mc_request *request)
{
    if (request->op->engine.known.asked)
        rest_on_own_lease(server, request, request->ttl * 1000, true);
    finish_request(server, request, HF_WORD_OPEN); /* mutant: memcached-open-error */
}

/* This command stored nothing, and the next one may have room. */
static void end_without_memory(struct mc_server *server, struct mc_request *request,
                               const struct mc_reply *reply)
{
    hf__op_explain(request->op, HF_ELIMIT, 0,
                   "memcached at %.100s has no memory for a lock: %.100s; it runs with -M, or its "
                   "items are too large",
                   server->shown, reply->value);
    hf__known_found(&request->op->engine.known, request->asked, HF_WORD_NEVER);
    finish_request(server, request, HF_WORD_OPEN);
}

/* The item changed between two commands, or the clock was behind: the same question again. */
static void mc_ask_again(struct mc_server *server, struct mc_request *request, bool by_right_clock)
{
    if (++request->repeats > MC_REPEATS_MAX) {
        hf__op_explain(request->op, HF_UNREACHABLE, 0, "memcached at %.100s: %s", server->shown,
                       by_right_clock
                           ? "its clock stands still or jumps; no lease can be counted by it"
                           : "what it stores is gone or changed at once: it evicts or flushes it, "
                             "or another client deletes it");
        end_attempt_open(server, request);
    } else if (by_right_clock) {
        hf__mc_ask_by_right_clock(server, request);
    } else {
        hf__mc_ask(server, request);
    }
}

/* ---- what the replies to an attempt say ---- */

/* The item of an earlier attempt that got through is renewed: its life begins now. */
static void add_heard(struct mc_server *server, struct mc_request *request, bool right, bool ours)
{
    const struct mc_reply *done = &request->replies[1], *now = &request->replies[2];
    struct hf_op *op = request->op;
    bool taken = !ours && now->kind == MC_VALUE;
    if (done->kind == MC_REFUSED && !ours && !taken) {
        end_without_memory(server, request, done);
    } else if (ours && done->kind == MC_STORED && right) { /* mutant: memcached-right-clock */
        if (request->expected == ATTEMPT_REPLIES_WITH_MARK)
            hf__mc_note_own_mark(server->mc, op);
        grant(server, request, now, lease_of(server->mc, op));
    } else if (ours && right) { /* mutant: memcached-own-item */
        hf__mc_note_cas(server, request, now->cas);
        request->token = op->out.token = mc_token_of(server, now);
        request->send = hf__mc_send_renewal;
        mc_ask_again(server, request, false);
    } else if (taken && done->kind != MC_STORED) { /* mutant: memcached-full-and-held */
        op->out.rests_on = NULL;
        op->out.retry_at_ms = hf__mc_poll_at_ms(server->mc, op, now->ttl == 0);
        finish_request(server, request, HF_WORD_REFUSED);
    } else {
        request->token = 0;
        request->send = send_add;
        mc_ask_again(server, request, !right);
    }
}

/* The item was left under a key. It gets a new owner, and ends when it would have ended: the new
 * value has the seconds that are left. */
static void attach_heard(struct mc_server *server, struct mc_request *request, bool right,
                         bool ours, bool left)
{
    const struct mc_reply *done = &request->replies[1], *now = &request->replies[2];
    struct hf_op *op = request->op;
    if (left && done->kind == MC_REFUSED) {
        end_without_memory(server, request, done);
    } else if ((!ours && !left) || (right && now->ttl <= MC_TTL_MARGIN)) {
        finish_request(server, request, HF_WORD_REFUSED);
    } else if (right && ours) {
        grant(server, request, now, (now->ttl - MC_TTL_MARGIN) * 1000);
    } else {
        /* The first packet has no id, and looks. One by a wrong clock is followed by a look. */
        hf__mc_note_cas(server, request, right ? now->cas : 0);
        request->ttl = now->ttl;
        if (left)
            request->token = op->out.token = mc_token_of(server, now);
        mc_ask_again(server, request, !right);
    }
}

static void attempt_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    const struct mc_reply *now = &request->replies[2];
    struct hf_op *op = request->op;
    const char *key = op->in.attach_key;
    if (!heard) {
        int code = hf__mc_explain_silence(server, &op->out.error);
        if ((code == HF_DENIED || code == HF_ENOTSUP) && !op->engine.known.asked)
            finish_request(server, request, HF_WORD_NEVER);
        else
            end_attempt_open(server, request);
        return;
    }
    bool right = hf__mc_clock_was_right(server, request);
    bool ours = hf__mc_is_ours(server->mc, op, now), left = key && is_of(server->mc, now, key);
    if ((ours || left) && !hf__mc_has_id(server, now, &op->out.error))
        end_attempt_open(server, request); /* it could not be released later */
    else if (key)
        attach_heard(server, request, right, ours, left);
    else
        add_heard(server, request, right, ours);
}

/* ---- renewals ---- */

static void renewal_ends(struct mc_server *server, struct mc_request *request,
                         enum hf_lease_answer answer)
{
    struct hf_op *op = request->op;
    int64_t asked_at_ms = request->item.sent_at_ms;
    hf__mc_request_free(server->mc, request);
    if (!op)
        return;
    op->engine.word[1] &= ~(uint64_t)MC_RENEWING;
    hf__lease_answer(&op->engine.own_lease, asked_at_ms, answer, 0, NULL);
}

bool hf__mc_renew_again(struct mc_server *server, struct mc_request *request, bool right)
{
    const struct mc_reply *done = &request->replies[1], *now = &request->replies[2];
    if (++request->repeats > MC_REPEATS_MAX)
        return false;
    hf__mc_note_cas(server, request, now->cas);
    if (done->kind == MC_REFUSED) /* mutant: memcached-touch-when-full */
        request->by_touch = true;
    if (right)
        hf__mc_ask(server, request);
    else
        hf__mc_ask_by_right_clock(server, request);
    return true;
}

/* The packet shows the item behind the renewal: its id is the next one's. */
static void mc_renewal_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    const struct mc_reply *done = &request->replies[1], *now = &request->replies[2];
    struct hf_op *op = request->op;
    if (!heard || !op) {
        renewal_ends(server, request, HF_LEASE_NO_ANSWER);
        return;
    }
    bool right = hf__mc_clock_was_right(server, request);
    if (!hf__mc_is_ours(server->mc, op, now)) {
        renewal_ends(server, request, HF_LEASE_GONE);
        return;
    }
    hf__mc_op_set_cas(server, op, now->cas);
    if (right && (done->kind == MC_STORED || done->kind == MC_DONE))
        renewal_ends(server, request, HF_LEASE_RENEWED);
    else if (now->cas == 0 || !hf__mc_renew_again(server, request, right))
        renewal_ends(server, request, HF_LEASE_NO_ANSWER);
}

void hf__mc_renew(struct hf_engine *engine, struct hf_lease *lease)
{
    struct memcached *mc = (struct memcached *)engine;
    struct hf_op *op = HF_CONTAINER(lease, struct hf_op, engine.own_lease);
    if (op->engine.word[1] & MC_RENEWING)
        return;
    struct mc_request *request = request_about(mc, op, HF_ASKED_NOTHING);
    if (!request) {
        hf__lease_answer(lease, 0, HF_LEASE_NO_ANSWER, 0, NULL);
        return;
    }
    op->engine.word[1] |= MC_RENEWING;
    hf__mc_use_cas_of(request, op);
    request->ttl = hf__mc_ttl(lease->lease_ms);
    ask_server(hf__mc_server_of(mc, op->in.name, op->in.name_length), request, hf__mc_send_renewal,
               mc_renewal_answered);
}

bool hf__mc_compact(struct hf_engine *engine, struct hf_op *op)
{
    hf__mc_forget_renewals((struct memcached *)engine, op);
    return true;
}

/* ---- a release: the item goes, or back under the key that an attach has named ---- */

static mc_send send_release;
static mc_answered release_answered, mc_look_answered;

void hf__mc_release(struct hf_engine *engine, struct hf_op *op)
{
    struct memcached *mc = (struct memcached *)engine;
    const struct hf_known *known = &op->engine.known;
    enum hf_way_out out = hf__known_way_out(known, op->in.attach_key, false);
    enum hf_asked asked = HF_ASKED_RELEASE;
    hf__mc_forget_renewals(mc, op);
    op->engine.pointer = NULL;
    if (out == HF_OUT_UNDO) /* mutant: memcached-attach-unheard */
        asked = HF_ASKED_UNDO;
    struct mc_request *request = out ? request_about(mc, op, asked) : NULL;
    if (!request) {
        op->out.verdict = out ? HF_NO_ANSWER : HF_GONE;
        hf__op_done(engine, op);
        return;
    }
    if (asked == HF_ASKED_RELEASE && !hf__known_is_open(known))
        hf__mc_use_cas_of(request, op);
    ask_server(hf__mc_server_of(mc, op->in.name, op->in.name_length), request, send_release,
               release_answered);
}

static void lock_send_look(struct mc_server *server, struct mc_request *request)
{
    hf__mc_write(server, "mg %s v c t\r\n", request->key);
}

/* What is put back is the item that the look has shown, with the seconds that it has left. */
static void send_release(struct mc_server *server, struct mc_request *request)
{
    const struct mc_format *format = server->mc->settings.format;
    const struct mc_reply *shown = &request->replies[0];
    struct mc_value was;
    char value[MC_OWNER_MAX + 1];
    if (!hf__mc_cas_is_known(server, request)) {
        request->answered = mc_look_answered;
        lock_send_look(server, request);
        return;
    }
    hf__known_sent(&request->op->engine.known, request->asked);
    if (request->asked == HF_ASKED_RELEASE) {
        /* mutant: memcached-release-by-cas */
        hf__mc_write(server, "md %s C%" PRIu64 "\r\n", request->key, request->cas);
        hf__mc_write_unmark(server, request->key);
        return;
    }
    hf__mc_read_value(&was, format, shown->value, shown->length);
    size_t length =
        hf__mc_write_value(value, format, request->op->in.attach_key, request->token, was.text);
    hf__mc_write(server, "cas %s %" PRIu32 " %" PRId64 " %zu %" PRIu64 "\r\n%s\r\n", request->key,
                 format->flags, shown->ttl, length, request->cas, value);
}

static void release_unanswered(struct mc_server *server, struct mc_request *request)
{
    hf__mc_explain_silence(server, &request->op->out.error);
    finish_request(server, request, HF_WORD_OPEN);
}

/* Another id: a renewal has changed it whose reply was lost; or the item is another owner's. */
static void release_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    const struct mc_reply *done = &request->replies[0];
    struct hf_op *op = request->op;
    if (!heard) {
        release_unanswered(server, request);
    } else if (done->kind == MC_DONE || done->kind == MC_STORED) {
        if (done->kind == MC_DONE)
            hf__mc_note_mark(server->mc, op, &request->replies[1]);
        finish_request(server, request, HF_WORD_DONE);
    } else if (done->kind == MC_NOT_FOUND) {
        finish_request(server, request, HF_WORD_MISSING);
    } else if (done->kind == MC_REFUSED) {
        end_without_memory(server, request, done);
    } else if (++request->repeats > MC_REPEATS_MAX) {
        hf__op_explain(op, HF_UNREACHABLE, 0, "memcached at %.100s: the item changes all the time",
                       server->shown);
        finish_request(server, request, HF_WORD_OPEN);
    } else {
        /* It has changed nothing, and the id is wrong. */
        hf__known_reply(&op->engine.known, HF_WORD_NEVER);
        hf__mc_op_set_cas(server, op, 0);
        ask_server(server, request, lock_send_look, mc_look_answered);
    }
}

/* An item that is still under its key gets a new CAS id all the same: an adoption that a slow
 * server executes after this names the old one. */
static void mc_look_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    const struct mc_reply *now = &request->replies[0];
    struct hf_op *op = request->op;
    bool undoes = request->asked == HF_ASKED_UNDO;
    if (!heard) {
        release_unanswered(server, request);
        return;
    }
    bool ours = hf__mc_is_ours(server->mc, op, now) ||
                (undoes && is_of(server->mc, now, op->in.attach_key));
    /* Where it is put back, the item's last second ends by itself. */
    if (!ours || (undoes && now->ttl <= 0)) {
        finish_request(server, request, HF_WORD_MISSING);
    } else if (!hf__mc_has_id(server, now, &op->out.error)) {
        finish_request(server, request, HF_WORD_OPEN);
    } else {
        hf__mc_note_cas(server, request, now->cas);
        request->token = mc_token_of(server, now);
        ask_server(server, request, send_release, release_answered);
    }
}
