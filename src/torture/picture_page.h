/* The page while it is written. */
#ifndef HF_TORTURE_PICTURE_PAGE_H
#define HF_TORTURE_PICTURE_PAGE_H

#include "torture/picture_scene.h"
#include "torture/verdict.h"

#include <stdio.h>

/* Further findings are told in words. */
#define PICTURE_PAGE_SCENES 5u

struct picture_page {
    FILE *file;
    const struct picture_model *model;
    const struct torture_report *report;
    const char *title;
    struct picture_scene scenes[PICTURE_PAGE_SCENES];
    unsigned scene_count;
};

/* Of the first findings; or one of a run without any. */
void picture_page_scenes(struct picture_page *page);
void picture_page_findings(struct picture_page *page);
void picture_page_clean_moment(struct picture_page *page);

#endif
