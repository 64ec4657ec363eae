/* SPDX-License-Identifier: Apache-2.0 */
/* The page: the verdict, what it is made of, the close-ups, the whole run, and the tables. */
#include "torture/timeline/timeline.h"
#include "torture/timeline/timeline_page.h"
#include "torture/timeline/timeline_svg.h"
#include "torture/timeline/timeline_words.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- The head ---- */

/* Each verdict has a shape of its own: a triangle, a ring, a diamond. */
static const char *verdict_shape(enum torture_verdict verdict)
{
    switch (verdict) {
    case TORTURE_VIOLATION:
        return "<path fill=\"currentColor\" d=\"M20 2L39 37H1z\"/>"
               "<path stroke=\"var(--paper)\" stroke-width=\"4\" d=\"M20 14V25M20 29V33\"/>";
    case TORTURE_SAFE_SO_FAR:
        return "<circle cx=\"20\" cy=\"20\" r=\"16\" fill=\"none\" stroke=\"currentColor\" "
               "stroke-width=\"6\"/>";
    case TORTURE_INCONCLUSIVE:
    default:
        return "<path fill=\"none\" stroke=\"currentColor\" stroke-width=\"5\" "
               "d=\"M20 4L36 20L20 36L4 20z\"/>";
    }
}

static void write_head(struct timeline_page *page)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
          "<meta charset=\"utf-8\"/>\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
          page->file);
    fprintf(page->file, "%s: ", torture_verdict_name(page->report->verdict));
    timeline_escape(page->file, page->about->title);
    fputs("</title>\n<style>\n", page->file);
    timeline_svg_style(page->file);
    fputs("</style>\n</head>\n<body>\n", page->file);
    timeline_svg_patterns(page->file);
    fputs("<main>\n", page->file);
}

static void write_lead(struct timeline_page *page)
{
    const struct torture_report *report = page->report;
    char bound[128];

    fputs("<p class=\"lead\">", page->file);
    if (report->verdict == TORTURE_VIOLATION && report->finding_count > 0)
        timeline_escape(page->file, report->findings[0].sentence);
    else if (report->verdict == TORTURE_INCONCLUSIVE)
        timeline_escape(page->file, report->reason);
    else if (timeline_bound(bound, report)) {
        fputc('N', page->file);
        timeline_escape(page->file, bound + 1);
    } else
        fputs("No rule was broken, and no fault was there to break it.", page->file);
    fputs("</p>\n", page->file);
}

static void write_paragraph(struct timeline_page *page, const char *class, const char *text)
{
    if (!text)
        return;
    fprintf(page->file, "<p class=\"%s\">", class);
    timeline_escape(page->file, text);
    fputs("</p>\n", page->file);
}

static void write_damage(struct timeline_page *page)
{
    const struct torture_history *history = page->model->history;

    if (history->torn + history->missing + history->duplicate + history->dropped == 0)
        return;
    fprintf(page->file,
            "<p class=\"finding\"><b>The history is damaged</b>: %" PRIu64 " records torn, %" PRIu64
            " missing, %" PRIu64 " duplicate, %" PRIu64
            " dropped. What is drawn is what is left.</p>\n",
            history->torn, history->missing, history->duplicate, history->dropped);
}

static void write_figure(struct timeline_page *page, const char *name, uint64_t count)
{
    char text[32];

    timeline_count(text, count);
    fprintf(page->file, "<div><dt>%s</dt><dd>%s</dd></div>\n", name, text);
}

static void write_figures(struct timeline_page *page)
{
    const struct torture_report *report = page->report;
    char wait[24];

    fputs("<dl class=\"figures\">\n", page->file);
    write_figure(page, "grants", report->grants);
    write_figure(page, "waited for", report->contended);
    write_figure(page, "refused", report->refusals);
    write_figure(page, "no answer", report->unknowns);
    write_figure(page, "lost", report->losses);
    write_figure(page, "clients killed", report->crashes);
    write_figure(page, "faults", report->faults);
    write_figure(page, "of which hit", report->fault_hits);
    timeline_duration(wait, report->longest_wait_ns);
    fprintf(page->file, "<div><dt>longest wait</dt><dd>%s</dd></div>\n</dl>\n", wait);
}

static void write_verdict(struct timeline_page *page)
{
    enum torture_verdict verdict = page->report->verdict;
    const struct timeline_model *model = page->model;

    fputs("<header>\n<div class=\"run\">", page->file);
    timeline_escape(page->file, page->about->title);
    fprintf(page->file, " &#183; run %016" PRIx64 " &#183; %" PRIu32 " %s &#183; %.1f s</div>\n",
            model->history->run, model->lane_count, model->lane_count == 1 ? "client" : "clients",
            model->history->count ? (double)model->length / 1e9 : 0.0);
    fprintf(page->file, "<h1 class=\"%s\"><svg viewBox=\"0 0 40 40\" aria-hidden=\"true\">%s</svg>",
            torture_verdict_name(verdict), verdict_shape(verdict));
    fprintf(page->file, "%s</h1>\n", torture_verdict_name(verdict));
    write_lead(page);
    write_paragraph(page, "finding", page->about->promise);
    write_damage(page);
    write_paragraph(page, "note", page->about->facts);
    write_figures(page);
    fputs("</header>\n", page->file);
}

/* ---- The whole run, and the tables ---- */

static int write_overview(struct timeline_page *page)
{
    const struct timeline_model *model = page->model;

    fputs("<h2>The whole run</h2>\n<p class=\"note\">The height of a column is the share of its "
          "time in which the client held (coloured) or waited for (grey) a lock. The solid strip "
          "below: a fault was aimed at it. Above: faults of each kind, filled where they "
          "hit.</p>\n<figure>",
          page->file);
    if (timeline_svg_overview(page->file, page->model, page->scenes, page->scene_count))
        return -1;
    if (model->lane_count > PICTURE_OVERVIEW_LANES)
        fprintf(page->file, "<figcaption>%" PRIu32 " more clients are not drawn.</figcaption>",
                model->lane_count - PICTURE_OVERVIEW_LANES);
    fputs("</figure>\n", page->file);
    return 0;
}

static void write_handover(struct timeline_page *page)
{
    fputs("<h2>Hand-over</h2>\n<p class=\"note\">How long a mutex was free while a client "
          "waited: from the end of a belief, however it ended, to the next grant. Bands: "
          "faults that hit. Circles: the slowest five.</p>\n<figure>",
          page->file);
    if (!timeline_svg_handover(page->file, page->model))
        fputs("<p class=\"note\">No mutex was handed over to a waiter.</p>", page->file);
    fputs("</figure>\n", page->file);
}

static void write_faults(struct timeline_page *page)
{
    const struct timeline_model *model = page->model;

    fputs("<h2>Faults</h2>\n", page->file);
    if (model->kind_count == 0) {
        fputs("<p class=\"note\">There were none.</p>\n", page->file);
        return;
    }
    fputs("<table class=\"narrow\">\n<tr><th>fault</th><th class=\"n\">begun</th><th "
          "class=\"n\">hit</th>"
          "<th class=\"n\">a violation, per hit, at 95 %</th></tr>\n",
          page->file);
    for (uint32_t i = 0; i < model->kind_count; i++) {
        const struct timeline_fault_kind *kind = &model->kinds[i];
        char times[32], hit[32], bound[32] = "-";

        timeline_count(times, kind->times);
        timeline_count(hit, kind->hit);
        if (page->report->verdict == TORTURE_SAFE_SO_FAR && kind->hit >= 4)
            snprintf(bound, sizeof(bound), "at most %.2g %%", 300.0 / (double)kind->hit);
        fputs("<tr><td>", page->file);
        timeline_escape(page->file, kind->name);
        fprintf(page->file,
                "</td><td class=\"n\">%s</td><td class=\"n\">%s</td><td class=\"n\">%s</td></tr>\n",
                times, hit, bound);
    }
    fputs("</table>\n", page->file);
}

static void write_rules(struct timeline_page *page)
{
    fputs("<h2>Rules</h2>\n<table>\n<tr><th>rule</th><th></th><th class=\"n\">checked</th>"
          "<th class=\"n\">broken</th></tr>\n",
          page->file);
    for (int i = 0; i < TORTURE_RULES; i++) {
        char checked[32], broken[32];

        timeline_count(checked, page->report->checked[i]);
        timeline_count(broken, page->report->broken[i]);
        fprintf(page->file,
                "<tr%s><td>%s</td><td>%s</td><td class=\"n\">%s</td><td class=\"n\">%s</td></tr>\n",
                page->report->broken[i] ? " class=\"broken\"" : "",
                torture_rule_name((enum torture_rule)i), torture_rule_text((enum torture_rule)i),
                checked, broken);
    }
    fputs("</table>\n", page->file);
}

static int write_page(struct timeline_page *page)
{
    write_head(page);
    write_verdict(page);
    if (page->model->bar_count == 0)
        fputs("<p class=\"lead\">Nothing was recorded: there is nothing to draw.</p>\n",
              page->file);
    timeline_page_scenes(page);
    if (page->report->finding_count > 0)
        timeline_page_findings(page);
    else
        timeline_page_clean_moment(page);
    if (page->model->bar_count > 0) {
        if (write_overview(page))
            return -1;
        write_handover(page);
    }
    write_faults(page);
    write_rules(page);
    fputs("</main>\n</body>\n</html>\n", page->file);
    return 0;
}

/* ---- The file ---- */

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
    page->file = fopen(path, "we");
    if (page->file) {
        bool regular = fstat(fileno(page->file), &status) == 0 && S_ISREG(status.st_mode);

        errno = 0;
        written = write_page(page) == 0;
        why = finish(page->file, written);
        if (why && regular)
            remove(path);
    } else
        why = errno;
    timeline_model_release(&model);
    free(page);
    return why ? fail(error, path, why) : 0;
}
