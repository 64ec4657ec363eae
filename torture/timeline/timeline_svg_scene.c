/* SPDX-License-Identifier: Apache-2.0 */
/* Draws a close-up: lanes of waits and beliefs, faults behind them, and what broke a rule. */
#include "torture/timeline/timeline_svg.h"

#include "torture/timeline/timeline_words.h"

#include <inttypes.h>

enum { TOP = 24, TOP_CLEAN = 4, ROW = 22, BAR = 16, AIR = 6, STRIP = 14, GAP = 3 };

/* Where each lane lies, and whether faults were aimed at it. */
struct layout {
    struct timeline_axis axis;
    int top[PICTURE_SCENE_LANES], height[PICTURE_SCENE_LANES];
    bool struck[PICTURE_SCENE_LANES];
    int begin, bottom;
};

static bool shows(const struct timeline_scene *scene, const struct timeline_fault *fault)
{
    return fault->off >= scene->from && fault->on <= scene->to;
}

static void lay_out(struct layout *layout, const struct timeline_scene *scene)
{
    const struct timeline_model *model = scene->model;
    int y = scene->finding ? TOP : TOP_CLEAN;

    *layout = (struct layout){ .axis = { scene->from, scene->to }, .begin = y };
    for (uint32_t i = 0; i < model->fault_count; i++) {
        int lane = timeline_scene_lane(scene, model->faults[i].lane);

        if (lane >= 0 && shows(scene, &model->faults[i]))
            layout->struck[lane] = true;
    }
    for (unsigned i = 0; i < scene->lane_count; i++) {
        int rows = scene->rows[i] ? scene->rows[i] : 1;

        layout->top[i] = y;
        layout->height[i] =
            2 * AIR + rows * ROW - (ROW - BAR) + (layout->struck[i] ? STRIP + 2 : 0);
        y += layout->height[i] + GAP;
    }
    layout->bottom = y - GAP;
}

static void draw_rect(FILE *file, const char *class, double left, double right, int top, int height)
{
    fprintf(file, "<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>", class,
            left, top, right > left + 1 ? right - left : 1, height);
}

static void draw_lanes(FILE *file, const struct timeline_scene *scene, const struct layout *layout)
{
    for (unsigned i = 0; i < scene->lane_count; i++) {
        char name[32];

        draw_rect(file, "lane", PICTURE_LEFT, PICTURE_RIGHT, layout->top[i], layout->height[i]);
        snprintf(name, sizeof(name), "client %" PRIu32,
                 scene->model->lanes[scene->lanes[i]].client);
        timeline_svg_row_name(file, layout->top[i] + AIR + BAR / 2, name);
    }
}

static int row_top(const struct layout *layout, const struct timeline_item *item)
{
    return layout->top[item->lane] + AIR + item->row * ROW;
}

/* ---- Bars ---- */

static void draw_title(FILE *file, const struct timeline_scene *scene,
                       const struct timeline_bar *bar)
{
    const char *mode = timeline_mode_name(scene->model, bar);
    char text[256];

    timeline_describe(text, sizeof(text), bar);
    fprintf(file, "<title>client %" PRIu32 ", ", scene->model->lanes[bar->lane].client);
    if (mode)
        fprintf(file, "%s, ", mode);
    if (bar->permits > 1)
        fprintf(file, "%" PRIu32 " permits, ", bar->permits);
    timeline_escape(file, text);
    fprintf(file, " (call %" PRIu64 ")</title>", bar->hold);
}

static bool visible(const struct layout *layout, int64_t from, int64_t to)
{
    return to >= layout->axis.from && from <= layout->axis.to;
}

static void draw_wait_end(FILE *file, double x, int middle, enum timeline_end end)
{
    if (end == PICTURE_REFUSED)
        fprintf(file, "<path class=\"mark\" d=\"M%.1f %dl6 6m0 -6l-6 6\"/>", x - 3, middle - 3);
    else if (end == PICTURE_UNKNOWN)
        fprintf(file, "<text class=\"mid\" x=\"%.1f\" y=\"%d\">?</text>", x, middle + 4);
}

/* The writer's part of a belief; what comes before and after it in other modes is paler. */
static void bold_part(const struct timeline_scene *scene, const struct timeline_bar *bar,
                      int64_t *from, int64_t *to)
{
    bool shares = timeline_mode_name(scene->model, bar) != NULL;

    *from = shares ? bar->raised : bar->granted;
    *to = shares && bar->lowered < bar->ended ? bar->lowered : bar->ended;
}

static void draw_belief(FILE *file, const struct timeline_scene *scene, const struct layout *layout,
                        const struct timeline_bar *bar, int top)
{
    const struct timeline_axis *axis = &layout->axis;
    int64_t from, to;

    bold_part(scene, bar, &from, &to);
    if ((from > bar->granted || to < bar->ended) && visible(layout, bar->granted, bar->ended))
        draw_rect(file, "share", timeline_x(axis, bar->granted), timeline_x(axis, bar->ended), top,
                  BAR);
    if (from <= to && visible(layout, from, to))
        draw_rect(file, "hold", timeline_x(axis, from), timeline_x(axis, to), top, BAR);
}

static void draw_bar(FILE *file, const struct timeline_scene *scene, const struct layout *layout,
                     const struct timeline_item *item)
{
    const struct timeline_bar *bar = item->bar;
    const struct timeline_axis *axis = &layout->axis;
    int top = row_top(layout, item), middle = top + BAR / 2;
    bool granted = bar->granted != PICTURE_NEVER;
    int64_t waited = granted ? bar->granted : bar->ended;
    int64_t doubt = bar->end == PICTURE_UNKNOWN && !granted ? bar->asked : bar->ended;

    fputs("<g>", file);
    draw_title(file, scene, bar);
    if (bar->doubtful > doubt && bar->freed < bar->doubtful &&
        visible(layout, doubt, bar->doubtful))
        draw_rect(file, "maybe", timeline_x(axis, doubt), timeline_x(axis, bar->doubtful), top,
                  BAR);
    if (visible(layout, bar->asked, waited))
        draw_rect(file, "wait", timeline_x(axis, bar->asked), timeline_x(axis, waited), middle - 3,
                  6);
    if (granted)
        draw_belief(file, scene, layout, bar, top);
    if (bar->freed > bar->ended && visible(layout, bar->ended, bar->freed))
        draw_rect(file, "tail", timeline_x(axis, bar->ended), timeline_x(axis, bar->freed),
                  middle - 2, 4);
    if (!granted && visible(layout, bar->ended, bar->ended))
        draw_wait_end(file, timeline_x(axis, bar->ended), middle, (enum timeline_end)bar->end);
    fputs("</g>\n", file);
}

/* The part of a bar that is drawn bold: the belief, or all of a wait. */
static void draw_guilty(FILE *file, const struct timeline_scene *scene, const struct layout *layout,
                        const struct timeline_item *item)
{
    const struct timeline_bar *bar = item->bar;
    int64_t from = bar->granted == PICTURE_NEVER ? bar->asked : bar->granted;
    double left = timeline_x(&layout->axis, from), right = timeline_x(&layout->axis, bar->ended);
    int top = row_top(layout, item);

    if (scene->overlap) {
        double x = timeline_x(&layout->axis, scene->key_from);
        double end = timeline_x(&layout->axis, scene->key_to);

        draw_rect(file, "clash", x, end > x + 3 ? end : x + 3, top, BAR);
    }
    draw_rect(file, "guilty", left - 1, right > left + 3 ? right + 1 : left + 4, top - 1, BAR + 2);
}

static void draw_badge(FILE *file, const struct layout *layout, const struct timeline_item *item)
{
    const struct timeline_bar *bar = item->bar;
    double x = timeline_x(&layout->axis, bar->granted == PICTURE_NEVER ? bar->asked : bar->granted);
    int y = row_top(layout, item) + BAR / 2;

    x = x < PICTURE_LEFT + 9 ? PICTURE_LEFT + 9 : x;
    fprintf(file,
            "<circle class=\"dot\" cx=\"%.1f\" cy=\"%d\" r=\"9\"/>"
            "<text class=\"letter\" x=\"%.1f\" y=\"%d\">%c</text>\n",
            x, y, x, y + 4, 'A' + item->guilty - 1);
}

/* The part of a belief in which a number can be read: beside the badge and the overlap. */
static void clear_part(const struct timeline_scene *scene, const struct layout *layout,
                       const struct timeline_item *item, double *left, double *right)
{
    *left = timeline_x(&layout->axis, item->bar->granted);
    *right = timeline_x(&layout->axis, item->bar->ended);
    if (item->guilty)
        *left = (*left < PICTURE_LEFT + 9 ? PICTURE_LEFT + 9 : *left) + 9;
    if (item->guilty && scene->overlap) {
        double clash = timeline_x(&layout->axis, scene->key_from);
        double over = timeline_x(&layout->axis, scene->key_to);

        if (clash - *left > *right - over)
            *right = clash;
        else
            *left = over;
    }
}

/* Whether the middle of a text falls on the paler part. */
static bool is_on_pale(const struct timeline_scene *scene, const struct layout *layout,
                       const struct timeline_bar *bar, double middle)
{
    int64_t from, to;

    bold_part(scene, bar, &from, &to);
    return from > to || middle < timeline_x(&layout->axis, from) ||
           middle > timeline_x(&layout->axis, to);
}

static void draw_token(FILE *file, const struct timeline_scene *scene, const struct layout *layout,
                       const struct timeline_item *item)
{
    const struct timeline_bar *bar = item->bar;
    double left, right, end = timeline_x(&layout->axis, bar->ended);
    int baseline = row_top(layout, item) + BAR - 4;
    char text[32];
    double width;

    if (bar->token == 0 || bar->granted == PICTURE_NEVER ||
        !visible(layout, bar->granted, bar->ended))
        return;
    clear_part(scene, layout, item, &left, &right);
    timeline_scene_token(scene, bar->token, "…", text);
    width = 7.0 * (double)timeline_columns(text);
    if (right - left >= width + 12)
        fprintf(file, "<text class=\"token%s\" x=\"%.1f\" y=\"%d\">%s</text>\n",
                is_on_pale(scene, layout, bar, left + 5 + width / 2) ? " pale" : "", left + 5,
                baseline, text);
    else if (item->guilty && end < PICTURE_RIGHT - 60)
        fprintf(file, "<text class=\"bad\" x=\"%.1f\" y=\"%d\">%s</text>\n",
                end > left ? end + 7 : left + 5, baseline, text);
}

/* ---- Faults and marks ---- */

static void draw_fault(FILE *file, const struct timeline_scene *scene, const struct layout *layout,
                       const struct timeline_fault *fault, int lane)
{
    double left = timeline_x(&layout->axis, fault->on),
           right = timeline_x(&layout->axis, fault->off);
    const char *name = scene->model->kinds[fault->kind].name;
    int top = layout->top[lane], strip = top + layout->height[lane] - STRIP - 2;
    char text[64];

    timeline_clean(text, sizeof(text), name, false);
    draw_rect(file, "band", left, right, top, layout->height[lane]);
    fprintf(file, "<g><title>");
    timeline_escape(file, name);
    fprintf(file, "%s</title>", fault->hits ? ": it hit" : ": it did not bite");
    draw_rect(file, "stop", left, right > left + 3 ? right : left + 3, strip,
              right - left > 6.2 * (double)timeline_columns(text) + 8 ? STRIP : 6);
    if (right - left > 6.2 * (double)timeline_columns(text) + 8) {
        fprintf(file, "<text class=\"stopped\" x=\"%.1f\" y=\"%d\">", left + 5, strip + 11);
        timeline_escape(file, text);
        fputs("</text>", file);
    }
    fputs("</g>\n", file);
}

enum { DRAWN = 200 };

static void draw_faults(FILE *file, const struct timeline_scene *scene, const struct layout *layout)
{
    const struct timeline_model *model = scene->model;
    unsigned drawn = 0;

    timeline_svg_bands(file, model, &layout->axis, false, layout->begin, layout->bottom);
    for (uint32_t i = 0; i < model->fault_count && drawn < DRAWN; i++) {
        int lane = timeline_scene_lane(scene, model->faults[i].lane);

        if (lane < 0 || !shows(scene, &model->faults[i]))
            continue;
        draw_fault(file, scene, layout, &model->faults[i], lane);
        drawn++;
    }
}

static const char *mark_shape(const struct timeline_mark *mark)
{
    switch (mark->verb) {
    case TORTURE_WRITE:
        return mark->kind == TORTURE_OK ? "m-4 0l4 -4l4 4l-4 4z" : "m-4 -4l8 8m0 -8l-8 8";
    case TORTURE_UPGRADE:
        return "m-4 3l4 -7l4 7z";
    default:
        return "m-4 -3l4 7l4 -7z";
    }
}

static void draw_mark(FILE *file, const struct timeline_mark *mark, double x, int y)
{
    if (mark->kind == TORTURE_CRASH) {
        fprintf(file, "<path class=\"cross\" d=\"M%.1f %dm-6 -6l12 12m0 -12l-12 12\">", x, y - 8);
        fputs("<title>killed</title></path>\n", file);
        return;
    }
    fprintf(file, "<path class=\"mark\" d=\"M%.1f %d%s\"><title>%s: %s", x, y, mark_shape(mark),
            torture_verb_name((enum torture_verb)mark->verb),
            torture_kind_name((enum torture_kind)mark->kind));
    if (mark->token)
        fprintf(file, ", token %" PRIu64, mark->token);
    fputs("</title></path>\n", file);
}

static void draw_marks(FILE *file, const struct timeline_scene *scene, const struct layout *layout)
{
    const struct timeline_model *model = scene->model;
    unsigned drawn = 0;

    for (uint32_t i = 0; i < model->mark_count && drawn < DRAWN; i++) {
        const struct timeline_mark *mark = &model->marks[i];
        int lane = timeline_scene_lane(scene, mark->lane);

        if (lane < 0 || mark->at < scene->from || mark->at > scene->to ||
            (mark->lock != scene->lock && mark->kind != TORTURE_CRASH))
            continue;
        draw_mark(file, mark, timeline_x(&layout->axis, mark->at), layout->top[lane] + AIR + BAR);
        drawn++;
    }
}

/* ---- The moment itself ---- */

static void draw_key(FILE *file, const struct timeline_scene *scene, const struct layout *layout)
{
    double left = timeline_x(&layout->axis, scene->key_from);
    double right = timeline_x(&layout->axis, scene->key_to);
    double middle = (left + right) / 2;
    char lasted[24];

    if (!scene->finding)
        return;
    draw_rect(file, "key", left, right > left + 3 ? right : left + 3, TOP - 4,
              layout->bottom - TOP + 4);
    fprintf(file, "<path class=\"edge\" d=\"M%.1f %dV%dM%.1f %dV%d\"/>", left, TOP - 4,
            layout->bottom, right, TOP - 4, layout->bottom);
    timeline_duration(lasted, scene->key_to - scene->key_from);
    middle = middle < PICTURE_LEFT + 60    ? PICTURE_LEFT + 60
             : middle > PICTURE_RIGHT - 60 ? PICTURE_RIGHT - 60
                                           : middle;
    fprintf(file, "<text class=\"bad mid\" x=\"%.1f\" y=\"%d\">", middle, TOP - 9);
    if (scene->overlap)
        fputs("overlap, ", file);
    timeline_escape(file, lasted);
    fputs("</text>\n", file);
}

void timeline_svg_scene(FILE *file, const struct timeline_scene *scene)
{
    struct layout layout;

    lay_out(&layout, scene);
    timeline_svg_begin(file, layout.bottom + 26, "Waiters and holders over time");
    draw_lanes(file, scene, &layout);
    timeline_svg_time_axis(file, &layout.axis, layout.begin, layout.bottom);
    draw_faults(file, scene, &layout);
    draw_key(file, scene, &layout);
    for (unsigned i = 0; i < scene->item_count; i++)
        draw_bar(file, scene, &layout, &scene->items[i]);
    for (unsigned i = 0; i < scene->item_count; i++)
        if (scene->items[i].guilty)
            draw_guilty(file, scene, &layout, &scene->items[i]);
    draw_marks(file, scene, &layout);
    for (unsigned i = 0; i < scene->item_count; i++) {
        if (scene->items[i].guilty)
            draw_badge(file, &layout, &scene->items[i]);
        draw_token(file, scene, &layout, &scene->items[i]);
    }
    timeline_svg_end(file);
}
