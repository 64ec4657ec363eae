/* SPDX-License-Identifier: Apache-2.0 */
/* The page while it is written. */
#ifndef HF_TORTURE_PICTURE_PAGE_H
#define HF_TORTURE_PICTURE_PAGE_H

#include "torture/picture.h"
#include "torture/picture_scene.h"
#include "torture/verdict.h"

#include <stdio.h>

/* Further findings are told in words. */
#define PICTURE_PAGE_SCENES 5u

struct picture_page {
    FILE *file;
    const struct picture_model *model;
    const struct torture_report *report;
    const struct torture_picture_about *about;
    unsigned heads[TORTURE_FINDINGS]; /* the first finding about each older hold */
    unsigned head_count;
    struct picture_scene scenes[PICTURE_PAGE_SCENES];
    unsigned scene_count;
};

/* Of the first heads; or one of a run without findings. */
void picture_page_scenes(struct picture_page *page);
void picture_page_findings(struct picture_page *page);
void picture_page_clean_moment(struct picture_page *page);

#endif
