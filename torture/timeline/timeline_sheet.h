/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of at most a given number of columns: sentences, and rows of cells below a name and an
 * axis. */
#ifndef HF_TORTURE_TIMELINE_TIMELINE_SHEET_H
#define HF_TORTURE_TIMELINE_TIMELINE_SHEET_H

#include "torture/check/verdict.h"
#include "torture/timeline/timeline_model.h"
#include "torture/timeline/timeline_scene.h"

#include <stdio.h>

#define PICTURE_GUTTER 11 /* for the names of the rows */
#define PICTURE_CELLS 89  /* of a row, at most */

/* What a cell shows, besides printable characters, which stand for themselves. */
enum timeline_cell {
    CELL_EMPTY,
    CELL_WAIT,
    CELL_HOLD,
    CELL_SHARE,
    CELL_TAIL,
    CELL_MAYBE,
    CELL_STOP,
    CELL_BAND,
    CELL_RULER,
    CELL_LEVELS, /* the lowest of CELL_STEPS */
    CELL_STEPS = 8
};

struct timeline_sheet {
    FILE *file;
    const struct timeline_model *model;
    const struct torture_report *report;
    unsigned width, columns; /* of a line, and of the cells in a row */
    bool utf8;
};

struct timeline_span {
    int64_t from, to;
};

/* Cleaned, and wrapped at words; all lines but the first are indented. */
__attribute__((format(printf, 3, 4))) void timeline_put(const struct timeline_sheet *sheet,
                                                        unsigned indent, const char *format, ...);
void timeline_put_cells(const struct timeline_sheet *sheet, const char *name, const uint8_t *cells);
void timeline_put_axis(const struct timeline_sheet *sheet, const struct timeline_span *span);
const char *timeline_glyph(const struct timeline_sheet *sheet, enum timeline_cell cell);

/* Writes a word into the cells, if there is room for all of it. */
void timeline_overlay(uint8_t *cells, unsigned columns, unsigned at, const char *word);
unsigned timeline_sheet_column(const struct timeline_sheet *sheet, const struct timeline_span *span,
                               int64_t at);

void timeline_put_scene(const struct timeline_sheet *sheet, const struct timeline_scene *scene);

#endif
