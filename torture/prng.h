/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers that one printed seed gives again: SplitMix64. */
#ifndef HF_TORTURE_PRNG_H
#define HF_TORTURE_PRNG_H

#include <stdbool.h>
#include <stdint.h>

struct torture_prng {
    uint64_t state;
};

static inline uint64_t torture_roll(struct torture_prng *dice)
{
    uint64_t word = dice->state += UINT64_C(0x9e3779b97f4a7c15);

    word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
    return word ^ word >> 31;
}

/* From `low` to `high`, both included. */
static inline int64_t torture_between(struct torture_prng *dice, int64_t low, int64_t high)
{
    return low + (int64_t)(torture_roll(dice) % (uint64_t)(high - low + 1));
}

static inline bool torture_chance(struct torture_prng *dice, unsigned percent)
{
    return torture_roll(dice) % 100 < percent;
}

/* Dice of their own for a part of the run. */
static inline struct torture_prng torture_prng(uint64_t seed, uint64_t part, uint64_t again)
{
    struct torture_prng dice = { seed ^ (part + 1) * UINT64_C(0xd6e8feb86659fd93) };

    dice.state = torture_roll(&dice) ^ again * UINT64_C(0xff51afd7ed558ccd);
    torture_roll(&dice);
    return dice;
}

#endif
