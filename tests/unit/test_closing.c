/* SPDX-License-Identifier: Apache-2.0 */
/* Closing a client while threads still wait for a store that does not answer. */
#include "core/api/close.h"
#include "core/table/lock_table.h"

#include "fixture.h"

#define SOON_MS 20000

/* libuv has a pipe for signals, once a process. */
__attribute__((constructor)) static void keep_descriptors(void)
{
    test_fds_kept = 2;
}

static void expect_closed(int code)
{
    CHECK_INT(code, HF_ECLOSED);
}

static void count_in_silence(void *arg)
{
    (void)arg;
    expect_closed(hf_counter_set(fixture.client, "a", 1));
}

TEST(a_question_that_is_out_ends_with_the_client)
{
    struct thread thread;
    fixture_begin_threaded();
    fixture.silent_changes = true;
    thread_start(&thread, count_in_silence, NULL);
    EVENTUALLY(atomic_load(&fixture.changes) == 1, SOON_MS);
    hf_close(fixture.client);
    thread_join(&thread);
}

static hf_hold *take(hf_mode mode)
{
    hf_hold *hold = NULL;
    hf_lock_options options = HF_LOCK_OPTIONS(.mode = mode, .owner = 7);
    CHECK_INT(hf_lock(fixture.client, "a", HF_FOREVER, &options, &hold), HF_OK);
    return hold;
}

static void raise_in_silence(void *arg)
{
    expect_closed(hf_upgrade(arg, HF_FOREVER));
}

static bool somebody_waits(struct hf_claim *claim)
{
    hf__shard_lock(claim->shard);
    bool waits = claim->unlock_waiter != NULL;
    hf__shard_unlock(claim->shard);
    return waits;
}

TEST(a_raise_behind_a_silent_lowering_ends_with_the_client)
{
    struct thread thread;
    fixture_begin_threaded();
    /* So long hf_close waits for the lowering, which is never answered. */
    fixture.client->request_timeout_ms = 200;
    hf_hold *hold = take(HF_UPGRADE), *write = take(HF_WRITE);
    fixture.release_verdict = HF_NO_ANSWER;
    hf_unlock_nowait(write);
    EVENTUALLY(atomic_load(&fixture.releases) == 1, SOON_MS);
    thread_start(&thread, raise_in_silence, hold);
    EVENTUALLY(somebody_waits(hold->grant->claim), SOON_MS);
    hf_close(fixture.client);
    thread_join(&thread);
}

static void hear_the_end(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    (void)hold, (void)error;
    expect_closed(code);
    ++*(_Atomic int *)arg;
}

TEST(who_waits_in_line_behind_silence_is_told_and_does_not_ask)
{
    _Atomic int told = 0;
    fixture_begin_threaded();
    fixture.client->request_timeout_ms = 200;
    fixture.attempt_verdict = HF_NO_ANSWER;
    for (uint64_t owner = 1; owner <= 2; owner++) {
        hf_lock_options options = HF_LOCK_OPTIONS(.owner = owner);
        CHECK_INT(
            hf_lock_async(fixture.client, "a", HF_FOREVER, &options, hear_the_end, &told, NULL),
            HF_OK);
    }
    EVENTUALLY(atomic_load(&fixture.attempts) == 1, SOON_MS);
    hf_close(fixture.client);
    CHECK_INT(told, 2);
    CHECK_INT(fixture.attempts, 1);
}

/* However much a claim has been sent to the loop for. */
TEST(nothing_is_asked_of_an_engine_that_has_been_closed)
{
    fixture_begin();
    hf_hold *hold = take(HF_MUTEX);
    hf__shard_lock(hold->grant->claim->shard);
    hf__claim_post(hold->grant->claim, HF_CMD_LOSE);
    hf__shard_unlock(hold->grant->claim->shard);
    hf_unlock_nowait(hold);
    hf__client_close_parts(fixture.client);
    CHECK_INT(fixture.releases, 0);
}

/* A connection may bring a reply, or end, while the engine says goodbye to its store. */
TEST(reply_while_the_engine_ends_asks_for_no_release)
{
    _Atomic int told = 0;
    fixture_begin();
    fixture.attempt_verdict = HF_NO_ANSWER;
    fixture.answers_at_its_end = true;
    CHECK_INT(hf_lock_async(fixture.client, "a", HF_FOREVER, NULL, hear_the_end, &told, NULL),
              HF_OK);
    fixture_turn();
    CHECK_INT(fixture.attempts, 1);
    hf_close(fixture.client);
    CHECK_INT(told, 1);
    CHECK_INT(fixture.releases, 0);
}
