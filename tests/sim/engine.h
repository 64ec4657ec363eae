/* SPDX-License-Identifier: Apache-2.0 */
/* What the simulated engines share: questions with numbers and timeouts, and the operations that
 * are to be woken or renewed. */
#ifndef TESTS_SIM_ENGINE_H
#define TESTS_SIM_ENGINE_H

#include "world.h"

#define TIMEOUT_MS 60
#define SESSIONS 16

/* op->engine.word[0] names the claim at the store. It is not op->in.owner: an owner's next claim
 * may begin while the release of its last one is still being repeated. */
#define CLAIM_OF(op) ((op)->engine.word[0])
struct question {
    struct hf_op *op;          /* about a claim; or */
    struct hf_oneshot *change; /* a verb; or both NULL: this place is free */
    uint64_t number;
    int64_t asked_at_ms;
    struct sim_engine *engine;
    struct hf_timer timeout;
};

struct sim_engine {
    struct hf_engine base;
    struct sim_client *client;
    void (*receive)(struct sim_engine *engine, const struct message *message);
    struct question questions[QUESTIONS_MAX];
    uint64_t last_question, last_claim;
    int64_t asked_at_ms;                /* the last question */
    struct hf_op *known[QUESTIONS_MAX]; /* that hold or wait */
    /* queue store */
    uint64_t session, events_seen;
    struct hf_lease *lease, leases[SESSIONS];
    bool doubtful; /* something is left in the session: it is for no new claims */
};

struct sim_engine *engine_new(struct sim_client *client, const struct hf_engine_ops *ops);
void engine_close(struct hf_engine *engine, void (*closed)(void *arg), void *arg);

/* For the trace. */
static inline const char *word_name(enum hf_word word)
{
    static const char *const names[] = { "granted", "queued",           "refused",      "done",
                                         "missing", "refused for good", "an open error" };
    return names[word];
}

struct sim_key engine_key(const char *text);
/* Fills the parts of a message that every question about `op` has. */
struct message engine_message(struct sim_engine *engine, enum message_kind kind, struct hf_op *op);
/* Asks; without an answer in time the op is answered NO_ANSWER. */
void engine_ask(struct sim_engine *engine, struct hf_op *op, enum hf_asked asked,
                struct message *message);
/* What an attempt asks for, in the words of known.h. */
enum hf_asked engine_attempt(const struct hf_op *op);
/* Releases in the way that known.h says; without a need for it the op is answered. */
void engine_release(struct sim_engine *engine, struct hf_op *op, struct message *message);
/* The verdict on the store's reply, which follows all earlier requests of the client. */
enum hf_known_verdict engine_judge(struct hf_op *op, const struct message *answer);
/* The op that this answer is for, which is thereby answered; NULL: the answer comes too late. */
struct hf_op *engine_take(struct sim_engine *engine, const struct message *message,
                          int64_t *ret_asked_at_ms);
/* Asks, and answers, a one-shot verb. */
void engine_change(struct hf_engine *engine, struct hf_oneshot *change);
void engine_changed(struct sim_engine *engine, const struct message *answer);
void engine_know(struct sim_engine *engine, struct hf_op *op);
void engine_forget(struct sim_engine *engine, struct hf_op *op);
struct hf_op *engine_find(struct sim_engine *engine, uint64_t claim);
void engine_wake_all(struct sim_engine *engine);

#endif
