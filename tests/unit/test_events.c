/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the core: who has to wait, a store that falls silent and comes back, and one that
 * refuses to renew, each told once. */
#include "fixture.h"

static unsigned counts[HF_EVENT_NOT_RENEWED + 1];

static void count(void *arg, const hf_event *event)
{
    (void)arg;
    counts[event->type]++;
    bool of_the_store = event->type == HF_EVENT_STORE_DOWN || event->type == HF_EVENT_STORE_UP;
    CHECK_STR(event->name, of_the_store ? "" : "a");
    CHECK(event->text && *event->text);
}

static void begin(void)
{
    fixture_begin();
    fixture.client->on_event = count;
}

/* ---- waiting ---- */

TEST(who_is_granted_at_once_does_not_wait)
{
    begin();
    CHECK_INT(fixture_take("a", HF_MUTEX, 1, HF_FOREVER, NULL), HF_OK);
    CHECK_INT(counts[HF_EVENT_GRANTED], 1);
    CHECK_INT(counts[HF_EVENT_WAITING], 0);
}

TEST(who_is_refused_waits_once)
{
    begin();
    fixture.attempt_verdict = HF_REFUSED;
    fixture_take("a", HF_MUTEX, 1, HF_FOREVER, NULL);
    CHECK_INT(counts[HF_EVENT_WAITING], 1);
    hf__op_wake(fixture.last_attempt);
    fixture_turn();
    CHECK_INT(fixture.attempts, 2);
    CHECK_INT(counts[HF_EVENT_WAITING], 1);
}

TEST(who_does_not_wait_is_only_busy)
{
    begin();
    fixture.attempt_verdict = HF_REFUSED;
    CHECK_INT(fixture_take("a", HF_MUTEX, 1, 0, NULL), HF_BUSY);
    CHECK_INT(counts[HF_EVENT_WAITING], 0);
}

TEST(who_queues_waits_once)
{
    begin();
    fixture.attempt_verdict = HF_NO_ANSWER;
    fixture_take("a", HF_MUTEX, 1, HF_FOREVER, NULL);
    CHECK_INT(counts[HF_EVENT_WAITING], 0);
    fixture_take("a", HF_MUTEX, 2, HF_FOREVER, NULL);
    CHECK_INT(counts[HF_EVENT_WAITING], 1);
    fixture.attempt_verdict = HF_REFUSED;
    fixture_answer(fixture.last_attempt, HF_FAILED);
    fixture_turn();
    CHECK_INT(fixture.attempts, 2);
    CHECK_INT(counts[HF_EVENT_WAITING], 1);
}

TEST(each_call_waits_for_itself)
{
    begin();
    fixture.attempt_verdict = HF_REFUSED;
    for (unsigned i = 1; i <= 3; i++) {
        CHECK_INT(hf_lock(fixture.client, "a", 10, NULL, &fixture.hold), HF_BUSY);
        CHECK_INT(counts[HF_EVENT_WAITING], i);
    }
}

/* ---- silence ---- */

static void check_store(unsigned down, unsigned up)
{
    CHECK_INT(counts[HF_EVENT_STORE_DOWN], down);
    CHECK_INT(counts[HF_EVENT_STORE_UP], up);
}

static void stay_silent(unsigned times)
{
    struct hf_op *op = fixture.last_attempt;
    for (unsigned i = 0; i < times; i++) {
        fixture_answer(op, HF_NO_ANSWER);
        fixture_pass_ms(3000);
    }
}

TEST(silence_and_the_first_answer_are_told_once)
{
    begin();
    fixture.attempt_verdict = HF_NO_ANSWER;
    fixture_take("a", HF_MUTEX, 1, HF_FOREVER, NULL);
    check_store(0, 0);
    stay_silent(5);
    check_store(1, 0);
    CHECK_INT(counts[HF_EVENT_WAITING], 0);
    fixture.attempt_verdict = HF_GRANTED;
    fixture_answer(fixture.last_attempt, HF_REFUSED);
    fixture_turn();
    check_store(1, 1);
    hf_counter_set(fixture.client, "a", 1);
    check_store(1, 1);
}

TEST(a_silent_release_is_silence)
{
    begin();
    CHECK_INT(fixture_take("a", HF_MUTEX, 1, HF_FOREVER, NULL), HF_OK);
    fixture.release_verdict = HF_NO_ANSWER;
    hf_unlock_nowait(fixture.hold);
    fixture_turn();
    fixture_answer(fixture.last_release, HF_NO_ANSWER);
    fixture_turn();
    check_store(1, 0);
}

/* Nothing has left for the store: so nobody has answered, either. */
TEST(what_was_never_there_is_gone_without_an_answer)
{
    begin();
    fixture.attempt_verdict = HF_NO_ANSWER;
    fixture_take("a", HF_MUTEX, 1, 100, NULL);
    fixture_answer(fixture.last_attempt, HF_NO_ANSWER);
    fixture_pass_ms(200);
    fixture_answer(fixture.last_attempt, HF_NO_ANSWER);
    fixture_pass_ms(1000);
    CHECK_INT(fixture.code, HF_UNREACHABLE);
    CHECK_INT(fixture.releases, 1);
    check_store(1, 0);
    fixture.attempt_verdict = HF_GRANTED;
    CHECK_INT(fixture_take("a", HF_MUTEX, 1, 100, NULL), HF_OK);
    check_store(1, 1);
}

TEST(what_was_there_is_gone_by_an_answer)
{
    begin();
    CHECK_INT(fixture_take("a", HF_MUTEX, 1, HF_FOREVER, NULL), HF_OK);
    fixture.release_verdict = HF_NO_ANSWER;
    hf_unlock_nowait(fixture.hold);
    fixture_turn();
    fixture.release_verdict = HF_GONE;
    fixture_answer(fixture.last_release, HF_NO_ANSWER);
    fixture_pass_ms(3000);
    check_store(1, 1);
}

TEST(failure_by_reply_ends_the_silence_and_one_without_does_not)
{
    begin();
    fixture.attempt_verdict = HF_NO_ANSWER;
    fixture_take("a", HF_MUTEX, 1, HF_FOREVER, NULL);
    stay_silent(1);
    check_store(1, 0);
    fixture_answer(fixture.last_attempt, HF_FAILED);
    fixture_turn();
    check_store(1, 0);
    fixture.contacted = true;
    fixture.attempt_verdict = HF_FAILED;
    CHECK_INT(fixture_take("a", HF_MUTEX, 1, HF_FOREVER, NULL), HF_DENIED);
    check_store(1, 1);
}

/* However long the engine lets it be. */
TEST(a_question_that_outlives_its_caller_is_silence)
{
    begin();
    fixture.attempt_verdict = HF_REFUSED;
    fixture_take("a", HF_MUTEX, 1, 3000, NULL);
    fixture.attempt_verdict = HF_NO_ANSWER;
    fixture_pass_ms(2900);
    CHECK_INT(fixture.attempts, 2);
    check_store(0, 0);
    fixture_pass_ms(200);
    CHECK_INT(fixture.code, HF_UNREACHABLE);
    check_store(1, 0);
}

TEST(a_release_that_is_not_waited_for_any_more_is_silence)
{
    begin();
    CHECK_INT(hf_lock(fixture.client, "a", 0, NULL, &fixture.hold), HF_OK);
    fixture.release_verdict = HF_NO_ANSWER;
    int64_t began_ms = fixture.now_ms;
    CHECK_INT(hf_unlock(fixture.hold), HF_UNREACHABLE);
    CHECK_INT(fixture.now_ms, began_ms + HF_REQUEST_TIMEOUT_MS);
    check_store(1, 0);
}

TEST(a_silent_verb_is_silence)
{
    begin();
    fixture.silent_changes = true;
    CHECK_INT(hf_counter_set(fixture.client, "a", 1), HF_UNREACHABLE);
    check_store(1, 0);
    fixture_answer_change(HF_UNREACHABLE);
    check_store(1, 0);
    fixture.silent_changes = false;
    CHECK_INT(hf_counter_set(fixture.client, "a", 1), HF_OK);
    check_store(1, 1);
}

/* The engine may know by itself that a request makes no sense, or be out of memory. */
TEST(answer_without_the_store_leaves_it_down)
{
    begin();
    fixture.silent_changes = true;
    CHECK_INT(hf_counter_set(fixture.client, "a", 1), HF_UNREACHABLE);
    fixture_answer_change(HF_UNREACHABLE);
    check_store(1, 0);
    fixture.silent_changes = false;
    fixture.not_contacted = true;
    fixture.change_code = HF_ENOMEM;
    CHECK_INT(hf_counter_set(fixture.client, "a", 1), HF_ENOMEM);
    check_store(1, 0);
    fixture.not_contacted = false;
    CHECK_INT(hf_counter_set(fixture.client, "a", 1), HF_ENOMEM);
    check_store(1, 1);
}

/* The answer says less than is known by then, but it is one. */
TEST(a_renewal_that_is_overtaken_by_a_raise_is_no_silence)
{
    begin();
    fixture.leases = true;
    fixture.answers_renewals = false;
    CHECK_INT(fixture_take("a", HF_UPGRADE, 1, HF_FOREVER, NULL), HF_OK);
    fixture_pass_ms(FIXTURE_LEASE_MS / 3);
    int64_t asked_ms = fixture.now_ms;
    fixture_pass_ms(10);
    CHECK_INT(fixture_take("a", HF_WRITE, 1, HF_FOREVER, NULL), HF_OK);
    hf__lease_answer(&fixture.last_attempt->engine.own_lease, asked_ms, HF_LEASE_RENEWED, 0, NULL);
    fixture_pass_ms(FIXTURE_LEASE_MS / 6);
    CHECK_INT(fixture.renewals, 2);
    check_store(0, 0);
}

TEST(a_silent_renewal_is_silence)
{
    begin();
    fixture.leases = true;
    fixture.answers_renewals = false;
    CHECK_INT(fixture_take("a", HF_MUTEX, 1, HF_FOREVER, NULL), HF_OK);
    fixture_pass_ms(FIXTURE_LEASE_MS / 3);
    CHECK_INT(fixture.renewals, 1);
    check_store(0, 0);
    fixture_pass_ms(FIXTURE_LEASE_MS / 6);
    check_store(1, 0);
    fixture.answers_renewals = true;
    fixture_pass_ms(FIXTURE_LEASE_MS / 6);
    CHECK_INT(fixture.renewals, 3);
    check_store(1, 1);
}

/* ---- a store that answers, but does not renew ---- */

TEST(a_refusal_to_renew_is_no_silence_and_told_once)
{
    begin();
    fixture.leases = true;
    fixture.refuses_renewals_from = 1;
    fixture.refusal = "it is not yours to renew";
    CHECK_INT(fixture_take("a", HF_MUTEX, 1, HF_FOREVER, NULL), HF_OK);
    fixture_pass_ms(FIXTURE_LEASE_MS * 3 / 4);
    CHECK(fixture.renewals >= 3);
    CHECK_INT(counts[HF_EVENT_NOT_RENEWED], 1);
    check_store(0, 0);
    fixture.refusal = "it is nobody's to renew";
    fixture.refuses_renewals_from = 0;
    fixture.answers_renewals = true;
    fixture_pass_ms(FIXTURE_LEASE_MS / 2);
    fixture.refuses_renewals_from = 1;
    fixture_pass_ms(2 * FIXTURE_LEASE_MS);
    CHECK_INT(counts[HF_EVENT_NOT_RENEWED], 2);
    CHECK_INT(counts[HF_EVENT_LOST], 1);
    check_store(0, 0);
}

static void refuse_after_silence(void)
{
    begin();
    fixture.leases = true;
    fixture.answers_renewals = false;
    CHECK_INT(fixture_take("a", HF_MUTEX, 1, HF_FOREVER, NULL), HF_OK);
    fixture_pass_ms(FIXTURE_LEASE_MS * 2 / 3);
    check_store(1, 0);
    fixture.refuses_renewals_from = 1;
}

TEST(who_is_not_ready_after_silence_does_not_answer_again)
{
    refuse_after_silence();
    fixture.refusal = "it is loading";
    fixture.not_ready = true;
    fixture_pass_ms(FIXTURE_LEASE_MS);
    CHECK_INT(counts[HF_EVENT_NOT_RENEWED], 1);
    CHECK_INT(counts[HF_EVENT_LOST], 1);
    check_store(1, 0);
}

TEST(who_refuses_after_silence_answers_again)
{
    refuse_after_silence();
    fixture.refusal = "it is not yours to renew";
    fixture_pass_ms(FIXTURE_LEASE_MS);
    check_store(1, 1);
}
