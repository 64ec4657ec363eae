/* SPDX-License-Identifier: Apache-2.0 */
/* S7: there is a moment at which the latch opens: when enough has been counted down, not before and
 * not after; and everybody's answers agree with it. */
#include "torture/check/check.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* One countdown: the numbers of its invocation and its end, and how much it takes away. */
struct countdown {
    uint64_t number, weight;
};

static int by_number(const void *a, const void *b)
{
    return by_value(&((const struct countdown *)a)->number, &((const struct countdown *)b)->number);
}

/* At which of these numbers the sum comes to what the latch was set to. */
static uint64_t number_of_last(struct countdown *countdowns, size_t count, uint64_t wanted)
{
    uint64_t sum = 0;
    qsort(countdowns, count, sizeof *countdowns, by_number);
    for (size_t i = 0; i < count; i++) {
        sum += countdowns[i].weight;
        if (sum >= wanted)
            return countdowns[i].number;
    }
    return TORTURE_NO_END;
}

/* The moment lies after each of these two, and before each of those. */
struct opening {
    uint64_t counted_earliest, counted_latest;
    const struct torture_call *closed, *open; /* the answers that say most, or NULL */
};

static bool find_counted(struct torture_checking *checking, const struct torture_object *lock,
                         struct opening *opening)
{
    struct countdown *begun = torture_room(checking, lock->call_count, sizeof *begun);
    struct countdown *done = torture_room(checking, lock->call_count, sizeof *done);
    size_t begun_count = 0, done_count = 0;
    for (size_t i = 0; begun && done && i < lock->call_count; i++) {
        const struct torture_call *call = &lock->calls[i];
        if (call->invoke->verb != TORTURE_COUNT_DOWN || torture_ended(call, TORTURE_REFUSED))
            continue;
        uint64_t weight = torture_weight(lock, call->invoke);
        begun[begun_count++] = (struct countdown){ call->invoke->number, weight };
        if (torture_ended(call, TORTURE_OK))
            done[done_count++] = (struct countdown){ call->end->number, weight };
    }
    if (begun && done) {
        opening->counted_earliest = number_of_last(begun, begun_count, lock->permits);
        opening->counted_latest = number_of_last(done, done_count, lock->permits);
    }
    free(begun);
    free(done);
    return !checking->no_memory;
}

/* An elapsed wait is no answer about the latch: a paused client may never have looked. */
static void find_answers(struct torture_report *report, const struct torture_object *lock,
                         struct opening *opening)
{
    for (size_t i = 0; i < lock->call_count; i++) {
        const struct torture_call *call = &lock->calls[i];
        bool looks = call->invoke->verb == TORTURE_LOOK;
        if (!looks && call->invoke->verb != TORTURE_AWAIT)
            continue;
        report->checked[TORTURE_S7]++;
        if (torture_ended(call, TORTURE_OK) &&
            (!opening->open || call->end->number < opening->open->end->number))
            opening->open = call;
        if (looks && torture_ended(call, TORTURE_REFUSED) &&
            (!opening->closed || call->invoke->number > opening->closed->invoke->number))
            opening->closed = call;
    }
}

static void found_early(struct torture_checking *checking, const struct torture_object *lock,
                        const struct torture_call *open)
{
    struct torture_finding finding = {
        .rule = TORTURE_S7,
        .hold_count = 1,
        .holds = { open->invoke->operation },
        .from = open->invoke->number,
        .to = open->end->number,
    };
    torture_found(
        checking, lock, &finding, "client %u found %s open at %s, before %llu countdowns had begun",
        open->invoke->client, torture_lock_name(lock).text,
        torture_moment(checking, open->end->number).text, (unsigned long long)lock->permits);
}

static void found_closed(struct torture_checking *checking, const struct torture_object *lock,
                         const struct torture_call *closed, const struct torture_call *open)
{
    struct torture_finding finding = {
        .rule = TORTURE_S7,
        .hold_count = open ? 2 : 1,
        .holds = { closed->invoke->operation, open ? open->invoke->operation : 0 },
        .from = open ? torture_smaller(open->invoke->number, closed->invoke->number)
                     : closed->invoke->number,
        .to = closed->end->number,
    };
    torture_found(checking, lock, &finding, "client %u found %s closed after %s, when %s",
                  closed->invoke->client, torture_lock_name(lock).text,
                  torture_moment(checking, closed->invoke->number).text,
                  open ? "another client had already found it open"
                       : "all countdowns were over already");
}

bool torture_check_latch(struct torture_checking *checking, struct torture_object *lock)
{
    struct opening opening = { TORTURE_NO_END, TORTURE_NO_END, NULL, NULL };
    if (lock->form != TORTURE_LATCH)
        return true;
    if (!find_counted(checking, lock, &opening))
        return false;
    if (lock->permits == 0)
        opening.counted_earliest = opening.counted_latest = 0;
    lock->opened = opening.counted_latest;
    find_answers(checking->report, lock, &opening);
    const struct torture_call *open = opening.open, *closed = opening.closed;
    if (open && open->end->number < opening.counted_earliest)
        found_early(checking, lock, open);
    if (closed && closed->invoke->number > opening.counted_latest)
        found_closed(checking, lock, closed, NULL);
    else if (closed && open && closed->invoke->number > open->end->number)
        found_closed(checking, lock, closed, open);
    return true;
}
