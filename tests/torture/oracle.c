/* SPDX-License-Identifier: Apache-2.0 */
/* An exhaustive search over what the store may have done between the records: all states that it
 * can be in are carried from number to number. */
#include "oracle_claims.h"

#include "test.h"

#include <stdlib.h>

#define STATES_MAX 200000u

/* One possible state: what became of each claim, and the order of the queue. What has LAPSED was
 * ended by the store, by its right; what is GONE left in some other way. */
enum status { OUTSIDE, WAITING, INSIDE, GONE, LAPSED };

struct state {
    uint8_t status[STORY_CALLS];
    uint8_t queue[STORY_CALLS]; /* claims, plus one */
    bool changed[STORY_CALLS], met[STORY_CALLS];
    /* Since when nobody has been inside; and what that was when each claim entered. */
    uint8_t free_since, freed[STORY_CALLS];
};

struct oracle {
    struct oracle_claims claims;
    unsigned haste;
    struct state *states;
    size_t state_count;
    uint32_t *table; /* of states, by their bytes, plus one */
};

#define TABLE_SIZE (1u << 19)

/* ---- sets of states ---- */

static size_t hash_state(const struct state *state)
{
    const unsigned char *bytes = (const unsigned char *)state;
    uint64_t sum = 1469598103934665603u;
    for (size_t i = 0; i < sizeof *state; i++)
        sum = (sum ^ bytes[i]) * 1099511628211u;
    return (size_t)(sum ^ sum >> 29);
}

static void add_state(struct oracle *oracle, const struct state *state)
{
    size_t place = hash_state(state) % TABLE_SIZE;
    for (; oracle->table[place]; place = (place + 1) % TABLE_SIZE)
        if (memcmp(&oracle->states[oracle->table[place] - 1], state, sizeof *state) == 0)
            return;
    CHECK(oracle->state_count < STATES_MAX);
    oracle->states[oracle->state_count++] = *state;
    oracle->table[place] = (uint32_t)oracle->state_count;
}

static void clear_table(struct oracle *oracle)
{
    for (size_t i = 0; i < oracle->state_count; i++) {
        size_t place = hash_state(&oracle->states[i]) % TABLE_SIZE;
        while (oracle->table[place]) {
            oracle->table[place] = 0;
            place = (place + 1) % TABLE_SIZE;
        }
    }
}

/* ---- the store ---- */

static unsigned share_now(const struct oracle *oracle, const struct state *state, unsigned i)
{
    const struct claim *claim = &oracle->claims.all[i];
    return state->changed[i] ? claim->new_share : claim->share;
}

static bool shares_conflict(unsigned a, unsigned b)
{
    static const bool conflicts[3][3] = { { true, true, true },
                                          { true, false, false },
                                          { true, false, true } };
    return conflicts[a][b];
}

/* Whether what is inside, but for the claim itself, bars it in this share. What is its owner's own
 * bars it from nothing, but may be why a try was refused. */
static bool is_barred(const struct oracle *oracle, const struct state *state, unsigned wanted,
                      unsigned share, bool by_own)
{
    const struct claim *claim = &oracle->claims.all[wanted];
    uint64_t out = 0;
    for (unsigned i = 0; i < oracle->claims.count; i++) {
        const struct claim *other = &oracle->claims.all[i];
        if (i == wanted || state->status[i] != INSIDE)
            continue;
        out += other->weight;
        bool own = other->owner == claim->owner && !by_own;
        if (oracle->claims.description->mode == TORTURE_SEMAPHORE || own)
            continue;
        if (oracle->claims.description->mode == TORTURE_MUTEX ||
            shares_conflict(share_now(oracle, state, i), share))
            return true;
    }
    return oracle->claims.description->mode == TORTURE_SEMAPHORE &&
           out + claim->weight > oracle->claims.description->permits;
}

static bool is_exclusive(const struct oracle *oracle, unsigned share)
{
    return oracle->claims.description->mode == TORTURE_MUTEX || share == TORTURE_EXCLUSIVE;
}

/* Tokens rise from grant to grant, and stay the same within one. Each exclusive grant has one; only
 * that of a call without an answer is not known. */
static bool token_fits(const struct oracle *oracle, const struct state *state, unsigned wanted,
                       uint64_t token, bool exclusive, bool answered)
{
    const struct claim *claim = &oracle->claims.all[wanted];
    if (!(oracle->claims.description->flags & TORTURE_FENCED))
        return true;
    if (!token)
        return !exclusive || !answered;
    uint64_t most = 0;
    for (unsigned i = 0; i < oracle->claims.count; i++) {
        const struct claim *other = &oracle->claims.all[i];
        if (i == wanted || state->status[i] < INSIDE)
            continue;
        if (state->status[i] == INSIDE && other->owner == claim->owner && other->token)
            return other->token == token;
        if (is_exclusive(oracle, other->share) && other->token > most)
            most = other->token;
        if (state->changed[i] && is_exclusive(oracle, other->new_share) && other->new_token > most)
            most = other->new_token;
    }
    return exclusive ? token > most : token >= most;
}

static bool has_queue(const struct oracle *oracle)
{
    return oracle->claims.description->flags & TORTURE_FIFO;
}

static bool is_nested(const struct oracle *oracle, const struct state *state, unsigned wanted)
{
    for (unsigned i = 0; i < oracle->claims.count; i++)
        if (i != wanted && state->status[i] == INSIDE &&
            oracle->claims.all[i].owner == oracle->claims.all[wanted].owner)
            return true;
    return false;
}

static bool is_next(const struct oracle *oracle, const struct state *state, unsigned wanted)
{
    if (!has_queue(oracle) || is_nested(oracle, state, wanted))
        return true;
    if (state->status[wanted] == WAITING)
        return state->queue[0] == wanted + 1;
    return oracle->claims.all[wanted].try && !state->queue[0];
}

static void leave_queue(struct state *state, unsigned leaving)
{
    unsigned i = 0;
    while (i < STORY_CALLS && state->queue[i] != leaving + 1)
        i++;
    for (; i + 1 < STORY_CALLS; i++)
        state->queue[i] = state->queue[i + 1];
    state->queue[STORY_CALLS - 1] = 0;
}

/* ---- steps ---- */

static void try_entering(struct oracle *oracle, struct state state, unsigned i, uint64_t now)
{
    struct claim *claim = &oracle->claims.all[i];
    bool refused_try = claim->try && claim->kind == TORTURE_REFUSED;
    bool late = claim->kind == TORTURE_OK && now >= claim->answered;
    if (now < claim->asked || late || now >= claim->forgotten || refused_try)
        return;
    if (state.status[i] == OUTSIDE && has_queue(oracle) && !claim->try) {
        struct state queued = state;
        unsigned end = 0;
        while (queued.queue[end])
            end++;
        queued.queue[end] = (uint8_t)(i + 1);
        queued.status[i] = WAITING;
        add_state(oracle, &queued);
    }
    if (state.status[i] >= INSIDE || is_barred(oracle, &state, i, claim->share, false) ||
        !is_next(oracle, &state, i) ||
        !token_fits(oracle, &state, i, claim->token, is_exclusive(oracle, claim->share),
                    claim->kind == TORTURE_OK))
        return;
    if (state.status[i] == WAITING)
        leave_queue(&state, i);
    state.status[i] = INSIDE;
    state.freed[i] = state.free_since;
    add_state(oracle, &state);
}

/* By the number of the next record: this one has been written. Where nobody asks for haste, times
 * would only make more states of one. */
static void leave(struct oracle *oracle, struct state *state, unsigned i, enum status how,
                  uint64_t now)
{
    state->status[i] = (uint8_t)how;
    if (oracle->haste)
        state->free_since = (uint8_t)(now + 1);
    add_state(oracle, state);
}

static void try_leaving(struct oracle *oracle, struct state state, unsigned i, uint64_t now)
{
    const struct claim *claim = &oracle->claims.all[i];
    bool gives_up = claim->kind == TORTURE_REFUSED && now >= claim->patient;
    bool may_go =
        claim->kind == TORTURE_OK ? now >= claim->kept : claim->kind != TORTURE_REFUSED || gives_up;
    if (state.status[i] == INSIDE && may_go) {
        struct state lapsed = state;
        if (claim->told != NEVER_NUMBER && now >= claim->lasts)
            leave(oracle, &lapsed, i, LAPSED, now);
        leave(oracle, &state, i, GONE, now);
    } else if (state.status[i] == WAITING && claim->kind != TORTURE_OK && may_go) {
        leave_queue(&state, i);
        state.status[i] = GONE;
        add_state(oracle, &state);
    }
}

/* Where whoever asks stands in line, a try that has met what is in its way may be in that of
 * others, until it is answered; and the line for permits is one for all. */
static bool is_in_line_before(const struct oracle *oracle, const struct state *state, unsigned i,
                              unsigned wanted, uint64_t now)
{
    const struct torture_record *lock = oracle->claims.description;
    const struct claim *claim = &oracle->claims.all[i];
    return lock->flags & TORTURE_LINE && i != wanted && state->met[i] && now < claim->answered &&
           (lock->mode != TORTURE_RW ||
            shares_conflict(claim->share, oracle->claims.all[wanted].share));
}

/* A store that gives permits in the order of arrival refuses a try while somebody is in line, even
 * if there are enough for both. What had no answer may stand there until it is forgotten. */
static bool is_behind(const struct oracle *oracle, const struct state *state, unsigned wanted,
                      uint64_t now)
{
    if (state->queue[0])
        return true;
    for (unsigned i = 0; i < oracle->claims.count; i++) {
        const struct claim *other = &oracle->claims.all[i];
        if (is_in_line_before(oracle, state, i, wanted, now))
            return true;
        bool lines_up = !other->try || (oracle->claims.description->flags & TORTURE_LINE &&
                                        other->kind != TORTURE_REFUSED);
        if (oracle->claims.description->mode == TORTURE_SEMAPHORE && i != wanted && lines_up &&
            state->status[i] == OUTSIDE && now >= other->asked && now < other->forgotten &&
            (now < other->answered || other->kind == TORTURE_UNKNOWN))
            return true;
    }
    return false;
}

static void try_others(struct oracle *oracle, struct state state, unsigned i, uint64_t now)
{
    const struct claim *claim = &oracle->claims.all[i];
    bool asking = claim->try && claim->kind == TORTURE_REFUSED && now >= claim->asked &&
                  now < claim->answered;
    if (asking && !state.met[i] &&
        (is_barred(oracle, &state, i, claim->share, true) || is_behind(oracle, &state, i, now))) {
        struct state met = state;
        met.met[i] = true;
        add_state(oracle, &met);
    }
    if (state.status[i] != INSIDE || state.changed[i] || now < claim->changing ||
        (claim->changed != NEVER_NUMBER && now >= claim->changed))
        return;
    bool exclusive = claim->new_share == TORTURE_EXCLUSIVE;
    if (exclusive && is_barred(oracle, &state, i, claim->new_share, false))
        return;
    if (exclusive &&
        !token_fits(oracle, &state, i, claim->new_token, true, claim->changed != NEVER_NUMBER))
        return;
    state.changed[i] = true;
    add_state(oracle, &state);
}

/* ---- from number to number ---- */

/* Whoever waited had it soon enough after it was free, and after he had asked. */
static bool is_in_time(const struct oracle *oracle, const struct state *state, unsigned i)
{
    const struct claim *claim = &oracle->claims.all[i];
    uint64_t ready = claim->queued < claim->answered ? claim->queued : claim->asked;
    uint64_t since = state->freed[i] > ready ? state->freed[i] : ready;
    return !oracle->haste || claim->answered - since <= oracle->haste;
}

/* What has to be so by the record with this number. */
static bool agrees(const struct oracle *oracle, const struct state *state, uint64_t number)
{
    for (unsigned i = 0; i < oracle->claims.count; i++) {
        const struct claim *claim = &oracle->claims.all[i];
        if (number == claim->answered && claim->kind == TORTURE_OK &&
            (state->status[i] < INSIDE || !is_in_time(oracle, state, i)))
            return false;
        if (number == claim->answered && claim->try && claim->kind == TORTURE_REFUSED &&
            !state->met[i])
            return false;
        if (number == claim->queued && state->status[i] == OUTSIDE)
            return false;
        if (number == claim->told && state->status[i] != LAPSED)
            return false;
        if (number == claim->changed && !state->changed[i])
            return false;
        if (number >= claim->forgotten &&
            (state->status[i] == INSIDE || state->status[i] == WAITING))
            return false;
    }
    return true;
}

static void keep_agreeing(struct oracle *oracle, uint64_t number)
{
    size_t kept = 0;
    clear_table(oracle);
    for (size_t i = 0; i < oracle->state_count; i++)
        if (agrees(oracle, &oracle->states[i], number))
            oracle->states[kept++] = oracle->states[i];
    oracle->state_count = 0;
    for (size_t i = 0; i < kept; i++) {
        struct state state = oracle->states[i];
        add_state(oracle, &state);
    }
}

static void take_steps(struct oracle *oracle, uint64_t now)
{
    for (size_t s = 0; s < oracle->state_count; s++)
        for (unsigned i = 0; i < oracle->claims.count; i++) {
            try_entering(oracle, oracle->states[s], i, now);
            try_leaving(oracle, oracle->states[s], i, now);
            try_others(oracle, oracle->states[s], i, now);
        }
}

bool oracle_allows(const struct torture_record *records, size_t count, unsigned haste, bool *plain)
{
    static struct oracle oracle;
    if (!oracle.states) {
        oracle.states = malloc(STATES_MAX * sizeof *oracle.states);
        oracle.table = calloc(TABLE_SIZE, sizeof *oracle.table);
        CHECK(oracle.states && oracle.table);
    }
    struct state start = { { OUTSIDE } };
    oracle.haste = haste;
    oracle.state_count = 0;
    oracle_claims_read(&oracle.claims, records, count);
    *plain = oracle_claims_are_plain(&oracle.claims);
    add_state(&oracle, &start);
    for (uint64_t number = 1; number <= count && oracle.state_count; number++) {
        keep_agreeing(&oracle, number);
        take_steps(&oracle, number);
    }
    bool allowed = oracle.state_count > 0;
    clear_table(&oracle);
    return allowed;
}
