/* SPDX-License-Identifier: Apache-2.0 */
/* S8 and L2: first come, first served, where the lock promises it. */
#include "torture/check/check.h"

#include <stdlib.h>

/* What a displaced place rested on ended at the store some time before its owner heard: a lease, as
 * in `grace_ns`, and a machine's noise. */
#define UNHEARD_NS INT64_C(1000000000)

/* A wait that the store is known to have had in its queue. */
struct wait {
    struct torture_place *place;
    uint64_t until; /* it has not given up, and has not lost the place, before */
};

static bool is_exclusive(const struct torture_object *lock, const struct torture_call *call)
{
    return lock->form != TORTURE_RW || call->invoke->mode == TORTURE_EXCLUSIVE;
}

/* A stopped process may be passed over: its place is not what this rule is about. */
static bool was_stopped(const struct torture_checking *checking, const struct torture_call *call)
{
    int64_t end_ns = call->end ? call->end->at_ns : INT64_MAX;
    return torture_was_faulty(checking, call->invoke->at_ns, end_ns, call->invoke->client);
}

/* The number up to which a displaced place was certainly still there. */
static uint64_t kept_until(const struct torture_checking *checking,
                           const struct torture_place *place)
{
    int64_t patience_ns = place->call->invoke->deadline_ns;
    /* mutant: place-is-kept-until-its-owner */
    int64_t until_ns = place->displaced->at_ns - checking->limits.grace_ns - UNHEARD_NS;
    if (patience_ns && patience_ns < until_ns)
        until_ns = patience_ns;
    return torture_deadline_number(checking, until_ns);
}

/* When the wait was certainly still going on. One that may be given up at any time is not counted
 * from the beginning. */
static uint64_t waits_until(const struct torture_checking *checking,
                            const struct torture_call *call)
{
    if (call->hold)
        return call->hold->believed_from == call->end->number ? call->end->number : 0;
    int64_t patience_ns = call->invoke->deadline_ns;
    if (!torture_ended(call, TORTURE_REFUSED) || patience_ns == 0)
        return 0;
    return torture_smaller(call->end->number, torture_deadline_number(checking, patience_ns));
}

static int by_until(const void *a, const void *b)
{
    const struct wait *left = a, *right = b;
    return (left->until > right->until) - (left->until < right->until);
}

/* Ordered by their ends. */
static size_t collect_waits(const struct torture_checking *checking,
                            const struct torture_object *lock, struct wait *waits)
{
    size_t count = 0;
    for (size_t i = 0; i < lock->place_count; i++) {
        struct torture_place *place = &lock->places[i];
        if (!torture_is_acquisition(place->call->invoke))
            continue;
        uint64_t until =
            /* mutant: owner-lost-its-place */
            place->displaced ? kept_until(checking, place) : waits_until(checking, place->call);
        if (until > place->enqueued->number && !was_stopped(checking, place->call))
            waits[count++] = (struct wait){ place, until };
    }
    if (count)
        qsort(waits, count, sizeof *waits, by_until);
    return count;
}

static void found_overtaking(struct torture_checking *checking, const struct torture_object *lock,
                             const struct torture_place *place, const struct torture_hold *granted)
{
    const struct torture_call *first = place->call;
    struct torture_finding finding = {
        .rule = TORTURE_S8,
        .hold_count = 2,
        .holds = { first->invoke->operation, granted->call->invoke->operation },
        .from = first->invoke->number,
        .to = granted->call->end->number,
    };
    torture_found(checking, lock, &finding,
                  "%s asked for %s at %s and got it, while client %u had been queued since %s",
                  torture_holder(granted).text, torture_lock_name(lock).text,
                  torture_moment(checking, granted->call->invoke->number).text,
                  first->invoke->client, torture_moment(checking, place->enqueued->number).text);
}

/* ---- S8 ---- */

/* A holder goes in again past the queue. That it held may be beyond proof, as it was killed. */
static bool may_be_nested(const struct torture_object *lock, const struct torture_hold *hold)
{
    /* mutant: owner-was-killed-cannot */
    return hold->nested || (lock->form != TORTURE_SEMAPHORE && !hold->fresh);
}

/* Those that were still waiting when another client was granted the lock: of them the one that has
 * waited longest. From the last grant backwards, they become more. */
static void check_grants(struct torture_checking *checking, const struct torture_object *lock,
                         const struct wait *waits, size_t count)
{
    const struct torture_place *longest = NULL, *longest_writer = NULL;
    for (size_t i = lock->hold_count; i-- > 0;) {
        const struct torture_hold *hold = &lock->holds[i];
        for (; count && waits[count - 1].until > hold->call->end->number; count--) {
            const struct torture_place *place = waits[count - 1].place;
            if (!longest || place->enqueued->number < longest->enqueued->number)
                longest = place;
            if (is_exclusive(lock, place->call) &&
                (!longest_writer || place->enqueued->number < longest_writer->enqueued->number))
                longest_writer = place;
        }
        if (may_be_nested(lock, hold) || hold->believed_from != hold->call->end->number)
            continue;
        /* Only grants that exclude one another have an order for certain. */
        const struct torture_place *first =
            is_exclusive(lock, hold->call) ? longest : longest_writer;
        checking->report->checked[TORTURE_S8]++;
        if (first && first->enqueued->number < hold->call->invoke->number)
            found_overtaking(checking, lock, first, hold);
    }
}

/* ---- L2 ---- */

/* How many of the grants up to now were asked for at this place or before: a tree of sums over the
 * places of the lock's calls. */
static void count_in(uint32_t *sums, size_t size, size_t place)
{
    for (place++; place <= size; place += place & -place)
        sums[place - 1]++;
}

static uint64_t count_up_to(const uint32_t *sums, size_t place)
{
    uint64_t sum = 0;
    for (; place > 0; place -= place & -place)
        sum += sums[place - 1];
    return sum;
}

/* How many calls began before this number. */
static size_t calls_before(const struct torture_object *lock, uint64_t number)
{
    size_t low = 0, high = lock->call_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lock->calls[middle].invoke->number >= number)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void found_passed_over(struct torture_checking *checking, const struct torture_object *lock,
                              const struct torture_hold *hold, uint64_t others)
{
    const struct torture_call *call = hold->call;
    struct torture_finding finding = {
        .rule = TORTURE_L2,
        .hold_count = 1,
        .holds = { call->invoke->operation },
        .from = call->invoke->number,
        .to = call->end->number,
    };
    torture_found(checking, lock, &finding,
                  "client %u waited for %s from %s to %s, while others asked for it and got it "
                  "%llu times",
                  call->invoke->client, torture_lock_name(lock).text,
                  torture_moment(checking, call->invoke->number).text,
                  torture_moment(checking, call->end->number).text, (unsigned long long)others);
}

/* How many of the grants so far were asked for when this place was taken already. */
static uint64_t count_later(const struct torture_object *lock, const uint32_t *sums,
                            uint64_t granted, const struct torture_place *place)
{
    /* mutant: owner-asked-before-counts */
    return granted - count_up_to(sums, calls_before(lock, place->enqueued->number));
}

/* All its places together. */
static void judge_passing(struct torture_checking *checking, const struct torture_object *lock,
                          const struct torture_hold *hold, uint64_t others)
{
    for (const struct torture_place *place = hold->call->place; place; place = place->former)
        others += place->passed_over; /* mutant: owner-was-passed-over-on-place */
    checking->report->checked[TORTURE_L2]++;
    if (others > checking->limits.passed_over && !was_stopped(checking, hold->call))
        found_passed_over(checking, lock, hold, others);
}

static void check_passing(struct torture_checking *checking, const struct torture_object *lock,
                          uint32_t *sums, const struct wait *waits, size_t count)
{
    const struct wait *end = waits + count;
    uint64_t granted = 0;
    for (size_t i = 0; i < lock->hold_count; i++) {
        const struct torture_hold *hold = &lock->holds[i];
        const struct torture_call *call = hold->call;
        for (; waits < end && waits->until <= call->end->number; waits++)
            if (waits->place->displaced)
                waits->place->passed_over = count_later(lock, sums, granted, waits->place);
        if (call->place)
            judge_passing(checking, lock, hold,
                          call->place->displaced ? 0
                                                 : count_later(lock, sums, granted, call->place));
        count_in(sums, lock->call_count, (size_t)(call - lock->calls));
        granted++;
    }
}

bool torture_check_order(struct torture_checking *checking, const struct torture_object *lock)
{
    if (!(lock->description->flags & TORTURE_FIFO) || lock->form == TORTURE_LATCH)
        return true;
    uint32_t *sums = torture_room(checking, lock->call_count, sizeof *sums);
    struct wait *waits = torture_room(checking, lock->place_count, sizeof *waits);
    if (sums && waits) {
        size_t count = collect_waits(checking, lock, waits);
        check_passing(checking, lock, sums, waits, count);
        if (lock->form != TORTURE_SEMAPHORE || lock->permits == 1)
            check_grants(checking, lock, waits, count);
    }
    free(sums);
    free(waits);
    return !checking->no_memory;
}
