/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers a history's records into what is drawn: one walk, in the order of the numbers. */
#include "torture/timeline/timeline_model.h"

#include <stdio.h>
#include <stdlib.h>

/* An upgraded hold is a writer from the answer on, a downgraded one a reader from the call on. */
static bool is_mark(const struct torture_record *record)
{
    if (record->kind == TORTURE_CRASH)
        return true;
    if (record->verb == TORTURE_WRITE)
        return record->kind == TORTURE_OK || record->kind == TORTURE_REFUSED;
    return (record->verb == TORTURE_UPGRADE && record->kind == TORTURE_OK) ||
           (record->verb == TORTURE_DOWNGRADE && record->kind == TORTURE_INVOKE);
}

/* ---- Room ---- */

static int make_room(struct timeline_model *model)
{
    const struct torture_history *history = model->history;
    size_t bars = 0, marks = 0, faults = 0;
    uint32_t locks = 0;

    for (size_t i = 0; i < history->count; i++) {
        const struct torture_record *record = &history->records[i];

        bars += timeline_begins_bar(record);
        marks += is_mark(record);
        faults += record->kind == TORTURE_FAULT_ON;
        if (record->kind == TORTURE_LOCK && record->lock >= locks)
            locks = record->lock + 1u;
    }
    model->bars = calloc(bars + 1, sizeof(*model->bars));
    model->by_hold = calloc(bars + 1, sizeof(*model->by_hold));
    model->marks = calloc(marks + 1, sizeof(*model->marks));
    model->faults = calloc(faults + 1, sizeof(*model->faults));
    model->locks = calloc(locks + 1, sizeof(*model->locks));
    model->lock_count = locks;
    return model->bars && model->by_hold && model->marks && model->faults && model->locks ? 0 : -1;
}

static void find_length(struct timeline_model *model)
{
    const struct torture_history *history = model->history;
    int64_t first = INT64_MAX, last = 0;

    for (size_t i = 0; i < history->count; i++) {
        int64_t at = timeline_clamp(history->records[i].at_ns);

        if (at > 0 && at < first)
            first = at;
        if (at > last)
            last = at;
    }
    model->start = first > last ? 0 : first;
    model->length = first < last ? last - first : 1;
}

/* ---- The walk ---- */

static void add_mark(struct timeline_model *model, const struct torture_record *record)
{
    uint32_t lane = timeline_lane_of(model, record->client);

    if (lane != PICTURE_NONE)
        model->marks[model->mark_count++] =
            (struct timeline_mark){ .at = timeline_when(model, record->at_ns),
                                    .token = record->token,
                                    .lane = lane,
                                    .lock = record->lock,
                                    .kind = record->kind,
                                    .verb = record->verb };
}

static void name_lock(struct timeline_model *model, const struct torture_record *record)
{
    struct timeline_lock *lock = &model->locks[record->lock];

    snprintf(lock->name, sizeof(lock->name), "%.32s", record->text);
    lock->form = record->mode;
    lock->flags = record->flags;
}

static void tell(struct timeline_model *model, const struct torture_record *record)
{
    if (is_mark(record))
        add_mark(model, record);
    if (record->kind == TORTURE_LOCK)
        name_lock(model, record);
    else if (record->kind == TORTURE_CRASH)
        timeline_crash(model, record);
    else if (record->kind == TORTURE_FAULT_ON)
        timeline_fault_on(model, record);
    else if (record->kind == TORTURE_FAULT_HIT)
        timeline_fault_hit(model, record);
    else if (record->kind == TORTURE_FAULT_OFF)
        timeline_fault_off(model, record);
    else if (record->kind == TORTURE_HEALED)
        model->healed = timeline_when(model, record->at_ns);
    else if (record->kind >= TORTURE_INVOKE && record->kind <= TORTURE_LOST)
        timeline_tell_bar(model, record);
}

static void close_all(struct timeline_model *model)
{
    timeline_end_bars(model);
    for (uint32_t i = 0; i < model->fault_count; i++)
        if (model->faults[i].off == PICTURE_NEVER)
            model->faults[i].off = model->length;
}

int timeline_model_init(struct timeline_model *model, const struct torture_history *history)
{
    *model = (struct timeline_model){ .history = history, .healed = PICTURE_NEVER };
    find_length(model);
    if (timeline_lanes_make(model) || make_room(model)) {
        timeline_model_release(model);
        return -1;
    }
    timeline_begin_bars(model);
    for (size_t i = 0; i < history->count; i++)
        tell(model, &history->records[i]);
    close_all(model);
    return 0;
}

int64_t timeline_time_of(const struct timeline_model *model, uint64_t number)
{
    const struct torture_history *history = model->history;
    size_t low = 0, high = history->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (history->records[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < history->count ? timeline_when(model, history->records[low].at_ns) : model->length;
}

void timeline_model_release(struct timeline_model *model)
{
    free(model->lanes);
    free(model->bars);
    free(model->by_hold);
    free(model->marks);
    free(model->faults);
    free(model->locks);
}
