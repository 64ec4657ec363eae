/* SPDX-License-Identifier: Apache-2.0 */
/* What goes over a connection: requests are sent or wait for it, and answers come in the order in
 * which these were sent. A request that has no answer is told so exactly once, too. */
#include "connection.h"

/* ---- answering ---- */

static struct zk_request *request_of(struct hf_pipeline_item *item)
{
    return (struct zk_request *)item;
}

static void recycle(struct zookeeper *zk, struct zk_request *request)
{
    if (hf__link_linked(&request->item.link))
        return;
    if (request->drop_place)
        request->drop_place(request->place);
    hf__zk_session_drop(request->session);
    request->session = NULL;
    hf__free_list_put(&zk->free_requests, &request->item);
}

/* While it closes nothing waits for a reply but the goodbye. */
static void answer(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    if (reply && request->drop_place && request->place->op)
        request->place->op->out.contacted = true;
    if (!zk->closing || request->operation == ZK_CLOSE)
        request->answered(zk, request, reply);
    recycle(zk, request);
}

static void request_unanswered(struct hf_pipeline *pipeline, struct hf_pipeline_item *item)
{
    answer(HF_CONTAINER(pipeline, struct zookeeper, pipeline), request_of(item), NULL);
}

/* ---- sending ---- */

void hf__zk_connection_write(struct zookeeper *zk, struct zk_writer *writer)
{
    if (writer->failed)
        hf__peer_break(&zk->peer, HF_ENOMEM, 0, "out of memory for a request");
    else
        hf__peer_write(&zk->peer, writer->bytes, writer->length);
    writer->length = 0;
    writer->failed = false;
}

void hf__zk_send(struct zookeeper *zk, struct zk_request *request)
{
    struct zk_writer *writer = &zk->out_bytes;
    request->xid = zk->last_xid = zk->last_xid == INT32_MAX ? 1 : zk->last_xid + 1;
    int64_t now_ms = hf__zk_now(zk);
    size_t begun = hf__zk_frame_begin(writer);
    hf__zk_write_int(writer, request->xid);
    hf__zk_write_int(writer, request->operation);
    hf__zk_write_raw(writer, &request->body);
    hf__zk_frame_end(writer, begun);
    if (!hf__pipeline_first_out(&zk->pipeline) && zk->tick.at_ms > now_ms + ZK_NUDGE_MS)
        hf__timer_start(hf__zk_loop(zk), &zk->tick, now_ms + ZK_NUDGE_MS);
    hf__pipeline_sent(&zk->pipeline, &request->item, now_ms);
    hf__peer_await(&zk->peer);
    hf__zk_connection_write(zk, writer);
}

static bool may_send(const struct zookeeper *zk, const struct zk_request *request)
{
    return hf__peer_is_ready(&zk->peer) && !zk->closing && request->session == zk->greeted &&
           request->session->state != ZK_SESSION_ENDING;
}

void hf__zk_connection_want(struct zookeeper *zk)
{
    if (!zk->closing && zk->traffic->wanted(zk))
        hf__peer_want(&zk->peer);
}

void hf__zk_ask(struct zookeeper *zk, struct zk_request *request)
{
    if (request->session->state == ZK_SESSION_OVER) {
        request->item.sent = false;
        hf__list_append(&zk->orphans, &request->item.link);
        hf__loop_defer(hf__zk_loop(zk), &zk->answer_orphans);
    } else if (may_send(zk, request)) {
        hf__zk_send(zk, request);
    } else {
        hf__pipeline_wait(&zk->pipeline, &request->item);
        hf__zk_connection_want(zk);
    }
}

void hf__zk_orphans(struct zookeeper *zk)
{
    HF_LIST_FOREACH (link, following, &zk->pipeline.waiting) {
        struct zk_request *request = HF_CONTAINER(link, struct zk_request, item.link);
        if (request->session->state != ZK_SESSION_OVER)
            continue;
        hf__link_remove(link);
        hf__list_append(&zk->orphans, link);
    }
    if (!hf__list_empty(&zk->orphans))
        hf__loop_defer(hf__zk_loop(zk), &zk->answer_orphans);
}

static void answer_orphans(struct hf_task *task)
{
    struct zookeeper *zk = HF_CONTAINER(task, struct zookeeper, answer_orphans);
    hf__pipeline_abandon(&zk->pipeline, &zk->orphans);
}

void hf__zk_send_waiting(struct zookeeper *zk)
{
    HF_LIST_FOREACH (link, following, &zk->pipeline.waiting) {
        struct zk_request *request = HF_CONTAINER(link, struct zk_request, item.link);
        if (!may_send(zk, request))
            continue;
        hf__link_remove(link);
        hf__zk_send(zk, request);
    }
}

/* ---- hearing ---- */

/* That nothing could be deleted is a change like any other, to the servers. */
static bool was_agreed_to(const struct zk_request *request, const struct zk_reply *reply)
{
    int32_t operation = request->operation;
    bool writes = operation == ZK_CREATE || operation == ZK_CREATE2 ||
                  operation == ZK_CREATE_CONTAINER || operation == ZK_DELETE ||
                  operation == ZK_SET_DATA;
    return writes &&
           (reply->error == ZK_OK || (operation == ZK_DELETE && reply->error == ZK_NO_NODE));
}

/* The server reads nothing more on this connection, so what was sent behind the first request that
 * it refuses is refused as well. Its session is not over, though it refuses to end that, too. */
static void take_refusal(struct zookeeper *zk, const struct zk_reply *refusal)
{
    struct hf_pipeline_item *item;
    const struct zk_meaning *meaning = hf__zk_meaning(refusal->error);
    hf__peer_break(&zk->peer, meaning->code, refusal->error, "%s; %s", meaning->what,
                   meaning->cure);
    while ((item = hf__pipeline_replied(&zk->pipeline))) {
        struct zk_request *request = request_of(item);
        struct zk_reply reply = { .xid = request->xid, .error = refusal->error };
        answer(zk, request, request->operation == ZK_CLOSE ? NULL : &reply);
    }
}

/* A server's own errors, such as "connection loss" and "operation timeout". ClickHouse Keeper
 * replies so without its quorum. The request may have been executed. */
static bool is_open(int error)
{
    return error < ZK_OK && error > ZK_API_ERROR && error != ZK_UNIMPLEMENTED &&
           error != ZK_BAD_ARGUMENTS;
}

static void take_answer(struct zookeeper *zk, struct zk_reply *reply)
{
    struct zk_request *request = request_of(hf__pipeline_first_out(&zk->pipeline));
    if (!request || request->xid != reply->xid) {
        hf__peer_break(&zk->peer, HF_ECORRUPT, 0, "a reply without a request");
        return;
    }
    if (reply->error == ZK_MOVED || reply->error == ZK_EXPIRED) {
        hf__peer_break(&zk->peer, HF_UNREACHABLE, 0, "the session is not here any more");
        return;
    }
    if (is_open(reply->error)) { /* mutant: zookeeper-open-error */
        hf__peer_break(&zk->peer, HF_UNREACHABLE, reply->error,
                       "error %d leaves open whether the request was executed", reply->error);
        return;
    }
    if (reply->error == ZK_USER_REQUIRED) {
        take_refusal(zk, reply);
        return;
    }
    hf__pipeline_replied(&zk->pipeline);
    if (was_agreed_to(request, reply))
        zk->traffic->confirmed(zk, request->session, request->item.sent_at_ms);
    answer(zk, request, reply);
}

void hf__zk_take_frame(struct zookeeper *zk, struct zk_reader *frame)
{
    struct zk_reply reply;
    struct zk_event event;
    if (!hf__zk_read_reply(frame, &reply)) {
        hf__peer_break(&zk->peer, HF_ECORRUPT, 0, "its answer cannot be read");
        return;
    }
    if (reply.zxid > zk->greeted->last_zxid)
        zk->greeted->last_zxid = reply.zxid;
    if (reply.xid == ZK_XID_EVENT && hf__zk_read_event(&reply.body, &event))
        zk->traffic->happened(zk, &event);
    else if (reply.xid == ZK_XID_AUTH && reply.error != ZK_OK)
        hf__peer_break(&zk->peer, HF_DENIED, 0, "it refuses the user and the password of the URL");
    else if (reply.xid >= 0)
        take_answer(zk, &reply);
}

/* ---- beginning and ending ---- */

void hf__zk_request_io_open(struct zookeeper *zk)
{
    hf__pipeline_init(&zk->pipeline, request_unanswered);
    hf__free_list_init(&zk->free_requests, sizeof(struct zk_request));
    hf__link_init(&zk->orphans);
    hf__task_init(&zk->answer_orphans, answer_orphans);
}

static void empty(struct hf_pipeline_item *item)
{
    hf__zk_writer_free(&request_of(item)->body);
}

void hf__zk_request_io_close(struct zookeeper *zk)
{
    hf__link_remove(&zk->answer_orphans.link);
    hf__pipeline_fail(&zk->pipeline, true);
    hf__pipeline_abandon(&zk->pipeline, &zk->orphans);
    hf__free_list_end(&zk->free_requests, empty);
    hf__zk_writer_free(&zk->out_bytes);
}
