/* SPDX-License-Identifier: Apache-2.0 */
/* S2: the nested holds of one owner are one claim, which lasts until the last of them is given back
 * and has one token. */
#include "torture/check/check.h"

#include <stdlib.h>

/* What is known of an owner while the lock's records are gone through. */
struct owner {
    uint64_t id;
    bool taken;
    const struct torture_belief *longest; /* of those begun so far, the one that ends last */
    uint64_t present;                     /* it may have been in the store up to here */
};

struct owners {
    struct owner *places;
    size_t mask;
};

static struct owner *owner_of(const struct owners *owners, uint64_t id)
{
    size_t i = (size_t)((id ^ id >> 32) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & owners->mask;
    while (owners->places[i].taken && owners->places[i].id != id)
        i = (i + 1) & owners->mask;
    owners->places[i].id = id;
    owners->places[i].taken = true;
    return &owners->places[i];
}

static uint64_t release_number(const struct torture_hold *hold)
{
    return hold->release ? hold->release->invoke->number : TORTURE_NO_END;
}

static void check_nested_token(struct torture_checking *checking, const struct torture_object *lock,
                               const struct torture_hold *outer, const struct torture_hold *inner)
{
    uint64_t first = outer->call->end->token, second = inner->call->end->token;
    checking->report->checked[TORTURE_S2]++;
    if (lock->form != TORTURE_MUTEX || !first || !second || first == second)
        return;
    struct torture_finding finding = {
        .rule = TORTURE_S2,
        .hold_count = 2,
        .holds = { outer->call->invoke->operation, inner->call->invoke->operation },
        .from = outer->call->invoke->number,
        .to = inner->call->end->number,
    };
    torture_found(
        checking, lock, &finding,
        "client %u held %s with token %llu and entered it again at %s, with token %llu: "
        "one grant has one token",
        inner->call->invoke->client, torture_lock_name(lock).text, (unsigned long long)first,
        torture_moment(checking, inner->call->end->number).text, (unsigned long long)second);
}

static void nest(struct torture_checking *checking, const struct torture_object *lock,
                 struct torture_hold *outer, struct torture_hold *inner)
{
    struct torture_hold *claim = outer->claim;
    inner->nested = true;
    inner->claim = claim;
    claim->entered = outer->entered = true;
    claim->first_release = torture_smaller(claim->first_release, release_number(inner));
    check_nested_token(checking, lock, outer, inner);
}

/* Whatever begins within another belief of its owner is nested in it. */
static void find_nested(struct torture_checking *checking, const struct torture_object *lock,
                        const struct owners *owners)
{
    for (size_t i = 0; i < lock->belief_count; i++) {
        const struct torture_belief *belief = &lock->beliefs[i];
        struct torture_hold *hold = belief->hold;
        struct owner *owner = owner_of(owners, hold->owner);
        const struct torture_belief *longest = owner->longest;
        bool begins = belief->from == hold->believed_from;
        if (longest && begins && longest->to > belief->from && longest->hold != hold)
            nest(checking, lock, longest->hold, hold);
        if (!longest || belief->to > longest->to)
            owner->longest = belief;
    }
}

/* ---- what cannot be nested ---- */

static uint64_t last_presence(const struct torture_checking *checking,
                              const struct torture_call *call)
{
    if (torture_ended(call, TORTURE_REFUSED))
        return call->end->number;
    return call->hold ? torture_hold_forgotten(checking, call->hold)
                      : torture_call_forgotten(checking, call);
}

static void find_fresh(const struct torture_checking *checking, const struct torture_object *lock,
                       const struct owners *owners)
{
    for (size_t i = 0; i < lock->call_count; i++) {
        const struct torture_call *call = &lock->calls[i];
        if (!torture_is_acquisition(call->invoke))
            continue;
        uint64_t id = call->hold ? call->hold->owner : call->invoke->owner;
        struct owner *owner = owner_of(owners, id);
        if (call->hold)
            call->hold->fresh = owner->present < call->invoke->number;
        owner->present = torture_larger(owner->present, last_presence(checking, call));
    }
}

bool torture_check_claims(struct torture_checking *checking, struct torture_object *lock)
{
    for (size_t i = 0; i < lock->hold_count; i++)
        lock->holds[i].first_release = release_number(&lock->holds[i]);
    if (lock->form == TORTURE_SEMAPHORE || lock->form == TORTURE_LATCH)
        return true;
    struct owners owners = { .mask = 15 };
    while (owners.mask < lock->call_count * 2)
        owners.mask = owners.mask * 2 + 1;
    owners.places = torture_room(checking, owners.mask + 1, sizeof *owners.places);
    if (!owners.places)
        return false;
    find_nested(checking, lock, &owners);
    find_fresh(checking, lock, &owners);
    free(owners.places);
    return true;
}
