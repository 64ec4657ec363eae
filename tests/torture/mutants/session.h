/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the subject share: a client's session, its claims, and asking the store. */
#ifndef TESTS_TORTURE_MUTANTS_SESSION_H
#define TESTS_TORTURE_MUTANTS_SESSION_H

#include "mutants.h"
#include "store.h"

#include "torture/prng.h"

/* What the store has granted to an owner: one, however often he enters it. */
struct mutant_claim {
    struct mutant_claim *next;
    const struct torture_lock *lock;
    struct store_question question; /* that it was granted to */
    uint64_t owner;                 /* of the caller's */
    uint64_t token;
    int64_t deadline_ns;
    unsigned grips;
    bool lost;
};

struct torture_grip {
    struct mutant_claim *claim;
    void (*on_lost)(void *arg);
    void *lost_arg;
};

struct mutant_session {
    const struct torture_setup *setup;
    struct store *store;
    int server; /* a connection to a Redis server, which then is asked instead; or -1 */
    struct mutant_claim *claims;
    uint64_t next_owner;
    struct torture_prng dice;
};

/* Asks the store, which is a little way off. `point` comes before the question leaves, "after_send"
 * before its answer is read. */
struct store_answer mutant_ask(struct mutant_session *session, const char *point,
                               store_script *script, const char *name,
                               const struct store_question *question);
void mutant_at_point(const struct mutant_session *session, const char *point);

/* ---- claim.c: what the owner of a claim may believe ---- */

/* By the clock that the deadline is kept on. */
int64_t mutant_clock_ns(void);
/* The lease of the question that was asked then counts from then on. */
void mutant_set_deadline(struct mutant_claim *claim, int64_t asked_ns);
bool mutant_is_held(const struct mutant_claim *claim);
int64_t mutant_left_ns(const struct mutant_claim *claim);

/* ---- acquire.c ---- */

enum torture_answer mutant_acquire(void *session, const struct torture_ask *ask,
                                   struct torture_grip **ret);

#endif
