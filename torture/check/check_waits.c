/* SPDX-License-Identifier: Apache-2.0 */
/* L1, and the figures: how long people waited, how often they had to, and how soon a lock that came
 * free was in the next hands. */
#include "torture/check/check.h"

#include <stdlib.h>

/* ---- the calls that had to wait ---- */

static bool build(struct torture_checking *checking, struct torture_load *load,
                  const struct torture_object *lock, unsigned share)
{
    struct torture_span *spans = torture_room(checking, lock->belief_count, sizeof *spans);
    size_t used = 0;
    for (size_t i = 0; spans && i < lock->belief_count; i++) {
        const struct torture_belief *belief = &lock->beliefs[i];
        if (lock->form != TORTURE_RW || torture_shares_conflict(belief->share, share))
            spans[used++] = (struct torture_span){ belief->from, belief->to, belief->weight };
    }
    bool built = spans && torture_load_build(checking, load, spans, used);
    free(spans);
    return built;
}

static bool count_contended(struct torture_checking *checking, const struct torture_object *lock,
                            unsigned share)
{
    struct torture_load load;
    if (!build(checking, &load, lock, share))
        return false;
    for (size_t i = 0; i < lock->hold_count; i++) {
        const struct torture_record *invoke = lock->holds[i].call->invoke;
        if (lock->holds[i].nested || (lock->form == TORTURE_RW && invoke->mode != share))
            continue;
        uint64_t out = torture_load_most(&load, invoke->number, invoke->number + 1);
        uint64_t asked = torture_weight(lock, invoke);
        checking->report->contended += out + asked > lock->permits;
    }
    torture_load_free(&load);
    return true;
}

/* ---- L1 ---- */

/* From then on the store knew of a waiter. */
static const struct torture_record *ready_at(const struct torture_call *call)
{
    const struct torture_record *enqueued = torture_enqueued(call);
    return enqueued ? enqueued : call->invoke;
}

static void found_late(struct torture_checking *checking, const struct torture_object *lock,
                       const struct torture_record *freed, uint64_t holder,
                       const struct torture_call *call)
{
    const struct torture_record *since = ready_at(call);
    if (freed->number > since->number)
        since = freed;
    struct torture_finding finding = {
        .rule = TORTURE_L1,
        .hold_count = 2,
        .holds = { call->invoke->operation, holder },
        .from = torture_smaller(freed->number, call->invoke->number),
        .to = call->end->number,
    };
    torture_found(checking, lock, &finding,
                  "%s was free from %s on, and its waiter, client %u, went on after %.3f s",
                  torture_lock_name(lock).text, torture_moment(checking, since->number).text,
                  call->invoke->client, (double)(call->end->at_ns - since->at_ns) / 1e9);
}

/* `holder`: the operation that the lock was last granted to, or 0. */
static void judge_wait(struct torture_checking *checking, const struct torture_object *lock,
                       const struct torture_record *freed, uint64_t holder,
                       const struct torture_call *call)
{
    int64_t ready_ns = ready_at(call)->at_ns;
    int64_t since_ns = freed->at_ns > ready_ns ? freed->at_ns : ready_ns;
    if (torture_was_faulty(checking, since_ns, call->end->at_ns, TORTURE_NOBODY))
        return;
    checking->report->checked[TORTURE_L1]++;
    if (call->end->at_ns - since_ns > checking->limits.hand_over_ns)
        found_late(checking, lock, freed, holder, call);
}

/* How long a lock was free while a client waited for it, as a figure: from a client that gave it
 * back to one that had asked before. */
static void measure_hand_over(struct torture_checking *checking, const struct torture_hold *before,
                              const struct torture_hold *after)
{
    const struct torture_record *asked = before->release ? before->release->invoke : NULL;
    if (!asked || !torture_ended(before->release, TORTURE_OK) || before->owner == after->owner ||
        after->call->invoke->number > asked->number)
        return;
    int64_t took_ns = after->call->end->at_ns - asked->at_ns;
    checking->hand_overs_ns[checking->hand_over_count++] = took_ns > 0 ? took_ns : 0;
}

/* Whether something without a clear end overlaps the time between two numbers. */
static bool build_unclear(struct torture_checking *checking, const struct torture_object *lock,
                          struct torture_load *load)
{
    struct torture_span *spans = torture_room(checking, lock->call_count, sizeof *spans);
    size_t used = 0;
    for (size_t i = 0; spans && i < lock->call_count; i++) {
        const struct torture_call *call = &lock->calls[i];
        if (!torture_is_acquisition(call->invoke))
            continue;
        bool believed = call->hold && call->hold->believed_from != call->hold->believed_to;
        bool refused = torture_ended(call, TORTURE_REFUSED);
        if (believed ||
            (refused && (call->invoke->verb == TORTURE_TRY || torture_was_an_error(call))))
            continue;
        uint64_t end = refused      ? call->end->number
                       : call->hold ? torture_hold_forgotten(checking, call->hold)
                                    : torture_call_forgotten(checking, call);
        spans[used++] = (struct torture_span){ call->invoke->number, end, 1 };
    }
    bool built = spans && torture_load_build(checking, load, spans, used);
    free(spans);
    return built;
}

/* The record by whose number all holds so far were gone, or the lock's first one: that it was
 * granted again shows that those before were. NULL: it is not known when, or not before the end. */
static const struct torture_record *freed_by(const struct torture_object *lock, uint64_t number)
{
    size_t low = 0, high = lock->record_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lock->records[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < lock->record_count ? lock->records[low] : NULL;
}

/* The lock's last holder, and until when it may have held it. */
struct former {
    const struct torture_hold *hold; /* NULL: it is new */
    uint64_t gone;
};

/* A grant shows that nothing of others was left before it. What its own owner had before may be
 * below it, and stay for longer. */
static void follow(struct torture_checking *checking, struct former *former,
                   const struct torture_hold *hold)
{
    /* mutant: what-owner */
    bool others = !former->hold || (!hold->nested && hold->owner != former->hold->owner);
    former->gone =
        torture_larger(others ? 0 : former->gone, torture_hold_forgotten(checking, hold));
    former->hold = hold;
}

static void look_at_hand_over(struct torture_checking *checking, const struct torture_object *lock,
                              const struct former *former, const struct torture_hold *after)
{
    const struct torture_record *freed = freed_by(lock, former->gone);
    uint64_t holder = former->hold ? former->hold->call->invoke->operation : 0;
    if (former->hold)
        measure_hand_over(checking, former->hold, after);
    if (freed && freed->number < after->call->end->number) /* mutant: owner-asks-for-what-is-free */
        judge_wait(checking, lock, freed, holder, after->call);
}

/* A client that may have come in between, unseen, would excuse a wait: then there is nothing to
 * say. */
static bool check_hand_overs(struct torture_checking *checking, const struct torture_object *lock)
{
    struct torture_load unclear;
    struct former former = { 0 };
    uint64_t clear_from = 0;
    if (lock->form != TORTURE_MUTEX || lock->overlaps)
        return true;
    if (!build_unclear(checking, lock, &unclear))
        return false;
    for (size_t i = 0; i < lock->belief_count; i++) {
        const struct torture_belief *belief = &lock->beliefs[i];
        bool first = belief->from == belief->hold->believed_from;
        /* mutant: wait-is-excused-by-none-unseen */
        bool clear = !torture_load_most(&unclear, clear_from, belief->from);
        if (first && !belief->hold->nested && clear)
            look_at_hand_over(checking, lock, &former, belief->hold);
        if (first)
            follow(checking, &former, belief->hold);
        clear_from = belief->to;
    }
    torture_load_free(&unclear);
    return true;
}

static void check_latch_waits(struct torture_checking *checking, const struct torture_object *lock)
{
    const struct torture_record *opened = NULL;
    for (size_t i = 0; i < lock->record_count && !opened; i++)
        if (lock->records[i]->number == lock->opened)
            opened = lock->records[i];
    for (size_t i = 0; i < lock->call_count && opened; i++) {
        const struct torture_call *call = &lock->calls[i];
        if (call->invoke->verb == TORTURE_AWAIT && torture_ended(call, TORTURE_OK) &&
            call->end->number > opened->number)
            judge_wait(checking, lock, opened, opened->hold, call);
    }
}

/* ---- figures ---- */

static void count_calls(struct torture_checking *checking, const struct torture_object *lock)
{
    struct torture_report *report = checking->report;
    report->operations += lock->call_count;
    for (size_t i = 0; i < lock->call_count; i++) {
        const struct torture_call *call = &lock->calls[i];
        report->refusals += torture_ended(call, TORTURE_REFUSED);
        report->unknowns += torture_ended(call, TORTURE_UNKNOWN);
        if (!call->hold)
            continue;
        int64_t wait_ns = call->end->at_ns - call->invoke->at_ns;
        report->grants++;
        report->losses += call->hold->lost != NULL;
        if (wait_ns > report->longest_wait_ns)
            report->longest_wait_ns = wait_ns;
        if (call->invoke->client < TORTURE_CLIENTS)
            checking->grants[call->invoke->client]++;
    }
}

bool torture_check_waits(struct torture_checking *checking, const struct torture_object *lock)
{
    count_calls(checking, lock);
    if (lock->form == TORTURE_LATCH) {
        check_latch_waits(checking, lock);
        return true;
    }
    unsigned shares = lock->form == TORTURE_RW ? TORTURE_UPGRADABLE + 1 : 1;
    for (unsigned share = 0; share < shares; share++)
        if (!count_contended(checking, lock, share))
            return false;
    return check_hand_overs(checking, lock);
}
