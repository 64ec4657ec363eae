/* SPDX-License-Identifier: Apache-2.0 */
/* S3, S9 and the second half of S5: tokens of exclusive grants rise, a reader's is not older than
 * the last writer's, and a resource that compares them accepts no old one. */
#include "torture/check/check.h"

#include <stdlib.h>

/* A grant with a token, exclusive or not. */
struct ticket {
    uint64_t asked, granted, token;
    const struct torture_hold *hold;
    bool exclusive;
};

static int by_asking(const void *a, const void *b)
{
    const struct ticket *left = a, *right = b;
    return (left->asked > right->asked) - (left->asked < right->asked);
}

static int by_granting(const void *a, const void *b)
{
    const struct ticket *left = a, *right = b;
    return (left->granted > right->granted) - (left->granted < right->granted);
}

static int by_token(const void *a, const void *b)
{
    const struct ticket *left = a, *right = b;
    if (left->token != right->token)
        return left->token > right->token ? 1 : -1;
    return by_granting(a, b);
}

/* ---- which grants have one ---- */

static size_t add_grant(struct ticket *tickets, const struct torture_object *lock,
                        const struct torture_hold *hold)
{
    const struct torture_call *call = hold->call;
    if (!call->end->token || hold->nested)
        return 0;
    *tickets =
        (struct ticket){ call->invoke->number, call->end->number, call->end->token, hold,
                         lock->form == TORTURE_MUTEX || call->invoke->mode == TORTURE_EXCLUSIVE };
    return 1;
}

/* An upgrade is a grant of its own. A token that the hold had before was drawn when it was granted.
 */
static size_t add_upgrade(struct ticket *tickets, const struct torture_call *call)
{
    const struct torture_hold *hold = call->about;
    if (!call->end->token)
        return 0;
    bool old = call->end->token == hold->call->end->token;
    *tickets = (struct ticket){ old ? hold->call->invoke->number : call->invoke->number,
                                call->end->number, call->end->token, hold, true };
    return 1;
}

static size_t collect(const struct torture_object *lock, struct ticket *tickets)
{
    size_t count = 0;
    for (size_t i = 0; i < lock->call_count; i++) {
        const struct torture_call *call = &lock->calls[i];
        if (call->hold)
            count += add_grant(tickets + count, lock, call->hold);
        if (call->about && call->invoke->verb == TORTURE_UPGRADE && torture_ended(call, TORTURE_OK))
            count += add_upgrade(tickets + count, call);
    }
    return count;
}

/* ---- the rules ---- */

static bool is_exclusive_grant(const struct torture_object *lock, const struct torture_call *call)
{
    if (!torture_ended(call, TORTURE_OK))
        return false;
    if (call->about && call->invoke->verb == TORTURE_UPGRADE)
        return true;
    return call->hold && !call->hold->nested &&
           (lock->form == TORTURE_MUTEX || call->invoke->mode == TORTURE_EXCLUSIVE);
}

static void found_no_token(struct torture_checking *checking, const struct torture_object *lock,
                           const struct torture_call *call)
{
    const struct torture_call *granted = call->hold ? call : call->about->call;
    struct torture_finding finding = {
        .rule = TORTURE_S3,
        .hold_count = 1,
        .holds = { granted->invoke->operation },
        .from = call->invoke->number,
        .to = call->end->number,
    };
    torture_found(checking, lock, &finding,
                  "client %u was granted %s at %s without a token: a resource that compares tokens "
                  "cannot tell it from an old owner",
                  call->invoke->client, torture_lock_name(lock).text,
                  torture_moment(checking, call->end->number).text);
}

/* Where tokens fence, each exclusive grant has one. */
static void check_presence(struct torture_checking *checking, const struct torture_object *lock)
{
    for (size_t i = 0; i < lock->call_count; i++) {
        const struct torture_call *call = &lock->calls[i];
        if (!is_exclusive_grant(lock, call) || call->end->token) /* mutant: grant-without-token */
            continue;
        checking->report->checked[TORTURE_S3]++;
        found_no_token(checking, lock, call);
    }
}

static void found_old(struct torture_checking *checking, const struct torture_object *lock,
                      const struct ticket *first, const struct ticket *second)
{
    struct torture_finding finding = {
        .rule = second->exclusive ? TORTURE_S3 : TORTURE_S5,
        .hold_count = 2,
        .holds = { first->hold->call->invoke->operation, second->hold->call->invoke->operation },
        .from = torture_smaller(first->asked, second->asked),
        .to = torture_larger(first->granted, second->granted),
    };
    torture_found(checking, lock, &finding,
                  "client %u was granted %s with token %llu at %s, although client %u had been "
                  "granted it with token %llu at %s: %s",
                  second->hold->call->invoke->client, torture_lock_name(lock).text,
                  (unsigned long long)second->token, torture_moment(checking, second->granted).text,
                  first->hold->call->invoke->client, (unsigned long long)first->token,
                  torture_moment(checking, first->granted).text,
                  second->exclusive ? "tokens must rise"
                                    : "a reader's is the last writer's or larger");
}

static bool is_older(const struct ticket *ticket, const struct ticket *than)
{
    if (!than || ticket->hold->claim == than->hold->claim)
        return false;
    /* The owner may have come back to a claim that it did not know was still there. */
    bool same_owner = ticket->hold->owner == than->hold->owner;
    if (ticket->token == than->token && same_owner && !ticket->hold->fresh)
        return false;
    return ticket->exclusive ? ticket->token <= than->token : ticket->token < than->token;
}

static const struct ticket *larger(const struct ticket *a, const struct ticket *b)
{
    return !a || b->token > a->token ? b : a;
}

/* A call that asked after another had been granted has the larger token, whatever became of the
 * holds. */
static uint64_t check_windows(struct torture_checking *checking, const struct torture_object *lock,
                              const struct ticket *asking, const struct ticket *granted,
                              size_t count)
{
    const struct ticket *most = NULL;
    uint64_t broken = 0;
    size_t before = 0;
    for (size_t i = 0; i < count; i++) {
        for (; before < count && granted[before].granted < asking[i].asked; before++)
            if (granted[before].exclusive)
                most = larger(most, &granted[before]);
        if (is_older(&asking[i], most)) {
            found_old(checking, lock, most, &asking[i]);
            broken++;
        }
    }
    return broken;
}

static bool is_believed(const struct ticket *ticket)
{
    const struct torture_hold *hold = ticket->hold;
    return hold->believed_from <= ticket->granted && ticket->granted < hold->believed_to;
}

/* Of two beliefs that do not meet, the store has made the first one first. */
static uint64_t check_beliefs(struct torture_checking *checking, const struct torture_object *lock,
                              const struct ticket *granted, size_t count)
{
    const struct ticket *most = NULL;
    uint64_t broken = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_believed(&granted[i]))
            continue;
        if (is_older(&granted[i], most)) {
            found_old(checking, lock, most, &granted[i]);
            broken++;
        }
        if (granted[i].exclusive)
            most = larger(most, &granted[i]);
    }
    return broken;
}

static void check_twins(struct torture_checking *checking, const struct torture_object *lock,
                        struct ticket *tickets, size_t count)
{
    const struct ticket *last = NULL;
    qsort(tickets, count, sizeof *tickets, by_token);
    for (size_t i = 0; i < count; i++) {
        if (!tickets[i].exclusive)
            continue;
        if (last && last->token == tickets[i].token && is_older(&tickets[i], last))
            found_old(checking, lock, last, &tickets[i]);
        last = &tickets[i];
    }
}

static bool rise(const struct ticket *granted, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (granted[i].token <= granted[i - 1].token)
            return false;
    return true;
}

static void count_tickets(struct torture_report *report, const struct ticket *tickets, size_t count)
{
    for (size_t i = 0; i < count; i++)
        report->checked[tickets[i].exclusive ? TORTURE_S3 : TORTURE_S5]++;
}

bool torture_check_tokens(struct torture_checking *checking, const struct torture_object *lock)
{
    bool has_tokens = lock->form == TORTURE_MUTEX || lock->form == TORTURE_RW;
    if (!has_tokens || !(lock->description->flags & TORTURE_FENCED))
        return true;
    check_presence(checking, lock);
    size_t room = lock->call_count;
    struct ticket *granted = torture_room(checking, room, sizeof *granted);
    struct ticket *asking = torture_room(checking, room, sizeof *asking);
    if (granted && asking) {
        size_t count = collect(lock, granted);
        qsort(granted, count, sizeof *granted, by_granting);
        count_tickets(checking->report, granted, count);
        if (!rise(granted, count)) {
            for (size_t i = 0; i < count; i++)
                asking[i] = granted[i];
            qsort(asking, count, sizeof *asking, by_asking);
            if (!check_windows(checking, lock, asking, granted, count) &&
                !check_beliefs(checking, lock, granted, count))
                check_twins(checking, lock, asking, count);
        }
    }
    free(granted);
    free(asking);
    return !checking->no_memory;
}

/* ---- S9 ---- */

static void found_old_write(struct torture_checking *checking, const struct torture_object *lock,
                            const struct torture_record *newer, const struct torture_record *older)
{
    struct torture_finding finding = {
        .rule = TORTURE_S9,
        .hold_count = 2,
        .holds = { newer->hold, older->hold },
        .from = newer->number,
        .to = older->number,
    };
    torture_found(checking, lock, &finding,
                  "the resource behind %s took a write of client %u with token %llu at %s, after "
                  "one of client %u with token %llu",
                  torture_lock_name(lock).text, older->client, (unsigned long long)older->token,
                  torture_moment(checking, older->number).text, newer->client,
                  (unsigned long long)newer->token);
}

void torture_check_writes(struct torture_checking *checking, const struct torture_object *lock)
{
    const struct torture_record *newest = NULL;
    for (size_t i = 0; i < lock->record_count; i++) {
        const struct torture_record *record = lock->records[i];
        if (record->verb != TORTURE_WRITE || record->token == 0)
            continue;
        if (record->kind == TORTURE_REFUSED)
            checking->report->late_writes++;
        if (record->kind != TORTURE_OK)
            continue;
        checking->report->checked[TORTURE_S9]++;
        if (newest && record->token < newest->token)
            found_old_write(checking, lock, newest, record);
        if (!newest || record->token > newest->token)
            newest = record;
    }
}
