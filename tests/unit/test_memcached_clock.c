/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of a memcached server: when an item behind a reading lives for its whole lease. */
#include "engines/memcached/clock.h"
#include "engines/memcached/codec.h"
#include "test.h"

/* The key has this many seconds left at our time 0. */
#define TTL 1000

/* The reply comes at once. */
static void read_at(struct mc_clock *clock, int64_t ttl, int64_t now_ms)
{
    hf__mc_clock_read(clock, ttl, now_ms, now_ms);
}

static struct mc_clock set_clock(void)
{
    struct mc_clock clock = { 0 };

    read_at(&clock, TTL, 5);
    read_at(&clock, TTL, 3);
    return clock;
}

TEST(one_reading_sets_no_clock)
{
    struct mc_clock clock = { 0 };

    CHECK(!hf__mc_clock_is_right(&clock, TTL, 0));
    read_at(&clock, TTL, 5);
    CHECK(!hf__mc_clock_is_right(&clock, TTL, 0));
    read_at(&clock, TTL, 6);
    CHECK(hf__mc_clock_is_right(&clock, TTL, 0));
    hf__mc_clock_reset(&clock);
    CHECK(!hf__mc_clock_is_right(&clock, TTL, 0));
}

TEST(second_that_has_begun_is_right)
{
    struct mc_clock clock = set_clock();

    CHECK(hf__mc_clock_is_right(&clock, TTL, 999));
    CHECK(hf__mc_clock_is_right(&clock, TTL - 7, 7000));
    CHECK(hf__mc_clock_is_right(&clock, TTL - 7, 7999));
}

/* A server that stood still shows the old second to what has waited for it. */
TEST(old_second_is_wrong)
{
    struct mc_clock clock = set_clock();

    CHECK(!hf__mc_clock_is_right(&clock, TTL, 1300));
    CHECK(!hf__mc_clock_is_right(&clock, TTL, 4000));
    CHECK(hf__mc_clock_is_right(&clock, TTL - 4, 4000));
}

TEST(missing_key_is_wrong)
{
    struct mc_clock clock = set_clock();

    read_at(&clock, -1, 100);
    CHECK(!hf__mc_clock_is_right(&clock, -1, 100));
    CHECK(!hf__mc_clock_is_right(&clock, TTL, 100));
}

/* A key that was made anew has its whole life left. */
TEST(reply_without_a_time_is_wrong)
{
    struct mc_clock clock = set_clock();

    read_at(&clock, MC_NO_TTL, 10);
    CHECK(!hf__mc_clock_is_right(&clock, MC_NO_TTL, 10));
    CHECK(!hf__mc_clock_is_right(&clock, TTL, 10));
}

TEST(new_key_sets_the_clock_again)
{
    struct mc_clock clock = set_clock();

    read_at(&clock, MC_CLOCK_TTL, 100);
    CHECK(!hf__mc_clock_is_right(&clock, MC_CLOCK_TTL, 100));
    read_at(&clock, MC_CLOCK_TTL, 201);
    CHECK(hf__mc_clock_is_right(&clock, MC_CLOCK_TTL, 300));
}

/* However long it was read last before it stood still. */
TEST(wrong_readings_do_not_set_the_clock_at_once)
{
    struct mc_clock clock = set_clock();
    int64_t late_ms = 100000, still = TTL - 100;

    read_at(&clock, still, late_ms + 4000);
    CHECK(!hf__mc_clock_is_right(&clock, still, late_ms + 4000));
    for (int i = 1; i < 50; i++) {
        read_at(&clock, still, late_ms + 4000 + i * 20);
        CHECK(!hf__mc_clock_is_right(&clock, still, late_ms + 4000 + i * 20));
    }
    read_at(&clock, still - 5, late_ms + 5000);
    CHECK(hf__mc_clock_is_right(&clock, still - 5, late_ms + 5000));
}

/* A server whose machine was suspended stays behind for good. */
TEST(clock_that_stays_behind_is_set_anew)
{
    struct mc_clock clock = set_clock();
    int64_t behind_ms = 60000;

    for (int64_t now_ms = 0; now_ms < 3 * MC_CLOCK_WINDOW_MS; now_ms += 500)
        read_at(&clock, TTL - now_ms / 1000, now_ms + behind_ms);
    CHECK(hf__mc_clock_is_right(&clock, TTL - 3 * MC_CLOCK_WINDOW_MS / 1000,
                                3 * MC_CLOCK_WINDOW_MS + behind_ms));
}

/* Whatever the phase of the seconds: what is believed lives longer than its lease. */
TEST(item_outlives_a_lease_that_is_believed)
{
    for (int64_t lag_ms = 0; lag_ms < 2000; lag_ms += 10)
        for (int64_t sent_ms = 10000; sent_ms < 16000; sent_ms += 70) {
            /* The server's seconds began at lag_ms of ours when the clock was set. */
            struct mc_clock clock = { 0 };
            int64_t lease_ms = 1500, second = (sent_ms - 900) / 1000;
            read_at(&clock, TTL, lag_ms);
            read_at(&clock, TTL, lag_ms);
            if (!hf__mc_clock_is_right(&clock, TTL - second, sent_ms))
                continue;
            /* It dies when the seconds have counted as far, by a clock that began at 0. */
            CHECK((second + hf__mc_ttl(lease_ms)) * 1000 >= sent_ms + lease_ms);
        }
}

/* The client stood still, or the reply was slow: the reading is as old as its packet. When it is
 * the only one of its window, the next window would believe what a stopped server grants. */
TEST(late_reading_does_not_hide_a_server_that_stands_still)
{
    const int64_t lease_ms = 2000, idle_ms = 2 * MC_CLOCK_WINDOW_MS;

    for (int64_t late_ms = 0; late_ms < 5000; late_ms += 50)
        for (int64_t stood_ms = 0; stood_ms < 5000; stood_ms += 50) {
            struct mc_clock clock = set_clock();
            /* Sent in the last moment of a second. */
            int64_t sent_ms = idle_ms + 990, second = (sent_ms + idle_ms) / 1000;

            hf__mc_clock_read(&clock, TTL - idle_ms / 1000, sent_ms, sent_ms + late_ms);
            sent_ms += idle_ms + stood_ms;
            /* Its second is still that of before it stood. */
            hf__mc_clock_read(&clock, TTL - second, sent_ms, sent_ms + 1);
            if (hf__mc_clock_is_right(&clock, TTL - second, sent_ms))
                CHECK((second + hf__mc_ttl(lease_ms)) * 1000 >= sent_ms + lease_ms);
        }
}

/* What is known of the clock is not forgotten for one slow reply, or one slow request. */
TEST(late_readings_leave_a_clock_that_is_set)
{
    struct mc_clock clock = set_clock();

    for (int64_t now_ms = 10000; now_ms < 40000; now_ms += 4000) {
        hf__mc_clock_read(&clock, TTL - now_ms / 1000, now_ms - 3000, now_ms);
        CHECK(hf__mc_clock_is_right(&clock, TTL - now_ms / 1000, now_ms));
    }
}

/* Each request takes two seconds to the server, and its reply as long. */
TEST(slow_network_sets_a_clock)
{
    struct mc_clock clock = { 0 };

    for (int64_t now_ms = 10000; now_ms < 200000; now_ms += 700) {
        int64_t ttl = TTL - (now_ms + 2000) / 1000;
        hf__mc_clock_read(&clock, ttl, now_ms, now_ms + 4000);
        if (now_ms > 10000)
            CHECK(hf__mc_clock_is_right(&clock, ttl, now_ms));
    }
}

TEST(exptime_is_rounded_up_and_has_a_limit)
{
    CHECK_INT(hf__mc_ttl(1000), 1 + MC_TTL_MARGIN);
    CHECK_INT(hf__mc_ttl(1001), 2 + MC_TTL_MARGIN);
    CHECK_INT(hf__mc_ttl(MC_LEASE_MAX_MS), MC_CLOCK_TTL);
    CHECK_INT(hf__mc_ttl(INT64_MAX), MC_CLOCK_TTL);
}
