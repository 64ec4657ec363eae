/* SPDX-License-Identifier: Apache-2.0 */
/* What there is to draw: a history's records gathered into bars, marks and faults. */
#ifndef HF_TORTURE_TIMELINE_TIMELINE_MODEL_H
#define HF_TORTURE_TIMELINE_TIMELINE_MODEL_H

#include "torture/history/history.h"

/* All times are nanoseconds from the history's first record; what lies outside is moved to the
 * nearer end, so that no clock value, however wild, draws outside of the timeline. */

#define PICTURE_NEVER INT64_MAX
#define PICTURE_NONE UINT32_MAX

enum timeline_end {
    PICTURE_OPEN, /* the history ends first */
    PICTURE_RELEASED,
    PICTURE_EXPIRED,
    PICTURE_LOST,
    PICTURE_CRASHED,
    PICTURE_REFUSED,
    PICTURE_UNKNOWN,
    PICTURE_DONE /* a call about a latch: yes */
};

/* An acquisition, or a call about a latch. */
struct timeline_bar {
    uint64_t hold;
    uint64_t token;
    int64_t asked;
    int64_t granted;  /* PICTURE_NEVER: it was not */
    int64_t ended;    /* the belief; or the wait, if nothing was granted */
    int64_t freed;    /* the release was answered; `ended` if it was not */
    int64_t doubtful; /* the store may have kept it until then; `ended` if nothing is in doubt */
    int64_t deadline;
    int64_t raised, lowered; /* it excludes others from then until then; the last time */
    uint32_t lane;
    uint32_t permits;
    uint32_t next_open; /* of the same lane, while the model is built */
    uint16_t lock;
    uint8_t verb, mode;
    uint8_t end; /* a timeline_end */
};

/* What happens at one moment: a write, a change of mode, a crash. */
struct timeline_mark {
    int64_t at;
    uint64_t token;
    uint32_t lane;
    uint16_t lock;
    uint8_t kind, verb;
};

struct timeline_fault {
    int64_t on, off;
    uint64_t hits;
    uint32_t lane; /* the victim; PICTURE_NONE: everybody */
    uint32_t kind; /* an index of kinds[] */
};

#define PICTURE_KINDS 24u /* the last one stands for all that come after it */

struct timeline_fault_kind {
    char name[33];
    uint64_t times, hit;
};

struct timeline_lane {
    uint32_t client;
    uint32_t first_open; /* while the model is built */
    uint64_t grants;
};

struct timeline_lock {
    char name[33];
    uint8_t form, flags;
};

struct timeline_model {
    const struct torture_history *history;
    int64_t start; /* CLOCK_BOOTTIME of the first record */
    int64_t length;
    int64_t healed; /* PICTURE_NEVER: it was not said */
    struct timeline_lane *lanes;
    struct timeline_bar *bars; /* in the order of their invocations */
    uint32_t *by_hold;         /* indices of bars, in the order of `hold` */
    struct timeline_mark *marks;
    struct timeline_fault *faults;
    struct timeline_lock *locks; /* by the number of the lock */
    uint32_t lane_count, bar_count, mark_count, fault_count, lock_count, kind_count;
    struct timeline_fault_kind kinds[PICTURE_KINDS];
};

/* 0, or -1: no memory. */
int timeline_model_init(struct timeline_model *model, const struct torture_history *history);
void timeline_model_release(struct timeline_model *model);

/* NULL: the history has no such acquisition. */
const struct timeline_bar *timeline_find_bar(const struct timeline_model *model, uint64_t hold);
/* When the record with this number, or the next one, was written. */
int64_t timeline_time_of(const struct timeline_model *model, uint64_t number);
/* The name that the history gives, or "lock 7". */
void timeline_lock_name(const struct timeline_model *model, uint16_t lock, char name[40]);
/* The last moment at which the bar is something to draw. */
int64_t timeline_bar_last(const struct timeline_bar *bar);

/* ---- timeline_lanes.c ---- */

/* 0, or -1: there is no memory. */
int timeline_lanes_make(struct timeline_model *model);
int64_t timeline_when(const struct timeline_model *model, int64_t ns);
/* A time that can be reckoned with, whatever the record says. */
int64_t timeline_clamp(int64_t ns);
/* PICTURE_NONE: the client asked for nothing. */
uint32_t timeline_lane_of(const struct timeline_model *model, uint32_t client);
/* Whether its call is drawn; and whether that begins with this record. */
bool timeline_has_bar(const struct torture_record *record);
bool timeline_begins_bar(const struct torture_record *record);

/* ---- While the model is built ---- */

/* All of them, before what they are told. */
void timeline_begin_bars(struct timeline_model *model);
void timeline_tell_bar(struct timeline_model *model, const struct torture_record *record);
void timeline_crash(struct timeline_model *model, const struct torture_record *record);
/* Those that are open at the end of the history. */
void timeline_end_bars(struct timeline_model *model);
void timeline_fault_on(struct timeline_model *model, const struct torture_record *record);
void timeline_fault_hit(struct timeline_model *model, const struct torture_record *record);
void timeline_fault_off(struct timeline_model *model, const struct torture_record *record);

#endif
