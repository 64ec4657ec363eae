/* SPDX-License-Identifier: Apache-2.0 */
/* The connection: gRPC's bytes on a peer's stream, the handshake, and what happens when a
 * connection ends. A server that knows no leader says so at once, as calls ask for one. */
#include "engines/etcd/etcd.h"

#include <stdio.h>
#include <string.h>

/* With several servers a silent one gets this part of the lease, so that there is time for the
 * others. */
#define SILENCE_PARTS 4
#define SILENCE_MIN_MS 500
/* Room for one more message of a stream than was needed so far. */
#define PACKED_MORE 256u
/* Bytes of a user's token; one that is signed with a long key has about 1,000. */
#define TOKEN_MAX 16384u

static struct etcd *of_peer(struct hf_peer *peer)
{
    return HF_CONTAINER(peer, struct etcd, peer);
}

/* ---- bytes ---- */

static void flush(struct hf_task *task)
{
    struct etcd *etcd = HF_CONTAINER(task, struct etcd, flush);
    const uint8_t *bytes;
    long length;
    while (etcd->grpc.h2 && etcd->peer.stream && !etcd->peer.failing &&
           (length = hf__grpc_take(&etcd->grpc, &bytes)) != 0) {
        if (length < 0)
            hf__peer_break(&etcd->peer, HF_UNREACHABLE, 0, "%s", hf__h2_why(etcd->grpc.h2));
        else
            hf__peer_write(&etcd->peer, (const char *)bytes, (size_t)length);
    }
}

static void has_bytes(void *arg)
{
    struct etcd *etcd = arg;
    hf__loop_defer(hf__etcd_loop(etcd), &etcd->flush);
}

static void draining(void *arg)
{
    struct etcd *etcd = arg;
    hf__peer_break(&etcd->peer, HF_UNREACHABLE, 0, "it is going away");
}

bool hf__etcd_begin_call(struct etcd *etcd, struct hf_grpc_call *call, const char *path,
                         int64_t limit_ms, bool needs_leader)
{
    static const struct hf_h2_header with_leader = { "hasleader", "true" };
    if (hf__grpc_begin(&etcd->grpc, call, path, limit_ms, needs_leader ? &with_leader : NULL))
        return true;
    hf__peer_break(&etcd->peer, HF_UNREACHABLE, 0, "%s",
                   hf__grpc_is_open(&etcd->grpc)
                       ? "out of memory for a call"
                       : "it does not speak HTTP/2, or has ended the connection");
    return false;
}

uint32_t hf__etcd_streams_max(const struct etcd *etcd)
{
    return etcd->grpc.h2 ? hf__h2_streams_max(etcd->grpc.h2) : UINT32_MAX;
}

static bool pack(struct etcd *etcd, const ProtobufCMessage *message, size_t *ret)
{
    size_t length = protobuf_c_message_get_packed_size(message);
    if (length > etcd->packed_room) {
        uint8_t *grown = hf__realloc(etcd->packed, length + PACKED_MORE);
        if (!grown)
            return false;
        etcd->packed = grown;
        etcd->packed_room = length + PACKED_MORE;
    }
    *ret = protobuf_c_message_pack(message, etcd->packed);
    return true;
}

bool hf__etcd_send(struct etcd *etcd, struct hf_grpc_call *call, const ProtobufCMessage *message,
                   bool last)
{
    size_t length = 0;
    if (pack(etcd, message, &length) && hf__grpc_send(call, etcd->packed, length, last))
        return true;
    hf__peer_break(&etcd->peer, HF_ENOMEM, 0, "out of memory for a request");
    return false;
}

void hf__etcd_leave_member(struct etcd *etcd, const char *why)
{
    etcd->wrong_member = etcd->settings.servers.count > 1;
    hf__peer_break(&etcd->peer, HF_UNREACHABLE, 0, "%s", why);
}

void hf__etcd_stream_ended(struct etcd *etcd, const struct hf_grpc_call *call, const char *what)
{
    if (hf__etcd_reply_of(call).word == ETCD_ELSEWHERE)
        etcd->wrong_member = etcd->settings.servers.count > 1;
    hf__peer_break(&etcd->peer, HF_UNREACHABLE, call->status, "its stream of %s has ended: %s",
                   what, *call->text ? call->text : "no reason given");
}

/* ---- the handshake ---- */

static bool connection_place(struct hf_peer *peer, struct hf_peer_try *ret)
{
    ret->place = of_peer(peer)->settings.servers.places[peer->place_at];
    return true;
}

static void connection_greet(struct hf_peer *peer)
{
    struct etcd *etcd = of_peer(peer);
    const struct hf_stream_place *to = &etcd->settings.servers.places[peer->place_at];
    char authority[280];
    etcd->heard = etcd->wrong_member = false;
    etcd->grpc.token = NULL;
    etcd->grpc.tls = etcd->settings.servers.tls != NULL;
    hf__url_write_place(authority, sizeof authority, to->host, to->port);
    if (!hf__grpc_open(&etcd->grpc, authority))
        hf__peer_break(peer, HF_ENOMEM, 0, "out of memory for a connection");
}

static void let_in(struct etcd *etcd)
{
    if (hf__etcd_streams_max(etcd) < ETCD_STREAMS_MIN && etcd->traffic->needs_streams(etcd)) {
        hf__peer_break(&etcd->peer, HF_ELIMIT, 0,
                       "it serves %u calls of a client at a time, and a lock needs %u; raise its "
                       "option " ETCD_STREAMS_OPTION,
                       hf__etcd_streams_max(etcd), ETCD_STREAMS_MIN);
        return;
    }
    /* A connection is good once a call was answered: until then its pauses grow. */
    unsigned failures = etcd->peer.failures;
    hf__peer_ready(&etcd->peer);
    etcd->peer.failures = failures;
    etcd->traffic->begins(etcd);
}

static void token_message(struct hf_grpc_call *call, const uint8_t *bytes, size_t length)
{
    struct etcd *etcd = HF_CONTAINER(call, struct etcd, authenticate);
    const HfEtcd__AuthenticateResponse *reply =
        hf__etcd_read(&etcd->arena, &hf_etcd__authenticate_response__descriptor, bytes, length);
    size_t size = reply && reply->token ? strlen(reply->token) : 0;
    char *token = size > 0 && size <= TOKEN_MAX ? hf__calloc(1, size + 1) : NULL;
    if (token)
        memcpy(token, reply->token, size);
    free(etcd->token);
    etcd->grpc.token = etcd->token = token;
}

static void token_ended(struct hf_grpc_call *call)
{
    struct etcd *etcd = HF_CONTAINER(call, struct etcd, authenticate);
    struct etcd_reply reply = hf__etcd_reply_of(call);
    if (call->status == HF_GRPC_OK && etcd->token) {
        etcd->tokens++;
        if (hf__peer_is_ready(&etcd->peer))
            etcd->traffic->has_new_token(etcd);
        else
            let_in(etcd);
        return;
    }
    if (call->status == HF_GRPC_OK) {
        hf__peer_break(&etcd->peer, HF_DENIED, 0,
                       "its token for the user is not one of 1 to %u bytes", TOKEN_MAX);
        return;
    }
    hf_error *error = NULL;
    int code = hf__etcd_explain(etcd, &reply, &error);
    const char *text = error ? strstr(error->text, ": ") : NULL;
    hf__peer_break(&etcd->peer, code, call->status, "%s",
                   text ? text + 2 : "it does not let us in");
    free(error);
}

static void authenticate(struct etcd *etcd)
{
    static const struct hf_grpc_events events = { token_message, token_ended };
    HfEtcd__AuthenticateRequest message;
    hf_etcd__authenticate_request__init(&message);
    message.name = (char *)(uintptr_t)etcd->settings.servers.user;
    message.password = (char *)(uintptr_t)etcd->settings.servers.password;
    etcd->authenticate.events = &events;
    if (hf__etcd_begin_call(etcd, &etcd->authenticate, "/etcdserverpb.Auth/Authenticate",
                            etcd->settings.timeout_ms, true))
        hf__etcd_send(etcd, &etcd->authenticate, &message.base, true);
}

void hf__etcd_renew_token(struct etcd *etcd, unsigned token)
{
    if (token == etcd->tokens && hf__etcd_can_send(etcd))
        authenticate(etcd);
}

/* Its first words show that it speaks HTTP/2. */
static void bytes(struct hf_peer *peer, const char *bytes, size_t length)
{
    struct etcd *etcd = of_peer(peer);
    if (!hf__grpc_feed(&etcd->grpc, bytes, length)) {
        hf__peer_break(peer, HF_UNREACHABLE, 0, "%s", hf__h2_why(etcd->grpc.h2));
        return;
    }
    if (etcd->heard || peer->failing)
        return;
    etcd->heard = true;
    if (etcd->settings.servers.user)
        authenticate(etcd);
    else
        let_in(etcd);
}

/* ---- the end of a connection ---- */

static void forget_connection(struct etcd *etcd)
{
    hf__link_remove(&etcd->flush.link);
    hf__grpc_call_drop(&etcd->authenticate);
    etcd->traffic->ends(etcd);
}

static void connection_failed(struct hf_peer *peer, enum hf_peer_state was)
{
    struct etcd *etcd = of_peer(peer);
    snprintf(etcd->why, sizeof etcd->why, "%s", peer->why.text);
    etcd->why_code = peer->why.code;
    forget_connection(etcd);
    /* That a connection has ended says nothing about the servers, which had let us in. */
    etcd->traffic->leave_unanswered(etcd, was != HF_PEER_READY && hf__peer_round_is_over(peer));
    hf__grpc_close(&etcd->grpc);
}

static bool connection_needed(struct hf_peer *peer)
{
    return of_peer(peer)->traffic->is_wanted(of_peer(peer));
}

static int64_t connection_oldest(struct hf_peer *peer)
{
    return of_peer(peer)->traffic->oldest(of_peer(peer));
}

/* ---- opening and closing ---- */

static int64_t silence_of(const struct etcd *etcd)
{
    int64_t most_ms = etcd->settings.timeout_ms;
    int64_t share_ms = etcd->base.host->lease_ms / SILENCE_PARTS / etcd->settings.servers.count;
    if (etcd->settings.servers.count == 1)
        return most_ms;
    if (share_ms < SILENCE_MIN_MS)
        share_ms = SILENCE_MIN_MS;
    return share_ms < most_ms ? share_ms : most_ms;
}

void hf__etcd_connection_open(struct etcd *etcd, const struct etcd_traffic *traffic)
{
    static const struct hf_peer_callbacks callbacks = {
        .place = connection_place,
        .greet = connection_greet,
        .bytes = bytes,
        .failed = connection_failed,
        .needed = connection_needed,
        .oldest = connection_oldest,
    };
    const struct hf_peer_config config = {
        .host = etcd->base.host,
        .callbacks = &callbacks,
        .store = "etcd",
        .shown = etcd->settings.servers.shown,
        .place_count = etcd->settings.servers.count,
        .timeout_ms = etcd->settings.timeout_ms,
    };
    etcd->traffic = traffic;
    hf__peer_init(&etcd->peer, &config);
    etcd->peer.silence_ms = silence_of(etcd);
    etcd->grpc.loop = hf__etcd_loop(etcd);
    etcd->grpc.has_bytes = has_bytes;
    etcd->grpc.draining = draining;
    etcd->grpc.arg = etcd;
    hf__task_init(&etcd->flush, flush);
}

void hf__etcd_connection_close(struct etcd *etcd)
{
    forget_connection(etcd);
    hf__peer_close(&etcd->peer);
}
