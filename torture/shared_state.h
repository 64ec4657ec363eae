/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver and its clients share while a run goes on: memory that all of them map. */
#ifndef HF_TORTURE_SHARED_STATE_H
#define HF_TORTURE_SHARED_STATE_H

#include "torture/proxy/fault_proxy.h"
#include "torture/resource.h"
#include "torture/run.h"

enum { TORTURE_LAST = 255 };

enum { TORTURE_LOCKS = 12, TORTURE_SUBJECT_MEMORY = 1 << 20 };

enum torture_phase {
    TORTURE_ROUGH, /* faults come at any time */
    TORTURE_CALM,  /* none any more: one more grant for everybody, then the end */
    TORTURE_OVER   /* drop everything */
};

/* What a client is doing, as the nemesis sees it. */
enum torture_doing { TORTURE_IDLE, TORTURE_ASKING, TORTURE_HOLDING };

/* The call on a quiet lock before which a client's first thread sets its own `wire`, once. */
enum torture_trap { TORTURE_NO_TRAP, TORTURE_TRAP_RELEASE, TORTURE_TRAP_TRY };

struct torture_seat {
    _Atomic uint32_t incarnation;
    /* torture_doing, lock and operation in one word, so that it is one timeline. */
    _Atomic uint64_t doing;
    _Atomic uint32_t in_resource; /* threads that others would have to wait for, lock or no lock */
    _Atomic uint64_t points;      /* sync points passed, all threads together */
    _Atomic int64_t clock_ns;     /* how far its wall clock is bent */
    _Atomic bool clock_seen;      /* it has read the bent clock while it held or asked */
    _Atomic uint32_t wire;        /* a torture_wire: what befalls its connections */
    _Atomic uint32_t wire_hits;
    _Atomic uint32_t trap, trap_wire;
    _Atomic uint32_t errors; /* replies that the relay has replaced by an error */
    _Atomic bool broken;     /* `sentence` says why it cannot go on */
    char sentence[360];
};

struct torture_shared {
    _Atomic uint32_t phase; /* also a futex: a sleeper wakes when it changes */
    _Atomic uint64_t operations, grants;
    /* Which sync points pause now: 0 none, else a number that chooses, and how often they do. */
    _Atomic uint64_t pauses;
    _Atomic uint32_t pause_percent;
    _Atomic uint32_t pauses_tried, pauses_hit;
    char prefix[48];
    struct torture_lock locks[TORTURE_LOCKS];
    struct torture_resource resources[TORTURE_LOCKS];
    /* Behind the loud ones are quiet locks: only first threads try for them, and none waits. For
     * the last one they do so only while one of them gets an error in place of a reply. */
    unsigned lock_count, loud_count;
    /* The number of these that first threads try for just now; TORTURE_LAST: the last one. */
    _Atomic uint32_t quiet;
    _Atomic uint32_t quiet_first; /* the first one of them */
    _Atomic uint32_t reserved; /* for this client, plus 1: the others leave it alone; 0: for all */
    int64_t begin_ns;
    /* Latches open once, so each round has a new one, and the numbers of the rounds go on behind
     * those of the locks. */
    _Atomic uint32_t latch_round;  /* the one in use; 0: none yet */
    _Atomic uint32_t latch_next;   /* the last number that was taken */
    _Atomic uint32_t latch_setter; /* the client that is making a new one, plus 1 */
    struct torture_seat seats[TORTURE_CLIENTS_MAX];
    struct torture_fault_proxy relay;
    _Alignas(64) char memory[TORTURE_SUBJECT_MEMORY]; /* the subject's */
};

static inline uint64_t torture_doing_word(enum torture_doing doing, unsigned lock,
                                          uint64_t operation)
{
    return (uint64_t)doing | (uint64_t)(lock & 0xffff) << 8 | operation << 24;
}

static inline enum torture_doing torture_doing_of(uint64_t word)
{
    return (enum torture_doing)(word & 0xff);
}

static inline unsigned torture_doing_lock(uint64_t word)
{
    return (unsigned)(word >> 8 & 0xffff);
}

static inline unsigned torture_threads(const struct torture_plan *plan)
{
    return plan->threads ? plan->threads : 1;
}

/* What the locks of this run are, with quiet ones if its faults need them. */
void torture_choose_locks(struct torture_shared *arena, const struct torture_subject *subject,
                          unsigned faults);
/* The latch of a round, and its number in the records. */
uint16_t torture_latch(const struct torture_shared *arena, uint32_t round,
                       struct torture_lock *ret);
/* While there are quiet locks for first threads: that of a client. */
static inline unsigned torture_quiet_lock(struct torture_shared *arena, unsigned client,
                                          unsigned locks)
{
    unsigned place = atomic_load(&arena->quiet_first) + client % locks;

    if (locks == TORTURE_LAST)
        return arena->lock_count - 1;
    return arena->loud_count + place % (arena->lock_count - arena->loud_count - 1);
}

/* What the history says of a lock. */
void torture_write_lock(struct torture_writer *writer, const struct torture_lock *lock,
                        uint16_t number);
/* A place in the queue holds only while no client is stopped: one that does not answer is passed
 * over. */
bool torture_keeps_order(const struct torture_plan *plan);

/* Sleeps until `at_ns` (CLOCK_BOOTTIME), or until the phase is another. */
void torture_sleep_in_phase(struct torture_shared *arena, uint32_t phase, int64_t at_ns);
void torture_set_phase(struct torture_shared *arena, enum torture_phase phase);

#endif
