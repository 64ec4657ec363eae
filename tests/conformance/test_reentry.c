/* SPDX-License-Identifier: Apache-2.0 */
/* Re-entry: the owner that holds a name gets it again at once; the last unlock gives it back. */
#include "conformance.h"

TEST(the_same_thread_enters_again)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *holds[50];

    for (int i = 0; i < 50; i++) {
        holds[i] = take(client, name_of("one"), HF_MUTEX, 0);
        CHECK(i == 0 || holds[i] != holds[0]);
        CHECK(hf_token(holds[i]) == hf_token(holds[0]));
    }
    for (int i = 0; i < 50; i++) {
        CHECK_CODE(probe(other, name_of("one"), HF_MUTEX, 0), HF_BUSY);
        CHECK(hf_held(holds[i]));
        give_back(holds[i]);
    }
    CHECK_CODE(probe(other, name_of("one"), HF_MUTEX, 0), HF_OK);
    hf_close(client);
    hf_close(other);
}

TEST(the_order_of_unlocking_does_not_matter)
{
    static const int orders[][3] = { { 0, 1, 2 }, { 2, 1, 0 }, { 1, 0, 2 }, { 0, 2, 1 } };
    hf_client *client = open_client(), *other = open_client();

    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        hf_hold *holds[3];
        for (int k = 0; k < 3; k++)
            holds[k] = take(client, name_of("one"), HF_MUTEX, 0);
        for (int k = 0; k < 3; k++) {
            CHECK_CODE(probe(other, name_of("one"), HF_MUTEX, 0), HF_BUSY);
            if (k % 2 == 0)
                give_back(holds[orders[i][k]]);
            else
                hf_unlock_nowait(holds[orders[i][k]]);
        }
        CHECK_CODE(probe(other, name_of("one"), HF_MUTEX, 0), HF_OK);
    }
    hf_close(client);
    hf_close(other);
}

static void try_in_thread(void *arg, int index)
{
    (void)index;
    CHECK_CODE(probe(arg, name_of("one"), HF_MUTEX, 0), HF_BUSY);
}

TEST(another_thread_is_another_owner)
{
    hf_client *client = open_client();
    hf_hold *mine = take(client, name_of("one"), HF_MUTEX, 0);

    threads_run(4, try_in_thread, client);
    give_back(mine);
    hf_close(client);
}

TEST(owners_may_be_numbered)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *first = take(client, name_of("one"), HF_MUTEX, 42);
    hf_hold *second = take(client, name_of("one"), HF_MUTEX, 42);

    CHECK_CODE(probe(client, name_of("one"), HF_MUTEX, 43), HF_BUSY);
    CHECK_CODE(probe(client, name_of("one"), HF_MUTEX, 0), HF_BUSY);
    CHECK_CODE(probe(client, name_of("one"), HF_MUTEX, (UINT64_C(1) << 62) - 1), HF_BUSY);
    CHECK_CODE(probe(other, name_of("one"), HF_MUTEX, 42), HF_BUSY);
    give_back(first);
    CHECK_CODE(probe(client, name_of("one"), HF_MUTEX, 43), HF_BUSY);
    give_back(second);
    CHECK_CODE(probe(client, name_of("one"), HF_MUTEX, 43), HF_OK);
    hf_close(client);
    hf_close(other);
}

static void enter_as_77(void *arg, int index)
{
    (void)index;
    CHECK_CODE(probe(arg, name_of("one"), HF_MUTEX, 77), HF_OK);
}

TEST(a_numbered_owner_enters_from_any_thread)
{
    hf_client *client = open_client();
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 77);

    threads_run(4, enter_as_77, client);
    CHECK(hf_held(hold));
    CHECK_CODE(probe(client, name_of("one"), HF_MUTEX, 0), HF_BUSY);
    give_back(hold);
    hf_close(client);
}

TEST(the_holder_enters_while_others_wait)
{
    struct peer peer;
    peer_start(&peer);
    hf_client *client = open_client();
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_READ, HF_WRITE };

    need(client, HF_CAP_INSPECT | HF_CAP_FAIR | HF_CAP_RW);
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        hf_mode against = modes[i] == HF_READ ? HF_WRITE : modes[i];
        hf_hold *outer = take(client, name_of("one"), modes[i], 0);
        peer_begin(&peer, 0, name_of("one"), HF_FOREVER, LOCK_OPTIONS(.mode = against));
        EVENTUALLY(waiters(client, name_of("one")) == 1, SOON_MS);
        hf_hold *inner = take(client, name_of("one"), modes[i], 0);
        give_back(outer);
        CHECK(hf_held(inner));
        CHECK_INT(waiters(client, name_of("one")), 1);
        give_back(inner);
        CHECK_CODE(peer_answer(&peer), HF_OK);
        CHECK_CODE(peer_unlock(&peer, 0), HF_OK);
    }
    hf_close(client);
    peer_end(&peer);
}

TEST(permits_are_never_re_entered)
{
    hf_client *client = open_client();
    hf_hold *first, *second, *third;

    need(client, HF_CAP_PERMIT);
    CHECK_CODE(hf_semaphore_set(client, name_of("sem"), 2), HF_OK);
    first = take(client, name_of("sem"), HF_PERMIT, 5);
    second = take(client, name_of("sem"), HF_PERMIT, 5);
    CHECK_CODE(
        hf_lock(client, name_of("sem"), 0, LOCK_OPTIONS(.mode = HF_PERMIT, .owner = 5), &third),
        HF_BUSY);
    give_back(first);
    third = take(client, name_of("sem"), HF_PERMIT, 5);
    give_back(second);
    give_back(third);
    hf_close(client);
}

TEST(one_owner_holds_many_names)
{
    hf_client *client = open_client();
    hf_hold *one = take(client, name_of("one"), HF_MUTEX, 0);
    hf_hold *two = take(client, name_of("two"), HF_MUTEX, 0);

    give_back(one);
    CHECK(hf_held(two));
    give_back(two);
    hf_close(client);
}

/* ---- owners that do not re-enter ---- */

TEST(owner_new_is_another_owner_in_each_call)
{
    hf_client *client = open_client();
    struct outcome outcome = { 0 };
    hf_hold *first, *second = NULL;

    CHECK_CODE(hf_lock(client, name_of("one"), 0, &HF_LOCK_OPTIONS(.owner = HF_OWNER_NEW), &first),
               HF_OK);
    CHECK_CODE(hf_lock(client, name_of("one"), 0, &HF_LOCK_OPTIONS(.owner = HF_OWNER_NEW), &second),
               HF_BUSY);
    CHECK_CODE(hf_lock(client, name_of("one"), 0, NULL, &second), HF_BUSY);
    CHECK_CODE(hf_lock_async(client, name_of("one"), 0, &HF_LOCK_OPTIONS(.owner = HF_OWNER_NEW),
                             record_outcome, &outcome, NULL),
               HF_OK);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_BUSY);
    give_back(first);
    CHECK_CODE(hf_lock(client, name_of("one"), 0, &HF_LOCK_OPTIONS(.owner = HF_OWNER_NEW), &second),
               HF_OK);
    give_back(second);
    hf_close(client);
}

TEST(owner_new_waits_for_another_hold_of_its_thread)
{
    hf_client *client = open_client();
    struct outcome outcome = { 0 };
    hf_hold *first = take(client, name_of("one"), HF_MUTEX, 0);

    CHECK_CODE(hf_lock_async(client, name_of("one"), HF_FOREVER,
                             &HF_LOCK_OPTIONS(.owner = HF_OWNER_NEW), record_outcome, &outcome,
                             NULL),
               HF_OK);
    let_pass_ms(100);
    CHECK_INT(outcome.calls, 0);
    give_back(first);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_OK);
    give_back(outcome.hold);
    hf_close(client);
}

TEST(no_reentry_answers_deadlk_where_the_owner_holds_it)
{
    hf_client *client = open_client();
    hf_hold *first, *second = NULL;

    CHECK_CODE(hf_lock(client, name_of("one"), 0, &HF_LOCK_OPTIONS(.no_reentry = true), &first),
               HF_OK);
    CHECK_ERROR(
        hf_lock(client, name_of("one"), SOON_MS, &HF_LOCK_OPTIONS(.no_reentry = true), &second),
        HF_EDEADLK);
    CHECK(second == NULL);
    CHECK(hf_held(first));
    /* Another owner just has to wait. */
    CHECK_CODE(hf_lock(client, name_of("one"), 0, &HF_LOCK_OPTIONS(.owner = 9, .no_reentry = true),
                       &second),
               HF_BUSY);
    give_back(first);
    CHECK_CODE(hf_lock(client, name_of("one"), 0, &HF_LOCK_OPTIONS(.no_reentry = true), &second),
               HF_OK);
    give_back(second);
    hf_close(client);
}

TEST(store_without_upgrades_says_why)
{
    hf_client *client = open_client();
    hf_hold *hold = NULL;
    bool reads = hf_caps(client) & HF_CAP_RW;

    if (hf_caps(client) & HF_CAP_UPGRADE)
        SKIP("this store has them");
    CHECK_ERROR(hf_lock(client, name_of("rw"), 0, LOCK_OPTIONS(.mode = HF_UPGRADE), &hold),
                HF_ENOTSUP);
    CHECK(strstr(hf_last_error()->text, reads ? "take HF_WRITE" : "take HF_MUTEX"));
    if (reads) {
        hold = take(client, name_of("rw"), HF_WRITE, 1);
        CHECK_ERROR(hf_downgrade(hold, HF_UPGRADE), HF_ENOTSUP);
        CHECK_INT(hf_hold_mode(hold), HF_WRITE);
        CHECK(hf_held(hold));
        CHECK_CODE(hf_downgrade(hold, HF_READ), HF_OK);
        CHECK_ERROR(hf_upgrade(hold, 0), HF_EDEADLK);
        CHECK(hf_held(hold));
        give_back(hold);
    }
    hf_close(client);
}
