/* SPDX-License-Identifier: Apache-2.0 */
/* Looking again before sleeping: as long as it brings answers, and now and then to see if it would.
 */
#include "core/loop/busy_poll.h"

#include "test.h"

static void wait_in_vain(struct hf_busy_poll *poll)
{
    for (unsigned i = 0; i < HF_BUSY_POLL_MAX; i++)
        hf__busy_poll_ended(poll, false);
    CHECK_INT(poll->worth, 0);
}

TEST(a_client_begins_with_looking_again)
{
    struct hf_busy_poll poll;
    hf__busy_poll_init(&poll);
    for (int i = 0; i < 1000; i++) {
        CHECK(hf__busy_poll_pays(&poll));
        hf__busy_poll_ended(&poll, true);
    }
}

TEST(what_is_in_vain_is_given_up_and_tried_now_and_then)
{
    struct hf_busy_poll poll;
    unsigned tried = 0, given_up_after = 0;
    hf__busy_poll_init(&poll);
    for (; given_up_after < 100 && hf__busy_poll_pays(&poll); given_up_after++)
        hf__busy_poll_ended(&poll, false);
    CHECK_INT(given_up_after, HF_BUSY_POLL_MAX / 2);
    for (unsigned i = 0; i < 10 * HF_BUSY_POLL_EVERY; i++)
        if (hf__busy_poll_pays(&poll)) {
            tried++;
            hf__busy_poll_ended(&poll, false);
        }
    CHECK_INT(tried, 10);
}

TEST(one_answer_is_enough_to_begin_again)
{
    struct hf_busy_poll poll;
    hf__busy_poll_init(&poll);
    wait_in_vain(&poll);
    while (!hf__busy_poll_pays(&poll))
        ;
    hf__busy_poll_ended(&poll, true);
    for (unsigned i = 0; i < HF_BUSY_POLL_MAX; i++) {
        CHECK(hf__busy_poll_pays(&poll));
        hf__busy_poll_ended(&poll, true);
    }
    CHECK_INT(poll.worth, HF_BUSY_POLL_MAX);
}

TEST(half_of_it_in_vain_does_not_pay)
{
    struct hf_busy_poll poll;
    unsigned tried = 0;
    hf__busy_poll_init(&poll);
    for (unsigned i = 0; i < 100 * HF_BUSY_POLL_EVERY; i++)
        if (hf__busy_poll_pays(&poll))
            hf__busy_poll_ended(&poll, tried++ % 2 == 0);
    CHECK(tried < 10 * HF_BUSY_POLL_EVERY);
}

/* A lock that is contended and given back: no grant comes soon, and all answers do. */
TEST(a_refusal_is_an_answer)
{
    struct hf_busy_poll poll;
    hf__busy_poll_init(&poll);
    for (int i = 0; i < 1000; i++) {
        CHECK(hf__busy_poll_pays(&poll));
        if (i % 2 == 0)
            hf__busy_poll_refused(&poll);
        hf__busy_poll_ended(&poll, i % 2 == 1);
    }
}

TEST(a_refusal_is_no_answer_to_the_next_question)
{
    struct hf_busy_poll poll;
    hf__busy_poll_init(&poll);
    hf__busy_poll_refused(&poll);
    for (unsigned i = 0; i < HF_BUSY_POLL_MAX / 2; i++) {
        CHECK(hf__busy_poll_pays(&poll));
        hf__busy_poll_ended(&poll, false);
    }
    CHECK(!hf__busy_poll_pays(&poll));
}

TEST(who_has_just_been_refused_looks_for_longer)
{
    struct hf_busy_poll poll;
    hf__busy_poll_init(&poll);
    CHECK(hf__busy_poll_pays(&poll));
    CHECK_INT(hf__busy_poll_time_us(&poll), hf__busy_poll_us);
    hf__busy_poll_refused(&poll);
    CHECK_INT(hf__busy_poll_time_us(&poll), 2 * hf__busy_poll_us);
    for (unsigned i = 1; i < HF_BUSY_POLL_CROWDED; i++) {
        CHECK(hf__busy_poll_pays(&poll));
        CHECK_INT(hf__busy_poll_time_us(&poll), 2 * hf__busy_poll_us);
    }
    CHECK(hf__busy_poll_pays(&poll));
    CHECK_INT(hf__busy_poll_time_us(&poll), hf__busy_poll_us);
}

/* Where the server has no processor but ours, a sleeper hears as soon as who gives it away. */
TEST(an_answer_of_who_had_our_processor_is_in_vain)
{
    struct hf_busy_poll poll;
    hf__busy_poll_init(&poll);
    for (unsigned i = 0; i < HF_BUSY_POLL_MAX / 2; i++) {
        CHECK(hf__busy_poll_pays(&poll));
        hf__busy_poll_gave_away(&poll, 0);
        hf__busy_poll_gave_away(&poll, 15);
        hf__busy_poll_ended(&poll, true);
    }
    CHECK(!hf__busy_poll_pays(&poll));
}

static unsigned worth_after(int64_t first_us, int64_t last_us)
{
    struct hf_busy_poll poll;
    hf__busy_poll_init(&poll);
    for (unsigned i = 0; i < 2 * HF_BUSY_POLL_MAX && hf__busy_poll_pays(&poll); i++) {
        hf__busy_poll_gave_away(&poll, first_us);
        hf__busy_poll_gave_away(&poll, last_us);
        hf__busy_poll_ended(&poll, true);
    }
    return poll.worth;
}

/* Nobody else wanted it; it was more than a server does; or it was somebody else, earlier. */
TEST(an_answer_from_another_processor_is_none_in_vain)
{
    CHECK_INT(worth_after(0, 1), HF_BUSY_POLL_MAX);
    CHECK_INT(worth_after(0, 300), HF_BUSY_POLL_MAX);
    CHECK_INT(worth_after(15, 0), HF_BUSY_POLL_MAX);
    CHECK_INT(worth_after(0, 15), 0);
}

/* A program that wants the processor for itself has it for milliseconds, whoever is met. */
TEST(where_programs_have_the_processor_it_is_tried_ever_more_rarely)
{
    struct hf_busy_poll poll;
    unsigned tried = 0;
    hf__busy_poll_init(&poll);
    for (unsigned i = 0; i < 100 * HF_BUSY_POLL_RARELY; i++) {
        if (!hf__busy_poll_pays(&poll))
            continue;
        tried++;
        if (i % 2 == 0)
            hf__busy_poll_refused(&poll);
        hf__busy_poll_gave_away(&poll, 2800);
        hf__busy_poll_ended(&poll, true);
    }
    CHECK(tried >= 100);
    CHECK(tried < 120);
    while (!hf__busy_poll_pays(&poll))
        ;
    hf__busy_poll_ended(&poll, true);
    hf__busy_poll_ended(&poll, false);
    CHECK_INT(poll.worth, 0);
    for (unsigned i = 1; i < HF_BUSY_POLL_EVERY; i++)
        CHECK(!hf__busy_poll_pays(&poll));
    CHECK(hf__busy_poll_pays(&poll));
}

/* Among many the processor may have been another client's. */
TEST(who_has_just_met_others_does_not_ask_who_had_its_processor)
{
    struct hf_busy_poll poll;
    hf__busy_poll_init(&poll);
    for (unsigned i = 0; i < 2 * HF_BUSY_POLL_MAX; i++) {
        CHECK(hf__busy_poll_pays(&poll));
        if (i % (HF_BUSY_POLL_CROWDED - 1) == 0)
            hf__busy_poll_refused(&poll);
        hf__busy_poll_gave_away(&poll, 15);
        hf__busy_poll_ended(&poll, true);
    }
    CHECK_INT(poll.worth, HF_BUSY_POLL_MAX);
}

/* That says nothing of whether looking pays. */
TEST(who_stands_aside_does_not_look_and_is_not_counted)
{
    struct hf_busy_poll poll;
    hf__busy_poll_init(&poll);
    for (unsigned i = 0; i < 2 * HF_BUSY_POLL_MAX; i++) {
        CHECK(hf__busy_poll_pays(&poll));
        CHECK(hf__busy_poll_time_us(&poll) > 0);
        hf__busy_poll_skip_once(&poll);
        CHECK_INT(hf__busy_poll_time_us(&poll), 0);
        hf__busy_poll_ended(&poll, false);
    }
    CHECK_INT(poll.worth, HF_BUSY_POLL_MAX);
}
