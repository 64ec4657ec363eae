/* SPDX-License-Identifier: Apache-2.0 */
/* A caller turns the loop of a parked thread: what the program is told, it is told on the client's
 * thread, and in time. */
#include "loop_owner_fixture.h"

static void keep_loss(void *arg, const hf_loss *loss)
{
    struct answer *answer = arg;
    CHECK_STR(loss->name, "leased");
    answer->thread = pthread_self();
    answer->calls++;
}

static hf_hold *take_leased(struct answer *loss, int64_t lease_ms)
{
    hf_hold *hold = NULL;
    hf_lock_options options =
        HF_LOCK_OPTIONS(.lease_ms = lease_ms, .on_lost = keep_loss, .lost_arg = loss);
    fixture.leases = true;
    CHECK_INT(hf_lock(fixture.client, "leased", HF_FOREVER, &options, &hold), HF_OK);
    fixture.leases = false;
    return hold;
}

/* ---- what the program is told runs on the client's thread ---- */

TEST(who_turns_the_loop_in_its_place_runs_no_callback_of_a_request)
{
    begin_with(FOR_EVER_MS);
    for (int i = 0; i < 50; i++) {
        /* The second one re-enters, so it is not asked for. */
        for (int nested = 0; nested < 2; nested++) {
            struct answer answer = { 0 };
            hf_hold *hold = nested ? take_as("one", OWNER) : NULL;
            have_the_wheel();
            request(&answer, "one");
            hf__uv_loop_push(fixture.client, true);
            EVENTUALLY(answer.calls == 1, SOON_MS);
            CHECK(!pthread_equal(answer.thread, pthread_self()));
            CHECK_INT(hf_unlock(answer.hold), HF_OK);
            CHECK_INT(hf_unlock(hold), HF_OK);
        }
    }
    hf_close(fixture.client);
}

static void note_end(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    (void)hold, (void)error;
    CHECK_INT(code, HF_CANCELED);
    keep_answer(arg, HF_OK, NULL, NULL);
}

/* However many calls in a row meet no other. */
TEST(the_thread_does_not_park_while_a_request_is_out)
{
    struct answer answer = { 0 };
    hf_request asked;
    begin_with(FOR_EVER_MS);
    fixture.attempt_verdict = HF_REFUSED;
    CHECK_INT(hf_lock_async(fixture.client, "one", HF_FOREVER, NULL, note_end, &answer, &asked),
              HF_OK);
    for (int i = 0; i < 100; i++)
        CHECK_INT(hf_counter_set(fixture.client, "counter", 1), HF_OK);
    CHECK(!hf__uv_loop_begin_push(fixture.client));
    hf_cancel(fixture.client, asked);
    EVENTUALLY(answer.calls == 1, SOON_MS);
    CHECK(!pthread_equal(answer.thread, pthread_self()));
    fixture.attempt_verdict = HF_GRANTED;
    have_the_wheel();
    hf__uv_loop_push(fixture.client, true);
    hf_close(fixture.client);
}

/* A program that watches leaves the thread parked while its request is out. */
TEST(caller_leaves_the_loop_of_a_parked_thread_alone_while_a_request_is_out)
{
    begin_with(FOR_EVER_MS);
    for (int i = 0; i < 50; i++) {
        have_the_wheel();
        hf__uv_loop_request_begins(fixture.client);
        hf__uv_loop_push(fixture.client, true);
        CHECK(!hf__uv_loop_begin_push(fixture.client));
        hf__uv_loop_request_ended(fixture.client);
    }
    hf_close(fixture.client);
}

TEST(who_turns_the_loop_in_its_place_runs_no_on_lost)
{
    begin_with(FOR_EVER_MS);
    for (int i = 0; i < 10; i++) {
        struct answer loss = { 0 };
        hf_hold *hold = take_leased(&loss, 20);
        have_the_wheel();
        let_pass_ms(21);
        hf__uv_loop_push(fixture.client, true);
        CHECK(!hf_held(hold));
        EVENTUALLY(loss.calls == 1, SOON_MS);
        CHECK(!pthread_equal(loss.thread, pthread_self()));
        CHECK_INT(hf_unlock(hold), HF_LOST);
    }
    hf_close(fixture.client);
}

/* ---- a callback that takes its time ---- */

static struct hf_op *_Atomic asked_for[2];
static _Atomic bool is_back;

static void keep_question(struct hf_op *op, enum hf_verdict verdict)
{
    (void)verdict;
    asked_for[asked_for[0] ? 1 : 0] = op;
}

/* It wakes up by itself for no look at circles of waits. */
static void *take_and_say_so(void *arg)
{
    hf_hold *hold = NULL;
    hf_lock_options options = HF_LOCK_OPTIONS(.deadlock_ms = HF_FOREVER);
    CHECK_INT(hf_lock(fixture.client, "one", HF_FOREVER, &options, &hold), HF_OK);
    is_back = true;
    CHECK_INT(hf_unlock(hold), HF_OK);
    return arg;
}

static void wait_for_who_was_told(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    EVENTUALLY(is_back, SOON_MS);
    keep_answer(arg, code, hold, error);
}

static void answer_both(struct hf_task *task)
{
    (void)task;
    fixture.answer_by = NULL;
    fixture_answer(asked_for[0], HF_GRANTED);
    fixture_answer(asked_for[1], HF_GRANTED);
}

/* Callers are told together with others; but a callback may wait for one of them. */
TEST(who_is_told_before_a_callback_need_not_wait_for_its_end)
{
    struct answer answer = { 0 };
    struct hf_task both;
    pthread_t caller;
    begin_with(FOR_EVER_MS);
    fixture.answer_by = keep_question;
    CHECK_INT(pthread_create(&caller, NULL, take_and_say_so, NULL), 0);
    EVENTUALLY(asked_for[0], SOON_MS);
    CHECK_INT(hf_lock_async(fixture.client, "two", HF_FOREVER, NULL, wait_for_who_was_told, &answer,
                            NULL),
              HF_OK);
    EVENTUALLY(asked_for[1], SOON_MS);
    hf__task_init(&both, answer_both);
    hf__loop_post(&fixture.client->loop, &both);
    EVENTUALLY(answer.calls == 1, SOON_MS);
    CHECK_INT(pthread_join(caller, NULL), 0);
    CHECK_INT(hf_unlock(answer.hold), HF_OK);
    hf_close(fixture.client);
}

/* ---- what is due while the thread is parked ---- */

/* The lease is over earlier than the parked thread would look. */
TEST(a_lease_that_a_caller_has_brought_ends_in_time)
{
    begin_with(FOR_EVER_MS);
    for (int i = 0; i < 10; i++) {
        struct answer loss = { 0 };
        have_the_wheel();
        hf__uv_loop_push(fixture.client, true);
        hf_hold *hold = take_leased(&loss, 20);
        EVENTUALLY(loss.calls == 1, SOON_MS);
        CHECK_INT(hf_unlock(hold), HF_LOST);
    }
    hf_close(fixture.client);
}

TEST(a_lease_that_is_there_when_the_thread_parks_ends_in_time)
{
    begin_with(FOR_EVER_MS);
    for (int i = 0; i < 10; i++) {
        struct answer loss = { 0 };
        hf_hold *hold = take_leased(&loss, 100);
        have_the_wheel();
        hf__uv_loop_push(fixture.client, true);
        EVENTUALLY(loss.calls == 1, SOON_MS);
        CHECK_INT(hf_unlock(hold), HF_LOST);
    }
    hf_close(fixture.client);
}
