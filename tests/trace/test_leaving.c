/* SPDX-License-Identifier: Apache-2.0 */
/* Giving back, upgrading, lowering, and the turn that passes in the entry. */
#include "story.h"

TEST(a_release_is_repeated_after_silence)
{
    story_begin();
    ask(7, HF_MUTEX, FOR_EVER);
    granted_for_ever(7);
    give_back(7);
    silent(7);
    pass_ms(70);
    silent(7);
    pass_ms(130);
    gone(7);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, granted -> held\n"
              "[   0] #7 hears HF_OK\n"
              "[   0] orders/42 #7: held, lower -> leaving\n"
              "[   0] #7 releases\n"
              "[   0] orders/42 #7: leaving, no answer -> leaving\n"
              "[  51] orders/42 #7: leaving, retry -> leaving\n"
              "[  51] #7 releases\n"
              "[  70] orders/42 #7: leaving, no answer -> leaving\n"
              "[ 176] orders/42 #7: leaving, retry -> leaving\n"
              "[ 176] #7 releases\n"
              "[ 200] orders/42 #7: leaving, gone -> over\n");
}

TEST(a_release_that_nobody_hears_ends_with_the_lease)
{
    story_begin();
    ask(7, HF_MUTEX, FOR_EVER);
    granted(7);
    give_back(7);
    pass_ms(1000);
    silent(7);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, granted -> held\n"
              "[   0] #7 hears HF_OK\n"
              "[   0] orders/42 #7: held, lower -> leaving\n"
              "[   0] #7 releases\n"
              "[1000] orders/42 #7: leaving, no answer -> over\n");
}

TEST(raised_in_place)
{
    story_begin();
    ask(7, HF_UPGRADE, FOR_EVER);
    granted_for_ever(7);
    ask(7, HF_WRITE, FOR_EVER);
    refused(7, FOR_EVER);
    wake(7);
    granted_for_ever(7);
    CHECK_INT(hf_hold_mode(hold_of(7)), HF_WRITE);
    give_back(7);
    gone(7);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, granted -> held\n"
              "[   0] #7 hears HF_OK\n"
              "[   0] orders/42 #7: held, raise -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, refused -> waiting\n"
              "[   0] orders/42 #7: waiting, wake -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, granted -> held\n"
              "[   0] #7 hears HF_OK\n"
              "[   0] orders/42 #7: held, lower -> leaving\n"
              "[   0] #7 releases, but for upgrade\n"
              "[   0] orders/42 #7: leaving, gone -> held\n");
}

TEST(a_raise_that_is_given_up_keeps_what_was_held)
{
    story_begin();
    ask(7, HF_UPGRADE, FOR_EVER);
    granted_for_ever(7);
    ask(7, HF_WRITE, 50);
    refused(7, FOR_EVER);
    pass_ms(60);
    gone(7);
    CHECK(hf_held(hold_of(7)));
    CHECK_INT(hf_hold_mode(hold_of(7)), HF_UPGRADE);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, granted -> held\n"
              "[   0] #7 hears HF_OK\n"
              "[   0] orders/42 #7: held, raise -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, refused -> waiting\n"
              "[  51] orders/42 #7: waiting, deadline -> leaving\n"
              "[  51] #7 releases, but for upgrade\n"
              "[  51] #7 hears HF_BUSY\n"
              "[  60] orders/42 #7: leaving, gone -> held\n");
}

TEST(a_raise_meets_the_loss)
{
    story_begin();
    ask(7, HF_UPGRADE, FOR_EVER);
    granted(7);
    ask(7, HF_WRITE, FOR_EVER);
    refused(7, FOR_EVER);
    pass_ms(988);
    gone(7);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, granted -> held\n"
              "[   0] #7 hears HF_OK\n"
              "[   0] orders/42 #7: held, raise -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, refused -> waiting\n"
              "[ 333] #7 renews\n"
              "[ 499] #7 renews\n"
              "[ 665] #7 renews\n"
              "[ 831] #7 renews\n"
              "[ 988] #7 is told of its loss: its lease could not be renewed in time\n"
              "[ 988] orders/42 #7: waiting, lease lost -> leaving\n"
              "[ 988] #7 releases, but for upgrade\n"
              "[ 988] #7 hears HF_LOST\n"
              "[ 988] orders/42 #7: leaving, gone -> held\n");
}

TEST(lowered_by_giving_back_the_stronger_hold)
{
    story_begin();
    ask(7, HF_WRITE, FOR_EVER);
    granted_for_ever(7);
    hf_hold *write = hold_of(7);
    ask(7, HF_READ, FOR_EVER);
    hf_unlock_nowait(write);
    pass_ms(1);
    gone(7);
    CHECK_INT(hf_hold_mode(hold_of(7)), HF_READ);
    give_back(7);
    gone(7);
    story_was("[   0] orders/42 #7: queued, turn -> asking\n"
              "[   0] #7 attempts\n"
              "[   0] orders/42 #7: asking, granted -> held\n"
              "[   0] #7 hears HF_OK\n"
              "[   0] #7 hears HF_OK\n"
              "[   0] orders/42 #7: held, lower -> leaving\n"
              "[   0] #7 releases, but for read\n"
              "[   1] orders/42 #7: leaving, gone -> held\n"
              "[   1] orders/42 #7: held, lower -> leaving\n"
              "[   1] #7 releases\n"
              "[   1] orders/42 #7: leaving, gone -> over\n");
}

TEST(the_turn_passes_in_the_gate)
{
    story_begin();
    ask(1, HF_MUTEX, FOR_EVER);
    ask(2, HF_MUTEX, FOR_EVER);
    ask(3, HF_MUTEX, 40);
    granted_for_ever(1);
    refused(2, FOR_EVER);
    pass_ms(50);
    give_back(1);
    gone(1);
    wake(2);
    granted_for_ever(2);
    story_was("[   0] orders/42 #1: queued, turn -> asking\n"
              "[   0] #1 attempts\n"
              "[   0] orders/42 #1: asking, granted -> held\n"
              "[   0] #1 hears HF_OK\n"
              "[   0] orders/42 #2: queued, turn -> asking\n"
              "[   0] #2 attempts\n"
              "[   0] orders/42 #2: asking, refused -> waiting\n"
              "[  41] orders/42 #3: queued, deadline -> over\n"
              "[  41] #3 hears HF_BUSY\n"
              "[  50] orders/42 #1: held, lower -> leaving\n"
              "[  50] #1 releases\n"
              "[  50] orders/42 #1: leaving, gone -> over\n"
              "[  50] orders/42 #2: waiting, wake -> asking\n"
              "[  50] #2 attempts\n"
              "[  50] orders/42 #2: asking, granted -> held\n"
              "[  50] #2 hears HF_OK\n");
}

TEST(whoever_ends_gives_the_turn_on)
{
    story_begin();
    ask(1, HF_MUTEX, 20);
    ask(2, HF_MUTEX, FOR_EVER);
    pass_ms(25);
    silent(1);
    granted_for_ever(2);
    pass_ms(100);
    gone(1);
    story_was("[   0] orders/42 #1: queued, turn -> asking\n"
              "[   0] #1 attempts\n"
              "[  21] orders/42 #1: asking, deadline -> asking\n"
              "[  21] #1 hears HF_UNREACHABLE\n"
              "[  25] orders/42 #1: asking, no answer -> leaving\n"
              "[  25] #1 releases\n"
              "[  25] orders/42 #2: queued, turn -> asking\n"
              "[  25] #2 attempts\n"
              "[  25] orders/42 #2: asking, granted -> held\n"
              "[  25] #2 hears HF_OK\n"
              "[ 125] orders/42 #1: leaving, gone -> over\n");
}
