/* SPDX-License-Identifier: Apache-2.0 */
/* Claims that are set aside and fetched back while something is scarce: memory, answers, or the
 * time until somebody else is through with them. */
#include "core/claim/claim_compact.h"
#include "core/table/lock_table.h"
#include "fixture.h"

#include <stdio.h>

static void begin(uint32_t resting)
{
    fixture_begin();
    fixture.leases = fixture.sets_aside = true;
    hf__compact_bounds =
        (struct hf_compact_bounds){ .resting = resting, .fetched = 32, .spared = 8 };
}

/* A name of the shard of all that were made before. */
static void next_name(char name[24], unsigned *tried, struct hf_shard **shard)
{
    for (;;) {
        snprintf(name, 24, "name/%u", (*tried)++);
        CHECK_INT(fixture_take(name, HF_MUTEX, 1, HF_FOREVER, NULL), HF_OK);
        struct hf_shard *its = fixture.hold->grant->shard;
        CHECK_INT(hf_unlock(fixture.hold), HF_OK);
        if (!*shard)
            *shard = its;
        if (its == *shard)
            return;
    }
}

/* ---- memory ---- */

static bool refuse_memory(size_t size)
{
    (void)size;
    return false;
}

/* Nine wait for locks and seven are held: that is all the memory there is. */
TEST(without_memory_to_fetch_it_back_none_is_set_aside)
{
    enum { WAITING = 9, HELD = HF_CLAIM_CHUNK - WAITING };
    begin(HELD - 1);
    char names[HF_CLAIM_CHUNK][24];
    hf_hold *held[HELD];
    unsigned tried = 0;
    struct hf_shard *shard = NULL;
    for (unsigned i = 0; i < HF_CLAIM_CHUNK; i++)
        next_name(names[i], &tried, &shard);
    fixture.attempt_verdict = HF_REFUSED;
    for (unsigned i = 0; i < WAITING; i++)
        CHECK_INT(fixture_ask(names[i], HF_MUTEX, 2, HF_FOREVER, NULL), HF_OK);
    fixture_turn();
    fixture.attempt_verdict = HF_GRANTED;
    hf__alloc_hook = refuse_memory;
    for (unsigned i = 0; i < HELD; i++) {
        CHECK_INT(fixture_take(names[WAITING + i], HF_MUTEX, 3, HF_FOREVER, NULL), HF_OK);
        held[i] = fixture.hold;
    }
    fixture_pass_ms(FIXTURE_LEASE_MS);
    for (unsigned i = 0; i < HELD; i++)
        CHECK(hf_held(held[i]));
    hf__alloc_hook = NULL;
}

/* ---- answers ---- */

static struct hf_shard *take_in_one_shard(hf_hold **holds, unsigned count, uint64_t owner,
                                          unsigned *tried, struct hf_shard *shard)
{
    for (unsigned i = 0; i < count; i++) {
        char name[24];
        next_name(name, tried, &shard);
        CHECK_INT(fixture_take(name, HF_MUTEX, owner, HF_FOREVER, NULL), HF_OK);
        holds[i] = fixture.hold;
    }
    return shard;
}

TEST(who_is_given_back_does_not_keep_others_from_being_renewed)
{
    enum { LOCKS = 60 };
    hf_hold *holds[LOCKS];
    unsigned tried = 0;
    begin(0);
    struct hf_shard *shard = take_in_one_shard(holds, LOCKS, 3, &tried, NULL);
    uint32_t fetched = hf__compact_bounds.fetched;
    fixture.answers_renewals = false;
    fixture.release_verdict = HF_NO_ANSWER;
    fixture_pass_ms(FIXTURE_LEASE_MS / 3);
    CHECK_INT(shard->fetched_count, fetched);
    for (unsigned i = 0; i < fetched; i++)
        hf_unlock_nowait(holds[i]);
    fixture.answers_renewals = true;
    fixture_pass_ms(FIXTURE_LEASE_MS / 10);
    for (unsigned i = fetched; i < LOCKS; i++)
        CHECK(hf_remaining_ms(holds[i]) > FIXTURE_LEASE_MS * 3 / 4);
}

TEST(who_is_refused_does_not_keep_others_from_being_renewed)
{
    enum { REFUSED = 150, LOCKS = 250 };
    static hf_hold *refused[REFUSED], *holds[LOCKS];
    unsigned tried = 0;
    begin(0);
    struct hf_shard *shard = take_in_one_shard(refused, REFUSED, 7, &tried, NULL);
    take_in_one_shard(holds, LOCKS, 3, &tried, shard);
    fixture.refuses_renewals_from = 7;
    fixture_pass_ms(FIXTURE_LEASE_MS / 3 + FIXTURE_LEASE_MS / 10);
    for (unsigned i = 0; i < LOCKS; i++)
        CHECK(hf_remaining_ms(holds[i]) > FIXTURE_LEASE_MS * 3 / 4);
    fixture_pass_ms(2 * FIXTURE_LEASE_MS);
    for (unsigned i = 0; i < REFUSED; i++)
        CHECK(!hf_held(refused[i]));
    for (unsigned i = 0; i < LOCKS; i++)
        CHECK(hf_held(holds[i]));
}

/* ---- time ---- */

static _Atomic bool being_told;
static struct hf_shard *told_in;

static bool has_begun_more_than(uint64_t calls)
{
    hf__shard_lock(told_in);
    bool more = told_in->calls_begun > calls;
    hf__shard_unlock(told_in);
    return more;
}

/* Who gives it back meanwhile has been counted in, and waits. */
static void tell_slowly(void *arg, const hf_loss *loss)
{
    (void)arg, (void)loss;
    hf__shard_lock(told_in);
    uint64_t calls = told_in->calls_begun;
    hf__shard_unlock(told_in);
    atomic_store(&being_told, true);
    EVENTUALLY(has_begun_more_than(calls), 20000);
}

static void give_back_what_is_told(void *arg)
{
    EVENTUALLY(atomic_load(&being_told), 20000);
    CHECK_INT(hf_unlock(arg), HF_LOST);
}

static hf_hold *take_as(const char *name, uint64_t owner, hf_lost_cb *on_lost)
{
    hf_hold *hold;
    hf_lock_options options = HF_LOCK_OPTIONS(.owner = owner, .on_lost = on_lost);
    CHECK_INT(hf_lock(fixture.client, name, HF_FOREVER, &options, &hold), HF_OK);
    return hold;
}

/* True once it is set aside; its lease is over then. */
static bool end_lease_aside(hf_hold *hold)
{
    hf__shard_lock(told_in);
    bool aside = !hold->grant->claim;
    if (aside)
        atomic_store(&hold->grant->valid_until_ms, 1);
    hf__shard_unlock(told_in);
    return aside;
}

/* Setting another one aside makes the loop look at the line. */
static void set_another_aside(void)
{
    char name[24];
    for (unsigned i = 0;; i++) {
        snprintf(name, sizeof name, "other/%u", i);
        if (take_as(name, 8, NULL)->grant->shard == told_in)
            return;
    }
}

TEST(who_waits_for_on_lost_keeps_the_claim_from_being_set_aside)
{
    test_fds_kept = 2; /* libuv's, for signals */
    for (unsigned round = 0; round < 10; round++) {
        fixture_begin_threaded();
        fixture.leases = fixture.sets_aside = true;
        hf__compact_bounds = (struct hf_compact_bounds){ .resting = 0, .fetched = 2, .spared = 4 };
        atomic_store(&being_told, false);
        hf_hold *hold = take_as("a", 7, tell_slowly);
        told_in = hold->grant->shard;
        struct thread thread;
        thread_start(&thread, give_back_what_is_told, hold);
        EVENTUALLY(end_lease_aside(hold), 20000);
        set_another_aside();
        thread_join(&thread);
        hf_close(fixture.client);
    }
}
