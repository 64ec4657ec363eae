/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that turn the loop in the place of the client's thread: it sleeps meanwhile, and yet is the
 * one that tells the program what it wants to be told. */
#include "conformance.h"

#define LEASE_MS 3000

static hf_client *open_threaded(void)
{
    hf_client *client = open_client();

    if (store_is_local())
        SKIP("local: asks on the calling thread, without a loop");
    return client;
}

static void warm_up(hf_client *client)
{
    for (int i = 0; i < 8; i++)
        give_back(take_patiently(client, name_of("warm")));
}

static bool leaves_the_thread_alone(hf_client *client)
{
    long before = switches_of_others();

    for (int i = 0; i < 50; i++)
        give_back(take_patiently(client, name_of("one")));
    for (int i = 0; i < 50; i++)
        hf_unlock_nowait(take_patiently(client, name_of("one")));
    return switches_of_others() - before < 40;
}

/* The thread looks after them now and then, a hundred times a second; so it matters how long they
 * take, and the machine may stand still in between. */
TEST(calls_in_a_row_do_not_wake_the_clients_thread)
{
    if (store_has_threads())
        SKIP("a connection of this store has a thread");
    hf_client *client = open_threaded();

    EVENTUALLY(leaves_the_thread_alone(client), SOON_MS);
    hf_close(client);
}

struct told {
    _Atomic int calls;
    _Atomic pthread_t thread;
};

static void note_loss(void *arg, const hf_loss *loss)
{
    struct told *told = arg;

    CHECK_STR(loss->name, name_of("mine"));
    told->thread = pthread_self();
    told->calls++;
}

struct waiter {
    hf_client *client;
    struct thread thread;
    _Atomic bool begun;
    int code;
};

/* Calls in a row first, so that it is likely to have the loop when it waits. */
static void wait_for_long(void *arg)
{
    struct waiter *waiter = arg;
    hf_hold *hold = NULL;

    warm_up(waiter->client);
    waiter->begun = true;
    waiter->code =
        hf_lock(waiter->client, name_of("theirs"), HF_FOREVER, LOCK_OPTIONS(NO_LOOK), &hold);
    if (waiter->code == HF_OK)
        give_back(hold);
}

static void wait_beside(struct waiter *waiter, hf_client *client)
{
    *waiter = (struct waiter){ .client = client };
    thread_start(&waiter->thread, wait_for_long, waiter);
    EVENTUALLY(waiter->begun, SOON_MS);
}

/* With the lock's own end, and with a break, at any time of the wait. */
TEST(who_waits_runs_no_callback_of_the_program)
{
    client_lease_ms = LEASE_MS / 2;
    hf_client *client = open_threaded(), *other = open_client();

    need(client, HF_CAP_BREAK);
    for (int i = 0; i < 6; i++) {
        struct waiter waiter;
        struct told told = { 0 };
        struct outcome outcome = { 0 };
        hf_hold *theirs = take(other, name_of("theirs"), HF_MUTEX, 0), *mine;
        CHECK_CODE(hf_lock(client, name_of("mine"), SOON_MS,
                           LOCK_OPTIONS(.lease_ms = i % 2 ? 0 : short_lease(60),
                                        .on_lost = note_loss, .lost_arg = &told),
                           &mine),
                   HF_OK);
        wait_beside(&waiter, client);
        let_pass_ms(i * 15);
        CHECK_CODE(
            hf_lock_async(client, name_of("asked"), SOON_MS, NULL, record_outcome, &outcome, NULL),
            HF_OK);
        if (i % 2)
            CHECK_CODE(hf_break(other, name_of("mine"), NULL, NULL), HF_OK);
        WAIT_OUTCOME(&outcome);
        CHECK_CODE(outcome.code, HF_OK);
        EVENTUALLY(told.calls == 1, 2 * SOON_MS);
        CHECK(pthread_equal(outcome.thread, told.thread));
        CHECK(!pthread_equal(told.thread, pthread_self()));
        CHECK(!pthread_equal(told.thread, waiter.thread.id));
        give_back(outcome.hold);
        hf_unlock(mine);
        hf_unlock(theirs);
        thread_join(&waiter.thread);
        CHECK_CODE(waiter.code, HF_OK);
    }
    hf_close(client);
    hf_close(other);
}

static void count_renewals(void *arg, const char *point, const char *name)
{
    (void)name;
    if (strcmp(point, "after_renew") == 0)
        ++*(_Atomic int *)arg;
}

/* Whoever turns the loop: nobody, after a call in a row; and then one that waits. */
TEST(what_is_held_is_renewed_all_the_time)
{
    static _Atomic int renewals;
    struct waiter waiter;

    if (store_has_sessions())
        SKIP("its locks have no leases of their own");
    hf_client *client = open_client_with((hf_client_options){
        .lease_ms = LEASE_MS, .on_point = count_renewals, .point_arg = &renewals });
    hf_client *other = open_threaded();
    hf_hold *theirs = take(other, name_of("theirs"), HF_MUTEX, 0);
    hf_hold *mine = take_patiently(client, name_of("mine"));
    warm_up(client);
    EVENTUALLY(renewals >= 1, SOON_MS);
    wait_beside(&waiter, client);
    int before = renewals;
    EVENTUALLY(renewals >= before + 2, SOON_MS);
    hf_unlock(mine);
    hf_unlock(theirs);
    thread_join(&waiter.thread);
    hf_close(client);
    hf_close(other);
}

static void close_only(void *arg)
{
    hf_close(arg);
}

/* The child has one thread, which is not the one that turned the loop. */
TEST(a_fork_finds_a_call_that_turns_the_loop)
{
    need_forks_at_any_time();
    hf_client *client = open_threaded(), *other = open_client();
    struct waiter waiter;
    struct child child;
    hf_hold *theirs = take(other, name_of("theirs"), HF_MUTEX, 0);

    wait_beside(&waiter, client);
    for (int i = 0; i < 5; i++) {
        child_start(&child, close_only, client);
        child_join(&child);
    }
    CHECK_CODE(probe(client, name_of("theirs"), HF_MUTEX, 0), HF_BUSY);
    give_back(theirs);
    thread_join(&waiter.thread);
    CHECK_CODE(waiter.code, HF_OK);
    hf_close(client);
    hf_close(other);
}
