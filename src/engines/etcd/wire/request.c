/* SPDX-License-Identifier: Apache-2.0 */
/* Unary calls: their memory, what waits for a connection, and replies. The first message is the
 * reply: nothing waits for the trailers behind it. */
#include "engines/common/poll.h"
#include "engines/etcd/etcd.h"

#include <string.h>

/* How often a request is sent again with a new token of the user. */
#define REFUSALS_MAX 2u
/* How often one is sent again that a server has no time for, and the pauses before that: about
 * 6 s in all. */
#define PAUSES_MAX 14u
#define PAUSE_FIRST_MS 10
#define PAUSE_MOST_MS 640
/* Requests that have no reply yet; others wait here. More of them make no server faster, and one
 * that has 5,000 still to execute refuses all clients. */
#define OUT_MAX 256u

#define UNREADABLE "its reply cannot be read"
#define KV "/etcdserverpb.KV/"
#define LEASE "/etcdserverpb.Lease/"

const struct etcd_method hf__etcd_range = { KV "Range", &hf_etcd__range_response__descriptor };
const struct etcd_method hf__etcd_txn = { KV "Txn", &hf_etcd__txn_response__descriptor };
const struct etcd_method hf__etcd_lease_grant = { LEASE "LeaseGrant",
                                                  &hf_etcd__lease_grant_response__descriptor };
const struct etcd_method hf__etcd_lease_revoke = { LEASE "LeaseRevoke",
                                                   &hf_etcd__lease_revoke_response__descriptor };
const struct etcd_method hf__etcd_status = { "/etcdserverpb.Maintenance/Status",
                                             &hf_etcd__status_response__descriptor, true };

/* ---- memory ---- */

static void pause_over(struct hf_timer *timer);

struct etcd_request *hf__etcd_request(struct etcd *etcd, const struct etcd_method *method,
                                      etcd_answered *answered)
{
    struct hf_link *link = hf__list_pop(&etcd->free_requests);
    struct etcd_request *request =
        link ? HF_CONTAINER(link, struct etcd_request, link) : hf__calloc(1, sizeof *request);
    if (!request)
        return NULL;
    hf__link_init(&request->link);
    request->etcd = etcd;
    request->method = method;
    request->answered = answered;
    request->drop = NULL;
    request->limit_ms = 0;
    request->arg = NULL;
    request->refused = request->pauses = 0;
    request->pause_ms = 0;
    hf__timer_init(&request->pause, pause_over);
    return request;
}

void hf__etcd_ignore_reply(struct etcd *etcd, struct etcd_request *request,
                           const struct etcd_reply *reply)
{
    (void)etcd, (void)request, (void)reply;
}

static void request_free(struct etcd_request *request)
{
    if (request->answered && request->drop)
        request->drop(request->arg);
    hf__timer_stop(hf__etcd_loop(request->etcd), &request->pause);
    hf__grpc_call_drop(&request->call);
    hf__grpc_call_free(&request->call);
    free(request->body);
    free(request);
}

static void free_all(struct hf_link *requests)
{
    struct hf_link *link;
    while ((link = hf__list_pop(requests)))
        request_free(HF_CONTAINER(link, struct etcd_request, link));
}

void hf__etcd_requests_open(struct etcd *etcd)
{
    hf__link_init(&etcd->waiting);
    hf__link_init(&etcd->paused);
    hf__link_init(&etcd->out);
    hf__link_init(&etcd->done);
    hf__link_init(&etcd->free_requests);
}

void hf__etcd_requests_free(struct etcd *etcd)
{
    free_all(&etcd->waiting);
    free_all(&etcd->paused);
    free_all(&etcd->out);
    free_all(&etcd->done);
    free_all(&etcd->free_requests);
}

static void recycle(struct etcd_request *request)
{
    hf__link_remove(&request->link);
    hf__list_append(&request->etcd->free_requests, &request->link);
}

/* ---- answering ---- */

static void leave_list(struct etcd_request *request)
{
    hf__link_remove(&request->link);
    request->etcd->out_count -= request->is_out;
    request->is_out = false;
}

static void request_answer(struct etcd_request *request, const struct etcd_reply *reply)
{
    struct etcd *etcd = request->etcd;
    etcd_answered *answered = request->answered;
    void (*drop)(void *arg) = request->drop;
    void *arg = request->arg;
    request->answered = NULL;
    leave_list(request);
    hf__list_append(&etcd->done, &request->link);
    answered(etcd, request, reply);
    if (drop)
        drop(arg);
}

static void message(struct hf_grpc_call *call, const uint8_t *bytes, size_t length)
{
    struct etcd_request *request = HF_CONTAINER(call, struct etcd_request, call);
    struct etcd *etcd = request->etcd;
    struct etcd_reply reply = { .word = ETCD_DONE, .status = HF_GRPC_OK, .text = "" };
    reply.message = hf__etcd_read(&etcd->arena, request->method->reply, bytes, length);
    if (!reply.message) {
        hf__peer_break(&etcd->peer, HF_ECORRUPT, 0, UNREADABLE);
        return; /* its answer comes with the end of the call, or of the connection */
    }
    etcd->peer.failures = 0;
    if (request->answered)
        request_answer(request, &reply);
    hf__etcd_send_waiting(etcd);
}

static void request_pause(struct etcd *etcd, struct etcd_request *request, int64_t for_ms)
{
    hf__list_append(&etcd->paused, &request->link);
    hf__timer_start(hf__etcd_loop(etcd), &request->pause, hf__etcd_now(etcd) + for_ms);
}

static bool is_asked_after_pause(struct etcd *etcd, struct etcd_request *request)
{
    /* mutant: etcd-server-without-time-is-asked-again */
    if (request->pauses == PAUSES_MAX)
        return false;
    leave_list(request);
    request_pause(etcd, request,
                  hf__poll_growing_ms(request->pauses++, PAUSE_FIRST_MS, PAUSE_MOST_MS));
    return true;
}

/* How often a request is asked again that was refused before anything was done for it: a token that
 * is not accepted any more is replaced, and each of the other members may have a leader. */
static unsigned refusals_max(const struct etcd *etcd, const struct etcd_reply *reply)
{
    if (reply->word == ETCD_ELSEWHERE) /* mutant: etcd-refused-request-goes-to-another-member */
        return etcd->settings.servers.count - 1;
    /* mutant: etcd-expired-token-is-replaced */
    return etcd->settings.servers.user && reply->word == ETCD_TOKEN ? REFUSALS_MAX : 0;
}

static bool request_ask_again(struct etcd *etcd, struct etcd_request *request,
                              const struct etcd_reply *reply)
{
    if (reply->word == ETCD_BUSY)
        return is_asked_after_pause(etcd, request);
    if (etcd->closing || request->refused >= refusals_max(etcd, reply))
        return false;
    request->refused++;
    leave_list(request);
    hf__list_append(&etcd->waiting, &request->link);
    if (reply->word == ETCD_ELSEWHERE)
        hf__etcd_leave_member(etcd, reply->text);
    else
        hf__etcd_renew_token(etcd, request->token); /* mutant: etcd-new-token-keeps-connection */
    return true;
}

static void ended(struct hf_grpc_call *call)
{
    struct etcd_request *request = HF_CONTAINER(call, struct etcd_request, call);
    struct etcd *etcd = request->etcd;
    if (call->answered)
        etcd->peer.failures = 0;
    if (request->answered) { /* `message` has not */
        struct etcd_reply reply = hf__etcd_reply_of(call);
        if (request_ask_again(etcd, request, &reply)) {
            hf__etcd_send_waiting(etcd);
            return;
        }
        if (reply.status == HF_GRPC_OK) /* it could not be read */
            reply = (struct etcd_reply){ .word = ETCD_OPEN,
                                         .status = HF_GRPC_INTERNAL,
                                         .text = UNREADABLE };
        /* What answers like no etcd may be something else: a request that is repeated waits for
         * another connection. */
        if (reply.word == ETCD_ELSEWHERE)
            hf__etcd_leave_member(etcd, call->text);
        else if (reply.status == HF_GRPC_UNAVAILABLE || (!call->answered && !call->timed_out))
            hf__peer_break(&etcd->peer, HF_UNREACHABLE, 0, "%s", call->text);
        request_answer(request, &reply);
    }
    recycle(request);
    hf__etcd_send_waiting(etcd);
}

void hf__etcd_leave_unanswered(struct etcd *etcd, bool all)
{
    struct hf_link unanswered, *link;
    hf__link_init(&unanswered);
    hf__list_append_all(&unanswered, &etcd->out);
    struct hf_link *last_sent = unanswered.prev;
    if (all)
        hf__list_append_all(&unanswered, &etcd->waiting);
    bool sent = last_sent != &unanswered;
    while ((link = hf__list_pop(&unanswered))) {
        struct etcd_request *request = HF_CONTAINER(link, struct etcd_request, link);
        struct etcd_reply reply = { .word = sent ? ETCD_OPEN : ETCD_UNSENT,
                                    .status = HF_GRPC_UNAVAILABLE,
                                    .text = etcd->why };
        sent = sent && link != last_sent;
        hf__grpc_call_drop(&request->call);
        request_answer(request, &reply);
        recycle(request);
    }
}

void hf__etcd_drop_done(struct etcd *etcd)
{
    HF_LIST_FOREACH (link, following, &etcd->done) {
        struct etcd_request *request = HF_CONTAINER(link, struct etcd_request, link);
        hf__grpc_call_drop(&request->call);
        recycle(request);
    }
}

/* ---- sending ---- */

static void request_send(struct etcd *etcd, struct etcd_request *request)
{
    static const struct hf_grpc_events events = { message, ended };
    request->call.events = &events;
    request->call.streaming = false;
    request->sent_at_ms = hf__etcd_now(etcd);
    request->token = etcd->tokens;
    hf__list_append(&etcd->out, &request->link);
    request->is_out = true;
    etcd->out_count++;
    if (hf__etcd_begin_call(etcd, &request->call, request->method->path, request->limit_ms,
                            !request->method->needs_no_leader) &&
        (request->unpacked || /* mutant: etcd-request-without-a-body */
         !hf__grpc_send(&request->call, request->body, request->length, true)))
        hf__peer_break(&etcd->peer, HF_ENOMEM, 0, "out of memory for a request");
    hf__peer_await(&etcd->peer);
}

static bool pack(struct etcd_request *request, const ProtobufCMessage *message)
{
    size_t length = protobuf_c_message_get_packed_size(message);
    if (length > request->room) {
        uint8_t *grown = hf__realloc(request->body, length + 256);
        if (!grown)
            return false;
        request->body = grown;
        request->room = length + 256;
    }
    request->length = protobuf_c_message_pack(message, request->body);
    return true;
}

/* Two calls are those of heartbeats and watches. */
static unsigned out_max(const struct etcd *etcd)
{
    uint32_t streams = hf__etcd_streams_max(etcd);
    uint32_t left = streams < ETCD_STREAMS_MIN ? 1 : streams - (ETCD_STREAMS_MIN - 1);
    return left < OUT_MAX ? left : OUT_MAX;
}

/* Leases do not wait for others: keys rest on them, and go with them. */
static void request_send_or_wait(struct etcd *etcd, struct etcd_request *request)
{
    bool first =
        request->method == &hf__etcd_lease_grant || request->method == &hf__etcd_lease_revoke;
    if (hf__etcd_can_send(etcd) && (first || etcd->out_count < out_max(etcd))) {
        request_send(etcd, request);
        return;
    }
    hf__list_append(&etcd->waiting, &request->link);
    hf__peer_want(&etcd->peer);
}

void hf__etcd_ask(struct etcd *etcd, struct etcd_request *request, const ProtobufCMessage *message)
{
    /* As rare as that is: the end of a connection is what has a way to tell everybody. An empty
     * transaction would be executed, and succeed. */
    /* mutant: etcd-reply-lives-while-another-is-asked */
    request->unpacked = !pack(request, message);
    if (request->pause_ms > 0)
        request_pause(etcd, request, request->pause_ms);
    else
        request_send_or_wait(etcd, request);
}

static void pause_over(struct hf_timer *timer)
{
    struct etcd_request *request = HF_CONTAINER(timer, struct etcd_request, pause);
    hf__link_remove(&request->link);
    request_send_or_wait(request->etcd, request);
}

void hf__etcd_send_waiting(struct etcd *etcd)
{
    while (!hf__list_empty(&etcd->waiting) && hf__etcd_can_send(etcd) &&
           etcd->out_count < out_max(etcd))
        request_send(etcd, HF_CONTAINER(hf__list_pop(&etcd->waiting), struct etcd_request, link));
}
