/* SPDX-License-Identifier: Apache-2.0 */
/* A writer becomes a reader: Curator's way since 5.5, with the writer's own number. For a moment
 * the claim has two nodes. */
#include "engines/zookeeper/semaphore/semaphore.h"

#include <string.h>

bool hf__zk_can_lower(struct zookeeper *zk, struct zk_queue_node *place)
{
    struct hf_op *op = place->op;
    if (op->in.keep == HF_READ && *place->node)
        return true;
    hf__op_explain(op, HF_ENOTSUP, 0, "\"%.200s\": a writer can become a reader, and nothing else",
                   op->in.name);
    op->out.verdict = HF_FAILED;
    hf__op_done(&zk->base, op);
    return false;
}

void hf__zk_take_second(struct zk_queue_node *place)
{
    memcpy(place->node, place->second, sizeof place->node);
    place->second[0] = 0;
    hf__known_forget(&place->second_known);
}

/* A hold that the servers do not lower goes on as it is. */
static void not_lowered(struct zookeeper *zk, struct zk_queue_node *place,
                        const struct zk_request *request, const struct zk_reply *reply)
{
    struct hf_op *op = place->op;
    int code = hf__zk_explain(zk, request, reply, &op->out.error);
    if (!reply || code == HF_UNREACHABLE) {
        hf__zk_finish(zk, place, HF_NO_ANSWER);
        return;
    }
    place->leaving = false;
    hf__zk_watch_own(zk, place); /* mutant: hold-owners-downgrade */
    op->out.verdict = HF_FAILED;
    hf__op_done(&zk->base, op);
}

/* At the end of its own lease the claim may have had the writer's node only. */
static void lowered(struct zookeeper *zk, struct zk_queue_node *place, bool lost)
{
    struct hf_op *op = place->op;
    hf__zk_take_second(place);
    place->leaving = false;
    op->out.verdict = HF_GONE;
    op->out.lost = lost || place->over; /* mutant: reader-node-that-comes */
    if (lost)
        hf__zk_queue_node_lost(place);
    if (op->out.lost)
        hf__zk_delete_quietly(zk, place);
    else
        hf__zk_watch_own(zk, place);
    hf__op_done(&zk->base, op);
}

static void writer_deleted(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    if (!place->op)
        return;
    if (hf__zk_is_error(reply)) {
        hf__zk_judge_reply(place, request, HF_ASKED_LOWER, HF_WORD_OPEN);
        not_lowered(zk, place, request, reply);
        return;
    }
    bool earlier = hf__known_is_open(&place->known); /* one without a reply may have done it */
    enum hf_word word = reply->error == ZK_OK || earlier ? HF_WORD_DONE : HF_WORD_MISSING;
    lowered(zk, place, hf__zk_judge_reply(place, request, HF_ASKED_LOWER, word) == HF_KNOWN_LOST);
}

static void reader_made(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    if (!place->op)
        return;
    if (reply && (reply->error == ZK_OK || reply->error == ZK_NODE_EXISTS)) {
        hf__zk_ask_about(zk, place, ZK_DELETE, place->node, false, writer_deleted);
        return;
    }
    bool refused = reply && hf__zk_meaning(reply->error)->code != HF_UNREACHABLE;
    if (request->item.sent)
        hf__known_sent(&place->second_known, HF_ASKED_ATTEMPT);
    hf__known_reply(&place->second_known, refused ? HF_WORD_NEVER : HF_WORD_OPEN);
    /* An error says nothing about an earlier request for the same node that was not answered. */
    if (!hf__known_is_there(&place->second_known)) /* mutant: error-forgets-reader-node */
        place->second[0] = 0;
    not_lowered(zk, place, request, reply);
}

static void name_reader(struct zk_queue_node *place)
{
    char uuid[ZK_UUID_SIZE];
    const char *digits = place->node + strlen(place->node) - 10;
    hf__zk_uuid(uuid);
    hf__zk_node_stem(place->second, uuid, ZK_READER, false);
    strncat(place->second, digits, sizeof place->second - strlen(place->second) - 1);
}

void hf__zk_lower(struct zookeeper *zk, struct zk_queue_node *place)
{
    char data[400];
    if (!*place->second)
        name_reader(place);
    struct zk_request *request = hf__zk_queue_node_request(zk, place, ZK_CREATE, reader_made);
    if (!request) {
        hf__zk_no_memory(zk, place);
        return;
    }
    hf__zk_describe(zk, place->op, place->op->in.lease_ms, data, sizeof data);
    hf__zk_write_child(&request->body, place->path, place->second);
    hf__zk_write_create(&request->body, data, strlen(data), ZK_EPHEMERAL,
                        zk->settings->servers.user != NULL);
    hf__zk_ask(zk, request);
}
