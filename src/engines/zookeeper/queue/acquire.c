/* SPDX-License-Identifier: Apache-2.0 */
/* Taking: how an attempt becomes a node in a queue, and a list of its neighbours a verdict.
 *
 *   a bare try:   list ---- a node stands against it: REFUSED
 *                   |
 *                   v none
 *   a wait:       create, list ---- no parent: make the parents, once more
 *                   |
 *                   v
 *                 the list: no node in front: GRANTED
 *                   | one: watch it, REFUSED (a bare try withdraws its node first)
 *
 *   asked again:  list; or, if it is not known whether there is a node: barrier, list, adopt it.
 */
#include "attempt.h"
#include "engines/zookeeper/latch/latch.h"
#include "engines/zookeeper/semaphore/semaphore.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- questions that several others begin with ---- */

bool hf__zk_ask_for_children(struct zookeeper *zk, struct zk_queue_node *place,
                             zk_answered *answered)
{
    struct zk_request *request = hf__zk_queue_node_request(zk, place, ZK_GET_CHILDREN, answered);
    if (!request) {
        hf__zk_no_memory(zk, place);
        return false;
    }
    hf__zk_write_text(&request->body, place->path);
    hf__zk_write_bool(&request->body, false);
    hf__zk_ask(zk, request);
    return true;
}

bool hf__zk_ask_for_barrier(struct zookeeper *zk, struct zk_queue_node *place)
{
    struct zk_request *request = hf__zk_barrier(zk, place->session);
    if (!request) {
        hf__zk_no_memory(zk, place);
        return false;
    }
    hf__zk_ask(zk, request);
    return true;
}

/* ---- making the node ---- */

static void take_node(struct zk_queue_node *place, struct zk_reader *body)
{
    size_t length;
    struct zk_stat stat;
    const char *path = hf__zk_read_bytes(body, &length);
    size_t before = strlen(place->path) + 1;
    hf__zk_read_stat(body, &stat);
    if (body->bad || stat.czxid <= 0 || length <= before || length - before >= ZK_NODE_SIZE ||
        memcmp(path, place->path, before - 1) != 0)
        return;
    hf__zk_queue_node_set_name(place, path + before, length - before, stat.czxid);
}

/* Until there is an answer that can be read, a node may have been made. */
static void create_answered(struct zookeeper *zk, struct zk_request *request,
                            struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    (void)zk;
    if (place->session != request->session)
        return;
    place->create_error = reply ? reply->error : ZK_OK;
    if (reply && reply->error == ZK_OK)
        take_node(place, &reply->body);
    else if (reply || !request->item.sent || request->session->state == ZK_SESSION_OVER)
        hf__zk_queue_node_clear_name(place);
}

static void parent_answered(struct zookeeper *zk, struct zk_request *request,
                            struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    hf__zk_parent_answered(zk, reply);
    place->parent_error = hf__zk_parent_error(place->parent_error, reply);
}

static struct zk_request *new_parent(struct zookeeper *zk, void *arg, int32_t operation)
{
    return hf__zk_queue_node_request(zk, arg, operation, parent_answered);
}

static void refused(struct zookeeper *zk, struct zk_queue_node *place,
                    const struct zk_request *request, int error)
{
    struct zk_reply refusal = { .error = error };
    hf__zk_fail(zk, place, request, &refusal);
}

/* The list was asked for behind the node, on the same connection: it is the later answer, and says
 * what has become of both. */
static void node_answered(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    if (hf__zk_has_left(request))
        return;
    if (!reply)
        hf__zk_fail(zk, place, request, reply);
    else if (place->create_error == ZK_NO_NODE && place->op->in.mode == HF_LATCH)
        hf__zk_finish(zk, place, HF_GRANTED); /* it was never set */
    else if (place->create_error == ZK_NO_NODE && place->parent_error != ZK_OK)
        refused(zk, place, request, place->parent_error);
    else if (place->create_error == ZK_NO_NODE &&
             !hf__zk_ask_for_parents(zk, place->path, true, new_parent, place))
        hf__zk_no_memory(zk, place);
    else if (place->create_error == ZK_NO_NODE)
        hf__zk_begin_again(zk, place, false);
    else if (place->create_error != ZK_OK) {
        refused(zk, place, request, place->create_error);
    } else if (hf__zk_may_have_node(place)) {
        hf__zk_protocol_error(zk, place);
    } else {
        hf__zk_list_answered(zk, request, reply);
    }
}

void hf__zk_describe(const struct zookeeper *zk, const struct hf_op *op, int64_t lease_ms,
                     char *text, size_t size)
{
    struct zk_note note = {
        .mode = op->in.mode, .permits = op->in.permits, .pid = getpid(), .lease_ms = lease_ms
    };
    const struct hf_host *host = zk->base.host;
    snprintf(note.host, sizeof note.host, "%.63s", *host->host_name ? host->host_name : "-");
    snprintf(note.owner, sizeof note.owner, "%.127s",
             op->in.owner_text && *op->in.owner_text ? op->in.owner_text : host->owner_text);
    hf__zk_note_write(&note, text, size);
}

void hf__zk_ask_for_node(struct zookeeper *zk, struct zk_queue_node *place)
{
    char data[400];
    struct zk_request *request = hf__zk_queue_node_request(zk, place, ZK_CREATE2, create_answered);
    if (!request) {
        hf__zk_no_memory(zk, place);
        return;
    }
    hf__zk_describe(zk, place->op, place->op->in.lease_ms, data, sizeof data);
    hf__zk_write_child(&request->body, place->path, place->stem);
    hf__zk_write_create(&request->body, data, strlen(data), ZK_EPHEMERAL | ZK_SEQUENTIAL,
                        zk->settings->servers.user != NULL);
    hf__known_sent(&place->known, HF_ASKED_ATTEMPT); /* mutant: node-owners-answer-was-lost */
    hf__zk_ask(zk, request);
    hf__zk_ask_for_children(zk, place, node_answered);
}

/* ---- is there a node of ours? ---- */

static void adopted(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    struct zk_stat stat;
    if (hf__zk_has_left(request))
        return;
    if (!reply || (reply->error != ZK_OK && reply->error != ZK_NO_NODE)) {
        hf__zk_fail(zk, place, request, reply);
        return;
    }
    if (reply->error == ZK_OK)
        hf__zk_read_stat(&reply->body, &stat);
    /* What an older session has made goes with that one. */
    if (reply->error == ZK_NO_NODE || reply->body.bad || stat.owner != place->session->id) {
        hf__zk_begin_again(zk, place, true);
    } else if (stat.czxid <= 0) {
        hf__zk_protocol_error(zk, place);
    } else {
        place->token = stat.czxid;
        hf__zk_ask_for_list(zk, place);
    }
}

void hf__zk_adopt(struct zookeeper *zk, struct zk_queue_node *place)
{
    struct zk_request *request = hf__zk_queue_node_request(zk, place, ZK_EXISTS, adopted);
    if (!request) {
        hf__zk_no_memory(zk, place);
        return;
    }
    hf__zk_write_child(&request->body, place->path, place->node);
    hf__zk_write_bool(&request->body, false);
    hf__zk_ask(zk, request);
}

static void search_answered(struct zookeeper *zk, struct zk_request *request,
                            struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    struct zk_child child = { .length = 0 };
    if (hf__zk_has_left(request))
        return;
    if (!reply || (reply->error != ZK_OK && reply->error != ZK_NO_NODE)) {
        hf__zk_fail(zk, place, request, reply);
        return;
    }
    if (reply->error == ZK_OK && !hf__zk_find_stem(reply->body, place->stem, &child)) {
        hf__zk_protocol_error(zk, place);
        return;
    }
    if (child.length == 0) {
        hf__zk_queue_node_clear_name(place);
        hf__zk_begin_again(zk, place, false);
        return;
    }
    hf__zk_queue_node_set_name(place, child.name, child.length, 0);
    hf__zk_adopt(zk, place);
}

void hf__zk_line_up(struct zookeeper *zk, struct zk_queue_node *place)
{
    if (*place->node)
        hf__zk_ask_for_list(zk, place);
    else if (hf__zk_may_have_node(place)) {
        if (hf__zk_ask_for_barrier(zk, place))
            hf__zk_ask_for_children(zk, place, search_answered);
    } else if (place->op->in.enqueue)
        hf__zk_ask_for_node(zk, place);
    else
        hf__zk_look_first(zk, place);
}

bool hf__zk_begin(struct zookeeper *zk, struct zk_queue_node *place)
{
    struct zk_session *session = hf__zk_session_current(zk);
    if (!session) {
        hf__op_explain(place->op, HF_ENOMEM, 0, "out of memory for a session");
        return false;
    }
    if (!hf__zk_queue_node_begin(zk, place, session)) {
        hf__op_explain(place->op, HF_UNREACHABLE, 0,
                       "its session was lost, and the next one has no room for it yet");
        return false;
    }
    place->leaving = false;
    place->parent_error = ZK_OK;
    if (place->permits && hf__zk_semaphore_begin(zk, place))
        return true;
    if (place->op->in.mode != HF_LATCH || !hf__zk_latch_begin(zk, place))
        hf__zk_line_up(zk, place);
    return true;
}

void hf__zk_attempt(struct zookeeper *zk, struct zk_queue_node *place)
{
    place->tries = 0;
    if (!hf__zk_begin(zk, place))
        hf__zk_finish(zk, place, HF_NO_ANSWER);
}
