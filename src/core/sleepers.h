/* SPDX-License-Identifier: Apache-2.0 */
/* Callers that sleep until their flag is set. Those who fall asleep one after the other are mostly
 * answered one after the other, too: so they sleep in rooms of 32, and the kernel is told once for
 * all of a room whom it is to wake, instead of once for each. */
#ifndef HF_CORE_SLEEPERS_H
#define HF_CORE_SLEEPERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HF_SLEEPERS_ROOMS 64u
#define HF_SLEEPERS_BEDS (32u * HF_SLEEPERS_ROOMS)

struct hf_sleepers {
    _Atomic uint32_t
        beds; /* given so far; the next sleeper has this one, modulo HF_SLEEPERS_BEDS */
    _Atomic uint32_t bell[HF_SLEEPERS_ROOMS]; /* what those in a room sleep on: a change wakes */
    /* Who is to be woken, by rooms, and in which rooms there is somebody: of who turns the loop. */
    uint32_t due[HF_SLEEPERS_ROOMS];
    uint64_t due_rooms;
};

void hf__sleepers_init(struct hf_sleepers *sleepers);

/* Sleeps until *flag, which is 0 at first, is set. */
void hf__sleepers_wait(struct hf_sleepers *sleepers, _Atomic uint32_t *flag);

/* Sets *flag and wakes who sleeps until then. Any thread; afterwards, both flag and sleepers may be
 * gone. Sleepers may be NULL where nobody ever sleeps. */
void hf__sleepers_set(struct hf_sleepers *sleepers, _Atomic uint32_t *flag);

/* Sets *flag; who sleeps until then is woken by the next hf__sleepers_wake. Answers whether
 * somebody does. Only for who turns the loop, and calls that before it sleeps or blocks. */
bool hf__sleepers_set_soon(struct hf_sleepers *sleepers, _Atomic uint32_t *flag);
void hf__sleepers_wake(struct hf_sleepers *sleepers);

#endif
