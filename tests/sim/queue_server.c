/* SPDX-License-Identifier: Apache-2.0 */
/* The queue store's server: a node is granted what no node in front of it stands against. Nodes go
 * with the session that made them. */
#include "queue_store.h"

#include <string.h>

#define ROOM 64

struct node {
    unsigned client;
    uint64_t claim, session, number;
    hf_mode mode;
    bool told;         /* it has been answered GRANTED */
    bool excused;      /* its release was refused: it goes with its session */
    uint64_t watching; /* the node whose end it is to be told of; 0: none */
};

struct thing {
    struct node nodes[ROOM]; /* in order of their numbers */
    unsigned count;
    uint64_t last_exclusive;
};

struct session {
    uint64_t number; /* 0: this place is free */
    int64_t ends_us;
};

struct peer {
    struct session sessions[SESSIONS];
    uint64_t last_session; /* none up to this one is opened again */
    uint64_t events;
};

static struct thing things[NAMES_MAX];
static struct peer peers[CLIENTS_MAX];
static uint64_t last_number;

static void begin(void)
{
    memset(things, 0, sizeof things);
    memset(peers, 0, sizeof peers);
    last_number = 0;
    values_begin();
}

/* ---- nodes ---- */

static void tell_watcher(int name, struct node *node)
{
    struct message wake = { .kind = MESSAGE_WAKE, .name = name, .claim = node->claim };
    node->watching = 0;
    wake.events = ++peers[node->client].events;
    network_send_to_client(node->client, &wake);
}

static void tell_watchers(int name, uint64_t number)
{
    for (unsigned i = 0; i < things[name].count; i++)
        if (things[name].nodes[i].watching == number)
            tell_watcher(name, &things[name].nodes[i]);
}

static void remove_node(int name, unsigned index)
{
    struct thing *thing = &things[name];
    uint64_t number = thing->nodes[index].number;
    thing->count--;
    memmove(&thing->nodes[index], &thing->nodes[index + 1],
            (thing->count - index) * sizeof thing->nodes[0]);
    tell_watchers(name, number);
}

static struct node *find(const struct message *message)
{
    struct thing *thing = &things[message->name];
    for (unsigned i = 0; i < thing->count; i++) {
        struct node *node = &thing->nodes[i];
        if (node->client == message->client && node->claim == message->claim &&
            node->session == message->session)
            return node;
    }
    return NULL;
}

static struct node *append(const struct message *message)
{
    struct thing *thing = &things[message->name];
    if (thing->count == ROOM)
        violation("the store has %d nodes for one name: something is left behind", ROOM);
    struct node *node = &thing->nodes[thing->count++];
    *node = (struct node){ .client = message->client,
                           .claim = message->claim,
                           .session = message->session,
                           .number = ++last_number,
                           .mode = message->mode };
    return node;
}

/* The nearest node in front that stands against `mode`, or NULL. */
static const struct node *in_front(const struct thing *thing, const struct node *end, hf_mode mode)
{
    const struct node *nearest = NULL;
    for (const struct node *node = thing->nodes; node < end; node++)
        if (modes_conflict(node->mode, mode))
            nearest = node;
    return nearest;
}

/* ---- sessions ---- */

static struct session *find_session(unsigned client, uint64_t number)
{
    for (unsigned i = 0; i < SESSIONS; i++) {
        struct session *session = &peers[client].sessions[i];
        if (session->number == number && session->ends_us > world.now_us)
            return session;
    }
    return NULL;
}

static void end_session(unsigned client, struct session *session)
{
    say("store: session %llu of c%u is over", (unsigned long long)session->number, client);
    for (int name = 0; name < NAMES_MAX; name++)
        for (unsigned i = things[name].count; i-- > 0;) {
            const struct node *node = &things[name].nodes[i];
            if (node->client == client && node->session == session->number)
                remove_node(name, i);
        }
    session->number = 0;
}

static void look_at_sessions(void *subject, uint64_t detail)
{
    unsigned client = (unsigned)detail;
    (void)subject;
    for (unsigned i = 0; i < SESSIONS; i++) {
        struct session *session = &peers[client].sessions[i];
        if (session->number && session->ends_us <= world.now_us)
            end_session(client, session);
    }
}

static void touch(unsigned client, struct session *session)
{
    session->ends_us = world.now_us + LEASE_MS * 1000;
    world_at(session->ends_us, look_at_sessions, NULL, client);
}

/* Any message keeps its session alive; the first one under a new number opens it. */
static bool is_alive(const struct message *message)
{
    struct peer *peer = &peers[message->client];
    struct session *session = find_session(message->client, message->session);
    if (!session && (message->kind != MESSAGE_ATTEMPT || message->session <= peer->last_session))
        return false;
    if (!session) {
        session = find_session(message->client, 0);
        for (unsigned i = 0; i < SESSIONS && !session; i++)
            if (!peer->sessions[i].number)
                session = &peer->sessions[i];
        if (!session)
            violation("c%u has too many sessions", message->client);
        peer->last_session = session->number = message->session;
    }
    touch(message->client, session);
    return true;
}

/* ---- verbs ---- */

static void grant(const struct message *message, struct node *node, struct message *answer)
{
    struct thing *thing = &things[message->name];
    if (!node->told)
        check_loss_was_told(message->name, message->client, message->claim, message->mode);
    node->told = true;
    node->watching = 0;
    if (mode_is_exclusive(node->mode))
        thing->last_exclusive = node->number;
    answer->word = HF_WORD_GRANTED;
    answer->token = thing->last_exclusive;
}

static void attempt(const struct message *message, struct message *answer)
{
    struct thing *thing = &things[message->name];
    struct node *node = find(message); /* mutant: attempt-is-not-idempotent-each */
    const struct node *end = node ? node : thing->nodes + thing->count;
    const struct node *obstacle = in_front(thing, end, message->mode);
    answer->word = message->enqueue ? HF_WORD_QUEUED : HF_WORD_REFUSED;
    if (obstacle && !message->enqueue)
        return;
    uint64_t obstacle_number = obstacle ? obstacle->number : 0;
    if (!node)
        node = append(message);
    if (obstacle_number)
        node->watching = obstacle_number; /* mutant: store-does-not-arm-wake */
    else
        grant(message, node, answer);
}

/* Whatever this claim has, under whichever session. */
static void release(const struct message *message, struct message *answer)
{
    struct thing *thing = &things[message->name];
    answer->word = HF_WORD_MISSING;
    for (unsigned i = thing->count; i-- > 0;) {
        struct node *node = &thing->nodes[i];
        if (node->client != message->client || node->claim != message->claim)
            continue;
        answer->word = HF_WORD_DONE;
        if (message->keep == HF_KEEP_NOTHING) {
            remove_node(message->name, i);
        } else {
            node->mode = (hf_mode)message->keep;
            tell_watchers(message->name, node->number);
        }
    }
}

static void excuse(const struct message *message)
{
    struct thing *thing = &things[message->name];
    for (unsigned i = 0; i < thing->count; i++)
        if (thing->nodes[i].client == message->client && thing->nodes[i].claim == message->claim)
            thing->nodes[i].excused = message->keep == HF_KEEP_NOTHING;
}

static void answer_to(const struct message *message, struct message *answer)
{
    struct fate fate = values_fate(message);
    if (fate.refused)
        excuse(message);
    else if (fate.executes && values_receive(message, answer))
        answer->kind = MESSAGE_ANSWER;
    else if (fate.executes && message->kind == MESSAGE_RELEASE)
        release(message, answer);
    else if (fate.executes && message->kind == MESSAGE_ATTEMPT)
        attempt(message, answer);
    if (fate.refused || fate.open)
        answer->word = fate.open ? HF_WORD_OPEN : HF_WORD_NEVER;
}

static void receive(const struct message *message)
{
    struct message answer = *message;
    answer.kind = MESSAGE_ANSWER;
    answer.answers = message->kind;
    answer.ours = is_alive(message);
    if (message->kind != MESSAGE_ATTEMPT || answer.ours)
        answer_to(message, &answer);
    static const char *const words[] = { "attempt", "release", "ping", "change" };
    say("store: %s of c%u, session %llu, claim %llu: %s", words[message->kind], message->client,
        (unsigned long long)message->session, (unsigned long long)message->claim,
        !answer.ours ? "the session is over" : word_name(answer.word));
    answer.events = peers[message->client].events;
    network_send_to_client(message->client, &answer);
}

static void disconnected(unsigned client)
{
    (void)client; /* Its session ends by itself. */
}

/* Sessions, and what rests on them, live on; wakes that were under way are missed. */
static void restarted(bool forgetful)
{
    if (forgetful)
        violation("this store never forgets");
}

static bool holds(int name, unsigned client, uint64_t claim, hf_mode mode)
{
    const struct thing *thing = &things[name];
    for (unsigned i = 0; i < thing->count; i++) {
        const struct node *node = &thing->nodes[i];
        if (node->client == client && node->claim == claim && node->told && node->mode >= mode &&
            find_session(client, node->session))
            return !in_front(thing, node, mode);
    }
    return false;
}

static bool is_free(int name)
{
    for (unsigned i = 0; i < things[name].count; i++)
        if (things[name].nodes[i].told)
            return false;
    return true;
}

static unsigned residue(unsigned client, int64_t soon_us)
{
    unsigned left = 0;
    for (int name = 0; name < NAMES_MAX; name++)
        for (unsigned i = 0; i < things[name].count; i++) {
            const struct node *node = &things[name].nodes[i];
            const struct session *session = find_session(node->client, node->session);
            if (node->client != client || node->excused || !session ||
                session->ends_us <= world.now_us + soon_us)
                continue;
            say("left at the store: node %llu of c%u, claim %llu, on %s",
                (unsigned long long)node->number, client, (unsigned long long)node->claim,
                world.store->names[name]);
            left++;
        }
    return left;
}

static const char *const names[] = { "mutex/a", "rw/a",      "fair/a", "mutex/b",
                                     "rw/b",    "counter/a", "latch/a" };

const struct store queue_store = {
    .name = "queue",
    .names = names,
    .begin = begin,
    .receive = receive,
    .disconnected = disconnected,
    .restarted = restarted,
    .holds = holds,
    .is_free = is_free,
    .residue = residue,
    .open = queue_engine_open,
};
