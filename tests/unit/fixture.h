/* SPDX-License-Identifier: Apache-2.0 */
/* One client on a virtual clock, whose engine answers every question at once with what the test has
 * chosen, and counts the questions. */
#ifndef TESTS_UNIT_FIXTURE_H
#define TESTS_UNIT_FIXTURE_H

#include "core/claim/claim.h"
#include "test.h"

#define FIXTURE_LEASE_MS 30000
/* In an op's engine.word[1] after its first question; engine.word[0] has the question's number. */
#define FIXTURE_WORD 4711

struct fixture {
    hf_client *client;
    struct hf_engine engine;
    int64_t now_ms;
    /* What it answers; HF_NO_ANSWER keeps silent altogether. */
    enum hf_verdict attempt_verdict, release_verdict;
    void (*answer_by)(struct hf_op *op, enum hf_verdict verdict); /* NULL: at once */
    bool leases, answers_renewals;
    uint64_t refuses_renewals_from; /* at once, of this owner and those after it; 0: of none */
    const char *refusal;            /* why; NULL: there just is no word */
    bool not_ready;                 /* it refuses as it would refuse anything */
    bool sets_aside;                /* it knows ops that rest by what they carry alone */
    int64_t attempt_takes_ms;       /* the next attempt on the caller's thread, in real time */
    bool contacted; /* it has asked the store before it says that nothing is there, or a no */
    bool silent_changes;
    _Atomic unsigned changes;
    bool answers_at_its_end; /* the last attempt, and ends a moment later */
    bool not_contacted;      /* it answers changes without the store */
    int change_code;         /* what it answers to a change at once, or when the test says so */
    struct hf_oneshot *last_change;
    bool
        lost; /* what was held is lost, which it says without a sentence, or when it is looked at */
    _Atomic unsigned attempts;
    unsigned renewals;
    int64_t lease_ms; /* of who wants none of its own */
    _Atomic unsigned releases;
    struct hf_op *last_attempt, *last_release;
    int last_keep;
    /* What the callers of take heard last. */
    int code;
    unsigned answers;
    hf_hold *hold;
};

extern struct fixture fixture;

void fixture_begin(void);
/* With an engine that answers on the thread of who does not wait. */
void fixture_begin_here(void);
/* With a thread and a real clock. */
void fixture_begin_threaded(void);
/* Answers a question that it kept silent about. */
void fixture_answer(struct hf_op *op, enum hf_verdict verdict);
/* Answers the last change, late. */
void fixture_answer_change(int code);
/* A client with a hold on `name` that has a lease of its own. */
hf_hold *fixture_take_leased(const char *name, int64_t lease_ms);
void fixture_turn(void);
void fixture_pass_ms(int64_t ms);
/* Asks without blocking; what comes of it will be in the fixture. */
int fixture_ask(const char *name, hf_mode mode, uint64_t owner, int64_t wait_ms,
                hf_request *request);
/* The same, and turns the loop. */
int fixture_take(const char *name, hf_mode mode, uint64_t owner, int64_t wait_ms,
                 hf_request *request);

#endif
