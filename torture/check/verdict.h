/* SPDX-License-Identifier: Apache-2.0 */
/* What a history proves: the rules, what broke them, and the sentence at the end. */
#ifndef HF_TORTURE_CHECK_VERDICT_H
#define HF_TORTURE_CHECK_VERDICT_H

#include "torture/history/history.h"

enum torture_verdict {
    TORTURE_SAFE_SO_FAR, /* never "passed": nothing was found, in this much traffic */
    TORTURE_VIOLATION,
    TORTURE_INCONCLUSIVE /* too little happened, a fault never bit, or the history is torn */
};

/* docs/torture.md says them in full. */
enum torture_rule {
    TORTURE_S1, /* beliefs in a mutex do not overlap */
    TORTURE_S2, /* nested holds of one owner count as one, with one token */
    TORTURE_S3, /* tokens of exclusive grants rise */
    TORTURE_S4, /* no try is refused what is free */
    TORTURE_S5, /* one writer, or readers; a reader's token is that of the last writer, or larger */
    TORTURE_S6, /* no more permits are out than there are */
    TORTURE_S7, /* a latch opens once, and not early */
    TORTURE_S8, /* first come, first served */
    TORTURE_S9, /* a resource that compares tokens accepts no old one */
    TORTURE_L1, /* a free lock reaches its waiter soon */
    TORTURE_L2, /* no waiter is passed over for ever */
    TORTURE_L3, /* nothing is left behind */
    TORTURE_L4, /* after the last fault, everybody gets his turn */
    TORTURE_L5, /* a hold lasts until it is released, or its lease is over */
    TORTURE_RULES
};

struct torture_finding {
    enum torture_rule rule;
    uint16_t lock;
    unsigned hold_count; /* the two or three holds that prove it, oldest first */
    uint64_t holds[3];   /* their `hold` numbers; 0 for a call that is no hold */
    uint64_t from, to;   /* numbers of the first and last record to look at */
    char sentence[320];
};

#define TORTURE_FINDINGS 16u

/* What the checker is told besides the history. 0 stands for a sensible default. */
struct torture_limits {
    int64_t hand_over_ns;      /* L1: outside of faults, free to granted */
    int64_t grace_ns;          /* added around each fault: the lease, and the machine's noise */
    uint64_t passed_over;      /* L2: grants wholly inside one wait, for locks with TORTURE_FIFO */
    uint64_t enough_grants;    /* fewer are inconclusive */
    uint64_t enough_contended; /* grants that a client had to wait for */
    bool liveness_is_information; /* L1 and L2 are reported, and do not make a violation */
};

struct torture_report {
    enum torture_verdict verdict;
    char reason[256];                                  /* why it is inconclusive; else empty */
    unsigned finding_count;                            /* those kept; broken[] counts all */
    struct torture_finding findings[TORTURE_FINDINGS]; /* the first of each rule come first */
    uint64_t broken[TORTURE_RULES];
    uint64_t checked[TORTURE_RULES]; /* how many holds, refusals, ... the rule looked at */
    uint64_t operations, grants, refusals, unknowns, losses, crashes, contended;
    uint64_t late_writes; /* effects that an unfenced resource would have taken: information */
    uint64_t faults, fault_hits;
    int64_t longest_wait_ns, median_hand_over_ns, longest_hand_over_ns;
    double evenness; /* Jain's index over the clients' grants: 1 is even */
    double check_seconds;
};

void torture_check(const struct torture_history *history, const struct torture_limits *limits,
                   struct torture_report *report);

/* "S1", and one line of what it says. */
const char *torture_rule_name(enum torture_rule rule);
const char *torture_rule_text(enum torture_rule rule);
const char *torture_verdict_name(enum torture_verdict verdict); /* "SAFE-SO-FAR", ... */

#endif
