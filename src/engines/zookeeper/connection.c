/* A connection that comes back by itself, to one server or another, for as long as there is a
 * session to keep or a request to send. It asks the servers something all the time, so that silence
 * means something, and gives a server up that has been silent for a quarter of the session's time.
 */
#include "zookeeper.h"

#include "base/error.h"
#include "base/rand.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAUSE_FIRST_MS 20
#define PAUSE_DOUBLINGS 6u
/* A server may forget to answer until it is asked something else (ZOOKEEPER-4537). */
#define NUDGE_MS 300
#define TICK_LEAST_MS 10
#define SILENCE_LEAST_MS 50
/* For a connection, with TLS perhaps, and a greeting, while nothing rests on the session: what one
 * round of several servers takes, which is less than a caller's patience, and the least for one.
 * Who needs longer gets twice as long in the next round. */
#define ROUND_MS 4000
#define OPENING_LEAST_MS 250
#define GOODBYE_MS 1000

static int64_t now_of(const struct zookeeper *zk)
{
    return hf__loop_now(hf__zk_loop(zk));
}

/* ---- ending ---- */

static void drop_stream(struct zookeeper *zk)
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

static void recycle(struct zookeeper *zk, struct zk_request *request)
{
    if (hf__link_linked(&request->link))
        return;
    if (request->of_place)
        hf__zk_place_drop(request->place);
    hf__zk_session_drop(request->session);
    request->session = NULL;
    hf__list_append(&zk->free_requests, &request->link);
}

static void answer(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    request->answered(zk, request, reply);
    recycle(zk, request);
}

static void leave_unanswered(struct zookeeper *zk, struct hf_link *requests)
{
    struct hf_link unanswered, *link;
    hf__link_init(&unanswered);
    /* What is asked anew meanwhile belongs to the next connection. */
    while ((link = hf__list_pop(requests)))
        hf__list_append(&unanswered, link);
    while ((link = hf__list_pop(&unanswered)))
        answer(zk, HF_CONTAINER(link, struct zk_request, link), NULL);
}

/* One server after another at once, then a pause, which is not everybody else's. */
static bool round_is_over(const struct zookeeper *zk)
{
    return zk->failures % zk->settings.place_count == 0;
}

static void begin_pause(struct zookeeper *zk)
{
    unsigned rounds = zk->failures / zk->settings.place_count;
    unsigned doublings = rounds < PAUSE_DOUBLINGS ? rounds : PAUSE_DOUBLINGS;
    int64_t pause_ms = round_is_over(zk) ? (int64_t)PAUSE_FIRST_MS << doublings : PAUSE_FIRST_MS;
    uint64_t salt;
    hf__random(&salt, sizeof salt);
    pause_ms = pause_ms / 2 + (int64_t)(salt % (uint64_t)pause_ms);
    hf__timer_start(hf__zk_loop(zk), &zk->pause, now_of(zk) + pause_ms);
}

/* `why` is set. */
static void fail(struct zookeeper *zk)
{
    bool let_in = zk->state == ZK_READY;
    drop_stream(zk);
    if (zk->closing) {
        hf__zk_connection_closed(zk);
        return;
    }
    zk->failures++;
    zk->place_at = (zk->place_at + 1) % zk->settings.place_count;
    begin_pause(zk);
    /* What is asked anew meanwhile is for the next connection. */
    struct hf_link unanswered, *link;
    hf__link_init(&unanswered);
    while ((link = hf__list_pop(&zk->out)))
        hf__list_append(&unanswered, link);
    /* A connection that ends says nothing about the servers, who let it in. */
    while (!let_in && round_is_over(zk) && (link = hf__list_pop(&zk->waiting)))
        hf__list_append(&unanswered, link);
    leave_unanswered(zk, &unanswered);
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
    hf__error_set(&zk->why, code, native, "ZooKeeper at %.100s: %s", zk->settings.shown, what);
    zk->failing = true;
    hf__timer_start(hf__zk_loop(zk), &zk->limit, now_of(zk));
}

static void limit_fired(struct hf_timer *timer)
{
    struct zookeeper *zk = HF_CONTAINER(timer, struct zookeeper, limit);
    if (zk->failing || zk->closing)
        fail(zk);
    else
        hf__zk_connection_break(zk, HF_UNREACHABLE, 0, "it does not let us in");
}

/* ---- sending ---- */

void hf__zk_connection_write(struct zookeeper *zk, struct zk_writer *writer)
{
    if (writer->failed || !hf__stream_write(zk->stream, writer->bytes, writer->length))
        hf__zk_connection_break(zk, HF_ENOMEM, 0, "out of memory for a request");
    writer->length = 0;
    writer->failed = false;
}

static void send(struct zookeeper *zk, struct zk_request *request)
{
    struct zk_writer *writer = &zk->out_bytes;
    request->xid = zk->last_xid = zk->last_xid == INT32_MAX ? 1 : zk->last_xid + 1;
    request->sent = true;
    request->sent_at_ms = now_of(zk);
    size_t begun = hf__zk_frame_begin(writer);
    hf__zk_write_int(writer, request->xid);
    hf__zk_write_int(writer, request->operation);
    hf__zk_write_raw(writer, &request->body);
    hf__zk_frame_end(writer, begun);
    if (hf__list_empty(&zk->out) && zk->tick.at_ms > request->sent_at_ms + NUDGE_MS)
        hf__timer_start(hf__zk_loop(zk), &zk->tick, request->sent_at_ms + NUDGE_MS);
    hf__list_append(&zk->out, &request->link);
    hf__zk_connection_write(zk, writer);
}

static bool may_send(const struct zookeeper *zk, const struct zk_request *request)
{
    return zk->state == ZK_READY && !zk->failing && !zk->closing &&
           request->session == zk->greeted && request->session->state != ZK_SESSION_ENDING;
}

void hf__zk_ask(struct zookeeper *zk, struct zk_request *request)
{
    request->sent = false;
    if (request->session->state == ZK_SESSION_OVER) {
        hf__list_append(&zk->orphans, &request->link);
        hf__loop_defer(hf__zk_loop(zk), &zk->answer_orphans);
    } else if (may_send(zk, request)) {
        send(zk, request);
    } else {
        hf__list_append(&zk->waiting, &request->link);
        hf__zk_connection_want(zk);
    }
}

void hf__zk_orphans(struct zookeeper *zk)
{
    HF_LIST_FOREACH (link, following, &zk->waiting) {
        struct zk_request *request = HF_CONTAINER(link, struct zk_request, link);
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
    leave_unanswered(zk, &zk->orphans);
}

static void send_waiting(struct zookeeper *zk)
{
    HF_LIST_FOREACH (link, following, &zk->waiting) {
        struct zk_request *request = HF_CONTAINER(link, struct zk_request, link);
        if (!may_send(zk, request))
            continue;
        hf__link_remove(link);
        send(zk, request);
    }
}

/* The servers say that the session is over: that is an answer, and no failure. */
static void begin_anew(struct zookeeper *zk)
{
    struct zk_session *session = hf__zk_session_use(zk->greeted);
    drop_stream(zk);
    leave_unanswered(zk, &zk->out);
    hf__zk_session_over(zk, session);
    hf__zk_session_drop(session);
    hf__timer_start(hf__zk_loop(zk), &zk->pause, now_of(zk));
}

static void goodbye_answered(struct zookeeper *zk, struct zk_request *request,
                             struct zk_reply *reply)
{
    (void)request;
    if (reply && zk->closing)
        hf__timer_start(hf__zk_loop(zk), &zk->limit, now_of(zk));
    else if (reply)
        begin_anew(zk);
}

void hf__zk_say_goodbye(struct zookeeper *zk)
{
    if (zk->state != ZK_READY || zk->failing || zk->greeted->state != ZK_SESSION_ENDING)
        return;
    struct zk_request *request = hf__zk_request(zk, zk->greeted, ZK_CLOSE, goodbye_answered);
    if (request)
        send(zk, request);
    else
        hf__zk_connection_break(zk, HF_ENOMEM, 0, "out of memory for a request");
}

/* ---- keeping it alive ---- */

static void beat_answered(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    (void)request, (void)reply;
    zk->beating = false;
}

/* Most servers have to agree to that one, though there is no such node: a server that is cut off
 * from the leader answers pings all the same, and a leader that is cut off from the others a
 * `sync`. */
void hf__zk_connection_beat(struct zookeeper *zk)
{
    if (zk->beating || zk->state != ZK_READY || zk->failing ||
        zk->greeted->state != ZK_SESSION_ALIVE)
        return;
    struct zk_request *request = hf__zk_request(zk, zk->greeted, ZK_DELETE, beat_answered);
    if (!request)
        return;
    hf__zk_write_text(&request->body, "/zookeeper/holdfast/beat");
    hf__zk_write_int(&request->body, -1);
    zk->beating = true;
    zk->beat_at_ms = now_of(zk);
    hf__zk_ask(zk, request);
}

static void send_ping(struct zookeeper *zk)
{
    struct zk_writer *writer = &zk->out_bytes;
    size_t begun = hf__zk_frame_begin(writer);
    hf__zk_write_int(writer, ZK_XID_PING);
    hf__zk_write_int(writer, ZK_PING);
    hf__zk_frame_end(writer, begun);
    hf__zk_connection_write(zk, writer);
}

static int64_t at_least(int64_t value, int64_t least)
{
    return value > least ? value : least;
}

/* What was written meanwhile counts as much. */
static int64_t next_beat(const struct zookeeper *zk)
{
    int64_t last_ms = at_least(zk->beat_at_ms, zk->greeted->contacts.newest_ms);
    return last_ms + at_least(hf__zk_beat_ms(zk->greeted->timeout_ms), TICK_LEAST_MS);
}

static void schedule_tick(struct zookeeper *zk)
{
    int64_t at_ms = next_beat(zk), nudge_at_ms = now_of(zk) + NUDGE_MS;
    if (!hf__list_empty(&zk->out) && nudge_at_ms < at_ms)
        at_ms = nudge_at_ms;
    hf__timer_start(hf__zk_loop(zk), &zk->tick, at_least(at_ms, now_of(zk) + TICK_LEAST_MS));
}

static void ticked(struct hf_timer *timer)
{
    struct zookeeper *zk = HF_CONTAINER(timer, struct zookeeper, tick);
    int64_t now_ms = now_of(zk);
    int64_t patience_ms = at_least(hf__zk_patience_ms(zk->greeted->timeout_ms), SILENCE_LEAST_MS);
    struct hf_link *first = hf__list_first(&zk->out);
    int64_t asked_at_ms = first ? HF_CONTAINER(first, struct zk_request, link)->sent_at_ms : now_ms;
    if (now_ms - asked_at_ms >= patience_ms) {
        hf__zk_connection_break(zk, HF_UNREACHABLE, 0, "no answer for %lld ms",
                                (long long)(now_ms - asked_at_ms));
        return;
    }
    hf__zk_session_look(zk);
    if (now_ms - asked_at_ms >= NUDGE_MS)
        send_ping(zk);
    if (now_ms >= next_beat(zk))
        hf__zk_connection_beat(zk);
    schedule_tick(zk);
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

static void take_answer(struct zookeeper *zk, struct zk_reply *reply)
{
    struct hf_link *first = hf__list_first(&zk->out);
    struct zk_request *request = first ? HF_CONTAINER(first, struct zk_request, link) : NULL;
    if (!request || request->xid != reply->xid) {
        hf__zk_connection_break(zk, HF_ECORRUPT, 0, "an answer that nobody asked for");
        return;
    }
    if (reply->error == ZK_MOVED || reply->error == ZK_EXPIRED) {
        hf__zk_connection_break(zk, HF_UNREACHABLE, 0, "the session is not here any more");
        return;
    }
    hf__link_remove(first);
    if (was_agreed_to(request, reply))
        hf__zk_session_confirm(zk, request->session, request->sent_at_ms);
    answer(zk, request, reply);
}

static void take_frame(struct zookeeper *zk, struct zk_reader *frame)
{
    struct zk_reply reply;
    struct zk_event event;
    if (!hf__zk_read_reply(frame, &reply)) {
        hf__zk_connection_break(zk, HF_ECORRUPT, 0, "its answer cannot be read");
        return;
    }
    if (reply.zxid > zk->greeted->last_zxid)
        zk->greeted->last_zxid = reply.zxid;
    if (reply.xid == ZK_XID_EVENT && hf__zk_read_event(&reply.body, &event))
        hf__zk_watch_event(zk, &event);
    else if (reply.xid == ZK_XID_AUTH && reply.error != ZK_OK)
        hf__zk_connection_break(zk, HF_DENIED, 0,
                                "it refuses the user and the password of the URL");
    else if (reply.xid >= 0)
        take_answer(zk, &reply);
}

static void greeted(struct zookeeper *zk, struct zk_reader *frame);

static void received(void *arg, const char *bytes, size_t length)
{
    struct zookeeper *zk = arg;
    struct zk_reader frame;
    int there = zk->failing || hf__zk_frames_add(&zk->frames, bytes, length) ? 1 : 0;
    if (there == 0)
        hf__zk_connection_break(zk, HF_ENOMEM, 0, "out of memory for an answer");
    while (zk->stream && !zk->failing && (there = hf__zk_frames_next(&zk->frames, &frame)) > 0) {
        if (zk->state == ZK_GREETING)
            greeted(zk, &frame);
        else
            take_frame(zk, &frame);
    }
    if (there < 0)
        hf__zk_connection_break(zk, HF_ECORRUPT, 0, "what it says cannot be read");
}

/* ---- opening ---- */

static void send_auth(struct zookeeper *zk)
{
    char credentials[HF_URL_MAX];
    const struct zk_settings *settings = &zk->settings;
    struct zk_writer *writer = &zk->out_bytes;
    if (!settings->user)
        return;
    snprintf(credentials, sizeof credentials, "%s:%s", settings->user, settings->password);
    size_t begun = hf__zk_frame_begin(writer);
    hf__zk_write_int(writer, ZK_XID_AUTH);
    hf__zk_write_int(writer, ZK_AUTH);
    hf__zk_write_int(writer, 0);
    hf__zk_write_text(writer, "digest");
    hf__zk_write_text(writer, credentials);
    hf__zk_frame_end(writer, begun);
    hf__zk_connection_write(zk, writer);
}

static void become_ready(struct zookeeper *zk)
{
    zk->state = ZK_READY;
    zk->failures = 0;
    zk->beat_at_ms = zk->hello_at_ms;
    hf__timer_stop(hf__zk_loop(zk), &zk->limit);
    send_auth(zk);
    schedule_tick(zk);
    hf__zk_say_goodbye(zk);
    if (zk->greeted->state != ZK_SESSION_ALIVE)
        return;
    hf__zk_watch_again(zk, &zk->out_bytes);
    send_waiting(zk);
}

static void greeted(struct zookeeper *zk, struct zk_reader *frame)
{
    struct zk_welcome welcome;
    struct zk_session *session = zk->greeted;
    /* It comes too late; what it begins would not end. */
    if (zk->closing)
        return;
    if (!hf__zk_read_welcome(frame, &welcome)) {
        hf__zk_connection_break(zk, HF_ECORRUPT, 0, "its greeting cannot be read");
        return;
    }
    if (session->id != 0 && welcome.session != session->id) {
        begin_anew(zk);
        return;
    }
    if (welcome.session == 0) {
        hf__zk_connection_break(zk, HF_UNREACHABLE, 0, "it gives us no session");
        return;
    }
    hf__zk_session_welcomed(zk, session, &welcome, zk->hello_at_ms);
    become_ready(zk);
}

static void opened(void *arg)
{
    struct zookeeper *zk = arg;
    const struct zk_session *session = zk->greeted;
    struct zk_hello hello = { .session = session->id, .timeout_ms = session->timeout_ms };
    /* A server that was restored from older data lets nobody in who has seen newer; but it has to
     * hear of a session's end, which does not depend on what was seen. */
    if (session->state != ZK_SESSION_ENDING)
        hello.last_zxid = session->last_zxid;
    memcpy(hello.password, session->password, sizeof hello.password);
    zk->state = ZK_GREETING;
    zk->hello_at_ms = now_of(zk);
    hf__zk_write_hello(&zk->out_bytes, &hello);
    hf__zk_connection_write(zk, &zk->out_bytes);
}

static void broken(void *arg, int code, int native, const char *why)
{
    struct zookeeper *zk = arg;
    bool was_open = zk->state != ZK_OPENING;
    zk->stream = NULL;
    if (!zk->failing)
        hf__error_set(&zk->why, code, native, "ZooKeeper at %.100s: %s%s", zk->settings.shown,
                      was_open ? "" : "cannot connect: ", why);
    fail(zk);
}

/* No server gets so long that there is no time for the next, before a caller has lost patience. */
static int64_t opening_limit(const struct zookeeper *zk)
{
    unsigned places = zk->settings.place_count, rounds = zk->failures / places;
    int64_t share_ms = at_least(ROUND_MS / (int64_t)places, OPENING_LEAST_MS);
    return places == 1 ? INT64_MAX
                       : share_ms << (rounds < PAUSE_DOUBLINGS ? rounds : PAUSE_DOUBLINGS);
}

/* Nor before what rests on the session is lost. */
static int64_t limit_of(const struct zookeeper *zk, const struct zk_session *session)
{
    int64_t places = (int64_t)zk->settings.place_count;
    int64_t limit_ms =
        session->id != 0 && session->state == ZK_SESSION_ALIVE
            ? at_least(hf__zk_patience_ms(session->timeout_ms) / places, SILENCE_LEAST_MS)
            : opening_limit(zk);
    return limit_ms < zk->settings.timeout_ms ? limit_ms : zk->settings.timeout_ms;
}

static void open_stream(struct zookeeper *zk, struct zk_session *session)
{
    static const struct hf_stream_events events = { opened, received, broken };
    const struct hf_host *host = zk->base.host;
    struct hf_stream_place place = zk->settings.places[zk->place_at];
    zk->greeted = hf__zk_session_use(session);
    zk->state = ZK_OPENING;
    int64_t limit_ms = limit_of(zk, session);
    place.limit_ms = limit_ms - limit_ms / 8; /* whoever cannot be reached is told as that */
    hf__timer_start(host->loop, &zk->limit, now_of(zk) + limit_ms);
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
    hf__link_init(&zk->waiting);
    hf__link_init(&zk->out);
    hf__link_init(&zk->orphans);
    hf__link_init(&zk->free_requests);
    hf__task_init(&zk->answer_orphans, answer_orphans);
    hf__timer_init(&zk->pause, pause_over);
    hf__timer_init(&zk->tick, ticked);
    hf__timer_init(&zk->limit, limit_fired);
}

static void ignore(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    (void)zk, (void)request, (void)reply;
}

/* Who asked is not there any more. */
static void silence(struct hf_link *requests)
{
    HF_LIST_FOREACH (link, following, requests)
        HF_CONTAINER(link, struct zk_request, link)->answered = ignore;
}

void hf__zk_connection_free_requests(struct zookeeper *zk)
{
    struct hf_link *link;
    hf__link_remove(&zk->answer_orphans.link);
    leave_unanswered(zk, &zk->out);
    leave_unanswered(zk, &zk->waiting);
    leave_unanswered(zk, &zk->orphans);
    while ((link = hf__list_pop(&zk->free_requests))) {
        struct zk_request *request = HF_CONTAINER(link, struct zk_request, link);
        hf__zk_writer_free(&request->body);
        free(request);
    }
    hf__zk_writer_free(&zk->out_bytes);
}

/* With a goodbye, if a server listens: what is left of us goes at once. */
void hf__zk_connection_close(struct zookeeper *zk)
{
    hf__timer_stop(hf__zk_loop(zk), &zk->pause);
    silence(&zk->out);
    silence(&zk->waiting);
    silence(&zk->orphans);
    struct zk_request *request = zk->state == ZK_READY && !zk->failing
                                     ? hf__zk_request(zk, zk->greeted, ZK_CLOSE, goodbye_answered)
                                     : NULL;
    if (request)
        send(zk, request);
    zk->closing = true;
    hf__timer_start(hf__zk_loop(zk), &zk->limit, now_of(zk) + (request ? GOODBYE_MS : 0));
}
