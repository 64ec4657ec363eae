/* SPDX-License-Identifier: Apache-2.0 */
/* A close-up as JSON: its lanes, bars, faults and marks. */
#include "torture/timeline/timeline_page.h"
#include "torture/timeline/timeline_words.h"

#include <inttypes.h>
#include <stdio.h>

enum { DRAWN = 200, BANDS = 1000 };

void timeline_page_ticks(struct timeline_json *out, int64_t from, int64_t to)
{
    struct timeline_ticks ticks;
    char text[32];

    timeline_json_open(out, "ticks", '[');
    timeline_ticks_init(&ticks, from, to, 9);
    for (int64_t at = ticks.first; at <= ticks.last; at += ticks.step) {
        timeline_tick_text(text, &ticks, at);
        timeline_json_open(out, NULL, '[');
        timeline_json_time(out, NULL, at);
        timeline_json_text(out, NULL, text);
        timeline_json_close(out, ']');
    }
    timeline_json_close(out, ']');
}

/* Each begins where the one before has ended: there are no more of them than can be seen. */
void timeline_page_bands(struct timeline_json *out, const struct timeline_model *model,
                         int64_t from, int64_t to, bool hit)
{
    int64_t least = (to - from) / BANDS, covered = from - 1;

    timeline_json_open(out, "bands", '[');
    for (uint32_t i = 0; i < model->fault_count; i++) {
        const struct timeline_fault *fault = &model->faults[i];
        int64_t begin = fault->on > covered ? fault->on : covered;
        int64_t end = fault->off > begin + least ? fault->off : begin + least;

        if (fault->off <= covered || fault->on > to ||
            (hit ? fault->hits == 0 : fault->lane != PICTURE_NONE))
            continue;
        covered = end;
        timeline_json_open(out, NULL, '[');
        timeline_json_time(out, NULL, begin);
        timeline_json_time(out, NULL, end);
        timeline_json_text(out, NULL, model->kinds[fault->kind].name);
        timeline_json_close(out, ']');
    }
    timeline_json_close(out, ']');
}

static void put_lanes(struct timeline_page *page, const struct timeline_scene *scene)
{
    timeline_json_open(&page->out, "lanes", '[');
    for (unsigned i = 0; i < scene->lane_count; i++) {
        timeline_json_open(&page->out, NULL, '{');
        timeline_json_number(&page->out, "client", page->model->lanes[scene->lanes[i]].client);
        timeline_json_number(&page->out, "rows", scene->rows[i] ? scene->rows[i] : 1);
        timeline_json_close(&page->out, '}');
    }
    timeline_json_close(&page->out, ']');
}

static void put_words(struct timeline_page *page, const struct timeline_bar *bar)
{
    const char *mode = timeline_mode_name(page->model, bar);
    char words[256], permits[40] = "", text[400];

    timeline_describe(words, sizeof(words), bar);
    if (bar->permits > 1)
        snprintf(permits, sizeof(permits), "%" PRIu32 " permits, ", bar->permits);
    snprintf(text, sizeof(text), "client %" PRIu32 ", %s%s%s%s (call %" PRIu64 ")",
             page->model->lanes[bar->lane].client, mode ? mode : "", mode ? ", " : "", permits,
             words, bar->hold);
    timeline_json_text(&page->out, "text", text);
}

/* The writer's part of a belief, `boldFrom` to `boldTo`: what comes before and after it in other
 * modes is paler. */
static void put_belief(struct timeline_page *page, const struct timeline_bar *bar)
{
    bool shares = timeline_mode_name(page->model, bar) != NULL;

    timeline_json_time(&page->out, "boldFrom", shares ? bar->raised : bar->granted);
    timeline_json_time(&page->out, "boldTo",
                       shares && bar->lowered < bar->ended ? bar->lowered : bar->ended);
}

static void put_bar(struct timeline_page *page, const struct timeline_scene *scene,
                    const struct timeline_item *item)
{
    const struct timeline_bar *bar = item->bar;
    bool granted = bar->granted != PICTURE_NEVER;
    int64_t doubt = bar->end == PICTURE_UNKNOWN && !granted ? bar->asked : bar->ended;
    char token[32];

    timeline_json_open(&page->out, NULL, '{');
    timeline_json_number(&page->out, "lane", item->lane);
    timeline_json_number(&page->out, "row", item->row);
    timeline_json_number(&page->out, "guilty", item->guilty);
    timeline_json_time(&page->out, "asked", bar->asked);
    timeline_json_time(&page->out, "granted", bar->granted);
    timeline_json_time(&page->out, "ended", bar->ended);
    timeline_json_time(&page->out, "freed", bar->freed);
    if (bar->doubtful > doubt && bar->freed < bar->doubtful) {
        timeline_json_time(&page->out, "doubtFrom", doubt);
        timeline_json_time(&page->out, "doubtTo", bar->doubtful);
    }
    if (granted)
        put_belief(page, bar);
    if (granted && bar->token) {
        timeline_scene_token(scene, bar->token, "…", token);
        timeline_json_text(&page->out, "token", token);
    }
    if (!granted)
        timeline_json_text(&page->out, "end",
                           bar->end == PICTURE_REFUSED   ? "refused"
                           : bar->end == PICTURE_UNKNOWN ? "unknown"
                                                         : NULL);
    put_words(page, bar);
    timeline_json_close(&page->out, '}');
}

static void put_faults(struct timeline_page *page, const struct timeline_scene *scene)
{
    const struct timeline_model *model = page->model;
    unsigned drawn = 0;

    timeline_json_open(&page->out, "faults", '[');
    for (uint32_t i = 0; i < model->fault_count && drawn < DRAWN; i++) {
        const struct timeline_fault *fault = &model->faults[i];
        int lane = timeline_scene_lane(scene, fault->lane);

        if (lane < 0 || fault->off < scene->from || fault->on > scene->to)
            continue;
        timeline_json_open(&page->out, NULL, '{');
        timeline_json_number(&page->out, "lane", lane);
        timeline_json_time(&page->out, "on", fault->on);
        timeline_json_time(&page->out, "off", fault->off);
        timeline_json_text(&page->out, "name", model->kinds[fault->kind].name);
        timeline_json_text(&page->out, "text", fault->hits ? "it hit" : "it did not bite");
        timeline_json_close(&page->out, '}');
        drawn++;
    }
    timeline_json_close(&page->out, ']');
}

static const char *mark_shape(const struct timeline_mark *mark)
{
    if (mark->kind == TORTURE_CRASH)
        return "killed";
    if (mark->verb == TORTURE_WRITE)
        return mark->kind == TORTURE_OK ? "write" : "refused write";
    return mark->verb == TORTURE_UPGRADE ? "raised" : "lowered";
}

static void put_mark(struct timeline_page *page, const struct timeline_mark *mark, int lane)
{
    char token[40] = "", text[120] = "killed";

    if (mark->token)
        snprintf(token, sizeof(token), ", token %" PRIu64, mark->token);
    if (mark->kind != TORTURE_CRASH)
        snprintf(text, sizeof(text), "%s: %s%s", torture_verb_name((enum torture_verb)mark->verb),
                 torture_kind_name((enum torture_kind)mark->kind), token);
    timeline_json_open(&page->out, NULL, '{');
    timeline_json_number(&page->out, "lane", lane);
    timeline_json_time(&page->out, "at", mark->at);
    timeline_json_text(&page->out, "shape", mark_shape(mark));
    timeline_json_text(&page->out, "text", text);
    timeline_json_close(&page->out, '}');
}

static void put_marks(struct timeline_page *page, const struct timeline_scene *scene)
{
    const struct timeline_model *model = page->model;
    unsigned drawn = 0;

    timeline_json_open(&page->out, "marks", '[');
    for (uint32_t i = 0; i < model->mark_count && drawn < DRAWN; i++) {
        const struct timeline_mark *mark = &model->marks[i];
        int lane = timeline_scene_lane(scene, mark->lane);

        if (lane < 0 || mark->at < scene->from || mark->at > scene->to ||
            (mark->lock != scene->lock && mark->kind != TORTURE_CRASH))
            continue;
        put_mark(page, mark, lane);
        drawn++;
    }
    timeline_json_close(&page->out, ']');
}

/* What a reader looks for first, and may lie far outside of a close-up. */
static void put_cause(struct timeline_page *page, const struct timeline_scene *scene)
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
    timeline_json_text(&page->out, "cause", model->kinds[cause->kind].name);
    timeline_json_text(&page->out, "earlier", before);
}

static void put_moment(struct timeline_page *page, const struct timeline_scene *scene)
{
    char lasted[24];

    timeline_duration(lasted, scene->key_to - scene->key_from);
    timeline_json_open(&page->out, "key", '{');
    timeline_json_time(&page->out, "from", scene->key_from);
    timeline_json_time(&page->out, "to", scene->key_to);
    timeline_json_text(&page->out, "lasted", lasted);
    timeline_json_number(&page->out, "overlap", scene->overlap);
    timeline_json_close(&page->out, '}');
}

void timeline_page_scene(struct timeline_page *page, const char *key,
                         const struct timeline_scene *scene)
{
    char name[40], count[32];

    timeline_lock_name(page->model, scene->lock, name);
    timeline_json_open(&page->out, key, '{');
    timeline_json_text(&page->out, "lock", name);
    timeline_json_time(&page->out, "from", scene->from);
    timeline_json_time(&page->out, "to", scene->to);
    if (scene->finding)
        put_moment(page, scene);
    timeline_json_number(&page->out, "tokensCut", scene->token_skip > 1);
    timeline_count(count, scene->left_out);
    timeline_json_text(&page->out, "leftOut", scene->left_out ? count : NULL);
    put_cause(page, scene);
    put_lanes(page, scene);
    timeline_json_open(&page->out, "bars", '[');
    for (unsigned i = 0; i < scene->item_count; i++)
        put_bar(page, scene, &scene->items[i]);
    timeline_json_close(&page->out, ']');
    put_faults(page, scene);
    put_marks(page, scene);
    timeline_page_ticks(&page->out, scene->from, scene->to);
    timeline_page_bands(&page->out, page->model, scene->from, scene->to, false);
    timeline_json_close(&page->out, '}');
}
