/* SPDX-License-Identifier: Apache-2.0 */
/* The lease store's server: grants with an end, queues of places with an end, and subscribers. */
#include "lease_store.h"

#include <string.h>

#define ROOM 48

enum entry_kind { ENTRY_GRANT, ENTRY_PLACE, ENTRY_SUBSCRIBER };

struct entry {
    enum entry_kind kind;
    unsigned client;
    uint64_t claim;
    hf_mode mode;
    uint32_t permits;
    bool detached, attached;
    bool excused;   /* its release was refused: it ends with its lease */
    bool upgrading; /* a grant that waits for the readers to leave */
    int64_t ends_us;
};

struct thing {
    uint64_t token;
    struct entry entries[ROOM]; /* places in order of arrival */
    unsigned count;
};

static struct thing things[NAMES_MAX];

static void begin(void)
{
    memset(things, 0, sizeof things);
    values_begin();
}

static void take_out(struct thing *thing, unsigned index)
{
    thing->count--;
    memmove(&thing->entries[index], &thing->entries[index + 1],
            (thing->count - index) * sizeof thing->entries[0]);
}

static void purge(struct thing *thing)
{
    for (unsigned i = thing->count; i-- > 0;)
        if (thing->entries[i].ends_us <= world.now_us)
            take_out(thing, i);
}

static struct entry *find(struct thing *thing, enum entry_kind kind, unsigned client,
                          uint64_t claim)
{
    for (unsigned i = 0; i < thing->count; i++) {
        struct entry *entry = &thing->entries[i];
        if (entry->kind == kind && entry->client == client && entry->claim == claim)
            return entry;
    }
    return NULL;
}

static struct entry *ensure(struct thing *thing, enum entry_kind kind,
                            const struct message *message)
{
    struct entry *entry = find(thing, kind, message->client, message->claim);
    if (entry)
        return entry;
    if (thing->count == ROOM)
        violation("the store has %d entries for one name: something is left behind", ROOM);
    entry = &thing->entries[thing->count++];
    *entry = (struct entry){ .kind = kind,
                             .client = message->client,
                             .claim = message->claim,
                             .mode = message->mode,
                             .permits = message->permits,
                             .ends_us = INT64_MAX };
    return entry;
}

static bool removed(struct thing *thing, enum entry_kind kind, const struct message *message)
{
    struct entry *entry = find(thing, kind, message->client, message->claim);
    if (!entry)
        return false;
    take_out(thing, (unsigned)(entry - thing->entries));
    return true;
}

static bool is_mine(const struct entry *entry, const struct message *message)
{
    return entry->client == message->client && entry->claim == message->claim;
}

/* Until when does this entry keep the asker out? 0: it does not. */
static int64_t keeps_out(const struct entry *entry, const struct message *message)
{
    if (is_mine(entry, message) || entry->kind == ENTRY_SUBSCRIBER)
        return 0;
    bool upgrading = entry->kind == ENTRY_GRANT && entry->upgrading && message->mode == HF_READ;
    return modes_conflict(entry->mode, message->mode) || upgrading ? entry->ends_us : 0;
}

static bool permits_are_taken(const struct thing *thing, const struct message *message)
{
    uint32_t taken = 0;
    for (unsigned i = 0; i < thing->count; i++)
        if (thing->entries[i].kind == ENTRY_GRANT && !is_mine(&thing->entries[i], message))
            taken += thing->entries[i].permits;
    return message->mode == HF_PERMIT && taken + message->permits > SEMAPHORE_PERMITS;
}

/* When it is worth asking again: the first end of what keeps the asker out; 0: nothing does. */
static int64_t obstacle(const struct thing *thing, const struct message *message)
{
    int64_t first_us = INT64_MAX;
    bool permits = permits_are_taken(thing, message), raise = false;
    for (unsigned i = 0; i < thing->count; i++) {
        const struct entry *entry = &thing->entries[i];
        if (is_mine(entry, message))
            raise |= entry->kind == ENTRY_GRANT;
    }
    bool in_front = true; /* whose place comes before mine */
    for (unsigned i = 0; i < thing->count; i++) {
        const struct entry *entry = &thing->entries[i];
        if (entry->kind == ENTRY_PLACE && is_mine(entry, message))
            in_front = false;
        bool counts = entry->kind == ENTRY_GRANT || (in_front && !raise);
        int64_t ends_us = keeps_out(entry, message);
        if (permits && entry->kind == ENTRY_GRANT)
            ends_us = entry->ends_us;
        if (counts && ends_us && ends_us < first_us)
            first_us = ends_us;
    }
    return first_us == INT64_MAX ? 0 : first_us;
}

static void publish(int name)
{
    struct thing *thing = &things[name];
    for (unsigned i = 0; i < thing->count; i++) {
        const struct entry *entry = &thing->entries[i];
        if (entry->kind != ENTRY_SUBSCRIBER || chance(200))
            continue;
        struct message wake = { .kind = MESSAGE_WAKE, .name = name, .claim = entry->claim };
        network_send_to_client(entry->client, &wake);
    }
}

/* Rises over a restart that has lost everything, too. */
static uint64_t next_token(const struct thing *thing)
{
    uint64_t clock = (uint64_t)world.now_us;
    return thing->token < clock ? clock : thing->token + 1;
}

static void grant(struct thing *thing, const struct message *message, struct message *answer)
{
    check_loss_was_told(message->name, message->client, message->claim, message->mode);
    struct entry *own = find(thing, ENTRY_GRANT, message->client, message->claim);
    bool new_right = !own || own->mode < message->mode;
    if (new_right && mode_is_exclusive(message->mode))
        thing->token = next_token(thing);
    if (!own)
        check_granted(message->client, message->claim);
    bool keeps_end = own && message->held && message->fixed;
    own = ensure(thing, ENTRY_GRANT, message);
    if (own->mode < message->mode)
        own->mode = message->mode;
    own->upgrading = false;
    if (!keeps_end)
        own->ends_us = world.now_us + message->lease_ms * 1000;
    removed(thing, ENTRY_PLACE, message);
    removed(thing, ENTRY_SUBSCRIBER, message);
    answer->word = HF_WORD_GRANTED;
    answer->token = thing->token;
}

/* Under a key that was handed out for it, a grant that was detached becomes another claim's. */
static void attach(const struct message *message, struct message *answer)
{
    struct thing *thing = &things[message->name];
    struct entry *own = find(thing, ENTRY_GRANT, message->client, message->claim);
    struct entry *left = find(thing, ENTRY_GRANT, message->attach.client, message->attach.claim);
    if (!own && left && left->detached) {
        own = left;
        own->client = message->client;
        own->claim = message->claim;
        own->detached = false;
        own->attached = true;
    }
    answer->word = own ? HF_WORD_GRANTED : HF_WORD_REFUSED;
    if (!own)
        return;
    answer->mode = own->mode;
    answer->permits = own->permits;
    answer->lease_ms = (own->ends_us - world.now_us) / 1000;
    answer->token = thing->token;
}

static void attempt(const struct message *message, struct message *answer)
{
    struct thing *thing = &things[message->name];
    struct entry *own = find(thing, ENTRY_GRANT, message->client, message->claim);
    if (message->attach.claim) {
        attach(message, answer);
        return;
    }
    if (message->held && !own) {
        answer->word = HF_WORD_MISSING;
        return;
    }
    bool queues = message->mode != HF_MUTEX && !own;
    if (message->enqueue && queues)
        ensure(thing, ENTRY_PLACE, message)->ends_us = world.now_us + PLACE_MS * 1000;
    int64_t free_us = obstacle(thing, message);
    if (!free_us) {
        grant(thing, message, answer);
        return;
    }
    answer->word = message->enqueue ? HF_WORD_QUEUED : HF_WORD_REFUSED;
    answer->left_ms = (free_us - world.now_us) / 1000 + 1;
    if (queues && answer->left_ms > PLACE_MS / 3)
        answer->left_ms = PLACE_MS / 3;
    if (!message->enqueue)
        return;
    if (own && message->mode == HF_WRITE)
        own->upgrading = true;
    /* A client that vanishes must be forgotten with its lease, whatever it left. */
    ensure(thing, ENTRY_SUBSCRIBER, message)->ends_us = world.now_us + LEASE_MS * 1000;
}

/* Compare and delete: what is not this claim's stays. What was attached goes back under its key. */
static void release(const struct message *message, struct message *answer)
{
    struct thing *thing = &things[message->name];
    bool changed = removed(thing, ENTRY_PLACE, message); /* mutant: release-leaves-place-in-queue */
    bool found = removed(thing, ENTRY_SUBSCRIBER, message) || changed;
    struct entry *own = find(thing, ENTRY_GRANT, message->client, message->claim);
    bool keeps = message->keep != HF_KEEP_NOTHING;
    answer->word = own || (found && !keeps) ? HF_WORD_DONE : HF_WORD_MISSING;
    if (own && message->attach.claim) {
        own->client = message->attach.client;
        own->claim = message->attach.claim;
        own->detached = true;
        own->attached = false;
    } else if (own && keeps) {
        own->mode = (hf_mode)message->keep;
        own->upgrading = false;
        changed = true;
    } else if (own) {
        if (own->attached)
            verbs_check_attached(message->client, message->claim);
        changed = removed(thing, ENTRY_GRANT, message);
    }
    if (changed)
        publish(message->name);
}

static void renew(const struct message *message, struct message *answer)
{
    struct entry *own = find(&things[message->name], ENTRY_GRANT, message->client, message->claim);
    answer->ours = own != NULL;
    if (own)
        own->ends_us = world.now_us + message->lease_ms * 1000;
}

static uint32_t break_all(int name)
{
    struct thing *thing = &things[name];
    uint32_t count = 0;
    for (unsigned i = thing->count; i-- > 0;)
        if (thing->entries[i].kind == ENTRY_GRANT) {
            check_broken(thing->entries[i].client, thing->entries[i].claim);
            take_out(thing, i);
            count++;
        }
    publish(name);
    return count;
}

static void change(const struct message *message, struct message *answer)
{
    struct entry *own = find(&things[message->name], ENTRY_GRANT, message->client, message->claim);
    answer->code = HF_OK;
    if (message->verb == HF_ONESHOT_BREAK) {
        answer->result = break_all(message->name);
    } else if (!own) {
        answer->code = HF_LOST;
    } else if (message->verb == HF_ONESHOT_DETACH) {
        own->detached = true;
    } else {
        int64_t ends_us = world.now_us + message->lease_ms * 1000;
        own->ends_us = ends_us > own->ends_us ? ends_us : own->ends_us;
    }
}

static void excuse(const struct message *message)
{
    struct thing *thing = &things[message->name];
    for (unsigned i = 0; i < thing->count; i++)
        if (is_mine(&thing->entries[i], message))
            thing->entries[i].excused = message->keep == HF_KEEP_NOTHING;
}

static void execute(const struct message *message, struct message *answer)
{
    if (values_receive(message, answer))
        answer->kind = MESSAGE_ANSWER;
    else if (message->kind == MESSAGE_CHANGE)
        change(message, answer);
    else if (message->kind == MESSAGE_ATTEMPT)
        attempt(message, answer);
    else if (message->kind == MESSAGE_RELEASE)
        release(message, answer);
    else
        renew(message, answer);
}

static void receive(const struct message *message)
{
    struct message answer = *message;
    struct fate fate = values_fate(message);
    answer.kind = MESSAGE_ANSWER;
    answer.answers = message->kind;
    purge(&things[message->name]);
    if (fate.executes)
        execute(message, &answer);
    if (fate.refused)
        excuse(message);
    if (fate.refused || fate.open)
        answer.word = fate.open ? HF_WORD_OPEN : HF_WORD_NEVER;
    static const char *const words[] = { "attempt", "release", "renewal", "change" };
    say("store: %s of c%u, claim %llu, on %s: %s", words[message->kind], message->client,
        (unsigned long long)message->claim, world.store->names[message->name],
        message->kind == MESSAGE_CHANGE  ? hf_code_name(answer.code)
        : message->kind != MESSAGE_RENEW ? word_name(answer.word)
        : answer.ours                    ? "yes"
                                         : "no");
    network_send_to_client(message->client, &answer);
}

static void disconnected(unsigned client)
{
    for (int name = 0; name < NAMES_MAX; name++)
        for (unsigned i = things[name].count; i-- > 0;)
            if (things[name].entries[i].client == client &&
                things[name].entries[i].kind == ENTRY_SUBSCRIBER)
                take_out(&things[name], i);
}

static void restarted(bool forgetful)
{
    for (unsigned client = 0; client < CLIENTS_MAX; client++)
        disconnected(client);
    if (forgetful)
        begin();
}

static bool holds(int name, unsigned client, uint64_t claim, hf_mode mode)
{
    purge(&things[name]);
    const struct entry *own = find(&things[name], ENTRY_GRANT, client, claim);
    return own && own->mode >= mode;
}

static bool is_free(int name)
{
    purge(&things[name]);
    for (unsigned i = 0; i < things[name].count; i++)
        if (things[name].entries[i].kind == ENTRY_GRANT)
            return false;
    return true;
}

static unsigned residue(unsigned client, int64_t soon_us)
{
    unsigned left = 0;
    for (int name = 0; name < NAMES_MAX; name++)
        for (unsigned i = 0; i < things[name].count; i++) {
            const struct entry *entry = &things[name].entries[i];
            if (entry->client == client && !entry->detached && !entry->excused &&
                entry->ends_us > world.now_us + soon_us) {
                say("left at the store: %s of c%u, claim %llu, mode %d on %s",
                    entry->kind == ENTRY_GRANT   ? "a grant"
                    : entry->kind == ENTRY_PLACE ? "a place"
                                                 : "a subscription",
                    client, (unsigned long long)entry->claim, (int)entry->mode,
                    world.store->names[name]);
                left++;
            }
        }
    return left;
}

static const char *const names[] = { "mutex/a", "rw/a",      "fair/a", "semaphore/a",
                                     "mutex/b", "counter/a", "latch/a" };

const struct store lease_store = {
    .name = "lease",
    .names = names,
    .begin = begin,
    .receive = receive,
    .disconnected = disconnected,
    .restarted = restarted,
    .holds = holds,
    .is_free = is_free,
    .residue = residue,
    .open = lease_engine_open,
};
