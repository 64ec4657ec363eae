/* SPDX-License-Identifier: Apache-2.0 */
/* Puts a close-up on lines: a row of cells for each lane, and what was aimed at it below. */
#include "torture/timeline/timeline_sheet.h"
#include "torture/timeline/timeline_words.h"

#include <inttypes.h>
#include <string.h>

static void paint(const struct timeline_sheet *sheet, const struct timeline_span *span,
                  uint8_t *cells, int64_t from, int64_t to, uint8_t what)
{
    if (to < span->from || from > span->to)
        return;
    memset(cells + timeline_sheet_column(sheet, span, from), what,
           timeline_sheet_column(sheet, span, to) - timeline_sheet_column(sheet, span, from) + 1);
}

static void paint_belief(const struct timeline_sheet *sheet, const struct timeline_span *span,
                         uint8_t *cells, const struct timeline_bar *bar)
{
    bool shares = timeline_mode_name(sheet->model, bar) != NULL;
    int64_t from = shares ? bar->raised : bar->granted;
    int64_t to = shares && bar->lowered < bar->ended ? bar->lowered : bar->ended;

    if (shares)
        paint(sheet, span, cells, bar->granted, bar->ended, CELL_SHARE);
    if (from <= to)
        paint(sheet, span, cells, from, to, CELL_HOLD);
}

static void paint_bar(const struct timeline_sheet *sheet, const struct timeline_span *span,
                      uint8_t *cells, const struct timeline_bar *bar)
{
    bool granted = bar->granted != PICTURE_NEVER;
    int64_t doubt = bar->end == PICTURE_UNKNOWN && !granted ? bar->asked : bar->ended;

    if (bar->doubtful > doubt && bar->freed < bar->doubtful)
        paint(sheet, span, cells, doubt, bar->doubtful, CELL_MAYBE);
    paint(sheet, span, cells, bar->asked, granted ? bar->granted : bar->ended, CELL_WAIT);
    if (bar->freed > bar->ended)
        paint(sheet, span, cells, bar->ended, bar->freed, CELL_TAIL);
    if (granted)
        paint_belief(sheet, span, cells, bar);
    else if (bar->end == PICTURE_REFUSED || bar->end == PICTURE_UNKNOWN)
        paint(sheet, span, cells, bar->ended, bar->ended, bar->end == PICTURE_REFUSED ? '!' : '?');
}

/* Where the belief is not covered by a letter or by the overlap, if the word fits in there. */
static void put_token(const struct timeline_sheet *sheet, const struct timeline_scene *scene,
                      const struct timeline_span *span, uint8_t *cells,
                      const struct timeline_item *item)
{
    const struct timeline_bar *bar = item->bar;
    unsigned left = timeline_sheet_column(sheet, span, bar->granted) + 1;
    unsigned right = timeline_sheet_column(sheet, span, bar->ended);
    char token[32], word[40];

    if (item->guilty && scene->overlap) {
        unsigned clash = timeline_sheet_column(sheet, span, scene->key_from);
        unsigned over = timeline_sheet_column(sheet, span, scene->key_to) + 1;

        if (clash > left && clash - left + over >= right)
            right = clash;
        else
            left = over;
    }
    timeline_scene_token(scene, bar->token, "..", token);
    snprintf(word, sizeof(word), " %s ", token);
    if (right > left && right - left > strlen(word))
        timeline_overlay(cells, sheet->columns, left, word);
}

/* The finding's letter stands where the belief begins, X where beliefs overlap. */
static void letter_bar(const struct timeline_sheet *sheet, const struct timeline_scene *scene,
                       const struct timeline_span *span, uint8_t *cells,
                       const struct timeline_item *item)
{
    const struct timeline_bar *bar = item->bar;
    bool granted = bar->granted != PICTURE_NEVER;
    int64_t begin = granted ? bar->granted : bar->asked;

    if (item->guilty && scene->overlap)
        paint(sheet, span, cells, scene->key_from, scene->key_to, 'X');
    if (granted && bar->token && bar->granted <= span->to && bar->ended >= span->from)
        put_token(sheet, scene, span, cells, item);
    if (item->guilty)
        cells[timeline_sheet_column(sheet, span, begin)] = (uint8_t)('A' + item->guilty - 1);
}

static void put_lane_faults(const struct timeline_sheet *sheet, const struct timeline_scene *scene,
                            const struct timeline_span *span, uint32_t lane)
{
    const struct timeline_model *model = sheet->model;
    uint8_t cells[PICTURE_CELLS] = { 0 };
    bool any = false;

    for (uint32_t i = 0; i < model->fault_count; i++) {
        const struct timeline_fault *fault = &model->faults[i];
        char name[64];
        unsigned last;

        if (fault->lane != lane || fault->off < scene->from || fault->on > scene->to)
            continue;
        any = true;
        paint(sheet, span, cells, fault->on, fault->off, CELL_STOP);
        timeline_clean(name, sizeof(name), model->kinds[fault->kind].name, true);
        last = timeline_sheet_column(sheet, span, fault->off);
        timeline_overlay(cells, sheet->columns, last + 2, name);
    }
    if (any)
        timeline_put_cells(sheet, "", cells);
}

/* Writes fill no time; they are only shown where they are the matter. */
static void put_lane_writes(const struct timeline_sheet *sheet, const struct timeline_scene *scene,
                            const struct timeline_span *span, uint32_t lane)
{
    uint8_t cells[PICTURE_CELLS] = { 0 };
    bool any = false;

    for (uint32_t i = 0; i < sheet->model->mark_count; i++) {
        const struct timeline_mark *mark = &sheet->model->marks[i];

        if (mark->verb != TORTURE_WRITE || mark->lane != lane || mark->lock != scene->lock)
            continue;
        any = true;
        paint(sheet, span, cells, mark->at, mark->at, mark->kind == TORTURE_OK ? 'w' : '!');
    }
    if (any)
        timeline_put_cells(sheet, "", cells);
}

static void put_lane(const struct timeline_sheet *sheet, const struct timeline_scene *scene,
                     const struct timeline_span *span, unsigned lane)
{
    char name[32];

    snprintf(name, sizeof(name), "client %" PRIu32, sheet->model->lanes[scene->lanes[lane]].client);
    for (unsigned row = 0; row < scene->rows[lane] || row == 0; row++) {
        uint8_t cells[PICTURE_CELLS] = { 0 };

        for (unsigned i = 0; i < scene->item_count; i++)
            if (scene->items[i].lane == lane && scene->items[i].row == row)
                paint_bar(sheet, span, cells, scene->items[i].bar);
        for (unsigned i = 0; i < scene->item_count; i++)
            if (scene->items[i].lane == lane && scene->items[i].row == row)
                letter_bar(sheet, scene, span, cells, &scene->items[i]);
        timeline_put_cells(sheet, row == 0 ? name : "", cells);
    }
    if (scene->finding && scene->finding->rule == TORTURE_S9)
        put_lane_writes(sheet, scene, span, scene->lanes[lane]);
    put_lane_faults(sheet, scene, span, scene->lanes[lane]);
}

static void put_common_faults(const struct timeline_sheet *sheet, const struct timeline_span *span)
{
    const struct timeline_model *model = sheet->model;
    uint8_t cells[PICTURE_CELLS] = { 0 };
    bool any = false;

    for (uint32_t i = 0; i < model->fault_count; i++) {
        const struct timeline_fault *fault = &model->faults[i];

        if (fault->lane != PICTURE_NONE || fault->off < span->from || fault->on > span->to)
            continue;
        any = true;
        paint(sheet, span, cells, fault->on, fault->off, CELL_BAND);
    }
    if (any)
        timeline_put_cells(sheet, "faults", cells);
}

void timeline_put_scene(const struct timeline_sheet *sheet, const struct timeline_scene *scene)
{
    struct timeline_span span = { scene->from, scene->to };
    char name[40], column[24];

    timeline_lock_name(sheet->model, scene->lock, name);
    timeline_duration(column, (scene->to - scene->from) / sheet->columns);
    timeline_put(sheet, 2, "Lock %s. One column is %s.%s", name, column,
                 scene->token_skip > 1 ? " Tokens without the digits they all begin with." : "");
    put_common_faults(sheet, &span);
    for (unsigned lane = 0; lane < scene->lane_count; lane++)
        put_lane(sheet, scene, &span, lane);
    timeline_put_axis(sheet, &span);
    if (scene->left_out)
        timeline_put(sheet, 2, "%" PRIu64 " more calls in this window are not drawn.",
                     scene->left_out);
}
