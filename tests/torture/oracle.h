/* SPDX-License-Identifier: Apache-2.0 */
/* The judge of the judge: small random histories, and an exhaustive search for any way in which a
 * correct store could have answered like that. */
#ifndef TESTS_TORTURE_ORACLE_H
#define TESTS_TORTURE_ORACLE_H

#include "torture/history/history.h"

#define STORY_RECORDS 64u
#define STORY_CALLS 10u

/* What may happen in a history of one kind. */
struct story_kind {
    const char *name;
    enum torture_form form;
    uint8_t flags;
    uint32_t permits;
    unsigned clients, calls;
    bool tries, leases, renewals, unknowns, nesting, changes, quitting;
    unsigned errors; /* of a hundred things that the store does */
    unsigned haste;  /* who waits for what is free has it after so many records; 0: at any time */
    /* The rules find whatever is impossible, in plain histories. Without this they may miss
     * something; what they find must be impossible always. */
    bool exact;
};

struct story {
    struct torture_record records[STORY_RECORDS];
    size_t count;
    uint64_t random; /* the generator's state */
};

/* A history of this kind, by a store that errs now and then. The seed makes it. */
void story_write(struct story *story, const struct story_kind *kind, uint64_t seed);

/* Whether a correct store, in this haste, could have given these answers. `plain`: all calls have
 * clear answers, and all who were granted something were sure of it for a while. */
bool oracle_allows(const struct torture_record *records, size_t count, unsigned haste, bool *plain);
bool oracle_allows_latch(const struct torture_record *records, size_t count);

#endif
