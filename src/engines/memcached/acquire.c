/* SPDX-License-Identifier: Apache-2.0 */
/* Attempts: `add`, and what the item is then, in one packet. Never `ms`: it deletes the item that
 * is there when the server has no memory for the new one. */
#include "base/clock.h"
#include "engines/common/poll.h"
#include "memcached.h"

#include <inttypes.h>

/* No message tells of a release: the pause between two attempts begins with this, doubles, and is
 * doubled once more for a wait of many attempts. It is shorter than MC_COURTESY_MS mostly. */
#define POLL_FIRST_MS 1
#define POLL_MOST_MS 4
#define POLL_MANY 100u

/* The clock, `add`, the item, the mark. */
#define ATTEMPT_REPLIES_WITH_MARK 4u

static void send_attempt(struct mc_server *server, struct mc_request *request);
static void attempt_answered(struct mc_server *server, struct mc_request *request, bool heard);

/* ---- verdicts ---- */

/* The CAS id of the item's first store is the token. Later ones, of renewals, have it written in
 * the item's value. */
uint64_t hf__mc_token_of(const struct mc_server *server, const struct mc_reply *item)
{
    struct mc_value value;
    hf__mc_read_value(&value, server->mc->settings.format, item->value, item->length);
    return value.token ? value.token : server->token_base + item->cas;
}

void hf__mc_granted(struct mc_server *server, struct mc_request *request,
                    const struct mc_reply *item, int64_t lease_ms)
{
    struct hf_op *op = request->op;
    op->out.token = request->token ? request->token : hf__mc_token_of(server, item);
    hf__mc_op_set_cas(server, op, item->cas);
    op->engine.pointer = NULL;
    op->engine.own_lease.engine = &server->mc->base;
    op->engine.own_lease.asked_at_ms = request->item.sent_at_ms;
    op->engine.own_lease.lease_ms = lease_ms;
    op->engine.own_lease.fixed = op->in.lease_ms > 0 || op->in.attach_key;
    op->out.rests_on = &op->engine.own_lease;
    hf__mc_finish(server, request, HF_WORD_GRANTED);
}

/* The holder's item ends at the end of a second of the server's. */
static void refused(struct mc_server *server, struct mc_request *request,
                    const struct mc_reply *item)
{
    struct hf_op *op = request->op;
    uintptr_t refusals = (uintptr_t)op->engine.pointer;
    int64_t most_ms = refusals > POLL_MANY ? 2 * POLL_MOST_MS : POLL_MOST_MS;
    int64_t pause_ms = item->ttl == 0 ? 1 : hf__poll_growing_ms(refusals, POLL_FIRST_MS, most_ms);
    op->engine.pointer = (void *)(refusals + 1);
    op->out.rests_on = NULL;
    op->out.retry_at_ms = hf__clock_add(hf__mc_now(server->mc), pause_ms);
    hf__mc_finish(server, request, HF_WORD_REFUSED);
}

/* What may have been stored ends with its exptime; the core repeats the release until then. */
static void no_answer(struct mc_server *server, struct mc_request *request)
{
    struct hf_op *op = request->op;
    bool attaches = op->in.attach_key != NULL;
    int64_t ttl = attaches ? request->ttl : hf__mc_ttl(hf__mc_op_lease_ms(server->mc, op));
    if (op->engine.known.asked) {
        op->engine.own_lease.engine = &server->mc->base;
        op->engine.own_lease.asked_at_ms = request->item.sent_at_ms;
        op->engine.own_lease.lease_ms = ttl * 1000;
        op->engine.own_lease.fixed = true;
        op->out.rests_on = &op->engine.own_lease;
    }
    hf__mc_finish(server, request, HF_WORD_OPEN);
}

/* An item that could not be released later is not taken. True: the request has ended. */
bool hf__mc_has_no_id(struct mc_server *server, struct mc_request *request,
                      const struct mc_reply *item)
{
    if (hf__mc_has_id(server, item, &request->op->out.error))
        return false;
    no_answer(server, request);
    return true;
}

void hf__mc_attempt_unanswered(struct mc_server *server, struct mc_request *request)
{
    struct hf_op *op = request->op;
    int code = hf__mc_explain_silence(server, &op->out.error);
    bool definite = code == HF_DENIED || code == HF_ENOTSUP;
    if (definite && !op->engine.known.asked)
        hf__mc_finish(server, request, HF_WORD_NEVER);
    else
        no_answer(server, request);
}

void hf__mc_no_memory(struct mc_server *server, struct mc_request *request,
                      const struct mc_reply *reply)
{
    hf__op_explain(request->op, HF_ELIMIT, 0,
                   "memcached at %.100s has no memory for a lock: %.100s; it runs with -M, or its "
                   "items are too large",
                   server->shown, reply->value);
    /* This command stored nothing, and the next one may have room. */
    hf__known_found(&request->op->engine.known, request->asked, HF_WORD_NEVER);
    hf__mc_finish(server, request, HF_WORD_OPEN);
}

/* The item changed between two commands, or the clock was behind: the same question again. */
void hf__mc_ask_again(struct mc_server *server, struct mc_request *request, bool by_right_clock)
{
    if (++request->repeats > MC_REPEATS_MAX) {
        hf__op_explain(request->op, HF_UNREACHABLE, 0, "memcached at %.100s: %s", server->shown,
                       by_right_clock
                           ? "its clock stands still or jumps; no lease can be counted by it"
                           : "what it stores is gone or changed at once: it evicts or flushes it, "
                             "or another client deletes it");
        no_answer(server, request);
        return;
    }
    if (by_right_clock)
        hf__mc_ask_by_right_clock(server, request);
    else
        hf__mc_ask(server, request);
}

/* ---- an earlier attempt got through: its item gets a life that begins now ---- */

static void send_renewal(struct mc_server *server, struct mc_request *request)
{
    struct mc_item item;
    hf__mc_item_of(server->mc, &item, request->op);
    if (!hf__mc_cas_is_known(server, request)) {
        hf__mc_write_look(server, &item);
        return;
    }
    hf__known_sent(&request->op->engine.known, request->asked);
    hf__mc_write_renewal(server, &item, request->op, request->cas,
                         hf__mc_ttl(hf__mc_op_lease_ms(server->mc, request->op)), false);
}

static void renewal_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    const struct mc_reply *clock = &request->replies[0], *done = &request->replies[1],
                          *now = &request->replies[2];
    struct mc_item item;
    if (!heard) {
        hf__mc_attempt_unanswered(server, request);
        return;
    }
    bool right = hf__mc_clock_was_right(server, request, clock);
    hf__mc_item_of(server->mc, &item, request->op);
    bool ours = hf__mc_is_ours(server->mc, now, &item);
    if (ours && hf__mc_has_no_id(server, request, now))
        return;
    if (right && done->kind == MC_STORED && ours) {
        hf__mc_granted(server, request, now, hf__mc_op_lease_ms(server->mc, request->op));
        return;
    }
    request->token = 0;
    request->send = send_attempt;
    request->answered = attempt_answered;
    hf__mc_ask_again(server, request, !right);
}

/* ---- the attempt ---- */

static void send_attempt(struct mc_server *server, struct mc_request *request)
{
    const struct memcached *mc = server->mc;
    struct hf_op *op = request->op;
    struct mc_item item;
    char value[MC_OWNER_MAX + 1];
    hf__mc_item_of(mc, &item, op);
    size_t length =
        hf__mc_write_value(value, mc->settings.format, item.owner, 0, op->in.owner_text);
    hf__known_sent(&op->engine.known, request->asked);
    hf__mc_write_clock(server);
    hf__mc_write(server, "add %s %" PRIu32 " %" PRId64 " %zu\r\n%s\r\nmg %s v c t\r\n", item.key,
                 mc->settings.format->flags, hf__mc_ttl(hf__mc_op_lease_ms(mc, op)), length, value,
                 item.key);
    /* It has been refused before, so it waits; and no release of its own client tells. */
    if (op->engine.pointer && !hf__op_is_held_here(op))
        hf__mc_write_mark(server, item.key);
}

static void attempt_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    const struct mc_reply *clock = &request->replies[0], *added = &request->replies[1],
                          *now = &request->replies[2];
    struct hf_op *op = request->op;
    struct mc_item item;
    if (!heard) {
        hf__mc_attempt_unanswered(server, request);
        return;
    }
    bool right = hf__mc_clock_was_right(server, request, clock);
    hf__mc_item_of(server->mc, &item, op);
    bool ours = hf__mc_is_ours(server->mc, now, &item);
    if (ours && hf__mc_has_no_id(server, request, now))
        return;
    bool taken = !ours && now->kind == MC_VALUE;
    if (added->kind == MC_REFUSED && !ours && !taken) {
        hf__mc_no_memory(server, request, added);
    } else if (ours && added->kind == MC_STORED && right) { /* mutant: memcached-right-clock */
        if (request->expected == ATTEMPT_REPLIES_WITH_MARK)
            hf__mc_note_own_mark(server->mc, op);
        hf__mc_granted(server, request, now, hf__mc_op_lease_ms(server->mc, op));
    } else if (ours && right) { /* mutant: memcached-own-item */
        hf__mc_note_cas(server, request, now->cas);
        request->token = op->out.token = hf__mc_token_of(server, now);
        request->send = send_renewal;
        request->answered = renewal_answered;
        hf__mc_ask(server, request);
    } else if (taken && added->kind != MC_STORED) { /* mutant: memcached-full-and-held */
        refused(server, request, now);
    } else {
        hf__mc_ask_again(server, request, !right);
    }
}

/* ---- asking ---- */

static bool can_be_asked(const struct memcached *mc, struct hf_op *op)
{
    char key[MC_KEY_MAX + 1];
    if (!hf__mc_key_of(mc, key, op->in.name, op->in.name_length))
        hf__op_explain(op, HF_EINVAL, 0,
                       "\"%.200s\": keys of this format have at most %d bytes, no spaces and plain "
                       "ASCII",
                       op->in.name, MC_KEY_MAX);
    else if (!hf__mc_lease_fits(hf__mc_op_lease_ms(mc, op)))
        hf__op_explain(op, HF_EINVAL, 0, "\"%.200s\": " MC_LEASE_RULE, op->in.name);
    else
        return true;
    return false;
}

void hf__mc_attempt(struct hf_engine *engine, struct hf_op *op)
{
    struct memcached *mc = (struct memcached *)engine;
    int64_t courtesy_ms = op->in.enqueue && !hf__known_is_there(&op->engine.known)
                              ? hf__mc_courtesy_until(mc, op)
                              : 0;
    if (courtesy_ms) {
        op->out.retry_at_ms = courtesy_ms;
        op->out.rests_on = NULL;
        op->out.verdict = HF_REFUSED;
        hf__op_done(engine, op);
        return;
    }
    enum hf_asked asked = op->in.attach_key ? HF_ASKED_ATTACH
                          : op->in.enqueue  ? HF_ASKED_ATTEMPT
                                            : HF_ASKED_TRY;
    struct mc_request *request = can_be_asked(mc, op) ? hf__mc_request_about(mc, op) : NULL;
    if (!request) {
        hf__op_set_verdict(op, hf__known_found(&op->engine.known, asked, HF_WORD_NEVER));
        hf__op_done(engine, op);
        return;
    }
    if (!hf__mc_op_claim(op))
        op->engine.word[0] = ++mc->claims;
    request->asked = asked;
    request->send = op->in.attach_key ? hf__mc_attach_send : send_attempt;
    request->answered = op->in.attach_key ? hf__mc_attach_answered : attempt_answered;
    struct mc_server *server = hf__mc_server_of(mc, op->in.name, op->in.name_length);
    hf__mc_list_claims(server);
    hf__mc_ask(server, request);
}
