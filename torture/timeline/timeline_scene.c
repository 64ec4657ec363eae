/* SPDX-License-Identifier: Apache-2.0 */
/* Fills a close-up: the bars in a stretch of time, in lanes and rows. */
#include "torture/timeline/timeline_scene.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CANDIDATES = 64, NEIGHBOURS = 3 };

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool in_window(const struct timeline_scene *scene, const struct timeline_bar *bar)
{
    return bar->lock == scene->lock && bar->asked <= scene->to &&
           timeline_bar_last(bar) >= scene->from;
}

static uint8_t guilt(const struct timeline_scene *scene, const struct timeline_bar *bar)
{
    for (unsigned i = 0; i < scene->guilty_count; i++)
        if (scene->guilty[i] == bar)
            return (uint8_t)(i + 1);
    return 0;
}

int timeline_scene_lane(const struct timeline_scene *scene, uint32_t lane)
{
    for (unsigned i = 0; i < scene->lane_count; i++)
        if (scene->lanes[i] == lane)
            return (int)i;
    return -1;
}

static int compare_lanes(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

    return (a > b) - (a < b);
}

static bool admit_lane(struct timeline_scene *scene, uint32_t lane)
{
    if (timeline_scene_lane(scene, lane) >= 0)
        return true;
    if (scene->lane_count == PICTURE_SCENE_LANES)
        return false;
    scene->lanes[scene->lane_count++] = lane;
    return true;
}

static void add_item(struct timeline_scene *scene, const struct timeline_bar *bar)
{
    if (scene->item_count == PICTURE_SCENE_ITEMS || !admit_lane(scene, bar->lane)) {
        scene->left_out++;
        return;
    }
    scene->items[scene->item_count++] =
        (struct timeline_item){ .bar = bar, .guilty = guilt(scene, bar) };
}

static int compare_items(const void *left, const void *right)
{
    const struct timeline_item *a = left, *b = right;

    return (a->bar > b->bar) - (a->bar < b->bar);
}

/* Each bar takes the first row of its lane that is free; the last row takes what is left. */
static void pack_rows(struct timeline_scene *scene)
{
    int64_t busy[PICTURE_SCENE_LANES][PICTURE_SCENE_ROWS];

    memset(busy, 0xff, sizeof(busy));
    for (unsigned i = 0; i < scene->item_count; i++) {
        struct timeline_item *item = &scene->items[i];
        uint8_t row = 0;

        item->lane = (uint8_t)timeline_scene_lane(scene, item->bar->lane);
        while (row < PICTURE_SCENE_ROWS - 1 && busy[item->lane][row] > item->bar->asked)
            row++;
        busy[item->lane][row] = timeline_bar_last(item->bar);
        item->row = row;
        if (scene->rows[item->lane] <= row)
            scene->rows[item->lane] = (uint8_t)(row + 1);
    }
}

/* Tokens may be clock values of sixteen digits, of which the last few tell them apart. */
static void skip_digits(struct timeline_scene *scene)
{
    uint64_t low = UINT64_MAX, high = 0;
    char first[24], last[24];
    unsigned same = 0;

    for (unsigned i = 0; i < scene->item_count; i++) {
        uint64_t token = scene->items[i].bar->token;

        if (token != 0 && token < low)
            low = token;
        if (token > high)
            high = token;
    }
    if (high == 0)
        return;
    snprintf(first, sizeof(first), "%" PRIu64, low);
    snprintf(last, sizeof(last), "%" PRIu64, high);
    if (strlen(first) != strlen(last))
        return;
    while (first[same] && first[same] == last[same])
        same++;
    if (strlen(first) > 5)
        scene->token_skip = same < strlen(first) - 3 ? same : (unsigned)strlen(first) - 3;
}

void timeline_scene_token(const struct timeline_scene *scene, uint64_t token, const char *ellipsis,
                          char text[32])
{
    char digits[24];
    size_t length = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, token);
    bool cut = scene->token_skip > 1 && length > scene->token_skip;

    snprintf(text, 32, "%s%s", cut ? ellipsis : "", digits + (cut ? scene->token_skip : 0));
}

static void fill(struct timeline_scene *scene)
{
    const struct timeline_model *model = scene->model;

    for (unsigned i = 0; i < scene->guilty_count; i++)
        add_item(scene, scene->guilty[i]);
    if (scene->fault && scene->fault->lane != PICTURE_NONE)
        admit_lane(scene, scene->fault->lane);
    for (uint32_t i = 0; i < model->bar_count; i++)
        if (in_window(scene, &model->bars[i]) && !guilt(scene, &model->bars[i]))
            add_item(scene, &model->bars[i]);
    qsort(scene->lanes, scene->lane_count, sizeof(*scene->lanes), compare_lanes);
    qsort(scene->items, scene->item_count, sizeof(*scene->items), compare_items);
    pack_rows(scene);
    skip_digits(scene);
}

static void set_window(struct timeline_scene *scene, int64_t from, int64_t to)
{
    int64_t air = (to - from) / 16 + 1000;

    scene->from = from - air < 0 ? 0 : from - air;
    scene->to = to + air < scene->model->length ? to + air : scene->model->length;
    if (scene->to <= scene->from)
        scene->to = scene->from + 1;
}

/* ---- A finding ---- */

static void find_guilty(struct timeline_scene *scene)
{
    const struct torture_finding *finding = scene->finding;

    for (unsigned i = 0; i < finding->hold_count && i < 3; i++) {
        const struct timeline_bar *bar =
            finding->holds[i] ? timeline_find_bar(scene->model, finding->holds[i]) : NULL;

        if (bar && !guilt(scene, bar))
            scene->guilty[scene->guilty_count++] = bar;
    }
}

static int64_t belief_begin(const struct timeline_bar *bar)
{
    return bar->granted == PICTURE_NEVER ? bar->asked : bar->granted;
}

/* Readers to be upgraded exclude each other, and no others. */
static bool all_upgradable(const struct timeline_scene *scene)
{
    for (unsigned i = 0; i < scene->guilty_count; i++)
        if (scene->guilty[i]->mode != TORTURE_UPGRADABLE)
            return false;
    return true;
}

/* The time in which all of the finding's holds were believed in, and one of them excluded the
 * others; `from` is not before `to` if the clock knows of none. False: none excluded any. */
static bool find_overlap(const struct timeline_scene *scene, int64_t *from, int64_t *to)
{
    *from = 0;
    *to = INT64_MAX;
    for (unsigned i = 0; i < scene->guilty_count; i++) {
        *from = later(*from, belief_begin(scene->guilty[i]));
        *to = earlier(*to, scene->guilty[i]->ended);
    }
    for (unsigned i = 0; i < scene->guilty_count; i++) {
        const struct timeline_bar *bar = scene->guilty[i];

        if (bar->raised < *to && bar->lowered > *from) {
            *from = later(*from, bar->raised);
            *to = earlier(*to, bar->lowered);
            return true;
        }
    }
    return all_upgradable(scene);
}

/* The order of the numbers has decided that beliefs overlap, even where the clock thinks otherwise;
 * but S5 is broken by tokens too. */
static void find_key(struct timeline_scene *scene)
{
    enum torture_rule rule = scene->finding->rule;
    bool exclusion = rule == TORTURE_S1 || rule == TORTURE_S5 || rule == TORTURE_S6;
    int64_t from, to;

    scene->overlap = exclusion && scene->guilty_count > 1 && find_overlap(scene, &from, &to) &&
                     (rule != TORTURE_S5 || from < to);
    if (!scene->overlap) {
        from = timeline_time_of(scene->model, scene->finding->from);
        to = timeline_time_of(scene->model, scene->finding->to);
    }
    scene->key_from = earlier(from, to);
    scene->key_to = later(from, to);
}

static void keep_nearest(int64_t nearest[NEIGHBOURS], int64_t distance)
{
    for (unsigned i = 0; i < NEIGHBOURS; i++)
        if (distance < nearest[i]) {
            int64_t further = nearest[i];

            nearest[i] = distance;
            distance = further;
        }
}

/* From the third grant before to the third one after, so that it stays a close-up, and not more air
 * than that on either side. */
static void widen(struct timeline_scene *scene, int64_t from, int64_t to, int64_t air)
{
    int64_t before[NEIGHBOURS] = { air, air, air }, after[NEIGHBOURS] = { air, air, air };

    for (uint32_t i = 0; i < scene->model->bar_count; i++) {
        const struct timeline_bar *bar = &scene->model->bars[i];

        if (bar->lock != scene->lock || bar->granted == PICTURE_NEVER)
            continue;
        if (bar->granted < from)
            keep_nearest(before, from - bar->granted);
        else if (bar->granted > to)
            keep_nearest(after, bar->granted - to);
    }
    set_window(scene, from - before[NEIGHBOURS - 1], to + after[NEIGHBOURS - 1]);
}

/* The finding's beliefs, as far as its moment stays visible between them; around a single call,
 * what its lock did before and after. */
void timeline_scene_of_finding(struct timeline_scene *scene, const struct timeline_model *model,
                               const struct torture_finding *finding)
{
    int64_t around, from, to;

    *scene = (struct timeline_scene){ .model = model, .finding = finding, .lock = finding->lock };
    find_guilty(scene);
    find_key(scene);
    from = scene->key_from;
    to = scene->key_to;
    for (unsigned i = 0; i < scene->guilty_count; i++) {
        from = earlier(from, belief_begin(scene->guilty[i]));
        to = later(to, scene->guilty[i]->ended);
    }
    around = 6 * (scene->key_to - scene->key_from) + 10000;
    from = later(from, scene->key_from - around);
    to = earlier(to, scene->key_to + around);
    if (scene->guilty_count > 1)
        set_window(scene, from, to);
    else
        widen(scene, from, to, around);
    fill(scene);
}

/* ---- A clean run ---- */

static int64_t wait_of(const struct timeline_bar *bar)
{
    return (bar->granted == PICTURE_NEVER ? bar->ended : bar->granted) - bar->asked;
}

/* Of those that overlap this time. */
static const struct timeline_bar *longest_wait(const struct timeline_model *model, int64_t from,
                                               int64_t to)
{
    const struct timeline_bar *longest = NULL;

    for (uint32_t i = 0; i < model->bar_count; i++) {
        const struct timeline_bar *bar = &model->bars[i];

        if (bar->asked <= to && bar->asked + wait_of(bar) >= from &&
            (!longest || wait_of(bar) > wait_of(longest)))
            longest = bar;
    }
    return longest;
}

/* The victim's hold, else its wait, at the time of the fault; without a victim, the longest
 * wait. */
static const struct timeline_bar *struck(const struct timeline_model *model,
                                         const struct timeline_fault *fault)
{
    const struct timeline_bar *best = NULL;

    if (fault->lane == PICTURE_NONE)
        return longest_wait(model, fault->on, fault->off);
    for (uint32_t i = 0; i < model->bar_count && model->bars[i].asked <= fault->on; i++) {
        const struct timeline_bar *bar = &model->bars[i];
        bool held = bar->granted <= fault->on;

        if (bar->lane != fault->lane || bar->ended < fault->on)
            continue;
        if (!best || held || best->granted > fault->on)
            best = bar;
    }
    return best;
}

/* A holder that others wait for is the most interesting victim. */
static uint64_t interest(const struct timeline_model *model, const struct timeline_fault *fault)
{
    const struct timeline_bar *bar = struck(model, fault);
    int64_t end = bar ? later(bar->ended, fault->off) : 0;
    uint64_t waiting = 0;

    if (!bar)
        return 0;
    for (uint32_t i = 0; i < model->bar_count && model->bars[i].asked <= end; i++) {
        const struct timeline_bar *other = &model->bars[i];

        waiting += other->lock == bar->lock && other->lane != bar->lane &&
                   other->granted >= fault->on && other->ended >= fault->on && waiting < 20;
    }
    return 1 + waiting + (bar->lane == fault->lane && bar->granted <= fault->on ? 20 : 0);
}

/* Among CANDIDATES of those that hit, evenly over the run. */
static const struct timeline_fault *best_fault(const struct timeline_model *model)
{
    const struct timeline_fault *best = NULL;
    uint32_t hit = 0, seen = 0;
    uint64_t most = 0;

    for (uint32_t i = 0; i < model->fault_count; i++)
        hit += model->faults[i].hits > 0;
    for (uint32_t i = 0; i < model->fault_count; i++) {
        const struct timeline_fault *fault = &model->faults[i];
        uint64_t score;

        if (fault->hits == 0 || seen++ % (hit / CANDIDATES + 1) != 0)
            continue;
        score = interest(model, fault);
        if (score > most) {
            most = score;
            best = fault;
        }
    }
    return best;
}

bool timeline_scene_of_clean_run(struct timeline_scene *scene, const struct timeline_model *model)
{
    const struct timeline_fault *fault = best_fault(model);
    const struct timeline_bar *bar =
        fault ? struck(model, fault) : longest_wait(model, 0, model->length);
    int64_t from, to;

    if (!bar)
        return false;
    *scene = (struct timeline_scene){ .model = model, .fault = fault, .lock = bar->lock };
    from = fault ? fault->on : bar->asked;
    to = fault ? later(fault->off, timeline_bar_last(bar)) : bar->asked + wait_of(bar);
    widen(scene, from, to, (to - from) / 3);
    fill(scene);
    return true;
}
