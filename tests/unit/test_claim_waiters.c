/* SPDX-License-Identifier: Apache-2.0 */
/* Changing a hold while an earlier change of it is still out: who waits, for how long, and what is
 * held after the store has refused. */
#include "core/api/stop.h"

#include "fixture.h"

#include <stdlib.h>

#define SOON_MS 20000
#define PATIENCE_MS (fixture.client->request_timeout_ms)

static hf_hold *take(hf_mode mode)
{
    hf_hold *hold = NULL;
    hf_lock_options options = HF_LOCK_OPTIONS(.mode = mode, .owner = 7);
    CHECK_INT(hf_lock(fixture.client, "a", HF_FOREVER, &options, &hold), HF_OK);
    return hold;
}

static int64_t begun_ms;

static void begin_watch(void)
{
    begun_ms = fixture.now_ms;
}

static int64_t passed_ms(void)
{
    return fixture.now_ms - begun_ms;
}

/* What happens while the test is inside a blocking call. */
static struct hf_timer later;

static void do_later(int64_t in_ms, void (*what)(struct hf_timer *timer))
{
    hf__timer_init(&later, what);
    hf__timer_start(&fixture.client->loop, &later, fixture.now_ms + in_ms);
}

static void release_is_answered(struct hf_timer *timer)
{
    (void)timer;
    fixture.release_verdict = HF_GONE;
    fixture_answer(fixture.last_release, HF_GONE);
}

/* ---- giving back ---- */

TEST(an_unlock_behind_a_silent_release_has_its_own_patience)
{
    fixture_begin();
    hf_hold *write = take(HF_WRITE), *read = take(HF_READ);
    fixture.release_verdict = HF_NO_ANSWER;
    CHECK_INT(hf_unlock(write), HF_UNREACHABLE);
    begin_watch();
    CHECK_INT(hf_unlock(read), HF_UNREACHABLE);
    CHECK_INT(passed_ms(), PATIENCE_MS);
    CHECK_INT(fixture.releases, 1);
    release_is_answered(NULL);
    fixture_turn();
    CHECK_INT(fixture.releases, 2);
    CHECK_INT(fixture.last_keep, HF_KEEP_NOTHING);
}

TEST(an_unlock_behind_another_one_waits_as_well)
{
    fixture_begin();
    hf_hold *write = take(HF_WRITE), *read = take(HF_READ);
    fixture.release_verdict = HF_NO_ANSWER;
    hf_unlock_nowait(write);
    begin_watch();
    CHECK_INT(hf_unlock(read), HF_UNREACHABLE);
    CHECK_INT(passed_ms(), PATIENCE_MS);
}

TEST(an_unlock_hears_when_the_store_comes_back)
{
    fixture_begin();
    hf_hold *write = take(HF_WRITE), *read = take(HF_READ);
    fixture.release_verdict = HF_NO_ANSWER;
    CHECK_INT(hf_unlock(write), HF_UNREACHABLE);
    do_later(100, release_is_answered);
    begin_watch();
    CHECK_INT(hf_unlock(read), HF_OK);
    CHECK_INT(passed_ms(), 100);
    CHECK_INT(fixture.releases, 2);
}

/* ---- upgrading ---- */

/* A hold whose way down from HF_WRITE is still out. */
static hf_hold *lowered_in_silence(void)
{
    hf_hold *hold = take(HF_UPGRADE), *write = take(HF_WRITE);
    fixture.release_verdict = HF_NO_ANSWER;
    CHECK_INT(hf_unlock(write), HF_UNREACHABLE);
    begin_watch();
    return hold;
}

TEST(a_raise_waits_for_the_lowering_before_it)
{
    fixture_begin();
    hf_hold *hold = lowered_in_silence();
    do_later(100, release_is_answered);
    CHECK_INT(hf_upgrade(hold, 1000), HF_OK);
    CHECK_INT(passed_ms(), 100);
    CHECK_INT(hf_hold_mode(hold), HF_WRITE);
    CHECK_INT(hf_unlock(hold), HF_OK);
}

TEST(a_nested_write_waits_for_the_lowering_before_it)
{
    fixture_begin();
    hf_hold *hold = lowered_in_silence();
    do_later(100, release_is_answered);
    hf_hold *write = take(HF_WRITE);
    CHECK_INT(passed_ms(), 100);
    CHECK(write->grant->claim == hold->grant->claim);
    CHECK_INT(hf_unlock(write), HF_OK);
    CHECK_INT(hf_unlock(hold), HF_OK);
}

TEST(a_raise_behind_silence_ends_in_its_own_time)
{
    fixture_begin();
    hf_hold *hold = lowered_in_silence(), *write;
    hf_lock_options options = HF_LOCK_OPTIONS(.mode = HF_WRITE, .owner = 7);
    CHECK_INT(hf_upgrade(hold, 0), HF_BUSY);
    CHECK_INT(hf_lock(fixture.client, "a", 0, &options, &write), HF_BUSY);
    CHECK_INT(passed_ms(), 0);
    CHECK_INT(hf_upgrade(hold, 300), HF_UNREACHABLE);
    CHECK_INT(passed_ms(), 301);
    CHECK_INT(hf_lock(fixture.client, "a", 300, &options, &write), HF_UNREACHABLE);
    CHECK_INT(passed_ms(), 602);
    CHECK(hf_held(hold));
    CHECK_INT(hf_hold_mode(hold), HF_UPGRADE);
}

TEST(a_raise_behind_a_refused_raise_is_busy)
{
    fixture_begin();
    hf_hold *hold = take(HF_UPGRADE);
    fixture.attempt_verdict = HF_REFUSED;
    fixture_take("a", HF_WRITE, 7, HF_FOREVER, NULL);
    begin_watch();
    CHECK_INT(hf_upgrade(hold, 200), HF_BUSY);
    CHECK_INT(passed_ms(), 201);
}

static void readers_leave(struct hf_timer *timer)
{
    (void)timer;
    fixture.attempt_verdict = HF_GRANTED;
    hf__op_wake(fixture.last_attempt);
}

TEST(a_raise_behind_a_raise_shares_its_grant)
{
    fixture_begin();
    hf_hold *hold = take(HF_UPGRADE);
    fixture.attempt_verdict = HF_REFUSED;
    fixture_take("a", HF_WRITE, 7, HF_FOREVER, NULL);
    do_later(100, readers_leave);
    CHECK_INT(hf_upgrade(hold, HF_FOREVER), HF_OK);
    CHECK_INT(hf_hold_mode(hold), HF_WRITE);
    CHECK_INT(hf_unlock(fixture.hold), HF_OK);
    CHECK_INT(hf_unlock(hold), HF_OK);
}

/* ---- detaching ---- */

/* A hold with a lease of its own, whose refused upgrade the store has not yet taken back. */
static hf_hold *refused_upgrade(void)
{
    hf_hold *hold = NULL;
    hf_lock_options options = HF_LOCK_OPTIONS(.mode = HF_UPGRADE, .owner = 7, .lease_ms = 20000);
    fixture.leases = true;
    CHECK_INT(hf_lock(fixture.client, "a", HF_FOREVER, &options, &hold), HF_OK);
    fixture.attempt_verdict = HF_REFUSED;
    fixture.release_verdict = HF_NO_ANSWER;
    CHECK_INT(hf_upgrade(hold, 50), HF_BUSY);
    begin_watch();
    return hold;
}

TEST(detach_waits_for_the_end_of_a_refused_upgrade)
{
    char key[HF_OWNER_KEY_SIZE];
    fixture_begin();
    hf_hold *hold = refused_upgrade();
    do_later(100, release_is_answered);
    CHECK_INT(hf_detach(hold, key), HF_OK);
    CHECK_INT(passed_ms(), 100);
    CHECK_STR(key, "key");
}

TEST(detach_behind_a_silent_release_is_unreachable_in_time)
{
    char key[HF_OWNER_KEY_SIZE];
    fixture_begin();
    hf_hold *hold = refused_upgrade();
    CHECK_INT(hf_detach(hold, key), HF_UNREACHABLE);
    CHECK(passed_ms() <= PATIENCE_MS + 1);
    CHECK(hf_held(hold));
    CHECK_INT(fixture.changes, 0);
    release_is_answered(NULL);
    fixture_turn();
    CHECK_INT(hf_detach(hold, key), HF_OK);
}

static hf_hold *given_back_later;

static void the_last_hold_goes(struct hf_timer *timer)
{
    hf_unlock_nowait(given_back_later);
    release_is_answered(timer);
}

TEST(a_nested_write_asks_anew_when_the_owner_has_given_all_back)
{
    fixture_begin();
    given_back_later = lowered_in_silence();
    do_later(100, the_last_hold_goes);
    hf_hold *write = take(HF_WRITE);
    CHECK_INT(hf_hold_mode(write), HF_WRITE);
    CHECK_INT(fixture.last_keep, HF_KEEP_NOTHING);
    CHECK_INT(hf_unlock(write), HF_OK);
    for (unsigned s = 0; s < HF_SHARDS; s++)
        CHECK_INT(fixture.client->shards[s].entry_count, 0);
}

static void is_broken(struct hf_timer *timer)
{
    (void)timer;
    hf__lease_answer(&fixture.last_attempt->engine.own_lease, fixture.now_ms, HF_LEASE_GONE, 0,
                     NULL);
}

TEST(a_raise_of_what_was_lost_meanwhile_does_not_ask)
{
    fixture_begin();
    fixture.leases = true;
    hf_hold *hold = lowered_in_silence();
    unsigned attempts = fixture.attempts;
    do_later(0, is_broken);
    CHECK_INT(fixture_ask("a", HF_WRITE, 7, 0, NULL), HF_BUSY);
    release_is_answered(NULL);
    fixture_turn();
    CHECK(!hf_held(hold));
    CHECK_INT(hf_upgrade(hold, 100), HF_LOST);
    CHECK_INT(fixture.attempts, attempts);
}

TEST(a_raise_under_way_hears_of_the_loss)
{
    fixture_begin();
    fixture.leases = true;
    hf_hold *hold = take(HF_UPGRADE);
    CHECK_INT(fixture_ask("a", HF_WRITE, 7, 100, NULL), HF_OK);
    is_broken(NULL);
    fixture_turn();
    CHECK_INT(fixture.answers, 1);
    CHECK_INT(fixture.code, HF_LOST);
    CHECK_INT(fixture.attempts, 1);
    CHECK_INT(hf_unlock(hold), HF_LOST);
}

/* ---- what the store refuses ---- */

TEST(a_refused_downgrade_changes_nothing)
{
    fixture_begin();
    hf_hold *hold = take(HF_WRITE);
    fixture.release_verdict = HF_FAILED;
    CHECK_INT(hf_downgrade(hold, HF_READ), HF_DENIED);
    CHECK(hf_held(hold));
    CHECK_INT(hf_hold_mode(hold), HF_WRITE);
    fixture_pass_ms(10000);
    CHECK_INT(fixture.releases, 1);
    fixture.release_verdict = HF_GONE;
    CHECK_INT(hf_downgrade(hold, HF_READ), HF_OK);
    CHECK_INT(hf_hold_mode(hold), HF_READ);
    CHECK_INT(fixture.last_keep, HF_READ);
    CHECK_INT(hf_unlock(hold), HF_OK);
}

TEST(what_could_not_be_lowered_is_still_ours)
{
    fixture_begin();
    hf_hold *write = take(HF_WRITE), *read = take(HF_READ);
    fixture.release_verdict = HF_FAILED;
    CHECK_INT(hf_unlock(write), HF_DENIED);
    CHECK_INT(fixture.releases, 1);
    CHECK(hf_held(read));
    write = take(HF_WRITE);
    CHECK_INT(fixture.attempts, 1);
    fixture.release_verdict = HF_GONE;
    CHECK_INT(hf_unlock(write), HF_OK);
    CHECK_INT(fixture.last_keep, HF_READ);
    CHECK_INT(hf_unlock(read), HF_OK);
    CHECK_INT(fixture.last_keep, HF_KEEP_NOTHING);
}

/* Granted after its caller had left, and the way back is refused: the store has HF_WRITE for us. */
TEST(a_late_raise_that_cannot_go_back_is_remembered)
{
    fixture_begin();
    hf_hold *hold = take(HF_UPGRADE);
    fixture_pass_ms(10); /* the reply to that was not heard during the next wait */
    fixture.attempt_verdict = HF_NO_ANSWER;
    fixture_take("a", HF_WRITE, 7, 50, NULL);
    fixture_pass_ms(60);
    CHECK_INT(fixture.code, HF_UNREACHABLE);
    fixture.release_verdict = HF_FAILED;
    fixture_answer(fixture.last_attempt, HF_GRANTED);
    fixture_turn();
    CHECK_INT(hold->grant->claim->store_mode, HF_WRITE);
    CHECK(hf_held(hold));
    fixture.release_verdict = HF_GONE;
    CHECK_INT(hf_unlock(hold), HF_OK);
    CHECK_INT(fixture.last_keep, HF_KEEP_NOTHING);
}

/* ---- what is out while a raise begins ---- */

struct renewed {
    hf_hold *hold;
    struct thread raiser;
    bool met;
};

static void raise_it(void *arg)
{
    const struct renewed *renewed = arg;
    CHECK_INT(hf_upgrade(renewed->hold, SOON_MS), HF_OK);
}

static bool is_sent_to_loop(struct hf_claim *claim)
{
    hf__shard_lock(claim->shard);
    bool sent = claim->commands != 0;
    hf__shard_unlock(claim->shard);
    return sent;
}

/* On the loop, which is about to hand the renewal to the engine: another thread raises the claim
 * meanwhile, and has done what it does without the loop. */
static void raise_meanwhile(void *arg, const char *point, const char *name)
{
    struct renewed *renewed = arg;
    struct hf_claim *claim = renewed->hold ? renewed->hold->grant->claim : NULL;
    (void)name;
    if (!claim || renewed->met || strcmp(point, "before_renew") != 0)
        return;
    renewed->met = true;
    thread_start(&renewed->raiser, raise_it, renewed);
    EVENTUALLY(is_sent_to_loop(claim), SOON_MS);
    CHECK_INT((int)claim->op.in.mode, HF_UPGRADE);
    CHECK_INT(claim->op.in.enqueue, false);
}

/* An engine reads the op when it writes the request, which may be later than it was asked. */
TEST(op_of_a_renewal_is_not_changed_by_the_thread_that_raises)
{
    struct renewed renewed = { .hold = NULL };
    hf_lock_options options = HF_LOCK_OPTIONS(.mode = HF_UPGRADE, .owner = 7, .lease_ms = 60000);
    test_fds_kept = 2; /* libuv's, for signals */
    fixture_begin_threaded();
    fixture.leases = true;
    fixture.client->on_point = raise_meanwhile;
    fixture.client->point_arg = &renewed;
    CHECK_INT(hf_lock(fixture.client, "a", 0, &options, &renewed.hold), HF_OK);
    CHECK_INT(hf_renew(renewed.hold, 60000), HF_OK);
    CHECK(renewed.met);
    thread_join(&renewed.raiser);
    CHECK_INT((int)renewed.hold->grant->claim->op.in.mode, HF_WRITE);
    CHECK_INT(renewed.hold->grant->claim->op.in.enqueue, true);
    CHECK_INT(hf_hold_mode(renewed.hold), HF_WRITE);
    CHECK_INT(hf_unlock(renewed.hold), HF_OK);
    hf_close(fixture.client);
}

struct lost_raise {
    hf_hold *_Atomic hold;
    struct thread raiser;
    bool met;
};

static void raise_what_is_lost(void *arg)
{
    const struct lost_raise *lost = arg;
    CHECK_INT(hf_upgrade(lost->hold, SOON_MS), HF_LOST);
}

/* On the loop, which is about to say that the claim is lost. */
static void raise_before_loss(void *arg, const char *point, const char *name)
{
    struct lost_raise *lost = arg;
    (void)name;
    if (lost->met || strcmp(point, "before_loss") != 0)
        return;
    EVENTUALLY(atomic_load(&lost->hold), SOON_MS);
    struct hf_claim *claim = atomic_load(&lost->hold)->grant->claim;
    lost->met = true;
    thread_start(&lost->raiser, raise_what_is_lost, lost);
    EVENTUALLY(is_sent_to_loop(claim), SOON_MS);
}

TEST(op_of_a_lost_claim_is_not_changed_by_the_thread_that_raises)
{
    struct lost_raise lost = { .met = false };
    hf_hold *hold;
    hf_lock_options options = HF_LOCK_OPTIONS(.mode = HF_UPGRADE, .owner = 7, .lease_ms = 200);
    test_fds_kept = 2; /* libuv's, for signals */
    fixture_begin_threaded();
    fixture.leases = true;
    fixture.client->on_point = raise_before_loss;
    fixture.client->point_arg = &lost;
    CHECK_INT(hf_lock(fixture.client, "a", 0, &options, &hold), HF_OK);
    atomic_store(&lost.hold, hold);
    EVENTUALLY(atomic_load(&hold->grant->lost), SOON_MS);
    thread_join(&lost.raiser);
    CHECK(lost.met);
    CHECK_INT((int)hold->grant->claim->op.in.mode, HF_UPGRADE);
    CHECK_INT(hold->grant->claim->op.in.enqueue, false);
    CHECK_INT(hf_unlock(hold), HF_LOST);
    hf_close(fixture.client);
}

/* ---- stops ---- */

#define CLIENTS 600 /* more than hf_stop_set has room for at first */

static unsigned ended, woken;

static void end_wait(struct hf_stop_wait *wait)
{
    (void)wait;
    ended++;
}

static int64_t read_clock(void *arg)
{
    (void)arg;
    return 0;
}

static void count_wake(void *arg)
{
    (void)arg;
    woken++;
}

/* Not more of a client than stops need. */
static struct hf_client *open_part_of_client(void)
{
    struct hf_client *client = calloc(1, sizeof *client);
    client->fork_number = fixture.client->fork_number;
    hf__loop_init(&client->loop, read_clock, count_wake, NULL);
    hf__stops_open(client);
    return client;
}

/* A request with a callback has no thread that would look at the stop by itself. */
TEST(stop_reaches_waits_of_any_number_of_clients)
{
    static struct hf_client *clients[CLIENTS];
    static struct hf_stop_wait waits[CLIENTS];
    hf_stop stop = HF_STOP_INIT;
    fixture_begin();
    for (int round = 1; round <= 2; round++) {
        for (int i = 0; i < CLIENTS; i++) {
            clients[i] = open_part_of_client();
            hf__stop_wait_begin(&waits[i], clients[i], &stop, end_wait);
        }
        hf_stop_set(&stop);
        for (int i = 0; i < CLIENTS; i++) {
            hf__loop_turn(&clients[i]->loop);
            hf__stop_wait_end(&waits[i]);
            hf__stops_close(clients[i]);
            free(clients[i]);
        }
        CHECK_INT(ended, round * CLIENTS);
        CHECK_INT(woken, round * CLIENTS);
        hf_stop_clear(&stop);
    }
}

/* As one that a handler sets after the calls have looked at it. */
TEST(stop_that_is_set_before_its_waits_begin_ends_them)
{
    struct hf_stop_wait waits[2];
    hf_stop stop = HF_STOP_INIT;
    fixture_begin();
    hf_stop_set(&stop);
    ended = 0;
    for (int i = 0; i < 2; i++)
        hf__stop_wait_begin(&waits[i], fixture.client, &stop, end_wait);
    CHECK_INT(ended, 0);
    fixture_turn();
    CHECK_INT(ended, 2);
    for (int i = 0; i < 2; i++)
        hf__stop_wait_end(&waits[i]);
}
