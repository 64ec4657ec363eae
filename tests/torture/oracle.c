/* An exhaustive search over what the store may have done between the records: all states that it
 * can be in are carried from number to number. */
#include "oracle.h"

#include "test.h"

#include <stdlib.h>

#define NEVER_NUMBER UINT64_MAX
#define STATES_MAX 200000u

/* An acquisition, and when it may have been in the store. */
struct claim {
    uint64_t asked, answered; /* numbers; answered: NEVER_NUMBER if there is no answer */
    uint64_t queued;          /* it stood in the queue by then */
    uint64_t patient;         /* it has not left the queue before */
    uint64_t kept;            /* the holder is sure up to here; 0: never */
    uint64_t since;           /* and, after a gap, is again from here on */
    uint64_t forgotten;       /* it is gone by then */
    uint64_t changing, changed, renewing;
    uint64_t owner, token, new_token, deadline;
    uint32_t weight;
    uint8_t kind; /* of the answer */
    uint8_t share, new_share;
    bool try, given_back, over, gap;
};

/* One possible state: what became of each claim, and the order of the queue. */
enum status { OUTSIDE, WAITING, INSIDE, GONE };

struct state {
    uint8_t status[STORY_CALLS];
    uint8_t queue[STORY_CALLS]; /* claims, plus one */
    bool changed[STORY_CALLS], met[STORY_CALLS];
    /* Since when nobody has been inside; and what that was when each claim entered. */
    uint8_t free_since, freed[STORY_CALLS];
};

struct oracle {
    const struct torture_record *description;
    unsigned haste;
    struct claim claims[STORY_CALLS];
    unsigned count;
    struct state *states;
    size_t state_count;
    uint32_t *table; /* of states, by their bytes, plus one */
};

#define TABLE_SIZE (1u << 19)

/* ---- what the records say of each claim ---- */

static struct claim *claim_of(struct oracle *oracle, const struct torture_record *records,
                              uint64_t operation)
{
    unsigned index = 0;
    for (size_t i = 0; records[i].operation != operation || records[i].kind != TORTURE_INVOKE; i++)
        index += records[i].kind == TORTURE_INVOKE &&
                 (records[i].verb == TORTURE_TRY || records[i].verb == TORTURE_ACQUIRE);
    return &oracle->claims[index];
}

/* Records are ten nanoseconds apart, and deadlines fall between them: the last number before. */
static uint64_t number_of(int64_t at_ns)
{
    return at_ns == TORTURE_NEVER || at_ns == 0 ? NEVER_NUMBER : (uint64_t)at_ns / 10;
}

static void begin_claim(struct oracle *oracle, const struct torture_record *record)
{
    CHECK(oracle->count < STORY_CALLS);
    oracle->claims[oracle->count++] = (struct claim){
        .asked = record->number,
        .answered = NEVER_NUMBER,
        .queued = NEVER_NUMBER,
        .patient = record->deadline_ns ? number_of(record->deadline_ns) : 0,
        .kept = NEVER_NUMBER,
        .forgotten = NEVER_NUMBER,
        .changing = NEVER_NUMBER,
        .changed = NEVER_NUMBER,
        .owner = record->owner,
        .weight = record->permits,
        .share = record->mode,
        .try = record->verb == TORTURE_TRY,
    };
}

static void answer_claim(struct claim *claim, const struct torture_record *record)
{
    claim->answered = record->number;
    claim->kind = record->kind;
    claim->token = record->token;
    claim->deadline = number_of(record->deadline_ns);
    claim->kept = 0;
    claim->since = record->number;
    if (record->kind == TORTURE_UNKNOWN) {
        claim->forgotten = number_of(record->until_ns);
        claim->forgotten += claim->forgotten != NEVER_NUMBER;
    }
    if (record->kind == TORTURE_REFUSED)
        claim->forgotten = record->number;
}

/* Whatever ends belief: up to here it was there if the deadline had not come, and if what follows
 * shows it. */
static void end_belief(struct claim *claim, uint64_t number)
{
    if (claim->over)
        return;
    claim->over = true;
    bool in_time = claim->deadline >= number;
    uint64_t end = in_time ? number : claim->deadline;
    if (end > claim->kept && end >= claim->since && (claim->given_back || !in_time))
        claim->kept = end;
}

static void release_claim(struct claim *claim, const struct torture_record *invoke, size_t left)
{
    for (size_t i = 0; i < left; i++)
        if (invoke[i].operation == invoke->operation && invoke[i].kind == TORTURE_OK)
            claim->given_back = true;
    end_belief(claim, invoke->number);
}

static void change_claim(struct claim *claim, const struct torture_record *record)
{
    if (record->kind == TORTURE_INVOKE) {
        claim->changing = record->number;
        claim->new_share = record->verb == TORTURE_UPGRADE ? TORTURE_EXCLUSIVE : record->mode;
    } else {
        claim->changed = record->number;
        claim->new_token = record->token;
        claim->kept = claim->changing;
    }
}

/* What was renewed was there when that was asked for, so it had never left. Whether its holder was
 * sure between a deadline and the answer is nobody's to say. */
static void renew_claim(struct claim *claim, const struct torture_record *record)
{
    if (record->kind == TORTURE_INVOKE)
        claim->renewing = record->number;
    if (record->kind != TORTURE_OK || claim->over)
        return;
    if (claim->renewing > claim->kept)
        claim->kept = claim->renewing;
    if (claim->deadline < record->number) {
        claim->gap = true;
        claim->since = record->number;
    }
    claim->deadline = number_of(record->deadline_ns);
}

static void see_claim(struct claim *claim, const struct torture_record *record)
{
    if (claim->over)
        return;
    claim->kept = record->number;
    if (record->deadline_ns)
        claim->deadline = number_of(record->deadline_ns);
}

static bool acquires(const struct torture_record *record)
{
    return record->verb == TORTURE_TRY || record->verb == TORTURE_ACQUIRE;
}

static void read_record(struct oracle *oracle, const struct torture_record *records, size_t i,
                        size_t count)
{
    const struct torture_record *record = &records[i];
    if (record->kind == TORTURE_LOCK) {
        oracle->description = record;
    } else if (record->kind == TORTURE_INVOKE && acquires(record)) {
        begin_claim(oracle, record);
    } else if (record->kind == TORTURE_ENQUEUED) {
        claim_of(oracle, records, record->operation)->queued = record->number;
    } else if (acquires(record)) {
        answer_claim(claim_of(oracle, records, record->operation), record);
    } else if (record->kind == TORTURE_STILL) {
        see_claim(claim_of(oracle, records, record->hold), record);
    } else if (record->kind == TORTURE_LOST) {
        end_belief(claim_of(oracle, records, record->hold), record->number);
    } else if (record->verb == TORTURE_RELEASE && record->kind == TORTURE_INVOKE) {
        release_claim(claim_of(oracle, records, record->hold), record, count - i);
    } else if (record->verb == TORTURE_RELEASE) {
        claim_of(oracle, records, record->hold)->forgotten = record->number;
    } else if (record->verb == TORTURE_RENEW) {
        renew_claim(claim_of(oracle, records, record->hold), record);
    } else {
        change_claim(claim_of(oracle, records, record->hold), record);
    }
}

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
    const struct claim *claim = &oracle->claims[i];
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
    const struct claim *claim = &oracle->claims[wanted];
    uint64_t out = 0;
    for (unsigned i = 0; i < oracle->count; i++) {
        const struct claim *other = &oracle->claims[i];
        if (i == wanted || state->status[i] != INSIDE)
            continue;
        out += other->weight;
        bool own = other->owner == claim->owner && !by_own;
        if (oracle->description->mode == TORTURE_SEMAPHORE || own)
            continue;
        if (oracle->description->mode == TORTURE_MUTEX ||
            shares_conflict(share_now(oracle, state, i), share))
            return true;
    }
    return oracle->description->mode == TORTURE_SEMAPHORE &&
           out + claim->weight > oracle->description->permits;
}

static bool is_exclusive(const struct oracle *oracle, unsigned share)
{
    return oracle->description->mode == TORTURE_MUTEX || share == TORTURE_EXCLUSIVE;
}

/* Tokens rise from grant to grant, and stay the same within one. */
static bool token_fits(const struct oracle *oracle, const struct state *state, unsigned wanted,
                       uint64_t token, bool exclusive)
{
    const struct claim *claim = &oracle->claims[wanted];
    if (!(oracle->description->flags & TORTURE_FENCED) || !token)
        return true;
    uint64_t most = 0;
    for (unsigned i = 0; i < oracle->count; i++) {
        const struct claim *other = &oracle->claims[i];
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
    return oracle->description->flags & TORTURE_FIFO;
}

static bool is_nested(const struct oracle *oracle, const struct state *state, unsigned wanted)
{
    for (unsigned i = 0; i < oracle->count; i++)
        if (i != wanted && state->status[i] == INSIDE &&
            oracle->claims[i].owner == oracle->claims[wanted].owner)
            return true;
    return false;
}

static bool is_next(const struct oracle *oracle, const struct state *state, unsigned wanted)
{
    if (!has_queue(oracle) || is_nested(oracle, state, wanted))
        return true;
    if (state->status[wanted] == WAITING)
        return state->queue[0] == wanted + 1;
    return oracle->claims[wanted].try && !state->queue[0];
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
    struct claim *claim = &oracle->claims[i];
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
        !token_fits(oracle, &state, i, claim->token, is_exclusive(oracle, claim->share)))
        return;
    if (state.status[i] == WAITING)
        leave_queue(&state, i);
    state.status[i] = INSIDE;
    state.freed[i] = state.free_since;
    add_state(oracle, &state);
}

/* By the number of the next record: this one has been written. Where nobody asks for haste, times
 * would only make more states of one. */
static void leave(struct oracle *oracle, struct state *state, unsigned i, uint64_t now)
{
    state->status[i] = GONE;
    if (oracle->haste)
        state->free_since = (uint8_t)(now + 1);
    add_state(oracle, state);
}

static void try_leaving(struct oracle *oracle, struct state state, unsigned i, uint64_t now)
{
    const struct claim *claim = &oracle->claims[i];
    bool gives_up = claim->kind == TORTURE_REFUSED && now >= claim->patient;
    bool may_go =
        claim->kind == TORTURE_OK ? now >= claim->kept : claim->kind != TORTURE_REFUSED || gives_up;
    if (state.status[i] == INSIDE && may_go) {
        leave(oracle, &state, i, now);
    } else if (state.status[i] == WAITING && claim->kind != TORTURE_OK && may_go) {
        leave_queue(&state, i);
        state.status[i] = GONE;
        add_state(oracle, &state);
    }
}

/* A store that gives permits in the order of arrival refuses a try while somebody is in line, even
 * if there are enough for both. */
static bool is_behind(const struct oracle *oracle, const struct state *state, unsigned wanted,
                      uint64_t now)
{
    if (state->queue[0])
        return true;
    for (unsigned i = 0; i < oracle->count; i++) {
        const struct claim *other = &oracle->claims[i];
        if (oracle->description->mode == TORTURE_SEMAPHORE && i != wanted && !other->try &&
            state->status[i] == OUTSIDE && now >= other->asked && now < other->answered &&
            now < other->forgotten)
            return true;
    }
    return false;
}

static void try_others(struct oracle *oracle, struct state state, unsigned i, uint64_t now)
{
    const struct claim *claim = &oracle->claims[i];
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
    if (exclusive && !token_fits(oracle, &state, i, claim->new_token, true))
        return;
    state.changed[i] = true;
    add_state(oracle, &state);
}

/* ---- from number to number ---- */

/* Whoever waited had it soon enough after it was free, and after he had asked. */
static bool is_in_time(const struct oracle *oracle, const struct state *state, unsigned i)
{
    const struct claim *claim = &oracle->claims[i];
    uint64_t ready = claim->queued < claim->answered ? claim->queued : claim->asked;
    uint64_t since = state->freed[i] > ready ? state->freed[i] : ready;
    return !oracle->haste || claim->answered - since <= oracle->haste;
}

/* What has to be so by the record with this number. */
static bool agrees(const struct oracle *oracle, const struct state *state, uint64_t number)
{
    for (unsigned i = 0; i < oracle->count; i++) {
        const struct claim *claim = &oracle->claims[i];
        if (number == claim->answered && claim->kind == TORTURE_OK &&
            (state->status[i] < INSIDE || !is_in_time(oracle, state, i)))
            return false;
        if (number == claim->answered && claim->try && claim->kind == TORTURE_REFUSED &&
            !state->met[i])
            return false;
        if (number == claim->queued && state->status[i] == OUTSIDE)
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
        for (unsigned i = 0; i < oracle->count; i++) {
            try_entering(oracle, oracle->states[s], i, now);
            try_leaving(oracle, oracle->states[s], i, now);
            try_others(oracle, oracle->states[s], i, now);
        }
}

static bool is_plain(const struct oracle *oracle)
{
    for (unsigned i = 0; i < oracle->count; i++) {
        const struct claim *claim = &oracle->claims[i];
        bool clear_no = claim->kind == TORTURE_REFUSED && claim->try;
        bool changed = claim->changed != NEVER_NUMBER;
        if (claim->gap || (!clear_no && (claim->kind != TORTURE_OK || claim->kept == 0)))
            return false;
        if (changed && claim->kept < claim->changed)
            return false;
    }
    return true;
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
    oracle.count = 0;
    oracle.haste = haste;
    oracle.state_count = 0;
    for (size_t i = 0; i < count; i++)
        read_record(&oracle, records, i, count);
    *plain = is_plain(&oracle);
    add_state(&oracle, &start);
    for (uint64_t number = 1; number <= count && oracle.state_count; number++) {
        keep_agreeing(&oracle, number);
        take_steps(&oracle, number);
    }
    bool allowed = oracle.state_count > 0;
    clear_table(&oracle);
    return allowed;
}
