/* Looking again before sleeping: as long as it brings answers, and now and then to see if it would.
 */
#include "core/busy_poll.h"

#include "test.h"

static void wait_in_vain(struct hf_busy_poll *poll)
{
    for (unsigned i = 0; i < HF_BUSY_POLL_MOST; i++)
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
    CHECK_INT(given_up_after, HF_BUSY_POLL_MOST / 2);
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
    for (unsigned i = 0; i < HF_BUSY_POLL_MOST; i++) {
        CHECK(hf__busy_poll_pays(&poll));
        hf__busy_poll_ended(&poll, true);
    }
    CHECK_INT(poll.worth, HF_BUSY_POLL_MOST);
}

/* A lock that is contended and given back: each second answer comes soon. */
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
