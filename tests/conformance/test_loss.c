/* SPDX-License-Identifier: Apache-2.0 */
/* Losses in odd places: an expired hold is not re-entered, and on_lost may give holds back. */
#include "conformance.h"

/* Owner 1 of `client` has a lease that runs out, and somebody else is granted the name. */
static void check_no_reentry(hf_client *client)
{
    hf_client *other = open_client();
    hf_hold *expired, *next;

    CHECK_CODE(hf_lock(client, name_of("one"), 0,
                       LOCK_OPTIONS(.lease_ms = short_lease(50), .owner = 1), &expired),
               HF_OK);
    CHECK_CODE(hf_lock(other, name_of("one"), SOON_MS, NULL, &next), HF_OK);
    CHECK_CODE(probe(client, name_of("one"), HF_MUTEX, 1), HF_BUSY);
    give_back(next);
    hf_hold *fresh = take(client, name_of("one"), HF_MUTEX, 1);
    CHECK(!hf_held(expired) && hf_held(fresh));
    CHECK_CODE(probe(other, name_of("one"), HF_MUTEX, 0), HF_BUSY);
    give_back(fresh);
    CHECK_CODE(probe(other, name_of("one"), HF_MUTEX, 0), HF_OK);
    hf_close(other);
}

/* What has expired is not re-entered, although no loop has turned since. */
TEST(an_expired_hold_is_not_reentered_without_a_thread)
{
    hf_client *client = open_client_with((hf_client_options){ .driver = HF_DRIVE_CALLER });

    check_no_reentry(client);
    hf_close(client);
}

struct stopper {
    _Atomic int entered, leave;
};

static void stop_the_loop(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct stopper *stopper = arg;

    (void)error;
    CHECK_INT(code, HF_OK);
    stopper->entered = 1;
    EVENTUALLY(stopper->leave, SOON_MS);
    hf_unlock_nowait(hold);
}

/* Nor is it while the client's thread is late, and could not say yet that it was lost. */
TEST(an_expired_hold_is_not_reentered_while_the_loop_is_late)
{
    struct stopper stopper = { 0 };

    if (!store_is_local())
        SKIP("only local: locks without its loop");
    hf_client *client = open_client();
    CHECK_CODE(hf_lock_async(client, name_of("two"), 0, NULL, stop_the_loop, &stopper, NULL),
               HF_OK);
    EVENTUALLY(stopper.entered, SOON_MS);
    check_no_reentry(client);
    stopper.leave = 1;
    hf_close(client);
}

static void unlock_in_callback(void *arg, const hf_loss *loss)
{
    (void)loss;
    hf_unlock_nowait(*(hf_hold **)arg);
}

/* An on_lost that gives its own hold back does not keep the nested hold from hearing of the loss,
 * nor from being given back. */
TEST(on_lost_gives_its_own_hold_back_and_a_nested_one_remains)
{
    hf_client *client = open_client(), *other = open_client();
    _Atomic int losses = 0;
    hf_hold *outer, *nested;

    need(client, HF_CAP_RW | HF_CAP_BREAK);
    CHECK_CODE(
        hf_lock(client, name_of("rw"), 0,
                LOCK_OPTIONS(.mode = HF_WRITE, .on_lost = unlock_in_callback, .lost_arg = &outer),
                &outer),
        HF_OK);
    CHECK_CODE(hf_lock(client, name_of("rw"), 0,
                       LOCK_OPTIONS(.mode = HF_READ, .on_lost = count_loss, .lost_arg = &losses),
                       &nested),
               HF_OK);
    CHECK_CODE(hf_break(other, name_of("rw"), NULL, NULL), HF_OK);
    EVENTUALLY(losses == 1, SOON_MS);
    CHECK(!hf_held(nested));
    CHECK_CODE(hf_unlock(nested), HF_LOST);
    CHECK_INT(losses, 1);
    hf_close(client);
    hf_close(other);
}
