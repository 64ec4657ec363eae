/* SPDX-License-Identifier: Apache-2.0 */
/* The page while it is written. */
#ifndef HF_TORTURE_TIMELINE_TIMELINE_PAGE_H
#define HF_TORTURE_TIMELINE_TIMELINE_PAGE_H

#include "torture/check/verdict.h"
#include "torture/timeline/timeline.h"
#include "torture/timeline/timeline_json.h"
#include "torture/timeline/timeline_scene.h"

/* Further findings are told in words. */
#define PICTURE_PAGE_SCENES 5u

struct timeline_page {
    struct timeline_json out;
    const struct timeline_model *model;
    const struct torture_report *report;
    const struct torture_timeline_about *about;
    unsigned heads[TORTURE_FINDINGS]; /* the first finding about each older hold */
    unsigned head_count;
};

/* The findings, in groups, each with its close-up; or a moment of a run without findings. */
void timeline_page_findings(struct timeline_page *page);
/* timeline_page_scene.c: a close-up, under `key`. */
void timeline_page_scene(struct timeline_page *page, const char *key,
                         const struct timeline_scene *scene);
void timeline_page_ticks(struct timeline_json *out, int64_t from, int64_t to);
void timeline_page_bands(struct timeline_json *out, const struct timeline_model *model,
                         int64_t from, int64_t to, bool hit);

#endif
