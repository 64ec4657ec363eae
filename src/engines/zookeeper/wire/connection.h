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

/* ---- connection.c ---- */

/* Ends it without a failure: the next one follows at once. What was sent has not been answered yet.
 */
void hf__zk_connection_reopen(struct zookeeper *zk);

/* ---- handshake.c ---- */

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
