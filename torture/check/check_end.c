/* SPDX-License-Identifier: Apache-2.0 */
/* L3 and L4, and the verdict: what is left at the end, which clients had a turn, and whether enough
 * happened to say anything. */
#include "torture/check/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- L3 ---- */

static void check_audit(struct torture_checking *checking, const struct torture_record *record)
{
    const struct torture_object nothing = { .id = record->lock };
    checking->report->checked[TORTURE_L3]++;
    if (record->permits == 0)
        return;
    struct torture_finding finding = {
        .rule = TORTURE_L3,
        .from = record->number,
        .to = record->number,
    };
    torture_found(checking, &nothing, &finding, "at the end, something is left behind: %.32s: %u",
                  record->text, record->permits);
}

/* ---- L4 ---- */

/* The numbers of a client's latest records of some kinds. */
struct turn {
    uint64_t begun, crashed, asked, answered, granted;
};

static void follow(struct turn *turn, const struct torture_record *record)
{
    bool acquires = torture_is_acquisition(record);
    if (record->kind == TORTURE_CLIENT)
        turn->begun = record->number;
    else if (record->kind == TORTURE_CRASH)
        turn->crashed = record->number;
    else if (acquires && record->kind == TORTURE_INVOKE)
        turn->asked = record->number;
    else if (acquires && record->kind >= TORTURE_OK && record->kind <= TORTURE_UNKNOWN)
        turn->answered = record->number;
    if (acquires && record->kind == TORTURE_OK)
        turn->granted = record->number;
}

/* Only a run that came to its end, which the audit shows, gave everybody the time for his turn. */
static void check_turn(struct torture_checking *checking, const struct turn *turn, uint32_t client,
                       uint64_t healed)
{
    const struct torture_object nothing = { .id = 0 };
    bool wants = turn->asked > healed || turn->answered > healed || turn->asked > turn->answered;
    if (turn->crashed > turn->begun || !wants)
        return;
    checking->report->checked[TORTURE_L4]++;
    if (turn->granted > healed) /* mutant: client-that-was-granted */
        return;
    struct torture_finding finding = {
        .rule = TORTURE_L4,
        .from = healed,
        .to = torture_larger(turn->asked, turn->answered),
    };
    torture_found(checking, &nothing, &finding,
                  "client %u was granted nothing any more after the last fault, from %s on", client,
                  torture_moment(checking, healed).text);
}

static void check_turns(struct torture_checking *checking, struct turn *turns)
{
    const struct torture_history *history = checking->history;
    uint64_t healed = 0, audited = 0;
    for (size_t i = 0; i < checking->other_count; i++) {
        if (checking->others[i]->kind == TORTURE_HEALED)
            healed = checking->others[i]->number;
        else if (checking->others[i]->kind == TORTURE_AUDIT)
            audited = checking->others[i]->number;
    }
    for (size_t i = 0; i < history->count; i++)
        if (history->records[i].client < TORTURE_CLIENTS)
            follow(&turns[history->records[i].client], &history->records[i]);
    for (uint32_t client = 0; client < checking->client_count && healed && audited > healed;
         client++)
        check_turn(checking, &turns[client], client, healed);
}

/* ---- figures ---- */

static int by_value(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static void sum_up_hand_overs(struct torture_checking *checking)
{
    size_t count = checking->hand_over_count;
    if (!count)
        return;
    qsort(checking->hand_overs_ns, count, sizeof *checking->hand_overs_ns, by_value);
    checking->report->median_hand_over_ns = checking->hand_overs_ns[count / 2];
    checking->report->longest_hand_over_ns = checking->hand_overs_ns[count - 1];
}

/* Jain's index over the clients that ever began. */
static void measure_evenness(struct torture_checking *checking, const struct turn *turns)
{
    double sum = 0, squares = 0, clients = 0;
    for (uint32_t client = 0; client < checking->client_count; client++) {
        double grants = (double)checking->grants[client];
        clients += turns[client].begun || grants > 0;
        sum += grants;
        squares += grants * grants;
    }
    checking->report->evenness = squares > 0 ? sum * sum / (clients * squares) : 1;
}

void torture_check_end(struct torture_checking *checking)
{
    struct turn *turns = torture_room(checking, checking->client_count, sizeof *turns);
    if (!turns)
        return;
    for (size_t i = 0; i < checking->other_count; i++)
        if (checking->others[i]->kind == TORTURE_AUDIT)
            check_audit(checking, checking->others[i]);
    check_turns(checking, turns);
    measure_evenness(checking, turns);
    sum_up_hand_overs(checking);
    free(turns);
}

/* ---- the verdict ---- */

static int by_text(const void *a, const void *b)
{
    const struct torture_fault *left = a, *right = b;
    return strncmp(left->on->text, right->on->text, sizeof left->on->text);
}

/* A kind of fault that was tried and never bit. */
static const struct torture_fault *find_idle_fault(struct torture_checking *checking)
{
    struct torture_fault *faults = checking->faults;
    qsort(faults, checking->fault_count, sizeof *faults, by_text);
    for (size_t first = 0, next; first < checking->fault_count; first = next) {
        bool hit = false;
        for (next = first;
             next < checking->fault_count && by_text(&faults[first], &faults[next]) == 0; next++)
            hit = hit || faults[next].hit;
        if (!hit)
            return &faults[first];
    }
    return NULL;
}

static uint64_t count_broken(const struct torture_checking *checking)
{
    uint64_t broken = 0;
    for (unsigned rule = 0; rule < TORTURE_RULES; rule++) {
        bool information = rule == TORTURE_L1 || rule == TORTURE_L2;
        if (!information || !checking->limits.liveness_is_information)
            broken += checking->report->broken[rule];
    }
    return broken;
}

static bool is_damaged(struct torture_checking *checking)
{
    const struct torture_history *history = checking->history;
    char *reason = checking->report->reason;
    size_t size = sizeof checking->report->reason;
    if (checking->no_memory)
        snprintf(reason, size, "there was not enough memory to check the history");
    else if (history->torn || history->missing || history->duplicate)
        snprintf(reason, size,
                 "the history is damaged: %llu records torn, %llu missing, %llu there twice",
                 (unsigned long long)history->torn, (unsigned long long)history->missing,
                 (unsigned long long)history->duplicate);
    else if (checking->malformed)
        snprintf(reason, size, "the history makes no sense: record %llu: %s (%llu such records)",
                 (unsigned long long)checking->malformed_at, checking->malformed_why,
                 (unsigned long long)checking->malformed);
    return *reason;
}

static bool is_too_little(struct torture_checking *checking)
{
    const struct torture_report *report = checking->report;
    const struct torture_limits *limits = &checking->limits;
    char *reason = checking->report->reason;
    size_t size = sizeof checking->report->reason;
    const struct torture_fault *idle = find_idle_fault(checking);
    if (checking->history->dropped)
        snprintf(reason, size, "the history was too small for %llu records",
                 (unsigned long long)checking->history->dropped);
    else if (report->grants < limits->enough_grants)
        snprintf(reason, size, "only %llu grants, of at least %llu",
                 (unsigned long long)report->grants, (unsigned long long)limits->enough_grants);
    else if (report->contended < limits->enough_contended)
        snprintf(reason, size, "only %llu grants after a wait, of at least %llu",
                 (unsigned long long)report->contended,
                 (unsigned long long)limits->enough_contended);
    else if (idle)
        snprintf(reason, size, "the fault \"%.32s\" was tried and never hit", idle->on->text);
    return *reason;
}

/* What a damaged history shows may be the damage. The end of a history that was too small is
 * missing, which makes no difference to what stands before. */
void torture_conclude(struct torture_checking *checking)
{
    struct torture_report *report = checking->report;
    report->verdict = TORTURE_INCONCLUSIVE;
    if (is_damaged(checking))
        return;
    if (count_broken(checking))
        report->verdict = TORTURE_VIOLATION;
    else if (!is_too_little(checking))
        report->verdict = TORTURE_SAFE_SO_FAR;
}
