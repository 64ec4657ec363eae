/* SPDX-License-Identifier: Apache-2.0 */
/* Heartbeats: one stream for the leases. The server replies in the order of the questions, so a
 * reply belongs to the oldest heartbeat of its lease that has none. */
#include "engines/etcd/etcd.h"

#include <string.h>

static struct etcd *of_call(struct hf_grpc_call *call)
{
    return HF_CONTAINER(call, struct etcd, beats);
}

/* NULL: it was lost. */
static struct etcd_session *session_of(const struct etcd *etcd, int64_t id)
{
    HF_LIST_FOREACH (link, following, &etcd->living)
        if (HF_CONTAINER(link, struct etcd_session, link)->id == id)
            return HF_CONTAINER(link, struct etcd_session, link);
    return NULL;
}

/* When the heartbeat left that this is the reply to. False: none is out. */
static bool take_beat(struct etcd_session *session, int64_t *ret_sent_ms)
{
    if (session->beat_count == 0)
        return false;
    *ret_sent_ms = session->beats[0];
    session->beat_count--;
    memmove(session->beats, session->beats + 1, session->beat_count * sizeof *session->beats);
    return true;
}

static void message(struct hf_grpc_call *call, const uint8_t *bytes, size_t length)
{
    struct etcd *etcd = of_call(call);
    int64_t sent_at_ms;
    const HfEtcd__LeaseKeepAliveResponse *reply =
        hf__etcd_read(&etcd->arena, &hf_etcd__lease_keep_alive_response__descriptor, bytes, length);
    if (!reply) {
        hf__peer_break(&etcd->peer, HF_ECORRUPT, 0, "its reply cannot be read");
        return;
    }
    etcd->peer.failures = 0;
    struct etcd_session *session = session_of(etcd, reply->id);
    if (!session || !take_beat(session, &sent_at_ms))
        return;
    if (reply->ttl > 0)
        hf__etcd_session_confirm(etcd, session, sent_at_ms, reply->ttl * 1000);
    else
        hf__etcd_session_lose(etcd, session, true);
}

static void ended(struct hf_grpc_call *call)
{
    hf__etcd_stream_ended(of_call(call), call, "heartbeats");
}

void hf__etcd_beat(struct etcd *etcd, struct etcd_session *session)
{
    static const struct hf_grpc_events events = { message, ended };
    HfEtcd__LeaseKeepAliveRequest request;
    hf_etcd__lease_keep_alive_request__init(&request);
    if (!hf__peer_is_ready(&etcd->peer)) {
        hf__peer_want(&etcd->peer);
        return;
    }
    if (session->beat_count == ETCD_BEATS_MAX)
        return;
    etcd->beats.events = &events;
    etcd->beats.streaming = true;
    if (!etcd->beats.channel &&
        !hf__etcd_begin_call(etcd, &etcd->beats, "/etcdserverpb.Lease/LeaseKeepAlive", 0, true))
        return;
    request.id = session->id;
    if (!hf__etcd_send(etcd, &etcd->beats, &request.base, false))
        return;
    session->beats[session->beat_count++] = hf__etcd_now(etcd);
    hf__peer_await(&etcd->peer);
}

static bool is_wanted(const struct etcd_session *session)
{
    return session->state == ETCD_SESSION_ALIVE &&
           (session->lease.watched || !hf__list_empty(&session->waiting) ||
            !hf__list_empty(&session->changes));
}

bool hf__etcd_beats_are_wanted(const struct etcd *etcd)
{
    HF_LIST_FOREACH (link, following, &etcd->living)
        if (is_wanted(HF_CONTAINER(link, struct etcd_session, link)))
            return true;
    return false;
}

bool hf__etcd_needs_streams(const struct etcd *etcd)
{
    HF_LIST_FOREACH (link, following, &etcd->living)
        if (HF_CONTAINER(link, struct etcd_session, link)->granting)
            return true;
    return hf__etcd_beats_are_wanted(etcd) || hf__etcd_watches_any(etcd);
}

void hf__etcd_beat_again(struct etcd *etcd)
{
    HF_LIST_FOREACH (link, following, &etcd->living) {
        struct etcd_session *session = HF_CONTAINER(link, struct etcd_session, link);
        if (is_wanted(session))
            hf__etcd_beat(etcd, session);
    }
}

int64_t hf__etcd_oldest_beat(const struct etcd *etcd)
{
    int64_t oldest_ms = HF_NEVER;
    HF_LIST_FOREACH (link, following, &etcd->living) {
        const struct etcd_session *session = HF_CONTAINER(link, struct etcd_session, link);
        if (session->beat_count > 0 && session->beats[0] < oldest_ms)
            oldest_ms = session->beats[0];
    }
    return oldest_ms;
}

/* What waits for one hears that it does not come. */
void hf__etcd_beats_forget(struct etcd *etcd)
{
    const struct etcd_reply reply = { .status = HF_GRPC_UNAVAILABLE,
                                      .word = ETCD_UNSENT,
                                      .text = etcd->why };
    HF_LIST_FOREACH (link, following, &etcd->living)
        HF_CONTAINER(link, struct etcd_session, link)->beat_count = 0;
    hf__etcd_session_fail(etcd, NULL, &reply);
}
