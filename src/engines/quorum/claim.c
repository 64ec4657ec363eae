/* SPDX-License-Identifier: Apache-2.0 */
/* Ballots: a claim on a lock that most of several servers have to grant. All are asked at once.
 * What counts is decided as soon as enough have answered (decide.c); the others are heard later, or
 * never.
 *
 *   - The lock is held while most servers have it, so its lease counts from the newest moment since
 *     which most of them have confirmed it.
 *   - Its token is one that most servers go beyond at the next grant: those of them whose own is
 *     below it are asked once more, before a caller is told.
 *   - A round that fails is released everywhere, also where it is unknown whether there is anything
 *     to release. The core does not wait for that: what is left of a claim goes on alone.
 */
#include "base/testing.h"
#include "quorum.h"

#include <string.h>

/* The time for which a lock goes from one to the next within this client. Then others have a
 * chance, too: they are not told when to look. */
#define IN_A_ROW_MS 100

static struct hf_loop *quorum_loop_of(const struct quorum_claim *ballot)
{
    return ballot->quorum->base.host->loop;
}

static int64_t now_of(const struct quorum_claim *ballot)
{
    return hf__loop_now(quorum_loop_of(ballot));
}

/* ---- giving back ---- */

/* What is given back has left before a waiter for it here asks again. */
static void hand_on(const struct quorum_claim *ballot)
{
    HF_LIST_FOREACH (link, following, &ballot->quorum->waiting) {
        struct quorum_claim *next = HF_CONTAINER(link, struct quorum_claim, waiting);
        if (strcmp(next->name, ballot->name) == 0) {
            next->is_next = true;
            next->here_since_ms = ballot->here_since_ms;
            hf__loop_defer(quorum_loop_of(next), &next->handed);
        }
    }
}

/* ---- what the servers say ---- */

/* A vote that was not waited for, or a renewal, has moved what the lock rests on. */
static void review(struct quorum_claim *ballot)
{
    if (!ballot->op || ballot->open || !ballot->taking)
        return;
    struct hf_lease *lease = &ballot->op->engine.own_lease;
    int64_t asked_at_ms = hf__quorum_decide_confirmed_at(ballot);
    if (asked_at_ms == VOTE_NOT_HELD)
        hf__lease_answer(lease, now_of(ballot), HF_LEASE_GONE, 0, NULL);
    else if (!lease->fixed && asked_at_ms > lease->asked_at_ms)
        hf__lease_answer(lease, asked_at_ms, HF_LEASE_RENEWED, 0, NULL);
}

/* A loss is on its way when the servers that do not refuse are no majority. They may do so for
 * different reasons; the first one's is told. */
static void note_refusal(struct quorum_claim *ballot, int64_t asked_at_ms)
{
    const struct quorum *quorum = ballot->quorum;
    const char *reason = NULL;
    unsigned refused = 0;
    if (!ballot->op || ballot->open || !ballot->taking)
        return;
    for (unsigned i = quorum->count; i-- > 0;) {
        const struct quorum_member *vote = &ballot->votes[i];
        if (!vote->refusal || vote->refused_at_ms <= vote->held_since_ms)
            continue;
        reason = vote->refusal;
        refused++;
    }
    /* Whether they are ready for anything else, attempts tell. */
    if (quorum->count - refused < quorum->majority)
        hf__lease_answer(&ballot->op->engine.own_lease, asked_at_ms, HF_LEASE_NOT_READY, 0, reason);
}

static void vote_answered(struct hf_task *task)
{
    struct quorum_member *vote = HF_CONTAINER(task, struct quorum_member, answered);
    struct quorum_claim *ballot = vote->ballot;
    hf__quorum_member_heard(vote);
    if (ballot->open && ballot->taking) {
        hf__quorum_decide_taking(ballot);
    } else if (ballot->open) {
        hf__quorum_decide_giving(ballot);
    } else {
        if (ballot->taking)
            hf__quorum_member_level(vote);
        hf__quorum_ballot_retire(ballot);
        review(ballot);
    }
}

static void note_renewal(struct quorum_member *vote, int64_t asked_at_ms, bool still_ours)
{
    if (!still_ours) {
        vote->lost = true;
        vote->lost_at_ms = now_of(vote->ballot);
        vote->held_since_ms = VOTE_NOT_HELD; /* mutant: server-says-that-it-has-lost */
    } else if (vote->held_since_ms != VOTE_NOT_HELD && asked_at_ms > vote->held_since_ms) {
        vote->held_since_ms = asked_at_ms;
    }
    review(vote->ballot);
}

static void lease_answer(struct hf_lease *lease, int64_t asked_at_ms, enum hf_lease_answer answer,
                         int64_t length_ms, const char *reason)
{
    struct quorum_member *vote = HF_CONTAINER(lease, struct quorum_member, op.engine.own_lease);
    (void)length_ms; /* the ballot's lease counts, which has the client's length */
    switch (answer) {
    case HF_LEASE_RENEWED:
    case HF_LEASE_GONE:
        note_renewal(vote, asked_at_ms, answer == HF_LEASE_RENEWED);
        break;
    case HF_LEASE_REFUSED:
    case HF_LEASE_NOT_READY:
        vote->refusal = reason; /* mutant: loss-at-quorum-does-not-say */
        vote->refused_at_ms = asked_at_ms;
        note_refusal(vote->ballot, asked_at_ms);
        break;
    case HF_LEASE_NO_ANSWER:
        break;
    }
}

static void op_done(struct hf_engine *server, struct hf_op *op)
{
    hf__loop_defer(server->host->loop, &HF_CONTAINER(op, struct quorum_member, op)->answered);
}

const struct redis_sink hf__quorum_sink = {
    .op_done = op_done,
    .lease_answer = lease_answer,
    .min_token = hf__quorum_member_min_token,
    .remark = hf__quorum_remark,
};

/* ---- beginning ---- */

static void quorum_ask_again(struct hf_task *task)
{
    struct quorum_claim *ballot = HF_CONTAINER(task, struct quorum_claim, handed);
    if (hf__link_linked(&ballot->waiting))
        hf__op_wake(ballot->op);
}

static struct quorum_claim *allocate(struct quorum *quorum)
{
    struct quorum_claim *ballot =
        hf__calloc(1, sizeof *ballot + quorum->count * sizeof *ballot->votes);
    if (!ballot)
        return NULL;
    ballot->quorum = quorum;
    hf__link_init(&ballot->link);
    hf__link_init(&ballot->waiting);
    hf__timer_init(&ballot->limit, hf__quorum_decide_limit_over);
    hf__task_init(&ballot->handed, quorum_ask_again);
    return ballot;
}

static struct quorum_claim *new_ballot(struct quorum *quorum, struct hf_op *op)
{
    struct hf_link *link = hf__list_pop(&quorum->free_ballots);
    struct quorum_claim *ballot =
        link ? HF_CONTAINER(link, struct quorum_claim, link) : allocate(quorum);
    if (!ballot)
        return NULL;
    hf__list_append(&quorum->ballots, &ballot->link);
    ballot->is_next = false;
    ballot->op = op;
    ballot->number = op->engine.word[0] = ++quorum->claims;
    op->engine.pointer = ballot;
    memcpy(ballot->name, op->in.name, op->in.name_length);
    ballot->name[op->in.name_length] = 0;
    for (unsigned i = 0; i < quorum->count; i++)
        hf__quorum_member_set(&ballot->votes[i], ballot, vote_answered);
    return ballot;
}

/* The core comes again, maybe to what has gone on without it. */
static struct quorum_claim *ballot_for(struct hf_op *op)
{
    struct quorum_claim *ballot = hf__quorum_ballot_of(op);
    if (ballot)
        ballot->op = op;
    return ballot;
}

/* ---- what the core asks ---- */

void hf__quorum_attempt(struct hf_engine *engine, struct hf_op *op)
{
    struct quorum *quorum = HF_CONTAINER(engine, struct quorum, base);
    struct quorum_claim *ballot = ballot_for(op);
    if (!ballot)
        ballot = new_ballot(quorum, op);
    if (!ballot) {
        hf__op_explain(op, HF_ENOMEM, 0, "out of memory for a ballot");
        op->out.verdict = HF_FAILED;
        hf__op_done(engine, op);
        return;
    }
    hf__link_remove(&ballot->waiting);
    if (op->in.enqueue)
        hf__list_append(&quorum->waiting, &ballot->waiting);
    ballot->taking = ballot->open = true;
    ballot->token = 0;
    ballot->held = 0;
    ballot->began_ms = now_of(ballot);
    if (!ballot->is_next)
        ballot->here_since_ms = ballot->began_ms;
    ballot->is_next = false;
    for (unsigned i = 0; i < quorum->count; i++) {
        struct quorum_member *vote = &ballot->votes[i];
        vote->levelled = vote->lost = false;
        vote->op.in.mode = op->in.mode;
        vote->op.in.lease_ms = op->in.lease_ms;
        hf__quorum_member_ask(vote);
    }
}

void hf__quorum_release(struct hf_engine *engine, struct hf_op *op)
{
    struct quorum_claim *ballot = ballot_for(op);
    if (!ballot) {
        op->out.verdict = HF_GONE;
        hf__op_done(engine, op);
        return;
    }
    for (unsigned i = 0; i < ballot->quorum->count && ballot->taking; i++) {
        struct quorum_member *vote = &ballot->votes[i];
        vote->counted = vote->held_since_ms != VOTE_NOT_HELD || vote->lost;
        ballot->held += vote->counted;
    }
    hf__link_remove(&ballot->waiting);
    ballot->open = true;
    hf__quorum_ballot_give_back(ballot);
    /* mutant: none-in-same-client-is-told */
    if (ballot->held > 0 && now_of(ballot) - ballot->here_since_ms < IN_A_ROW_MS)
        hand_on(ballot);
    hf__quorum_decide_giving(ballot);
}

/* A server that had it, and has lost it, is asked again only when most have confirmed it a time-out
 * later: what is broken on purpose is gone from most of them by then, also from those that hear of
 * it late, and is not held again. */
static bool may_be_asked(const struct quorum_claim *ballot, const struct quorum_member *vote)
{
    int64_t timeout_ms = hf__redis_timeout_ms(ballot->quorum->members[vote - ballot->votes]);
    /* mutant: owner-has-forgotten-lock */
    return !vote->lost || hf__quorum_decide_confirmed_at(ballot) > vote->lost_at_ms + timeout_ms;
}

/* Servers that do not have it are asked for it, too: they were down then, or have forgotten it. */
void hf__quorum_renew(struct hf_engine *engine, struct hf_lease *lease)
{
    struct quorum *quorum = HF_CONTAINER(engine, struct quorum, base);
    struct quorum_claim *ballot = ballot_for(HF_CONTAINER(lease, struct hf_op, engine.own_lease));
    for (unsigned i = 0; i < quorum->count && ballot && ballot->taking && !ballot->open; i++) {
        struct quorum_member *vote = &ballot->votes[i];
        struct hf_engine *server = quorum->members[i];
        if (vote->busy)
            continue;
        if (vote->held_since_ms != VOTE_NOT_HELD)
            server->ops->renew(server, &vote->op.engine.own_lease);
        else if (may_be_asked(ballot, vote))
            hf__quorum_member_ask(vote);
    }
}
