/* SPDX-License-Identifier: Apache-2.0 */
/* Counting a ballot's votes: what most of the servers have said, as soon as the rest cannot change
 * it, and what follows from it. */
#include "engines/common/poll.h"
#include "quorum.h"

/* Where contenders have split the votes, a claim that waits long for a last one holds up the
 * others. */
#define STRAGGLERS_MS 20
/* However slow the servers are, the next round does not wait longer for it. */
#define SLOW_MS 500

static int64_t now_of(const struct quorum_claim *ballot)
{
    return hf__loop_now(ballot->quorum->base.host->loop);
}

/* Twice what the round has taken so far. */
static int64_t slowness_of(const struct quorum_claim *ballot)
{
    int64_t twice_ms = 2 * (now_of(ballot) - ballot->began_ms);
    return twice_ms < SLOW_MS ? twice_ms : SLOW_MS;
}

static unsigned count_words(const struct quorum_claim *ballot, enum vote_word word)
{
    unsigned count = 0;
    for (unsigned i = 0; i < ballot->quorum->count; i++)
        count += ballot->votes[i].word == word;
    return count;
}

/* The number that may fail without harm. */
static unsigned spare(const struct quorum_claim *ballot)
{
    return ballot->quorum->count - ballot->quorum->majority;
}

/* ---- taking ---- */

/* The moment from which the lease counts: most servers have confirmed it since. */
int64_t hf__quorum_decide_confirmed_at(const struct quorum_claim *ballot)
{
    const struct quorum *quorum = ballot->quorum;
    int64_t best = VOTE_NOT_HELD;
    for (unsigned i = 0; i < quorum->count; i++) {
        int64_t candidate = ballot->votes[i].held_since_ms;
        unsigned as_new = 0;
        for (unsigned k = 0; k < quorum->count; k++)
            as_new += ballot->votes[k].held_since_ms >= candidate;
        if (candidate > best && as_new >= quorum->majority) /* mutant: newest-confirmation-of-any */
            best = candidate;
    }
    return best;
}

static void set_lease(struct quorum_claim *ballot, int64_t asked_at_ms)
{
    struct hf_op *op = ballot->op;
    struct hf_lease *lease = &op->engine.own_lease;
    lease->engine = &ballot->quorum->base;
    lease->asked_at_ms = asked_at_ms;
    lease->lease_ms = op->in.lease_ms ? op->in.lease_ms : ballot->quorum->base.host->lease_ms;
    lease->fixed = op->in.lease_ms > 0;
    op->out.rests_on = lease;
}

static void end_round(struct quorum_claim *ballot, enum hf_verdict verdict)
{
    ballot->held = 0;
    hf__quorum_ballot_answer(ballot, verdict);
    hf__quorum_ballot_give_back(ballot); /* mutant: what-failed-round-was-granted */
    hf__quorum_ballot_retire(ballot);
}

static const hf_error *error_of(const struct quorum_claim *ballot, enum vote_word word)
{
    for (unsigned i = 0; i < ballot->quorum->count; i++)
        if (ballot->votes[i].word == word && ballot->votes[i].op.out.error)
            return ballot->votes[i].op.out.error;
    return NULL;
}

static unsigned count_absent(const struct quorum_claim *ballot)
{
    return count_words(ballot, VOTE_SILENT) + count_words(ballot, VOTE_NEVER);
}

static void explain_as(struct quorum_claim *ballot, unsigned absent, const char *how,
                       const hf_error *why, int code)
{
    hf__op_explain(ballot->op, code, why ? why->native : 0,
                   "%u of the quorum's %u servers %s, and %u are needed: %.240s", absent,
                   ballot->quorum->count, how, ballot->quorum->majority,
                   why ? why->text : "no answer");
}

static void explain(struct quorum_claim *ballot, unsigned absent, const hf_error *why, int code)
{
    explain_as(ballot, absent, "cannot be had", why, code);
}

/* Those that have answered that it cannot be; others fail because they cannot be reached. */
static unsigned count_refusing(const struct quorum_claim *ballot)
{
    unsigned count = 0;
    for (unsigned i = 0; i < ballot->quorum->count; i++) {
        const hf_error *error = ballot->votes[i].op.out.error;
        count += ballot->votes[i].word == VOTE_NEVER && error && error->code != HF_UNREACHABLE &&
                 error->code != HF_ENOMEM;
    }
    return count;
}

static void fail_claim(struct quorum_claim *ballot)
{
    const hf_error *why = error_of(ballot, VOTE_NEVER);
    unsigned refusing = count_refusing(ballot);
    int code = why ? why->code : HF_UNREACHABLE;
    if (refusing > spare(ballot))
        explain_as(ballot, refusing, "refuse", why, code);
    else
        explain(ballot, count_absent(ballot), why, code);
    end_round(ballot, HF_FAILED);
}

/* What may be there ends by itself with the lease. */
static void be_silent(struct quorum_claim *ballot)
{
    const hf_error *why = error_of(ballot, VOTE_SILENT);
    explain(ballot, count_absent(ballot), why ? why : error_of(ballot, VOTE_NEVER), HF_UNREACHABLE);
    set_lease(ballot, now_of(ballot));
    end_round(ballot, HF_NO_ANSWER);
}

/* Contenders that have split the votes do not come again at the same time. */
static void refuse(struct quorum_claim *ballot)
{
    ballot->op->out.rests_on = NULL;
    ballot->op->out.retry_at_ms = now_of(ballot) + hf__poll_pause_ms(-1, slowness_of(ballot));
    end_round(ballot, HF_REFUSED);
}

/* Enough have granted it. */
static void carry(struct quorum_claim *ballot)
{
    const struct quorum *quorum = ballot->quorum;
    unsigned count = 0;
    if (ballot->token == 0)
        for (unsigned i = 0; i < quorum->count; i++)
            if (ballot->votes[i].word == VOTE_YES && ballot->votes[i].op.out.token > ballot->token)
                ballot->token = ballot->votes[i].op.out.token;
    for (unsigned i = 0; i < quorum->count; i++)
        count += hf__quorum_member_has_token(&ballot->votes[i]);
    for (unsigned i = 0; i < quorum->count; i++)
        hf__quorum_member_level(&ballot->votes[i]);
    if (count < quorum->majority) {
        /* No answer is going to come for a server that has not done it when it was asked to. */
        if (count_words(ballot, VOTE_YES) < quorum->majority &&
            count_words(ballot, VOTE_UNHEARD) == 0) /* mutant: server-that-does-not-raise-its */
            hf__quorum_decide_taking(ballot);
        return;
    }
    ballot->op->out.token = ballot->token;
    set_lease(ballot, hf__quorum_decide_confirmed_at(ballot));
    hf__quorum_ballot_answer(ballot, HF_GRANTED);
}

void hf__quorum_decide_taking(struct quorum_claim *ballot)
{
    unsigned majority = ballot->quorum->majority;
    unsigned yes = count_words(ballot, VOTE_YES), no = count_words(ballot, VOTE_NO);
    unsigned never = count_words(ballot, VOTE_NEVER), silent = count_words(ballot, VOTE_SILENT);
    unsigned unheard = count_words(ballot, VOTE_UNHEARD);
    if (yes >= majority)
        carry(ballot);
    else if (never > spare(ballot))
        fail_claim(ballot);
    /* mutant: what-two-servers-cannot-give */
    else if (silent + never > spare(ballot) || (no == 0 && unheard == 0))
        be_silent(ballot);
    else if (no == 0 || yes + no + never < majority)
        return; /* The servers that are not heard yet decide. */
    else if (yes + unheard < majority)
        refuse(ballot);
    else if (!ballot->limit.started && ballot->op->in.enqueue) /* A bare try does not come again. */
        hf__timer_start(ballot->quorum->base.host->loop, &ballot->limit,
                        now_of(ballot) + STRAGGLERS_MS + slowness_of(ballot));
}

void hf__quorum_decide_limit_over(struct hf_timer *timer)
{
    struct quorum_claim *ballot = HF_CONTAINER(timer, struct quorum_claim, limit);
    if (ballot->open && ballot->taking && count_words(ballot, VOTE_NO) > 0)
        refuse(ballot);
}

/* A server that may still answer is as good as silent to a caller without any more patience. */
void hf__quorum_decide_why_silent(struct hf_engine *engine, struct hf_op *op, hf_error **error)
{
    (void)engine, (void)error; /* which is the op's */
    struct quorum_claim *ballot = op ? hf__quorum_ballot_of(op) : NULL;
    if (!ballot || !ballot->open || !ballot->taking)
        return;
    /* mutant: owner-waits-in-vain */
    unsigned absent = count_absent(ballot) + count_words(ballot, VOTE_UNHEARD);
    const hf_error *why = error_of(ballot, VOTE_SILENT);
    if (absent > spare(ballot))
        explain(ballot, absent, why ? why : error_of(ballot, VOTE_NEVER), HF_UNREACHABLE);
}

/* ---- giving back ---- */

/* A server that is not heard yet may have lost the lock, as another one has: it decides whether
 * most had it until now. */
void hf__quorum_decide_giving(struct quorum_claim *ballot)
{
    unsigned majority = ballot->quorum->majority, there = 0, silent = 0, lost = 0, unheard = 0;
    for (unsigned i = 0; i < ballot->quorum->count; i++) {
        const struct quorum_member *vote = &ballot->votes[i];
        bool is_there = hf__quorum_member_is_there(vote);
        there += is_there;
        silent += is_there && vote->word == VOTE_SILENT;
        lost += vote->counted && vote->lost;
        unheard += vote->counted && !vote->lost && is_there && vote->word == VOTE_UNHEARD;
    }
    bool was_lost = ballot->held > 0 && ballot->held < majority + lost;
    /* mutant: release-decides-before-the-vote-that-counts */
    if (there <= ballot->left && lost > 0 && !was_lost && ballot->held < majority + lost + unheard)
        return;
    if (there <= ballot->left) {
        ballot->op->out.lost = was_lost;
        hf__quorum_ballot_answer(ballot, HF_GONE);
        hf__quorum_ballot_retire(ballot);
    } else if (silent > ballot->left) {
        explain(ballot, count_absent(ballot), error_of(ballot, VOTE_SILENT), HF_UNREACHABLE);
        hf__quorum_ballot_answer(ballot, HF_NO_ANSWER);
    }
}
