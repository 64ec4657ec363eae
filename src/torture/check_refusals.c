/* S4: nobody is refused what is free. A refused try must have met a moment in which something was,
 * or may have been, in its way. */
#include "torture/check.h"

#include <stdlib.h>

/* What may be at the store, from when to when, and what it bars. */
struct presence {
    struct torture_span span;
    const struct torture_hold *hold; /* NULL: it only may have come there */
    uint8_t share;
    uint64_t in_line_until;
};

/* Only who waits is in line. */
static uint64_t in_line_until(const struct torture_call *call, uint64_t end)
{
    if (call->invoke->verb == TORTURE_TRY)
        return call->invoke->number;
    return call->end ? torture_smaller(call->end->number, end) : end;
}

static bool is_refused_try(const struct torture_call *call)
{
    return call->invoke->verb == TORTURE_TRY && torture_ended(call, TORTURE_REFUSED);
}

/* A try that is refused comes into nobody's way, but where it has to stand in line first, and where
 * something went wrong while it was asked: it may have been granted too late, and given back. */
static bool never_was_there(const struct torture_checking *checking,
                            const struct torture_object *lock, const struct torture_call *call)
{
    return is_refused_try(call) && !(lock->description->flags & TORTURE_LINE) &&
           !torture_was_faulty(checking, call->invoke->at_ns, call->end->at_ns,
                               call->invoke->client);
}

/* By when what this call brought to the store has gone. What was refused may have been granted too
 * late, and given back a little after its caller was told. */
static uint64_t gone_by(const struct torture_checking *checking, const struct torture_call *call)
{
    if (torture_ended(call, TORTURE_REFUSED) && call->end->until_ns == 0)
        return call->end->number;
    if (is_refused_try(call))
        return torture_forgotten_number(checking, call->end->at_ns + checking->limits.grace_ns);
    return call->hold ? torture_hold_forgotten(checking, call->hold)
                      : torture_call_forgotten(checking, call);
}

static size_t add_call(const struct torture_checking *checking, const struct torture_object *lock,
                       const struct torture_call *call, struct presence *presence)
{
    const struct torture_record *invoke = call->invoke;
    if (!torture_is_acquisition(invoke) || never_was_there(checking, lock, call))
        return 0;
    uint64_t end = gone_by(checking, call);
    *presence = (struct presence){ { invoke->number, end, torture_weight(lock, invoke) },
                                   call->hold,
                                   call->hold ? call->hold->highest : invoke->mode,
                                   in_line_until(call, end) };
    return 1;
}

/* ---- mutexes: who believes, shows when the others cannot have been there ---- */

/* Before and behind a run of beliefs of one owner, others were sure of the lock. */
struct run {
    uint64_t others_until, others_from;
};

static void cut_run(struct torture_belief *const *run, size_t count, struct run bounds,
                    uint64_t (*cuts)[2], const struct torture_object *lock)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t *cut = cuts[run[i]->hold - lock->holds];
        if (cut[1] == 0)
            cut[0] = bounds.others_until;
        cut[1] = bounds.others_from;
    }
}

static void find_cuts(const struct torture_object *lock, struct torture_belief **beliefs,
                      uint64_t (*cuts)[2])
{
    uint64_t until = 0;
    for (size_t first = 0, next; first < lock->belief_count; first = next) {
        uint64_t reached = until;
        for (next = first;
             next < lock->belief_count && beliefs[next]->hold->owner == beliefs[first]->hold->owner;
             next++)
            reached = torture_larger(reached, beliefs[next]->to);
        struct run bounds = { until,
                              next < lock->belief_count ? beliefs[next]->from : TORTURE_NO_END };
        cut_run(beliefs + first, next - first, bounds, cuts, lock);
        until = reached;
    }
}

/* Who was stopped in its wait may have been handed the lock, and have lost it again, before it was
 * granted what it knows of. */
static bool was_held_up(const struct torture_checking *checking, const struct torture_call *call)
{
    return torture_was_faulty(checking, call->invoke->at_ns, call->end->at_ns,
                              call->invoke->client);
}

static bool cut_presences(struct torture_checking *checking, const struct torture_object *lock,
                          struct presence *presences, size_t count)
{
    struct torture_belief **beliefs = torture_room(checking, lock->belief_count, sizeof *beliefs);
    uint64_t(*cuts)[2] = torture_room(checking, lock->hold_count, sizeof *cuts);
    if (beliefs && cuts) {
        for (size_t i = 0; i < lock->belief_count; i++)
            beliefs[i] = &lock->beliefs[i];
        find_cuts(lock, beliefs, cuts);
        for (size_t i = 0; i < count; i++) {
            if (!presences[i].hold)
                continue;
            const uint64_t *cut = cuts[presences[i].hold - lock->holds];
            struct torture_span *span = &presences[i].span;
            if (!was_held_up(checking, presences[i].hold->call))
                span->from = torture_larger(span->from, cut[0]);
            span->to = torture_smaller(span->to, cut[1] ? cut[1] : TORTURE_NO_END);
        }
    }
    free(beliefs);
    free(cuts);
    return !checking->no_memory;
}

/* ---- loads ---- */

static bool build(struct torture_checking *checking, struct torture_load *load,
                  const struct torture_object *lock, const struct presence *presences, size_t count,
                  unsigned share)
{
    struct torture_span *spans = torture_room(checking, 2 * count, sizeof *spans);
    size_t used = 0;
    for (size_t i = 0; spans && i < count; i++) {
        struct torture_span in_line = presences[i].span;
        in_line.to = torture_smaller(in_line.to, presences[i].in_line_until);
        spans[used] = presences[i].span;
        /* Who is in line may bar all who come later, whatever share it waits for, and however many
         * permits there are for both. */
        if (lock->form == TORTURE_RW && !torture_shares_conflict(presences[i].share, share))
            spans[used] = in_line;
        used++;
        in_line.weight = lock->permits;
        if (lock->form == TORTURE_SEMAPHORE)
            spans[used++] = in_line;
    }
    bool built = spans && torture_load_build(checking, load, spans, used);
    free(spans);
    return built;
}

static void found_refusal(struct torture_checking *checking, const struct torture_object *lock,
                          const struct torture_call *call)
{
    struct torture_finding finding = {
        .rule = TORTURE_S4,
        .hold_count = 1,
        .holds = { call->invoke->operation },
        .from = call->invoke->number,
        .to = call->end->number,
    };
    torture_found(checking, lock, &finding,
                  "client %u was refused %s between %s and %s, although nobody can have had what "
                  "it asked for",
                  call->invoke->client, torture_lock_name(lock).text,
                  torture_moment(checking, call->invoke->number).text,
                  torture_moment(checking, call->end->number).text);
}

/* What of the load is the try itself. */
static uint64_t own_load(const struct torture_checking *checking, const struct torture_object *lock,
                         const struct torture_call *call, unsigned share)
{
    bool counted = lock->form != TORTURE_RW || torture_shares_conflict(call->invoke->mode, share);
    return counted && !never_was_there(checking, lock, call) ? torture_weight(lock, call->invoke)
                                                             : 0;
}

static void check_share(struct torture_checking *checking, const struct torture_object *lock,
                        const struct torture_load *load, unsigned share)
{
    for (size_t i = 0; i < lock->call_count; i++) {
        const struct torture_call *call = &lock->calls[i];
        if (!is_refused_try(call) || (lock->form == TORTURE_RW && call->invoke->mode != share))
            continue;
        uint64_t most = torture_load_most(load, call->invoke->number, call->end->number);
        uint64_t asked = torture_weight(lock, call->invoke);
        checking->report->checked[TORTURE_S4]++;
        if (most - own_load(checking, lock, call, share) + asked <= lock->permits)
            found_refusal(checking, lock, call);
    }
}

static bool has_refused_try(const struct torture_object *lock)
{
    for (size_t i = 0; i < lock->call_count; i++)
        if (is_refused_try(&lock->calls[i]))
            return true;
    return false;
}

bool torture_check_refusals(struct torture_checking *checking, const struct torture_object *lock)
{
    if (lock->form == TORTURE_LATCH || !has_refused_try(lock))
        return true;
    struct presence *presences = torture_room(checking, lock->call_count, sizeof *presences);
    size_t count = 0;
    for (size_t i = 0; presences && i < lock->call_count; i++)
        count += add_call(checking, lock, &lock->calls[i], &presences[count]);
    /* Where exclusion is broken, beliefs say nothing about the others. */
    if (presences && lock->form == TORTURE_MUTEX && !lock->overlaps)
        cut_presences(checking, lock, presences, count);

    unsigned shares = lock->form == TORTURE_RW ? TORTURE_UPGRADABLE + 1 : 1;
    for (unsigned share = 0; share < shares && !checking->no_memory; share++) {
        struct torture_load load;
        if (build(checking, &load, lock, presences, count, share)) {
            check_share(checking, lock, &load, share);
            torture_load_free(&load);
        }
    }
    free(presences);
    return !checking->no_memory;
}
