/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the whole run: how busy each client was, the faults above, and where the close-ups lie. */
#include "torture/timeline/timeline_density.h"
#include "torture/timeline/timeline_svg.h"
#include "torture/timeline/timeline_words.h"

#include <inttypes.h>

enum { COLUMNS = (PICTURE_RIGHT - PICTURE_LEFT) / 2 };
enum { KIND_ROW = 15, KIND_BAR = 9, FLAGS = 22, GAP = 3 };

/* As many pixels as the share is worth, never nothing for something. */
static int pixels(float share, int height)
{
    int value = (int)(share * (float)height + 0.5f);

    return share > 0 && value == 0 ? 1 : value;
}

/* Held below, waited for above it; one path draws either. */
static void draw_profile(FILE *file, const char *class, const float *low, const float *high,
                         int bottom, int height)
{
    int before = 0;

    fprintf(file, "<path class=\"%s\" d=\"M%d %d", class, PICTURE_LEFT, bottom);
    for (int column = 0; column < COLUMNS; column++) {
        int value = pixels(low[column], height) + (high ? pixels(high[column], height) : 0);

        value = value > height ? height : value;
        if (value != before)
            fprintf(file, "H%dV%d", PICTURE_LEFT + 2 * column, bottom - value);
        before = value;
    }
    fprintf(file, "H%dV%dz\"/>\n", PICTURE_LEFT + 2 * COLUMNS, bottom);
}

static void draw_stops(FILE *file, const uint8_t *stopped, int bottom)
{
    fputs("<path class=\"stop\" d=\"", file);
    for (int column = 0; column < COLUMNS; column++) {
        int first = column;

        while (column < COLUMNS && stopped[column])
            column++;
        if (column > first)
            fprintf(file, "M%d %dh%dv3h-%dz", PICTURE_LEFT + 2 * first, bottom - 3,
                    2 * (column - first), 2 * (column - first));
    }
    fputs("\"/>\n", file);
}

static void draw_lane(FILE *file, const struct timeline_model *model,
                      const struct timeline_density *density, unsigned lane, int top, int height)
{
    const float *held = density->held + (size_t)lane * COLUMNS;
    const float *waited = density->waited + (size_t)lane * COLUMNS;
    char name[32], grants[32];

    snprintf(name, sizeof(name), "client %" PRIu32, model->lanes[lane].client);
    timeline_count(grants, model->lanes[lane].grants);
    fprintf(file, "<g><title>%s: %s grants</title>", name, grants);
    draw_profile(file, "wait", held, waited, top + height, height);
    draw_profile(file, "hold", held, NULL, top + height, height);
    draw_stops(file, density->stopped + (size_t)lane * COLUMNS, top + height);
    timeline_svg_row_name(file, top + height / 2, name);
    fputs("</g>\n", file);
}

static void draw_lanes(FILE *file, const struct timeline_model *model,
                       const struct timeline_density *density, int top, int height)
{
    struct timeline_axis axis = { 0, model->length };
    int bottom = top + (int)density->lanes * (height + GAP) - GAP;

    for (unsigned lane = 0; lane < density->lanes; lane++)
        fprintf(file, "<rect class=\"lane\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>",
                PICTURE_LEFT, top + (int)lane * (height + GAP), PICTURE_RIGHT - PICTURE_LEFT,
                height);
    timeline_svg_time_axis(file, &axis, top, bottom);
    timeline_svg_bands(file, model, &axis, false, top, bottom);
    for (unsigned lane = 0; lane < density->lanes; lane++)
        draw_lane(file, model, density, lane, top + (int)lane * (height + GAP), height);
}

/* ---- Faults, a row for each kind ---- */

enum { NOTHING, MISSED, HIT };

static void draw_kind_runs(FILE *file, const uint8_t *cells, uint8_t wanted, const char *class,
                           int top)
{
    fprintf(file, "<path class=\"%s\" d=\"", class);
    for (int column = 0; column < COLUMNS; column++) {
        int first = column;

        while (column < COLUMNS && cells[column] == wanted)
            column++;
        if (column > first)
            fprintf(file, "M%d %dh%dv%dh-%dz", PICTURE_LEFT + 2 * first, top, 2 * (column - first),
                    KIND_BAR, 2 * (column - first));
    }
    fputs("\"/>\n", file);
}

static void draw_kind(FILE *file, const struct timeline_model *model, uint32_t kind, int top)
{
    uint8_t cells[COLUMNS] = { 0 };

    for (uint32_t i = 0; i < model->fault_count; i++) {
        const struct timeline_fault *fault = &model->faults[i];
        unsigned first = timeline_column(model, COLUMNS, fault->on);
        unsigned last = timeline_column(model, COLUMNS, fault->off);

        for (unsigned column = first; fault->kind == kind && column <= last; column++)
            if (cells[column] != HIT)
                cells[column] = fault->hits ? HIT : MISSED;
    }
    fputs("<g><title>", file);
    timeline_escape(file, model->kinds[kind].name);
    fprintf(file, ": %" PRIu64 " times, hit %" PRIu64 "</title>", model->kinds[kind].times,
            model->kinds[kind].hit);
    timeline_svg_row_name(file, top + KIND_BAR / 2, model->kinds[kind].name);
    draw_kind_runs(file, cells, HIT, "hit", top);
    draw_kind_runs(file, cells, MISSED, "miss", top);
    fputs("</g>\n", file);
}

/* ---- Where the close-ups lie ---- */

static void draw_flag(FILE *file, const struct timeline_scene *scene, double x, unsigned number,
                      int bottom)
{
    fprintf(file, "<a href=\"#near-%u\"><path class=\"%s\" d=\"M%.1f %dV%d\"/>", number,
            scene->finding ? "edge" : "near", x, FLAGS, bottom);
    if (scene->finding)
        fprintf(file,
                "<path class=\"dot\" d=\"M%.1f %dl-9 -17h18z\"/>"
                "<text class=\"letter\" x=\"%.1f\" y=\"%d\">%u</text>",
                x, FLAGS, x, FLAGS - 7, number);
    else
        fprintf(file, "<text class=\"mid\" x=\"%.1f\" y=\"%d\">close-up</text>",
                x < PICTURE_LEFT + 30 ? PICTURE_LEFT + 30.0 : x, FLAGS - 6);
    fputs("</a>\n", file);
}

static void draw_flags(FILE *file, const struct timeline_model *model,
                       const struct timeline_scene *scenes, unsigned scene_count, int bottom)
{
    struct timeline_axis axis = { 0, model->length };

    if (model->healed != PICTURE_NEVER) {
        double x = timeline_x(&axis, model->healed);

        fprintf(file, "<path class=\"healed\" d=\"M%.1f %dV%d\"/>", x, FLAGS, bottom);
        fprintf(file, "<text class=\"soft end\" x=\"%.1f\" y=\"%d\">faults end</text>\n",
                x > PICTURE_LEFT + 70 ? x : PICTURE_LEFT + 70.0, FLAGS - 6);
    }
    for (unsigned i = scene_count; i > 0; i--) {
        const struct timeline_scene *scene = &scenes[i - 1];
        int64_t at = scene->finding ? scene->key_from : scene->from + (scene->to - scene->from) / 2;

        draw_flag(file, scene, timeline_x(&axis, at), i, bottom);
    }
}

int timeline_svg_overview(FILE *file, const struct timeline_model *model,
                          const struct timeline_scene *scenes, unsigned scene_count)
{
    unsigned lanes =
        model->lane_count < PICTURE_OVERVIEW_LANES ? model->lane_count : PICTURE_OVERVIEW_LANES;
    unsigned kinds = model->kind_count; /* mutant: picture-has-no-room-for-some */
    int height = lanes > 12 ? 13 : 24, top = FLAGS + 4 + (int)kinds * KIND_ROW + (kinds ? 6 : 0);
    int bottom = top + (int)lanes * (height + GAP) - GAP;
    struct timeline_density density;

    if (timeline_density_init(&density, model, COLUMNS, lanes))
        return -1;
    timeline_svg_begin(file, bottom + 26, "The whole run");
    for (uint32_t kind = 0; kind < kinds; kind++)
        draw_kind(file, model, kind, FLAGS + 4 + (int)kind * KIND_ROW);
    draw_lanes(file, model, &density, top, height);
    draw_flags(file, model, scenes, scene_count, bottom);
    timeline_svg_end(file);
    timeline_density_release(&density);
    return 0;
}
