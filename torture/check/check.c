/* SPDX-License-Identifier: Apache-2.0 */
/* The checker: takes a history apart, lock by lock, and lets each rule look at it. */
#include "torture/check/check.h"

#include <stdlib.h>
#include <time.h>

/* ---- a look at all records: there are many, and so this happens but a few times ---- */

static bool is_about_a_lock(const struct torture_record *record)
{
    return record->kind >= TORTURE_INVOKE && record->kind <= TORTURE_LOST;
}

static void look_forward(struct torture_checking *checking)
{
    const struct torture_history *history = checking->history;
    int64_t latest = INT64_MIN;
    for (size_t i = 0; i < history->count; i++) {
        const struct torture_record *record = &history->records[i];
        checking->latest[i] = latest = record->at_ns > latest ? record->at_ns : latest;
        checking->other_count += !is_about_a_lock(record);
        if (record->lock >= checking->lock_count)
            checking->lock_count = record->lock + 1u;
        if (record->client < TORTURE_CLIENTS && record->client >= checking->client_count)
            checking->client_count = record->client + 1;
    }
}

static void look_backward(struct torture_checking *checking)
{
    const struct torture_history *history = checking->history;
    int64_t earliest = INT64_MAX;
    size_t left = checking->other_count;
    for (size_t i = history->count; i-- > 0;) {
        const struct torture_record *record = &history->records[i];
        checking->earliest[i] = earliest = record->at_ns < earliest ? record->at_ns : earliest;
        if (!is_about_a_lock(record))
            checking->others[--left] = record;
    }
}

static bool look_at_all(struct torture_checking *checking)
{
    size_t count = checking->history->count;
    checking->latest = torture_room(checking, count, sizeof *checking->latest);
    checking->earliest = torture_room(checking, count, sizeof *checking->earliest);
    if (checking->no_memory)
        return false;
    look_forward(checking);
    checking->others = torture_room(checking, checking->other_count, sizeof *checking->others);
    if (checking->no_memory)
        return false;
    look_backward(checking);
    return true;
}

/* ---- crashes ---- */

static int by_client(const void *a, const void *b)
{
    const struct torture_record *left = *(const struct torture_record *const *)a;
    const struct torture_record *right = *(const struct torture_record *const *)b;
    if (left->client != right->client)
        return left->client > right->client ? 1 : -1;
    return (left->number > right->number) - (left->number < right->number);
}

static bool collect_crashes(struct torture_checking *checking)
{
    checking->crashes = torture_room(checking, checking->other_count, sizeof *checking->crashes);
    if (!checking->crashes)
        return false;
    for (size_t i = 0; i < checking->other_count; i++)
        if (checking->others[i]->kind == TORTURE_CRASH)
            checking->crashes[checking->crash_count++] = checking->others[i];
    qsort(checking->crashes, checking->crash_count, sizeof *checking->crashes, by_client);
    checking->report->crashes = checking->crash_count;
    return true;
}

/* ---- locks ---- */

/* The records of each lock, one lock behind the other: `ends` says where. */
static const struct torture_record **sort_by_lock(struct torture_checking *checking, size_t *ends)
{
    const struct torture_history *history = checking->history;
    const struct torture_record **sorted = torture_room(checking, history->count, sizeof *sorted);
    if (!sorted)
        return NULL;
    size_t sum = 0;
    for (size_t i = 0; i < history->count; i++)
        ends[history->records[i].lock] += is_about_a_lock(&history->records[i]);
    for (size_t id = 0; id < checking->lock_count; id++) {
        size_t count = ends[id];
        ends[id] = sum;
        sum += count;
    }
    for (size_t i = 0; i < history->count; i++)
        if (is_about_a_lock(&history->records[i]))
            sorted[ends[history->records[i].lock]++] = &history->records[i];
    return sorted;
}

static void describe_locks(struct torture_checking *checking,
                           const struct torture_record **descriptions)
{
    for (size_t i = 0; i < checking->other_count; i++) {
        const struct torture_record *record = checking->others[i];
        if (record->kind != TORTURE_LOCK)
            continue;
        const struct torture_record *before = descriptions[record->lock];
        if (record->mode >= TORTURE_FORMS)
            torture_malformed(checking, record, "there is no such form of lock");
        else if (before && (before->mode != record->mode || before->permits != record->permits ||
                            before->flags != record->flags))
            torture_malformed(checking, record, "the lock was described otherwise before");
        else
            descriptions[record->lock] = record;
    }
}

static bool apply_rules(struct torture_checking *checking, struct torture_object *lock)
{
    if (!torture_lock_calls(checking, lock) || !torture_lock_beliefs(checking, lock) ||
        !torture_check_claims(checking, lock))
        return false;
    torture_check_exclusion(checking, lock);
    torture_check_writes(checking, lock);
    torture_check_losses(checking, lock);
    return torture_check_permits(checking, lock) && torture_check_tokens(checking, lock) &&
           torture_check_refusals(checking, lock) && torture_check_latch(checking, lock) &&
           torture_check_order(checking, lock) && torture_check_waits(checking, lock);
}

static void check_lock(struct torture_checking *checking, const struct torture_record *description,
                       const struct torture_record *const *records, size_t count)
{
    if (!description) {
        torture_malformed(checking, records[0], "its lock is not described");
        return;
    }
    bool counts = description->mode == TORTURE_SEMAPHORE || description->mode == TORTURE_LATCH;
    struct torture_object lock = {
        .description = description,
        .id = description->lock,
        .form = description->mode,
        .permits = counts ? description->permits : 1,
        .records = records,
        .record_count = count,
    };
    apply_rules(checking, &lock);
    free(lock.calls);
    free(lock.holds);
    free(lock.beliefs);
    free(lock.places);
}

static void check_locks(struct torture_checking *checking)
{
    size_t *ends = torture_room(checking, checking->lock_count, sizeof *ends);
    const struct torture_record **descriptions =
        torture_room(checking, checking->lock_count, sizeof *descriptions);
    const struct torture_record **sorted = NULL;
    if (ends && descriptions) {
        describe_locks(checking, descriptions);
        sorted = sort_by_lock(checking, ends);
    }
    size_t begin = 0;
    for (size_t id = 0; sorted && id < checking->lock_count && !checking->no_memory; id++) {
        if (ends[id] > begin)
            check_lock(checking, descriptions[id], sorted + begin, ends[id] - begin);
        begin = ends[id];
    }
    free(ends);
    free(descriptions);
    free(sorted);
}

/* ---- all of it ---- */

static void apply_defaults(struct torture_limits *limits)
{
    if (!limits->hand_over_ns)
        limits->hand_over_ns = INT64_C(2000000000);
    if (!limits->grace_ns)
        limits->grace_ns = INT64_C(1000000000);
    if (!limits->passed_over)
        limits->passed_over = 100;
    if (!limits->enough_grants)
        limits->enough_grants = 100;
    if (!limits->enough_contended)
        limits->enough_contended = 10;
}

static bool prepare(struct torture_checking *checking)
{
    size_t count = checking->history->count;
    if (count >= UINT32_MAX) {
        checking->no_memory = true;
        return false;
    }
    if (!look_at_all(checking))
        return false;
    checking->grants = torture_room(checking, checking->client_count, sizeof *checking->grants);
    checking->hand_overs_ns = torture_room(checking, count, sizeof *checking->hand_overs_ns);
    return !checking->no_memory && collect_crashes(checking) && torture_collect_faults(checking);
}

void torture_check(const struct torture_history *history, const struct torture_limits *limits,
                   struct torture_report *report)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    *report = (struct torture_report){ .verdict = TORTURE_INCONCLUSIVE };
    struct torture_checking checking = { .history = history, .report = report };
    if (limits)
        checking.limits = *limits;
    apply_defaults(&checking.limits);
    if (prepare(&checking))
        check_locks(&checking);
    if (!checking.no_memory)
        torture_check_end(&checking);
    torture_conclude(&checking);
    free(checking.others);
    free(checking.latest);
    free(checking.earliest);
    free(checking.crashes);
    free(checking.faults);
    free(checking.hand_overs_ns);
    free(checking.grants);
    clock_gettime(CLOCK_MONOTONIC, &end);
    report->check_seconds =
        (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
}
