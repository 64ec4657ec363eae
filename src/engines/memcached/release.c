/* SPDX-License-Identifier: Apache-2.0 */
/* Releases: `md` with the CAS id, so that only our own item is deleted. Without an id that is sure,
 * the item is looked at first. */
#include "memcached.h"

#include <inttypes.h>

static void send_look(struct mc_server *server, struct mc_request *request);
static void look_answered(struct mc_server *server, struct mc_request *request, bool heard);

void hf__mc_release_gone(struct mc_server *server, struct mc_request *request, bool lost)
{
    struct hf_op *op = request->op;
    op->engine.word[1] = 0;
    op->engine.pointer = NULL;
    op->out.lost = lost;
    hf__mc_finish(server, request, HF_GONE);
}

/* From now on the item's CAS id is not sure: the deletion may have been executed. */
void hf__mc_release_unanswered(struct mc_server *server, struct mc_request *request)
{
    struct hf_op *op = request->op;
    hf__mc_explain_silence(server, &op->out.error);
    if (request->item.sent)
        op->engine.word[1] |= MC_UNSURE;
    hf__mc_finish(server, request, HF_NO_ANSWER);
}

void hf__mc_release_overtaken(struct mc_server *server, struct mc_request *request)
{
    hf__op_explain(request->op, HF_UNREACHABLE, 0,
                   "memcached at %.100s: the item changes all the time", server->shown);
    request->op->engine.word[1] |= MC_UNSURE;
    hf__mc_finish(server, request, HF_NO_ANSWER);
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
    /* mutant: memcached-release-by-cas */
    hf__mc_write(server, "md %s C%" PRIu64 "\r\n", item.key, request->cas);
    hf__mc_write_unmark(server, item.key);
}

/* Another id: a renewal has changed it whose reply was lost; or the item is another owner's. */
static void deletion_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    const struct mc_reply *reply = &request->replies[0];
    bool sure = !(request->op->engine.word[1] & MC_UNSURE);
    if (!heard) {
        hf__mc_release_unanswered(server, request);
    } else if (reply->kind == MC_DONE) {
        hf__mc_note_mark(server->mc, request->op, &request->replies[1]);
        hf__mc_release_gone(server, request, false);
    } else if (reply->kind == MC_NOT_FOUND) {
        hf__mc_release_gone(server, request, sure);
    } else if (++request->repeats > MC_REPEATS_MAX) {
        hf__mc_release_overtaken(server, request);
    } else {
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
    /* What was never confirmed cannot be lost. */
    if (!hf__mc_is_ours(server->mc, now, &item)) {
        hf__mc_release_gone(server, request, !(request->op->engine.word[1] & MC_UNSURE));
        return;
    }
    if (!hf__mc_has_id(server, now, &request->op->out.error)) {
        request->op->engine.word[1] |= MC_UNSURE;
        hf__mc_finish(server, request, HF_NO_ANSWER);
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
    struct mc_request *request = op->engine.word[1] ? hf__mc_request_about(mc, op) : NULL;
    if (!request) {
        op->out.verdict = op->engine.word[1] ? HF_NO_ANSWER : HF_GONE;
        hf__op_done(engine, op);
        return;
    }
    bool sure = !(op->engine.word[1] & MC_UNSURE);
    hf__mc_use_cas_of(request, op);
    request->send = sure ? send_deletion : send_look;
    request->answered = sure ? deletion_answered : look_answered;
    if (op->in.attach_key) { /* mutant: memcached-attach-unheard */
        request->send = hf__mc_return_send;
        request->answered = hf__mc_return_looked;
    }
    hf__mc_ask(hf__mc_server_of(mc, op->in.name, op->in.name_length), request);
}
