/* SPDX-License-Identifier: Apache-2.0 */
/* S4: no try is refused what is free. A refused try must have met a moment in which something was,
 * or may have been, in its way. Where tries stand in line, that may be another refused try, but
 * only from when something was in the way of that one: the first in line is granted. */
#include "torture/check/check.h"

#include <stdlib.h>

/* What may be at the store, from when to when, and what it bars. */
struct presence {
    struct torture_span span;
    const struct torture_hold *hold; /* NULL: it only may have come there */
    uint8_t share;
    uint64_t in_line_until;
};

/* What has no place at the store any more once its caller is told: it was granted, or is gone. */
static bool is_settled(const struct torture_call *call)
{
    return torture_ended(call, TORTURE_OK) || /* mutant: what-had-no-answer-has-left */
           (torture_ended(call, TORTURE_REFUSED) && call->end->until_ns == 0);
}

/* Only a waiter is in line; but where tries stand in one, a try for permits is, too. When a call
 * without a clear answer leaves it is not known. */
static uint64_t in_line_until(const struct torture_object *lock, const struct torture_call *call,
                              uint64_t end)
{
    /* mutant: owner-stands-in-line */
    bool lines_up = lock->form == TORTURE_SEMAPHORE && lock->description->flags & TORTURE_LINE;
    if (call->invoke->verb == TORTURE_TRY && !lines_up)
        return call->invoke->number;
    return is_settled(call) ? torture_smaller(call->end->number, end) : end;
}

static bool is_refused_try(const struct torture_call *call)
{
    return call->invoke->verb == TORTURE_TRY && torture_ended(call, TORTURE_REFUSED) &&
           !torture_was_an_error(call);
}

/* A try that is refused has not been at the store, but where something went wrong while it was
 * asked: it may have been granted too late, and given back. */
static bool never_was_there(const struct torture_checking *checking,
                            const struct torture_call *call)
{
    /* mutant: refused-try-is-in-line */
    return is_refused_try(call) && !torture_was_faulty(checking, call->invoke->at_ns,
                                                       call->end->at_ns, call->invoke->client);
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

static bool comes(const struct torture_checking *checking, const struct torture_call *call)
{
    return torture_is_acquisition(call->invoke) && !torture_was_an_error(call) &&
           !never_was_there(checking, call);
}

static struct presence presence_of(const struct torture_checking *checking,
                                   const struct torture_object *lock,
                                   const struct torture_call *call)
{
    const struct torture_record *invoke = call->invoke;
    uint64_t end = gone_by(checking, call);
    return (struct presence){ { invoke->number, end, torture_weight(lock, invoke) },
                              call->hold,
                              call->hold ? call->hold->highest : invoke->mode,
                              in_line_until(lock, call, end) };
}

/* ---- mutexes: a belief shows when the others cannot have been there ---- */

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

/* A client that was stopped in its wait may have been handed the lock, and have lost it again,
 * before it was granted what it knows of. */
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

/* ---- from number to number: what is in the way of which try ---- */

enum { SHARES = TORTURE_UPGRADABLE + 1 };

/* A try that was refused, and whether anything can have been the reason. */
struct refusal {
    const struct torture_call *call;
    struct presence in_line; /* from when it is excused on, if it stands in line */
    bool was_there;          /* among the presences, too */
    bool excused;
};

enum change_kind { GOES, GOES_OUT_OF_LINE, LEAVES_LINE, ANSWERED, COMES, ASKS };

struct change {
    uint64_t at;
    enum change_kind kind;
    size_t index;
};

struct sweep {
    const struct torture_object *lock;
    const struct presence *presences;
    struct refusal *refusals;
    size_t *asking; /* refusals that are under way without an excuse */
    size_t asking_count;
    uint64_t loads[SHARES]; /* what bars a try for each */
};

/* What it adds to that which bars a share. A call in line may bar all that come later, whatever
 * share it waits for, and however many permits there are for both. */
static uint64_t load_of(const struct torture_object *lock, const struct presence *presence,
                        unsigned share, bool in_line)
{
    uint64_t weight = presence->span.weight;
    if (lock->form == TORTURE_SEMAPHORE)
        return in_line ? weight + lock->permits : weight;
    bool bars = lock->form != TORTURE_RW || torture_shares_conflict(presence->share, share);
    return bars || in_line ? weight : 0;
}

/* When it comes. */
static bool is_in_line(const struct presence *presence)
{
    return presence->in_line_until > presence->span.from;
}

static void add_load(struct sweep *sweep, const struct presence *presence, bool in_line)
{
    for (unsigned share = 0; share < SHARES; share++)
        sweep->loads[share] += load_of(sweep->lock, presence, share, in_line);
}

static void take_load(struct sweep *sweep, const struct presence *presence, bool in_line)
{
    for (unsigned share = 0; share < SHARES; share++)
        sweep->loads[share] -= load_of(sweep->lock, presence, share, in_line);
}

/* While it is asked: it has not gone, and not left the line. */
static bool is_barred(const struct sweep *sweep, const struct refusal *refusal)
{
    unsigned share = refusal->in_line.share < SHARES ? refusal->in_line.share : 0;
    uint64_t load = sweep->loads[share], weight = refusal->in_line.span.weight;
    if (refusal->was_there)
        /* mutant: refused-try-excuses-itself */
        load -= load_of(sweep->lock, &refusal->in_line, share, is_in_line(&refusal->in_line));
    return load + weight > sweep->lock->permits;
}

static bool stands_in_line(const struct sweep *sweep, const struct refusal *refusal)
{
    /* mutant: refused-try-is-in-way-of-none */
    return sweep->lock->description->flags & TORTURE_LINE && !refusal->was_there;
}

/* An excused try may be the excuse of others. */
static void excuse(struct sweep *sweep)
{
    for (size_t i = 0; i < sweep->asking_count;) {
        struct refusal *refusal = &sweep->refusals[sweep->asking[i]];
        if (!is_barred(sweep, refusal)) {
            i++;
            continue;
        }
        refusal->excused = true;
        sweep->asking[i] = sweep->asking[--sweep->asking_count];
        if (stands_in_line(sweep, refusal)) {
            add_load(sweep, &refusal->in_line, is_in_line(&refusal->in_line));
            i = 0;
        }
    }
}

static void stop_asking(struct sweep *sweep, size_t index)
{
    for (size_t i = 0; i < sweep->asking_count; i++)
        if (sweep->asking[i] == index) {
            sweep->asking[i] = sweep->asking[--sweep->asking_count];
            return;
        }
}

static void make_change(struct sweep *sweep, const struct change *change)
{
    size_t index = change->index;
    const struct presence *presence = &sweep->presences[index];
    if (change->kind == COMES) {
        add_load(sweep, presence, is_in_line(presence));
    } else if (change->kind == LEAVES_LINE) {
        take_load(sweep, presence, true);
        add_load(sweep, presence, false);
    } else if (change->kind == GOES) {
        take_load(sweep, presence, presence->in_line_until >= presence->span.to);
    } else if (change->kind == ASKS) {
        sweep->asking[sweep->asking_count++] = index;
    } else if (change->kind == ANSWERED) {
        stop_asking(sweep, index);
    } else if (sweep->refusals[index].excused && stands_in_line(sweep, &sweep->refusals[index])) {
        take_load(sweep, &sweep->refusals[index].in_line,
                  is_in_line(&sweep->refusals[index].in_line));
    }
}

static int by_place(const void *a, const void *b)
{
    const struct change *left = a, *right = b;
    return (left->at > right->at) - (left->at < right->at);
}

/* What a presence changes, and when: as many as three changes. */
static size_t list_presence(struct change *changes, const struct presence *presence, size_t index)
{
    const struct torture_span *span = &presence->span;
    size_t used = 0;
    if (span->to <= span->from)
        return 0;
    changes[used++] = (struct change){ span->from, COMES, index };
    if (presence->in_line_until > span->from && presence->in_line_until < span->to)
        changes[used++] = (struct change){ presence->in_line_until, LEAVES_LINE, index };
    changes[used++] = (struct change){ span->to, GOES, index };
    return used;
}

static size_t list_refusal(struct change *changes, const struct refusal *refusal, size_t index)
{
    const struct torture_call *call = refusal->call;
    changes[0] = (struct change){ call->invoke->number, ASKS, index };
    changes[1] = (struct change){ call->end->number, ANSWERED, index };
    changes[2] = (struct change){ refusal->in_line.span.to, GOES_OUT_OF_LINE, index };
    return 3;
}

static void go_through(struct torture_checking *checking, struct sweep *sweep, size_t count,
                       size_t refused)
{
    struct change *changes = torture_room(checking, 3 * (count + refused), sizeof *changes);
    size_t used = 0;
    for (size_t i = 0; changes && i < count; i++)
        used += list_presence(changes + used, &sweep->presences[i], i);
    for (size_t i = 0; changes && i < refused; i++)
        used += list_refusal(changes + used, &sweep->refusals[i], i);
    if (changes)
        qsort(changes, used, sizeof *changes, by_place);
    for (size_t i = 0; i < used; i++) {
        make_change(sweep, &changes[i]);
        if (i + 1 == used || changes[i + 1].at != changes[i].at)
            excuse(sweep);
    }
    free(changes);
}

/* ---- findings ---- */

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
                  "client %u was refused %s between %s and %s, although it was free the whole "
                  "time",
                  call->invoke->client, torture_lock_name(lock).text,
                  torture_moment(checking, call->invoke->number).text,
                  torture_moment(checking, call->end->number).text);
}

static void judge(struct torture_checking *checking, const struct torture_object *lock,
                  const struct presence *presences, size_t count, struct refusal *refusals,
                  size_t refused)
{
    struct sweep sweep = { .lock = lock, .presences = presences, .refusals = refusals };
    sweep.asking = torture_room(checking, refused, sizeof *sweep.asking);
    if (sweep.asking)
        go_through(checking, &sweep, count, refused);
    free(sweep.asking);
    for (size_t i = 0; i < refused && !checking->no_memory; i++) {
        checking->report->checked[TORTURE_S4]++;
        if (!refusals[i].excused)
            found_refusal(checking, lock, refusals[i].call);
    }
}

/* Names of a run are its own: nothing but the store, or a command beside the run, changes what they
 * are. And an error that replaced a reply leaves open what was done; the subject has to as well. */
static void check_errors(struct torture_checking *checking, const struct torture_object *lock)
{
    for (size_t i = 0; i < lock->call_count; i++) {
        const struct torture_call *call = &lock->calls[i];
        bool ended = torture_ended(call, TORTURE_REFUSED) || torture_ended(call, TORTURE_UNKNOWN);
        if (!ended || !(call->end->flags & (TORTURE_FAILED | TORTURE_OTHER_KIND)))
            continue;
        bool failed = call->end->flags & TORTURE_FAILED;
        struct torture_finding finding = {
            .rule = failed ? TORTURE_S4 : TORTURE_S6,
            .hold_count = 1,
            .holds = { call->invoke->operation },
            .from = call->invoke->number,
            .to = call->end->number,
        };
        if (!failed && checking->report->broken[TORTURE_S6] > 0)
            continue;
        torture_found(
            checking, lock, &finding, "client %u: %s of %s at %s: %s", call->invoke->client,
            torture_verb_name((enum torture_verb)call->invoke->verb), torture_lock_name(lock).text,
            torture_moment(checking, call->invoke->number).text,
            failed ? "it was told an error by which nothing was done, although its "
                     "request was executed, and the reply was an error that leaves this "
                     "open"
            : lock->form == TORTURE_SEMAPHORE
                ? "the store told it that the semaphore has another number of permits; "
                  "the store, or a command beside the run, has changed it"
                : "the store told it that the name is in use as another kind of lock; "
                  "the store, or a command beside the run, has changed it");
    }
}

static size_t collect_refusals(const struct torture_checking *checking,
                               const struct torture_object *lock, struct refusal *refusals)
{
    size_t count = 0;
    for (size_t i = 0; i < lock->call_count; i++) {
        const struct torture_call *call = &lock->calls[i];
        if (!is_refused_try(call))
            continue;
        if (refusals)
            refusals[count] = (struct refusal){ .call = call,
                                                .in_line = presence_of(checking, lock, call),
                                                .was_there = !never_was_there(checking, call) };
        count++;
    }
    return count;
}

bool torture_check_refusals(struct torture_checking *checking, const struct torture_object *lock)
{
    size_t refused = collect_refusals(checking, lock, NULL), count = 0;
    check_errors(checking, lock);
    if (lock->form == TORTURE_LATCH || refused == 0)
        return true;
    struct presence *presences = torture_room(checking, lock->call_count, sizeof *presences);
    struct refusal *refusals = torture_room(checking, refused, sizeof *refusals);
    if (presences && refusals) {
        for (size_t i = 0; i < lock->call_count; i++)
            if (comes(checking, &lock->calls[i]))
                presences[count++] = presence_of(checking, lock, &lock->calls[i]);
        collect_refusals(checking, lock, refusals);
        /* Where exclusion is broken, beliefs say nothing about the others. */
        if (lock->form != TORTURE_MUTEX || lock->overlaps ||
            cut_presences(checking, lock, presences, count))
            judge(checking, lock, presences, count, refusals, refused);
    }
    free(presences);
    free(refusals);
    return !checking->no_memory;
}
