/* SPDX-License-Identifier: Apache-2.0 */
/* The picture in characters: the whole run, and close-ups of what was found. */
#include "torture/timeline/timeline.h"
#include "torture/timeline/timeline_density.h"
#include "torture/timeline/timeline_sheet.h"
#include "torture/timeline/timeline_words.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { NARROWEST = 60, LANES = 24, CLOSE_UPS = 2 };

_Static_assert(PICTURE_GUTTER + PICTURE_CELLS == TORTURE_PICTURE_COLUMNS, "a row fits in a line");

static void put_holds(const struct timeline_sheet *sheet, const struct torture_finding *finding)
{
    char letter = 'A';

    for (unsigned i = 0; i < finding->hold_count && i < 3; i++) {
        const struct timeline_bar *bar = timeline_find_bar(sheet->model, finding->holds[i]);
        char text[256];

        if (!finding->holds[i])
            continue;
        if (bar) {
            timeline_describe(text, sizeof(text), bar);
            timeline_put(sheet, 4, "%c   client %" PRIu32 ", call %" PRIu64 ": %s", letter,
                         sheet->model->lanes[bar->lane].client, finding->holds[i], text);
        } else
            timeline_put(sheet, 4, "%c   call %" PRIu64 ": not in the history", letter,
                         finding->holds[i]);
        letter++;
    }
}

static void put_legend(const struct timeline_sheet *sheet)
{
    static const struct {
        enum timeline_cell symbol;
        const char *meaning;
    } entries[] = {
        { CELL_WAIT, "waits" },
        { CELL_HOLD, "believes to hold, with token" },
        { CELL_SHARE, "shares it, as a reader" },
        { CELL_TAIL, "release under way" },
        { CELL_MAYBE, "the store may still hold it" },
        { CELL_STOP, "a fault aimed at this client" },
        { CELL_BAND, "a fault" },
    };
    char text[512] = "Legend:";
    size_t used = strlen(text);

    for (unsigned i = 0; i < sizeof(entries) / sizeof(*entries); i++) {
        const char *symbol = timeline_glyph(sheet, entries[i].symbol);

        used += (size_t)snprintf(text + used, sizeof(text) - used, " %s %s,", symbol,
                                 entries[i].meaning);
    }
    timeline_put(sheet, 8, "%s X beliefs overlap, ! refused, ? no answer, w a write.", text);
}

static void put_finding(const struct timeline_sheet *sheet, unsigned index)
{
    const struct torture_finding *finding = &sheet->report->findings[index];
    struct timeline_scene scene;

    timeline_put(sheet, 4, "%u. %s, %s", index + 1, torture_rule_name(finding->rule),
                 torture_rule_text(finding->rule));
    timeline_put(sheet, 4, "    %s", finding->sentence);
    timeline_scene_of_finding(&scene, sheet->model, finding);
    if (scene.item_count > 0)
        timeline_put_scene(sheet, &scene);
    put_holds(sheet, finding);
    fputc('\n', sheet->file);
}

/* What there is no room to draw. */
static void put_finding_short(const struct timeline_sheet *sheet, unsigned index)
{
    const struct torture_finding *finding = &sheet->report->findings[index];
    char calls[96] = "";
    size_t used = 0;

    for (unsigned i = 0; i < finding->hold_count && i < 3; i++)
        if (finding->holds[i])
            used += (size_t)snprintf(calls + used, sizeof(calls) - used, "%s %" PRIu64,
                                     used ? "," : "; calls", finding->holds[i]);
    timeline_put(sheet, 4, "%u. %s: %s%s", index + 1, torture_rule_name(finding->rule),
                 finding->sentence, calls);
}

static void put_close_ups(const struct timeline_sheet *sheet)
{
    struct timeline_scene scene;

    for (unsigned i = 0; i < sheet->report->finding_count; i++)
        if (i < CLOSE_UPS)
            put_finding(sheet, i);
        else
            put_finding_short(sheet, i);
    if (sheet->report->finding_count > CLOSE_UPS)
        fputc('\n', sheet->file);
    if (sheet->report->finding_count == 0) {
        if (!timeline_scene_of_clean_run(&scene, sheet->model))
            return;
        timeline_put(sheet, 4, scene.fault ? "A fault that hit: %s" : "The longest wait%s",
                     scene.fault ? sheet->model->kinds[scene.fault->kind].name : "");
        timeline_put_scene(sheet, &scene);
        fputc('\n', sheet->file);
    }
    put_legend(sheet);
}

/* ---- The whole run ---- */

static void put_run_faults(const struct timeline_sheet *sheet)
{
    const struct timeline_model *model = sheet->model;
    uint8_t cells[PICTURE_CELLS] = { 0 };

    for (uint32_t i = 0; i < model->fault_count; i++)
        if (model->faults[i].hits)
            cells[timeline_column(model, sheet->columns, model->faults[i].on)] = CELL_BAND;
    if (model->fault_count > 0)
        timeline_put_cells(sheet, "faults hit", cells);
}

static void put_run_findings(const struct timeline_sheet *sheet)
{
    uint8_t cells[PICTURE_CELLS] = { 0 };

    for (unsigned i = sheet->report->finding_count; i > 0; i--) {
        const struct torture_finding *finding = &sheet->report->findings[i - 1];
        int64_t at = timeline_time_of(sheet->model, finding->from);

        cells[timeline_column(sheet->model, sheet->columns, at)] =
            i < 10 ? (uint8_t)('0' + i) : '*';
    }
    if (sheet->report->finding_count > 0)
        timeline_put_cells(sheet, "findings", cells);
}

static uint8_t level(float share)
{
    unsigned step = (unsigned)(share * CELL_STEPS + 0.99f);

    return step == 0 ? CELL_EMPTY
                     : (uint8_t)(CELL_LEVELS + (step > CELL_STEPS ? CELL_STEPS : step) - 1);
}

static int put_run(const struct timeline_sheet *sheet)
{
    const struct timeline_model *model = sheet->model;
    struct timeline_span span = { 0, model->length };
    unsigned lanes = model->lane_count < LANES ? model->lane_count : LANES;
    struct timeline_density density;
    char length[24];

    if (timeline_density_init(&density, model, sheet->columns, lanes))
        return -1;
    timeline_duration(length, model->length);
    timeline_put(sheet, 2,
                 "The whole run, %s. The higher, the longer a lock was held in that time.", length);
    put_run_findings(sheet);
    put_run_faults(sheet);
    for (unsigned lane = 0; lane < lanes; lane++) {
        uint8_t cells[PICTURE_CELLS] = { 0 };
        char name[32];

        for (unsigned i = 0; i < sheet->columns; i++)
            cells[i] = level(density.held[lane * sheet->columns + i]);
        snprintf(name, sizeof(name), "client %" PRIu32, model->lanes[lane].client);
        timeline_put_cells(sheet, name, cells);
    }
    timeline_put_axis(sheet, &span);
    if (lanes < model->lane_count)
        timeline_put(sheet, 2, "%" PRIu32 " more clients are not drawn.",
                     model->lane_count - lanes);
    fputc('\n', sheet->file);
    timeline_density_release(&density);
    return 0;
}

int torture_timeline_text(const struct torture_history *history,
                          const struct torture_report *report, FILE *file, unsigned width,
                          bool utf8)
{
    struct timeline_model model;
    struct timeline_sheet sheet = { .file = file, .model = &model, .report = report, .utf8 = utf8 };
    int why = 0;

    sheet.width = width < NARROWEST                 ? NARROWEST
                  : width > TORTURE_PICTURE_COLUMNS ? TORTURE_PICTURE_COLUMNS
                                                    : width;
    sheet.columns = sheet.width - PICTURE_GUTTER;
    errno = 0;
    if (timeline_model_init(&model, history))
        why = ENOMEM;
    else {
        if (model.bar_count == 0)
            timeline_put(&sheet, 0, "Nothing was recorded: there is nothing to draw.");
        else if (put_run(&sheet))
            why = ENOMEM;
        put_close_ups(&sheet);
        timeline_model_release(&model);
    }
    if (why == 0 && (fflush(file) || ferror(file)))
        why = errno ? errno : EIO;
    errno = why;
    return why ? -1 : 0;
}
