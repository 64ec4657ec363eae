/* SPDX-License-Identifier: Apache-2.0 */
/* Releases: `md` with the CAS id, so that only our own item is deleted. Without an id that is sure,
 * the item is looked at first. */
#include "memcached.h"

#include <inttypes.h>

static void send_look(struct mc_server *server, struct mc_request *request);
static void look_answered(struct mc_server *server, struct mc_request *request, bool heard);

void hf__mc_release_gone(struct mc_server *server, struct mc_request *request, enum hf_word word)
{
    request->op->engine.word[1] = 0;
    request->op->engine.pointer = NULL;
    hf__mc_finish(server, request, word);
}

void hf__mc_release_unanswered(struct mc_server *server, struct mc_request *request)
{
    hf__mc_explain_silence(server, &request->op->out.error);
    hf__mc_finish(server, request, HF_WORD_OPEN);
}

void hf__mc_release_overtaken(struct mc_server *server, struct mc_request *request)
{
    hf__op_explain(request->op, HF_UNREACHABLE, 0,
                   "memcached at %.100s: the item changes all the time", server->shown);
    hf__mc_finish(server, request, HF_WORD_OPEN);
}

static void send_deletion(struct mc_server *server, struct mc_request *request)
{
    struct mc_item item;
    if (!hf__mc_cas_is_known(server, request)) {
        request->answered = look_answered;
        send_look(server, request);
        return;
    }
    hf__mc_item_of(server->mc, &item, request->op);
    hf__known_sent(&request->op->engine.known, HF_ASKED_RELEASE);
    /* mutant: memcached-release-by-cas */
    hf__mc_write(server, "md %s C%" PRIu64 "\r\n", item.key, request->cas);
    hf__mc_write_unmark(server, item.key);
}

/* Another id: a renewal has changed it whose reply was lost; or the item is another owner's. */
static void deletion_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    const struct mc_reply *reply = &request->replies[0];
    if (!heard) {
        hf__mc_release_unanswered(server, request);
    } else if (reply->kind == MC_DONE) {
        hf__mc_note_mark(server->mc, request->op, &request->replies[1]);
        hf__mc_release_gone(server, request, HF_WORD_DONE);
    } else if (reply->kind == MC_NOT_FOUND) {
        hf__mc_release_gone(server, request, HF_WORD_MISSING);
    } else if (++request->repeats > MC_REPEATS_MAX) {
        hf__mc_release_overtaken(server, request);
    } else {
        /* It has deleted nothing, and the id is wrong. */
        hf__known_reply(&request->op->engine.known, HF_WORD_NEVER);
        hf__mc_op_set_cas(server, request->op, 0);
        request->send = send_look;
        request->answered = look_answered;
        hf__mc_ask(server, request);
    }
}

static void send_look(struct mc_server *server, struct mc_request *request)
{
    struct mc_item item;
    hf__mc_item_of(server->mc, &item, request->op);
    hf__mc_write(server, "mg %s v c\r\n", item.key);
}

static void look_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    const struct mc_reply *now = &request->replies[0];
    struct mc_item item;
    if (!heard) {
        hf__mc_release_unanswered(server, request);
        return;
    }
    hf__mc_item_of(server->mc, &item, request->op);
    if (!hf__mc_is_ours(server->mc, now, &item)) {
        hf__mc_release_gone(server, request, HF_WORD_MISSING);
        return;
    }
    if (!hf__mc_has_id(server, now, &request->op->out.error)) {
        hf__mc_finish(server, request, HF_WORD_OPEN);
        return;
    }
    hf__mc_note_cas(server, request, now->cas);
    request->send = send_deletion;
    request->answered = deletion_answered;
    hf__mc_ask(server, request);
}

void hf__mc_release(struct hf_engine *engine, struct hf_op *op)
{
    struct memcached *mc = (struct memcached *)engine;
    hf__mc_forget_renewals(mc, op);
    op->engine.pointer = NULL;
    const struct hf_known *known = &op->engine.known;
    enum hf_way_out out = hf__known_way_out(known, op->in.attach_key, false);
    struct mc_request *request = out ? hf__mc_request_about(mc, op) : NULL;
    if (!request) {
        op->out.verdict = out ? HF_NO_ANSWER : HF_GONE;
        hf__op_done(engine, op);
        return;
    }
    bool sure = hf__mc_op_cas(op) && !hf__known_is_open(known);
    hf__mc_use_cas_of(request, op);
    request->asked = HF_ASKED_RELEASE;
    request->send = sure ? send_deletion : send_look;
    request->answered = sure ? deletion_answered : look_answered;
    if (out == HF_OUT_UNDO) { /* mutant: memcached-attach-unheard */
        request->asked = HF_ASKED_UNDO;
        request->send = hf__mc_return_send;
        request->answered = hf__mc_return_looked;
    }
    hf__mc_ask(hf__mc_server_of(mc, op->in.name, op->in.name_length), request);
}
