/* SPDX-License-Identifier: Apache-2.0 */
/* From the records of one lock to its calls: which records belong to which call. */
#include "torture/check/check.h"

#include <stdlib.h>

/* Calls by their operation's number. */
struct table {
    uint32_t *places; /* index of the call, plus one */
    size_t mask;
};

static size_t hash(uint64_t operation)
{
    operation ^= operation >> 32;
    operation *= UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(operation ^ operation >> 29);
}

/* Where the operation is, or would be. */
static uint32_t *place_of(const struct table *table, const struct torture_object *lock,
                          uint64_t operation)
{
    size_t i = hash(operation) & table->mask;
    while (table->places[i] && lock->calls[table->places[i] - 1].invoke->operation != operation)
        i = (i + 1) & table->mask;
    return &table->places[i];
}

static struct torture_call *find(const struct table *table, struct torture_object *lock,
                                 uint64_t operation)
{
    uint32_t place = *place_of(table, lock, operation);
    return place ? &lock->calls[place - 1] : NULL;
}

static struct torture_call *begin_call(struct torture_checking *checking,
                                       struct torture_object *lock, struct table *table,
                                       const struct torture_record *record)
{
    uint32_t *place = place_of(table, lock, record->operation);
    if (*place) {
        torture_malformed(checking, record, "two calls have the same operation");
        return NULL;
    }
    if (lock->form == TORTURE_RW && record->mode > TORTURE_UPGRADABLE)
        torture_malformed(checking, record, "a read-write lock has no such mode");
    struct torture_call *call = &lock->calls[lock->call_count++];
    *call = (struct torture_call){ .invoke = record };
    *place = (uint32_t)lock->call_count;
    return call;
}

/* ---- holds: their story, record by record ---- */

static void add_piece(struct torture_object *lock, struct torture_hold *hold, uint64_t from,
                      uint64_t to, uint8_t share)
{
    if (hold->believed_from == hold->believed_to)
        hold->believed_from = from;
    hold->believed_to = to;
    lock->beliefs[lock->belief_count++] =
        (struct torture_belief){ from, to, hold, torture_weight(lock, hold->call->invoke), share };
}

static void add_belief(struct torture_object *lock, struct torture_hold *hold, uint64_t to)
{
    if (to <= hold->from)
        return;
    if (hold->bridge_from)
        add_piece(lock, hold, hold->bridge_from, hold->from, hold->bridge_share);
    hold->bridge_from = 0;
    add_piece(lock, hold, hold->from, to, hold->share);
}

/* How far belief goes without being asked again, but not beyond `end`. */
static uint64_t reach(const struct torture_checking *checking, const struct torture_hold *hold,
                      uint64_t end)
{
    uint64_t over = torture_deadline_number(checking, hold->deadline_ns);
    return torture_larger(hold->proof, torture_smaller(end, over));
}

static void grant(struct torture_object *lock, struct torture_call *call)
{
    const struct torture_record *invoke = call->invoke, *end = call->end;
    struct torture_hold *hold = &lock->holds[lock->hold_count++];
    bool shares = lock->form == TORTURE_RW && invoke->mode <= TORTURE_UPGRADABLE;
    uint8_t share = shares ? invoke->mode : TORTURE_EXCLUSIVE;
    *hold = (struct torture_hold){
        .call = call,
        .share = share,
        .highest = share,
        .owner = invoke->owner ? invoke->owner : UINT64_MAX - invoke->operation,
        .from = end->number,
        .proof = end->number,
        .deadline_ns = end->deadline_ns,
        .first_release = TORTURE_NO_END,
    };
    hold->claim = hold;
    call->hold = hold;
}

static bool is_over(const struct torture_hold *hold)
{
    return hold->release || hold->lost;
}

/* That a renewal succeeded proves belief up to its invocation, unless the old deadline came first.
 * Its answer speaks for what follows. False: there may be a gap between the two. */
static bool renew(const struct torture_checking *checking, struct torture_object *lock,
                  struct torture_hold *hold, const struct torture_call *call)
{
    uint64_t over = torture_deadline_number(checking, hold->deadline_ns);
    uint64_t answered = call->end->number;
    bool goes_on = over > answered; /* mutant: between-deadline-and-renewal */
    /* mutant: renewal-proves-nothing */
    hold->proof = torture_larger(hold->proof, torture_smaller(call->invoke->number, over));
    if (!goes_on) {
        add_belief(lock, hold, hold->proof);
        hold->bridge_from = 0;
        hold->from = hold->proof = answered;
    }
    if (call->end->deadline_ns)
        hold->deadline_ns = call->end->deadline_ns;
    return goes_on;
}

static void upgrade(const struct torture_checking *checking, struct torture_object *lock,
                    struct torture_hold *hold, const struct torture_call *call)
{
    if (renew(checking, lock, hold, call)) {
        uint64_t proven = torture_larger(hold->from, hold->proof);
        add_belief(lock, hold, proven);
        hold->bridge_from = proven;
        hold->bridge_share = hold->share;
    }
    hold->from = hold->proof = call->end->number;
    hold->share = TORTURE_EXCLUSIVE;
}

/* A writer is a reader from the moment it asks to be one. Without a clear answer nothing is known
 * of the hold any more; and between a deadline and an answer that comes after it there is no
 * belief.
 */
static void downgrade(const struct torture_checking *checking, struct torture_object *lock,
                      struct torture_hold *hold, const struct torture_call *call)
{
    uint64_t asked = call->invoke->number;
    hold->lowering = NULL;
    bool clear = torture_ended(call, TORTURE_OK);
    /* mutant: owner-asks-to-be-reader */
    uint64_t reached = clear ? reach(checking, hold, asked) : hold->proof;
    /* mutant: downgrade-that-is-answered */
    bool goes_on = torture_deadline_number(checking, hold->deadline_ns) > call->end->number;
    add_belief(lock, hold, reached);
    hold->bridge_from = 0;
    hold->from = hold->proof = clear && reached == asked && goes_on ? asked : call->end->number;
    hold->share = call->invoke->mode == TORTURE_UPGRADABLE ? TORTURE_UPGRADABLE : TORTURE_SHARED;
    hold->told = hold->told || !clear;
    if (call->end->deadline_ns)
        hold->deadline_ns = call->end->deadline_ns;
}

/* The first answer by which it had been lost counts. The loss is older than the answer. A raise may
 * be refused because others share the lock; and where a change has no clear answer, the end of the
 * hold is not known. */
static void hear_loss(struct torture_hold *hold, const struct torture_call *call)
{
    enum torture_verb verb = call->invoke->verb;
    if (hold->gone)
        return;
    if (verb != TORTURE_UPGRADE && torture_ended(call, TORTURE_REFUSED)) {
        hold->gone = true;
        if (call->end->at_ns < hold->deadline_ns && !hold->unclear)
            hold->lost_early = call->end;
    } else if (verb != TORTURE_RELEASE && !torture_ended(call, TORTURE_OK)) {
        hold->unclear = true; /* mutant: change-without-clear-answer */
    }
}

/* The call has an answer, which may say something of the hold that it is about. */
static void change_hold(const struct torture_checking *checking, struct torture_object *lock,
                        struct torture_hold *hold, const struct torture_call *call)
{
    bool granted = torture_ended(call, TORTURE_OK);
    hear_loss(hold, call);
    if (is_over(hold))
        return;
    if (call->invoke->verb == TORTURE_RENEW && granted) /* mutant: renewal-moves-no-deadline */
        renew(checking, lock, hold, call);
    else if (call->invoke->verb == TORTURE_UPGRADE && granted)
        upgrade(checking, lock, hold, call);
    else if (call->invoke->verb == TORTURE_DOWNGRADE)
        downgrade(checking, lock, hold, call);
}

/* ---- records ---- */

static struct torture_hold *hold_of(const struct table *table, struct torture_object *lock,
                                    uint64_t operation)
{
    struct torture_call *call = find(table, lock, operation);
    return call ? call->hold : NULL;
}

static void invoke(struct torture_checking *checking, struct torture_object *lock,
                   struct table *table, const struct torture_record *record)
{
    struct torture_call *call = begin_call(checking, lock, table, record);
    struct torture_hold *hold = hold_of(table, lock, record->hold);
    if (!call || !hold)
        return;
    call->about = hold;
    if (record->verb == TORTURE_UPGRADE)
        hold->highest = TORTURE_EXCLUSIVE;
    if (record->verb == TORTURE_DOWNGRADE && !is_over(hold))
        hold->lowering = record;
    if (record->verb == TORTURE_RELEASE && !hold->release)
        hold->release = call;
}

static void end_call(struct torture_checking *checking, struct torture_object *lock,
                     struct table *table, const struct torture_record *record)
{
    struct torture_call *call = find(table, lock, record->operation);
    if (record->verb == TORTURE_WRITE && !call)
        return;
    if (!call || call->end || call->invoke->verb != record->verb) {
        torture_malformed(checking, record, "an answer has no call, or the call has another one");
        return;
    }
    call->end = record;
    if (torture_is_acquisition(call->invoke)) {
        if (record->kind == TORTURE_OK && lock->form != TORTURE_LATCH)
            grant(lock, call);
        return;
    }
    if (call->about)
        change_hold(checking, lock, call->about, call);
}

static void hear_of_hold(struct torture_checking *checking, struct torture_object *lock,
                         struct table *table, const struct torture_record *record)
{
    struct torture_hold *hold = hold_of(table, lock, record->hold);
    if (!hold) {
        torture_malformed(checking, record, "it is about a hold that was not granted");
    } else if (record->kind == TORTURE_LOST) {
        hold->told = hold->told || record->flags & TORTURE_TOLD;
        if (!hold->lost)
            hold->lost = record;
    } else if (!is_over(hold)) {
        hold->proof = record->number;
        if (record->deadline_ns)
            hold->deadline_ns = record->deadline_ns;
    }
}

static void take_place(struct torture_object *lock, struct torture_call *call,
                       const struct torture_record *record)
{
    struct torture_place *place = &lock->places[lock->place_count++];
    *place = (struct torture_place){ .call = call, .enqueued = record, .former = call->place };
    call->place = place;
}

static void enqueue(struct torture_checking *checking, struct torture_object *lock,
                    struct table *table, const struct torture_record *record)
{
    struct torture_call *call = find(table, lock, record->operation);
    if (!call)
        torture_malformed(checking, record, "that operation has no waiter");
    else if (call->end)
        return;
    else if (!(record->flags & TORTURE_DISPLACED) && !torture_enqueued(call))
        take_place(lock, call, record);
    else if (record->flags & TORTURE_DISPLACED && torture_enqueued(call))
        call->place->displaced = record; /* mutant: place-that-was-lost-counts */
}

static void take_record(struct torture_checking *checking, struct torture_object *lock,
                        struct table *table, const struct torture_record *record)
{
    if (record->kind == TORTURE_INVOKE)
        invoke(checking, lock, table, record);
    else if (record->kind == TORTURE_OK || record->kind == TORTURE_REFUSED ||
             record->kind == TORTURE_UNKNOWN)
        end_call(checking, lock, table, record);
    else if (record->kind == TORTURE_STILL || record->kind == TORTURE_LOST)
        hear_of_hold(checking, lock, table, record);
    else if (record->kind == TORTURE_ENQUEUED)
        enqueue(checking, lock, table, record);
}

bool torture_lock_calls(struct torture_checking *checking, struct torture_object *lock)
{
    size_t calls = 0, ends = 0, places = 0;
    for (size_t i = 0; i < lock->record_count; i++) {
        calls += lock->records[i]->kind == TORTURE_INVOKE;
        ends += lock->records[i]->kind == TORTURE_OK || lock->records[i]->kind == TORTURE_UNKNOWN ||
                lock->records[i]->kind == TORTURE_REFUSED;
        places += lock->records[i]->kind == TORTURE_ENQUEUED;
    }
    struct table table = { .mask = 15 };
    while (table.mask < calls * 2)
        table.mask = table.mask * 2 + 1;
    table.places = torture_room(checking, table.mask + 1, sizeof *table.places);
    lock->calls = torture_room(checking, calls, sizeof *lock->calls);
    lock->places = torture_room(checking, places, sizeof *lock->places);
    lock->holds = torture_room(checking, ends, sizeof *lock->holds);
    /* Each answer makes three pieces of belief at most, one of them in place of its hold's end. */
    lock->beliefs = torture_room(checking, 3 * ends, sizeof *lock->beliefs);
    for (size_t i = 0; i < lock->record_count && !checking->no_memory; i++)
        take_record(checking, lock, &table, lock->records[i]);
    free(table.places);
    return !checking->no_memory;
}

/* ---- the end of each belief ---- */

/* Beyond the last proof, belief is only counted where the end of the hold shows that it was there:
 * the store took the release for the holder's own, or the deadline had come before any record said
 * anything else. */
static uint64_t last_belief(const struct torture_checking *checking,
                            const struct torture_hold *hold)
{
    const struct torture_record *first = hold->release ? hold->release->invoke : NULL;
    if (hold->lost && (!first || hold->lost->number < first->number))
        first = hold->lost;
    if (!first || hold->told)
        return hold->proof;
    bool given_back = first != hold->lost && torture_ended(hold->release, TORTURE_OK);
    bool by_the_clock = hold->deadline_ns != TORTURE_NEVER && first->at_ns >= hold->deadline_ns;
    return given_back || by_the_clock ? reach(checking, hold, first->number) : hold->proof;
}

/* A holder that loses the lock while it asks to be a reader was a writer up to the question
 * only. */
static uint64_t end_of_belief(const struct torture_checking *checking,
                              const struct torture_hold *hold)
{
    uint64_t end = last_belief(checking, hold);
    return hold->lowering ? torture_smaller(end, hold->lowering->number) : end;
}

static int by_beginning(const void *a, const void *b)
{
    const struct torture_belief *left = a, *right = b;
    return (left->from > right->from) - (left->from < right->from);
}

bool torture_lock_beliefs(struct torture_checking *checking, struct torture_object *lock)
{
    for (size_t i = 0; i < lock->hold_count; i++)
        add_belief(lock, &lock->holds[i], end_of_belief(checking, &lock->holds[i]));
    qsort(lock->beliefs, lock->belief_count, sizeof *lock->beliefs, by_beginning);
    return true;
}
