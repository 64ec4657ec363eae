/* Random histories: a few clients and a store that is mostly right, step by step in random order.
 */
#include "oracle.h"

#include <stdio.h>
#include <string.h>

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

static uint64_t draw(struct story *story)
{
    story->random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = story->random;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static bool chance(struct play *play, unsigned percent)
{
    return draw(play->story) % 100 < percent;
}

static unsigned below(struct play *play, unsigned limit)
{
    return (unsigned)(draw(play->story) % limit);
}

static bool errs(struct play *play)
{
    return chance(play, play->kind->errors);
}

static int64_t now_ns(const struct play *play)
{
    return (int64_t)play->story->count * 10;
}

static int64_t soon_ns(struct play *play)
{
    return now_ns(play) + 15 + 10 * (int64_t)below(play, 10);
}

static void say(struct play *play, struct torture_record record, enum torture_kind kind)
{
    struct story *story = play->story;
    record.kind = (uint8_t)kind;
    record.number = story->count + 1;
    record.at_ns = now_ns(play) + 10;
    story->records[story->count++] = record;
}

/* ---- the store ---- */

static struct entry *entry_of(struct play *play, uint64_t operation)
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

static void expire(struct play *play)
{
    for (unsigned i = 0; i < play->entry_count; i++)
        if (play->entries[i].deadline_ns <= now_ns(play) && chance(play, 60))
            play->entries[i].inside = false;
        else if (play->kind->leases && chance(play, 1))
            play->entries[i].inside = false;
}

static bool is_free(const struct play *play, uint64_t operation, uint64_t owner, uint32_t weight,
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
            return errs(play) ? ++play->last_token : play->entries[i].token;
    if (errs(play))
        return play->last_token > 1 ? play->last_token - 1 : 1;
    bool exclusive = play->kind->form != TORTURE_RW || share == TORTURE_EXCLUSIVE;
    return exclusive ? ++play->last_token : play->last_token;
}

static void admit(struct play *play, struct actor *actor)
{
    const struct torture_record *ask = &actor->ask;
    struct entry entry = { true,          ask->operation,
                           ask->owner,    next_token(play, ask->owner, ask->mode),
                           TORTURE_NEVER, ask->permits,
                           ask->mode };
    if (play->kind->leases && chance(play, 70))
        entry.deadline_ns = soon_ns(play);
    play->entries[play->entry_count++] = entry;
    actor->granted = true;
}

static void leave_queue(struct play *play, uint64_t operation)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < play->queue_length; i++)
        if (play->queue[i] != operation)
            play->queue[kept++] = play->queue[i];
    play->queue_length = kept;
}

static bool is_queued(const struct play *play, uint64_t operation)
{
    for (unsigned i = 0; i < play->queue_length; i++)
        if (play->queue[i] == operation)
            return true;
    return false;
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
        .verb = kind->tries && chance(play, 50) ? TORTURE_TRY : TORTURE_ACQUIRE,
        .permits = kind->form == TORTURE_SEMAPHORE ? 1 + below(play, 2) : 1,
        .mode = kind->form != TORTURE_RW ? TORTURE_EXCLUSIVE
                                         : (uint8_t)below(play, kind->changes ? 3 : 2),
    };
    if (kind->quitting && ask.verb == TORTURE_ACQUIRE && chance(play, 40))
        ask.deadline_ns = soon_ns(play);
    actor->ask = ask;
    actor->granted = false;
    actor->phase = ASKING;
    play->calls++;
    say(play, ask, TORTURE_INVOKE);
}

/* True when there is an answer. */
static bool try_to_enter(struct play *play, struct actor *actor)
{
    const struct torture_record *ask = &actor->ask;
    bool fifo = play->kind->flags & TORTURE_FIFO, nested = actor->hold_count > 0;
    bool my_turn = !fifo || nested || !play->queue_length || play->queue[0] == ask->operation;
    bool enters = is_free(play, ask->operation, ask->owner, ask->permits, ask->mode) && my_turn;
    if (errs(play))
        enters = !enters;
    if (enters) {
        leave_queue(play, ask->operation);
        admit(play, actor);
        return true;
    }
    return ask->verb == TORTURE_TRY;
}

static void go_on_asking(struct play *play, struct actor *actor)
{
    const struct torture_record *ask = &actor->ask;
    bool fifo = play->kind->flags & TORTURE_FIFO;
    if (fifo && ask->verb == TORTURE_ACQUIRE && !is_queued(play, ask->operation)) {
        play->queue[play->queue_length++] = ask->operation;
        if (chance(play, 80))
            say(play, *ask, TORTURE_ENQUEUED);
        return;
    }
    /* Nobody tells him that it is free. */
    if (play->kind->haste && chance(play, 50))
        return;
    if (try_to_enter(play, actor)) {
        actor->phase = ANSWERED;
        return;
    }
    bool patient = ask->deadline_ns && now_ns(play) < ask->deadline_ns && !errs(play);
    if (play->kind->quitting && !patient && chance(play, 30)) {
        leave_queue(play, ask->operation);
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
    struct entry *entry = actor->granted ? entry_of(play, record.operation) : NULL;
    record.deadline_ns = 0;
    if (play->kind->unknowns && chance(play, 20)) {
        record.until_ns = chance(play, 60) ? soon_ns(play) : 0;
        if (entry && record.until_ns)
            entry->deadline_ns = record.until_ns;
        say(play, record, TORTURE_UNKNOWN);
        forget_holds(actor);
        return;
    }
    actor->phase = IDLE;
    if (!entry) {
        say(play, record, TORTURE_REFUSED);
        return;
    }
    record.token = entry->token;
    record.deadline_ns = entry->deadline_ns;
    actor->holds[actor->hold_count++] = record.operation;
    say(play, record, TORTURE_OK);
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
    say(play, record, TORTURE_INVOKE);
}

static void begin_release(struct play *play, struct actor *actor)
{
    unsigned which = below(play, actor->hold_count);
    begin_call(play, actor, TORTURE_RELEASE, actor->holds[which]);
    for (unsigned i = which; i + 1 < actor->hold_count; i++)
        actor->holds[i] = actor->holds[i + 1];
    actor->hold_count--;
    actor->phase = RELEASING;
}

static void release(struct play *play, struct actor *actor)
{
    struct entry *entry = entry_of(play, actor->ask.hold);
    actor->granted = (entry && entry->inside) || errs(play);
    if (entry && !errs(play))
        entry->inside = false;
    actor->phase = RELEASED;
}

static void end_release(struct play *play, struct actor *actor)
{
    say(play, actor->ask, actor->granted ? TORTURE_OK : TORTURE_REFUSED);
    actor->phase = IDLE;
}

static void begin_change(struct play *play, struct actor *actor)
{
    const struct entry *entry = entry_of(play, actor->holds[0]);
    if (!entry || entry->share == TORTURE_SHARED || actor->changed)
        return;
    bool up = entry->share == TORTURE_UPGRADABLE;
    begin_call(play, actor, up ? TORTURE_UPGRADE : TORTURE_DOWNGRADE, actor->holds[0]);
    actor->phase = CHANGING;
    actor->changed = true;
}

static void change(struct play *play, struct actor *actor)
{
    struct entry *entry = entry_of(play, actor->ask.hold);
    bool up = actor->ask.verb == TORTURE_UPGRADE;
    bool free =
        is_free(play, entry->operation, entry->owner, 1, up ? TORTURE_EXCLUSIVE : TORTURE_SHARED);
    if (!free && !errs(play))
        return;
    entry->share = up ? TORTURE_EXCLUSIVE : TORTURE_SHARED;
    if (up && play->kind->flags & TORTURE_FENCED)
        entry->token = errs(play) ? play->last_token : ++play->last_token;
    actor->ask.token = up ? entry->token : 0;
    actor->phase = CHANGED;
}

static void end_change(struct play *play, struct actor *actor)
{
    say(play, actor->ask, TORTURE_OK);
    actor->ask.token = 0;
    actor->phase = IDLE;
}

/* Whoever knows that his lease is over does not ask for more of it. */
static void begin_renewal(struct play *play, struct actor *actor)
{
    const struct entry *entry = entry_of(play, actor->holds[0]);
    if (entry->deadline_ns == TORTURE_NEVER || (entry->deadline_ns <= now_ns(play) && !errs(play)))
        return;
    begin_call(play, actor, TORTURE_RENEW, actor->holds[0]);
    actor->phase = RENEWING;
}

/* A store that errs renews what is not there, or forgets what it has renewed. */
static void renew(struct play *play, struct actor *actor)
{
    struct entry *entry = entry_of(play, actor->ask.hold);
    actor->granted = entry->inside || errs(play);
    if (actor->granted)
        entry->deadline_ns = soon_ns(play);
    if (errs(play))
        entry->inside = false;
    actor->phase = RENEWED;
}

static void end_renewal(struct play *play, struct actor *actor)
{
    struct torture_record record = actor->ask;
    actor->phase = IDLE;
    if (play->kind->unknowns && chance(play, 30)) {
        say(play, record, TORTURE_UNKNOWN);
        return;
    }
    if (actor->granted)
        record.deadline_ns = entry_of(play, record.hold)->deadline_ns;
    say(play, record, actor->granted ? TORTURE_OK : TORTURE_REFUSED);
}

static void look_after_hold(struct play *play, struct actor *actor)
{
    struct entry *entry = entry_of(play, actor->holds[0]);
    struct torture_record record = actor->ask;
    record.verb = TORTURE_NO_VERB;
    record.hold = actor->holds[0];
    record.deadline_ns = 0;
    if (!entry->inside && play->kind->leases && chance(play, 70)) {
        say(play, record, TORTURE_LOST);
        return;
    }
    if (entry->deadline_ns <= now_ns(play) && !errs(play))
        return;
    /* Somebody may have renewed it meanwhile, whom nobody sees. */
    if (play->kind->renewals && entry->inside && entry->deadline_ns != TORTURE_NEVER)
        record.deadline_ns = entry->deadline_ns = soon_ns(play);
    say(play, record, TORTURE_STILL);
}

static void be_idle(struct play *play, struct actor *actor, uint32_t client)
{
    const struct story_kind *kind = play->kind;
    bool may_nest = kind->nesting && actor->hold_count == 1;
    bool may_ask = play->calls < kind->calls && (!actor->hold_count || may_nest);
    if (may_ask && chance(play, 50)) {
        actor->changed = false;
        begin_asking(play, actor, client);
    } else if (actor->hold_count && kind->changes && chance(play, 40)) {
        begin_change(play, actor);
    } else if (actor->hold_count && kind->renewals && chance(play, 40)) {
        begin_renewal(play, actor);
    } else if (actor->hold_count && chance(play, 15)) {
        look_after_hold(play, actor);
    } else if (actor->hold_count) {
        begin_release(play, actor);
    }
}

static void step(struct play *play, uint32_t client)
{
    struct actor *actor = &play->actors[client];
    expire(play);
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

/* ---- latches ---- */

static void count_down_and_look(struct play *play)
{
    uint64_t left = play->kind->permits, operation = 0;
    struct torture_record under_way[CLIENTS_MAX];
    enum torture_kind answers[CLIENTS_MAX];
    enum phase phases[CLIENTS_MAX] = { IDLE };
    for (unsigned steps = 0; steps < 60 && play->story->count + 2 < STORY_RECORDS; steps++) {
        uint32_t client = below(play, play->kind->clients);
        struct torture_record *ask = &under_way[client];
        if (phases[client] == IDLE && play->calls < play->kind->calls) {
            unsigned verb = below(play, 4);
            *ask = (struct torture_record){ .operation = ++operation,
                                            .client = client,
                                            .permits = 1 + below(play, 2),
                                            .verb = verb < 2    ? TORTURE_COUNT_DOWN
                                                    : verb == 2 ? TORTURE_LOOK
                                                                : TORTURE_AWAIT };
            play->calls++;
            say(play, *ask, TORTURE_INVOKE);
            phases[client] = ASKING;
        } else if (phases[client] == ASKING) {
            bool open = (left == 0) != errs(play);
            if (ask->verb == TORTURE_COUNT_DOWN)
                left -= ask->permits < left ? ask->permits : left;
            else if (ask->verb == TORTURE_AWAIT && !open)
                continue;
            answers[client] = ask->verb == TORTURE_LOOK && !open ? TORTURE_REFUSED : TORTURE_OK;
            if (ask->verb == TORTURE_COUNT_DOWN && play->kind->unknowns && chance(play, 20))
                answers[client] = TORTURE_UNKNOWN;
            phases[client] = ANSWERED;
        } else if (phases[client] == ANSWERED) {
            say(play, *ask, answers[client]);
            phases[client] = IDLE;
        }
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
    say(&play, lock, TORTURE_LOCK);
    if (kind->form == TORTURE_LATCH) {
        count_down_and_look(&play);
        return;
    }
    for (unsigned steps = 0; steps < 120 && story->count + 2 < STORY_RECORDS; steps++)
        step(&play, below(&play, kind->clients));
}
