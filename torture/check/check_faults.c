/* SPDX-License-Identifier: Apache-2.0 */
/* The faults of a run as stretches of time, in which no store promises liveness. */
#include "torture/check/check.h"

#include <stdlib.h>
#include <string.h>

/* Beyond this number of faults at a time all is excused, and no look takes hours. */
#define FAULTS_AT_A_TIME 1000

static bool same_fault(const struct torture_record *a, const struct torture_record *b)
{
    return a->client == b->client && strncmp(a->text, b->text, sizeof a->text) == 0;
}

/* The latest one that began with this name and victim, and is still on. */
static struct torture_fault *find_open(struct torture_checking *checking,
                                       const struct torture_record *record)
{
    size_t looked = 0;
    for (size_t i = checking->fault_count; i-- > 0 && looked < FAULTS_AT_A_TIME; looked++)
        if (checking->faults[i].to_ns == TORTURE_NEVER &&
            same_fault(checking->faults[i].on, record))
            return &checking->faults[i];
    return NULL;
}

/* A dead client is not paused any more, and will not say so. */
static void end_with_client(struct torture_checking *checking, const struct torture_record *crash)
{
    for (size_t i = checking->fault_count, looked = 0; i-- > 0 && looked < FAULTS_AT_A_TIME;
         looked++) {
        struct torture_fault *fault = &checking->faults[i];
        bool pause = strncmp(fault->on->text, "pause", 5) == 0;
        if (pause && fault->to_ns == TORTURE_NEVER && fault->on->client == crash->client)
            fault->to_ns = crash->at_ns;
    }
}

static void take_record(struct torture_checking *checking, const struct torture_record *record)
{
    if (record->kind == TORTURE_CRASH) {
        end_with_client(checking, record);
        return;
    }
    if (record->kind == TORTURE_NOTE) {
        checking->held_by_connections |=
            strncmp(record->text, TORTURE_CONNECTION_NOTE, sizeof record->text) == 0;
        return;
    }
    if (record->kind == TORTURE_FAULT_ON) {
        checking->faults[checking->fault_count++] = (struct torture_fault){
            .from_ns = record->at_ns, .to_ns = TORTURE_NEVER, .on = record
        };
        return;
    }
    struct torture_fault *fault = find_open(checking, record);
    if (record->kind == TORTURE_FAULT_HIT) {
        checking->report->fault_hits++;
        if (fault)
            fault->hit = true;
    } else if (record->kind == TORTURE_FAULT_OFF && fault) {
        fault->to_ns = record->at_ns;
    }
}

static int by_beginning(const void *a, const void *b)
{
    const struct torture_fault *left = a, *right = b;
    return (left->from_ns > right->from_ns) - (left->from_ns < right->from_ns);
}

bool torture_collect_faults(struct torture_checking *checking)
{
    checking->faults = torture_room(checking, checking->other_count, sizeof *checking->faults);
    if (!checking->faults)
        return false;
    for (size_t i = 0; i < checking->other_count; i++)
        take_record(checking, checking->others[i]);
    size_t count = checking->fault_count;
    qsort(checking->faults, count, sizeof *checking->faults, by_beginning);

    int64_t longest_ns = INT64_MIN;
    for (size_t i = 0; i < count; i++) {
        if (checking->faults[i].to_ns > longest_ns)
            longest_ns = checking->faults[i].to_ns;
        checking->faults[i].longest_ns = longest_ns;
    }
    checking->report->faults = count;
    return true;
}

/* How many began by then. */
static size_t begun_by(const struct torture_checking *checking, int64_t at_ns)
{
    size_t low = 0, high = checking->fault_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (checking->faults[middle].from_ns > at_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool is_of_connection(const struct torture_fault *fault)
{
    static const char *const names[] = { "reset", "hole",         "mute",
                                         "drip",  "late-release", "error-reply" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(fault->on->text, names[i], sizeof fault->on->text) == 0)
            return true;
    return false;
}

static bool has_struck(const struct torture_checking *checking, int64_t from_ns, int64_t to_ns,
                       uint32_t client, bool by_connection)
{
    int64_t since_ns = from_ns - checking->limits.grace_ns;
    size_t looked = 0;
    for (size_t i = begun_by(checking, to_ns); i-- > 0; looked++) {
        const struct torture_fault *fault = &checking->faults[i];
        if (fault->longest_ns < since_ns)
            return false;
        uint32_t victim = fault->on->client;
        bool about = client == TORTURE_NOBODY || victim == TORTURE_NOBODY ||
                     (victim == client && (!by_connection || is_of_connection(fault)));
        if ((about && fault->to_ns >= since_ns) || looked == FAULTS_AT_A_TIME)
            return true;
    }
    return false;
}

bool torture_was_faulty(const struct torture_checking *checking, int64_t from_ns, int64_t to_ns,
                        uint32_t client)
{
    return has_struck(checking, from_ns, to_ns, client, false);
}

bool torture_may_have_lost(const struct torture_checking *checking, int64_t from_ns, int64_t to_ns,
                           uint32_t client)
{
    bool by_connection = checking->held_by_connections; /* mutant: loss-with-its-connection */
    return has_struck(checking, from_ns, to_ns, by_connection ? client : TORTURE_STORE, true);
}
