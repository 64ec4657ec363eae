/* SPDX-License-Identifier: Apache-2.0 */
/* What the records of a small history say of each acquisition in it, before anybody searches. */
#ifndef TESTS_TORTURE_ORACLE_CLAIMS_H
#define TESTS_TORTURE_ORACLE_CLAIMS_H

#include "oracle.h"

#define NEVER_NUMBER UINT64_MAX

/* An acquisition, and when it may have been in the store. */
struct claim {
    uint64_t asked, answered; /* numbers; answered: NEVER_NUMBER if there is no answer */
    uint64_t queued;          /* it stood in the queue by then */
    uint64_t patient;         /* it has not left the queue before */
    uint64_t kept;            /* the holder is sure up to here; 0: never */
    uint64_t since;           /* and, after a gap, is again from here on */
    uint64_t forgotten;       /* it is gone by then */
    uint64_t told;  /* by then it had been lost, says an answer; NEVER_NUMBER: none does */
    uint64_t lasts; /* of what was told: the store has not ended it before */
    uint64_t changing, changed, renewing;
    uint64_t owner, token, new_token, deadline;
    uint32_t weight;
    uint8_t kind; /* of the answer */
    uint8_t share, new_share;
    bool try, given_back, over, gap;
    bool unclear; /* it was asked to change, and nobody knows, or the answer was no */
    bool open;    /* a change may have moved its end */
};

struct oracle_claims {
    const struct torture_record *description; /* of the lock */
    struct claim all[STORY_CALLS];
    unsigned count;
};

void oracle_claims_read(struct oracle_claims *claims, const struct torture_record *records,
                        size_t count);
/* All calls have clear answers, and all who were granted something were sure of it for a while. */
bool oracle_claims_are_plain(const struct oracle_claims *claims);

#endif
