/* SPDX-License-Identifier: Apache-2.0 */
/* The connection's parts, for each other: connection.c opens it and gives it up, handshake.c speaks
 * its first and last words, request_io.c carries requests and answers, heartbeat.c hears silence.
 */
#ifndef HF_ENGINES_ZOOKEEPER_WIRE_CONNECTION_H
#define HF_ENGINES_ZOOKEEPER_WIRE_CONNECTION_H

#include "engines/zookeeper/zookeeper.h"

/* A server may forget to answer until it is asked something else (ZOOKEEPER-4537). */
#define ZK_NUDGE_MS 300
/* No server is given up for a shorter silence. */
#define ZK_SILENCE_MIN_MS 50

static inline int64_t hf__zk_at_least(int64_t value, int64_t least)
{
    return value > least ? value : least;
}

/* What the connection tells its user, and asks. */
struct zk_traffic {
    /* The session that the next connection is for; NULL: none is needed. */
    struct zk_session *(*wanted)(struct zookeeper *zk);
    void (*welcomed)(struct zookeeper *zk, struct zk_session *session,
                     const struct zk_welcome *welcome, int64_t asked_at_ms);
    /* The session goes on: tells the server what is watched, before all that waits. */
    void (*ready)(struct zookeeper *zk, struct zk_writer *writer);
    /* Most servers have agreed to a message that left then. */
    void (*confirmed)(struct zookeeper *zk, struct zk_session *session, int64_t asked_at_ms);
    void (*look)(struct zookeeper *zk); /* once in a while: is the session lost? */
    void (*happened)(struct zookeeper *zk, const struct zk_event *event);
    void (*over)(struct zookeeper *zk, struct zk_session *session);
    void (*closed)(struct zookeeper *zk); /* what was asked for; the last one */
};

/* ---- handshake.c ---- */

/* Nothing of the last connection counts any more. */
void hf__zk_forget_greeting(struct zookeeper *zk);
/* The stream is open: sends our identity. */
void hf__zk_greet(struct zookeeper *zk);
void hf__zk_greeted(struct zookeeper *zk, struct zk_reader *frame);
/* For a client that closes. False: there is no server to say it to. */
bool hf__zk_close_session_now(struct zookeeper *zk);

/* ---- request_io.c ---- */

void hf__zk_request_io_open(struct zookeeper *zk);
/* Now, on a connection that is ready. */
void hf__zk_send(struct zookeeper *zk, struct zk_request *request);
void hf__zk_send_waiting(struct zookeeper *zk);
void hf__zk_take_frame(struct zookeeper *zk, struct zk_reader *frame);
/* Completes all requests without a reply, and frees them. */
void hf__zk_request_io_close(struct zookeeper *zk);

/* ---- heartbeat.c ---- */

void hf__zk_schedule_heartbeat(struct zookeeper *zk);
void hf__zk_heartbeat_due(struct hf_timer *timer);

#endif
