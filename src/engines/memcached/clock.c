/* SPDX-License-Identifier: Apache-2.0 */
/* The server's clock, as its clock key shows it. */
#include "clock.h"

void hf__mc_clock_reset(struct mc_clock *clock)
{
    clock->readings = 0;
}

static void set_anew(struct mc_clock *clock, int64_t base_ms, int64_t now_ms)
{
    clock->base_ms = clock->earlier_ms = base_ms;
    clock->window_ms = now_ms;
}

void hf__mc_clock_read(struct mc_clock *clock, int64_t ttl, int64_t sent_at_ms, int64_t now_ms)
{
    if (ttl < 0 || (clock->readings > 0 && ttl > clock->last_ttl))
        hf__mc_clock_reset(clock);
    if (ttl < 0)
        return;
    bool late = now_ms - sent_at_ms > MC_CLOCK_LATE_MS; /* mutant: memcached-late-reading */
    int64_t base_ms = (late ? sent_at_ms + MC_CLOCK_LATE_MS : now_ms) + ttl * 1000;
    clock->last_ttl = ttl;
    /* It is older than what is known. On a slow network there is nothing better. */
    if (late && clock->readings == MC_CLOCK_READINGS &&
        now_ms - clock->window_ms <= MC_CLOCK_SLOW_MS)
        return;
    if (clock->readings == 0)
        set_anew(clock, base_ms, now_ms);
    if (now_ms - clock->window_ms > MC_CLOCK_WINDOW_MS) {
        clock->earlier_ms = clock->base_ms;
        clock->base_ms = base_ms;
        clock->window_ms = now_ms;
    }
    if (base_ms < clock->base_ms)
        clock->base_ms = base_ms;
    if (clock->readings < MC_CLOCK_READINGS)
        clock->readings++;
}

bool hf__mc_clock_is_right(const struct mc_clock *clock, int64_t ttl, int64_t sent_at_ms)
{
    int64_t base_ms = clock->base_ms < clock->earlier_ms ? clock->base_ms : clock->earlier_ms;
    return ttl >= 0 && clock->readings == MC_CLOCK_READINGS &&
           sent_at_ms + ttl * 1000 - base_ms <= MC_LAG_MAX_MS;
}

int64_t hf__mc_ttl(int64_t lease_ms)
{
    if (lease_ms >= MC_LEASE_MAX_MS)
        return MC_CLOCK_TTL;
    /* mutant: memcached-item-outlives-its-lease */
    return (lease_ms + 999) / 1000 + MC_TTL_MARGIN;
}
