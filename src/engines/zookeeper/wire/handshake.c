/* SPDX-License-Identifier: Apache-2.0 */
/* The first words of a connection, which settle whose session it carries, and the last ones. */
#include "connection.h"

#include <stdio.h>
#include <string.h>

/* ---- the session's end ---- */

void hf__zk_forget_greeting(struct zookeeper *zk)
{
    hf__zk_frames_free(&zk->frames);
    zk->beating = false;
    hf__timer_stop(hf__zk_loop(zk), &zk->tick);
    hf__zk_session_drop(zk->greeted);
    zk->greeted = NULL;
}

/* The servers say that the session is over: that is an answer, and no failure. */
static void begin_anew(struct zookeeper *zk)
{
    struct zk_session *session = hf__zk_session_use(zk->greeted);
    hf__peer_reconnect(&zk->peer);
    hf__zk_forget_greeting(zk);
    hf__pipeline_fail(&zk->pipeline, false);
    zk->traffic->over(zk, session);
    hf__zk_session_drop(session);
}

static void goodbye_answered(struct zookeeper *zk, struct zk_request *request,
                             struct zk_reply *reply)
{
    (void)request;
    if (reply && zk->closing)
        hf__timer_start(hf__zk_loop(zk), &zk->goodbye, hf__zk_now(zk));
    else if (reply)
        begin_anew(zk);
}

/* False: out of memory. */
static bool say_it(struct zookeeper *zk)
{
    struct zk_request *request = hf__zk_request(zk, zk->greeted, ZK_CLOSE, goodbye_answered);
    if (request)
        hf__zk_send(zk, request);
    return request != NULL;
}

void hf__zk_close_session(struct zookeeper *zk)
{
    if (!hf__peer_is_ready(&zk->peer) || zk->greeted->state != ZK_SESSION_ENDING)
        return;
    if (!say_it(zk))
        hf__peer_break(&zk->peer, HF_ENOMEM, 0, "out of memory for a request");
}

bool hf__zk_close_session_now(struct zookeeper *zk)
{
    return hf__peer_is_ready(&zk->peer) && say_it(zk);
}

/* ---- its beginning, or another server for it ---- */

static void send_auth(struct zookeeper *zk)
{
    char credentials[HF_URL_MAX];
    const struct zk_settings *settings = zk->settings;
    struct zk_writer *writer = &zk->out_bytes;
    if (!settings->servers.user)
        return;
    snprintf(credentials, sizeof credentials, "%s:%s", settings->servers.user,
             settings->servers.password);
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
    zk->peer.silence_ms =
        hf__zk_at_least(hf__zk_patience_ms(zk->greeted->timeout_ms), ZK_SILENCE_MIN_MS);
    hf__peer_ready(&zk->peer);
    zk->beat_at_ms = zk->hello_at_ms;
    send_auth(zk);
    hf__zk_schedule_heartbeat(zk);
    hf__zk_close_session(zk);
    if (zk->greeted->state != ZK_SESSION_ALIVE)
        return;
    zk->traffic->ready(zk, &zk->out_bytes); /* mutant: watches-are-not-told-to-next */
    hf__zk_send_waiting(zk);
}

void hf__zk_greeted(struct zookeeper *zk, struct zk_reader *frame)
{
    struct zk_welcome welcome;
    struct zk_session *session = zk->greeted;
    /* It comes too late; what it begins would not end. */
    if (zk->closing)
        return;
    if (!hf__zk_read_welcome(frame, &welcome)) {
        hf__peer_break(&zk->peer, HF_ECORRUPT, 0, "its greeting cannot be read");
        return;
    }
    if (session->id != 0 && welcome.session != session->id) {
        begin_anew(zk);
        return;
    }
    if (welcome.session == 0) {
        hf__peer_break(&zk->peer, HF_UNREACHABLE, 0, "it gives us no session");
        return;
    }
    zk->traffic->welcomed(zk, session, &welcome, zk->hello_at_ms);
    become_ready(zk);
}

void hf__zk_greet(struct zookeeper *zk)
{
    const struct zk_session *session = zk->greeted;
    struct zk_hello hello = { .session = session->id, .timeout_ms = session->timeout_ms };
    /* A server that was restored from older data lets no client in that has seen newer; but it has
     * to hear of a session's end, which does not depend on what was seen. */
    if (session->state != ZK_SESSION_ENDING) /* mutant: session-end-is-asked */
        hello.last_zxid = session->last_zxid;
    memcpy(hello.password, session->password, sizeof hello.password);
    zk->hello_at_ms = hf__zk_now(zk);
    hf__zk_write_hello(&zk->out_bytes, &hello);
    hf__zk_connection_write(zk, &zk->out_bytes);
}
