/* SPDX-License-Identifier: Apache-2.0 */
/* What was found, as JSON: sentences, the calls in words, and close-ups. */
#include "torture/timeline/timeline_page.h"
#include "torture/timeline/timeline_words.h"

#include <inttypes.h>

/* In words: which calls a finding is about. */
static void put_holds(struct timeline_page *page, const struct torture_finding *finding)
{
    timeline_json_open(&page->out, "holds", '[');
    for (unsigned i = 0; i < finding->hold_count && i < 3; i++) {
        const struct timeline_bar *bar = timeline_find_bar(page->model, finding->holds[i]);
        char text[256] = "not in the history", client[32] = "?", call[32];

        if (!finding->holds[i])
            continue;
        if (bar) {
            timeline_describe(text, sizeof(text), bar);
            snprintf(client, sizeof(client), "client %" PRIu32,
                     page->model->lanes[bar->lane].client);
        }
        snprintf(call, sizeof(call), "call %" PRIu64, finding->holds[i]);
        timeline_json_open(&page->out, NULL, '[');
        timeline_json_text(&page->out, NULL, call);
        timeline_json_text(&page->out, NULL, client);
        timeline_json_text(&page->out, NULL, text);
        timeline_json_close(&page->out, ']');
    }
    timeline_json_close(&page->out, ']');
}

/* Its object stays open. */
static void put_finding(struct timeline_page *page, const struct torture_finding *finding)
{
    char records[80];

    timeline_json_open(&page->out, NULL, '{');
    timeline_json_text(&page->out, "rule", torture_rule_name(finding->rule));
    timeline_json_text(&page->out, "says", torture_rule_text(finding->rule));
    timeline_json_text(&page->out, "sentence", finding->sentence);
    snprintf(records, sizeof(records), "records %" PRIu64 " to %" PRIu64, finding->from,
             finding->to);
    timeline_json_text(&page->out, "records", records);
    put_holds(page, finding);
}

/* A report keeps the first ones only. */
static void put_rest(struct timeline_page *page)
{
    uint64_t broken = 0;
    char count[32], text[80];

    for (int i = 0; i < TORTURE_RULES; i++)
        broken += page->report->broken[i];
    timeline_count(count, broken);
    snprintf(text, sizeof(text), "These are %u of %s.", page->report->finding_count, count);
    if (broken > page->report->finding_count)
        timeline_json_text(&page->out, "rest", text);
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

static void put_others(struct timeline_page *page, unsigned head)
{
    const struct torture_report *report = page->report;
    uint64_t hold = older_hold(page, &report->findings[head]);
    unsigned count = 0;
    char text[100];

    timeline_json_open(&page->out, "others", '[');
    for (unsigned i = head + 1; i < report->finding_count; i++)
        if (is_about(page, i, hold)) {
            count++;
            put_finding(page, &report->findings[i]);
            timeline_json_close(&page->out, '}');
        }
    timeline_json_close(&page->out, ']');
    snprintf(text, sizeof(text), "%u more %s the same hold, call %" PRIu64, count,
             count == 1 ? "finding accuses" : "findings accuse", hold);
    if (count > 0)
        timeline_json_text(&page->out, "othersSay", text);
}

static void put_clean_moment(struct timeline_page *page)
{
    static struct timeline_scene scene;
    char heading[80] = "The longest wait";

    if (!timeline_scene_of_clean_run(&scene, page->model))
        return;
    if (scene.fault)
        snprintf(heading, sizeof(heading), "A fault that hit: %s",
                 page->model->kinds[scene.fault->kind].name);
    timeline_json_text(&page->out, "clean", heading);
    timeline_page_scene(page, "cleanScene", &scene);
}

void timeline_page_findings(struct timeline_page *page)
{
    static struct timeline_scene scene;

    choose_heads(page);
    timeline_json_open(&page->out, "findings", '[');
    for (unsigned i = 0; i < page->head_count; i++) {
        const struct torture_finding *finding = &page->report->findings[page->heads[i]];

        put_finding(page, finding);
        if (i < PICTURE_PAGE_SCENES) {
            timeline_scene_of_finding(&scene, page->model, finding);
            timeline_page_scene(page, "scene", &scene);
        }
        put_others(page, page->heads[i]);
        timeline_json_close(&page->out, '}');
    }
    timeline_json_close(&page->out, ']');
    put_rest(page);
    if (page->report->finding_count == 0)
        put_clean_moment(page);
}
