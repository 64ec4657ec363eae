/* SPDX-License-Identifier: Apache-2.0 */
/* A world in virtual time: clients, a network that fails, a store, people who lock and unlock, and
 * checks after every event. One seed is one history, the same each time.
 *
 * Nothing here is a thread, and nothing reads a real clock. World time is in microseconds and runs
 * as the store's clock does; each client has a clock of its own, in milliseconds, which starts
 * elsewhere and runs a little faster or slower. */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include "core/claim/claim.h"

#define CLIENTS_MAX 5
#define ACTORS_MAX 3
#define GRIPS_MAX 96
#define GRIPS_PER_ACTOR 4
#define NAMES_MAX 7
#define LOCKS 5 /* names before the counter and the latch */
#define COUNTER LOCKS
#define LATCH (LOCKS + 1)
#define LINK_ROOM 512
#define BROKEN_MAX 512
#define QUESTIONS_MAX 48
#define LEASE_MS 200
#define PATIENCE_MS 400

/* ---- the network ---- */

enum message_kind {
    MESSAGE_ATTEMPT,
    MESSAGE_RELEASE,
    MESSAGE_RENEW,
    MESSAGE_CHANGE,
    MESSAGE_ANSWER,
    MESSAGE_WAKE
};

/* Names a grant that was detached. */
struct sim_key {
    unsigned client;
    uint64_t claim; /* 0: no key */
};

struct message {
    enum message_kind kind;
    unsigned client;
    int name;
    uint64_t question, claim, session;
    uint64_t events; /* queue store: how many wakes were sent to this client so far */
    hf_mode mode;
    int keep;
    uint32_t permits;
    bool enqueue, held, fixed; /* held: the client has been granted something before */
    int64_t lease_ms, asked_at_ms;
    struct sim_key attach; /* of a release: it undoes the attach */
    enum hf_oneshot_verb verb;
    uint32_t value;
    /* answers */
    enum message_kind answers;
    enum hf_word word;
    int code; /* of a change */
    uint32_t result;
    bool ours; /* the lease, or the session, is (still) ours */
    int64_t left_ms;
    uint64_t token;
};

struct link {
    struct message messages[LINK_ROOM];
    unsigned first, count;
    int64_t last_us; /* when the latest one arrives: nothing overtakes */
    int64_t cut_until_us;
};

/* ---- who takes part ---- */

struct sim_engine;

struct sim_client {
    unsigned index;
    hf_client *client; /* NULL: closed, or crashed */
    struct sim_engine *engine;
    int64_t clock_offset_ms;
    int clock_drift_ppm;
    bool paused, blocked, closing;
    bool store_down; /* so it has been told */
    int64_t resumed_us, stopped_until_us;
    struct link to_store, to_client, inbox;
    int64_t turn_us;
    uint64_t turn_number;
};

/* A hold in somebody's hand. */
struct grip {
    hf_hold *hold;             /* NULL: not granted yet */
    struct sim_client *client; /* NULL: this place is free */
    int name;
    uint32_t permits;
    bool lost; /* its on_lost has run */
    bool unlock_when_lost;
    bool attached; /* without an on_lost */
};

struct request {
    bool pending, canceled, nested;
    struct grip *reserved; /* what a grant will fill */
    int name;
    hf_mode mode;
    uint32_t permits;
    int64_t asked_us, asked_at_ms, wait_ms, canceled_us;
    hf_request id;
};

struct actor {
    struct sim_client *client;
    uint64_t owner;
    int64_t act_us;
    bool blocked;
    struct request request;
    struct grip *grips[GRIPS_PER_ACTOR];
    unsigned grip_count;
};

/* A store, and the engine that speaks with it. */
struct store {
    const char *name;
    const char *const *names;
    void (*begin)(void);
    void (*receive)(const struct message *message);
    void (*disconnected)(unsigned client);
    /* It has been down, and nobody is connected any more. */
    void (*restarted)(bool forgetful);
    /* Does the store see this claim as a holder of at least `mode`, now? */
    bool (*holds)(int name, unsigned client, uint64_t claim, hf_mode mode);
    bool (*is_free)(int name);
    /* What is left of this client that will still be there in `soon_us`. */
    unsigned (*residue)(unsigned client, int64_t soon_us);
    struct sim_engine *(*open)(struct sim_client *client);
};

extern const struct store lease_store, queue_store;

/* A grant that was taken away by force; its client may not even have heard of it yet. */
struct broken {
    unsigned client;
    uint64_t claim;
    int64_t at_us;
};

struct event {
    int64_t at_us;
    uint64_t order;
    void (*run)(void *subject, uint64_t detail);
    void *subject;
    uint64_t detail;
};

struct faults {
    unsigned loss_permille, double_permille;
    unsigned cuts, pauses, crashes, closes, restarts;
    unsigned open_permille; /* replies that leave open whether the request was executed */
    unsigned refusals;      /* releases that the store will refuse to execute */
    bool any, breaks;
    bool forgetful; /* what the store had is gone after a restart */
};

struct totals {
    uint64_t seeds, events, grants, busy, canceled, unreachable, lost, late, raised, messages,
        dropped, opened, refused, renewed, detached, attached, broken, taken, restarts;
};

struct world {
    uint64_t seed, random;
    int64_t now_us, calm_us, stop_us, end_us;
    const struct store *store;
    struct event *heap;
    unsigned heap_count, heap_room;
    uint64_t order;
    struct faults faults;
    bool trace, stopped;
    bool forgetful; /* the setting: restarts lose the store's state */
    bool blocking;  /* somebody is inside a blocking call, which turns the world */
    const struct sim_client *running;
    unsigned client_count, actor_count, name_count;
    int think_ms;
    struct sim_client clients[CLIENTS_MAX];
    struct actor actors[CLIENTS_MAX * ACTORS_MAX];
    struct grip grips[GRIPS_MAX];
    struct broken broken[BROKEN_MAX];
    unsigned broken_count;
    uint64_t last_token[NAMES_MAX];
    int64_t free_since_us[NAMES_MAX];
    int64_t forgiven_until_us; /* until then people may believe what the store forgot */
    bool forgot, refuses;
    int64_t forgot_us; /* when it forgot last */
    struct totals totals;
};

extern struct world world;

/* ---- world.c ---- */

uint64_t random_below(uint64_t limit);
int64_t random_between(int64_t low, int64_t high);
bool chance(unsigned permille);
void world_at(int64_t at_us, void (*run)(void *, uint64_t), void *subject, uint64_t detail);
/* Lets the next event happen. */
void world_step(void);
void world_run(const struct store *store, uint64_t seed);
__attribute__((noreturn, format(printf, 1, 2))) void violation(const char *format, ...);
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

/* ---- network.c ---- */

void network_send_to_store(struct sim_client *client, const struct message *message);
void network_send_to_client(unsigned client, const struct message *message);
void network_cut(struct sim_client *client, int64_t until_us);
/* Both ways, and what is under way is lost. */
void network_stop(struct sim_client *client, int64_t until_us);

/* ---- client.c ---- */

void client_open(struct sim_client *client, unsigned index);
void client_close(struct sim_client *client);
void client_crash(struct sim_client *client);
void client_pause(struct sim_client *client, int64_t until_us);
void client_receive(struct sim_client *client, const struct message *message);
int64_t client_clock(const struct sim_client *client);
unsigned client_claims(struct sim_client *client);

/* ---- actors.c ---- */

void actors_begin(void);
bool actors_are_done(void);
/* What the client's actors hold is no longer theirs, and until the client is gone nobody else's:
 * hf_close may call an on_lost. */
void actors_drop(struct sim_client *client);
void actors_free_grips(const struct sim_client *client);

/* Room for what somebody is going to hold, and for calls that block: one at a time in the world. */
struct grip *reserve_grip(struct sim_client *client);
void drop_grip(struct actor *actor, struct grip *grip);
void block(struct actor *actor, bool blocked);

/* ---- verbs.c ---- */

void verbs_begin(void);
/* Calls something that is no lock. */
void verbs_act(struct actor *actor);
/* Is there something to attach to, before its lease is over? */
bool verbs_are_pressing(void);
/* Calls something about what the actor holds. False: nothing fits. */
bool verbs_act_on(struct actor *actor, struct grip *grip);
/* A lock is released, and not put back under the key that it was attached by. */
void verbs_check_attached(unsigned client, uint64_t claim);
/* At the end: what was put into the counter and not taken is there. */
void verbs_check_counter(void);

/* ---- values.c: what both stores have besides locks ---- */

void values_begin(void);
/* True: it was about a counter or a latch, and is answered. */
bool values_receive(const struct message *message, struct message *answer);

/* How the store treats a request. */
struct fate {
    bool executes;
    bool open;    /* the reply is an error that does not tell whether it was executed */
    bool refused; /* the reply is a definite no: nothing was cleaned up */
};
struct fate values_fate(const struct message *message);
uint32_t values_counter(void);

/* ---- checks.c ---- */

void check_beliefs(void);
void check_progress(void);
void check_residue(bool at_the_end);
void check_answer(const struct actor *actor, int code, const hf_hold *hold, const hf_error *error);
/* What a blocking call other than hf_lock has answered. */
void check_call(const struct actor *actor, const char *call, int code);
/* The store takes this claim's grant away by force. */
void check_broken(unsigned client, uint64_t claim);
/* It had not been heard of, was asked for again, and is granted anew. */
void check_granted(unsigned client, uint64_t claim);
/* May the store and its clients differ about `grip` now? */
bool check_is_forgiven(const struct grip *grip);
/* The store is about to let somebody in who excludes whom `conflicts` names. */
void check_loss_was_told(int name, unsigned client, uint64_t claim, hf_mode mode);

static inline bool mode_is_exclusive(hf_mode mode)
{
    return mode == HF_MUTEX || mode == HF_FAIR || mode == HF_WRITE;
}

/* May two owners have these at the same time? Permits are counted elsewhere. */
static inline bool modes_conflict(hf_mode a, hf_mode b)
{
    if (a == HF_PERMIT || b == HF_PERMIT)
        return false;
    return mode_is_exclusive(a) || mode_is_exclusive(b) || (a == HF_UPGRADE && b == HF_UPGRADE);
}

#define SEMAPHORE_PERMITS 2u

#endif
