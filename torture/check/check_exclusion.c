/* SPDX-License-Identifier: Apache-2.0 */
/* S1, S5, S6: whose beliefs may not meet, and how much may be believed at a time. */
#include "torture/check/check.h"

#include <stdlib.h>

/* ---- S1, S5: of each share, the beliefs that reach furthest, of two different owners ---- */

struct reaching {
    const struct torture_belief *best, *second;
};

static void remember(struct reaching *reaching, const struct torture_belief *belief)
{
    const struct torture_belief *best = reaching->best;
    if (!best || belief->to > best->to) {
        if (best && best->hold->owner != belief->hold->owner)
            reaching->second = best;
        reaching->best = belief;
    } else if (belief->hold->owner != best->hold->owner &&
               (!reaching->second || belief->to > reaching->second->to)) {
        reaching->second = belief;
    }
}

static const struct torture_belief *furthest_of_others(const struct reaching *reaching,
                                                       const struct torture_hold *hold)
{
    if (reaching->best && reaching->best->hold->owner != hold->owner)
        return reaching->best;
    return reaching->second;
}

static const char *share_word(const struct torture_object *lock, unsigned share)
{
    if (lock->form != TORTURE_RW)
        return "";
    return share == TORTURE_EXCLUSIVE ? " for writing"
           : share == TORTURE_SHARED  ? " for reading"
                                      : " for reading, to be upgraded";
}

/* A claim that has lost a part of itself, and then all, is broken by its nesting. */
static enum torture_rule rule_of(const struct torture_object *lock,
                                 const struct torture_belief *earlier, uint64_t meeting)
{
    if (earlier->hold->claim->first_release < meeting)
        return TORTURE_S2;
    return lock->form == TORTURE_RW ? TORTURE_S5 : TORTURE_S1;
}

static void found_overlap(struct torture_checking *checking, struct torture_object *lock,
                          const struct torture_belief *earlier, const struct torture_belief *later)
{
    enum torture_rule rule = rule_of(lock, earlier, later->from);
    uint64_t to = torture_smaller(earlier->to, later->to);
    struct torture_finding finding = {
        .rule = rule,
        .hold_count = 2,
        .holds = { earlier->hold->call->invoke->operation, later->hold->call->invoke->operation },
        .from = earlier->hold->call->invoke->number,
        .to = to,
    };
    lock->overlaps++;
    torture_found(checking, lock, &finding,
                  "%s was granted %s%s while %s still believed in it%s%s: from %s to %s",
                  torture_holder(later->hold).text, torture_lock_name(lock).text,
                  share_word(lock, later->share), torture_holder(earlier->hold).text,
                  share_word(lock, earlier->share),
                  rule == TORTURE_S2 ? ", having released only one of its nested holds" : "",
                  torture_moment(checking, later->from).text, torture_moment(checking, to).text);
}

/* Of all beliefs that have been remembered, the one of another owner that conflicts with this share
 * and reaches furthest. */
static const struct torture_belief *furthest_in_the_way(const struct reaching *reaching,
                                                        const struct torture_hold *hold,
                                                        unsigned share)
{
    const struct torture_belief *furthest = NULL;
    for (unsigned other = 0; other <= TORTURE_UPGRADABLE; other++) {
        const struct torture_belief *belief = furthest_of_others(&reaching[other], hold);
        if (belief && torture_shares_conflict(other, share) &&
            (!furthest || belief->to > furthest->to))
            furthest = belief;
    }
    return furthest;
}

static void check_beliefs(struct torture_checking *checking, struct torture_object *lock)
{
    struct reaching reaching[TORTURE_UPGRADABLE + 1] = { { NULL, NULL } };
    for (size_t i = 0; i < lock->belief_count; i++) {
        const struct torture_belief *belief = &lock->beliefs[i];
        const struct torture_belief *other =
            furthest_in_the_way(reaching, belief->hold, belief->share);
        if (other && other->to > belief->from)
            found_overlap(checking, lock, other, belief);
        remember(&reaching[belief->share], belief);
    }
}

/* A grant, or an upgrade, that its holder did not believe in any more when it came. */
static const struct torture_hold *brief_hold(const struct torture_call *call)
{
    const struct torture_hold *hold = call->hold;
    if (hold)
        return hold->believed_from == hold->believed_to ? hold : NULL;
    hold = call->about;
    bool upgraded = call->invoke->verb == TORTURE_UPGRADE && torture_ended(call, TORTURE_OK);
    return hold && upgraded && hold->believed_to <= call->end->number ? hold : NULL;
}

/* It was granted nevertheless, at some moment of its call, and in that moment no other holder can
 * have been sure. */
static void check_brief_grants(struct torture_checking *checking, struct torture_object *lock)
{
    struct reaching reaching[TORTURE_UPGRADABLE + 1] = { { NULL, NULL } };
    size_t begun = 0;
    for (size_t i = 0; i < lock->call_count; i++) {
        const struct torture_call *call = &lock->calls[i];
        const struct torture_hold *hold = brief_hold(call);
        if (!hold)
            continue;
        for (; begun < lock->belief_count && lock->beliefs[begun].from <= call->invoke->number;
             begun++)
            remember(&reaching[lock->beliefs[begun].share], &lock->beliefs[begun]);
        bool shared = lock->form == TORTURE_RW && call->hold;
        uint8_t share = shared ? call->invoke->mode : TORTURE_EXCLUSIVE;
        const struct torture_belief *other = furthest_in_the_way(reaching, hold, share);
        if (!other || other->to <= call->end->number)
            continue;
        struct torture_belief brief = { call->end->number, call->end->number + 1,
                                        call->hold ? call->hold : call->about, 1, share };
        found_overlap(checking, lock, other, &brief);
    }
}

void torture_check_exclusion(struct torture_checking *checking, struct torture_object *lock)
{
    if (lock->form != TORTURE_MUTEX && lock->form != TORTURE_RW)
        return;
    checking->report->checked[lock->form == TORTURE_RW ? TORTURE_S5 : TORTURE_S1] +=
        lock->hold_count;
    check_beliefs(checking, lock);
    check_brief_grants(checking, lock);
}

/* ---- S6 ---- */

static int by_end(const void *a, const void *b)
{
    const struct torture_belief *left = *(const struct torture_belief *const *)a;
    const struct torture_belief *right = *(const struct torture_belief *const *)b;
    return (left->to > right->to) - (left->to < right->to);
}

/* The holds that reach into the moment, the latest ones first. */
static void name_holds(const struct torture_object *lock, size_t last,
                       struct torture_finding *finding)
{
    const struct torture_belief *beliefs = lock->beliefs;
    uint64_t found[3];
    unsigned count = 0;
    for (size_t i = last + 1; i-- > 0 && count < 3;)
        if (beliefs[i].to > beliefs[last].from)
            found[count++] = beliefs[i].hold->call->invoke->operation;
    for (unsigned i = 0; i < count; i++)
        finding->holds[i] = found[count - 1 - i];
    finding->hold_count = count;
}

static void found_too_many(struct torture_checking *checking, struct torture_object *lock,
                           size_t index, uint64_t out)
{
    const struct torture_belief *belief = &lock->beliefs[index];
    struct torture_finding finding = {
        .rule = TORTURE_S6,
        .from = belief->hold->call->invoke->number,
        .to = belief->from,
    };
    lock->overlaps++;
    if (checking->report->broken[TORTURE_S6] < TORTURE_FINDINGS)
        name_holds(lock, index, &finding);
    torture_found(checking, lock, &finding,
                  "%s was granted %u of %s at %s: %llu permits were out then, of %llu",
                  torture_holder(belief->hold).text, belief->weight, torture_lock_name(lock).text,
                  torture_moment(checking, belief->from).text, (unsigned long long)out,
                  (unsigned long long)lock->permits);
}

bool torture_check_permits(struct torture_checking *checking, struct torture_object *lock)
{
    if (lock->form != TORTURE_SEMAPHORE)
        return true;
    const struct torture_belief **ends = torture_room(checking, lock->belief_count, sizeof *ends);
    if (!ends)
        return false;
    for (size_t i = 0; i < lock->belief_count; i++)
        ends[i] = &lock->beliefs[i];
    qsort(ends, lock->belief_count, sizeof *ends, by_end);
    uint64_t out = 0;
    size_t ended = 0;
    for (size_t i = 0; i < lock->belief_count; i++) {
        const struct torture_belief *belief = &lock->beliefs[i];
        for (; ends[ended]->to <= belief->from; ended++)
            out -= ends[ended]->weight;
        out += belief->weight;
        if (out > lock->permits)
            found_too_many(checking, lock, i, out);
    }
    checking->report->checked[TORTURE_S6] += lock->belief_count;
    free(ends);
    return true;
}
