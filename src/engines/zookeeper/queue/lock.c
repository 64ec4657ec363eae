/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a claim, from top to bottom: an attempt becomes a node in a queue, a list of its
 * neighbours a verdict, and a release deletes the node. Leases are renewed by the session. What the
 * servers may have of the claim is in the core's table (core/known.h).
 *
 *   a wait:       create, list ---- no parent: make the parents, once more
 *                   |
 *                   v
 *                 the list: no node in front: GRANTED
 *                   | one: watch it, REFUSED (a bare try withdraws its node first)
 *
 *   a bare try:   looks before it creates (front.c)
 *   asked again:  list; or, if it is not known whether there is a node: barrier, list, adopt it.
 */
#include "engines/zookeeper/latch/latch.h"
#include "engines/zookeeper/semaphore/semaphore.h"

#include <string.h>

/* ---- an attempt ---- */

static void line_up(struct zookeeper *zk, struct zk_queue_node *place);
static void lock_go_on(struct zookeeper *zk, struct zk_queue_node *place, enum zk_next next);

static void begin(struct zookeeper *zk, struct zk_queue_node *place)
{
    struct zk_session *session = hf__zk_session_current(zk);
    if (!session || !hf__zk_queue_node_begin(zk, place, session)) {
        hf__op_explain(place->op, session ? HF_UNREACHABLE : HF_ENOMEM, 0, "%s",
                       session ? "its session was lost, and the next one has no room for it yet"
                               : "out of memory for a session");
        hf__zk_finish(zk, place, HF_NO_ANSWER);
        return;
    }
    place->leaving = false;
    place->parent_error = ZK_OK;
    if (place->permits && hf__zk_semaphore_begin(zk, place))
        return;
    if (place->op->in.mode != HF_LATCH || !hf__zk_latch_begin(zk, place))
        line_up(zk, place);
}

void hf__zk_attempt(struct zookeeper *zk, struct zk_queue_node *place)
{
    place->next = lock_go_on;
    place->tries = 0;
    begin(zk, place);
}

static void ask_for_list(struct zookeeper *zk, struct zk_queue_node *place);
static void ask_for_node(struct zookeeper *zk, struct zk_queue_node *place);
static void search(struct zookeeper *zk, struct zk_queue_node *place);

static void line_up(struct zookeeper *zk, struct zk_queue_node *place)
{
    if (*place->node)
        ask_for_list(zk, place);
    else if (hf__zk_may_have_node(place))
        search(zk, place);
    else if (place->op->in.enqueue)
        ask_for_node(zk, place);
    else
        hf__zk_look_first(zk, place);
}

/* ---- making the node ---- */

static void begin_again(struct zookeeper *zk, struct zk_queue_node *place, bool there);
static zk_answered create_answered, node_answered, list_answered;

/* The list is asked for behind the node, on the same connection: it is the later answer, and says
 * what has become of both. */
static void ask_for_node(struct zookeeper *zk, struct zk_queue_node *place)
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
    hf__zk_ask_about(zk, place, ZK_GET_CHILDREN, NULL, false, node_answered);
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
        hf__zk_queue_node_made(place, &reply->body);
    else if (reply || !request->item.sent || request->session->state == ZK_SESSION_OVER)
        hf__zk_queue_node_clear_name(place);
}

static void node_answered(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    bool alone = place->create_error == ZK_NO_NODE;
    struct zk_reply refusal = { .error = alone ? place->parent_error : place->create_error };
    if (!place->op)
        return;
    if (!reply)
        hf__zk_fail(zk, place, request, reply);
    else if (alone && place->op->in.mode == HF_LATCH)
        hf__zk_finish(zk, place, HF_GRANTED); /* it was never set */
    else if (refusal.error != ZK_OK)
        hf__zk_fail(zk, place, request, &refusal);
    else if (alone && !hf__zk_ask_for_parents_of(zk, place))
        hf__zk_no_memory(zk, place);
    else if (alone)
        begin_again(zk, place, false);
    else if (hf__zk_may_have_node(place))
        hf__zk_protocol_error(zk, place);
    else
        list_answered(zk, request, reply);
}

/* Our node was there, and is not any more: another client has deleted it. */
static void begin_again(struct zookeeper *zk, struct zk_queue_node *place, bool there)
{
    if (there) {
        hf__zk_queue_node_clear_name(place);
        hf__zk_queue_node_name(zk, place);
    }
    if (++place->tries < ZK_TRIES_MAX) {
        ask_for_node(zk, place);
        return;
    }
    hf__op_explain(place->op, HF_UNREACHABLE, 0,
                   "\"%.200s\": its node, or the path to it, is deleted again and again",
                   place->op->in.name);
    hf__zk_finish(zk, place, HF_NO_ANSWER);
}

/* ---- is there a node of ours? A release asks that, too ---- */

static void adopt(struct zookeeper *zk, struct zk_queue_node *place);
static void delete_node(struct zookeeper *zk, struct zk_queue_node *place);

static void search_answered(struct zookeeper *zk, struct zk_request *request,
                            struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    struct zk_child child = { .length = 0 };
    if (!place->op)
        return;
    bool over = !reply && request->session->state == ZK_SESSION_OVER;
    if (place->leaving && over)
        hf__zk_gone(zk, place->op, false);
    else if (place->leaving && hf__zk_is_error(reply))
        hf__zk_no_reply(zk, place, request, reply);
    else if (hf__zk_is_error(reply))
        hf__zk_fail(zk, place, request, reply);
    else if (reply->error == ZK_OK && !hf__zk_find_stem(reply->body, place->stem, &child))
        hf__zk_protocol_error(zk, place);
    else if (child.length == 0 && place->leaving)
        hf__zk_gone(zk, place->op, false);
    else if (child.length == 0) {
        hf__zk_queue_node_clear_name(place);
        begin_again(zk, place, false);
    } else {
        hf__zk_queue_node_set_name(place, child.name, child.length, 0);
        (place->leaving ? delete_node : adopt)(zk, place);
    }
}

static void search(struct zookeeper *zk, struct zk_queue_node *place)
{
    if (hf__zk_ask_for_barrier(zk, place))
        hf__zk_ask_about(zk, place, ZK_GET_CHILDREN, NULL, false, search_answered);
}

static void adopted(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    struct zk_stat stat;
    if (!hf__zk_goes_on(zk, request, reply))
        return;
    if (reply->error == ZK_OK)
        hf__zk_read_stat(&reply->body, &stat);
    /* What an older session has made goes with that one. */
    if (reply->error == ZK_NO_NODE || reply->body.bad || stat.owner != place->session->id) {
        begin_again(zk, place, true);
    } else if (stat.czxid <= 0) {
        hf__zk_protocol_error(zk, place);
    } else {
        place->token = stat.czxid;
        ask_for_list(zk, place);
    }
}

/* Asks for the token of a node that was found in the queue, and whether this session has made it.
 */
static void adopt(struct zookeeper *zk, struct zk_queue_node *place)
{
    hf__zk_ask_about(zk, place, ZK_EXISTS, place->node, false, adopted);
}

/* ---- what the list of its neighbours says (front.c asks about the nearest) ---- */

static void grant(struct zookeeper *zk, struct zk_queue_node *place);

static void judge(struct zookeeper *zk, struct zk_queue_node *place, struct zk_reader children)
{
    struct zk_view view;
    hf__zk_view(&view, children, hf__zk_family(zk, place->op), place->node, place->number);
    if (view.bad) { /* mutant: bare-try-is-granted */
        hf__zk_protocol_error(zk, place);
    } else if (!view.own) {
        begin_again(zk, place, true);
    } else if (place->token == 0) { /* mutant: node-owners-token-is-not-known */
        /* It was found in a queue before, and the answer about the node itself was lost. */
        adopt(zk, place);
    } else if (place->number < 0) { /* mutant: number-below-zero-is-one-like */
        hf__op_explain(place->op, HF_ELIMIT, 0,
                       "\"%.200s\": the numbers of its queue are used up; they begin anew when "
                       "its node has been deleted",
                       place->op->in.name);
        hf__zk_withdraw(zk, place, HF_FAILED);
    } else if (view.other_kind) {
        hf__zk_wrong_kind(zk, place);
    } else if (!view.blocked) {
        grant(zk, place);
    } else if (!place->op->in.enqueue) {
        hf__zk_withdraw(zk, place, HF_REFUSED);
    } else {
        hf__zk_wait_behind(zk, place, &view.in_front);
    }
}

static void list_answered(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    if (!hf__zk_goes_on(zk, request, reply))
        return;
    if (reply->error == ZK_NO_NODE)
        begin_again(zk, request->place, true);
    else
        judge(zk, request->place, reply->body);
}

static void ask_for_list(struct zookeeper *zk, struct zk_queue_node *place)
{
    hf__zk_ask_about(zk, place, ZK_GET_CHILDREN, NULL, false, list_answered);
}

/* ---- a grant ---- */

static void grant(struct zookeeper *zk, struct zk_queue_node *place)
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
    if (op->in.lease_ms > 0) {
        if (!hf__known_holds(&place->known))
            hf__own_end_start(&place->end, op);
        hf__own_end_follow(&place->end, &zk->leased, &place->session->lease, op);
    }
    hf__known_found(&place->known, HF_ASKED_ATTEMPT, HF_WORD_GRANTED);
    hf__zk_watch_own(zk, place); /* mutant: what-is-held-is-not-watched */
    hf__zk_finish(zk, place, HF_GRANTED);
}

/* ---- a release: the node goes, and until that is known, nothing is ---- */

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
        hf__zk_no_memory(zk, place);
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
    bool lowers = op->in.keep != HF_KEEP_NOTHING;
    if (lowers && !hf__zk_can_lower(zk, place))
        return;
    hf__zk_queue_node_unwatch(place);
    place->leaving = true;
    if (hf__zk_queue_node_has_past(place))
        await_earlier(zk, place);
    else if (place->session->state == ZK_SESSION_OVER)
        hf__zk_gone_with_session(zk, place);
    else if (lowers)
        hf__zk_lower(zk, place);
    else if (place->permits && hf__zk_semaphore_release(zk, place))
        return;
    else if (*place->node)
        delete_node(zk, place);
    else if (hf__zk_may_have_node(place))
        search(zk, place);
    else
        hf__zk_gone(zk, op, false);
}

static void delete_answered(struct zookeeper *zk, struct zk_request *request,
                            struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    if (!place->op)
        return;
    if (!reply && request->session->state == ZK_SESSION_OVER) {
        hf__zk_gone_with_session(zk, place);
        return;
    }
    enum hf_word word = hf__zk_is_error(reply)  ? HF_WORD_OPEN
                        : reply->error == ZK_OK ? HF_WORD_DONE
                                                : HF_WORD_MISSING;
    /* mutant: zookeeper-release-of-own-node */
    enum hf_known_verdict verdict = hf__zk_judge_reply(place, request, HF_ASKED_RELEASE, word);
    place->missing |= verdict == HF_KNOWN_LOST;
    if (word == HF_WORD_OPEN) {
        hf__zk_no_reply(zk, place, request, reply);
    } else if (*place->second) {
        /* A writer that was going to be a reader may have two nodes. */
        hf__zk_take_second(place);
        hf__known_sent(&place->known, HF_ASKED_ATTEMPT); /* it may never have been made */
        delete_node(zk, place);
    } else {
        hf__zk_gone(zk, place->op, place->missing);
    }
}

static void delete_node(struct zookeeper *zk, struct zk_queue_node *place)
{
    hf__zk_ask_about(zk, place, ZK_DELETE, place->node, false, delete_answered);
}

/* ---- what another file has done its part of ---- */

static void lock_go_on(struct zookeeper *zk, struct zk_queue_node *place, enum zk_next next)
{
    if (next == ZK_NEXT_BEGIN)
        begin(zk, place);
    else if (next == ZK_NEXT_LINE_UP)
        line_up(zk, place);
    else if (next == ZK_NEXT_LIST)
        ask_for_list(zk, place);
    else if (next == ZK_NEXT_MAKE)
        ask_for_node(zk, place);
    else if (next == ZK_NEXT_MAKE_ANEW)
        begin_again(zk, place, true);
    else if (next == ZK_NEXT_GRANT)
        grant(zk, place);
    else
        hf__zk_release(zk, place->op);
}
