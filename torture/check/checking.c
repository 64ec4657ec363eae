/* SPDX-License-Identifier: Apache-2.0 */
/* What all rules stand on: memory, and when things are over, as numbers of records. */
#include "torture/check/check.h"

#include <stdlib.h>

void *torture_room(struct torture_checking *checking, size_t count, size_t size)
{
    void *room = calloc(count ? count : 1, size);
    checking->no_memory = checking->no_memory || !room;
    return room;
}

void torture_malformed(struct torture_checking *checking, const struct torture_record *record,
                       const char *why)
{
    if (checking->malformed++)
        return;
    checking->malformed_at = record->number;
    checking->malformed_why = why;
}

/* ---- times as numbers ---- */

/* The first of rising times that is not before this one. */
static uint64_t first_not_before(const struct torture_checking *checking, const int64_t *times,
                                 int64_t at_ns)
{
    size_t low = 0, high = checking->history->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (times[middle] >= at_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low < checking->history->count ? checking->history->records[low].number : TORTURE_NO_END;
}

uint64_t torture_deadline_number(const struct torture_checking *checking, int64_t deadline_ns)
{
    if (deadline_ns == TORTURE_NEVER)
        return TORTURE_NO_END;
    return first_not_before(checking, checking->latest, deadline_ns);
}

uint64_t torture_forgotten_number(const struct torture_checking *checking, int64_t until_ns)
{
    if (until_ns == TORTURE_NEVER || until_ns == 0)
        return TORTURE_NO_END;
    return first_not_before(checking, checking->earliest, until_ns + 1);
}

/* By when the store has forgotten all that this client began before its next crash. */
static uint64_t crash_forgotten(const struct torture_checking *checking, uint32_t client,
                                uint64_t number)
{
    size_t low = 0, high = checking->crash_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct torture_record *crash = checking->crashes[middle];
        if (crash->client > client || (crash->client == client && crash->number > number))
            high = middle;
        else
            low = middle + 1;
    }
    if (low == checking->crash_count || checking->crashes[low]->client != client)
        return TORTURE_NO_END;
    return torture_forgotten_number(checking, checking->crashes[low]->until_ns);
}

uint64_t torture_call_forgotten(const struct torture_checking *checking,
                                const struct torture_call *call)
{
    uint64_t by_crash = crash_forgotten(checking, call->invoke->client, call->invoke->number);
    if (!call->end)
        return by_crash;
    return torture_smaller(by_crash, torture_forgotten_number(checking, call->end->until_ns));
}

uint64_t torture_hold_forgotten(const struct torture_checking *checking,
                                const struct torture_hold *hold)
{
    const struct torture_record *invoke = hold->call->invoke;
    const struct torture_record *given_back = hold->release ? hold->release->end : NULL;
    bool settled = given_back && given_back->kind == TORTURE_REFUSED && !given_back->until_ns;
    if (settled || (given_back && given_back->kind == TORTURE_OK))
        return given_back->number;
    uint64_t end = crash_forgotten(checking, invoke->client, hold->call->end->number);
    if (given_back)
        end = torture_smaller(end, torture_forgotten_number(checking, given_back->until_ns));
    if (hold->lost)
        end = torture_smaller(end, torture_forgotten_number(checking, hold->lost->until_ns));
    return end;
}
