/* Taking: how an attempt becomes a node in a queue, and a list of its neighbours a verdict.
 *
 *   a bare try:   list ---- somebody stands against it: REFUSED
 *                   |
 *                   v nobody
 *   a wait:       create, list ---- no parent: make the parents, once more
 *                   |
 *                   v
 *                 the list: nobody in front: GRANTED
 *                   | somebody: watch that node, REFUSED (a bare try withdraws its node first)
 *
 *   asked again:  list; or, if it is not known whether there is a node: sync, list, and adopt it.
 */
#include "latch.h"
#include "semaphore.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Parents come and go, and so may our node; somewhere it has to end. */
#define TRIES_MAX 8u
#define LOOKS_MAX 2u

void hf__zk_finish(struct zookeeper *zk, struct zk_place *place, enum hf_verdict verdict)
{
    struct hf_op *op = place->op;
    op->verdict = verdict;
    op->retry_at_ms = HF_NEVER;
    bool passed = verdict == HF_GRANTED && op->mode == HF_LATCH;
    if (verdict == HF_FAILED || passed || (verdict == HF_REFUSED && !op->enqueue))
        hf__zk_place_leave(zk, place);
    hf__op_done(&zk->base, op);
}

static bool begin(struct zookeeper *zk, struct zk_place *place);

/* A bare try has one answer, and that its connection or its session was dead already says nothing
 * about the servers. It has only looked so far. */
static bool is_worth_another_look(struct zk_place *place, const struct zk_request *request)
{
    bool broken = request->sent || request->session->state == ZK_SESSION_OVER;
    return broken && !place->op->enqueue && !*place->node && !place->unknown &&
           place->tries++ < LOOKS_MAX;
}

/* A definite no leaves nothing that can be deleted, so a node that is there goes first; where one
 * may be left, only a no to that is definite. */
void hf__zk_fail(struct zookeeper *zk, struct zk_place *place, const struct zk_request *request,
                 const struct zk_reply *reply)
{
    if (!reply && is_worth_another_look(place, request) && begin(zk, place))
        return;
    int code = hf__zk_explain(zk, request, reply, &place->op->error);
    bool unclear =
        place->unknown || (place->permits && place->permits->unknown) || (*place->node && !reply);
    if (code == HF_UNREACHABLE || hf__zk_place_has_past(place) ||
        (unclear && !hf__zk_is_refusal(reply)))
        hf__zk_finish(zk, place, HF_NO_ANSWER);
    else if (unclear)
        hf__zk_stay_behind(zk, place, reply);
    else
        hf__zk_withdraw(zk, place, HF_FAILED);
}

void hf__zk_no_memory(struct zookeeper *zk, struct zk_place *place)
{
    hf__op_explain(place->op, HF_ENOMEM, 0, "out of memory for a request");
    hf__zk_finish(zk, place, HF_NO_ANSWER);
}

/* What a server says that is none of ZooKeeper's proves nothing. */
static void nonsense(struct zookeeper *zk, struct zk_place *place)
{
    hf__zk_connection_break(zk, HF_ECORRUPT, 0, "its answer cannot be read");
    hf__op_explain(place->op, HF_UNREACHABLE, 0, "%s", zk->why.text);
    hf__zk_finish(zk, place, HF_NO_ANSWER);
}

static bool is_late(const struct zk_request *request)
{
    return !request->place->op;
}

/* ---- withdrawing a node that must not stay ---- */

static void withdrawn(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_place *place = request->place;
    if (is_late(request))
        return;
    if (hf__zk_is_refusal(reply)) {
        hf__zk_stay_behind(zk, place, reply);
        return;
    }
    if (!reply || (reply->error != ZK_OK && reply->error != ZK_NO_NODE)) {
        hf__zk_explain(zk, request, reply, &place->op->error);
        hf__zk_finish(zk, place, HF_NO_ANSWER);
        return;
    }
    hf__zk_place_forget_node(place);
    hf__zk_place_name(zk, place);
    hf__zk_finish(zk, place, place->verdict);
}

void hf__zk_withdraw(struct zookeeper *zk, struct zk_place *place, enum hf_verdict verdict)
{
    if (!*place->node) {
        hf__zk_finish(zk, place, verdict);
        return;
    }
    struct zk_request *request = hf__zk_place_request(zk, place, ZK_DELETE, withdrawn);
    if (!request) {
        hf__zk_no_memory(zk, place);
        return;
    }
    place->verdict = verdict;
    hf__zk_write_child(&request->body, place->path, place->node);
    hf__zk_write_int(&request->body, -1);
    hf__zk_ask(zk, request);
}

static void wrong_kind(struct zookeeper *zk, struct zk_place *place)
{
    hf__op_explain(place->op, HF_EKIND, 0, "\"%.200s\" is in use as another kind of lock",
                   place->op->name);
    hf__zk_withdraw(zk, place, HF_FAILED);
}

/* ---- the verdict ---- */

static void rest_on_own_lease(struct zookeeper *zk, struct zk_place *place)
{
    struct hf_op *op = place->op;
    const struct hf_lease *session = &place->session->lease;
    if (!place->held) {
        int64_t end_ms = op->asked_at_ms + op->lease_ms;
        place->lease.fixed = true;
        place->lease.ends_at_ms = end_ms - op->lease_ms / 100 - 2;
        hf__timer_start(hf__zk_loop(zk), &place->end, end_ms);
        hf__list_append(&zk->leased, &place->lease_link);
    }
    place->lease.lease_ms = session->lease_ms;
    place->lease.asked_at_ms = session->asked_at_ms;
    op->rests_on = &place->lease;
}

void hf__zk_grant(struct zookeeper *zk, struct zk_place *place)
{
    struct hf_op *op = place->op;
    if (place->permits && hf__zk_semaphore_turn(zk, place))
        return;
    if (op->mode == HF_LATCH) {
        hf__zk_latch_turn(zk, place);
        return;
    }
    op->token = (uint64_t)place->token;
    op->rests_on = &place->session->lease;
    if (op->lease_ms > 0)
        rest_on_own_lease(zk, place);
    place->held = true;
    hf__zk_watch_own(zk, place);
    hf__zk_finish(zk, place, HF_GRANTED);
}

/* A line of ours in the node in front says what it is; others do not distinguish the two. */
static bool is_of_my_kind(const struct hf_op *op, struct zk_reader *body)
{
    struct zk_note note;
    size_t length;
    const char *data = hf__zk_read_bytes(body, &length);
    hf__zk_note_read(&note, data, length);
    bool mutexes = op->mode == HF_MUTEX || op->mode == HF_FAIR;
    return !note.ours || !mutexes || note.mode == op->mode;
}

static void ask_for_list(struct zookeeper *zk, struct zk_place *place);
static void ask_for_node(struct zookeeper *zk, struct zk_place *place);

static void watch_answered(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_place *place = request->place;
    if (is_late(request))
        return;
    if (reply && reply->error == ZK_NO_NODE)
        ask_for_list(zk, place);
    else if (!reply || reply->error != ZK_OK)
        hf__zk_fail(zk, place, request, reply);
    else if (!is_of_my_kind(place->op, &reply->body))
        wrong_kind(zk, place);
    else {
        hf__zk_watch_add(zk, place, place->watched);
        place->op->rests_on = &place->session->lease;
        hf__zk_finish(zk, place, HF_REFUSED);
    }
}

/* Names the child that is asked about next. False: its name is longer than any recipe's. */
static bool note_child(struct zk_place *place, const struct zk_child *child)
{
    if (child->length >= ZK_CHILD_SIZE)
        return false;
    hf__zk_watch_remove(place);
    memcpy(place->watched, child->name, child->length);
    place->watched[child->length] = 0;
    return true;
}

static void ask_about(struct zookeeper *zk, struct zk_place *place, const struct zk_child *child,
                      bool watch, zk_answered *answered)
{
    if (!note_child(place, child)) {
        hf__op_explain(place->op, HF_ECORRUPT, 0,
                       "\"%.200s\": a node in its queue has a name of %zu bytes", place->op->name,
                       child->length);
        hf__zk_withdraw(zk, place, HF_FAILED);
        return;
    }
    struct zk_request *request = hf__zk_place_request(zk, place, ZK_GET_DATA, answered);
    if (!request) {
        hf__zk_no_memory(zk, place);
        return;
    }
    hf__zk_write_child(&request->body, place->path, place->watched);
    hf__zk_write_bool(&request->body, watch);
    hf__zk_ask(zk, request);
}

/* Our node was there, and is not any more: somebody has deleted it. */
void hf__zk_begin_again(struct zookeeper *zk, struct zk_place *place, bool there)
{
    if (there) {
        hf__zk_place_forget_node(place);
        hf__zk_place_name(zk, place);
    }
    if (++place->tries < TRIES_MAX) {
        ask_for_node(zk, place);
        return;
    }
    hf__op_explain(place->op, HF_UNREACHABLE, 0,
                   "\"%.200s\": its node, or the path to it, is deleted again and again",
                   place->op->name);
    hf__zk_finish(zk, place, HF_NO_ANSWER);
}

static void judge(struct zookeeper *zk, struct zk_place *place, struct zk_reader children)
{
    struct zk_view view;
    hf__zk_view(&view, children, hf__zk_family_of(place->op->mode), place->node, place->number);
    if (view.bad) {
        nonsense(zk, place);
    } else if (!view.own) {
        hf__zk_begin_again(zk, place, true);
    } else if (place->number < 0) {
        hf__op_explain(place->op, HF_ELIMIT, 0,
                       "\"%.200s\": the numbers of its queue are used up; they begin anew when "
                       "its node has been deleted",
                       place->op->name);
        hf__zk_withdraw(zk, place, HF_FAILED);
    } else if (view.other_kind) {
        wrong_kind(zk, place);
    } else if (!view.blocked) {
        hf__zk_grant(zk, place);
    } else if (!place->op->enqueue) {
        hf__zk_withdraw(zk, place, HF_REFUSED);
    } else {
        ask_about(zk, place, &view.in_front, true, watch_answered);
    }
}

static void list_answered(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_place *place = request->place;
    if (is_late(request))
        return;
    if (reply && reply->error == ZK_NO_NODE)
        hf__zk_begin_again(zk, place, true);
    else if (!reply || reply->error != ZK_OK)
        hf__zk_fail(zk, place, request, reply);
    else
        judge(zk, place, reply->body);
}

static bool ask_for_children(struct zookeeper *zk, struct zk_place *place, zk_answered *answered)
{
    struct zk_request *request = hf__zk_place_request(zk, place, ZK_GET_CHILDREN, answered);
    if (!request) {
        hf__zk_no_memory(zk, place);
        return false;
    }
    hf__zk_write_text(&request->body, place->path);
    hf__zk_write_bool(&request->body, false);
    hf__zk_ask(zk, request);
    return true;
}

static void ask_for_list(struct zookeeper *zk, struct zk_place *place)
{
    ask_for_children(zk, place, list_answered);
}

/* ---- making the node ---- */

static void take_node(struct zk_place *place, struct zk_reader *body)
{
    size_t length;
    struct zk_stat stat;
    const char *path = hf__zk_read_bytes(body, &length);
    size_t before = strlen(place->path) + 1;
    hf__zk_read_stat(body, &stat);
    if (body->bad || length <= before || length - before >= ZK_NODE_SIZE ||
        memcmp(path, place->path, before - 1) != 0)
        return;
    hf__zk_place_has_node(place, path + before, length - before);
    place->token = stat.czxid;
}

/* Until there is an answer that can be read, a node may have been made. */
static void create_answered(struct zookeeper *zk, struct zk_request *request,
                            struct zk_reply *reply)
{
    struct zk_place *place = request->place;
    (void)zk;
    if (place->session != request->session)
        return;
    place->create_error = reply ? reply->error : ZK_OK;
    if (reply && reply->error == ZK_OK)
        take_node(place, &reply->body);
    else if (reply || !request->sent || request->session->state == ZK_SESSION_OVER)
        hf__zk_place_forget_node(place);
}

static void parent_answered(struct zookeeper *zk, struct zk_request *request,
                            struct zk_reply *reply)
{
    struct zk_place *place = request->place;
    hf__zk_parent_answered(zk, reply);
    place->parent_error = hf__zk_parent_error(place->parent_error, reply);
}

static struct zk_request *new_parent(struct zookeeper *zk, void *arg, int32_t operation)
{
    return hf__zk_place_request(zk, arg, operation, parent_answered);
}

static void refused(struct zookeeper *zk, struct zk_place *place, const struct zk_request *request,
                    int error)
{
    struct zk_reply refusal = { .error = error };
    hf__zk_fail(zk, place, request, &refusal);
}

/* The list was asked for behind the node, on the same connection: it is the later answer, and says
 * what has become of both. */
static void node_answered(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_place *place = request->place;
    if (is_late(request))
        return;
    if (!reply)
        hf__zk_fail(zk, place, request, reply);
    else if (place->create_error == ZK_NO_NODE && place->op->mode == HF_LATCH)
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
    } else if (place->unknown) {
        nonsense(zk, place);
    } else {
        list_answered(zk, request, reply);
    }
}

void hf__zk_describe(const struct zookeeper *zk, const struct hf_op *op, int64_t lease_ms,
                     char *text, size_t size)
{
    struct zk_note note = {
        .mode = op->mode, .permits = op->permits, .pid = getpid(), .lease_ms = lease_ms
    };
    const struct hf_host *host = zk->base.host;
    snprintf(note.host, sizeof note.host, "%.63s", *host->host_name ? host->host_name : "-");
    snprintf(note.owner, sizeof note.owner, "%.127s",
             op->owner_text && *op->owner_text ? op->owner_text : host->owner_text);
    hf__zk_note_write(&note, text, size);
}

static void ask_for_node(struct zookeeper *zk, struct zk_place *place)
{
    char data[400];
    if (!hf__zk_place_reserve(place)) {
        hf__op_explain(place->op, HF_ELIMIT, 0,
                       "this client has as many nodes as one session can carry safely (%u KiB of "
                       "paths); open another client",
                       ZK_SESSION_PATHS_MAX >> 10);
        hf__zk_finish(zk, place, hf__zk_place_has_past(place) ? HF_NO_ANSWER : HF_FAILED);
        return;
    }
    struct zk_request *request = hf__zk_place_request(zk, place, ZK_CREATE2, create_answered);
    if (!request) {
        hf__zk_no_memory(zk, place);
        return;
    }
    hf__zk_describe(zk, place->op, place->op->lease_ms, data, sizeof data);
    hf__zk_write_child(&request->body, place->path, place->stem);
    hf__zk_write_create(&request->body, data, strlen(data), ZK_EPHEMERAL | ZK_SEQUENTIAL,
                        zk->settings.user != NULL);
    place->unknown = true;
    hf__zk_ask(zk, request);
    ask_for_children(zk, place, node_answered);
}

/* ---- a bare try looks before it writes ---- */

static void holder_answered(struct zookeeper *zk, struct zk_request *request,
                            struct zk_reply *reply)
{
    struct zk_place *place = request->place;
    if (is_late(request))
        return;
    if (reply && reply->error == ZK_NO_NODE && ++place->tries < TRIES_MAX)
        hf__zk_look_first(zk, place);
    else if (reply && reply->error == ZK_NO_NODE)
        hf__zk_finish(zk, place, HF_REFUSED);
    else if (!reply || reply->error != ZK_OK)
        hf__zk_fail(zk, place, request, reply);
    else if (!is_of_my_kind(place->op, &reply->body))
        wrong_kind(zk, place);
    else
        hf__zk_finish(zk, place, HF_REFUSED);
}

static void look_answered(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_place *place = request->place;
    struct zk_view view = { .own = false };
    if (is_late(request))
        return;
    if (!reply || (reply->error != ZK_OK && reply->error != ZK_NO_NODE)) {
        hf__zk_fail(zk, place, request, reply);
        return;
    }
    if (reply->error == ZK_OK)
        hf__zk_view(&view, reply->body, hf__zk_family_of(place->op->mode), "", INT64_MAX);
    if (view.bad)
        nonsense(zk, place);
    else if (view.other_kind)
        wrong_kind(zk, place);
    else if (view.blocked)
        ask_about(zk, place, &view.in_front, false, holder_answered);
    else
        ask_for_node(zk, place);
}

static void nothing(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    (void)zk, (void)request, (void)reply;
}

/* What the server shows next is what everybody has seen by now. */
static bool ask_to_sync(struct zookeeper *zk, struct zk_place *place)
{
    struct zk_request *request = hf__zk_place_request(zk, place, ZK_SYNC, nothing);
    if (!request) {
        hf__zk_no_memory(zk, place);
        return false;
    }
    hf__zk_write_text(&request->body, place->path);
    hf__zk_ask(zk, request);
    return true;
}

void hf__zk_look_first(struct zookeeper *zk, struct zk_place *place)
{
    if (ask_to_sync(zk, place))
        ask_for_children(zk, place, look_answered);
}

/* ---- is there a node of ours? ---- */

static void adopted(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_place *place = request->place;
    struct zk_stat stat;
    if (is_late(request))
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
        return;
    }
    place->token = stat.czxid;
    ask_for_list(zk, place);
}

static void search_answered(struct zookeeper *zk, struct zk_request *request,
                            struct zk_reply *reply)
{
    struct zk_place *place = request->place;
    struct zk_child child = { .length = 0 };
    if (is_late(request))
        return;
    if (!reply || (reply->error != ZK_OK && reply->error != ZK_NO_NODE)) {
        hf__zk_fail(zk, place, request, reply);
        return;
    }
    if (reply->error == ZK_OK && !hf__zk_find_stem(reply->body, place->stem, &child)) {
        nonsense(zk, place);
        return;
    }
    if (child.length == 0) {
        hf__zk_place_forget_node(place);
        hf__zk_begin_again(zk, place, false);
        return;
    }
    hf__zk_place_has_node(place, child.name, child.length);
    struct zk_request *next = hf__zk_place_request(zk, place, ZK_EXISTS, adopted);
    if (!next) {
        hf__zk_no_memory(zk, place);
        return;
    }
    hf__zk_write_child(&next->body, place->path, place->node);
    hf__zk_write_bool(&next->body, false);
    hf__zk_ask(zk, next);
}

void hf__zk_line_up(struct zookeeper *zk, struct zk_place *place)
{
    if (*place->node)
        ask_for_list(zk, place);
    else if (place->unknown) {
        if (ask_to_sync(zk, place))
            ask_for_children(zk, place, search_answered);
    } else if (place->op->enqueue)
        ask_for_node(zk, place);
    else
        hf__zk_look_first(zk, place);
}

/* False: out of memory, and nothing was asked. */
static bool begin(struct zookeeper *zk, struct zk_place *place)
{
    struct zk_session *session = hf__zk_session_current(zk);
    if (!session)
        return false;
    hf__zk_place_begin(zk, place, session);
    place->leaving = false;
    place->parent_error = ZK_OK;
    if (place->permits && hf__zk_semaphore_begin(zk, place))
        return true;
    if (place->op->mode != HF_LATCH || !hf__zk_latch_begin(zk, place))
        hf__zk_line_up(zk, place);
    return true;
}

void hf__zk_attempt(struct hf_engine *engine, struct hf_op *op)
{
    struct zookeeper *zk = (struct zookeeper *)engine;
    struct zk_place *place = op->engine_pointer;
    if (!place)
        place = hf__zk_place_new(zk, op);
    if (place)
        place->tries = 0;
    if (place && begin(zk, place))
        return;
    hf__op_explain(op, HF_ENOMEM, 0, "out of memory for a place in a queue");
    op->verdict = place ? HF_NO_ANSWER : HF_FAILED;
    hf__op_done(engine, op);
}
