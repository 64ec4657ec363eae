/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: renewed at a third, lost by our clock or by the store's word, granted too late. */
#include "story.h"

TEST(renewed_at_a_third_and_after_silence_at_a_sixth)
{
    story_begin();
    ask(7, HF_MUTEX, FOR_EVER);
    pass_ms(4);
    granted(7);
    CHECK_INT(hf_remaining_ms(hold_of(7)), 984);
    pass_ms(340);
    renewed(7, true);
    CHECK_INT(hf_remaining_ms(hold_of(7)), 977);
    pass_ms(500);
    CHECK(hf_held(hold_of(7)));
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[   4] orders/42 #7: asking, granted -> held\n"
              "[   4] #7 hears HF_OK\n"
              "[ 333] #7 renews\n"
              "[ 666] #7 renews\n"
              "[ 832] #7 renews\n");
}

TEST(lost_while_held)
{
    story_begin();
    ask(7, HF_MUTEX, FOR_EVER);
    granted(7);
    pass_ms(987);
    CHECK(hf_held(hold_of(7)));
    pass_ms(1);
    CHECK(!hf_held(hold_of(7)));
    renewed(7, true);
    CHECK(!hf_held(hold_of(7)));
    pass_ms(5000);
    give_back(7);
    gone(7);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, granted -> held\n"
              "[   0] #7 hears HF_OK\n"
              "[ 333] #7 renews\n"
              "[ 499] #7 renews\n"
              "[ 665] #7 renews\n"
              "[ 831] #7 renews\n"
              "[ 988] #7 is told of its loss: its lease could not be renewed in time\n"
              "[5988] orders/42 #7: held, lower -> leaving\n"
              "[5988] #7 releases\n"
              "[5988] orders/42 #7: leaving, gone -> over\n");
}

TEST(lost_by_the_word_of_the_store)
{
    story_begin();
    ask(7, HF_MUTEX, FOR_EVER);
    granted(7);
    pass_ms(333);
    renewed(7, false);
    CHECK(!hf_held(hold_of(7)));
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, granted -> held\n"
              "[   0] #7 hears HF_OK\n"
              "[ 333] #7 renews\n"
              "[ 333] #7 is told of its loss: the store says that it is no longer ours\n");
}

TEST(a_paused_client_does_not_believe)
{
    story_begin();
    ask(7, HF_MUTEX, FOR_EVER);
    granted(7);
    pause_ms(988);
    CHECK(!hf_held(hold_of(7)));
    CHECK_INT(hf_remaining_ms(hold_of(7)), 0);
    pass_ms(0);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, granted -> held\n"
              "[   0] #7 hears HF_OK\n"
              "[ 988] #7 is told of its loss: its lease could not be renewed in time\n");
}

TEST(a_fixed_lease_is_never_renewed)
{
    story_begin();
    ask_leased(7, HF_MUTEX, FOR_EVER, 300);
    granted(7);
    CHECK_INT(hf_remaining_ms(hold_of(7)), 295);
    pass_ms(294);
    CHECK(hf_held(hold_of(7)));
    pass_ms(1);
    CHECK(!hf_held(hold_of(7)));
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, granted -> held\n"
              "[   0] #7 hears HF_OK\n"
              "[ 295] #7 is told of its loss: its lease is over\n");
}

TEST(a_place_in_the_queue_is_renewed_and_taken_anew)
{
    story_begin();
    ask(7, HF_MUTEX, FOR_EVER);
    refused_with_place(7);
    pass_ms(333);
    renewed(7, true);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, refused -> waiting\n"
              "[ 333] #7 renews\n");
    pass_ms(333);
    renewed(7, false);
    refused_with_place(7);
    story_was("[ 666] #7 renews\n"
              "[ 666] orders/42 #7: waiting, lease lost -> asking\n"
              "[ 666] #7 attempts\n"
              "[ 666] orders/42 #7: asking, refused -> waiting\n");
}

TEST(a_grant_after_its_own_end_asks_again)
{
    story_begin();
    ask(7, HF_MUTEX, FOR_EVER);
    pause_ms(990);
    granted(7);
    gone(7);
    granted(7);
    CHECK(hf_held(hold_of(7)));
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[ 990] orders/42 #7: asking, granted -> leaving\n"
              "[ 990] #7 releases\n"
              "[ 990] orders/42 #7: leaving, gone -> asking\n"
              "[ 990] #7 attempts\n"
              "[ 990] orders/42 #7: asking, granted -> held\n"
              "[ 990] #7 hears HF_OK\n");
}

TEST(a_grant_after_its_own_end_and_the_callers)
{
    story_begin();
    ask(7, HF_MUTEX, 1500);
    pass_ms(990);
    granted(7);
    pass_ms(600);
    gone(7);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[ 990] orders/42 #7: asking, granted -> leaving\n"
              "[ 990] #7 releases\n"
              "[1501] orders/42 #7: leaving, deadline -> leaving\n"
              "[1501] #7 hears HF_UNREACHABLE\n"
              "[1590] orders/42 #7: leaving, gone -> over\n");
}

/* Its wait ends while the store is asked again, and that of the one behind it as well. */
TEST(a_wait_with_late_grants_only_ends_unreachable)
{
    story_begin();
    ask(7, HF_MUTEX, 2500);
    ask(8, HF_MUTEX, 2510);
    for (int i = 0; i < 2; i++) {
        pass_ms(1000);
        granted(7);
        pass_ms(200);
        gone(7);
    }
    pass_ms(111);
    CHECK(strstr(sentence_of(7), "\"orders/42\": replies take longer than the lease of 1000 ms;"));
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[1000] orders/42 #7: asking, granted -> leaving\n"
              "[1000] #7 releases\n"
              "[1200] orders/42 #7: leaving, gone -> asking\n"
              "[1200] #7 attempts\n"
              "[2200] orders/42 #7: asking, granted -> leaving\n"
              "[2200] #7 releases\n"
              "[2400] orders/42 #7: leaving, gone -> asking\n"
              "[2400] #7 attempts\n"
              "[2501] orders/42 #7: asking, deadline -> asking\n"
              "[2501] #7 hears HF_UNREACHABLE\n"
              "[2511] orders/42 #8: queued, deadline -> over\n"
              "[2511] #8 hears HF_UNREACHABLE\n");
    granted(7);
    gone(7);
}

TEST(a_refusal_after_a_late_grant_is_busy)
{
    story_begin();
    ask(7, HF_MUTEX, 1400);
    pass_ms(1000);
    granted(7);
    gone(7);
    refused(7, FOR_EVER);
    pass_ms(401);
    CHECK(strstr(sentence_of(7), "held by other owners"));
    refused(7, FOR_EVER);
    gone(7);
}

TEST(a_bare_try_with_late_grants_only_ends_unreachable)
{
    story_begin();
    ask(7, HF_MUTEX, 0);
    for (int i = 0; !*sentence_of(7) && i < 60; i++) {
        pass_ms(1000);
        granted(7);
        gone(7);
        pass_ms(1);
    }
    CHECK(strstr(sentence_of(7), "replies take longer than the lease of 1000 ms;"));
}

/* The session in which it took its place ended unnoticed, and the next question found another. */
TEST(a_place_moves_to_a_new_session)
{
    story_begin();
    ask(7, HF_MUTEX, FOR_EVER);
    refused_in_session(7, 0);
    wake(7);
    refused_in_session(7, 1);
    session_renewed(0, false);
    pass_ms(400);
    session_renewed(1, false);
    granted_in_session(7, 0);
    give_back(7);
    gone(7);
    pass_ms(1000);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, refused -> waiting\n"
              "[   0] orders/42 #7: waiting, wake -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, refused -> waiting\n"
              "[ 333] session 1 is renewed\n"
              "[ 400] orders/42 #7: waiting, lease lost -> asking\n"
              "[ 400] #7 attempts\n"
              "[ 400] orders/42 #7: asking, granted -> held\n"
              "[ 400] #7 hears HF_OK\n"
              "[ 400] orders/42 #7: held, lower -> leaving\n"
              "[ 400] #7 releases\n"
              "[ 400] orders/42 #7: leaving, gone -> over\n");
}
