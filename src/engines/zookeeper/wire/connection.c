/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to one server or another, for as long as there is a session to keep or a request
 * to send: its limits, what its end means, and closing it. */
#include "connection.h"

#define GOODBYE_MS 1000

static struct zookeeper *zk_of(struct hf_peer *peer)
{
    return HF_CONTAINER(peer, struct zookeeper, peer);
}

/* ---- opening ---- */

/* A server that has accepted the session before has a share of the time after which what rests on
 * the session is lost. */
static bool connection_place(struct hf_peer *peer, struct hf_peer_try *ret)
{
    struct zookeeper *zk = zk_of(peer);
    struct zk_session *session = zk->traffic->wanted(zk);
    ret->place = zk->settings->servers.places[peer->place_at];
    zk->greeted = hf__zk_session_use(session);
    if (session->id == 0 || session->state != ZK_SESSION_ALIVE)
        return true;
    int64_t share_ms =
        hf__zk_patience_ms(session->timeout_ms) / (int64_t)zk->settings->servers.count;
    share_ms = hf__zk_at_least(share_ms, ZK_SILENCE_MIN_MS);
    ret->limit_ms = share_ms < zk->settings->timeout_ms ? share_ms : zk->settings->timeout_ms;
    return true;
}

static bool connection_needed(struct hf_peer *peer)
{
    struct zookeeper *zk = zk_of(peer);
    return !zk->closing && zk->traffic->wanted(zk);
}

static void connection_greet(struct hf_peer *peer)
{
    hf__zk_greet(zk_of(peer));
}

static void take_bytes(struct hf_peer *peer, const char *bytes, size_t length)
{
    struct zookeeper *zk = zk_of(peer);
    struct zk_reader frame;
    int there = 0;
    if (!hf__zk_frames_add(&zk->frames, bytes, length))
        hf__peer_break(peer, HF_ENOMEM, 0, "out of memory for an answer");
    while (hf__peer_can_read(peer) && (there = hf__zk_frames_next(&zk->frames, &frame)) > 0) {
        if (peer->state == HF_PEER_GREETING)
            hf__zk_greeted(zk, &frame);
        else
            hf__zk_take_frame(zk, &frame);
    }
    if (there < 0)
        hf__peer_break(peer, HF_ECORRUPT, 0, "what it says cannot be read");
}

/* ---- ending ---- */

static void connection_failed(struct hf_peer *peer, enum hf_peer_state was)
{
    struct zookeeper *zk = zk_of(peer);
    hf__zk_forget_greeting(zk);
    /* A connection that ends says nothing about the servers, which have let it in. */
    if (zk->closing)
        zk->traffic->closed(zk);
    else
        hf__pipeline_fail(&zk->pipeline, was != HF_PEER_READY && hf__peer_round_is_over(peer));
}

static void goodbye_over(struct hf_timer *timer)
{
    struct zookeeper *zk = HF_CONTAINER(timer, struct zookeeper, goodbye);
    zk->traffic->closed(zk);
}

/* With a goodbye, if a server listens: what is left of us goes at once. */
void hf__zk_connection_close(struct zookeeper *zk)
{
    bool said = hf__zk_close_session_now(zk);
    zk->closing = true;
    hf__timer_start(hf__zk_loop(zk), &zk->goodbye, hf__zk_now(zk) + (said ? GOODBYE_MS : 0));
}

void hf__zk_connection_end(struct zookeeper *zk)
{
    hf__peer_close(&zk->peer);
    hf__zk_forget_greeting(zk);
    hf__timer_stop(hf__zk_loop(zk), &zk->goodbye);
    hf__zk_request_io_close(zk);
}

/* ---- beginning ---- */

static int64_t connection_oldest(struct hf_peer *peer)
{
    return hf__pipeline_oldest_ms(&zk_of(peer)->pipeline);
}

void hf__zk_connection_open(struct zookeeper *zk, const struct zk_traffic *traffic)
{
    static const struct hf_peer_callbacks callbacks = { connection_place,  connection_greet,
                                                        take_bytes,        connection_failed,
                                                        connection_needed, connection_oldest };
    zk->traffic = traffic;
    hf__peer_init(&zk->peer, &(struct hf_peer_config){ .host = zk->base.host,
                                                       .callbacks = &callbacks,
                                                       .store = "ZooKeeper",
                                                       .shown = zk->settings->servers.shown,
                                                       .place_count = zk->settings->servers.count,
                                                       .timeout_ms = zk->settings->timeout_ms });
    hf__zk_request_io_open(zk);
    hf__timer_init(&zk->tick, hf__zk_heartbeat_due);
    hf__timer_init(&zk->goodbye, goodbye_over);
}
