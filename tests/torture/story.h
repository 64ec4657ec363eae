/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the random histories: a play with a few actors, and its store. */
#ifndef TESTS_TORTURE_STORY_H
#define TESTS_TORTURE_STORY_H

#include "oracle.h"

#define CLIENTS_MAX 4u
#define ENTRIES_MAX STORY_CALLS

enum phase { IDLE, ASKING, ANSWERED, RELEASING, RELEASED, CHANGING, CHANGED, RENEWING, RENEWED };

struct entry {
    bool inside;
    uint64_t operation, owner, token;
    int64_t deadline_ns; /* the store keeps it up to here */
    uint32_t weight;
    uint8_t share;
};

struct actor {
    enum phase phase;
    uint64_t operation; /* of the call under way */
    uint64_t holds[2];  /* operations, the outermost first */
    unsigned hold_count, generation;
    struct torture_record ask; /* the invocation of the call under way */
    bool granted, changed;
};

struct play {
    struct story *story;
    const struct story_kind *kind;
    struct actor actors[CLIENTS_MAX];
    struct entry entries[ENTRIES_MAX];
    unsigned entry_count;
    uint64_t queue[STORY_CALLS];
    unsigned queue_length, calls;
    uint64_t last_operation, last_token;
};

/* ---- dice, time and records ---- */

bool story_chance(struct play *play, unsigned percent);
unsigned story_below(struct play *play, unsigned limit);
bool story_errs(struct play *play);
int64_t story_now_ns(const struct play *play);
int64_t story_soon_ns(struct play *play);
void story_say(struct play *play, struct torture_record record, enum torture_kind kind);

/* ---- the store ---- */

struct entry *story_entry_of(struct play *play, uint64_t operation);
void story_expire(struct play *play);
bool story_is_free(const struct play *play, uint64_t operation, uint64_t owner, uint32_t weight,
                   unsigned share);
void story_admit(struct play *play, struct actor *actor);
void story_leave_queue(struct play *play, uint64_t operation);
/* Whether somebody else stands in line, where whoever asks does. */
bool story_is_behind(const struct play *play, const struct actor *actor);
bool story_is_queued(const struct play *play, uint64_t operation);

/* ---- latches ---- */

void story_count_down_and_look(struct play *play);

#endif
