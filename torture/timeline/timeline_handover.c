/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the hand-overs: each grant that waited, and the belief that ended before it. */
#include "torture/timeline/timeline_handover.h"

#include <stdlib.h>

static int compare_grants(const void *left, const void *right)
{
    const struct timeline_handover *a = left, *b = right;

    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return (a->bar > b->bar) - (a->bar < b->bar);
}

static uint32_t gather_grants(const struct timeline_model *model, struct timeline_handover *grants)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < model->bar_count; i++) {
        const struct timeline_bar *bar = &model->bars[i];

        if (bar->granted != PICTURE_NEVER &&
            (bar->lock >= model->lock_count || model->locks[bar->lock].form == TORTURE_MUTEX))
            grants[count++] = (struct timeline_handover){ .at = bar->granted, .bar = bar };
    }
    return count;
}

struct timeline_handover *timeline_handovers(const struct timeline_model *model, uint32_t *count)
{
    struct timeline_handover *grants = calloc(model->bar_count + 1, sizeof(*grants));
    int64_t *ended = calloc(UINT16_MAX + 1, sizeof(*ended));
    uint32_t all, kept = 0;

    *count = 0;
    if (grants && ended) {
        all = gather_grants(model, grants);
        qsort(grants, all, sizeof(*grants), compare_grants);
        for (uint32_t i = 0; i < all; i++) {
            struct timeline_handover grant = grants[i];
            int64_t before = ended[grant.bar->lock];

            if (grant.bar->ended > before)
                ended[grant.bar->lock] = grant.bar->ended;
            grant.took = grant.at - before;
            if (grant.took >= 0 && grant.bar->asked < before)
                grants[kept++] = grant;
        }
        *count = kept;
    }
    free(ended);
    if (kept == 0) {
        free(grants);
        return NULL;
    }
    return grants;
}
