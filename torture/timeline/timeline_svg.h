/* SPDX-License-Identifier: Apache-2.0 */
/* The drawings of the page: each is one SVG element inside the HTML. */
#ifndef HF_TORTURE_TIMELINE_TIMELINE_SVG_H
#define HF_TORTURE_TIMELINE_TIMELINE_SVG_H

#include "torture/check/verdict.h"
#include "torture/timeline/timeline_model.h"
#include "torture/timeline/timeline_scene.h"

#include <stdio.h>

/* All drawings are so wide, and have their plot between these, so that times stand below each
 * other. */
#define PICTURE_WIDTH 1000
#define PICTURE_LEFT 128
#define PICTURE_RIGHT 988

struct timeline_axis {
    int64_t from, to;
};

/* Where a time lies in a drawing, at its edge if it is outside. */
double timeline_x(const struct timeline_axis *axis, int64_t at);
void timeline_svg_begin(FILE *file, int height, const char *label);
void timeline_svg_end(FILE *file);
/* The grid with the times below it. */
void timeline_svg_time_axis(FILE *file, const struct timeline_axis *axis, int top, int bottom);
/* The name of a row, left of the plot, as much of it as there is room for. */
void timeline_svg_row_name(FILE *file, int middle, const char *name);
/* A band for each fault that hit, or else for each that was aimed at nobody in particular. */
void timeline_svg_bands(FILE *file, const struct timeline_model *model,
                        const struct timeline_axis *axis, bool hit, int top, int bottom);

void timeline_svg_style(FILE *file);
/* The patterns that the others refer to; once in a page. */
void timeline_svg_patterns(FILE *file);
void timeline_svg_scene(FILE *file, const struct timeline_scene *scene);
#define PICTURE_OVERVIEW_LANES 32u
/* The whole run, with the scenes marked in it. -1: no memory. */
int timeline_svg_overview(FILE *file, const struct timeline_model *model,
                          const struct timeline_scene *scenes, unsigned scene_count);
/* How long locks belonged to nobody while somebody waited. False: that never happened, and nothing
 * is drawn. */
bool timeline_svg_handover(FILE *file, const struct timeline_model *model);

#endif
