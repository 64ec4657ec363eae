/* SPDX-License-Identifier: Apache-2.0 */
/* The watchdog: when it renews, when it gives up, and what a hundred thousand leases cost it. */
#include "core/lease/lease.h"

#include "base/clock.h"
#include "fixture.h"

#include <stdlib.h>

TEST(renewed_at_each_third_of_its_length)
{
    fixture_begin();
    fixture.leases = true;
    CHECK_INT(fixture_take("a", HF_MUTEX, 1, HF_FOREVER, NULL), HF_OK);
    for (unsigned i = 1; i <= 10; i++) {
        fixture_pass_ms(FIXTURE_LEASE_MS / 3 - 1);
        CHECK_INT(fixture.renewals, i - 1);
        fixture_pass_ms(1);
        CHECK_INT(fixture.renewals, i);
    }
    CHECK(hf_held(fixture.hold));
    CHECK_INT(hf_remaining_ms(fixture.hold), FIXTURE_LEASE_MS - FIXTURE_LEASE_MS / 100 - 2);
}

TEST(silence_ends_it_before_the_store_does)
{
    fixture_begin();
    fixture.leases = true;
    fixture.answers_renewals = false;
    CHECK_INT(fixture_take("a", HF_MUTEX, 1, HF_FOREVER, NULL), HF_OK);
    int64_t valid_ms = FIXTURE_LEASE_MS - FIXTURE_LEASE_MS / 100 - 2;
    fixture_pass_ms(valid_ms - 1);
    CHECK(hf_held(fixture.hold));
    CHECK(fixture.renewals >= 4);
    fixture_pass_ms(1);
    CHECK(!hf_held(fixture.hold));
    unsigned renewals = fixture.renewals;
    fixture_pass_ms(10 * FIXTURE_LEASE_MS);
    CHECK_INT(fixture.renewals, renewals);
    CHECK_INT(hf_unlock(fixture.hold), HF_LOST);
    CHECK_INT(fixture.releases, 1);
}

static void keep_reason(void *arg, const hf_loss *loss)
{
    *(const char **)arg = loss->reason;
}

static hf_hold *take_telling(const char *name, uint64_t owner, const char **reason)
{
    hf_hold *hold = NULL;
    hf_lock_options options =
        HF_LOCK_OPTIONS(.owner = owner, .on_lost = keep_reason, .lost_arg = reason);
    CHECK_INT(hf_lock(fixture.client, name, HF_FOREVER, &options, &hold), HF_OK);
    return hold;
}

TEST(a_loss_names_what_the_store_said_of_this_lock_alone)
{
    const char *silent = NULL, *refused = NULL;
    fixture_begin();
    fixture.leases = true;
    fixture.answers_renewals = false;
    fixture.refuses_renewals_from = 2;
    fixture.refusal = "they are not yours to renew";
    take_telling("silent", 1, &silent);
    fixture_pass_ms(1);
    take_telling("refused", 2, &refused);
    fixture_pass_ms(FIXTURE_LEASE_MS);
    CHECK_STR(refused, "they are not yours to renew");
    CHECK_STR(silent, "its lease could not be renewed in time");
}

TEST(who_was_renewed_since_was_not_refused)
{
    const char *reason = NULL;
    fixture_begin();
    fixture.leases = true;
    fixture.refuses_renewals_from = 1;
    fixture.refusal = "this is not yours to renew";
    take_telling("a", 1, &reason);
    fixture_pass_ms(FIXTURE_LEASE_MS / 3);
    fixture.refuses_renewals_from = 0;
    fixture_pass_ms(FIXTURE_LEASE_MS / 3);
    CHECK(fixture.renewals >= 2);
    fixture.answers_renewals = false;
    fixture_pass_ms(2 * FIXTURE_LEASE_MS);
    CHECK_STR(reason, "its lease could not be renewed in time");
}

/* The process stood still, and nothing of it has run in between. */
TEST(an_answer_that_comes_after_the_end_revives_nothing)
{
    fixture_begin();
    fixture.leases = true;
    fixture.answers_renewals = false;
    CHECK_INT(fixture_take("a", HF_MUTEX, 1, HF_FOREVER, NULL), HF_OK);
    fixture_pass_ms(FIXTURE_LEASE_MS / 3);
    int64_t asked_at_ms = fixture.now_ms;
    fixture.now_ms += FIXTURE_LEASE_MS * 3 / 4;
    CHECK(!hf_held(fixture.hold));
    hf__lease_answer(fixture.hold->grant->claim->op.out.rests_on, asked_at_ms, HF_LEASE_RENEWED, 0,
                     NULL);
    CHECK(!hf_held(fixture.hold));
    CHECK_INT(hf_unlock(fixture.hold), HF_LOST);
}

/* The same for the answer that makes a short lease a long one. */
TEST(a_longer_lease_that_is_confirmed_too_late_revives_nothing)
{
    fixture_begin();
    fixture.leases = true;
    fixture.answers_renewals = false;
    CHECK_INT(fixture_take("a", HF_MUTEX, 1, HF_FOREVER, NULL), HF_OK);
    struct hf_lease *lease = fixture.hold->grant->claim->op.out.rests_on;
    fixture_pass_ms(FIXTURE_LEASE_MS / 3);
    int64_t asked_at_ms = fixture.now_ms;
    fixture.now_ms += FIXTURE_LEASE_MS * 3 / 4;
    CHECK(!hf_held(fixture.hold));
    hf__lease_answer(lease, asked_at_ms, HF_LEASE_RENEWED, 10 * FIXTURE_LEASE_MS, NULL);
    CHECK(!hf_held(fixture.hold));
    CHECK_INT(hf_unlock(fixture.hold), HF_LOST);
}

TEST(what_is_given_back_is_not_renewed)
{
    fixture_begin();
    fixture.leases = true;
    CHECK_INT(fixture_take("a", HF_MUTEX, 1, HF_FOREVER, NULL), HF_OK);
    CHECK_INT(hf_unlock(fixture.hold), HF_OK);
    fixture_pass_ms(FIXTURE_LEASE_MS);
    CHECK_INT(fixture.renewals, 0);
    CHECK(hf__loop_turn(&fixture.client->loop) == HF_NEVER);
}

/* ---- many leases, without claims around them ---- */

static struct hf_claim *claims;
static struct hf_grant *grants;

static void make_claims(unsigned count)
{
    claims = calloc(count, sizeof *claims);
    grants = calloc(count, sizeof *grants);
    CHECK(claims && grants);
}

static void free_claims(void)
{
    free(claims);
    free(grants);
}

static struct hf_claim *add_lease(unsigned index, int64_t lease_ms, bool fixed)
{
    struct hf_claim *claim = &claims[index];
    claim->client = fixture.client;
    claim->shard = fixture.client->shards;
    hf__link_init(&claim->rest_link);
    claim->grant = &grants[index];
    claim->store_mode = HF_KEEP_NOTHING;
    claim->state = HF_CLAIM_HELD;
    claim->completed = true;
    claim->op.engine.own_lease = (struct hf_lease){ .engine = &fixture.engine,
                                                    .lease_ms = lease_ms,
                                                    .asked_at_ms = fixture.now_ms,
                                                    .fixed = fixed };
    claim->op.out.rests_on = &claim->op.engine.own_lease;
    hf__link_init(&claim->lease_link);
    hf__link_init(&claim->grant->holds);
    hf__lease_follow(claim);
    return claim;
}

#define MANY 100000u

TEST(many_leases_are_each_asked_for_once)
{
    fixture_begin();
    make_claims(MANY);
    for (unsigned i = 0; i < MANY; i++) {
        add_lease(i, FIXTURE_LEASE_MS, false);
        if (i % 20 == 0)
            fixture.now_ms++;
    }
    fixture_pass_ms(FIXTURE_LEASE_MS / 3);
    /* The first one is due again by then. */
    CHECK(fixture.renewals >= MANY && fixture.renewals < MANY + 100);
    unsigned renewals = fixture.renewals;
    for (unsigned i = 0; i < MANY; i++)
        hf__lease_unwatch(&claims[i]);
    CHECK(fixture.client->loop.heap == NULL);
    fixture_pass_ms(FIXTURE_LEASE_MS);
    CHECK_INT(fixture.renewals, renewals);
    free_claims();
}

TEST(each_of_many_lengths_ends_in_time)
{
    enum { LENGTHS = 60 };
    fixture_begin();
    make_claims(LENGTHS);
    for (unsigned i = 0; i < LENGTHS; i++)
        add_lease(i, 100 + (int64_t)(i * 37 % LENGTHS) * 10, true);
    for (int64_t ms = 1; ms <= 800; ms++) {
        fixture_pass_ms(1);
        for (unsigned i = 0; i < LENGTHS; i++) {
            const struct hf_lease *lease = &claims[i].op.engine.own_lease;
            CHECK(lease->lost == (fixture.now_ms >= hf__lease_valid_until(lease)));
        }
    }
    CHECK_INT(fixture.renewals, 0);
    free_claims();
}

TEST(the_margin_is_a_hundredth_and_two_milliseconds)
{
    struct hf_lease lease = { .lease_ms = 1000, .asked_at_ms = 5000 };
    CHECK_INT(hf__lease_valid_until(&lease), 5988);
    lease.lease_ms = 30000;
    CHECK_INT(hf__lease_valid_until(&lease), 34698);
}

/* ---- an end of its own on top of a session's lease ---- */

TEST(an_end_of_its_own_is_kept_however_often_it_is_confirmed)
{
    fixture_begin();
    struct hf_grant grant = { .valid_until_ms = HF_NEVER };
    struct hf_claim claim = { .client = fixture.client,
                              .shard = fixture.client->shards,
                              .grant = &grant,
                              .store_mode = HF_KEEP_NOTHING };
    struct hf_lease *lease = &claim.op.engine.own_lease;
    claim.state = HF_CLAIM_HELD;
    *lease = (struct hf_lease){ .engine = &fixture.engine,
                                .lease_ms = 1000,
                                .asked_at_ms = fixture.now_ms,
                                .ends_at_ms = fixture.now_ms + 2500,
                                .fixed = true };
    claim.op.out.rests_on = lease;
    hf__link_init(&claim.rest_link);
    hf__link_init(&claim.lease_link);
    hf__link_init(&grant.holds);
    hf__lease_follow(&claim);
    int64_t begin_ms = fixture.now_ms;
    for (int i = 0; i < 4; i++) {
        fixture_pass_ms(600);
        CHECK(!lease->lost);
        hf__lease_answer(lease, fixture.now_ms, HF_LEASE_RENEWED, 0, NULL);
    }
    CHECK_INT(hf__lease_valid_until(lease), begin_ms + 2500);
    hf__lease_extended(lease, fixture.now_ms, 50);
    CHECK_INT(hf__lease_valid_until(lease), begin_ms + 2500);
    hf__lease_extended(lease, fixture.now_ms, 400);
    CHECK_INT(hf__lease_valid_until(lease), begin_ms + 2400 + 400 - 6);
    /* The session's word counts as well. */
    hf__lease_extended(lease, fixture.now_ms, 100000);
    CHECK_INT(hf__lease_valid_until(lease), begin_ms + 2400 + 1000 - 12);
    fixture_pass_ms(988);
    CHECK(lease->lost);
}

TEST(one_claim_can_be_lost_without_the_others)
{
    fixture_begin();
    fixture.leases = true;
    CHECK_INT(fixture_take("a", HF_MUTEX, 1, HF_FOREVER, NULL), HF_OK);
    hf_hold *broken = fixture.hold;
    struct hf_op *op = fixture.last_attempt;
    CHECK_INT(fixture_take("b", HF_MUTEX, 1, HF_FOREVER, NULL), HF_OK);
    hf_hold *other = fixture.hold;
    hf__op_lost(op, "it was broken");
    CHECK(!hf_held(broken) && hf_held(other));
    CHECK_INT(hf_remaining_ms(broken), 0);
    CHECK_INT(hf_unlock(broken), HF_LOST);
    CHECK_INT(hf_unlock(other), HF_OK);
}

/* ---- on the caller's thread ---- */

static int64_t real_clock(void *arg)
{
    (void)arg;
    return hf__clock_ms();
}

TEST(attempt_that_takes_longer_than_its_lease_is_repeated)
{
    enum { LEASE_MS = 100 };
    hf_lock_options options = HF_LOCK_OPTIONS(.lease_ms = LEASE_MS);
    hf_hold *hold = NULL;
    fixture_begin_here();
    fixture.client->loop.clock = real_clock;
    fixture.leases = true;
    fixture.attempt_takes_ms = 2 * LEASE_MS;
    CHECK_INT(hf_lock(fixture.client, "a", 0, &options, &hold), HF_OK);
    CHECK_INT(fixture.releases, 1);
    CHECK(fixture.attempts > 1);
}
