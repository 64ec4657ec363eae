/* SPDX-License-Identifier: Apache-2.0 */
/* Claims that are set aside: nobody but who counts bytes can tell, and nothing that is held needs
 * memory that may be missing. */
#include "core/claim/claim_compact.h"

#include "fixture.h"

#include <stdio.h>

enum { THIRD_MS = FIXTURE_LEASE_MS / 3, VALID_MS = FIXTURE_LEASE_MS - FIXTURE_LEASE_MS / 100 - 2 };

static void begin(uint32_t resting)
{
    fixture_begin();
    fixture.leases = fixture.sets_aside = true;
    hf__compact_bounds =
        (struct hf_compact_bounds){ .resting = resting, .fetched = 2, .spared = 4 };
}

static hf_hold *take(const char *name, uint64_t owner)
{
    CHECK_INT(fixture_take(name, HF_MUTEX, owner, HF_FOREVER, NULL), HF_OK);
    return fixture.hold;
}

static hf_hold *take_number(unsigned number)
{
    char name[24];
    snprintf(name, sizeof name, "name/%u", number);
    return take(name, number + 1);
}

static bool is_aside(const hf_hold *hold)
{
    return hold->grant->claim == NULL;
}

TEST(who_holds_it_cannot_tell)
{
    begin(0);
    hf_hold *hold = take("a", 7);
    CHECK(is_aside(hold));
    CHECK(hf_held(hold));
    CHECK_STR(hf_hold_name(hold), "a");
    CHECK_INT(hf_hold_mode(hold), HF_MUTEX);
    CHECK_INT(hf_remaining_ms(hold), VALID_MS);
    CHECK_INT(hf_downgrade(hold, HF_READ), HF_EINVAL);
    CHECK_INT(hf_renew(hold, 1000), HF_EINVAL);
    CHECK(is_aside(hold));
    CHECK_INT(hf_unlock(hold), HF_OK);
    CHECK_INT(fixture.releases, 1);
}

TEST(a_release_finds_what_the_grant_left)
{
    begin(0);
    hf_hold *hold = take("a", 7);
    hf_hold *other = take("b", 8);
    CHECK(is_aside(hold) && is_aside(other));
    CHECK_INT(hf_unlock(hold), HF_OK);
    const struct hf_op *op = fixture.last_release;
    CHECK_STR(op->in.name, "a");
    CHECK_INT(op->in.owner, 7);
    CHECK_INT(op->in.mode, HF_MUTEX);
    CHECK_INT(op->engine.word[0], 1);
    CHECK_INT(op->engine.word[1], FIXTURE_WORD);
    CHECK_INT(op->in.keep, HF_KEEP_NOTHING);
    CHECK_INT(hf_unlock(other), HF_OK);
    CHECK_INT(fixture.last_release->engine.word[0], 2);
}

TEST(only_what_rests_longest_is_set_aside)
{
    enum { LOCKS = 1000 };
    static hf_hold *holds[LOCKS];
    unsigned resting = 0;
    begin(3);
    for (unsigned i = 0; i < LOCKS; i++)
        holds[i] = take_number(i);
    for (unsigned i = 0; i < LOCKS; i++)
        resting += !is_aside(holds[i]);
    CHECK_INT(resting, 3 * HF_SHARDS);
    CHECK(is_aside(holds[0]) && !is_aside(holds[LOCKS - 1]));
}

TEST(what_the_engine_needs_is_not_set_aside)
{
    begin(0);
    fixture.sets_aside = false;
    hf_hold *hold = take("a", 7);
    CHECK(!is_aside(hold));
    fixture.sets_aside = true;
    fixture_pass_ms(THIRD_MS);
    CHECK(is_aside(hold));
}

TEST(what_is_no_plain_mutex_is_not_set_aside)
{
    begin(0);
    hf_hold *hold = fixture_take_leased("fixed", FIXTURE_LEASE_MS);
    CHECK(!is_aside(hold));
    CHECK_INT(fixture_take("read", HF_READ, 7, 0, NULL), HF_OK);
    CHECK(!is_aside(fixture.hold));
    CHECK_INT(fixture_take("permit", HF_PERMIT, 7, 0, NULL), HF_OK);
    CHECK(!is_aside(fixture.hold));
    hf_lock_options options = HF_LOCK_OPTIONS(.owner_text = "somebody");
    CHECK_INT(hf_lock(fixture.client, "text", 0, &options, &hold), HF_OK);
    fixture_turn();
    CHECK(!is_aside(hold));
}

TEST(its_owner_nests_in_it)
{
    begin(0);
    hf_hold *outer = take("a", 7);
    hf_lock_options options = HF_LOCK_OPTIONS(.owner = 7);
    hf_hold *inner;
    CHECK_INT(hf_lock(fixture.client, "a", 0, &options, &inner), HF_OK);
    CHECK_INT(fixture.attempts, 1);
    fixture_turn();
    CHECK(is_aside(outer) && is_aside(inner));
    CHECK_INT(hf_unlock(outer), HF_OK);
    CHECK_INT(fixture.releases, 0);
    fixture_turn();
    CHECK(is_aside(inner) && hf_held(inner));
    fixture_pass_ms(THIRD_MS);
    CHECK_INT(fixture.renewals, 1);
    CHECK_INT(hf_unlock(inner), HF_OK);
    CHECK_INT(fixture.releases, 1);
}

TEST(another_owner_asks_the_store)
{
    begin(0);
    hf_hold *hold = take("a", 7);
    fixture.attempt_verdict = HF_REFUSED;
    CHECK_INT(fixture_take("a", HF_MUTEX, 8, 0, NULL), HF_BUSY);
    CHECK_INT(fixture.attempts, 2);
    CHECK_INT(fixture.last_attempt->in.owner, 8);
    CHECK(hf_held(hold));
    fixture_pass_ms(THIRD_MS);
    CHECK(is_aside(hold));
    CHECK_INT(hf_unlock(hold), HF_OK);
}

/* ---- leases ---- */

TEST(renewed_at_each_third_of_its_length)
{
    begin(0);
    hf_hold *hold = take("a", 7);
    for (unsigned i = 1; i <= 10; i++) {
        fixture_pass_ms(THIRD_MS - 1);
        CHECK_INT(fixture.renewals, i - 1);
        fixture_pass_ms(1);
        CHECK_INT(fixture.renewals, i);
        CHECK(is_aside(hold));
        CHECK_INT(hf_remaining_ms(hold), VALID_MS);
    }
}

/* Two names of one shard. */
static void take_two(hf_hold *holds[2])
{
    const struct hf_shard *shard = NULL;
    unsigned i = 0;
    holds[0] = take_number(i);
    shard = holds[0]->grant->shard;
    fixture_pass_ms(1000);
    do {
        holds[1] = take_number(++i);
        if (holds[1]->grant->shard != shard)
            CHECK_INT(hf_unlock(holds[1]), HF_OK);
    } while (holds[1]->grant->shard != shard);
}

TEST(who_was_fetched_in_between_has_its_old_place_in_the_line)
{
    begin(0);
    hf_hold *holds[2], *inner;
    take_two(holds);
    hf_lock_options options = HF_LOCK_OPTIONS(.owner = 1);
    CHECK_INT(hf_lock(fixture.client, hf_hold_name(holds[0]), 0, &options, &inner), HF_OK);
    fixture_turn();
    CHECK(is_aside(holds[0]) && is_aside(holds[1]));
    fixture_pass_ms(THIRD_MS - 1000);
    CHECK_INT(fixture.renewals, 1);
    fixture_pass_ms(1000);
    CHECK_INT(fixture.renewals, 2);
}

static unsigned losses;

static void count_loss(void *arg, const hf_loss *loss)
{
    (void)arg;
    CHECK(loss->reason != NULL);
    losses++;
}

static hf_hold *take_telling(const char *name)
{
    hf_hold *hold = NULL;
    hf_lock_options options = HF_LOCK_OPTIONS(.owner = 7, .on_lost = count_loss);
    CHECK_INT(hf_lock(fixture.client, name, 0, &options, &hold), HF_OK);
    fixture_turn();
    return hold;
}

TEST(silence_ends_it_before_the_store_does)
{
    begin(0);
    hf_hold *hold = take_telling("a");
    fixture.answers_renewals = false;
    fixture_pass_ms(VALID_MS - 1);
    CHECK(hf_held(hold));
    CHECK(fixture.renewals >= 4);
    CHECK_INT(losses, 0);
    fixture_pass_ms(1);
    CHECK(!hf_held(hold));
    CHECK_INT(losses, 1);
    CHECK(is_aside(hold));
    fixture_pass_ms(10 * FIXTURE_LEASE_MS);
    CHECK_INT(losses, 1);
    CHECK_INT(hf_unlock(hold), HF_LOST);
    CHECK_INT(fixture.releases, 1);
}

/* The process stood still, and nothing of it has run in between. */
TEST(what_is_over_is_lost_not_renewed)
{
    begin(0);
    hf_hold *hold = take_telling("a");
    fixture.now_ms += VALID_MS;
    CHECK(!hf_held(hold));
    fixture_turn();
    CHECK_INT(fixture.renewals, 0);
    CHECK_INT(losses, 1);
    CHECK_INT(hf_unlock(hold), HF_LOST);
}

enum { MANY = 5000 };
static hf_hold *many[MANY];

static void take_many(void)
{
    for (unsigned i = 0; i < MANY; i++)
        many[i] = take_number(i);
}

TEST(few_are_renewed_at_a_time)
{
    begin(0);
    take_many();
    fixture.answers_renewals = false;
    fixture_pass_ms(THIRD_MS + FIXTURE_LEASE_MS / 10);
    CHECK_INT(fixture.renewals, 2 * HF_SHARDS);
    /* Those have not been heard of, so that others are asked for. */
    fixture_pass_ms(FIXTURE_LEASE_MS / 6);
    CHECK(fixture.renewals >= 6 * HF_SHARDS);
    fixture.answers_renewals = true;
    fixture_pass_ms(FIXTURE_LEASE_MS / 6);
    for (unsigned i = 0; i < MANY; i++)
        CHECK(hf_remaining_ms(many[i]) > FIXTURE_LEASE_MS / 3);
}

/* ---- out of memory ---- */

static bool refuse_memory(size_t size)
{
    (void)size;
    return false;
}

TEST(no_new_lock_gets_what_is_spared)
{
    begin(0);
    take_many();
    hf__alloc_hook = refuse_memory;
    unsigned refused = 0;
    fixture.attempt_verdict = HF_NO_ANSWER;
    for (unsigned i = 0; i < MANY; i++) {
        char name[24];
        snprintf(name, sizeof name, "new/%u", i);
        refused += fixture_ask(name, HF_MUTEX, i + 1, 0, NULL) == HF_ENOMEM;
        snprintf(name, sizeof name, "name/%u", i);
        refused += fixture_ask(name, HF_MUTEX, MANY + i, 0, NULL) == HF_ENOMEM;
    }
    CHECK(refused > MANY);
    for (unsigned s = 0; s < HF_SHARDS; s++)
        CHECK(fixture.client->shards[s].free_claim_count >= hf__compact_bounds.spared);
    hf__alloc_hook = NULL;
}

TEST(without_memory_they_are_renewed_and_given_back)
{
    begin(0);
    take_many();
    hf__alloc_hook = refuse_memory;
    fixture_pass_ms(3 * FIXTURE_LEASE_MS);
    CHECK_INT(fixture.renewals, 9 * MANY);
    for (unsigned i = 0; i < MANY; i++)
        hf_unlock_nowait(many[i]);
    /* What there was no memory for is not renewed, and goes back as soon as there is. */
    unsigned renewals = fixture.renewals;
    fixture_turn();
    CHECK_INT(fixture.releases, MANY);
    fixture_pass_ms(FIXTURE_LEASE_MS);
    CHECK_INT(fixture.renewals, renewals);
    hf__alloc_hook = NULL;
    for (unsigned s = 0; s < HF_SHARDS; s++)
        CHECK_INT(fixture.client->shards[s].entry_count, 0);
}

TEST(without_memory_who_unlocks_does_not_wait_for_it)
{
    begin(0);
    take_many();
    hf__alloc_hook = refuse_memory;
    unsigned unreachable = 0;
    fixture.release_verdict = HF_NO_ANSWER;
    for (unsigned i = 0; i < MANY / 2; i++)
        hf_unlock_nowait(many[i]);
    for (unsigned i = MANY / 2; i < MANY; i++)
        unreachable += hf_unlock(many[i]) == HF_UNREACHABLE;
    CHECK_INT(unreachable, MANY / 2);
    hf__alloc_hook = NULL;
}

TEST(without_memory_each_loss_is_told)
{
    enum { LOCKS = 600 };
    begin(0);
    losses = 0;
    for (unsigned i = 0; i < LOCKS; i++) {
        char name[24];
        snprintf(name, sizeof name, "name/%u", i);
        many[i] = take_telling(name);
    }
    hf__alloc_hook = refuse_memory;
    fixture.answers_renewals = false;
    fixture_pass_ms(FIXTURE_LEASE_MS);
    CHECK_INT(losses, LOCKS);
    for (unsigned i = 0; i < LOCKS; i++)
        CHECK(!hf_held(many[i]));
    for (unsigned i = 0; i < LOCKS; i++)
        CHECK_INT(hf_unlock(many[i]), HF_LOST);
    CHECK_INT(fixture.releases, LOCKS);
    hf__alloc_hook = NULL;
}

TEST(closing_gives_all_of_them_back)
{
    begin(0);
    take_many();
    hf__alloc_hook = refuse_memory;
    hf_close(fixture.client);
    hf__alloc_hook = NULL;
    CHECK_INT(fixture.releases, MANY);
}

/* ---- threads ---- */

enum { ROUNDS = 300, NAMES = 40 };

static void use_locks(void *arg)
{
    uint64_t owner = *(const unsigned *)arg;
    hf_hold *holds[NAMES];
    for (unsigned round = 0; round < ROUNDS / NAMES; round++) {
        for (unsigned i = 0; i < NAMES; i++) {
            char name[24];
            hf_lock_options options = HF_LOCK_OPTIONS(.owner = owner);
            snprintf(name, sizeof name, "%u/%u", (unsigned)owner, i);
            CHECK_INT(hf_lock(fixture.client, name, HF_FOREVER, &options, &holds[i]), HF_OK);
            if (i % 3 == 0) {
                hf_hold *inner;
                CHECK_INT(hf_lock(fixture.client, name, HF_FOREVER, &options, &inner), HF_OK);
                CHECK_INT(hf_unlock(inner), HF_OK);
            }
        }
        for (unsigned i = 0; i < NAMES; i++)
            CHECK(hf_held(holds[i]) && hf_remaining_ms(holds[i]) > 0);
        for (unsigned i = 0; i < NAMES; i++)
            CHECK_INT(hf_unlock(holds[NAMES - 1 - i]), HF_OK);
    }
}

TEST(many_threads_use_what_is_set_aside)
{
    enum { THREADS = 6 };
    unsigned owners[THREADS];
    struct thread threads[THREADS];
    test_fds_kept = 2; /* libuv's, for signals */
    fixture_begin_threaded();
    fixture.leases = fixture.sets_aside = true;
    hf__compact_bounds = (struct hf_compact_bounds){ .resting = 0, .fetched = 2, .spared = 4 };
    for (unsigned i = 0; i < THREADS; i++) {
        owners[i] = i + 1;
        thread_start(&threads[i], use_locks, &owners[i]);
    }
    for (unsigned i = 0; i < THREADS; i++)
        thread_join(&threads[i]);
    hf_close(fixture.client);
    CHECK_INT(fixture.attempts, fixture.releases);
}
