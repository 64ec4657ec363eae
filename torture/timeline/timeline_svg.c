/* SPDX-License-Identifier: Apache-2.0 */
/* What all drawings of the page share: the scale, the axis of time, the bands of faults. */
#include "torture/timeline/timeline_svg.h"

#include "torture/timeline/timeline_words.h"

#include <string.h>

double timeline_x(const struct timeline_axis *axis, int64_t at)
{
    if (at <= axis->from)
        return PICTURE_LEFT;
    if (at >= axis->to)
        return PICTURE_RIGHT;
    return PICTURE_LEFT + (PICTURE_RIGHT - PICTURE_LEFT) * (double)(at - axis->from) /
                              (double)(axis->to - axis->from);
}

void timeline_svg_begin(FILE *file, int height, const char *label)
{
    fprintf(file, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", PICTURE_WIDTH, height);
    timeline_escape(file, label);
    fputs("\">\n", file);
}

void timeline_svg_end(FILE *file)
{
    fputs("</svg>\n", file);
}

void timeline_svg_time_axis(FILE *file, const struct timeline_axis *axis, int top, int bottom)
{
    struct timeline_ticks ticks;

    timeline_ticks_init(&ticks, axis->from, axis->to, 9);
    for (int64_t at = ticks.first; at <= ticks.last; at += ticks.step) {
        double x = timeline_x(axis, at);
        char text[32];

        timeline_tick_text(text, &ticks, at);
        fprintf(file, "<path class=\"grid\" d=\"M%.1f %dV%d\"/>", x, top, bottom + 4);
        if (x <= PICTURE_RIGHT - 24) {
            fprintf(file, "<text class=\"soft mid\" x=\"%.1f\" y=\"%d\">", x, bottom + 18);
            timeline_escape(file, text);
            fputs("</text>\n", file);
        }
    }
}

void timeline_svg_row_name(FILE *file, int middle, const char *name)
{
    char text[64], shown[64];

    timeline_clean(text, sizeof(text), name, false);
    if (timeline_columns(text) <= 17)
        snprintf(shown, sizeof(shown), "%s", text);
    else {
        timeline_clean(shown, 16, text, false);
        snprintf(shown + strlen(shown), sizeof(shown) - strlen(shown), "…");
    }
    fprintf(file, "<text class=\"end\" x=\"%d\" y=\"%d\">", PICTURE_LEFT - 10, middle + 4);
    timeline_escape(file, shown);
    fputs("</text>\n", file);
}

/* Each begins where the one before has ended: there are no more of them than pixels. */
void timeline_svg_bands(FILE *file, const struct timeline_model *model,
                        const struct timeline_axis *axis, bool hit, int top, int bottom)
{
    double covered = 0;

    for (uint32_t i = 0; i < model->fault_count; i++) {
        const struct timeline_fault *fault = &model->faults[i];
        double left = timeline_x(axis, fault->on), right = timeline_x(axis, fault->off);

        if (fault->off < axis->from || fault->on > axis->to ||
            (hit ? fault->hits == 0 : fault->lane != PICTURE_NONE))
            continue;
        left = left > covered ? left : covered;
        right = right > left + 1 ? right : left + 1;
        if (right > PICTURE_RIGHT || right <= covered)
            continue;
        fprintf(file,
                "<rect class=\"band\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"><title>",
                left, top, right - left, bottom - top);
        timeline_escape(file, model->kinds[fault->kind].name);
        fputs("</title></rect>\n", file);
        covered = right;
    }
}
