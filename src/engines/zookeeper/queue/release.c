/* SPDX-License-Identifier: Apache-2.0 */
/* Giving back: the node goes, and until that is known, nothing is. */
#include "engines/zookeeper/semaphore/semaphore.h"

#include <string.h>

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

/* The session's requests are executed in order, and answered in order. */
static enum hf_known_verdict judge(struct zk_queue_node *place, const struct zk_request *request,
                                   enum hf_asked asked, enum hf_word word)
{
    if (request->item.sent)
        hf__known_sent(&place->known, asked);
    if (word != HF_WORD_OPEN)
        hf__known_settled(&place->known);
    return hf__known_reply(&place->known, word);
}

static void take_second(struct zk_queue_node *place)
{
    memcpy(place->node, place->second, sizeof place->node);
    place->second[0] = 0;
    hf__known_forget(&place->second_known);
}

void hf__zk_no_reply(struct zookeeper *zk, struct zk_queue_node *place,
                     const struct zk_request *request, const struct zk_reply *reply)
{
    struct hf_op *op = place->op;
    int code = HF_ENOMEM;
    if (request)
        code = hf__zk_explain(zk, request, reply, &op->out.error);
    else
        hf__op_explain(op, code, 0, "out of memory for a request");
    bool definite = reply && code != HF_UNREACHABLE;
    if (definite && op->in.keep == HF_KEEP_NOTHING) {
        hf__zk_fail_with_leftover(zk, place, reply);
        return;
    }
    op->out.verdict = definite ? HF_FAILED : HF_NO_ANSWER;
    /* A hold that was to be lowered goes on as it is. */
    if (definite) {
        place->leaving = false;
        hf__zk_watch_own(zk, place); /* mutant: hold-owners-downgrade */
    }
    hf__op_done(&zk->base, op);
}

static void remove_node(struct zookeeper *zk, struct zk_queue_node *place);

/* A writer that was going to be a reader may have two nodes. */
static void one_deleted(struct zookeeper *zk, struct zk_queue_node *place, bool lost)
{
    place->missing |= lost;
    if (!*place->second) {
        hf__zk_gone(zk, place->op, place->missing);
        return;
    }
    take_second(place);
    hf__known_sent(&place->known, HF_ASKED_ATTEMPT); /* it may never have been made */
    remove_node(zk, place);
}

static void delete_answered(struct zookeeper *zk, struct zk_request *request,
                            struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    if (!place->op)
        return;
    bool deleted = reply && (reply->error == ZK_OK || reply->error == ZK_NO_NODE);
    enum hf_word word = !deleted                ? HF_WORD_OPEN
                        : reply->error == ZK_OK ? HF_WORD_DONE
                                                : HF_WORD_MISSING;
    if (!reply && request->session->state == ZK_SESSION_OVER) {
        hf__zk_gone_with_session(zk, place);
        return;
    }
    /* mutant: zookeeper-release-of-own-node */
    enum hf_known_verdict verdict = judge(place, request, HF_ASKED_RELEASE, word);
    if (deleted)
        one_deleted(zk, place, verdict == HF_KNOWN_LOST);
    else
        hf__zk_no_reply(zk, place, request, reply);
}

static bool ask_to_delete(struct zookeeper *zk, struct zk_queue_node *place, zk_answered *answered)
{
    struct zk_request *request = hf__zk_queue_node_request(zk, place, ZK_DELETE, answered);
    if (!request)
        return false;
    hf__zk_write_child(&request->body, place->path, place->node);
    hf__zk_write_int(&request->body, -1);
    hf__zk_ask(zk, request);
    return true;
}

static void remove_node(struct zookeeper *zk, struct zk_queue_node *place)
{
    if (!ask_to_delete(zk, place, delete_answered))
        hf__zk_no_reply(zk, place, NULL, NULL);
}

/* ---- a writer becomes a reader: Curator's way since 5.5, with the writer's own number ---- */

/* At the end of its own lease the claim may have had the writer's node only. */
static void lowered(struct zookeeper *zk, struct zk_queue_node *place, bool lost)
{
    struct hf_op *op = place->op;
    take_second(place);
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
    bool earlier = hf__known_is_open(&place->known); /* one without a reply may have done it */
    bool deleted = reply && (reply->error == ZK_OK || (reply->error == ZK_NO_NODE && earlier));
    if (deleted || (reply && reply->error == ZK_NO_NODE)) {
        enum hf_word word = deleted ? HF_WORD_DONE : HF_WORD_MISSING;
        lowered(zk, place, judge(place, request, HF_ASKED_LOWER, word) == HF_KNOWN_LOST);
        return;
    }
    judge(place, request, HF_ASKED_LOWER, HF_WORD_OPEN);
    hf__zk_no_reply(zk, place, request, reply);
}

static void reader_made(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    if (!place->op)
        return;
    if (reply && (reply->error == ZK_OK || reply->error == ZK_NODE_EXISTS)) {
        if (!ask_to_delete(zk, place, writer_deleted))
            hf__zk_no_reply(zk, place, NULL, NULL);
        return;
    }
    bool refused = reply && hf__zk_meaning(reply->error)->code != HF_UNREACHABLE;
    if (request->item.sent)
        hf__known_sent(&place->second_known, HF_ASKED_ATTEMPT);
    hf__known_reply(&place->second_known, refused ? HF_WORD_NEVER : HF_WORD_OPEN);
    /* An error says nothing about an earlier request for the same node that was not answered. */
    if (!hf__known_is_there(&place->second_known)) /* mutant: error-forgets-reader-node */
        place->second[0] = 0;
    hf__zk_no_reply(zk, place, request, reply);
}

static void name_reader(struct zk_queue_node *place)
{
    char uuid[ZK_UUID_SIZE];
    const char *digits = place->node + strlen(place->node) - 10;
    hf__zk_uuid(uuid);
    hf__zk_node_stem(place->second, uuid, ZK_READER, false);
    strncat(place->second, digits, sizeof place->second - strlen(place->second) - 1);
}

static void lower(struct zookeeper *zk, struct zk_queue_node *place)
{
    char data[400];
    if (!*place->second)
        name_reader(place);
    struct zk_request *request = hf__zk_queue_node_request(zk, place, ZK_CREATE, reader_made);
    if (!request) {
        hf__zk_no_reply(zk, place, NULL, NULL);
        return;
    }
    hf__zk_describe(zk, place->op, place->op->in.lease_ms, data, sizeof data);
    hf__zk_write_child(&request->body, place->path, place->second);
    hf__zk_write_create(&request->body, data, strlen(data), ZK_EPHEMERAL,
                        zk->settings->servers.user != NULL);
    hf__zk_ask(zk, request);
}

static void cannot_lower(struct zookeeper *zk, struct zk_queue_node *place)
{
    struct hf_op *op = place->op;
    hf__op_explain(op, HF_ENOTSUP, 0, "\"%.200s\": a writer can become a reader, and nothing else",
                   op->in.name);
    op->out.verdict = HF_FAILED;
    hf__op_done(&zk->base, op);
}

/* ---- a node that may be there ---- */

static void search_answered(struct zookeeper *zk, struct zk_request *request,
                            struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    struct zk_child child = { .length = 0 };
    if (!place->op)
        return;
    bool over = !reply && request->session->state == ZK_SESSION_OVER;
    if (!over && (!reply || (reply->error != ZK_OK && reply->error != ZK_NO_NODE))) {
        hf__zk_no_reply(zk, place, request, reply);
        return;
    }
    if (reply && reply->error == ZK_OK && !hf__zk_find_stem(reply->body, place->stem, &child)) {
        hf__peer_break(&zk->peer, HF_ECORRUPT, 0, "its answer cannot be read");
        hf__zk_no_reply(zk, place, request, NULL);
        return;
    }
    if (child.length == 0) {
        hf__zk_gone(zk, place->op, false);
        return;
    }
    hf__zk_queue_node_set_name(place, child.name, child.length, 0);
    remove_node(zk, place);
}

static void search(struct zookeeper *zk, struct zk_queue_node *place)
{
    struct zk_request *barrier = hf__zk_barrier(zk, place->session);
    struct zk_request *list =
        barrier ? hf__zk_queue_node_request(zk, place, ZK_GET_CHILDREN, search_answered) : NULL;
    if (barrier)
        hf__zk_ask(zk, barrier);
    if (!list) {
        hf__zk_no_reply(zk, place, NULL, NULL);
        return;
    }
    hf__zk_write_text(&list->body, place->path);
    hf__zk_write_bool(&list->body, false);
    hf__zk_ask(zk, list);
}

/* ---- what was under an older session ---- */

static void earlier_answered(struct zookeeper *zk, struct zk_request *request,
                             struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    if (!place->op)
        return;
    if (!reply && request->session->state == ZK_SESSION_OVER)
        hf__zk_release(zk, place->op);
    else
        hf__zk_no_reply(zk, place, request, reply);
}

/* Asked under that session, which nothing is sent under any more, it is answered when it is over.
 */
static void await_earlier(struct zookeeper *zk, struct zk_queue_node *place)
{
    struct zk_request *request = hf__zk_queue_node_request(zk, place, ZK_SYNC, earlier_answered);
    if (!request) {
        hf__zk_no_reply(zk, place, NULL, NULL);
        return;
    }
    hf__zk_session_drop(request->session);
    request->session = hf__zk_session_use(place->earlier);
    hf__zk_ask(zk, request);
}

void hf__zk_release(struct zookeeper *zk, struct hf_op *op)
{
    struct zk_queue_node *place = op->engine.pointer;
    hf__zk_session_look(zk);
    if (!place || !place->session) {
        hf__zk_gone(zk, op, false);
        return;
    }
    if (op->in.keep != HF_KEEP_NOTHING && (op->in.keep != HF_READ || !*place->node)) {
        cannot_lower(zk, place);
        return;
    }
    hf__zk_watch_remove(place);
    place->leaving = true;
    if (hf__zk_queue_node_has_past(place))
        await_earlier(zk, place);
    else if (place->session->state == ZK_SESSION_OVER)
        hf__zk_gone_with_session(zk, place);
    else if (op->in.keep != HF_KEEP_NOTHING)
        lower(zk, place);
    else if (place->permits && hf__zk_semaphore_release(zk, place))
        return;
    else if (*place->node)
        remove_node(zk, place);
    else if (hf__zk_may_have_node(place))
        search(zk, place);
    else
        hf__zk_gone(zk, op, false);
}

/* ---- without a waiting caller ---- */

void hf__zk_quietly_deleted(struct zookeeper *zk, struct zk_request *request,
                            struct zk_reply *reply)
{
    if (!reply && !zk->closing && request->session->state != ZK_SESSION_OVER)
        hf__zk_ask(zk, request);
    else if (reply && reply->error != ZK_OK && reply->error != ZK_NO_NODE)
        /* mutant: zookeeper-refused-deletion-is-noted */
        hf__zk_session_is_stuck(zk, request->session);
}

void hf__zk_delete_quietly(struct zookeeper *zk, struct zk_queue_node *place)
{
    /* Without memory it stays until it is given back. */
    if (place->permits)
        hf__zk_semaphore_delete_quietly(zk, place);
    else
        ask_to_delete(zk, place, hf__zk_quietly_deleted);
}
