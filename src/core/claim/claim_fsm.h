/* SPDX-License-Identifier: Apache-2.0 */
/* The wait loop: one state machine for every claim, on every engine, with every driver. */
#ifndef HF_CORE_CLAIM_CLAIM_FSM_H
#define HF_CORE_CLAIM_CLAIM_FSM_H

#include "core/claim/claim.h"
#include "core/loop/uv_loop.h"

enum hf_claim_event {
    HF_ON_TURN,      /* it may ask the store */
    HF_ON_ANSWER,    /* op.out.verdict is set */
    HF_ON_WAKE,      /* asking again is worth it */
    HF_ON_RETRY,     /* its retry time has come */
    HF_ON_DEADLINE,  /* the caller's patience is over */
    HF_ON_END,       /* claim->ending says why: HF_CANCELED, HF_EDEADLK, HF_ECLOSED */
    HF_ON_UPGRADE,   /* a claim that holds HF_UPGRADE asks for HF_WRITE */
    HF_ON_DOWNGRADE, /* a held claim gives back all but op.in.keep */
    HF_ON_LEASE_LOST /* what it rests on is lost */
};

/* What the driver does next. COMPLETE may come together with another one. */
enum {
    HF_DO_NOTHING = 0,
    HF_DO_ASK = 1,       /* attempt */
    HF_DO_SLEEP = 2,     /* until a wake, retry_at_ms or wait_until_ms */
    HF_DO_RELEASE = 4,   /* release, leaving op.in.keep */
    HF_DO_PAUSE = 8,     /* before a repeated release: until retry_at_ms */
    HF_DO_COMPLETE = 16, /* tell the caller claim->outcome */
    HF_DO_FORGET = 32    /* the claim is over */
};

/* Moves the claim along the table in claim_fsm.c, and says what to do. */
unsigned hf__claim_step(struct hf_claim *claim, enum hf_claim_event event, int64_t now_ms);

/* The driver on the loop: steps, and does what the step says. Loop only. */
void hf__claim_drive(struct hf_claim *claim, enum hf_claim_event event);

/* Prepares a new or held claim for a question whose caller waits until wait_until_ms. Of a held one
 * the op stays as it is until HF_ON_UPGRADE. */
void hf__claim_begin(struct hf_claim *claim, const struct hf_lock_args *ask);

extern const struct hf_claim_driver hf__claim_driver;

/* Nothing happens to the claim by itself any more, and no lease is watched for it: the engine is
 * about to go. Loop only, with the shard locked. */
void hf__claim_still(struct hf_claim *claim);

/* The driver on the calling thread: from the event, or from its place in the entry, to the answer.
 */
struct hf_answer hf__claim_drive_sync(struct hf_claim *claim, enum hf_claim_event event,
                                      int64_t now_ms, struct hf_interlude *interlude);
/* The same, but what would have to wait goes on on the loop, and is told to `done`. The code is
 * HF_ANSWER_FOLLOWS then, and the claim may be gone. */
#define HF_ANSWER_FOLLOWS (-1)
struct hf_answer hf__claim_start_sync(struct hf_claim *claim, int64_t now_ms, hf_done_cb *done,
                                      void *arg);
struct hf_answer hf__claim_drive_queued(struct hf_claim *claim, struct hf_interlude *interlude);
/* Any thread, with the shard locked: the thread that drives the claim looks at its `ending`. */
void hf__claim_rouse(struct hf_claim *claim);

/* A question that has been out for this time when its caller's wait ends was met with silence. */
#define HF_SILENCE_MS 500

/* Has its question been out long enough for the store to seem silent? */
bool hf__claim_is_unanswered(const struct hf_claim *claim, int64_t now_ms);

/* The length of the lease that its grant rests on, or asks for. */
int64_t hf__claim_lease_ms(const struct hf_claim *claim);

/* Takes what the caller is told out of a claim, once. */
struct hf_answer hf__claim_take_answer(struct hf_claim *claim);

/* The short cuts: a new claim is held (fast_path.c), a held one is over (hf_detach, fast_path.c).
 */
void hf__claim_fast_acquire(struct hf_claim *claim);
void hf__claim_abandon(struct hf_claim *claim);

/* Sets valid_until_ms after a grant or a renewal. */
void hf__claim_set_validity(struct hf_claim *claim);

/* A short name for logs and traces. */
const char *hf__claim_state_name(enum hf_claim_state state);

#endif
