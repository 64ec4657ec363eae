/* SPDX-License-Identifier: Apache-2.0 */
/* One moment of a run, seen from near: which stretch of time, which lanes, which bars. */
#ifndef HF_TORTURE_TIMELINE_TIMELINE_SCENE_H
#define HF_TORTURE_TIMELINE_TIMELINE_SCENE_H

#include "torture/check/verdict.h"
#include "torture/timeline/timeline_model.h"

/* More than this is no close-up. */
#define PICTURE_SCENE_LANES 12u
#define PICTURE_SCENE_ROWS 4u
#define PICTURE_SCENE_ITEMS 300u

struct timeline_item {
    const struct timeline_bar *bar;
    uint8_t lane;   /* an index of the scene's lanes */
    uint8_t row;    /* bars of one lane that overlap lie below each other */
    uint8_t guilty; /* 1: the finding's first hold, 2: its second, ...; 0: a bystander */
};

struct timeline_scene {
    const struct timeline_model *model;
    const struct torture_finding *finding; /* NULL: a moment of a clean run */
    const struct timeline_fault *fault;    /* what such a moment is about, or NULL */
    uint16_t lock;
    int64_t from, to;
    int64_t key_from, key_to; /* the moment that the finding is about */
    bool overlap;             /* in it, beliefs overlap that must not */
    unsigned guilty_count;
    const struct timeline_bar *guilty[3];
    uint32_t lanes[PICTURE_SCENE_LANES]; /* the model's, rising */
    uint8_t rows[PICTURE_SCENE_LANES];
    struct timeline_item items[PICTURE_SCENE_ITEMS];
    unsigned lane_count, item_count;
    uint64_t left_out; /* bars for which there was no room */
    unsigned token_skip;
};

/* The moment that a finding is about. */
void timeline_scene_of_finding(struct timeline_scene *scene, const struct timeline_model *model,
                               const struct torture_finding *finding);
/* A moment worth a look in a run without findings: a fault that hit while others wanted the lock,
 * or the longest wait. False: there is none. */
bool timeline_scene_of_clean_run(struct timeline_scene *scene, const struct timeline_model *model);

/* The index in the scene's lanes; -1: not in it. */
int timeline_scene_lane(const struct timeline_scene *scene, uint32_t lane);
/* The token without the digits that all tokens of the scene begin with. */
void timeline_scene_token(const struct timeline_scene *scene, uint64_t token, const char *ellipsis,
                          char text[32]);

#endif
