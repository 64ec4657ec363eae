/* SPDX-License-Identifier: Apache-2.0 */
/* Draws how long hand-overs took, each where it happened, on a logarithmic scale. */
#include "torture/timeline/timeline_handover.h"
#include "torture/timeline/timeline_svg.h"
#include "torture/timeline/timeline_words.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { TOP = 12, HEIGHT = 200, BOTTOM = TOP + HEIGHT, CELL = 4, SLOWEST = 5 };
enum { COLUMNS = (PICTURE_RIGHT - PICTURE_LEFT) / CELL, ROWS = HEIGHT / CELL };

struct chart {
    const struct timeline_model *model;
    const struct timeline_handover *all;
    uint32_t count;
    int first, decades; /* the scale begins at ten to the power of `first` nanoseconds */
    struct timeline_axis axis;
};

static double log_of(int64_t took)
{
    return took < 1 ? 0 : log10((double)took);
}

static double place(const struct chart *chart, int64_t took)
{
    double y = BOTTOM - HEIGHT * (log_of(took) - chart->first) / chart->decades;

    return y > BOTTOM - 1 ? BOTTOM - 1 : y < TOP ? TOP : y;
}

static void choose_scale(struct chart *chart)
{
    double low = 20, high = 0;

    for (uint32_t i = 0; i < chart->count; i++) {
        double log = log_of(chart->all[i].took);

        low = log < low ? log : low;
        high = log > high ? log : high;
    }
    chart->first = (int)low;
    chart->decades = (int)high + 1 - chart->first;
    if (chart->decades < 2)
        chart->decades = 2;
}

static void draw_scale(FILE *file, const struct chart *chart)
{
    int64_t value = 1;

    for (int i = 0; i < chart->first; i++)
        value *= 10;
    fprintf(file, "<rect class=\"lane\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>",
            PICTURE_LEFT, TOP, PICTURE_RIGHT - PICTURE_LEFT, HEIGHT);
    for (int i = 0; i <= chart->decades; i++, value *= 10) {
        int y = BOTTOM - HEIGHT * i / chart->decades;
        char text[24];

        timeline_round(text, value);
        fprintf(file, "<path class=\"grid\" d=\"M%d %dH%d\"/>", PICTURE_LEFT, y, PICTURE_RIGHT);
        fprintf(file, "<text class=\"soft end\" x=\"%d\" y=\"%d\">%s</text>\n", PICTURE_LEFT - 10,
                y + 4, text);
    }
}

static void count_cells(const struct chart *chart, uint32_t cells[ROWS][COLUMNS])
{
    for (uint32_t i = 0; i < chart->count; i++) {
        double x = timeline_x(&chart->axis, chart->all[i].at) - PICTURE_LEFT;
        double y = place(chart, chart->all[i].took) - TOP;
        unsigned column = (unsigned)(x / CELL), row = (unsigned)(y / CELL);

        cells[row < ROWS ? row : ROWS - 1][column < COLUMNS ? column : COLUMNS - 1]++;
    }
}

/* Four shades, each of them one path: a dot, a few, a dozen, more. */
static int shade(uint32_t count)
{
    return count == 0 ? 0 : count < 2 ? 1 : count < 6 ? 2 : count < 24 ? 3 : 4;
}

static void draw_cells(FILE *file, const struct chart *chart)
{
    uint32_t cells[ROWS][COLUMNS] = { 0 };

    count_cells(chart, cells);
    for (int level = 1; level <= 4; level++) {
        fprintf(file, "<path class=\"d%d\" d=\"", level);
        for (int row = 0; row < ROWS; row++)
            for (int column = 0; column < COLUMNS; column++) {
                int first = column;

                while (column < COLUMNS && shade(cells[row][column]) == level)
                    column++;
                if (column > first)
                    fprintf(file, "M%d %dh%dv%dh-%dz", PICTURE_LEFT + first * CELL,
                            TOP + row * CELL, (column - first) * CELL, CELL,
                            (column - first) * CELL);
            }
        fputs("\"/>\n", file);
    }
}

/* The slowest ones are worth a look each. */
static void draw_slowest(FILE *file, const struct chart *chart)
{
    const struct timeline_handover *slowest[SLOWEST + 1] = { NULL };

    for (uint32_t i = 0; i < chart->count; i++) {
        int place_of = SLOWEST;

        while (place_of > 0 &&
               (!slowest[place_of - 1] || slowest[place_of - 1]->took < chart->all[i].took)) {
            slowest[place_of] = slowest[place_of - 1];
            place_of--;
        }
        slowest[place_of] = &chart->all[i];
    }
    for (int i = 0; i < SLOWEST && slowest[i]; i++) {
        const struct timeline_handover *one = slowest[i];
        char name[40], took[24], at[32];

        timeline_lock_name(chart->model, one->bar->lock, name);
        timeline_duration(took, one->took);
        timeline_moment(at, one->at, 1000);
        fprintf(file, "<circle class=\"slow\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"><title>",
                timeline_x(&chart->axis, one->at), place(chart, one->took) + 1);
        timeline_escape(file, name);
        fprintf(file, ": %s, to client %" PRIu32 " at %s (call %" PRIu64 ")</title></circle>\n",
                took, chart->model->lanes[one->bar->lane].client, at, one->bar->hold);
    }
}

bool timeline_svg_handover(FILE *file, const struct timeline_model *model)
{
    struct chart chart = { .model = model, .axis = { 0, model->length } };
    struct timeline_handover *all = timeline_handovers(model, &chart.count);

    if (!all)
        return false;
    chart.all = all;
    choose_scale(&chart);
    timeline_svg_begin(file, BOTTOM + 26, "How long each hand-over took");
    draw_scale(file, &chart);
    timeline_svg_time_axis(file, &chart.axis, TOP, BOTTOM);
    timeline_svg_bands(file, model, &chart.axis, true, TOP, BOTTOM);
    draw_cells(file, &chart);
    draw_slowest(file, &chart);
    timeline_svg_end(file);
    free(all);
    return true;
}
