/* SPDX-License-Identifier: Apache-2.0 */
/* The node in front: a place in a queue waits behind it, and a bare try looks at it before it has a
 * node of its own. */
#include "engines/zookeeper/semaphore/semaphore.h"

#include <string.h>

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

static void ask_about_front(struct zookeeper *zk, struct zk_queue_node *place,
                            const struct zk_child *child, bool watch, zk_answered *answered)
{
    if (child->length >= ZK_CHILD_SIZE) {
        hf__op_explain(place->op, HF_ECORRUPT, 0,
                       "\"%.200s\": a node in its queue has a name of %zu bytes",
                       place->op->in.name, child->length);
        hf__zk_withdraw(zk, place, HF_FAILED);
        return;
    }
    hf__zk_queue_node_unwatch(place);
    memcpy(place->watched, child->name, child->length);
    place->watched[child->length] = 0;
    if (!watch || !place->permits || hf__zk_semaphore_look(zk, place))
        hf__zk_ask_about(zk, place, ZK_GET_DATA, place->watched, watch, answered);
}

/* ---- a wait watches it ---- */

static void watched_answered(struct zookeeper *zk, struct zk_request *request,
                             struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    if (!hf__zk_goes_on(zk, request, reply))
        return;
    if (reply->error == ZK_NO_NODE)
        place->next(zk, place, ZK_NEXT_LIST);
    else if (!is_of_my_kind(place->op, &reply->body))
        hf__zk_wrong_kind(zk, place);
    else if (!place->permits || !hf__zk_semaphore_is_in_vain(zk, place)) {
        hf__zk_watch_add(zk, place, place->watched); /* mutant: node-in-front-is-not-watched */
        place->op->out.rests_on = &place->session->lease;
        hf__zk_finish(zk, place, HF_REFUSED);
    }
}

void hf__zk_wait_behind(struct zookeeper *zk, struct zk_queue_node *place,
                        const struct zk_child *child)
{
    ask_about_front(zk, place, child, true, watched_answered);
}

/* ---- a bare try looks before it writes ---- */

static void holder_answered(struct zookeeper *zk, struct zk_request *request,
                            struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    if (!hf__zk_goes_on(zk, request, reply))
        return;
    if (reply->error == ZK_NO_NODE && ++place->tries < ZK_TRIES_MAX)
        hf__zk_look_first(zk, place);
    else if (reply->error == ZK_OK && !is_of_my_kind(place->op, &reply->body))
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
    if (!hf__zk_goes_on(zk, request, reply))
        return false;
    if (reply->error == ZK_OK)
        hf__zk_view(view, reply->body, hf__zk_family(zk, place->op), "", INT64_MAX);
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
        ask_about_front(zk, place, &view.in_front, false, holder_answered);
    else
        place->next(zk, place, ZK_NEXT_MAKE);
}

static void front_look_answered(struct zookeeper *zk, struct zk_request *request,
                                struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    struct zk_view view;
    if (!read_look(zk, request, reply, &view))
        return;
    if (!view.blocked && !view.other_kind)
        place->next(zk, place, ZK_NEXT_MAKE);
    else if (!hf__zk_ask_for_barrier(zk, place)) /* mutant: bare-try-believes-an-old-list */
        return;
    else if (view.other_kind) /* mutant: kind-of-an-old-list-is-told */
        hf__zk_ask_about(zk, place, ZK_GET_CHILDREN, NULL, false, second_look_answered);
    else
        ask_about_front(zk, place, &view.in_front, false, holder_answered);
}

/* The list may be old. If it lets the try in, the node that is made then proves it. If it does not,
 * the list is asked for again, or the node in front asked about, behind a barrier. */
void hf__zk_look_first(struct zookeeper *zk, struct zk_queue_node *place)
{
    hf__zk_ask_about(zk, place, ZK_GET_CHILDREN, NULL, false, front_look_answered);
}
