/* SPDX-License-Identifier: Apache-2.0 */
/* Latches: the data of the node at PATH is the count, four bytes as in Curator's SharedCount, and
 * no count is as good as zero. A waiter has a node below it, for others to see, and watches the
 * data. */
#include "latch.h"

static void latch_look_answered(struct zookeeper *zk, struct zk_request *request,
                                struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    int64_t count = 0;
    size_t length = 0;
    if (!place->op || place->session != request->session)
        return;
    if (hf__zk_is_error(reply)) {
        hf__zk_fail(zk, place, request, reply);
        return;
    }
    if (reply->error == ZK_OK) {
        const char *data = hf__zk_read_bytes(&reply->body, &length);
        count = hf__zk_total(data, length);
    }
    if (hf__zk_is_foreign(length)) {
        hf__op_explain(place->op, HF_EKIND, 0, "\"%.200s\" is in use by another program",
                       place->op->in.name);
        hf__zk_withdraw(zk, place, HF_FAILED);
    } else if (count <= 0) {
        hf__zk_withdraw(zk, place, HF_GRANTED);
    } else if (!place->op->in.enqueue) {
        hf__zk_withdraw(zk, place, HF_REFUSED);
    } else {
        hf__zk_watch_path(zk, place, place->path); /* mutant: owner-waits-at-latch */
        place->op->out.rests_on = &place->session->lease;
        hf__zk_finish(zk, place, HF_REFUSED);
    }
}

void hf__zk_latch_turn(struct zookeeper *zk, struct zk_queue_node *place)
{
    hf__zk_ask_about(zk, place, ZK_GET_DATA, NULL, place->op->in.enqueue, latch_look_answered);
}

/* A bare try makes no node. */
bool hf__zk_latch_begin(struct zookeeper *zk, struct zk_queue_node *place)
{
    if (place->op->in.enqueue || *place->node || hf__zk_may_have_node(place))
        return false;
    if (hf__zk_ask_for_barrier(zk, place))
        hf__zk_ask_about(zk, place, ZK_GET_DATA, NULL, false, latch_look_answered);
    return true;
}
