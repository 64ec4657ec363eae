/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: every allocation may fail, and locking that has warmed up allocates nothing. */
#include "conformance.h"

#include "base/testing.h"

#include <limits.h>

static _Atomic int allocations, fail_at;

static bool count_allocation(size_t size)
{
    int number = ++allocations;

    (void)size;
    return number != fail_at;
}

static void arm(int at)
{
    allocations = 0;
    fail_at = at;
    hf__alloc_hook = count_allocation;
}

/* Fine, or out of memory in so many words. */
static bool went_well(int code)
{
    if (code != HF_OK)
        CHECK_CODE(code, HF_ENOMEM);
    return code == HF_OK;
}

static int open_failing(hf_client **ret, hf_driver driver)
{
    return hf_open(ret, store_url(), &HF_CLIENT_OPTIONS(.driver = driver));
}

static void drop(hf_hold *hold)
{
    if (hold)
        CHECK(went_well(hf_unlock(hold)));
}

static void lock_nested(hf_client *client)
{
    hf_hold *outer = NULL, *inner = NULL;

    if (went_well(hf_lock(client, "outer", 0, NULL, &outer)))
        went_well(hf_lock(client, "outer", 0, NULL, &inner));
    drop(inner);
    drop(outer);
}

static void lock_in_all_modes(hf_client *client)
{
    for (hf_mode mode = HF_MUTEX; mode <= HF_PERMIT; mode++) {
        hf_hold *hold = NULL;
        went_well(hf_lock(client, mode == HF_PERMIT ? "sem" : "changing", 1000,
                          LOCK_OPTIONS(.mode = mode, .limit = mode == HF_PERMIT, .lease_ms = 60000,
                                       .owner_text = "somebody"),
                          &hold));
        drop(hold);
    }
}

static void wait_in_vain(hf_client *client)
{
    hf_hold *hold = NULL, *refused = NULL;

    if (went_well(hf_lock(client, "busy", 0, LOCK_OPTIONS(.owner = 1), &hold))) {
        int code = hf_lock(client, "busy", 5, LOCK_OPTIONS(.owner = 2), &refused);
        CHECK(code == HF_BUSY || code == HF_ENOMEM);
        CHECK(refused == NULL);
    }
    drop(hold);
}

static void ask_and_cancel(hf_client *client)
{
    struct outcome granted = { 0 }, canceled = { 0 };
    hf_request request = 0;
    hf_hold *hold = NULL;

    if (went_well(
            hf_lock_async(client, "async", HF_FOREVER, NULL, record_outcome, &granted, NULL))) {
        WAIT_OUTCOME(&granted);
        went_well(granted.code);
        drop(granted.hold);
    }
    went_well(hf_lock(client, "async", 0, LOCK_OPTIONS(.owner = 1), &hold));
    if (hold && went_well(hf_lock_async(client, "async", HF_FOREVER, NULL, record_outcome,
                                        &canceled, &request))) {
        hf_cancel(client, request);
        WAIT_OUTCOME(&canceled);
        CHECK(canceled.code == HF_CANCELED || canceled.code == HF_ENOMEM);
    }
    drop(hold);
}

static bool ignore_entry(void *arg, const hf_entry *entry)
{
    (void)arg;
    (void)entry;
    return true;
}

static void use_the_verbs(hf_client *client)
{
    uint32_t value;
    hf_hold *hold = NULL;

    went_well(hf_counter_set(client, "count", 3));
    went_well(hf_counter_add(client, "count", 3));
    int code = hf_counter_take(client, "count", 1, 0);
    CHECK(code == HF_OK || code == HF_ENOMEM || code == HF_BUSY);
    went_well(hf_counter_remove(client, "count"));
    went_well(hf_latch_get(client, "latch", &value));
    went_well(hf_latch_wait(client, "latch", 0));
    if (went_well(hf_lock(client, "broken", 0, NULL, &hold))) {
        went_well(hf_inspect(client, NULL, ignore_entry, NULL));
        if (went_well(hf_break(client, "broken", NULL, &value)))
            CHECK_CODE(hf_unlock(hold), HF_LOST);
        else
            drop(hold);
    }
}

static void detach_and_attach(hf_client *client)
{
    char key[HF_OWNER_KEY_SIZE];
    hf_hold *hold = NULL, *attached = NULL;

    if (!went_well(hf_lock(client, "detached", 0, LOCK_OPTIONS(.lease_ms = 60000), &hold)))
        return;
    if (!went_well(hf_detach(hold, key))) {
        drop(hold);
        return;
    }
    if (!went_well(hf_attach(client, "detached", key, &attached))) {
        /* Out of memory has changed nothing: the key is good. */
        fail_at = 0;
        CHECK_CODE(hf_attach(client, "detached", key, &attached), HF_OK);
    }
    drop(attached);
}

static void check_scenario(void (*run)(hf_client *), hf_driver driver)
{
    bool failed = true;
    hf_client *watcher = open_client();
    int n;

    TEST_TIMEOUT(120);
    for (n = 1; failed; n++) {
        hf_client *client = NULL;
        arm(n);
        int code = open_failing(&client, driver);
        if (went_well(code)) {
            run(client);
            hf_close(client);
        } else {
            CHECK(client == NULL);
        }
        hf__alloc_hook = NULL;
        failed = allocations >= n && fail_at != 0;
        const struct picture *picture = look(watcher, NULL);
        CHECK_INT(picture->holders, 0);
        CHECK_INT(picture->waiters, 0);
    }
    test_note("%d allocations failed, one by one", n - 2);
    hf_close(watcher);
}

TEST(opening_and_closing_out_of_memory)
{
    hf_client *probe_client = open_client();

    hf_close(probe_client);
    for (int n = 1;; n++) {
        hf_client *client = NULL;
        arm(n);
        int code = open_failing(&client, HF_DRIVE_THREAD);
        hf__alloc_hook = NULL;
        if (code == HF_OK)
            hf_close(client);
        else
            CHECK_ERROR(code, HF_ENOMEM);
        if (allocations < n)
            break;
    }
}

TEST(locking_out_of_memory)
{
    check_scenario(lock_nested, HF_DRIVE_THREAD);
}

TEST(locking_in_all_modes_out_of_memory)
{
    check_scenario(lock_in_all_modes, HF_DRIVE_THREAD);
}

TEST(waiting_out_of_memory)
{
    check_scenario(wait_in_vain, HF_DRIVE_THREAD);
}

TEST(waiting_out_of_memory_without_a_thread)
{
    check_scenario(wait_in_vain, HF_DRIVE_CALLER);
}

TEST(asking_out_of_memory)
{
    check_scenario(ask_and_cancel, HF_DRIVE_THREAD);
}

TEST(verbs_out_of_memory)
{
    check_scenario(use_the_verbs, HF_DRIVE_THREAD);
}

TEST(detaching_out_of_memory)
{
    check_scenario(detach_and_attach, HF_DRIVE_THREAD);
}

/* ---- What was granted and not heard ---- */

/* No lease ends by itself while the test runs. */
#define NEVER_MS 600000

/* False: fewer than n allocations were made. */
static bool leaves_nothing(hf_client *client, hf_client *other, hf_mode mode, bool unlocks, int n)
{
    const hf_lock_options *options = LOCK_OPTIONS(.mode = mode, .limit = mode == HF_PERMIT);
    hf_hold *hold = NULL, *next;

    if (unlocks)
        CHECK_CODE(hf_lock(client, "one", SOON_MS, options, &hold), HF_OK);
    arm(n);
    int code = unlocks ? hf_unlock(hold) : hf_lock(client, "one", 0, options, &hold);
    hf__alloc_hook = NULL;
    bool failed = allocations >= n;
    CHECK(code == HF_OK || code == HF_ENOMEM || code == HF_UNREACHABLE);
    if (code == HF_OK && !unlocks)
        give_back(hold);
    CHECK_CODE(hf_lock(other, "one", SOON_MS, options, &next), HF_OK);
    give_back(next);
    return failed;
}

TEST(lock_whose_reply_finds_no_memory_is_not_left)
{
    const hf_client_options options = { .lease_ms = NEVER_MS };
    hf_client *client = open_client_with(options), *other = open_client_with(options);
    int failed = 0;

    for (hf_mode mode = HF_MUTEX; mode <= HF_PERMIT; mode++) {
        if (probe(client, "one", mode, 0) == HF_ENOTSUP)
            continue;
        for (int unlocks = 0; unlocks < 2; unlocks++)
            for (int n = 1; leaves_nothing(client, other, mode, unlocks, n); n++)
                failed++;
    }
    test_note("%d allocations failed, one by one", failed);
    hf_close(client);
    hf_close(other);
}

/* ---- Nothing is allocated when warm ---- */

static void lock_often(hf_client *client, const hf_lock_options *options, int times)
{
    hf_hold *hold, *inner;

    for (int i = 0; i < times; i++) {
        CHECK_CODE(hf_lock(client, "warm", 0, options, &hold), HF_OK);
        CHECK_CODE(hf_lock(client, "warm", 0, options, &inner), HF_OK);
        give_back(inner);
        give_back(hold);
    }
}

/* A heartbeat that falls beside more requests than ever before may make a pool grow once more. What
 * each lock allocates would be seen in every round. */
static void check_no_allocation(hf_mode mode)
{
    hf_client *client = open_client();
    const hf_lock_options *options = LOCK_OPTIONS(.mode = mode, .limit = mode == HF_PERMIT ? 2 : 0);
    int least = INT_MAX;

    lock_often(client, options, 100);
    for (int round = 0; round < 5 && least > 0; round++) {
        arm(0);
        lock_often(client, options, 100);
        hf__alloc_hook = NULL;
        least = allocations < least ? allocations : least;
    }
    CHECK_INT(least, 0);
    hf_close(client);
}

TEST(a_warm_mutex_allocates_nothing)
{
    check_no_allocation(HF_MUTEX);
}

TEST(a_warm_fair_mutex_allocates_nothing)
{
    check_no_allocation(HF_FAIR);
}

TEST(a_warm_read_lock_allocates_nothing)
{
    check_no_allocation(HF_READ);
}

TEST(a_warm_semaphore_allocates_nothing)
{
    check_no_allocation(HF_PERMIT);
}

TEST(warm_requests_allocate_nothing)
{
    hf_client *client = open_client();

    for (int i = 0; i < 300; i++) {
        struct outcome outcome = { 0 };
        if (i == 100)
            arm(0);
        CHECK_CODE(hf_lock_async(client, "warm", HF_FOREVER, NULL, record_outcome, &outcome, NULL),
                   HF_OK);
        WAIT_OUTCOME(&outcome);
        give_back(outcome.hold);
    }
    hf__alloc_hook = NULL;
    CHECK_INT(allocations, 0);
    hf_close(client);
}
