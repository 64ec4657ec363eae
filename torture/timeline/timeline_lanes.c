/* SPDX-License-Identifier: Apache-2.0 */
/* The lanes of a picture, one for each client, and its time. */
#include "torture/timeline/timeline_model.h"

#include <stdlib.h>

/* Nine years after the machine's start; a few times as much does not overflow. */
#define LAST_TIME (INT64_MAX / 32)

int64_t timeline_clamp(int64_t ns)
{
    return ns < 0 ? 0 : ns > LAST_TIME ? LAST_TIME : ns;
}

int64_t timeline_when(const struct timeline_model *model, int64_t ns)
{
    int64_t at = timeline_clamp(ns) - model->start;

    return at < 0 ? 0 : at > model->length ? model->length : at;
}

bool timeline_has_bar(const struct torture_record *record)
{
    return record->verb == TORTURE_ACQUIRE || record->verb == TORTURE_TRY ||
           record->verb == TORTURE_AWAIT || record->verb == TORTURE_LOOK ||
           record->verb == TORTURE_COUNT_DOWN;
}

bool timeline_begins_bar(const struct torture_record *record)
{
    return record->kind == TORTURE_INVOKE && record->client != TORTURE_NOBODY &&
           timeline_has_bar(record);
}

static int compare_clients(const void *left, const void *right)
{
    const struct timeline_lane *a = left, *b = right;

    return (a->client > b->client) - (a->client < b->client);
}

int timeline_lanes_make(struct timeline_model *model)
{
    const struct torture_history *history = model->history;
    struct timeline_lane *lanes = calloc(history->count + 1, sizeof(*lanes));
    uint32_t count = 0, kept = 0;

    if (!lanes)
        return -1;
    for (size_t i = 0; i < history->count; i++)
        if (timeline_begins_bar(&history->records[i]) ||
            (history->records[i].kind == TORTURE_CLIENT &&
             history->records[i].client != TORTURE_NOBODY))
            lanes[count++] = (struct timeline_lane){ .client = history->records[i].client,
                                                     .first_open = PICTURE_NONE };
    qsort(lanes, count, sizeof(*lanes), compare_clients);
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || lanes[kept - 1].client != lanes[i].client)
            lanes[kept++] = lanes[i];
    model->lanes = lanes;
    model->lane_count = kept;
    return 0;
}

uint32_t timeline_lane_of(const struct timeline_model *model, uint32_t client)
{
    struct timeline_lane wanted = { .client = client };
    const struct timeline_lane *lane =
        bsearch(&wanted, model->lanes, model->lane_count, sizeof(*model->lanes), compare_clients);

    return lane ? (uint32_t)(lane - model->lanes) : PICTURE_NONE;
}
