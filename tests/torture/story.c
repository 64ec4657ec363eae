/* SPDX-License-Identifier: Apache-2.0 */
/* Random histories: a few clients of a store that is mostly right, step by step in random order.
 */
#include "story.h"

#include <stdio.h>
#include <string.h>

static uint64_t draw(struct story *story)
{
    story->random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = story->random;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

bool story_chance(struct play *play, unsigned percent)
{
    return draw(play->story) % 100 < percent;
}

unsigned story_below(struct play *play, unsigned limit)
{
    return (unsigned)(draw(play->story) % limit);
}

bool story_errs(struct play *play)
{
    return story_chance(play, play->kind->errors);
}

int64_t story_now_ns(const struct play *play)
{
    return (int64_t)play->story->count * 10;
}

int64_t story_soon_ns(struct play *play)
{
    return story_now_ns(play) + 15 + 10 * (int64_t)story_below(play, 10);
}

void story_say(struct play *play, struct torture_record record, enum torture_kind kind)
{
    struct story *story = play->story;
    record.kind = (uint8_t)kind;
    record.number = story->count + 1;
    record.at_ns = story_now_ns(play) + 10;
    story->records[story->count++] = record;
}

/* ---- acquiring ---- */

static void begin_asking(struct play *play, struct actor *actor, uint32_t client)
{
    const struct story_kind *kind = play->kind;
    struct torture_record ask = {
        .operation = ++play->last_operation,
        .hold = play->last_operation,
        .owner = client + 1 + 100 * actor->generation,
        .client = client,
        .verb = kind->tries && story_chance(play, 50) ? TORTURE_TRY : TORTURE_ACQUIRE,
        .permits = kind->form == TORTURE_SEMAPHORE ? 1 + story_below(play, 2) : 1,
        .mode = kind->form != TORTURE_RW ? TORTURE_EXCLUSIVE
                                         : (uint8_t)story_below(play, kind->changes ? 3 : 2),
    };
    if (kind->quitting && ask.verb == TORTURE_ACQUIRE && story_chance(play, 40))
        ask.deadline_ns = story_soon_ns(play);
    actor->ask = ask;
    actor->granted = false;
    actor->phase = ASKING;
    play->calls++;
    story_say(play, ask, TORTURE_INVOKE);
}

/* True when there is an answer. */
static bool try_to_enter(struct play *play, struct actor *actor)
{
    const struct torture_record *ask = &actor->ask;
    bool fifo = play->kind->flags & TORTURE_FIFO, nested = actor->hold_count > 0;
    bool my_turn = !fifo || nested || !play->queue_length || play->queue[0] == ask->operation;
    bool enters = story_is_free(play, ask->operation, ask->owner, ask->permits, ask->mode) &&
                  my_turn && (nested || !story_is_behind(play, actor));
    if (story_errs(play))
        enters = !enters;
    if (enters) {
        story_leave_queue(play, ask->operation);
        story_admit(play, actor);
        return true;
    }
    return ask->verb == TORTURE_TRY;
}

static void go_on_asking(struct play *play, struct actor *actor)
{
    const struct torture_record *ask = &actor->ask;
    bool fifo = play->kind->flags & TORTURE_FIFO;
    if (fifo && ask->verb == TORTURE_ACQUIRE && !story_is_queued(play, ask->operation)) {
        play->queue[play->queue_length++] = ask->operation;
        if (story_chance(play, 80))
            story_say(play, *ask, TORTURE_ENQUEUED);
        return;
    }
    /* Nobody tells him that it is free. */
    if (play->kind->haste && story_chance(play, 50))
        return;
    if (try_to_enter(play, actor)) {
        actor->phase = ANSWERED;
        return;
    }
    bool patient = ask->deadline_ns && story_now_ns(play) < ask->deadline_ns && !story_errs(play);
    if (play->kind->quitting && !patient && story_chance(play, 30)) {
        story_leave_queue(play, ask->operation);
        actor->phase = ANSWERED;
    }
}

static void forget_holds(struct actor *actor)
{
    actor->hold_count = 0;
    actor->generation++;
    actor->phase = IDLE;
}

static void answer(struct play *play, struct actor *actor)
{
    struct torture_record record = actor->ask;
    struct entry *entry = actor->granted ? story_entry_of(play, record.operation) : NULL;
    record.deadline_ns = 0;
    if (play->kind->unknowns && story_chance(play, 20)) {
        record.until_ns = story_chance(play, 60) ? story_soon_ns(play) : 0;
        if (entry && record.until_ns)
            entry->deadline_ns = record.until_ns;
        story_say(play, record, TORTURE_UNKNOWN);
        forget_holds(actor);
        return;
    }
    actor->phase = IDLE;
    if (!entry) {
        story_say(play, record, TORTURE_REFUSED);
        return;
    }
    record.token = entry->token;
    record.deadline_ns = entry->deadline_ns;
    actor->holds[actor->hold_count++] = record.operation;
    story_say(play, record, TORTURE_OK);
}

/* ---- what holders do ---- */

static void begin_call(struct play *play, struct actor *actor, enum torture_verb verb,
                       uint64_t hold)
{
    struct torture_record record = actor->ask;
    record.operation = ++play->last_operation;
    record.hold = hold;
    record.verb = (uint8_t)verb;
    record.mode = TORTURE_SHARED;
    record.deadline_ns = 0;
    actor->ask = record;
    story_say(play, record, TORTURE_INVOKE);
}

static void begin_release(struct play *play, struct actor *actor)
{
    unsigned which = story_below(play, actor->hold_count);
    begin_call(play, actor, TORTURE_RELEASE, actor->holds[which]);
    for (unsigned i = which; i + 1 < actor->hold_count; i++)
        actor->holds[i] = actor->holds[i + 1];
    actor->hold_count--;
    actor->phase = RELEASING;
}

static void release(struct play *play, struct actor *actor)
{
    struct entry *entry = story_entry_of(play, actor->ask.hold);
    actor->granted = (entry && entry->inside) != story_errs(play);
    if (entry && !story_errs(play))
        entry->inside = false;
    actor->phase = RELEASED;
}

static void end_release(struct play *play, struct actor *actor)
{
    story_say(play, actor->ask, actor->granted ? TORTURE_OK : TORTURE_REFUSED);
    actor->phase = IDLE;
}

static void begin_change(struct play *play, struct actor *actor)
{
    const struct entry *entry = story_entry_of(play, actor->holds[0]);
    if (!entry || entry->share == TORTURE_SHARED || actor->changed)
        return;
    bool up = entry->share == TORTURE_UPGRADABLE;
    begin_call(play, actor, up ? TORTURE_UPGRADE : TORTURE_DOWNGRADE, actor->holds[0]);
    actor->phase = CHANGING;
    actor->changed = true;
}

/* What is not there any more cannot be changed, and is not waited for. */
static void change(struct play *play, struct actor *actor)
{
    struct entry *entry = story_entry_of(play, actor->ask.hold);
    bool up = actor->ask.verb == TORTURE_UPGRADE;
    actor->granted = entry->inside || story_errs(play);
    if (!actor->granted) {
        actor->phase = CHANGED;
        return;
    }
    bool free = story_is_free(play, entry->operation, entry->owner, 1,
                              up ? TORTURE_EXCLUSIVE : TORTURE_SHARED);
    if (!free && !story_errs(play))
        return;
    entry->share = up ? TORTURE_EXCLUSIVE : TORTURE_SHARED;
    if (up && play->kind->flags & TORTURE_FENCED)
        entry->token = story_errs(play) ? play->last_token : ++play->last_token;
    actor->ask.token = up ? entry->token : 0;
    actor->phase = CHANGED;
}

static void end_change(struct play *play, struct actor *actor)
{
    bool silent = play->kind->unknowns && story_chance(play, 20);
    if (silent || !actor->granted)
        actor->ask.token = 0;
    story_say(play, actor->ask,
              silent           ? TORTURE_UNKNOWN
              : actor->granted ? TORTURE_OK
                               : TORTURE_REFUSED);
    actor->ask.token = 0;
    actor->phase = IDLE;
}

/* Whoever knows that his lease is over does not ask for more of it. */
static void begin_renewal(struct play *play, struct actor *actor)
{
    const struct entry *entry = story_entry_of(play, actor->holds[0]);
    if (entry->deadline_ns == TORTURE_NEVER ||
        (entry->deadline_ns <= story_now_ns(play) && !story_errs(play)))
        return;
    begin_call(play, actor, TORTURE_RENEW, actor->holds[0]);
    actor->phase = RENEWING;
}

/* A store that errs renews what is not there, or forgets what it has renewed. */
static void renew(struct play *play, struct actor *actor)
{
    struct entry *entry = story_entry_of(play, actor->ask.hold);
    actor->granted = entry->inside || story_errs(play);
    if (actor->granted)
        entry->deadline_ns = story_soon_ns(play);
    if (story_errs(play))
        entry->inside = false;
    actor->phase = RENEWED;
}

static void end_renewal(struct play *play, struct actor *actor)
{
    struct torture_record record = actor->ask;
    actor->phase = IDLE;
    if (play->kind->unknowns && story_chance(play, 30)) {
        story_say(play, record, TORTURE_UNKNOWN);
        return;
    }
    if (actor->granted)
        record.deadline_ns = story_entry_of(play, record.hold)->deadline_ns;
    story_say(play, record, actor->granted ? TORTURE_OK : TORTURE_REFUSED);
}

static void look_after_hold(struct play *play, struct actor *actor)
{
    struct entry *entry = story_entry_of(play, actor->holds[0]);
    struct torture_record record = actor->ask;
    record.verb = TORTURE_NO_VERB;
    record.hold = actor->holds[0];
    record.deadline_ns = 0;
    if (!entry->inside && play->kind->leases && story_chance(play, 70)) {
        story_say(play, record, TORTURE_LOST);
        return;
    }
    if (entry->deadline_ns <= story_now_ns(play) && !story_errs(play))
        return;
    /* Somebody may have renewed it meanwhile, whom nobody sees. */
    if (play->kind->renewals && entry->inside && entry->deadline_ns != TORTURE_NEVER)
        record.deadline_ns = entry->deadline_ns = story_soon_ns(play);
    story_say(play, record, TORTURE_STILL);
}

static void be_idle(struct play *play, struct actor *actor, uint32_t client)
{
    const struct story_kind *kind = play->kind;
    bool may_nest = kind->nesting && actor->hold_count == 1;
    bool may_ask = play->calls < kind->calls && (!actor->hold_count || may_nest);
    if (may_ask && story_chance(play, 50)) {
        actor->changed = false;
        begin_asking(play, actor, client);
    } else if (actor->hold_count && kind->changes && story_chance(play, 40)) {
        begin_change(play, actor);
    } else if (actor->hold_count && kind->renewals && story_chance(play, 40)) {
        begin_renewal(play, actor);
    } else if (actor->hold_count && story_chance(play, 15)) {
        look_after_hold(play, actor);
    } else if (actor->hold_count) {
        begin_release(play, actor);
    }
}

static void step(struct play *play, uint32_t client)
{
    struct actor *actor = &play->actors[client];
    story_expire(play);
    switch (actor->phase) {
    case IDLE:
        be_idle(play, actor, client);
        break;
    case ASKING:
        go_on_asking(play, actor);
        break;
    case ANSWERED:
        answer(play, actor);
        break;
    case RELEASING:
        release(play, actor);
        break;
    case RELEASED:
        end_release(play, actor);
        break;
    case CHANGING:
        change(play, actor);
        break;
    case CHANGED:
        end_change(play, actor);
        break;
    case RENEWING:
        renew(play, actor);
        break;
    case RENEWED:
        end_renewal(play, actor);
        break;
    }
}

void story_write(struct story *story, const struct story_kind *kind, uint64_t seed)
{
    struct play play = { .story = story, .kind = kind };
    struct torture_record lock = { .mode = (uint8_t)kind->form,
                                   .permits = kind->permits,
                                   .flags = kind->flags };
    *story = (struct story){ .random = seed };
    snprintf(lock.text, sizeof lock.text, "%s", "it");
    story_say(&play, lock, TORTURE_LOCK);
    if (kind->form == TORTURE_LATCH) {
        story_count_down_and_look(&play);
        return;
    }
    for (unsigned steps = 0; steps < 120 && story->count + 2 < STORY_RECORDS; steps++)
        step(&play, story_below(&play, kind->clients));
}
