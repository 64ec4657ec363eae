/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a ballot once it is decided: the core is told, what is at the servers is given
 * back, and the ballot is free again when nothing of it is left there. */
#include "quorum.h"

#include <stdlib.h>

static struct hf_loop *quorum_loop_of(const struct quorum_claim *ballot)
{
    return ballot->quorum->base.host->loop;
}

static int64_t now_of(const struct quorum_claim *ballot)
{
    return hf__loop_now(quorum_loop_of(ballot));
}

struct quorum_claim *hf__quorum_ballot_of(const struct hf_op *op)
{
    struct quorum_claim *ballot = op->engine.pointer;
    return ballot && ballot->number == op->engine.word[0] ? ballot : NULL;
}

static void close_votes(struct quorum_claim *ballot)
{
    for (unsigned i = 0; i < ballot->quorum->count; i++)
        hf__quorum_member_close(&ballot->votes[i]);
    hf__timer_stop(quorum_loop_of(ballot), &ballot->limit);
    hf__link_remove(&ballot->waiting);
    hf__link_remove(&ballot->handed.link);
}

void hf__quorum_ballot_retire(struct quorum_claim *ballot)
{
    struct quorum *quorum = ballot->quorum;
    if (ballot->op || ballot->pins > 0)
        return;
    for (unsigned i = 0; i < quorum->count; i++)
        if (!hf__quorum_member_is_gone(&ballot->votes[i]))
            return;
    close_votes(ballot);
    ballot->number = 0;
    hf__link_remove(&ballot->link);
    hf__list_append(&quorum->free_ballots, &ballot->link);
    if (quorum->closed && hf__list_empty(&quorum->ballots))
        hf__timer_start(quorum_loop_of(ballot), &quorum->leaving, now_of(ballot));
}

void hf__quorum_ballot_unpin(struct quorum_claim *ballot)
{
    ballot->pins--;
    hf__quorum_ballot_retire(ballot);
}

/* After a release that no server has heard of, the core may come again, or not: the op finds the
 * ballot by its number then. */
void hf__quorum_ballot_answer(struct quorum_claim *ballot, enum hf_verdict verdict)
{
    struct hf_op *op = ballot->op;
    bool waits = verdict == HF_NO_ANSWER || (verdict == HF_REFUSED && op->in.enqueue);
    bool comes_back = verdict == HF_GRANTED || (ballot->taking && waits);
    hf__timer_stop(quorum_loop_of(ballot), &ballot->limit);
    ballot->open = false;
    if (!waits)
        hf__link_remove(&ballot->waiting);
    if (!comes_back)
        ballot->op = NULL;
    for (unsigned i = 0; i < ballot->quorum->count; i++)
        op->out.contacted |= ballot->votes[i].op.out.contacted;
    op->out.verdict = verdict;
    hf__op_done(&ballot->quorum->base, op);
}

/* The number of servers that may be left with something of ours, and the next one can be granted
 * the lock all the same: by those that had granted it to us, for the others may be dead. */
static unsigned count_may_be_left(const struct quorum_claim *ballot)
{
    unsigned there = 0;
    for (unsigned i = 0; i < ballot->quorum->count; i++)
        /* mutant: server-that-was-never-asked */
        there += hf__quorum_member_is_there(&ballot->votes[i]);
    /* mutant: release-waits-for-every-server */
    return there > ballot->quorum->majority ? there - ballot->quorum->majority : 0;
}

void hf__quorum_ballot_give_back(struct quorum_claim *ballot)
{
    int64_t host_lease_ms = ballot->quorum->base.host->lease_ms;
    if (ballot->taking)
        ballot->left = count_may_be_left(ballot);
    for (unsigned i = 0; i < ballot->quorum->count && ballot->taking; i++) {
        struct quorum_member *vote = &ballot->votes[i];
        int64_t lease_ms = vote->op.in.lease_ms ? vote->op.in.lease_ms : host_lease_ms;
        if (now_of(ballot) + lease_ms > vote->forgotten_ms)
            vote->forgotten_ms = now_of(ballot) + lease_ms;
    }
    ballot->taking = false;
    for (unsigned i = 0; i < ballot->quorum->count; i++)
        hf__quorum_member_give_back(&ballot->votes[i]);
}

void hf__quorum_ballots_abandon(struct quorum *quorum)
{
    HF_LIST_FOREACH (link, following, &quorum->ballots) {
        struct quorum_claim *ballot = HF_CONTAINER(link, struct quorum_claim, link);
        hf__timer_stop(quorum_loop_of(ballot), &ballot->limit);
        hf__link_remove(&ballot->waiting);
        ballot->op = NULL;
        ballot->open = false;
        hf__quorum_ballot_give_back(ballot);
        for (unsigned i = 0; i < quorum->count; i++)
            if (!hf__quorum_member_is_gone(&ballot->votes[i]))
                hf__redis_dismiss(quorum->members[i], &ballot->votes[i].op, true);
        hf__quorum_ballot_retire(ballot);
    }
}

void hf__quorum_ballots_close(struct quorum *quorum)
{
    struct hf_link *link;
    while ((link = hf__list_pop(&quorum->ballots))) {
        close_votes(HF_CONTAINER(link, struct quorum_claim, link));
        free(HF_CONTAINER(link, struct quorum_claim, link));
    }
    while ((link = hf__list_pop(&quorum->free_ballots)))
        free(HF_CONTAINER(link, struct quorum_claim, link));
}
