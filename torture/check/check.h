/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the checker: one lock's history as calls, holds and beliefs. Everything is said in
 * numbers of records, and deadlines are turned into numbers first, so that no rule looks at a
 * clock. */
#ifndef HF_TORTURE_CHECK_CHECK_H
#define HF_TORTURE_CHECK_CHECK_H

#include "torture/check/verdict.h"

#define TORTURE_NO_END UINT64_MAX

/* A call: its records, as far as there are any. */
struct torture_call {
    const struct torture_record *invoke, *end;
    struct torture_place *place; /* its latest one, or NULL */
    struct torture_hold *hold;   /* what it was granted, or NULL */
    struct torture_hold *about;  /* what it is to change, or NULL */
};

/* A place in the store's queue. It may end before its call, with what it rests on, and the call
 * then gets another one. */
struct torture_place {
    const struct torture_call *call;
    const struct torture_record *enqueued;
    const struct torture_record *displaced; /* NULL: it has it until the call ends */
    struct torture_place *former;           /* the call's one before, or NULL */
    uint64_t passed_over;                   /* L2: how often, if it has been displaced */
};

/* What an acquisition was granted. */
struct torture_hold {
    const struct torture_call *call;
    const struct torture_call *release; /* the first one, or NULL */
    const struct torture_record *lost;
    const struct torture_record *lowering;   /* the invocation of a downgrade without an answer */
    const struct torture_record *lost_early; /* by this answer, before its deadline; or NULL */
    bool told;       /* lost before its deadline, and it is not known when the holder learnt */
    uint8_t share;   /* now, while its records are gone through; the last one afterwards */
    uint8_t highest; /* the strongest share it has had or has asked for */
    bool nested;     /* granted while its owner held the lock anyway */
    bool entered;    /* another one is nested in it */
    bool unclear;    /* a call to change it has had no clear answer */
    bool gone;       /* it had been lost, by an answer */
    bool fresh;      /* granted when nothing of its owner can have been there */
    uint64_t owner;
    uint64_t from, proof; /* the belief that is being built: begun here, proven up to here */
    int64_t deadline_ns;
    uint64_t bridge_from; /* up to `from`, in another share, if it turns out to go on; 0: no */
    uint8_t bridge_share;
    uint64_t believed_from, believed_to; /* all its beliefs together; equal: there is none */
    struct torture_hold *claim; /* the first hold of the owner's grant: itself or another */
    uint64_t first_release;     /* of a claim: the earliest release of any of its holds */
};

/* From one number to just before another, the holder is sure. */
struct torture_belief {
    uint64_t from, to;
    struct torture_hold *hold;
    uint32_t weight;
    uint8_t share;
};

struct torture_object {
    const struct torture_record *description;
    uint16_t id;
    enum torture_form form;
    uint64_t permits;
    const struct torture_record *const *records; /* this lock's, by number */
    size_t record_count;
    struct torture_call *calls; /* by the number of their invocation */
    size_t call_count;
    struct torture_place *places; /* by the number of TORTURE_ENQUEUED */
    size_t place_count;
    struct torture_hold *holds; /* by the number of their grant */
    size_t hold_count;
    struct torture_belief *beliefs; /* by where they begin */
    size_t belief_count;
    uint64_t overlaps; /* findings of S1, S2, S5 and S6 so far */
    uint64_t opened;   /* a latch: the number by which it was open for certain */
};

struct torture_fault {
    int64_t from_ns, to_ns;
    int64_t longest_ns; /* the latest end of this and of those before it */
    const struct torture_record *on;
    bool hit;
};

struct torture_checking {
    const struct torture_history *history;
    struct torture_limits limits;
    struct torture_report *report;
    const struct torture_record **others; /* the few that are not about a lock, by number */
    size_t other_count;
    int64_t *latest;                       /* of the records up to this one */
    int64_t *earliest;                     /* of the records from this one on */
    const struct torture_record **crashes; /* by client, then number */
    size_t crash_count;
    struct torture_fault *faults; /* by when they began */
    size_t fault_count;
    bool held_by_connections;
    int64_t *hand_overs_ns;
    size_t hand_over_count;
    size_t lock_count;
    uint32_t client_count;
    uint64_t *grants; /* by client */
    uint64_t malformed, malformed_at;
    const char *malformed_why;
    bool no_memory;
};

/* ---- tools ---- */

/* Memory that is NULL, and remembered to be, when there is none. */
void *torture_room(struct torture_checking *checking, size_t count, size_t size);

void torture_malformed(struct torture_checking *checking, const struct torture_record *record,
                       const char *why);

/* The first number at which a deadline is surely over, and the first by which a time has surely
 * passed for all that follows: the one cuts beliefs short, the other prolongs what is only
 * possible. */
uint64_t torture_deadline_number(const struct torture_checking *checking, int64_t deadline_ns);
uint64_t torture_forgotten_number(const struct torture_checking *checking, int64_t until_ns);

/* By when the store has forgotten what this call, or hold, may have left there. */
uint64_t torture_call_forgotten(const struct torture_checking *checking,
                                const struct torture_call *call);
uint64_t torture_hold_forgotten(const struct torture_checking *checking,
                                const struct torture_hold *hold);

bool torture_collect_faults(struct torture_checking *checking);
/* Whether a client was under a fault between these times, or shortly before; TORTURE_NOBODY:
 * whether any was; TORTURE_STORE: whether there was a fault that is not aimed at one client. */
#define TORTURE_STORE (TORTURE_NOBODY - 1)
bool torture_was_faulty(const struct torture_checking *checking, int64_t from_ns, int64_t to_ns,
                        uint32_t client);
/* Whether a fault may have taken from the client what it held: one of the store, or of the client's
 * connection, where what is held ends with that. */
bool torture_may_have_lost(const struct torture_checking *checking, int64_t from_ns, int64_t to_ns,
                           uint32_t client);

static inline bool torture_is_acquisition(const struct torture_record *invoke)
{
    return invoke->verb == TORTURE_ACQUIRE || invoke->verb == TORTURE_TRY;
}

/* What it takes of the lock; 0 stands for 1, as in the library. */
static inline uint32_t torture_weight(const struct torture_object *lock,
                                      const struct torture_record *invoke)
{
    bool counts = lock->form == TORTURE_SEMAPHORE || lock->form == TORTURE_LATCH;
    return counts && invoke->permits ? invoke->permits : 1;
}

/* Since when it has the place that it has. NULL: it has none, as far as is known. */
static inline const struct torture_record *torture_enqueued(const struct torture_call *call)
{
    return call->place && !call->place->displaced ? call->place->enqueued : NULL;
}

static inline bool torture_ended(const struct torture_call *call, enum torture_kind kind)
{
    return call->end && call->end->kind == kind;
}

/* An acquisition that an error ended, by which nothing of it came to the store. */
static inline bool torture_was_an_error(const struct torture_call *call)
{
    return torture_ended(call, TORTURE_REFUSED) &&
           call->end->flags & (TORTURE_FAILED | TORTURE_OTHER_KIND);
}

static inline bool torture_shares_conflict(unsigned a, unsigned b)
{
    if (a == TORTURE_SHARED || b == TORTURE_SHARED)
        return a == TORTURE_EXCLUSIVE || b == TORTURE_EXCLUSIVE;
    return true;
}

static inline uint64_t torture_smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t torture_larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- how much of a lock is in use, from number to number ---- */

struct torture_span {
    uint64_t from, to;
    uint64_t weight;
};

struct torture_load {
    uint64_t *at;   /* where it changes, rising */
    uint64_t *most; /* a tree of maxima; the leaves are the sums from each change on */
    size_t count;
};

bool torture_load_build(struct torture_checking *checking, struct torture_load *load,
                        const struct torture_span *spans, size_t count);
/* The most at any moment from number `from` to number `to`. */
uint64_t torture_load_most(const struct torture_load *load, uint64_t from, uint64_t to);
void torture_load_free(struct torture_load *load);

/* ---- findings ---- */

/* Counts it, and keeps it with its sentence if there is room. */
__attribute__((format(printf, 4, 5))) void torture_found(struct torture_checking *checking,
                                                         const struct torture_object *lock,
                                                         struct torture_finding *finding,
                                                         const char *format, ...);

struct torture_name {
    char text[40];
};
/* The lock's name without what would confuse a terminal. */
struct torture_name torture_lock_name(const struct torture_object *lock);
/* "1.234567 s", from the history's beginning on. */
struct torture_name torture_moment(const struct torture_checking *checking, uint64_t number);
/* "client 3 (token 17)" */
struct torture_name torture_holder(const struct torture_hold *hold);

/* ---- the steps and rules, in the order in which they run ---- */

bool torture_lock_calls(struct torture_checking *checking, struct torture_object *lock);
bool torture_lock_beliefs(struct torture_checking *checking, struct torture_object *lock);
bool torture_check_claims(struct torture_checking *checking, struct torture_object *lock);
void torture_check_exclusion(struct torture_checking *checking, struct torture_object *lock);
void torture_check_losses(struct torture_checking *checking, const struct torture_object *lock);
bool torture_check_permits(struct torture_checking *checking, struct torture_object *lock);
bool torture_check_tokens(struct torture_checking *checking, const struct torture_object *lock);
bool torture_check_refusals(struct torture_checking *checking, const struct torture_object *lock);
bool torture_check_latch(struct torture_checking *checking, struct torture_object *lock);
void torture_check_writes(struct torture_checking *checking, const struct torture_object *lock);
bool torture_check_order(struct torture_checking *checking, const struct torture_object *lock);
bool torture_check_waits(struct torture_checking *checking, const struct torture_object *lock);
void torture_check_end(struct torture_checking *checking);
void torture_conclude(struct torture_checking *checking);

#endif
