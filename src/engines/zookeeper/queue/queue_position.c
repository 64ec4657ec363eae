/* SPDX-License-Identifier: Apache-2.0 */
/* Judging: what a list of a node's neighbours says to it, and to a bare try, which has none. */
#include "attempt.h"
#include "engines/zookeeper/latch/latch.h"
#include "engines/zookeeper/semaphore/semaphore.h"

#include <string.h>

/* ---- granted ---- */

static void rest_on_own_lease(struct zookeeper *zk, struct zk_queue_node *place)
{
    if (!hf__known_holds(&place->known))
        hf__own_end_start(&place->end, place->op);
    hf__own_end_follow(&place->end, &zk->leased, &place->session->lease, place->op);
}

void hf__zk_grant(struct zookeeper *zk, struct zk_queue_node *place)
{
    struct hf_op *op = place->op;
    if (place->permits && hf__zk_semaphore_turn(zk, place))
        return;
    if (op->in.mode == HF_LATCH) {
        hf__zk_latch_turn(zk, place);
        return;
    }
    if (place->token <= 0) {
        hf__zk_protocol_error(zk, place);
        return;
    }
    op->out.token = (uint64_t)place->token;
    op->out.rests_on = &place->session->lease;
    if (op->in.lease_ms > 0)
        rest_on_own_lease(zk, place);
    hf__known_found(&place->known, HF_ASKED_ATTEMPT, HF_WORD_GRANTED);
    hf__zk_watch_own(zk, place); /* mutant: what-is-held-is-not-watched */
    hf__zk_finish(zk, place, HF_GRANTED);
}

/* A line of ours in the node in front says what it is; others do not distinguish the two. */
static bool is_of_my_kind(const struct hf_op *op, struct zk_reader *body)
{
    struct zk_note note;
    size_t length;
    const char *data = hf__zk_read_bytes(body, &length);
    hf__zk_note_read(&note, data, length);
    bool mutexes = op->in.mode == HF_MUTEX || op->in.mode == HF_FAIR;
    /* mutant: kind-of-lock-is-not-told */
    return !note.ours || !mutexes || note.mode == op->in.mode;
}

static void watch_answered(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    if (hf__zk_has_left(request))
        return;
    if (reply && reply->error == ZK_NO_NODE)
        hf__zk_ask_for_list(zk, place);
    else if (!reply || reply->error != ZK_OK)
        hf__zk_fail(zk, place, request, reply);
    else if (!is_of_my_kind(place->op, &reply->body))
        hf__zk_wrong_kind(zk, place);
    else if (!place->permits || !hf__zk_semaphore_is_in_vain(zk, place)) {
        hf__zk_watch_add(zk, place, place->watched); /* mutant: node-in-front-is-not-watched */
        place->op->out.rests_on = &place->session->lease;
        hf__zk_finish(zk, place, HF_REFUSED);
    }
}

/* Names the child that is asked about next. False: its name is longer than any recipe's. */
static bool note_child(struct zk_queue_node *place, const struct zk_child *child)
{
    if (child->length >= ZK_CHILD_SIZE)
        return false;
    hf__zk_watch_remove(place);
    memcpy(place->watched, child->name, child->length);
    place->watched[child->length] = 0;
    return true;
}

static void ask_about(struct zookeeper *zk, struct zk_queue_node *place,
                      const struct zk_child *child, bool watch, zk_answered *answered)
{
    if (!note_child(place, child)) {
        hf__op_explain(place->op, HF_ECORRUPT, 0,
                       "\"%.200s\": a node in its queue has a name of %zu bytes",
                       place->op->in.name, child->length);
        hf__zk_withdraw(zk, place, HF_FAILED);
        return;
    }
    if (watch && place->permits && !hf__zk_semaphore_look(zk, place))
        return;
    struct zk_request *request = hf__zk_queue_node_request(zk, place, ZK_GET_DATA, answered);
    if (!request) {
        hf__zk_no_memory(zk, place);
        return;
    }
    hf__zk_write_child(&request->body, place->path, place->watched);
    hf__zk_write_bool(&request->body, watch);
    hf__zk_ask(zk, request);
}

/* Our node was there, and is not any more: another client has deleted it. */
void hf__zk_begin_again(struct zookeeper *zk, struct zk_queue_node *place, bool there)
{
    if (there) {
        hf__zk_queue_node_clear_name(place);
        hf__zk_queue_node_name(zk, place);
    }
    if (++place->tries < ZK_TRIES_MAX) {
        hf__zk_ask_for_node(zk, place);
        return;
    }
    hf__op_explain(place->op, HF_UNREACHABLE, 0,
                   "\"%.200s\": its node, or the path to it, is deleted again and again",
                   place->op->in.name);
    hf__zk_finish(zk, place, HF_NO_ANSWER);
}

static void judge(struct zookeeper *zk, struct zk_queue_node *place, struct zk_reader children)
{
    struct zk_view view;
    hf__zk_view(&view, children, hf__zk_family_of(place->op->in.mode), place->node, place->number);
    if (view.bad) { /* mutant: bare-try-is-granted */
        hf__zk_protocol_error(zk, place);
    } else if (!view.own) {
        hf__zk_begin_again(zk, place, true);
    } else if (place->token == 0) { /* mutant: node-owners-token-is-not-known */
        /* It was found in a queue before, and the answer about the node itself was lost. */
        hf__zk_adopt(zk, place);
    } else if (place->number < 0) { /* mutant: number-below-zero-is-one-like */
        hf__op_explain(place->op, HF_ELIMIT, 0,
                       "\"%.200s\": the numbers of its queue are used up; they begin anew when "
                       "its node has been deleted",
                       place->op->in.name);
        hf__zk_withdraw(zk, place, HF_FAILED);
    } else if (view.other_kind) {
        hf__zk_wrong_kind(zk, place);
    } else if (!view.blocked) {
        hf__zk_grant(zk, place);
    } else if (!place->op->in.enqueue) {
        hf__zk_withdraw(zk, place, HF_REFUSED);
    } else {
        ask_about(zk, place, &view.in_front, true, watch_answered);
    }
}

void hf__zk_list_answered(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    if (hf__zk_has_left(request))
        return;
    if (reply && reply->error == ZK_NO_NODE)
        hf__zk_begin_again(zk, place, true);
    else if (!reply || reply->error != ZK_OK)
        hf__zk_fail(zk, place, request, reply);
    else
        judge(zk, place, reply->body);
}

void hf__zk_ask_for_list(struct zookeeper *zk, struct zk_queue_node *place)
{
    hf__zk_ask_for_children(zk, place, hf__zk_list_answered);
}

/* ---- a bare try looks before it writes ---- */

static void holder_answered(struct zookeeper *zk, struct zk_request *request,
                            struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    if (hf__zk_has_left(request))
        return;
    if (reply && reply->error == ZK_NO_NODE && ++place->tries < ZK_TRIES_MAX)
        hf__zk_look_first(zk, place);
    else if (reply && reply->error == ZK_NO_NODE)
        hf__zk_finish(zk, place, HF_REFUSED);
    else if (!reply || reply->error != ZK_OK)
        hf__zk_fail(zk, place, request, reply);
    else if (!is_of_my_kind(place->op, &reply->body))
        hf__zk_wrong_kind(zk, place);
    else
        hf__zk_finish(zk, place, HF_REFUSED);
}

/* False: it could not be read, which has been dealt with. */
static bool read_look(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply,
                      struct zk_view *view)
{
    struct zk_queue_node *place = request->place;
    *view = (struct zk_view){ .own = false };
    if (hf__zk_has_left(request))
        return false;
    if (!reply || (reply->error != ZK_OK && reply->error != ZK_NO_NODE)) {
        hf__zk_fail(zk, place, request, reply);
        return false;
    }
    if (reply->error == ZK_OK)
        hf__zk_view(view, reply->body, hf__zk_family_of(place->op->in.mode), "", INT64_MAX);
    if (view->bad)
        hf__zk_protocol_error(zk, place);
    return !view->bad;
}

/* Behind a barrier. */
static void second_look_answered(struct zookeeper *zk, struct zk_request *request,
                                 struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    struct zk_view view;
    if (!read_look(zk, request, reply, &view))
        return;
    if (view.other_kind)
        hf__zk_wrong_kind(zk, place);
    else if (view.blocked)
        ask_about(zk, place, &view.in_front, false, holder_answered);
    else
        hf__zk_ask_for_node(zk, place);
}

static void look_answered(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    struct zk_view view;
    if (!read_look(zk, request, reply, &view))
        return;
    if (!view.blocked && !view.other_kind)
        hf__zk_ask_for_node(zk, place);
    else if (!hf__zk_ask_for_barrier(zk, place)) /* mutant: bare-try-believes-an-old-list */
        return;
    else if (view.other_kind) /* mutant: kind-of-an-old-list-is-told */
        hf__zk_ask_for_children(zk, place, second_look_answered);
    else
        ask_about(zk, place, &view.in_front, false, holder_answered);
}

/* The list may be old. If it lets the try in, the node that is made then proves it. If it does not,
 * the list is asked for again, or the node in front asked about, behind a barrier. */
void hf__zk_look_first(struct zookeeper *zk, struct zk_queue_node *place)
{
    hf__zk_ask_for_children(zk, place, look_answered);
}
