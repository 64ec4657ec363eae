/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers differ, and so do the pauses of those who have lost the same server; the hash is
 * fixed for ever, and spreads what differs little. */
#include "base/rand.h"

#include "test.h"

#include <limits.h>
#include <stdio.h>

TEST(random_numbers_differ)
{
    uint64_t numbers[64];
    hf__random(numbers, sizeof numbers);
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < i; j++)
            CHECK(numbers[i] != numbers[j]);
}

/* Stores keep it: a change would make two versions disagree about where a name is. */
TEST(the_hash_stays_what_it_is)
{
    CHECK(hf__hash("", 0) == hf__hash("x", 0));
    CHECK(hf__hash("orders/42", 9) == UINT64_C(3580195572108999969));
    CHECK(hf__hash("a name of more than sixteen bytes", 33) == UINT64_C(16892655814006766798));
}

static void check_spread(const unsigned *buckets, unsigned count, unsigned keys)
{
    unsigned mean = keys / count;
    for (unsigned i = 0; i < count; i++)
        if (buckets[i] < mean / 2 || buckets[i] > mean * 2)
            FAIL("bucket %u of %u has %u of %u keys", i, count, buckets[i], keys);
}

static void check_pauses(unsigned failures, int64_t mean_ms)
{
    enum { DRAWS = 8192, PARTS = 10 };
    unsigned parts[PARTS] = { 0 };
    for (int i = 0; i < DRAWS; i++) {
        int64_t over_ms = hf__backoff_ms(failures) - mean_ms / 2;
        CHECK(over_ms >= 0);
        CHECK(over_ms < mean_ms);
        parts[over_ms * PARTS / mean_ms]++;
    }
    check_spread(parts, PARTS, DRAWS);
}

TEST(pauses_are_spread_and_grow_up_to_a_limit)
{
    for (unsigned failures = 0; failures <= 6; failures++)
        check_pauses(failures, INT64_C(20) << failures);
    check_pauses(7, 1280);
    check_pauses(UINT_MAX, 1280);
}

/* The high bits choose the shard, the low ones the bucket: both must spread. */
TEST(names_spread_over_shards_and_buckets)
{
    static unsigned high[64], low[256];
    char name[32];
    for (unsigned i = 0; i < 65536; i++) {
        int length = snprintf(name, sizeof name, "orders/%u", i);
        uint64_t hash = hf__hash(name, (size_t)length);
        high[hash >> 58]++;
        low[hash & 255]++;
    }
    check_spread(high, 64, 65536);
    check_spread(low, 256, 65536);
}

TEST(each_bit_counts)
{
    unsigned char bytes[40] = { 0 };
    for (unsigned length = 1; length <= sizeof bytes; length++) {
        uint64_t plain = hf__hash(bytes, length);
        for (unsigned bit = 0; bit < length * 8; bit++) {
            bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
            int changed = __builtin_popcountll(plain ^ hf__hash(bytes, length));
            bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
            CHECK(changed >= 8);
        }
    }
}
