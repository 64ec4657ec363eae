/* SPDX-License-Identifier: Apache-2.0 */
/* The store of the random histories: right, but for the errors that its kind has. */
#include "story.h"

struct entry *story_entry_of(struct play *play, uint64_t operation)
{
    for (unsigned i = 0; i < play->entry_count; i++)
        if (play->entries[i].operation == operation)
            return &play->entries[i];
    return NULL;
}

static bool shares_conflict(const struct play *play, unsigned a, unsigned b)
{
    if (play->kind->form != TORTURE_RW || a == TORTURE_EXCLUSIVE || b == TORTURE_EXCLUSIVE)
        return true;
    return a == TORTURE_UPGRADABLE && b == TORTURE_UPGRADABLE;
}

void story_expire(struct play *play)
{
    for (unsigned i = 0; i < play->entry_count; i++)
        if (play->entries[i].deadline_ns <= story_now_ns(play) && story_chance(play, 60))
            play->entries[i].inside = false;
        else if (play->kind->leases && story_chance(play, 1))
            play->entries[i].inside = false;
}

bool story_is_free(const struct play *play, uint64_t operation, uint64_t owner, uint32_t weight,
                   unsigned share)
{
    bool counts = play->kind->form == TORTURE_SEMAPHORE;
    uint64_t out = weight;
    for (unsigned i = 0; i < play->entry_count; i++) {
        const struct entry *entry = &play->entries[i];
        if (!entry->inside || entry->operation == operation)
            continue;
        out += entry->weight;
        if (!counts && entry->owner != owner && shares_conflict(play, entry->share, share))
            return false;
    }
    return !counts || out <= play->kind->permits;
}

static uint64_t next_token(struct play *play, uint64_t owner, unsigned share)
{
    if (!(play->kind->flags & TORTURE_FENCED))
        return 0;
    for (unsigned i = 0; i < play->entry_count; i++)
        if (play->entries[i].inside && play->entries[i].owner == owner)
            return story_errs(play) ? ++play->last_token : play->entries[i].token;
    if (story_errs(play))
        return play->last_token > 1 ? play->last_token - 1 : 1;
    bool exclusive = play->kind->form != TORTURE_RW || share == TORTURE_EXCLUSIVE;
    return exclusive ? ++play->last_token : play->last_token;
}

void story_admit(struct play *play, struct actor *actor)
{
    const struct torture_record *ask = &actor->ask;
    struct entry entry = { true,          ask->operation,
                           ask->owner,    next_token(play, ask->owner, ask->mode),
                           TORTURE_NEVER, ask->permits,
                           ask->mode };
    if (play->kind->leases && story_chance(play, 70))
        entry.deadline_ns = story_soon_ns(play);
    play->entries[play->entry_count++] = entry;
    actor->granted = true;
}

void story_leave_queue(struct play *play, uint64_t operation)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < play->queue_length; i++)
        if (play->queue[i] != operation)
            play->queue[kept++] = play->queue[i];
    play->queue_length = kept;
}

bool story_is_queued(const struct play *play, uint64_t operation)
{
    for (unsigned i = 0; i < play->queue_length; i++)
        if (play->queue[i] == operation)
            return true;
    return false;
}

/* A try that was refused stands there until its client hears of it. */
static bool stands_in_line(const struct play *play, const struct actor *actor)
{
    bool asks = actor->phase == ASKING && play->kind->form == TORTURE_SEMAPHORE;
    return play->kind->flags & TORTURE_LINE && actor->ask.verb == TORTURE_TRY &&
           (asks || (actor->phase == ANSWERED && !actor->granted));
}

bool story_is_behind(const struct play *play, const struct actor *actor)
{
    for (unsigned i = 0; i < play->kind->clients; i++) {
        const struct actor *other = &play->actors[i];
        if (other != actor && stands_in_line(play, other) &&
            shares_conflict(play, other->ask.mode, actor->ask.mode))
            return true;
    }
    return false;
}
