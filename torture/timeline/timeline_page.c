/* SPDX-License-Identifier: Apache-2.0 */
/* The page: page.html, which draws, around what there is to draw, as JSON. Times are nanoseconds of
 * the run, or null; names and sentences are made harmless here. */
#include "torture/timeline/timeline_page.h"
#include "torture/timeline/timeline.h"
#include "torture/timeline/timeline_density.h"
#include "torture/timeline/timeline_handover.h"
#include "torture/timeline/timeline_json.h"
#include "torture/timeline/timeline_words.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* clang-format off */
static const char template[] = {
#include "torture/page.inc"
    0
};
/* clang-format on */

/* Of the template: where the data go. */
#define DATA "{\"data\":0}"

/* The cells of the drawings: in a row of the whole run, and of the hand-overs. */
enum { COLUMNS = 430, HANDOVER_COLUMNS = 215, HANDOVER_ROWS = 50, SLOWEST = 5 };
enum { OVERVIEW_LANES = 32 };

/* ---- the head ---- */

static void put_lead(struct timeline_page *page)
{
    const struct torture_report *report = page->report;
    char bound[128];

    if (report->verdict == TORTURE_VIOLATION && report->finding_count > 0)
        timeline_json_text(&page->out, "lead", report->findings[0].sentence);
    else if (report->verdict == TORTURE_INCONCLUSIVE)
        timeline_json_text(&page->out, "lead", report->reason);
    else if (timeline_bound(bound, report)) {
        bound[0] = 'N';
        timeline_json_text(&page->out, "lead", bound);
    } else
        timeline_json_text(&page->out, "lead",
                           "No rule was broken, and no fault was there to break it.");
}

static void put_damage(struct timeline_page *page)
{
    const struct torture_history *history = page->model->history;
    char text[200];

    snprintf(text, sizeof(text),
             "%" PRIu64 " records torn, %" PRIu64 " missing, %" PRIu64 " duplicate, %" PRIu64
             " dropped. What is drawn is what is left.",
             history->torn, history->missing, history->duplicate, history->dropped);
    if (history->torn + history->missing + history->duplicate + history->dropped)
        timeline_json_text(&page->out, "damage", text);
}

static void put_figures(struct timeline_page *page)
{
    const struct torture_report *report = page->report;
    const struct {
        const char *name;
        uint64_t count;
    } figures[] = {
        { "grants", report->grants },    { "waited for", report->contended },
        { "refused", report->refusals }, { "no answer", report->unknowns },
        { "lost", report->losses },      { "clients killed", report->crashes },
        { "faults", report->faults },    { "of which hit", report->fault_hits },
    };
    char text[32];

    timeline_json_open(&page->out, "figures", '{');
    for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++) {
        timeline_count(text, figures[i].count);
        timeline_json_text(&page->out, figures[i].name, text);
    }
    timeline_duration(text, report->longest_wait_ns);
    timeline_json_text(&page->out, "longest wait", text);
    timeline_json_close(&page->out, '}');
}

static void put_head(struct timeline_page *page)
{
    const struct timeline_model *model = page->model;
    double seconds = model->history->count ? (double)model->length / 1e9 : 0.0;
    char text[120];

    timeline_json_text(&page->out, "verdict", torture_verdict_name(page->report->verdict));
    timeline_json_text(&page->out, "title", page->about->title);
    snprintf(text, sizeof(text), "run %016" PRIx64 ", %" PRIu32 " %s, %.1f s", model->history->run,
             model->lane_count, model->lane_count == 1 ? "client" : "clients", seconds);
    timeline_json_text(&page->out, "run", text);
    timeline_json_text(&page->out, "promise", page->about->promise);
    timeline_json_text(&page->out, "facts", page->about->facts);
    put_lead(page);
    put_damage(page);
    put_figures(page);
}

/* ---- what drawings share ---- */

/* ---- the whole run ---- */

static void put_shares(struct timeline_json *out, const char *key, const float *shares)
{
    timeline_json_open(out, key, '[');
    for (unsigned i = 0; i < COLUMNS; i++)
        timeline_json_number(out, NULL, (int64_t)ceil(shares[i] * 24.0));
    timeline_json_close(out, ']');
}

static void put_stopped(struct timeline_json *out, const uint8_t *stopped)
{
    timeline_json_open(out, "stopped", '[');
    for (unsigned i = 0; i < COLUMNS; i++)
        timeline_json_number(out, NULL, stopped[i]);
    timeline_json_close(out, ']');
}

/* A column is 2 where one of that kind hit, and 1 where others were on. */
static void put_kind(struct timeline_page *page, uint32_t kind)
{
    const struct timeline_model *model = page->model;
    uint8_t cells[COLUMNS] = { 0 };

    for (uint32_t i = 0; i < model->fault_count; i++) {
        const struct timeline_fault *fault = &model->faults[i];
        unsigned last = timeline_column(model, COLUMNS, fault->off);

        for (unsigned c = timeline_column(model, COLUMNS, fault->on);
             fault->kind == kind && c <= last; c++)
            cells[c] = cells[c] == 2 || fault->hits ? 2 : 1;
    }
    timeline_json_open(&page->out, NULL, '{');
    timeline_json_text(&page->out, "name", model->kinds[kind].name);
    timeline_json_number(&page->out, "times", (int64_t)model->kinds[kind].times);
    timeline_json_number(&page->out, "hit", (int64_t)model->kinds[kind].hit);
    timeline_json_open(&page->out, "cells", '[');
    for (unsigned i = 0; i < COLUMNS; i++)
        timeline_json_number(&page->out, NULL, cells[i]);
    timeline_json_close(&page->out, ']');
    timeline_json_close(&page->out, '}');
}

static void put_lane(struct timeline_page *page, const struct timeline_density *density,
                     unsigned lane)
{
    size_t row = (size_t)lane * COLUMNS;
    char grants[32];

    timeline_json_open(&page->out, NULL, '{');
    timeline_json_number(&page->out, "client", page->model->lanes[lane].client);
    timeline_count(grants, page->model->lanes[lane].grants);
    timeline_json_text(&page->out, "grants", grants);
    put_shares(&page->out, "held", density->held + row);
    put_shares(&page->out, "waited", density->waited + row);
    put_stopped(&page->out, density->stopped + row);
    timeline_json_close(&page->out, '}');
}

static int put_overview(struct timeline_page *page)
{
    const struct timeline_model *model = page->model;
    unsigned lanes = model->lane_count < OVERVIEW_LANES ? model->lane_count : OVERVIEW_LANES;
    unsigned kinds = model->kind_count; /* mutant: picture-has-no-room-for-some */
    struct timeline_density density;

    if (timeline_density_init(&density, model, COLUMNS, lanes))
        return -1;
    timeline_json_open(&page->out, "overview", '{');
    timeline_json_number(&page->out, "more", model->lane_count - lanes);
    timeline_json_open(&page->out, "kinds", '[');
    for (uint32_t kind = 0; kind < kinds; kind++)
        put_kind(page, kind);
    timeline_json_close(&page->out, ']');
    timeline_json_open(&page->out, "lanes", '[');
    for (unsigned lane = 0; lane < lanes; lane++)
        put_lane(page, &density, lane);
    timeline_json_close(&page->out, ']');
    timeline_page_ticks(&page->out, 0, model->length);
    timeline_page_bands(&page->out, model, 0, model->length, false);
    timeline_json_close(&page->out, '}');
    timeline_density_release(&density);
    return 0;
}

/* ---- hand-overs, on a scale of powers of ten ---- */

static double log_of(int64_t took)
{
    return took < 1 ? 0 : log10((double)took);
}

struct scale {
    int first, decades; /* it begins at ten to the power of `first` nanoseconds */
};

static struct scale choose_scale(const struct timeline_handover *all, uint32_t count)
{
    double low = 20, high = 0;

    for (uint32_t i = 0; i < count; i++) {
        low = fmin(low, log_of(all[i].took));
        high = fmax(high, log_of(all[i].took));
    }
    int decades = (int)high + 1 - (int)low;
    return (struct scale){ (int)low, decades < 2 ? 2 : decades };
}

/* From 0, the lowest, to 1. */
static double height_of(const struct scale *scale, int64_t took)
{
    double height = (log_of(took) - scale->first) / scale->decades;

    return height < 0 ? 0 : height > 1 ? 1 : height;
}

static void put_scale(struct timeline_json *out, const struct scale *scale)
{
    int64_t value = 1;
    char text[24];

    for (int i = 0; i < scale->first; i++)
        value *= 10;
    timeline_json_open(out, "scale", '[');
    for (int i = 0; i <= scale->decades; i++, value *= 10) {
        timeline_round(text, value);
        timeline_json_text(out, NULL, text);
    }
    timeline_json_close(out, ']');
}

/* How many fall into each cell, row by row from the top. */
static void put_cells(struct timeline_page *page, const struct scale *scale,
                      const struct timeline_handover *all, uint32_t count)
{
    static uint32_t cells[HANDOVER_ROWS][HANDOVER_COLUMNS];

    memset(cells, 0, sizeof(cells));
    for (uint32_t i = 0; i < count; i++) {
        unsigned row = (unsigned)((1 - height_of(scale, all[i].took)) * HANDOVER_ROWS);
        cells[row < HANDOVER_ROWS ? row : HANDOVER_ROWS - 1]
             [timeline_column(page->model, HANDOVER_COLUMNS, all[i].at)]++;
    }
    timeline_json_open(&page->out, "cells", '[');
    for (unsigned row = 0; row < HANDOVER_ROWS; row++) {
        timeline_json_open(&page->out, NULL, '[');
        for (unsigned column = 0; column < HANDOVER_COLUMNS; column++)
            timeline_json_number(&page->out, NULL, cells[row][column]);
        timeline_json_close(&page->out, ']');
    }
    timeline_json_close(&page->out, ']');
}

static int compare_slowness(const void *left, const void *right)
{
    const struct timeline_handover *a = left, *b = right;

    return (a->took < b->took) - (a->took > b->took);
}

/* Sorts them. */
static void put_slowest(struct timeline_page *page, const struct scale *scale,
                        struct timeline_handover *all, uint32_t count)
{
    qsort(all, count, sizeof(*all), compare_slowness);
    timeline_json_open(&page->out, "slowest", '[');
    for (uint32_t i = 0; i < count && i < SLOWEST; i++) {
        char name[40], took[24], at[32], text[160];

        timeline_lock_name(page->model, all[i].bar->lock, name);
        timeline_duration(took, all[i].took);
        timeline_moment(at, all[i].at, 1000);
        snprintf(text, sizeof(text), "%s: %s, to client %" PRIu32 " at %s (call %" PRIu64 ")", name,
                 took, page->model->lanes[all[i].bar->lane].client, at, all[i].bar->hold);
        timeline_json_open(&page->out, NULL, '{');
        timeline_json_time(&page->out, "at", all[i].at);
        timeline_json_number(&page->out, "permille",
                             (int64_t)(height_of(scale, all[i].took) * 1000));
        timeline_json_text(&page->out, "text", text);
        timeline_json_close(&page->out, '}');
    }
    timeline_json_close(&page->out, ']');
}

static void put_handovers(struct timeline_page *page)
{
    uint32_t count;
    struct timeline_handover *all = timeline_handovers(page->model, &count);

    if (!all)
        return;
    struct scale scale = choose_scale(all, count);
    timeline_json_open(&page->out, "handover", '{');
    put_scale(&page->out, &scale);
    put_cells(page, &scale, all, count);
    put_slowest(page, &scale, all, count);
    timeline_page_ticks(&page->out, 0, page->model->length);
    timeline_page_bands(&page->out, page->model, 0, page->model->length, true);
    timeline_json_close(&page->out, '}');
    free(all);
}

/* ---- the tables ---- */

static void put_faults(struct timeline_page *page)
{
    timeline_json_open(&page->out, "faults", '[');
    for (uint32_t i = 0; i < page->model->kind_count; i++) {
        const struct timeline_fault_kind *kind = &page->model->kinds[i];
        char times[32], hit[32], bound[32] = "-";

        timeline_count(times, kind->times);
        timeline_count(hit, kind->hit);
        if (page->report->verdict == TORTURE_SAFE_SO_FAR && kind->hit >= 4)
            snprintf(bound, sizeof(bound), "at most %.2g %%", 300.0 / (double)kind->hit);
        timeline_json_open(&page->out, NULL, '[');
        timeline_json_text(&page->out, NULL, kind->name);
        timeline_json_text(&page->out, NULL, times);
        timeline_json_text(&page->out, NULL, hit);
        timeline_json_text(&page->out, NULL, bound);
        timeline_json_close(&page->out, ']');
    }
    timeline_json_close(&page->out, ']');
}

static void put_rules(struct timeline_page *page)
{
    timeline_json_open(&page->out, "rules", '[');
    for (int i = 0; i < TORTURE_RULES; i++) {
        char checked[32], broken[32];

        timeline_count(checked, page->report->checked[i]);
        timeline_count(broken, page->report->broken[i]);
        timeline_json_open(&page->out, NULL, '[');
        timeline_json_text(&page->out, NULL, torture_rule_name((enum torture_rule)i));
        timeline_json_text(&page->out, NULL, torture_rule_text((enum torture_rule)i));
        timeline_json_text(&page->out, NULL, checked);
        timeline_json_text(&page->out, NULL, broken);
        timeline_json_close(&page->out, ']');
    }
    timeline_json_close(&page->out, ']');
}

static int put_data(struct timeline_page *page)
{
    const struct timeline_model *model = page->model;

    timeline_json_open(&page->out, NULL, '{');
    put_head(page);
    timeline_json_number(&page->out, "calls", model->bar_count);
    timeline_json_time(&page->out, "length", model->length);
    timeline_json_time(&page->out, "healed", model->healed);
    timeline_page_findings(page);
    if (model->bar_count > 0) {
        if (put_overview(page))
            return -1;
        put_handovers(page);
    }
    put_faults(page);
    put_rules(page);
    timeline_json_close(&page->out, '}');
    return 0;
}

/* ---- the file ---- */

static int write_page(struct timeline_page *page)
{
    const char *data = strstr(template, DATA);
    fwrite(template, 1, (size_t)(data - template), page->out.file);
    if (put_data(page))
        return -1;
    fputs(data + strlen(DATA), page->out.file);
    return 0;
}

static int fail(char error[256], const char *path, int why)
{
    char name[128];

    timeline_clean(name, sizeof(name), path, false);
    snprintf(error, 256, "cannot write the picture %s: %s", name, strerror(why));
    return -1;
}

/* A disk that is full says so at the end, if not before. */
static int finish(FILE *file, bool written)
{
    int why = written ? 0 : ENOMEM;

    if (ferror(file) && why == 0)
        why = errno ? errno : EIO;
    if (fclose(file) && why == 0)
        why = errno;
    return why;
}

int torture_timeline_html(const struct torture_history *history,
                          const struct torture_report *report,
                          const struct torture_timeline_about *about, const char *path,
                          char error[256])
{
    struct timeline_model model;
    struct timeline_page *page = calloc(1, sizeof(*page));
    struct stat status;
    bool written = false;
    int why;

    error[0] = '\0';
    if (!page || timeline_model_init(&model, history)) {
        free(page);
        return fail(error, path, ENOMEM);
    }
    *page = (struct timeline_page){ .model = &model, .report = report, .about = about };
    page->out.file = fopen(path, "we");
    if (page->out.file) {
        bool regular = fstat(fileno(page->out.file), &status) == 0 && S_ISREG(status.st_mode);

        errno = 0;
        written = write_page(page) == 0;
        why = finish(page->out.file, written);
        if (why && regular)
            remove(path);
    } else
        why = errno;
    timeline_model_release(&model);
    free(page);
    return why ? fail(error, path, why) : 0;
}
