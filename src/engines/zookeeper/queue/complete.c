/* SPDX-License-Identifier: Apache-2.0 */
/* How an attempt ends: with its verdict at once, or when a node that must not stay has gone. */
#include "attempt.h"
#include "engines/zookeeper/semaphore/semaphore.h"

#define LOOKS_MAX 2u

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

/* A bare try has one answer, and that its connection or its session was dead already says nothing
 * about the servers. It has only looked so far. */
static bool is_worth_another_look(struct zk_queue_node *place, const struct zk_request *request)
{
    bool broken = request->item.sent || request->session->state == ZK_SESSION_OVER;
    return broken && !place->op->in.enqueue && !*place->node && !hf__zk_may_have_node(place) &&
           place->tries++ < LOOKS_MAX;
}

/* A definite no leaves nothing that can be deleted, so a node that is there goes first; where one
 * may be left, only a no to that is definite. */
void hf__zk_fail(struct zookeeper *zk, struct zk_queue_node *place,
                 const struct zk_request *request, const struct zk_reply *reply)
{
    if (!reply && is_worth_another_look(place, request) && hf__zk_begin(zk, place))
        return;
    int code = hf__zk_explain(zk, request, reply, &place->op->out.error);
    bool unclear = hf__zk_may_have_node(place) ||
                   (place->permits && hf__known_is_there(&place->permits->known)) ||
                   (*place->node && !reply);
    if (code == HF_UNREACHABLE || hf__zk_queue_node_has_past(place) ||
        (unclear && !hf__zk_is_refusal(reply))) /* mutant: permits-that-may-not */
        hf__zk_finish(zk, place, HF_NO_ANSWER);
    else if (unclear)
        hf__zk_fail_with_leftover(zk, place, reply);
    else
        hf__zk_withdraw(zk, place, HF_FAILED); /* mutant: definite-no-leaves-node */
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

/* ---- withdrawing a node that must not stay ---- */

static void withdrawn(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    if (hf__zk_has_left(request))
        return;
    if (hf__zk_is_refusal(reply)) { /* mutant: node-that-may-not-be-taken */
        hf__zk_fail_with_leftover(zk, place, reply);
        return;
    }
    if (!reply || (reply->error != ZK_OK && reply->error != ZK_NO_NODE)) {
        hf__zk_explain(zk, request, reply, &place->op->out.error);
        hf__zk_finish(zk, place, HF_NO_ANSWER);
        return;
    }
    hf__zk_queue_node_clear_name(place);
    hf__zk_queue_node_name(zk, place);
    hf__zk_finish(zk, place, place->verdict);
}

void hf__zk_withdraw(struct zookeeper *zk, struct zk_queue_node *place, enum hf_verdict verdict)
{
    if (!*place->node) { /* mutant: refused-try-leaves-its-node */
        hf__zk_finish(zk, place, verdict);
        return;
    }
    struct zk_request *request = hf__zk_queue_node_request(zk, place, ZK_DELETE, withdrawn);
    if (!request) {
        hf__zk_no_memory(zk, place);
        return;
    }
    place->verdict = verdict;
    hf__zk_write_child(&request->body, place->path, place->node);
    hf__zk_write_int(&request->body, -1);
    hf__zk_ask(zk, request);
}

void hf__zk_wrong_kind(struct zookeeper *zk, struct zk_queue_node *place)
{
    hf__op_explain(place->op, HF_EKIND, 0, "\"%.200s\" is in use as another kind of lock",
                   place->op->in.name);
    hf__zk_withdraw(zk, place, HF_FAILED);
}
