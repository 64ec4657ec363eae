/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the page that shows what was found: a sentence, a close-up, and the calls in words.
 */
#include "torture/timeline/timeline_page.h"
#include "torture/timeline/timeline_svg.h"
#include "torture/timeline/timeline_words.h"

#include <inttypes.h>

static void write_legend(struct timeline_page *page)
{
    static const struct {
        const char *drawing, *text;
    } entries[] = {
        { "<rect class=\"wait\" y=\"4\" width=\"26\" height=\"6\"/>", "waits" },
        { "<rect class=\"hold\" width=\"26\" height=\"14\"/>", "believes to hold, with token" },
        { "<rect class=\"share\" width=\"26\" height=\"14\"/>", "shares it, as a reader" },
        { "<rect class=\"tail\" y=\"5\" width=\"26\" height=\"4\"/>", "release under way" },
        { "<rect class=\"maybe\" x=\"1\" y=\"1\" width=\"24\" height=\"12\"/>",
          "the store may still hold it for a dead or unanswered client" },
        { "<rect class=\"clash\" width=\"26\" height=\"14\"/>", "beliefs overlap" },
        { "<rect class=\"band\" width=\"26\" height=\"14\"/>"
          "<rect class=\"stop\" y=\"9\" width=\"26\" height=\"5\"/>",
          "a fault; with a solid bar: aimed at this client" },
        { "<path class=\"cross\" d=\"M7 1l12 12m0 -12l-12 12\"/>", "killed (the large cross)" },
        { "<path class=\"mark\" d=\"M10 4l6 6m0 -6l-6 6\"/>",
          "refused (the small cross, at the end of a wait)" },
        { "<text class=\"mid\" x=\"13\" y=\"11\">?</text>", "no reply, at the end of a wait" },
        { "<path class=\"mark\" d=\"M9 7l4 -4l4 4l-4 4z\"/>", "write" },
        { "<path class=\"mark\" d=\"M9 3l8 8m0 -8l-8 8\"/>", "write that the resource refused" },
        { "<path class=\"mark\" d=\"M3 10l4 -7l4 7z\"/><path class=\"mark\" d=\"M15 4l4 7l4 "
          "-7z\"/>",
          "mode raised, lowered" },
    };

    fputs("<ul class=\"legend\">\n", page->file);
    for (unsigned i = 0; i < sizeof(entries) / sizeof(*entries); i++)
        fprintf(page->file, "<li><svg viewBox=\"0 0 26 14\" aria-hidden=\"true\">%s</svg>%s</li>\n",
                entries[i].drawing, entries[i].text);
    fputs("</ul>\n", page->file);
}

/* In words: which calls a finding is about. */
static void write_holds(struct timeline_page *page, const struct torture_finding *finding)
{
    unsigned letter = 0;

    fputs("<table class=\"holds\">\n", page->file);
    for (unsigned i = 0; i < finding->hold_count && i < 3; i++) {
        const struct timeline_bar *bar = timeline_find_bar(page->model, finding->holds[i]);
        char text[256];

        if (!finding->holds[i])
            continue;
        fprintf(page->file,
                "<tr><td><span class=\"badge\">%c</span></td><td class=\"n\">call %" PRIu64 "</td>",
                'A' + letter++, finding->holds[i]);
        if (bar) {
            timeline_describe(text, sizeof(text), bar);
            fprintf(page->file, "<td>client %" PRIu32 "</td><td>",
                    page->model->lanes[bar->lane].client);
            timeline_escape(page->file, text);
            fputs("</td></tr>\n", page->file);
        } else
            fputs("<td>?</td><td>not in the history</td></tr>\n", page->file);
    }
    fputs("</table>\n", page->file);
}

/* What a reader looks for first, and may lie far outside of a close-up. */
static void write_cause(struct timeline_page *page, const struct timeline_scene *scene)
{
    const struct timeline_model *model = page->model;
    const struct timeline_fault *cause = NULL;
    char before[24];

    for (uint32_t i = 0; i < model->fault_count; i++) {
        const struct timeline_fault *fault = &model->faults[i];
        if (fault->hits && fault->on <= scene->key_from && (!cause || fault->on > cause->on))
            cause = fault;
    }
    if (!scene->finding || !cause)
        return;
    timeline_duration(before, scene->key_from - cause->on);
    fputs(" The last fault that hit before it: <b>", page->file);
    timeline_escape(page->file, model->kinds[cause->kind].name);
    fprintf(page->file, "</b>, begun %s earlier.", before);
}

static void write_drawing(struct timeline_page *page, const struct timeline_scene *scene)
{
    char name[40], count[32];

    timeline_lock_name(page->model, scene->lock, name);
    fputs("<figure>", page->file);
    timeline_svg_scene(page->file, scene);
    fputs("<figcaption>Lock <b>", page->file);
    timeline_escape(page->file, name);
    fputs("</b> only.", page->file);
    if (scene->token_skip > 1)
        fputs(" Tokens are shown without the digits that they all begin with.", page->file);
    if (scene->left_out) {
        timeline_count(count, scene->left_out);
        fprintf(page->file, " %s more calls in this window are not drawn.", count);
    }
    write_cause(page, scene);
    fputs("</figcaption></figure>\n", page->file);
}

static void write_sentence(struct timeline_page *page, const struct torture_finding *finding)
{
    fprintf(page->file, "<p class=\"finding\"><b>%s, %s.</b> ", torture_rule_name(finding->rule),
            torture_rule_text(finding->rule));
    timeline_escape(page->file, finding->sentence);
    fprintf(page->file, " <span class=\"note\">(records %" PRIu64 " to %" PRIu64 ")</span></p>\n",
            finding->from, finding->to);
}

/* A report keeps the first ones only. */
static void write_rest(struct timeline_page *page)
{
    uint64_t broken = 0;
    char count[32];

    for (int i = 0; i < TORTURE_RULES; i++)
        broken += page->report->broken[i];
    if (broken <= page->report->finding_count)
        return;
    timeline_count(count, broken);
    fprintf(page->file, "<p class=\"note\">These are %u of %s.</p>\n", page->report->finding_count,
            count);
}

/* ---- findings about one hold ---- */

/* The operation of the hold that was granted first; 0: there is none. */
static uint64_t older_hold(const struct timeline_page *page, const struct torture_finding *finding)
{
    uint64_t older = 0;
    int64_t granted = PICTURE_NEVER;

    for (unsigned i = 0; i < finding->hold_count && i < 3; i++) {
        const struct timeline_bar *bar = timeline_find_bar(page->model, finding->holds[i]);
        if (bar && bar->granted < granted) {
            granted = bar->granted;
            older = finding->holds[i];
        }
    }
    return older;
}

static bool is_about(const struct timeline_page *page, unsigned finding, uint64_t hold)
{
    return hold && older_hold(page, &page->report->findings[finding]) == hold;
}

static void choose_heads(struct timeline_page *page)
{
    for (unsigned i = 0; i < page->report->finding_count; i++) {
        uint64_t hold = older_hold(page, &page->report->findings[i]);
        bool known = false;

        for (unsigned j = 0; j < page->head_count; j++)
            known |= is_about(page, page->heads[j], hold);
        if (!known)
            page->heads[page->head_count++] = i;
    }
}

static void write_others(struct timeline_page *page, unsigned head)
{
    const struct torture_report *report = page->report;
    uint64_t hold = older_hold(page, &report->findings[head]);
    unsigned count = 0;

    for (unsigned i = head + 1; i < report->finding_count; i++)
        count += is_about(page, i, hold);
    if (count == 0)
        return;
    fprintf(page->file, "<details><summary>%u more %s the same hold, call %" PRIu64 "</summary>\n",
            count, count == 1 ? "finding accuses" : "findings accuse", hold);
    for (unsigned i = head + 1; i < report->finding_count; i++)
        if (is_about(page, i, hold)) {
            write_sentence(page, &report->findings[i]);
            write_holds(page, &report->findings[i]);
        }
    fputs("</details>\n", page->file);
}

void timeline_page_findings(struct timeline_page *page)
{
    fputs("<h2>What was found</h2>\n", page->file);
    for (unsigned i = 0; i < page->head_count; i++) {
        const struct torture_finding *finding = &page->report->findings[page->heads[i]];

        fprintf(page->file, "<section id=\"near-%u\">\n", i + 1);
        write_sentence(page, finding);
        if (i < page->scene_count && page->scenes[i].item_count > 0)
            write_drawing(page, &page->scenes[i]);
        write_holds(page, finding);
        write_others(page, page->heads[i]);
        if (i == 0)
            write_legend(page);
        fputs("</section>\n", page->file);
    }
    write_rest(page);
}

void timeline_page_clean_moment(struct timeline_page *page)
{
    const struct timeline_scene *scene = &page->scenes[0];

    if (page->scene_count == 0)
        return;
    fputs("<section id=\"near-1\">\n<h2>", page->file);
    if (scene->fault) {
        fputs("A fault that hit: ", page->file);
        timeline_escape(page->file, page->model->kinds[scene->fault->kind].name);
    } else
        fputs("The longest wait", page->file);
    fputs("</h2>\n", page->file);
    write_drawing(page, scene);
    write_legend(page);
    fputs("</section>\n", page->file);
}

void timeline_page_scenes(struct timeline_page *page)
{
    const struct torture_report *report = page->report;

    choose_heads(page);
    for (unsigned i = 0; i < page->head_count && i < PICTURE_PAGE_SCENES; i++)
        timeline_scene_of_finding(&page->scenes[page->scene_count++], page->model,
                                  &report->findings[page->heads[i]]);
    if (report->finding_count == 0 && timeline_scene_of_clean_run(&page->scenes[0], page->model))
        page->scene_count = 1;
}
