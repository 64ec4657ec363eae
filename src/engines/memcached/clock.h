/* SPDX-License-Identifier: Apache-2.0 */
/* How far behind a server's clock is. memcached counts seconds by a timer. A server that stood
 * still answers what waits in its sockets by the old second, and an item that it stores then ends
 * early. A key with a long life shows the second by which a packet was executed. */
#ifndef HF_ENGINES_MEMCACHED_CLOCK_H
#define HF_ENGINES_MEMCACHED_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* The key, and its life in seconds, which is the longest that memcached counts from now. */
#define MC_CLOCK_KEY "%hf.clock"
#define MC_CLOCK_TTL 2592000

/* A healthy server is up to 1,000 ms behind, just before it counts on. */
#define MC_LAG_MAX_MS 1200
/* The seconds that an item lives longer than its lease: the lag that is believed, the one that a
 * reading may have had by which the clock was set, and a second that is rounded away. */
#define MC_TTL_MARGIN 3
/* Readings by which it is set, and the time between them: a server that was stopped counts on as
 * soon as its main thread gets a processor. */
#define MC_CLOCK_READINGS 2
#define MC_CLOCK_SPACING_MS 5
/* A packet that was executed by a wrong clock is sent again after this time. */
#define MC_CLOCK_PAUSE_MS 50
/* The phase is the smallest one of this time, and of as long before it. A clock that stays behind
 * (its machine was suspended, say) is so set anew. */
#define MC_CLOCK_WINDOW_MS 5000

/* A reading counts as taken this long after its packet left, at the latest: the client may have
 * stood still since, or the reply come late. Together with a lag that is believed, and the 999 ms
 * of a second that has begun, it is less than MC_TTL_MARGIN. */
#define MC_CLOCK_LATE_MS 500
/* Such readings change no clock that was set by better ones within this time. */
#define MC_CLOCK_SLOW_MS 60000

struct mc_clock {
    unsigned readings; /* since it was set back, MC_CLOCK_READINGS at most */
    int64_t last_ttl;
    /* The smallest (our time + the key's time left), which is the server's phase: since window_ms,
     * and in the time before that. */
    int64_t base_ms, earlier_ms, window_ms;
};

/* Everything that was read is void: the server, or its key, may be another. */
void hf__mc_clock_reset(struct mc_clock *clock);

/* A reading: `ttl` seconds were left of the key, in a packet that left at sent_at_ms and whose
 * reply was read at now_ms. Below 0: the key is missing. A key with more time left than before is
 * another key. */
void hf__mc_clock_read(struct mc_clock *clock, int64_t ttl, int64_t sent_at_ms, int64_t now_ms);

/* Whether a packet that left at sent_at_ms and has shown this reading was executed by a clock that
 * is right: an item stored behind the reading lives for its whole lease from sent_at_ms on. */
bool hf__mc_clock_is_right(const struct mc_clock *clock, int64_t ttl, int64_t sent_at_ms);

/* The exptime, in seconds, of an item with this lease. */
int64_t hf__mc_ttl(int64_t lease_ms);
/* The longest lease that an item can have. */
#define MC_LEASE_MAX_MS ((int64_t)(MC_CLOCK_TTL - MC_TTL_MARGIN) * 1000)

#endif
