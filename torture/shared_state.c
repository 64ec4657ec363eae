/* SPDX-License-Identifier: Apache-2.0 */
/* The things that are fought for, and sleeping until it is time or the run changes. */
#include "torture/shared_state.h"

#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct kind {
    const char *label;
    enum torture_form form;
    uint32_t permits;
    uint8_t flags;
};

static const struct kind kinds[] = {
    { "stock", TORTURE_MUTEX, 1, TORTURE_FENCED },
    { TORTURE_ELECTION, TORTURE_MUTEX, 1, TORTURE_FENCED },
    { "queue", TORTURE_MUTEX, 1, TORTURE_FENCED | TORTURE_FIFO },
    { "catalog", TORTURE_RW, 1, TORTURE_FENCED },
    { "index", TORTURE_RW, 1, TORTURE_FENCED },
    { "slots", TORTURE_SEMAPHORE, 4, 0 },
    { "desk", TORTURE_MUTEX, 1, TORTURE_FENCED },
    { "shelf", TORTURE_RW, 1, TORTURE_FENCED },
    { "seats", TORTURE_SEMAPHORE, 4, 0 },
    { "drawer", TORTURE_MUTEX, 1, TORTURE_FENCED },
};

enum { LOUD = 6 };

enum { LATCH_COUNT = 5 };

static void name_lock(const struct torture_shared *arena, struct torture_lock *lock)
{
    snprintf(lock->name, sizeof lock->name, "%s%s", arena->prefix, lock->label);
}

void torture_choose_locks(struct torture_shared *arena, const struct torture_subject *subject,
                          unsigned faults)
{
    size_t kind_count = faults & TORTURE_QUIET_FAULTS ? sizeof kinds / sizeof kinds[0] : LOUD;
    unsigned count = 0;

    for (size_t i = 0; i < kind_count; i++) {
        struct torture_lock lock = { .form = kinds[i].form,
                                     .permits = kinds[i].permits,
                                     .flags = kinds[i].flags };
        bool has_it =
            subject->forms & 1u << lock.form && (subject->fair || !(lock.flags & TORTURE_FIFO));
        if (!has_it)
            continue;
        if (!subject->fences)
            lock.flags &= (uint8_t)~TORTURE_FENCED;
        if (subject->lines)
            lock.flags |= TORTURE_LINE;
        snprintf(lock.label, sizeof lock.label, "%s", kinds[i].label);
        name_lock(arena, &lock);
        arena->locks[count] = lock;
        torture_resource_open(&arena->resources[count++]);
        if (i < LOUD)
            arena->loud_count = count;
    }
    arena->lock_count = count;
}

uint16_t torture_latch(const struct torture_shared *arena, uint32_t round, struct torture_lock *ret)
{
    *ret = (struct torture_lock){ .form = TORTURE_LATCH, .permits = LATCH_COUNT };
    snprintf(ret->label, sizeof ret->label, "start/%u", round);
    name_lock(arena, ret);
    return (uint16_t)(arena->lock_count + round - 1);
}

void torture_write_lock(struct torture_writer *writer, const struct torture_lock *lock,
                        uint16_t number)
{
    struct torture_record record = { .kind = TORTURE_LOCK,
                                     .lock = number,
                                     .client = TORTURE_NOBODY,
                                     .mode = (uint8_t)lock->form,
                                     .permits = lock->permits,
                                     .flags = lock->flags };

    memcpy(record.text, lock->label, sizeof record.text);
    torture_write(writer, &record);
}

bool torture_keeps_order(const struct torture_plan *plan)
{
    const unsigned stopping = 1u << TORTURE_STOP_HOLDER | 1u << TORTURE_STOP_WAITER |
                              1u << TORTURE_PAUSE | TORTURE_WIRE_FAULTS | TORTURE_SERVER_FAULTS;

    return !(plan->faults & stopping) && plan->hook_count == 0;
}

void torture_sleep_in_phase(struct torture_shared *arena, uint32_t phase, int64_t at_ns)
{
    int64_t left_ns;

    while (atomic_load(&arena->phase) == phase && (left_ns = at_ns - torture_clock_ns()) > 0) {
        const struct timespec limit = { .tv_sec = left_ns / 1000000000,
                                        .tv_nsec = left_ns % 1000000000 };
        syscall(SYS_futex, &arena->phase, FUTEX_WAIT, phase, &limit, NULL, 0);
    }
}

void torture_set_phase(struct torture_shared *arena, enum torture_phase phase)
{
    atomic_store(&arena->phase, phase);
    syscall(SYS_futex, &arena->phase, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}
