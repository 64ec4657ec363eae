/* SPDX-License-Identifier: Apache-2.0 */
/* A claim's own end on top of a session: the first of the two ends counts. */
#include "engines/common/own_end.h"

#include "base/clock.h"
#include "engines/common/poll.h"
#include "fixture.h"

#define SESSION_MS 10000

static struct hf_own_end end;
static struct hf_lease session, other;
static struct hf_link ends;
static unsigned times_over;

static void count_over(struct hf_own_end *ended)
{
    CHECK(ended == &end);
    times_over++;
}

/* The engine's answer to the attempt of the fixture's claim. */
static void grant(struct hf_op *op, enum hf_verdict verdict)
{
    op->out.verdict = verdict;
    if (verdict == HF_GRANTED) {
        op->out.token = 1;
        hf__own_end_start(&end, op);
        hf__own_end_follow(&end, &ends, &session, op);
    }
    hf__op_done(&fixture.engine, op);
}

static hf_hold *take(int64_t lease_ms)
{
    hf_hold *hold = NULL;
    hf_lock_options options = HF_LOCK_OPTIONS(.owner = 1, .lease_ms = lease_ms);

    fixture_begin();
    fixture.answer_by = grant;
    hf__link_init(&ends);
    end = (struct hf_own_end){ 0 };
    hf__own_end_init(&end, &fixture.engine, count_over);
    session = (struct hf_lease){ .engine = &fixture.engine,
                                 .lease_ms = SESSION_MS,
                                 .asked_at_ms = fixture.now_ms };
    other = session;
    times_over = 0;
    CHECK_INT(hf_lock(fixture.client, "a", HF_FOREVER, &options, &hold), HF_OK);
    return hold;
}

static int64_t belief_ms(int64_t lease_ms)
{
    return lease_ms - lease_ms / 100 - 2;
}

TEST(own_end_comes_before_the_session_ends)
{
    hf_hold *hold = take(1000);
    fixture_pass_ms(belief_ms(1000) - 1);
    CHECK(hf_held(hold));
    fixture_pass_ms(1);
    CHECK(!hf_held(hold));
    CHECK_INT(times_over, 0); /* the holder knows first */
    fixture_pass_ms(1000 - belief_ms(1000));
    CHECK_INT(times_over, 1);
    CHECK(hf__list_empty(&ends));
    fixture_pass_ms(SESSION_MS);
    CHECK_INT(times_over, 1);
}

TEST(session_that_is_not_confirmed_ends_it_earlier)
{
    hf_hold *hold = take(60000);
    fixture_pass_ms(belief_ms(SESSION_MS) - 1);
    CHECK(hf_held(hold));
    fixture_pass_ms(1);
    CHECK(!hf_held(hold));
}

TEST(confirmed_session_carries_it_to_its_own_end)
{
    hf_hold *hold = take(3 * SESSION_MS);
    for (int i = 0; i < 5; i++) {
        fixture_pass_ms(SESSION_MS / 2);
        hf__own_ends_confirm(&ends, &other, fixture.now_ms, SESSION_MS); /* is none of its */
        hf__own_ends_confirm(&ends, &session, fixture.now_ms, 0);
        CHECK(hf_held(hold));
    }
    fixture_pass_ms(belief_ms(3 * SESSION_MS) - 5 * SESSION_MS / 2);
    CHECK(!hf_held(hold));
}

TEST(session_that_becomes_shorter_counts_at_once)
{
    hf_hold *hold = take(60000);
    hf__own_ends_confirm(&ends, &session, fixture.now_ms, SESSION_MS / 2);
    fixture_pass_ms(belief_ms(SESSION_MS / 2) - 1);
    CHECK(hf_held(hold));
    fixture_pass_ms(1);
    CHECK(!hf_held(hold));
}

TEST(lost_session_loses_what_rests_on_it_alone)
{
    hf_hold *hold = take(60000);
    hf__own_ends_lose(&ends, &other);
    CHECK(hf_held(hold));
    hf__own_ends_lose(&ends, &session);
    CHECK(!hf_held(hold));
    CHECK(hf__list_empty(&ends));
}

TEST(renewal_moves_the_end_and_never_back)
{
    take(1000);
    struct hf_oneshot renewal = { .asked_at_ms = fixture.now_ms, .lease_ms = 5000 };
    int64_t end_ms = end.timer.at_ms;
    CHECK_INT(hf__own_end_longer_ms(&end, &renewal), 5000);
    CHECK(hf__own_end_move(&end, &renewal));
    CHECK_INT(end.timer.at_ms, end_ms + 4000);
    renewal.lease_ms = 10;
    CHECK_INT(hf__own_end_longer_ms(&end, &renewal), 5000);
    CHECK(hf__own_end_move(&end, &renewal));
    CHECK_INT(end.timer.at_ms, end_ms + 4000);
    renewal.lease_ms = INT64_MAX;
    CHECK(hf__own_end_move(&end, &renewal));
    CHECK_INT(end.timer.at_ms, INT64_MAX);
    hf__own_end_stop(&end);
    CHECK(!hf__own_end_move(&end, &renewal));
}

TEST(unwatched_session_is_lost_when_its_time_is_over)
{
    struct hf_lease idle = { .asked_at_ms = 100, .lease_ms = 50 };
    CHECK(!hf__session_lease_is_lost(&idle, 149));
    idle.watched = true;
    CHECK(!hf__session_lease_is_lost(&idle, 150));
    idle.watched = false;
    CHECK(hf__session_lease_is_lost(&idle, 150));
    CHECK(hf__session_lease_is_lost(&idle, 0)); /* for good */
}

TEST(overtaken_change_is_tried_at_once_and_then_by_lot)
{
    for (unsigned tries = 1; tries <= 4; tries++)
        CHECK_INT(hf__poll_overtaken_ms(tries), 0);
    for (unsigned tries = 5; tries < 20; tries++) {
        int64_t most_ms = tries < 10 ? INT64_C(1) << (tries - 4) : 64;
        for (unsigned i = 0; i < 200; i++) {
            int64_t pause_ms = hf__poll_overtaken_ms(tries);
            CHECK(pause_ms >= 1 && pause_ms <= most_ms);
        }
    }
}
