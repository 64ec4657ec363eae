/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that come back by themselves: tries, limits, failures, back-off. */
#include "peer.h"

#include "base/error.h"
#include "base/rand.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

/* One round over several addresses: less than the time-out of a caller, so that a server behind one
 * without a reply is still reached. Each round without success doubles it. */
#define ROUND_MS 4000
#define TRY_MIN_MS 250
#define DOUBLINGS_MAX 6u
/* A shorter silence says nothing of a server: the request may have left just before its caller's
 * wait was over, behind others or after connecting. */
#define TOLD_MS 1000

static struct hf_loop *peer_loop_of(const struct hf_peer *peer)
{
    return peer->config.host->loop;
}

static int64_t now(const struct hf_peer *peer)
{
    return hf__loop_now(peer_loop_of(peer));
}

/* ---- failing ---- */

static void drop_stream(struct hf_peer *peer)
{
    if (peer->stream)
        hf__stream_close(peer->stream);
    peer->stream = NULL;
    if (peer->dialed)
        peer->config.callbacks->hang_up(peer);
    peer->dialed = false;
    peer->failing = false;
    peer->state = HF_PEER_DOWN; /* mutant: connection-that-was-closed */
    hf__timer_stop(peer_loop_of(peer), &peer->limit);
    hf__timer_stop(peer_loop_of(peer), &peer->silence);
}

bool hf__peer_round_is_over(const struct hf_peer *peer)
{
    return peer->failures % peer->config.place_count == 0;
}

/* `why` is set. */
static void peer_fail(struct hf_peer *peer)
{
    enum hf_peer_state was = peer->state;
    drop_stream(peer);
    peer->failures++;
    /* mutant: address-that-has-failed */
    peer->place_at = (peer->place_at + 1) % peer->config.place_count;
    /* Within a round the next address follows almost at once. */
    unsigned rounds = peer->failures / peer->config.place_count;
    /* mutant: pause-after-round */
    int64_t pause_ms = hf__backoff_ms(hf__peer_round_is_over(peer) ? rounds - 1 : 0);
    /* mutant: server-that-is-down-is-tried */
    hf__timer_start(peer_loop_of(peer), &peer->pause, now(peer) + pause_ms);
    peer->config.callbacks->failed(peer, was);
}

void hf__peer_break(struct hf_peer *peer, int code, int native, const char *format, ...)
{
    char what[240];
    va_list arguments;
    if (peer->failing || peer->state == HF_PEER_DOWN) /* mutant: bytes-are-read */
        return;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    hf__error_set(&peer->why, code, native, "%s at %.100s: %s", peer->config.store,
                  peer->config.shown, what);
    peer->failing = true;
    peer->cut = false;
    hf__timer_start(peer_loop_of(peer), &peer->limit, now(peer));
}

static void peer_limit_fired(struct hf_timer *timer)
{
    struct hf_peer *peer = HF_CONTAINER(timer, struct hf_peer, limit);
    if (peer->failing)
        peer_fail(peer);
    else
        hf__peer_break(peer, HF_UNREACHABLE, 0, "it accepts the connection and does not answer");
}

/* ---- silence ---- */

static int64_t oldest_of(struct hf_peer *peer)
{
    return peer->config.callbacks->oldest ? peer->config.callbacks->oldest(peer) : HF_NEVER;
}

void hf__peer_await(struct hf_peer *peer)
{
    if (!peer->silence.started)
        hf__timer_start(peer_loop_of(peer), &peer->silence, now(peer) + peer->silence_ms);
}

static void silence_fired(struct hf_timer *timer)
{
    struct hf_peer *peer = HF_CONTAINER(timer, struct hf_peer, silence);
    int64_t oldest_ms = oldest_of(peer);
    if (oldest_ms == HF_NEVER)
        return;
    if (now(peer) < oldest_ms + peer->silence_ms) /* mutant: silent-server-is-waited */
        hf__timer_start(peer_loop_of(peer), &peer->silence, oldest_ms + peer->silence_ms);
    else
        hf__peer_break(peer, HF_UNREACHABLE, 0, "no answer for %lld ms",
                       (long long)(now(peer) - oldest_ms));
}

void hf__peer_why_silent(struct hf_peer *peer, hf_error **error)
{
    char text[280];
    const char *store = peer->config.store, *shown = peer->config.shown;
    /* With several addresses the sentence names the one that is tried. */
    if (peer->config.place_count > 1 && peer->place.host) {
        hf__url_write_place(text, sizeof text, peer->place.host, peer->place.port);
        shown = text;
    }
    int64_t oldest_ms = oldest_of(peer);
    bool asked = peer->state == HF_PEER_READY && oldest_ms != HF_NEVER;
    if (asked && now(peer) - oldest_ms < TOLD_MS)
        hf__explain(error, HF_UNREACHABLE, 0, "%s at %.200s: no answer in time", store, shown);
    else if (asked)
        hf__explain(error, HF_UNREACHABLE, 0, "%s at %.200s: no answer for %lld ms", store, shown,
                    (long long)(now(peer) - oldest_ms));
    else if (peer->state != HF_PEER_READY && peer->why.code != HF_OK)
        hf__explain(error, HF_UNREACHABLE, peer->why.native, "%s", peer->why.text);
    else if (peer->state == HF_PEER_FINDING || peer->state == HF_PEER_CONNECTING)
        hf__explain(error, HF_UNREACHABLE, 0, "%s at %.200s: no connection in time", store, shown);
    else if (peer->state == HF_PEER_GREETING)
        hf__explain(error, HF_UNREACHABLE, 0,
                    "%s at %.200s: it accepts the connection and does not answer", store, shown);
}

/* ---- opening ---- */

void hf__peer_connected(struct hf_peer *peer)
{
    if (peer->state != HF_PEER_CONNECTING || peer->failing)
        return;
    peer->state = HF_PEER_GREETING;
    peer->config.callbacks->greet(peer);
}

static void opened(void *arg)
{
    hf__peer_connected(arg);
}

static void received(void *arg, const char *bytes, size_t length)
{
    struct hf_peer *peer = arg;
    if (!peer->failing)
        peer->config.callbacks->bytes(peer, bytes, length);
}

static void peer_broken(void *arg, int code, int native, const char *why)
{
    struct hf_peer *peer = arg;
    bool connected = peer->state != HF_PEER_CONNECTING;
    peer->stream = NULL;
    if (!peer->failing)
        hf__error_set(&peer->why, code, native, "%s at %.100s: %s%s", peer->config.store,
                      peer->config.shown, connected ? "" : "cannot connect: ", why);
    peer->cut = !peer->failing;
    peer_fail(peer);
}

static int64_t try_limit(const struct hf_peer *peer)
{
    unsigned count = peer->config.place_count, rounds = peer->failures / count;
    int64_t share_ms = ROUND_MS / (int64_t)count;
    if (count == 1)
        return peer->config.timeout_ms;
    if (share_ms < TRY_MIN_MS)
        share_ms = TRY_MIN_MS;
    share_ms <<= rounds < DOUBLINGS_MAX ? rounds : DOUBLINGS_MAX;
    return share_ms < peer->config.timeout_ms ? share_ms : peer->config.timeout_ms;
}

void hf__peer_go(struct hf_peer *peer, const struct hf_peer_try *attempt)
{
    static const struct hf_stream_events events = { opened, received, peer_broken };
    const struct hf_host *host = peer->config.host;
    if (peer->state != HF_PEER_FINDING || peer->failing)
        return;
    peer->state = HF_PEER_CONNECTING;
    peer->place = attempt->place;
    peer->place.route = &peer->route;
    if (peer->place.limit_ms == 0)
        peer->place.limit_ms = attempt->limit_ms - attempt->limit_ms / 8;
    if (attempt->limit_ms > 0) /* mutant: handshake-has-all-time */
        hf__timer_start(host->loop, &peer->limit, now(peer) + attempt->limit_ms);
    if (peer->config.callbacks->dial)
        peer->dialed = peer->config.callbacks->dial(peer, attempt);
    else
        peer->stream = hf__stream_open(host->uv, host->loop, &peer->place, &events, peer);
    if (!peer->stream && !peer->dialed)
        hf__peer_break(peer, HF_ENOMEM, 0, "out of memory for a connection");
}

void hf__peer_want(struct hf_peer *peer)
{
    struct hf_peer_try attempt = { .limit_ms = try_limit(peer) };
    if (peer->state != HF_PEER_DOWN || peer->pause.started || peer->closed)
        return;
    peer->state = HF_PEER_FINDING;
    if (peer->config.callbacks->place(peer, &attempt))
        hf__peer_go(peer, &attempt);
}

static void pause_fired(struct hf_timer *timer)
{
    struct hf_peer *peer = HF_CONTAINER(timer, struct hf_peer, pause);
    const struct hf_peer_callbacks *callbacks = peer->config.callbacks;
    if (callbacks->needed && callbacks->needed(peer))
        hf__peer_want(peer);
}

void hf__peer_end_pause(struct hf_peer *peer)
{
    hf__timer_stop(peer_loop_of(peer), &peer->pause);
}

void hf__peer_ready(struct hf_peer *peer)
{
    if (peer->state != HF_PEER_GREETING || peer->failing)
        return;
    peer->state = HF_PEER_READY;
    peer->failures = 0; /* mutant: new-connection-is-failure */
    if (peer->openings++ && peer->config.host->reconnects)
        atomic_fetch_add_explicit(peer->config.host->reconnects, 1, memory_order_relaxed);
    hf__timer_stop(peer_loop_of(peer), &peer->limit);
}

bool hf__peer_write(struct hf_peer *peer, const char *bytes, size_t length)
{
    if (peer->stream && hf__stream_write(peer->stream, bytes, length))
        return true;
    hf__peer_break(peer, HF_ENOMEM, 0, "out of memory for a request");
    return false;
}

/* ---- beginning and ending ---- */

void hf__peer_init(struct hf_peer *peer, const struct hf_peer_config *config)
{
    peer->config = *config;
    peer->silence_ms = config->timeout_ms;
    hf__timer_init(&peer->pause, pause_fired);
    hf__timer_init(&peer->limit, peer_limit_fired);
    hf__timer_init(&peer->silence, silence_fired);
}

void hf__peer_reconnect(struct hf_peer *peer)
{
    drop_stream(peer);
    if (!peer->closed)
        hf__timer_start(peer_loop_of(peer), &peer->pause, now(peer));
}

void hf__peer_close(struct hf_peer *peer)
{
    drop_stream(peer);
    hf__timer_stop(peer_loop_of(peer), &peer->pause);
    hf__route_end(&peer->route);
    peer->closed = true;
}

void hf__peer_forked(struct hf_peer *peer)
{
    if (peer->stream)
        hf__stream_forked(peer->stream);
}
