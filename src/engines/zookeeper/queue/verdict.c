/* SPDX-License-Identifier: Apache-2.0 */
/* What a claim asks about its nodes, and what ends its question: at once, or when a node that must
 * not stay has gone. */
#include "engines/zookeeper/semaphore/semaphore.h"

/* An attempt of a bare try whose connection broke begins anew that often. */
#define LOOKS_MAX 2u

/* ---- the verdict of an attempt ---- */

void hf__zk_finish(struct zookeeper *zk, struct zk_queue_node *place, enum hf_verdict verdict)
{
    struct hf_op *op = place->op;
    op->out.verdict = verdict;
    op->out.retry_at_ms = HF_NEVER;
    place->held |= verdict == HF_GRANTED;
    bool passed = verdict == HF_GRANTED && op->in.mode == HF_LATCH;
    if (verdict == HF_FAILED || passed || (verdict == HF_REFUSED && !op->in.enqueue))
        hf__zk_queue_node_leave(place);
    hf__op_done(&zk->base, op);
}

void hf__zk_no_memory(struct zookeeper *zk, struct zk_queue_node *place)
{
    hf__op_explain(place->op, HF_ENOMEM, 0, "out of memory for a request");
    hf__zk_finish(zk, place, HF_NO_ANSWER);
}

void hf__zk_protocol_error(struct zookeeper *zk, struct zk_queue_node *place)
{
    hf__peer_break(&zk->peer, HF_ECORRUPT, 0, "its answer cannot be read");
    hf__op_explain(place->op, HF_UNREACHABLE, 0, "%s", zk->peer.why.text);
    hf__zk_finish(zk, place, HF_NO_ANSWER);
}

void hf__zk_wrong_kind(struct zookeeper *zk, struct zk_queue_node *place)
{
    hf__op_explain(place->op, HF_EKIND, 0, "\"%.200s\" is in use as another kind of lock",
                   place->op->in.name);
    hf__zk_withdraw(zk, place, HF_FAILED);
}

/* ---- asking ---- */

bool hf__zk_ask_about(struct zookeeper *zk, struct zk_queue_node *place, int32_t operation,
                      const char *child, bool watch, zk_answered *answered)
{
    struct zk_request *request = hf__zk_queue_node_request(zk, place, operation, answered);
    if (!request) {
        hf__zk_no_memory(zk, place);
        return false;
    }
    if (child)
        hf__zk_write_child(&request->body, place->path, child);
    else
        hf__zk_write_text(&request->body, place->path);
    if (operation == ZK_DELETE)
        hf__zk_write_int(&request->body, -1); /* whatever its version is */
    else
        hf__zk_write_bool(&request->body, watch);
    hf__zk_ask(zk, request);
    return true;
}

bool hf__zk_ask_for_barrier(struct zookeeper *zk, struct zk_queue_node *place)
{
    struct zk_request *request = hf__zk_barrier(zk, place->session);
    if (request)
        hf__zk_ask(zk, request);
    else
        hf__zk_no_memory(zk, place);
    return request != NULL;
}

/* ---- what cannot be had ---- */

void hf__zk_fail_with_leftover(struct zookeeper *zk, struct zk_queue_node *place,
                               const struct zk_reply *reply)
{
    struct hf_op *op = place->op;
    const struct zk_meaning *meaning = hf__zk_meaning(reply->error);
    hf__op_explain(op, meaning->code, reply->error,
                   "ZooKeeper at %.100s: \"%.100s\" keeps a node until this client's session has "
                   "ended: %s; %s (%d)",
                   zk->settings->servers.shown, op->in.name, meaning->what, meaning->cure,
                   reply->error);
    hf__zk_queue_node_leave_behind(place);
    op->out.verdict = HF_FAILED;
    hf__op_done(&zk->base, op);
}

static void withdrawn(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    if (!place->op)
        return;
    if (hf__zk_is_refusal(reply)) { /* mutant: node-that-may-not-be-taken */
        hf__zk_fail_with_leftover(zk, place, reply);
    } else if (hf__zk_is_error(reply)) {
        hf__zk_explain(zk, request, reply, &place->op->out.error);
        hf__zk_finish(zk, place, HF_NO_ANSWER);
    } else {
        hf__zk_queue_node_clear_name(place);
        hf__zk_queue_node_name(zk, place);
        hf__zk_finish(zk, place, place->verdict);
    }
}

void hf__zk_withdraw(struct zookeeper *zk, struct zk_queue_node *place, enum hf_verdict verdict)
{
    place->verdict = verdict;
    if (!*place->node) { /* mutant: refused-try-leaves-its-node */
        hf__zk_finish(zk, place, verdict);
        return;
    }
    hf__zk_ask_about(zk, place, ZK_DELETE, place->node, false, withdrawn);
}

/* A definite no leaves nothing that can be deleted, so a node that is there goes first; where one
 * may be left, only a no to that is definite. */
void hf__zk_fail(struct zookeeper *zk, struct zk_queue_node *place,
                 const struct zk_request *request, const struct zk_reply *reply)
{
    bool may_have = hf__zk_may_have_node(place);
    /* A bare try has one answer, and that its connection or its session was dead already says
     * nothing about the servers. It has only looked so far. */
    bool broken = !reply && (request->item.sent || request->session->state == ZK_SESSION_OVER);
    bool looked = !place->op->in.enqueue && !*place->node && !may_have;
    if (broken && looked && place->tries++ < LOOKS_MAX) {
        place->next(zk, place, ZK_NEXT_BEGIN);
        return;
    }
    int code = hf__zk_explain(zk, request, reply, &place->op->out.error);
    bool unclear = may_have || (place->permits && hf__known_is_there(&place->permits->known)) ||
                   (*place->node && !reply);
    if (code == HF_UNREACHABLE || hf__zk_queue_node_has_past(place) ||
        (unclear && !hf__zk_is_refusal(reply))) /* mutant: permits-that-may-not */
        hf__zk_finish(zk, place, HF_NO_ANSWER);
    else if (unclear)
        hf__zk_fail_with_leftover(zk, place, reply);
    else
        hf__zk_withdraw(zk, place, HF_FAILED); /* mutant: definite-no-leaves-node */
}

bool hf__zk_goes_on(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    bool failed = hf__zk_is_error(reply);
    if (request->place->op && failed)
        hf__zk_fail(zk, request->place, request, reply);
    return request->place->op && !failed;
}

/* ---- the end of a release ---- */

void hf__zk_gone(struct zookeeper *zk, struct hf_op *op, bool lost)
{
    struct zk_queue_node *place = op->engine.pointer;
    op->out.verdict = HF_GONE;
    op->out.lost = lost;
    if (place)
        hf__zk_queue_node_leave(place);
    hf__op_done(&zk->base, op);
}

void hf__zk_gone_with_session(struct zookeeper *zk, struct zk_queue_node *place)
{
    bool lost = hf__known_found(&place->known, HF_ASKED_RELEASE, HF_WORD_MISSING) == HF_KNOWN_LOST;
    hf__zk_gone(zk, place->op, lost);
}

void hf__zk_no_reply(struct zookeeper *zk, struct zk_queue_node *place,
                     const struct zk_request *request, const struct zk_reply *reply)
{
    int code = hf__zk_explain(zk, request, reply, &place->op->out.error);
    if (reply && code != HF_UNREACHABLE)
        hf__zk_fail_with_leftover(zk, place, reply);
    else
        hf__zk_finish(zk, place, HF_NO_ANSWER);
}

/* The session's requests are executed in order, and answered in order. */
enum hf_known_verdict hf__zk_judge_reply(struct zk_queue_node *place,
                                         const struct zk_request *request, enum hf_asked asked,
                                         enum hf_word word)
{
    if (request->item.sent)
        hf__known_sent(&place->known, asked);
    if (word != HF_WORD_OPEN)
        hf__known_settled(&place->known);
    return hf__known_reply(&place->known, word);
}
