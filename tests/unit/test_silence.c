/* SPDX-License-Identifier: Apache-2.0 */
/* What the core makes of a store that is silent, forgets, or says no: nothing diverges, nobody
 * waits longer than his patience. */
#include "base/rand.h"
#include "fixture.h"

#include <stdio.h>
#include <string.h>

#define LEASE_MS 60000
#define LONGER_MS 600000

/* ---- what is lost ---- */

TEST(a_loss_needs_no_sentence)
{
    fixture_begin();
    CHECK_INT(fixture_take("a", HF_MUTEX, 1, HF_FOREVER, NULL), HF_OK);
    fixture.lost = true;
    CHECK_INT(hf_unlock(fixture.hold), HF_LOST);
}

TEST(a_raise_that_meets_a_loss_ends_the_belief)
{
    fixture_begin();
    CHECK_INT(fixture_take("a", HF_UPGRADE, 1, HF_FOREVER, NULL), HF_OK);
    fixture.attempt_verdict = HF_FAILED;
    fixture.lost = true;
    CHECK_INT(hf_upgrade(fixture.hold, HF_FOREVER), HF_LOST);
    CHECK(!hf_held(fixture.hold));
    fixture.lost = false;
    CHECK_INT(hf_unlock(fixture.hold), HF_LOST);
}

/* Gives back what is lost while the store says nothing, and has it cleaned up all the same. */
static void check_loss_is_told_within_ms(hf_hold *hold, int64_t ms)
{
    unsigned releases = fixture.releases;
    fixture.release_verdict = HF_NO_ANSWER;
    CHECK(!hf_held(hold));
    int64_t asked_ms = fixture.now_ms;
    CHECK_INT(hf_unlock(hold), HF_LOST);
    CHECK_INT(fixture.now_ms - asked_ms, ms);
    CHECK_INT(fixture.releases, releases + 1);
    fixture_answer(fixture.last_release, HF_GONE);
    fixture_turn();
    for (unsigned s = 0; s < HF_SHARDS; s++)
        CHECK_INT(fixture.client->shards[s].entry_count, 0);
}

TEST(what_is_lost_already_is_not_what_a_silent_store_hides)
{
    fixture_begin();
    hf_hold *hold = fixture_take_leased("a", LEASE_MS);
    fixture_pass_ms(LEASE_MS);
    check_loss_is_told_within_ms(hold, 500);
}

/* The process stood still, and nothing of it has run in between. */
TEST(what_nobody_was_told_of_is_lost_all_the_same)
{
    fixture_begin();
    hf_hold *hold = fixture_take_leased("a", LEASE_MS);
    fixture.now_ms += LEASE_MS;
    check_loss_is_told_within_ms(hold, 500);
}

TEST(who_lost_it_by_silence_does_not_wait_for_the_silent_store)
{
    fixture_begin();
    fixture.leases = true;
    fixture.answers_renewals = false;
    CHECK_INT(fixture_take("a", HF_MUTEX, 1, HF_FOREVER, NULL), HF_OK);
    fixture_pass_ms(FIXTURE_LEASE_MS);
    check_loss_is_told_within_ms(fixture.hold, 0);
}

/* It ends by itself there, and the caller hears no more by waiting on. */
TEST(giving_back_ends_with_the_lease_at_the_latest)
{
    fixture_begin();
    hf_hold *hold = fixture_take_leased("a", 1000);
    int64_t left_ms = hf_remaining_ms(hold), asked_ms = fixture.now_ms;
    CHECK(left_ms > 0 && left_ms <= 1000);
    fixture.release_verdict = HF_NO_ANSWER;
    CHECK_INT(hf_unlock(hold), HF_UNREACHABLE);
    CHECK_INT(fixture.now_ms - asked_ms, left_ms);
    fixture_answer(fixture.last_release, HF_GONE);
    fixture_turn();
}

/* Takes a name whose entry may have the memory of the entry of "a". */
static void take_in_its_place(void)
{
    char name[8] = "0";
    for (unsigned i = 1; hf__hash(name, strlen(name)) >> 58 != hf__hash("a", 1) >> 58; i++)
        snprintf(name, sizeof name, "%u", i);
    CHECK_INT(hf_lock(fixture.client, name, 0, NULL, &fixture.hold), HF_OK);
}

static void give_back_at_once(void *arg, const hf_loss *loss)
{
    hf_unlock_nowait(*(hf_hold **)arg);
    CHECK_INT(fixture.releases, 1);
    fixture.lost = false;
    take_in_its_place();
    CHECK_STR(loss->name, "a");
    CHECK_STR(loss->reason, "it was broken");
}

TEST(what_is_lost_keeps_its_name_while_it_is_told)
{
    fixture_begin_here();
    hf_hold *hold = NULL;
    hf_lock_options options = HF_LOCK_OPTIONS(.on_lost = give_back_at_once, .lost_arg = &hold);
    CHECK_INT(hf_lock(fixture.client, "a", 0, &options, &hold), HF_OK);
    fixture.lost = true;
    hf__holds_recheck(&fixture.client->host, "it was broken");
    CHECK_INT(fixture.attempts, 2);
    CHECK(hf_held(fixture.hold));
    CHECK_INT(hf_unlock(fixture.hold), HF_OK);
    for (unsigned s = 0; s < HF_SHARDS; s++)
        CHECK_INT(fixture.client->shards[s].entry_count, 0);
}

/* ---- one question about a lease, and a caller who does not wait for ever ---- */

TEST(a_late_renewal_still_counts)
{
    fixture_begin();
    hf_hold *hold = fixture_take_leased("a", LEASE_MS);
    fixture.silent_changes = true;
    int64_t left_ms = hf_remaining_ms(hold), asked_ms = fixture.now_ms;
    CHECK_INT(hf_renew(hold, LONGER_MS), HF_UNREACHABLE);
    CHECK_INT(fixture.now_ms - asked_ms, fixture.client->request_timeout_ms);
    CHECK_INT(hf_remaining_ms(hold), left_ms - fixture.client->request_timeout_ms);
    fixture_answer_change(HF_OK);
    fixture_turn();
    CHECK_INT(hf_remaining_ms(hold),
              LONGER_MS - LONGER_MS / 100 - 2 - fixture.client->request_timeout_ms);
    CHECK_INT(hf_unlock(hold), HF_OK);
}

TEST(a_late_renewal_never_shortens)
{
    fixture_begin();
    hf_hold *hold = fixture_take_leased("a", LEASE_MS);
    fixture.silent_changes = true;
    CHECK_INT(hf_renew(hold, LEASE_MS + 1000), HF_UNREACHABLE);
    struct hf_oneshot *first = fixture.last_change;
    CHECK_INT(hf_renew(hold, LONGER_MS), HF_UNREACHABLE);
    fixture_answer_change(HF_OK);
    fixture_turn();
    int64_t left_ms = hf_remaining_ms(hold);
    fixture.last_change = first;
    fixture_answer_change(HF_OK);
    fixture_turn();
    CHECK_INT(hf_remaining_ms(hold), left_ms);
}

TEST(a_late_no_ends_the_belief)
{
    fixture_begin();
    hf_hold *hold = fixture_take_leased("a", LEASE_MS);
    fixture.silent_changes = true;
    CHECK_INT(hf_renew(hold, LONGER_MS), HF_UNREACHABLE);
    CHECK(hf_held(hold));
    fixture_answer_change(HF_LOST);
    fixture_turn();
    CHECK(!hf_held(hold));
    CHECK_INT(hf_unlock(hold), HF_LOST);
}

/* The caller gives the hold back, and the next one gets the memory: the answer is not for it. */
static void check_that_the_next_is_left_alone(int late_code)
{
    hf_hold *next = fixture_take_leased("a", LEASE_MS);
    int64_t left_ms = hf_remaining_ms(next);
    fixture_answer_change(late_code);
    fixture_turn();
    CHECK(hf_held(next));
    CHECK_INT(hf_remaining_ms(next), left_ms);
    CHECK_INT(hf_unlock(next), HF_OK);
}

TEST(a_late_renewal_does_not_reach_the_next_claim)
{
    static const int codes[] = { HF_OK, HF_LOST };
    fixture_begin();
    for (unsigned i = 0; i < 2; i++) {
        hf_hold *hold = fixture_take_leased("a", LEASE_MS);
        fixture.silent_changes = true;
        CHECK_INT(hf_renew(hold, LONGER_MS), HF_UNREACHABLE);
        CHECK_INT(hf_unlock(hold), HF_OK);
        check_that_the_next_is_left_alone(codes[i]);
    }
    for (unsigned s = 0; s < HF_SHARDS; s++)
        CHECK_INT(fixture.client->shards[s].entry_count, 0);
}

TEST(a_late_detaching_leaves_the_hold_in_hand)
{
    char key[HF_OWNER_KEY_SIZE];
    fixture_begin();
    hf_hold *hold = fixture_take_leased("a", LEASE_MS);
    fixture.silent_changes = true;
    CHECK_INT(hf_detach(hold, key), HF_UNREACHABLE);
    fixture_answer_change(HF_OK);
    fixture_turn();
    CHECK(hf_held(hold));
    CHECK_STR(hf_hold_name(hold), "a");
    fixture.silent_changes = false;
    CHECK_INT(hf_detach(hold, key), HF_OK);
    CHECK_STR(key, "key");
    CHECK_INT(fixture.releases, 0);
}

TEST(what_may_be_detached_can_be_given_back)
{
    char key[HF_OWNER_KEY_SIZE];
    fixture_begin();
    hf_hold *hold = fixture_take_leased("a", LEASE_MS);
    fixture.silent_changes = true;
    CHECK_INT(hf_detach(hold, key), HF_UNREACHABLE);
    CHECK_INT(hf_unlock(hold), HF_OK);
    CHECK_INT(fixture.releases, 1);
    check_that_the_next_is_left_alone(HF_OK);
}

TEST(a_refused_detaching_changes_nothing)
{
    char key[HF_OWNER_KEY_SIZE];
    fixture_begin();
    hf_hold *hold = fixture_take_leased("a", LEASE_MS), *inner = NULL;
    fixture.change_code = HF_DENIED;
    CHECK_INT(hf_detach(hold, key), HF_DENIED);
    CHECK_INT(hf_lock(fixture.client, "a", 0, NULL, &inner), HF_OK);
    CHECK(inner->grant->claim == hold->grant->claim);
    CHECK_INT(hf_detach(hold, key), HF_EINVAL);
    CHECK_INT(hf_unlock(inner), HF_OK);
    CHECK_INT(hf_unlock(hold), HF_OK);
    CHECK_INT(fixture.releases, 1);
}

static hf_hold *met_in_detaching;

static void nest(struct hf_timer *timer)
{
    (void)timer;
    fixture_ask("a", HF_MUTEX, 7, HF_FOREVER, NULL);
}

/* Another thread of the same owner comes by while the question is out. */
TEST(nobody_nests_in_what_is_being_detached)
{
    char key[HF_OWNER_KEY_SIZE];
    fixture_begin();
    fixture.leases = true;
    hf_lock_options options = HF_LOCK_OPTIONS(.owner = 7, .lease_ms = LEASE_MS);
    CHECK_INT(hf_lock(fixture.client, "a", 0, &options, &met_in_detaching), HF_OK);
    struct hf_timer timer;
    hf__timer_init(&timer, nest);
    hf__timer_start(&fixture.client->loop, &timer, fixture.now_ms + 10);
    fixture.silent_changes = true;
    CHECK_INT(hf_detach(met_in_detaching, key), HF_UNREACHABLE);
    CHECK_INT(fixture.attempts, 2);
    CHECK(fixture.hold && fixture.hold->grant->claim != met_in_detaching->grant->claim);
}

/* What is never answered is freed with the client, or the address sanitizer finds it. */
TEST(a_client_closes_with_questions_out)
{
    fixture_begin();
    fixture.silent_changes = true;
    CHECK_INT(hf_counter_set(fixture.client, "a", 1), HF_UNREACHABLE);
    hf_hold *hold = fixture_take_leased("b", LEASE_MS);
    CHECK_INT(hf_renew(hold, LONGER_MS), HF_UNREACHABLE);
    CHECK_INT(hf_renew(hold, LONGER_MS), HF_UNREACHABLE);
    fixture.last_change = NULL;
    hf_close(fixture.client);
    CHECK_INT(fixture.releases, 1);
}

/* ---- closing ---- */

/* The loop looks every few milliseconds whether there is anything left. */
static void check_closes_after_ms(int64_t ms)
{
    int64_t began_ms = fixture.now_ms;
    hf_close(fixture.client);
    CHECK(fixture.now_ms >= began_ms + ms);
    CHECK(fixture.now_ms < began_ms + ms + 10);
}

static void take_from_a_store_that_falls_silent(void)
{
    fixture_begin();
    CHECK_INT(hf_lock(fixture.client, "a", 0, NULL, &fixture.hold), HF_OK);
    fixture.release_verdict = HF_NO_ANSWER;
}

TEST(closing_has_patience_with_a_store_that_has_answered_so_far)
{
    take_from_a_store_that_falls_silent();
    check_closes_after_ms(HF_REQUEST_TIMEOUT_MS);
}

TEST(closing_does_not_wait_once_more_for_a_store_that_was_waited_for)
{
    take_from_a_store_that_falls_silent();
    CHECK_INT(hf_unlock(fixture.hold), HF_UNREACHABLE);
    fixture_pass_ms(3000);
    check_closes_after_ms(1000);
}

static int64_t silent_until_ms;

static void answer_in_the_end(struct hf_op *op, enum hf_verdict verdict)
{
    fixture_answer(op, fixture.now_ms < silent_until_ms ? HF_NO_ANSWER : verdict);
}

TEST(closing_gives_up_what_falls_silent_meanwhile)
{
    take_from_a_store_that_falls_silent();
    fixture.release_verdict = HF_GONE;
    fixture.answer_by = answer_in_the_end;
    silent_until_ms = HF_NEVER;
    check_closes_after_ms(1000);
    CHECK(fixture.releases > 2);
}

TEST(closing_waits_for_a_store_that_comes_back)
{
    take_from_a_store_that_falls_silent();
    fixture.release_verdict = HF_GONE;
    fixture.answer_by = answer_in_the_end;
    silent_until_ms = fixture.now_ms + 500;
    int64_t began_ms = fixture.now_ms;
    hf_close(fixture.client);
    CHECK(fixture.now_ms >= began_ms + 500);
    CHECK(fixture.now_ms < began_ms + 1000);
}
