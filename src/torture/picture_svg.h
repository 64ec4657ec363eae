/* SPDX-License-Identifier: Apache-2.0 */
/* The drawings of the page: each is one SVG element inside the HTML. */
#ifndef HF_TORTURE_PICTURE_SVG_H
#define HF_TORTURE_PICTURE_SVG_H

#include "torture/picture_model.h"
#include "torture/picture_scene.h"
#include "torture/verdict.h"

#include <stdio.h>

/* All drawings are so wide, and have their plot between these, so that times stand below each
 * other. */
#define PICTURE_WIDTH 1000
#define PICTURE_LEFT 128
#define PICTURE_RIGHT 988

struct picture_axis {
    int64_t from, to;
};

/* Where a time lies in a drawing, at its edge if it is outside. */
double picture_x(const struct picture_axis *axis, int64_t at);
void picture_svg_begin(FILE *file, int height, const char *label);
void picture_svg_end(FILE *file);
/* The grid with the times below it. */
void picture_svg_time_axis(FILE *file, const struct picture_axis *axis, int top, int bottom);
/* The name of a row, left of the plot, as much of it as there is room for. */
void picture_svg_row_name(FILE *file, int middle, const char *name);
/* A band for each fault that hit, or else for each that was aimed at nobody in particular. */
void picture_svg_bands(FILE *file, const struct picture_model *model,
                       const struct picture_axis *axis, bool hit, int top, int bottom);

void picture_svg_style(FILE *file);
/* The patterns that the others refer to; once in a page. */
void picture_svg_patterns(FILE *file);
void picture_svg_scene(FILE *file, const struct picture_scene *scene);
#define PICTURE_OVERVIEW_LANES 32u
/* The whole run, with the scenes marked in it. -1: no memory. */
int picture_svg_overview(FILE *file, const struct picture_model *model,
                         const struct picture_scene *scenes, unsigned scene_count);
/* How long locks belonged to nobody while somebody waited. False: that never happened, and nothing
 * is drawn. */
bool picture_svg_handover(FILE *file, const struct picture_model *model);

#endif
