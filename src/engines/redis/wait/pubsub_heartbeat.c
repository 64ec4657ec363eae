/* SPDX-License-Identifier: Apache-2.0 */
/* The pulse of the pub/sub connection. A connection on which nothing comes may be dead, or just
 * quiet: asking tells. Its answers also say how late what comes on it can be, since the server says
 * everything in order: what is heard after an answer was said after its request had left. */
#include "engines/redis/redis.h"

/* While an op waits for a grant. */
#define PULSE_MS 1000

static int64_t now(const struct redis *redis)
{
    return hf__loop_now(redis->base.host->loop);
}

static void ask(struct redis *redis)
{
    struct command command;
    if (!hf__connection_is_ready(&redis->pubsub))
        return;
    redis->pulse.asked_at_ms = now(redis);
    hf__command_begin(&command, "PING");
    hf__connection_write(&redis->pubsub, NULL, &command);
    hf__peer_await(&redis->pubsub.peer);
}

/* Whatever is heard shows that the connection is alive. */
int64_t hf__pubsub_heartbeat_oldest_ms(const struct redis *redis)
{
    const struct pubsub_heartbeat *pulse = &redis->pulse;
    if (pulse->asked_at_ms < 0)
        return HF_NEVER;
    return pulse->asked_at_ms > pulse->heard_at_ms ? pulse->asked_at_ms : pulse->heard_at_ms;
}

static void beat(struct hf_timer *timer)
{
    struct redis *redis = HF_CONTAINER(timer, struct redis, pulse.timer);
    struct pubsub_heartbeat *pulse = &redis->pulse;
    int64_t timeout_ms = redis->settings.timeout_ms;
    bool hurry = !hf__list_empty(&redis->waiters) && timeout_ms > PULSE_MS;
    if (pulse->asked_at_ms < 0)
        ask(redis);
    hf__timer_start(redis->base.host->loop, timer, now(redis) + (hurry ? PULSE_MS : timeout_ms));
}

void hf__pubsub_heartbeat_init(struct redis *redis)
{
    hf__timer_init(&redis->pulse.timer, beat);
}

void hf__pubsub_heartbeat_begin(struct redis *redis)
{
    redis->pulse = (struct pubsub_heartbeat){ .timer = redis->pulse.timer,
                                              .asked_at_ms = -1,
                                              .heard_at_ms = now(redis),
                                              .not_before_ms = now(redis) };
    beat(&redis->pulse.timer);
}

void hf__pubsub_heartbeat_end(struct redis *redis)
{
    hf__timer_stop(redis->base.host->loop, &redis->pulse.timer);
}

void hf__pubsub_heartbeat_heard(struct redis *redis)
{
    redis->pulse.heard_at_ms = now(redis);
}

void hf__pubsub_heartbeat_answered(struct redis *redis)
{
    if (redis->pulse.asked_at_ms < 0)
        return;
    redis->pulse.not_before_ms = redis->pulse.asked_at_ms;
    redis->pulse.asked_at_ms = -1;
}

void hf__pubsub_heartbeat_hurry(struct redis *redis)
{
    struct pubsub_heartbeat *pulse = &redis->pulse;
    if (pulse->timer.started && pulse->asked_at_ms < 0 &&
        now(redis) - pulse->not_before_ms >= PULSE_MS)
        beat(&pulse->timer);
}
