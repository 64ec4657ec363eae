/* SPDX-License-Identifier: Apache-2.0 */
/* The servers are asked something all the time, so that silence means something: a server that has
 * been silent for a quarter of the session's time is given up (peer.silence_ms). */
#include "connection.h"

#define TICK_MIN_MS 10

static void beat_answered(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    (void)request, (void)reply;
    zk->beating = false;
}

/* A server that is cut off from the leader answers pings all the same, and a leader that is cut off
 * from the others a `sync`. */
void hf__zk_connection_heartbeat(struct zookeeper *zk)
{
    if (zk->beating || !hf__peer_is_ready(&zk->peer) || zk->greeted->state != ZK_SESSION_ALIVE)
        return;
    struct zk_request *request = hf__zk_barrier(zk, zk->greeted);
    if (!request)
        return;
    request->answered = beat_answered;
    zk->beating = true;
    zk->beat_at_ms = hf__zk_now(zk);
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

/* What was written meanwhile counts as much. */
static int64_t next_beat(const struct zookeeper *zk)
{
    int64_t last_ms = hf__zk_at_least(zk->beat_at_ms, zk->greeted->contacts.newest_ms);
    return last_ms + hf__zk_at_least(hf__zk_heartbeat_ms(zk->greeted->timeout_ms), TICK_MIN_MS);
}

void hf__zk_schedule_heartbeat(struct zookeeper *zk)
{
    int64_t at_ms = next_beat(zk), nudge_at_ms = hf__zk_now(zk) + ZK_NUDGE_MS;
    if (hf__pipeline_oldest_ms(&zk->pipeline) != HF_NEVER && nudge_at_ms < at_ms)
        at_ms = nudge_at_ms;
    hf__timer_start(hf__zk_loop(zk), &zk->tick,
                    hf__zk_at_least(at_ms, hf__zk_now(zk) + TICK_MIN_MS));
}

void hf__zk_heartbeat_due(struct hf_timer *timer)
{
    struct zookeeper *zk = HF_CONTAINER(timer, struct zookeeper, tick);
    int64_t now_ms = hf__zk_now(zk);
    int64_t oldest_ms = hf__pipeline_oldest_ms(&zk->pipeline);
    zk->traffic->look(zk);
    if (oldest_ms != HF_NEVER && now_ms - oldest_ms >= ZK_NUDGE_MS)
        send_ping(zk);
    if (now_ms >= next_beat(zk))
        hf__zk_connection_heartbeat(zk);
    hf__zk_schedule_heartbeat(zk);
}
