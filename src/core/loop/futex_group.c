/* SPDX-License-Identifier: Apache-2.0 */
/* Puts callers to sleep, and wakes those whose flags were set, a room at a time. */
#include "core/loop/futex_group.h"

#include "base/futex.h"
#include "base/testing.h"

/* What a flag says. Above IN_A_GROUP is the number of the bed. */
#define SET 1u
#define ALONE 2u /* a thread sleeps on the flag itself */
#define IN_A_GROUP 4u
#define SLOT_AT 3

#define SLOTS_OF_A_GROUP 32u

void hf__futex_group_init(struct hf_futex_group *sleepers)
{
    *sleepers = (struct hf_futex_group){ 0 };
}

static unsigned room_of(uint32_t flag)
{
    return (flag >> SLOT_AT) / SLOTS_OF_A_GROUP;
}

static uint32_t bit_of(uint32_t flag)
{
    return UINT32_C(1) << (flag >> SLOT_AT) % SLOTS_OF_A_GROUP;
}

static void ring(struct hf_futex_group *sleepers, unsigned room, uint32_t bits)
{
    atomic_fetch_add(&sleepers->bell[room], 1);
    hf__futex_wake_bits(&sleepers->bell[room], bits);
}

/* ---- sleeping ---- */

/* What the bell has said is looked at before the flag says where to ring: a ring after that is not
 * slept through. Returns early where its room's bell rings for others. */
static void sleep_in_bed(struct hf_futex_group *sleepers, _Atomic uint32_t *flag,
                         const struct timespec *limit)
{
    uint32_t number = atomic_fetch_add_explicit(&sleepers->beds, 1, memory_order_relaxed);
    uint32_t bed = IN_A_GROUP | number % HF_FUTEX_GROUP_SLOTS << SLOT_AT, awake = 0;
    _Atomic uint32_t *bell = &sleepers->bell[room_of(bed)];
    uint32_t heard = atomic_load(bell);
    if (atomic_compare_exchange_strong(flag, &awake, bed)) {
        HF_POINT("sleepers:about_to_sleep");
        hf__futex_wait_bits(bell, heard, bit_of(bed), limit);
    }
}

/* A thread that wakes for nothing, since others have had the same bed after it or its room's bell
 * rang just then, is not disturbed twice: from then on it sleeps alone. */
static void sleep_alone(_Atomic uint32_t *flag, const struct timespec *limit)
{
    uint32_t now = atomic_load(flag);
    if (now != SET && (now == ALONE || atomic_compare_exchange_strong(flag, &now, ALONE)))
        hf__futex_wait(flag, ALONE, limit);
}

void hf__futex_group_wait(struct hf_futex_group *sleepers, _Atomic uint32_t *flag)
{
    if (atomic_load(flag) == 0)
        sleep_in_bed(sleepers, flag, NULL);
    while (atomic_load(flag) != SET)
        sleep_alone(flag, NULL);
}

bool hf__futex_group_wait_for(struct hf_futex_group *sleepers, _Atomic uint32_t *flag,
                              int64_t limit_ms)
{
    struct timespec limit = { .tv_sec = limit_ms / 1000, .tv_nsec = limit_ms % 1000 * 1000000 };
    if (atomic_load(flag) != 0) {
        sleep_alone(flag, &limit);
        return atomic_load(flag) == SET;
    }
    /* A sleep in a bed ends at a time of the clock that stops in suspend. */
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    int64_t end_ns = end.tv_nsec + limit.tv_nsec;
    end.tv_sec += limit.tv_sec + end_ns / 1000000000;
    end.tv_nsec = end_ns % 1000000000;
    sleep_in_bed(sleepers, flag, &end);
    return atomic_load(flag) == SET;
}

/* ---- waking ---- */

/* It rings first: a thread that has seen its flag set may have freed the bell. A thread that is
 * woken by that and finds its flag not set yet sleeps on alone, on the flag, which is nothing but
 * an address to the kernel.
 */
void hf__futex_group_set(struct hf_futex_group *sleepers, _Atomic uint32_t *flag)
{
    uint32_t before = 0;
    while (!atomic_compare_exchange_strong(flag, &before, SET))
        if (before & IN_A_GROUP)
            ring(sleepers, room_of(before), bit_of(before));
    if (before == ALONE)
        hf__futex_wake_all(flag);
}

bool hf__futex_group_set_soon(struct hf_futex_group *sleepers, _Atomic uint32_t *flag)
{
    uint32_t before = atomic_exchange(flag, SET);
    if (before & IN_A_GROUP) {
        sleepers->due[room_of(before)] |= bit_of(before); /* mutant: only-one-of-room-is-woken */
        sleepers->due_rooms |= UINT64_C(1) << room_of(before);
    }
    if (before == ALONE)
        hf__futex_wake_all(flag);
    return before != 0;
}

void hf__futex_group_wake(struct hf_futex_group *sleepers)
{
    for (; sleepers->due_rooms; sleepers->due_rooms &= sleepers->due_rooms - 1) {
        unsigned room = (unsigned)__builtin_ctzll(sleepers->due_rooms);
        uint32_t bits = sleepers->due[room];
        sleepers->due[room] = 0;
        ring(sleepers, room, bits);
    }
}
