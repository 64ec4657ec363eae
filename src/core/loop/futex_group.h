/* SPDX-License-Identifier: Apache-2.0 */
/* Callers that sleep until their flag is set. Those that fall asleep one after the other are mostly
 * answered one after the other, too: so they sleep in rooms of 32, and the kernel is told once a
 * room which threads it is to wake, instead of once a thread. */
#ifndef HF_CORE_LOOP_FUTEX_GROUP_H
#define HF_CORE_LOOP_FUTEX_GROUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HF_FUTEX_GROUP_COUNT 64u
#define HF_FUTEX_GROUP_SLOTS (32u * HF_FUTEX_GROUP_COUNT)

struct hf_futex_group {
    _Atomic uint32_t
        beds; /* given so far; the next sleeper has this one, modulo HF_FUTEX_GROUP_SLOTS */
    _Atomic uint32_t bell[HF_FUTEX_GROUP_COUNT]; /* what those in a room sleep on: a change wakes */
    /* The sleepers to be woken, by rooms, and the rooms that have any: of the thread that turns the
     * loop. */
    uint32_t due[HF_FUTEX_GROUP_COUNT];
    uint64_t due_rooms;
};

void hf__futex_group_init(struct hf_futex_group *sleepers);

/* Sleeps until *flag, which is 0 at first, is set. */
void hf__futex_group_wait(struct hf_futex_group *sleepers, _Atomic uint32_t *flag);

/* The same for up to limit_ms. False: *flag is not set yet; the time is over, a signal came, or
 * another sleeper was woken. */
bool hf__futex_group_wait_for(struct hf_futex_group *sleepers, _Atomic uint32_t *flag,
                              int64_t limit_ms);

/* Sets *flag and wakes the thread that sleeps until then. Any thread; afterwards, both flag and
 * sleepers may be gone. Sleepers may be NULL where no thread ever sleeps. */
void hf__futex_group_set(struct hf_futex_group *sleepers, _Atomic uint32_t *flag);

/* Sets *flag; a thread that sleeps until then is woken by the next hf__futex_group_wake. Answers
 * whether there is one. Only for the thread that turns the loop, which calls that before it sleeps
 * or blocks. */
bool hf__futex_group_set_soon(struct hf_futex_group *sleepers, _Atomic uint32_t *flag);
void hf__futex_group_wake(struct hf_futex_group *sleepers);

#endif
