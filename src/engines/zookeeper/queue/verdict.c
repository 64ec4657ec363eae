/* SPDX-License-Identifier: Apache-2.0 */
/* What a claim asks, and what ends its question: a verdict, at once or when a node that must not
 * stay has gone. */
#include "engines/zookeeper/semaphore/semaphore.h"

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

static void explain_what_stays(const struct zookeeper *zk, struct zk_queue_node *place, int error)
{
    const struct zk_meaning *meaning = hf__zk_meaning(error);
    hf__op_explain(place->op, meaning->code, error,
                   "ZooKeeper at %.100s: \"%.100s\" keeps a node until this client's session has "
                   "ended: %s; %s (%d)",
                   zk->settings->servers.shown, place->op->in.name, meaning->what, meaning->cure,
                   error);
}

void hf__zk_fail_with_leftover(struct zookeeper *zk, struct zk_queue_node *place,
                               const struct zk_reply *reply)
{
    struct hf_op *op = place->op;
    explain_what_stays(zk, place, reply->error);
    hf__zk_queue_node_leave_behind(place);
    op->out.verdict = HF_FAILED;
    hf__op_done(&zk->base, op);
}
