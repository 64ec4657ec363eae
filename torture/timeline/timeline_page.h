/* SPDX-License-Identifier: Apache-2.0 */
/* The page while it is written. */
#ifndef HF_TORTURE_TIMELINE_TIMELINE_PAGE_H
#define HF_TORTURE_TIMELINE_TIMELINE_PAGE_H

#include "torture/check/verdict.h"
#include "torture/timeline/timeline.h"
#include "torture/timeline/timeline_scene.h"

#include <stdio.h>

/* Further findings are told in words. */
#define PICTURE_PAGE_SCENES 5u

struct timeline_page {
    FILE *file;
    const struct timeline_model *model;
    const struct torture_report *report;
    const struct torture_timeline_about *about;
    unsigned heads[TORTURE_FINDINGS]; /* the first finding about each older hold */
    unsigned head_count;
    struct timeline_scene scenes[PICTURE_PAGE_SCENES];
    unsigned scene_count;
};

/* Of the first heads; or one of a run without findings. */
void timeline_page_scenes(struct timeline_page *page);
void timeline_page_findings(struct timeline_page *page);
void timeline_page_clean_moment(struct timeline_page *page);

#endif
