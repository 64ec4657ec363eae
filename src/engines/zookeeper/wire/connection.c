/* SPDX-License-Identifier: Apache-2.0 */
/* A connection that comes back by itself, to one server or another, for as long as there is a
 * session to keep or a request to send: opening it, giving it up, pausing, and closing it. */
#include "connection.h"

#include "base/error.h"
#include "base/rand.h"

#include <stdarg.h>
#include <stdio.h>

/* For a connection, with TLS perhaps, and a greeting, while nothing rests on the session: what one
 * round of several servers takes, which is less than a caller's patience, and the least for one.
 * Who needs longer gets twice as long in the next round. */
#define ROUND_MS 4000
#define OPENING_MIN_MS 250
#define OPENING_DOUBLINGS 6u
#define GOODBYE_MS 1000

/* ---- ending ---- */

void hf__zk_connection_drop(struct zookeeper *zk)
{
    if (zk->stream)
        hf__stream_close(zk->stream);
    zk->stream = NULL;
    hf__zk_frames_free(&zk->frames);
    zk->failing = zk->beating = false;
    hf__timer_stop(hf__zk_loop(zk), &zk->limit);
    hf__timer_stop(hf__zk_loop(zk), &zk->tick);
    if (zk->greeted)
        hf__zk_session_drop(zk->greeted);
    zk->greeted = NULL;
    zk->state = ZK_DOWN;
}

/* One server after another at once, then a pause, which is not everybody else's. */
static bool round_is_over(const struct zookeeper *zk)
{
    return zk->failures % zk->settings->place_count == 0;
}

static void begin_pause(struct zookeeper *zk)
{
    unsigned rounds = zk->failures / zk->settings->place_count;
    int64_t pause_ms = hf__backoff_ms(round_is_over(zk) ? rounds : 0);
    hf__timer_start(hf__zk_loop(zk), &zk->pause, hf__zk_now(zk) + pause_ms);
}

/* `why` is set. */
static void fail(struct zookeeper *zk)
{
    bool let_in = zk->state == ZK_READY;
    hf__zk_connection_drop(zk);
    if (zk->closing) {
        hf__zk_connection_closed(zk);
        return;
    }
    zk->failures++;
    zk->place_at = (zk->place_at + 1) % zk->settings->place_count;
    begin_pause(zk);
    /* What is asked anew meanwhile is for the next connection. */
    struct hf_link unanswered, *link;
    hf__link_init(&unanswered);
    while ((link = hf__list_pop(&zk->out)))
        hf__list_append(&unanswered, link);
    /* A connection that ends says nothing about the servers, who let it in. */
    while (!let_in && round_is_over(zk) && (link = hf__list_pop(&zk->waiting)))
        hf__list_append(&unanswered, link);
    hf__zk_leave_unanswered(zk, &unanswered);
}

/* The failure is told when whoever finds it has returned. */
void hf__zk_connection_break(struct zookeeper *zk, int code, int native, const char *format, ...)
{
    char what[240];
    va_list arguments;
    if (zk->failing || zk->state == ZK_DOWN)
        return;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    hf__error_set(&zk->why, code, native, "ZooKeeper at %.100s: %s", zk->settings->shown, what);
    zk->failing = true;
    hf__timer_start(hf__zk_loop(zk), &zk->limit, hf__zk_now(zk));
}

static void limit_fired(struct hf_timer *timer)
{
    struct zookeeper *zk = HF_CONTAINER(timer, struct zookeeper, limit);
    if (zk->failing || zk->closing)
        fail(zk);
    else
        hf__zk_connection_break(zk, HF_UNREACHABLE, 0, "it does not let us in");
}

/* ---- opening ---- */

static void received(void *arg, const char *bytes, size_t length)
{
    struct zookeeper *zk = arg;
    struct zk_reader frame;
    int there = zk->failing || hf__zk_frames_add(&zk->frames, bytes, length) ? 1 : 0;
    if (there == 0)
        hf__zk_connection_break(zk, HF_ENOMEM, 0, "out of memory for an answer");
    while (zk->stream && !zk->failing && (there = hf__zk_frames_next(&zk->frames, &frame)) > 0) {
        if (zk->state == ZK_GREETING)
            hf__zk_greeted(zk, &frame);
        else
            hf__zk_take_frame(zk, &frame);
    }
    if (there < 0)
        hf__zk_connection_break(zk, HF_ECORRUPT, 0, "what it says cannot be read");
}

static void opened(void *arg)
{
    hf__zk_greet(arg);
}

static void broken(void *arg, int code, int native, const char *why)
{
    struct zookeeper *zk = arg;
    bool was_open = zk->state != ZK_OPENING;
    zk->stream = NULL;
    if (!zk->failing)
        hf__error_set(&zk->why, code, native, "ZooKeeper at %.100s: %s%s", zk->settings->shown,
                      was_open ? "" : "cannot connect: ", why);
    fail(zk);
}

/* No server gets so long that there is no time for the next, before a caller has lost patience. */
static int64_t opening_limit(const struct zookeeper *zk)
{
    unsigned places = zk->settings->place_count, rounds = zk->failures / places;
    int64_t share_ms = hf__zk_at_least(ROUND_MS / (int64_t)places, OPENING_MIN_MS);
    return places == 1 ? INT64_MAX
                       : share_ms << (rounds < OPENING_DOUBLINGS ? rounds : OPENING_DOUBLINGS);
}

/* Nor before what rests on the session is lost. */
static int64_t limit_of(const struct zookeeper *zk, const struct zk_session *session)
{
    int64_t places = (int64_t)zk->settings->place_count;
    int64_t limit_ms =
        session->id != 0 && session->state == ZK_SESSION_ALIVE
            ? hf__zk_at_least(hf__zk_patience_ms(session->timeout_ms) / places, ZK_SILENCE_MIN_MS)
            : opening_limit(zk);
    return limit_ms < zk->settings->timeout_ms ? limit_ms : zk->settings->timeout_ms;
}

static void open_stream(struct zookeeper *zk, struct zk_session *session)
{
    static const struct hf_stream_events events = { opened, received, broken };
    const struct hf_host *host = zk->base.host;
    struct hf_stream_place place = zk->settings->places[zk->place_at];
    place.route = &zk->route;
    zk->greeted = hf__zk_session_use(session);
    zk->state = ZK_OPENING;
    int64_t limit_ms = limit_of(zk, session);
    place.limit_ms = limit_ms - limit_ms / 8; /* whoever cannot be reached is told as that */
    hf__timer_start(host->loop, &zk->limit, hf__zk_now(zk) + limit_ms);
    zk->stream = hf__stream_open(host->uv, host->loop, &place, &events, zk);
    if (!zk->stream)
        hf__zk_connection_break(zk, HF_ENOMEM, 0, "out of memory for a connection");
}

void hf__zk_connection_want(struct zookeeper *zk)
{
    struct zk_session *session = hf__zk_session_wanted(zk);
    if (session && zk->state == ZK_DOWN && !zk->pause.started && !zk->closing)
        open_stream(zk, session);
}

static void pause_over(struct hf_timer *timer)
{
    hf__zk_connection_want(HF_CONTAINER(timer, struct zookeeper, pause));
}

void hf__zk_connection_open(struct zookeeper *zk)
{
    hf__zk_request_io_open(zk);
    hf__timer_init(&zk->pause, pause_over);
    hf__timer_init(&zk->tick, hf__zk_heartbeat_due);
    hf__timer_init(&zk->limit, limit_fired);
}

/* ---- closing ---- */

/* With a goodbye, if a server listens: what is left of us goes at once. */
void hf__zk_connection_close(struct zookeeper *zk)
{
    hf__timer_stop(hf__zk_loop(zk), &zk->pause);
    hf__zk_silence(zk);
    bool said = hf__zk_close_session_now(zk);
    zk->closing = true;
    hf__timer_start(hf__zk_loop(zk), &zk->limit, hf__zk_now(zk) + (said ? GOODBYE_MS : 0));
}
