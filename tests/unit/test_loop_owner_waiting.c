/* SPDX-License-Identifier: Apache-2.0 */
/* A caller turns the loop of a parked thread, and waits for long, or leaves others waiting. */
#include "loop_owner_fixture.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- who waits for long ---- */

struct waiter {
    struct thread thread;
    _Atomic int code;
};

static void wait_in_vain(void *arg)
{
    struct waiter *waiter = arg;
    hf_hold *hold = NULL;
    /* A look for circles would hide a wake-up that is lost. */
    hf_lock_options options = HF_LOCK_OPTIONS(.deadlock_ms = HF_FOREVER);
    waiter->code = hf_lock(fixture.client, "contended", HF_FOREVER, &options, &hold);
}

/* Lets another thread wait for a lock, with the loop in its hands if it comes to have it. */
static void wait_beside(struct waiter *waiter)
{
    have_the_wheel();
    fixture.client->on_point = note_thread;
    hf__uv_loop_push(fixture.client, true);
    unsigned attempts = fixture.attempts;
    fixture.attempt_verdict = HF_REFUSED;
    waiter->code = -1;
    thread_start(&waiter->thread, wait_in_vain, waiter);
    EVENTUALLY(fixture.attempts > attempts, SOON_MS);
}

static pthread_t thread_of_the_client(void)
{
    struct answer answer = { 0 };
    request(&answer, "whose");
    EVENTUALLY(answer.calls == 1, SOON_MS);
    CHECK_INT(hf_unlock(answer.hold), HF_OK);
    return answer.thread;
}

TEST(closing_ends_a_call_that_turns_the_loop)
{
    for (int i = 0; i < 10; i++) {
        struct waiter waiter;
        begin_with(FOR_EVER_MS);
        wait_beside(&waiter);
        hf_close(fixture.client);
        thread_join(&waiter.thread);
        CHECK_INT(waiter.code, HF_ECLOSED);
    }
}

TEST(the_thread_renews_what_is_held_again_when_a_caller_waits_for_long)
{
    struct waiter waiter;
    begin_with(2);
    pthread_t mine = thread_of_the_client();
    /* Long enough for a machine that stands still for a while. */
    fixture.lease_ms = 3000;
    fixture.leases = true;
    take("leased");
    fixture.leases = false;
    wait_beside(&waiter);
    EVENTUALLY(renewed_by && pthread_equal(renewed_by, mine), SOON_MS);
    CHECK_INT(waiter.code, -1);
    hf_close(fixture.client);
    thread_join(&waiter.thread);
    CHECK_INT(waiter.code, HF_ECLOSED);
}

static void count_in_silence(void *arg)
{
    (void)arg;
    CHECK_INT(hf_counter_set(fixture.client, "counter", 1), HF_ECLOSED);
}

TEST(who_leaves_others_waiting_calls_the_thread)
{
    struct thread thread;
    begin_with(FOR_EVER_MS);
    fixture.client->request_timeout_ms = FOR_EVER_MS;
    fixture.silent_changes = true;
    have_the_wheel();
    thread_start(&thread, count_in_silence, NULL);
    EVENTUALLY(atomic_load(&fixture.client->loop.posted) != NULL, SOON_MS);
    hf__uv_loop_push(fixture.client, true);
    CHECK(!hf__uv_loop_begin_push(fixture.client));
    hf_close(fixture.client);
    thread_join(&thread);
}

/* ---- many ---- */

static void wait_for_answer(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct answer *answer = arg;
    (void)error;
    CHECK_INT(code, HF_OK);
    hf_unlock_nowait(hold);
    answer->calls++;
}

static void do_something(unsigned what, const char *name)
{
    struct answer answer = { 0 };
    switch (what) {
    case 0:
        hf_unlock_nowait(take(name));
        break;
    case 1:
        CHECK_INT(hf_lock_async(fixture.client, name, HF_FOREVER,
                                &(hf_lock_options)HF_LOCK_OPTIONS_INIT, wait_for_answer, &answer,
                                NULL),
                  HF_OK);
        EVENTUALLY(answer.calls == 1, SOON_MS);
        break;
    case 2:
        CHECK_INT(hf_counter_set(fixture.client, name, 1), HF_OK);
        break;
    default:
        lock_and_unlock(name);
        break;
    }
}

/* Some are alone at times, some meet. */
static void come_and_go(void *arg, int index)
{
    char name[8];
    unsigned seed = (unsigned)index;
    (void)arg;
    for (int i = 0; i < 400; i++) {
        snprintf(name, sizeof name, "%u", (unsigned)rand_r(&seed) % 3 ? (unsigned)index : 99u);
        unsigned what = (unsigned)rand_r(&seed) % 16;
        for (int times = rand_r(&seed) % 16; times >= 0; times--)
            do_something(what, name);
        if (rand_r(&seed) % 8 == 0)
            let_pass_ms(rand_r(&seed) % 4);
    }
}

TEST(nobody_waits_without_end_who_comes_or_goes)
{
    begin_with(FOR_EVER_MS);
    threads_run(3, come_and_go, NULL);
    hf_close(fixture.client);
}

TEST(nobody_waits_without_end_where_the_thread_comes_and_goes_too)
{
    begin_with(0);
    threads_run(3, come_and_go, NULL);
    hf_close(fixture.client);
}
