/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting: uncontended, woken, woken too early or never, told at the deadline, cancelled. */
#include "story.h"

TEST(uncontended)
{
    story_begin();
    ask(7, HF_MUTEX, 100);
    pass_ms(3);
    granted_for_ever(7);
    pass_ms(20);
    give_back(7);
    pass_ms(2);
    gone(7);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[   3] orders/42 #7: asking, granted -> held\n"
              "[   3] #7 hears HF_OK\n"
              "[  23] orders/42 #7: held, lower -> leaving\n"
              "[  23] #7 releases\n"
              "[  25] orders/42 #7: leaving, gone -> over\n");
}

TEST(a_waiter_is_woken)
{
    story_begin();
    ask(7, HF_MUTEX, FOR_EVER);
    refused(7, FOR_EVER);
    pass_ms(110);
    wake(7);
    granted_for_ever(7);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, refused -> waiting\n"
              "[ 110] orders/42 #7: waiting, wake -> asking\n"
              "[ 110] #7 attempts\n"
              "[ 110] orders/42 #7: asking, granted -> held\n"
              "[ 110] #7 hears HF_OK\n");
}

TEST(a_lost_wake_is_covered_by_the_retry)
{
    story_begin();
    ask(7, HF_MUTEX, FOR_EVER);
    refused(7, 250);
    pass_ms(249);
    pass_ms(1);
    refused(7, 40);
    pass_ms(40);
    granted_for_ever(7);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, refused -> waiting\n"
              "[ 250] orders/42 #7: waiting, retry -> asking\n"
              "[ 250] #7 attempts\n"
              "[ 250] orders/42 #7: asking, refused -> waiting\n"
              "[ 290] orders/42 #7: waiting, retry -> asking\n"
              "[ 290] #7 attempts\n"
              "[ 290] orders/42 #7: asking, granted -> held\n"
              "[ 290] #7 hears HF_OK\n");
}

TEST(a_wake_during_the_question_repeats_it)
{
    story_begin();
    ask(7, HF_MUTEX, FOR_EVER);
    wake(7);
    wake(7);
    refused(7, FOR_EVER);
    granted_for_ever(7);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, wake -> asking\n"
              "[   0] orders/42 #7: asking, wake -> asking\n"
              "[   0] orders/42 #7: asking, refused -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, granted -> held\n"
              "[   0] #7 hears HF_OK\n");
}

TEST(a_wake_after_the_grant_is_nothing)
{
    story_begin();
    ask(7, HF_MUTEX, FOR_EVER);
    granted_for_ever(7);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, granted -> held\n"
              "[   0] #7 hears HF_OK\n");
    wake(7);
    story_was("[   0] orders/42 #7: held, wake -> held\n");
}

TEST(the_deadline_is_kept_while_the_question_is_out)
{
    story_begin();
    ask(7, HF_MUTEX, 100);
    refused(7, 60);
    pass_ms(100);
    pass_ms(30);
    refused(7, 60);
    gone(7);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, refused -> waiting\n"
              "[  60] orders/42 #7: waiting, retry -> asking\n"
              "[  60] #7 attempts\n"
              "[ 101] orders/42 #7: asking, deadline -> asking\n"
              "[ 101] #7 hears HF_BUSY\n"
              "[ 130] orders/42 #7: asking, refused -> leaving\n"
              "[ 130] #7 releases\n"
              "[ 130] orders/42 #7: leaving, gone -> over\n");
}

TEST(the_deadline_is_kept_while_waiting)
{
    story_begin();
    ask(7, HF_MUTEX, 100);
    refused(7, FOR_EVER);
    pass_ms(150);
    gone(7);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, refused -> waiting\n"
              "[ 101] orders/42 #7: waiting, deadline -> leaving\n"
              "[ 101] #7 releases\n"
              "[ 101] #7 hears HF_BUSY\n"
              "[ 150] orders/42 #7: leaving, gone -> over\n");
}

/* A refusal of long ago does not say whether the store still answers. */
TEST(who_has_waited_for_long_looks_once_more_before_the_end)
{
    story_begin();
    ask(7, HF_MUTEX, 3000);
    refused(7, FOR_EVER);
    pass_ms(2100);
    refused(7, 50);
    pass_ms(60);
    refused(7, FOR_EVER);
    pass_ms(1000);
    gone(7);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, refused -> waiting\n"
              "[2001] orders/42 #7: waiting, retry -> asking\n"
              "[2001] #7 attempts\n"
              "[2100] orders/42 #7: asking, refused -> waiting\n"
              "[2150] orders/42 #7: waiting, retry -> asking\n"
              "[2150] #7 attempts\n"
              "[2160] orders/42 #7: asking, refused -> waiting\n"
              "[3001] orders/42 #7: waiting, deadline -> leaving\n"
              "[3001] #7 releases\n"
              "[3001] #7 hears HF_BUSY\n"
              "[3160] orders/42 #7: leaving, gone -> over\n");
}

TEST(a_store_that_is_silent_at_the_end_is_not_said_to_be_busy)
{
    story_begin();
    ask(7, HF_MUTEX, 3000);
    refused(7, FOR_EVER);
    pass_ms(4000);
    refused(7, FOR_EVER);
    gone(7);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, refused -> waiting\n"
              "[2001] orders/42 #7: waiting, retry -> asking\n"
              "[2001] #7 attempts\n"
              "[3001] orders/42 #7: asking, deadline -> asking\n"
              "[3001] #7 hears HF_UNREACHABLE\n"
              "[4000] orders/42 #7: asking, refused -> leaving\n"
              "[4000] #7 releases\n"
              "[4000] orders/42 #7: leaving, gone -> over\n");
}

TEST(a_late_grant_is_given_back)
{
    story_begin();
    ask(7, HF_MUTEX, 100);
    pass_ms(120);
    granted(7);
    gone(7);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[ 101] orders/42 #7: asking, deadline -> asking\n"
              "[ 101] #7 hears HF_UNREACHABLE\n"
              "[ 120] orders/42 #7: asking, granted -> leaving\n"
              "[ 120] #7 releases\n"
              "[ 120] orders/42 #7: leaving, gone -> over\n");
}

TEST(silence_then_an_answer)
{
    story_begin();
    ask(7, HF_MUTEX, 5000);
    pass_ms(60);
    silent(7);
    pass_ms(100);
    silent(7);
    pass_ms(150);
    granted_for_ever(7);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[  60] orders/42 #7: asking, no answer -> waiting\n"
              "[ 117] orders/42 #7: waiting, retry -> asking\n"
              "[ 117] #7 attempts\n"
              "[ 160] orders/42 #7: asking, no answer -> waiting\n"
              "[ 272] orders/42 #7: waiting, retry -> asking\n"
              "[ 272] #7 attempts\n"
              "[ 310] orders/42 #7: asking, granted -> held\n"
              "[ 310] #7 hears HF_OK\n");
}

TEST(silence_to_the_end)
{
    story_begin();
    ask(7, HF_MUTEX, 50);
    pass_ms(60);
    silent(7);
    silent(7);
    pass_ms(70);
    gone(7);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[  51] orders/42 #7: asking, deadline -> asking\n"
              "[  51] #7 hears HF_UNREACHABLE\n"
              "[  60] orders/42 #7: asking, no answer -> leaving\n"
              "[  60] #7 releases\n"
              "[  60] orders/42 #7: leaving, no answer -> leaving\n"
              "[ 117] orders/42 #7: leaving, retry -> leaving\n"
              "[ 117] #7 releases\n"
              "[ 130] orders/42 #7: leaving, gone -> over\n");
}

/* The first one's caller has left, and what it asked is still out. */
TEST(silence_is_told_to_those_behind_too)
{
    story_begin();
    ask(7, HF_MUTEX, 50);
    pass_ms(60);
    ask(8, HF_MUTEX, 50);
    pass_ms(60);
    ask(9, HF_MUTEX, 300);
    refused(7, FOR_EVER);
    gone(7);
    refused(9, FOR_EVER);
    pass_ms(301);
    gone(9);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[  51] orders/42 #7: asking, deadline -> asking\n"
              "[  51] #7 hears HF_UNREACHABLE\n"
              "[ 111] orders/42 #8: queued, deadline -> over\n"
              "[ 111] #8 hears HF_UNREACHABLE\n"
              "[ 120] orders/42 #7: asking, refused -> leaving\n"
              "[ 120] #7 releases\n"
              "[ 120] orders/42 #9: queued, turn -> asking\n"
              "[ 120] #9 attempts\n"
              "[ 120] orders/42 #7: leaving, gone -> over\n"
              "[ 120] orders/42 #9: asking, refused -> waiting\n"
              "[ 421] orders/42 #9: waiting, deadline -> leaving\n"
              "[ 421] #9 releases\n"
              "[ 421] #9 hears HF_BUSY\n"
              "[ 421] orders/42 #9: leaving, gone -> over\n");
}

/* Nor has the first one's own wait to be over. */
TEST(a_question_that_is_out_for_long_is_silence_to_those_behind)
{
    story_begin();
    ask(7, HF_MUTEX, 3000);
    ask(8, HF_MUTEX, 300);
    ask(9, HF_MUTEX, 700);
    pass_ms(701);
    CHECK(strstr(sentence_of(8), "held by other owners") != NULL);
    CHECK(strstr(sentence_of(9), "did not answer") != NULL);
    granted_for_ever(7);
    ask(8, HF_MUTEX, 300);
    refused(8, FOR_EVER);
    pass_ms(301);
    CHECK(strstr(sentence_of(8), "held by other owners") != NULL);
}

/* An error that is no answer counts only if the last second had no answer either. */
TEST(an_open_reply_within_a_second_of_a_refusal_is_no_silence)
{
    story_begin();
    ask(7, HF_MUTEX, 900);
    ask(8, HF_MUTEX, 880);
    ask(9, HF_MUTEX, 910);
    refused(7, 850);
    pass_ms(860);
    silent(7);
    pass_ms(45);
    silent(9);
    pass_ms(10);
    CHECK(strstr(sentence_of(8), "held by other owners") != NULL);
    CHECK(strstr(sentence_of(7), "held by other owners") != NULL);
    CHECK(strstr(sentence_of(9), "held by other owners") != NULL);
}

TEST(an_open_reply_more_than_a_second_after_a_refusal_is_silence)
{
    story_begin();
    ask(7, HF_MUTEX, 3000);
    ask(8, HF_MUTEX, 2990);
    refused(7, 1900);
    pass_ms(1900);
    refused(7, FOR_EVER);
    pass_ms(200);
    silent(7);
    pass_ms(901);
    CHECK(strstr(sentence_of(7), "the store says nothing") != NULL);
    CHECK(strstr(sentence_of(8), "did not answer") != NULL);
}

/* What the store replied before the wait began says nothing about the wait. */
TEST(a_short_wait_without_a_reply_is_silence_however_fresh_the_last_one)
{
    story_begin();
    ask(7, HF_MUTEX, 1);
    refused(7, FOR_EVER);
    pass_ms(2);
    ask(8, HF_MUTEX, 100);
    pass_ms(101);
    CHECK(strstr(sentence_of(8), "did not answer") != NULL);
}

/* It has asked by itself for a moment only, but the one before it had its answers. */
TEST(who_comes_to_the_head_late_knows_that_the_store_answers)
{
    story_begin();
    ask(7, HF_MUTEX, 900);
    ask(8, HF_MUTEX, 910);
    refused(7, FOR_EVER);
    pass_ms(901);
    gone(7);
    CHECK(strstr(sentence_of(7), "held by other owners") != NULL);
    pass_ms(10);
    CHECK(strstr(sentence_of(8), "held by other owners") != NULL);
    refused(8, FOR_EVER);
    gone(8);
    ask(7, HF_MUTEX, 600);
    ask(8, HF_MUTEX, 610);
    pass_ms(601);
    silent(7);
    pass_ms(10);
    CHECK(strstr(sentence_of(7), "did not answer") != NULL);
    CHECK(strstr(sentence_of(8), "did not answer") != NULL);
}

/* Its last second has no answer, and one question in it that was out for a moment. */
TEST(claim_that_comes_to_the_head_late_keeps_the_answer_of_long_before)
{
    story_begin();
    ask(7, HF_MUTEX, FOR_EVER);
    ask(8, HF_MUTEX, 1600);
    refused(7, FOR_EVER);
    pass_ms(1500);
    cancel(7);
    gone(7);
    pass_ms(101);
    CHECK(strstr(sentence_of(8), "held by other owners") != NULL);
}

/* The store's last words on why there was no answer stand until it gives one. */
TEST(the_last_silence_is_explained_to_the_end)
{
    story_begin();
    ask(7, HF_MUTEX, 100);
    silent(7);
    pass_ms(101);
    CHECK_STR(sentence_of(7), "the store says nothing");
    refused(7, FOR_EVER);
    gone(7);
    ask(8, HF_MUTEX, 100);
    silent(8);
    pass_ms(70);
    refused(8, FOR_EVER);
    pass_ms(31);
    CHECK(strstr(sentence_of(8), "held by other owners") != NULL);
    gone(8);
    ask(9, HF_MUTEX, 100);
    silent(9);
    pass_ms(70);
    granted_for_ever(9);
    CHECK_STR(sentence_of(9), "");
}

TEST(a_bare_try_leaves_nothing_to_release)
{
    story_begin();
    ask(7, HF_MUTEX, 0);
    refused(7, FOR_EVER);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts, once\n"
              "[   0] orders/42 #7: asking, refused -> over\n"
              "[   0] #7 hears HF_BUSY\n");
    ask(7, HF_MUTEX, 0);
    silent(7);
    gone(7);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts, once\n"
              "[   0] orders/42 #7: asking, no answer -> leaving\n"
              "[   0] #7 releases\n"
              "[   0] #7 hears HF_UNREACHABLE\n"
              "[   0] orders/42 #7: leaving, gone -> over\n");
}

TEST(a_store_that_says_no_is_not_asked_again)
{
    story_begin();
    ask(7, HF_MUTEX, FOR_EVER);
    failed(7, HF_DENIED);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, failed -> over\n"
              "[   0] #7 hears HF_DENIED\n");
}

TEST(cancelled_in_every_state)
{
    story_begin();
    ask(1, HF_MUTEX, FOR_EVER);
    ask(2, HF_MUTEX, FOR_EVER);
    cancel(2);
    story_was("[   0] orders/42 #1: queued, turn -> asking\n"
              "[   0] #1 attempts\n"
              "[   0] orders/42 #2: queued, end -> over\n"
              "[   0] #2 hears HF_CANCELED\n");
    cancel(1);
    granted_for_ever(1);
    gone(1);
    story_was("[   0] orders/42 #1: asking, end -> asking\n"
              "[   0] #1 hears HF_CANCELED\n"
              "[   0] orders/42 #1: asking, granted -> leaving\n"
              "[   0] #1 releases\n"
              "[   0] orders/42 #1: leaving, gone -> over\n");
    ask(3, HF_MUTEX, FOR_EVER);
    refused(3, FOR_EVER);
    cancel(3);
    cancel(3);
    gone(3);
    story_was("[   0] orders/42 #3: queued, turn -> asking\n"
              "[   0] #3 attempts\n"
              "[   0] orders/42 #3: asking, refused -> waiting\n"
              "[   0] orders/42 #3: waiting, end -> leaving\n"
              "[   0] #3 releases\n"
              "[   0] #3 hears HF_CANCELED\n"
              "[   0] orders/42 #3: leaving, gone -> over\n");
    ask(4, HF_MUTEX, FOR_EVER);
    granted_for_ever(4);
    cancel(4);
    give_back(4);
    cancel(4);
    gone(4);
    cancel(4);
    story_was("[   0] orders/42 #4: queued, turn -> asking\n"
              "[   0] #4 attempts\n"
              "[   0] orders/42 #4: asking, granted -> held\n"
              "[   0] #4 hears HF_OK\n"
              "[   0] orders/42 #4: held, lower -> leaving\n"
              "[   0] #4 releases\n"
              "[   0] orders/42 #4: leaving, gone -> over\n");
}
