/* S8 and L2: first come, first served, where the lock promises it. */
#include "torture/check.h"

#include <stdlib.h>

/* A wait that the store is known to have had in its queue. */
struct wait {
    const struct torture_call *call;
    uint64_t place; /* its number of TORTURE_ENQUEUED */
    uint64_t until; /* it has not given up before */
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

static size_t collect_waits(const struct torture_checking *checking,
                            const struct torture_object *lock, struct wait *waits)
{
    size_t count = 0;
    for (size_t i = 0; i < lock->call_count; i++) {
        const struct torture_call *call = &lock->calls[i];
        if (!call->enqueued || !torture_is_acquisition(call->invoke))
            continue;
        uint64_t until = waits_until(checking, call);
        if (until > call->enqueued->number && !was_stopped(checking, call))
            waits[count++] = (struct wait){ call, call->enqueued->number, until };
    }
    return count;
}

static void found_overtaking(struct torture_checking *checking, const struct torture_object *lock,
                             const struct torture_call *first, const struct torture_hold *granted)
{
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
                  first->invoke->client, torture_moment(checking, first->enqueued->number).text);
}

/* ---- S8 ---- */

/* Who holds goes in again past the queue. That he held may be beyond proof, as he was killed. */
static bool may_be_nested(const struct torture_object *lock, const struct torture_hold *hold)
{
    return hold->nested || (lock->form != TORTURE_SEMAPHORE && !hold->fresh);
}

static int by_until(const void *a, const void *b)
{
    const struct wait *left = a, *right = b;
    return (left->until > right->until) - (left->until < right->until);
}

/* Those that were still waiting when somebody was granted the lock: of them the one that has waited
 * longest. From the last grant backwards, they become more. */
static void check_grants(struct torture_checking *checking, const struct torture_object *lock,
                         struct wait *waits, size_t count)
{
    const struct wait *longest = NULL, *longest_writer = NULL;
    qsort(waits, count, sizeof *waits, by_until);
    for (size_t i = lock->hold_count; i-- > 0;) {
        const struct torture_hold *hold = &lock->holds[i];
        for (; count && waits[count - 1].until > hold->call->end->number; count--) {
            const struct wait *wait = &waits[count - 1];
            if (!longest || wait->place < longest->place)
                longest = wait;
            if (is_exclusive(lock, wait->call) &&
                (!longest_writer || wait->place < longest_writer->place))
                longest_writer = wait;
        }
        if (may_be_nested(lock, hold) || hold->believed_from != hold->call->end->number)
            continue;
        /* Only grants that exclude one another have an order for certain. */
        const struct wait *first = is_exclusive(lock, hold->call) ? longest : longest_writer;
        checking->report->checked[TORTURE_S8]++;
        if (first && first->place < hold->call->invoke->number)
            found_overtaking(checking, lock, first->call, hold);
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

static void check_passing(struct torture_checking *checking, const struct torture_object *lock,
                          uint32_t *sums)
{
    uint64_t granted = 0;
    for (size_t i = 0; i < lock->hold_count; i++) {
        const struct torture_hold *hold = &lock->holds[i];
        const struct torture_call *call = hold->call;
        if (call->enqueued) {
            size_t before = calls_before(lock, call->enqueued->number);
            uint64_t others = granted - count_up_to(sums, before);
            checking->report->checked[TORTURE_L2]++;
            if (others > checking->limits.passed_over && !was_stopped(checking, call))
                found_passed_over(checking, lock, hold, others);
        }
        count_in(sums, lock->call_count, (size_t)(call - lock->calls));
        granted++;
    }
}

bool torture_check_order(struct torture_checking *checking, const struct torture_object *lock)
{
    if (!(lock->description->flags & TORTURE_FIFO) || lock->form == TORTURE_LATCH)
        return true;
    uint32_t *sums = torture_room(checking, lock->call_count, sizeof *sums);
    struct wait *waits = torture_room(checking, lock->call_count, sizeof *waits);
    if (sums && waits) {
        check_passing(checking, lock, sums);
        if (lock->form != TORTURE_SEMAPHORE || lock->permits == 1)
            check_grants(checking, lock, waits, collect_waits(checking, lock, waits));
    }
    free(sums);
    free(waits);
    return !checking->no_memory;
}
