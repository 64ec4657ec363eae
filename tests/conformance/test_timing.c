/* SPDX-License-Identifier: Apache-2.0 */
/* Time limits: never too early, and a try does not wait. */
#include "conformance.h"

TEST(a_wait_of_a_second_takes_a_second)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0), *refused;

    for (int i = 0; i < 3; i++) {
        int64_t before = monotonic_us();
        CHECK_IN_VAIN(hf_lock(client, name_of("one"), 1000, NULL, &refused));
        CHECK(monotonic_us() - before >= 1000000);
    }
    give_back(hold);
    hf_close(client);
    hf_close(other);
}

TEST(short_waits_are_not_shorter)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0), *refused;

    for (int ms = 1; ms <= 60; ms += 3) {
        int64_t before = monotonic_us();
        CHECK_IN_VAIN(hf_lock(client, name_of("one"), ms, NULL, &refused));
        CHECK(monotonic_us() - before >= ms * 1000);
    }
    give_back(hold);
    hf_close(client);
    hf_close(other);
}

TEST(asynchronous_waits_are_not_shorter)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0);

    for (int ms = 1; ms <= 1001; ms += 100) {
        struct outcome outcome = { 0 };
        int64_t before = monotonic_us();
        CHECK_CODE(hf_lock_async(client, name_of("one"), ms, NULL, record_outcome, &outcome, NULL),
                   HF_OK);
        WAIT_OUTCOME(&outcome);
        CHECK_IN_VAIN(outcome.code);
        CHECK(monotonic_us() - before >= ms * 1000);
    }
    give_back(hold);
    hf_close(client);
    hf_close(other);
}

TEST(a_try_does_not_wait)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0);
    int64_t before = monotonic_ms();

    for (int i = 0; i < 2000; i++)
        CHECK_CODE(probe(client, name_of("one"), HF_MUTEX, 0), HF_BUSY);
    /* A wait of 10 ms in each would show. */
    CHECK(monotonic_ms() - before < 15000 * test_slow());
    give_back(hold);
    hf_close(client);
    hf_close(other);
}

TEST(a_time_limit_is_kept)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0), *refused;
    int64_t before = monotonic_ms();

    CHECK_IN_VAIN(hf_lock(client, name_of("one"), 200, NULL, &refused));
    CHECK(monotonic_ms() - before < 5000 * test_slow());
    give_back(hold);
    hf_close(client);
    hf_close(other);
}

TEST(a_lease_is_not_shorter)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *hold, *next;

    for (int i = 0; i < 5; i++) {
        int64_t before = monotonic_us();
        CHECK_CODE(
            hf_lock(client, name_of("one"), 0, LOCK_OPTIONS(.lease_ms = short_lease(100)), &hold),
            HF_OK);
        CHECK_CODE(hf_lock(other, name_of("one"), SOON_MS, NULL, &next), HF_OK);
        /* Its clock may be a coarse one of milliseconds. */
        CHECK(monotonic_us() - before >= 99000);
        give_back(next);
        CHECK_CODE(hf_unlock(hold), HF_LOST);
    }
    hf_close(client);
    hf_close(other);
}
