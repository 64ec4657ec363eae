/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers the bars, one an acquisition: what it was asked for, when it was granted, and how it
 * ended. */
#include "torture/timeline/timeline_model.h"

#include <stdlib.h>

static bool is_acquisition(const struct torture_record *record)
{
    return record->verb == TORTURE_ACQUIRE || record->verb == TORTURE_TRY;
}

static int64_t deadline_of(const struct timeline_model *model, const struct torture_record *record)
{
    if (record->deadline_ns == TORTURE_NEVER || record->deadline_ns <= 0)
        return PICTURE_NEVER;
    return timeline_clamp(record->deadline_ns) - model->start;
}

/* Calls that are about no hold are known by their operation. */
static uint64_t bar_of(const struct torture_record *record)
{
    return record->hold && (is_acquisition(record) || !timeline_has_bar(record))
               ? record->hold
               : record->operation;
}

static int compare_holds(const void *left, const void *right, void *arg)
{
    const struct timeline_bar *bars = arg;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

    if (bars[a].hold != bars[b].hold)
        return bars[a].hold < bars[b].hold ? -1 : 1;
    return (a > b) - (a < b);
}

void timeline_begin_bars(struct timeline_model *model)
{
    const struct torture_history *history = model->history;

    for (size_t i = 0; i < history->count; i++) {
        const struct torture_record *record = &history->records[i];

        if (!timeline_begins_bar(record))
            continue;
        model->bars[model->bar_count++] = (struct timeline_bar){
            .hold = bar_of(record),
            .asked = timeline_when(model, record->at_ns),
            .granted = PICTURE_NEVER,
            .deadline = PICTURE_NEVER,
            .raised = PICTURE_NEVER,
            .lowered = PICTURE_NEVER,
            .lane = timeline_lane_of(model, record->client),
            .permits = record->permits,
            .next_open = PICTURE_NONE,
            .lock = record->lock,
            .verb = record->verb,
            .mode = record->mode,
        };
    }
    for (uint32_t i = 0; i < model->bar_count; i++)
        model->by_hold[i] = i;
    qsort_r(model->by_hold, model->bar_count, sizeof(*model->by_hold), compare_holds, model->bars);
}

static struct timeline_bar *find(const struct timeline_model *model, uint64_t hold)
{
    uint32_t low = 0, high = model->bar_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (model->bars[model->by_hold[middle]].hold < hold)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == model->bar_count || model->bars[model->by_hold[low]].hold != hold)
        return NULL;
    return &model->bars[model->by_hold[low]];
}

const struct timeline_bar *timeline_find_bar(const struct timeline_model *model, uint64_t hold)
{
    return find(model, hold);
}

/* Numbers have put things in order; a clock that disagrees must not turn a bar round. */
static void close_bar(struct timeline_bar *bar, int64_t at, enum timeline_end end)
{
    int64_t begin = bar->granted == PICTURE_NEVER ? bar->asked : bar->granted;

    if (bar->end != PICTURE_OPEN)
        return;
    at = at < begin ? begin : at;
    bar->end = (uint8_t)end;
    bar->ended = bar->freed = bar->doubtful = at;
    if (bar->granted == PICTURE_NEVER || bar->deadline >= at)
        return;
    bar->end = PICTURE_EXPIRED;
    bar->ended = bar->deadline < begin ? begin : bar->deadline;
    bar->freed = bar->doubtful = bar->ended;
}

static void doubt(struct timeline_model *model, struct timeline_bar *bar,
                  const struct torture_record *record)
{
    int64_t until = bar->deadline;

    if (record->until_ns > 0)
        until = timeline_clamp(record->until_ns) - model->start;
    if (until > model->length)
        until = model->length;
    if (until > bar->doubtful)
        bar->doubtful = until;
}

static void open_bar(struct timeline_model *model, struct timeline_bar *bar,
                     const struct torture_record *record)
{
    struct timeline_lane *lane = &model->lanes[bar->lane];

    bar->granted = timeline_when(model, record->at_ns);
    bar->granted = bar->granted < bar->asked ? bar->asked : bar->granted;
    if (bar->mode == TORTURE_EXCLUSIVE)
        bar->raised = bar->granted;
    bar->token = record->token;
    bar->deadline = deadline_of(model, record);
    bar->next_open = lane->first_open;
    lane->first_open = (uint32_t)(bar - model->bars);
    lane->grants++;
}

static void answer_acquisition(struct timeline_model *model, struct timeline_bar *bar,
                               const struct torture_record *record)
{
    int64_t at = timeline_when(model, record->at_ns);

    if (record->kind == TORTURE_OK && !is_acquisition(record))
        close_bar(bar, at, PICTURE_DONE);
    else if (record->kind == TORTURE_OK && bar->granted == PICTURE_NEVER)
        open_bar(model, bar, record);
    else if (record->kind == TORTURE_REFUSED)
        close_bar(bar, at, PICTURE_REFUSED);
    else if (record->kind == TORTURE_UNKNOWN) {
        close_bar(bar, at, PICTURE_UNKNOWN);
        doubt(model, bar, record);
    }
}

static void answer_release(struct timeline_model *model, struct timeline_bar *bar,
                           const struct torture_record *record)
{
    int64_t at = timeline_when(model, record->at_ns);

    if (record->kind == TORTURE_INVOKE)
        close_bar(bar, at, PICTURE_RELEASED);
    else if (record->kind == TORTURE_UNKNOWN)
        doubt(model, bar, record);
    else if (bar->end == PICTURE_RELEASED && at > bar->freed)
        bar->freed = bar->doubtful = at;
}

static void change_mode(struct timeline_bar *bar, const struct torture_record *record, int64_t at)
{
    if (record->verb == TORTURE_UPGRADE && record->kind == TORTURE_OK) {
        bar->raised = at;
        bar->lowered = PICTURE_NEVER;
    } else if (record->verb == TORTURE_DOWNGRADE && record->kind == TORTURE_INVOKE)
        bar->lowered = at;
}

/* A grant that was never asked for is drawn nowhere: the checker has a word about it. */
void timeline_tell_bar(struct timeline_model *model, const struct torture_record *record)
{
    bool own = timeline_has_bar(record);
    struct timeline_bar *bar = find(model, bar_of(record));

    if (!bar)
        return;
    if (record->kind == TORTURE_LOST) {
        close_bar(bar, timeline_when(model, record->at_ns), PICTURE_LOST);
        if (record->until_ns)
            doubt(model, bar, record);
    } else if (record->kind == TORTURE_STILL)
        bar->deadline = deadline_of(model, record);
    else if (own)
        answer_acquisition(model, bar, record);
    else if (record->verb == TORTURE_RELEASE)
        answer_release(model, bar, record);
    else if (record->verb == TORTURE_RENEW && record->kind == TORTURE_OK && record->deadline_ns)
        bar->deadline = deadline_of(model, record);
    else
        change_mode(bar, record, timeline_when(model, record->at_ns));
}

/* The dead believe nothing; the store finds out later. */
void timeline_crash(struct timeline_model *model, const struct torture_record *record)
{
    uint32_t lane = timeline_lane_of(model, record->client);
    uint32_t next;

    if (lane == PICTURE_NONE)
        return;
    for (uint32_t i = model->lanes[lane].first_open; i != PICTURE_NONE; i = next) {
        struct timeline_bar *bar = &model->bars[i];

        next = bar->next_open;
        if (bar->end != PICTURE_OPEN)
            continue;
        close_bar(bar, timeline_when(model, record->at_ns), PICTURE_CRASHED);
        doubt(model, bar, record);
    }
    model->lanes[lane].first_open = PICTURE_NONE;
}

void timeline_end_bars(struct timeline_model *model)
{
    for (uint32_t i = 0; i < model->bar_count; i++) {
        struct timeline_bar *bar = &model->bars[i];

        if (bar->end != PICTURE_OPEN)
            continue;
        bar->ended = bar->freed = bar->doubtful = model->length;
        if (bar->granted != PICTURE_NEVER && bar->deadline < model->length)
            close_bar(bar, model->length, PICTURE_OPEN);
    }
}

int64_t timeline_bar_last(const struct timeline_bar *bar)
{
    int64_t last = bar->ended > bar->freed ? bar->ended : bar->freed;

    return last > bar->doubtful ? last : bar->doubtful;
}
