/* Ballots: a claim on a lock that most of several servers have to grant. All are asked at once.
 * What counts is decided as soon as enough have answered; the others are heard later, or never.
 *
 *   - The lock is held while most servers have it, so its lease counts from the newest moment since
 *     which most of them have confirmed it.
 *   - Its token is one that most servers go beyond at the next grant: those of them whose own is
 *     below it are asked once more, before anybody is told.
 *   - A round that fails is given back everywhere, also where nobody knows whether there is
 * anything to give back. The core does not wait for that: what is left of a ballot goes on alone.
 */
#include "base/rand.h"
#include "base/testing.h"
#include "quorum.h"

#include <string.h>

/* Where contenders have split the votes, whoever waits long for a last one holds up the others. */
#define STRAGGLERS_MS 20
/* However slow the servers are, the next round does not wait longer for it. */
#define SLOW_MS 500
/* For so long a lock goes from one to the next within this client, then others have a chance, too:
 * nobody tells them when to look. */
#define IN_A_ROW_MS 100

static struct hf_loop *loop_of(const struct ballot *ballot)
{
    return ballot->quorum->base.host->loop;
}

static int64_t now_of(const struct ballot *ballot)
{
    return hf__loop_now(loop_of(ballot));
}

/* Twice what the round has taken so far. */
static int64_t slowness_of(const struct ballot *ballot)
{
    int64_t twice_ms = 2 * (now_of(ballot) - ballot->began_ms);
    return twice_ms < SLOW_MS ? twice_ms : SLOW_MS;
}

static unsigned count_words(const struct ballot *ballot, enum vote_word word)
{
    unsigned count = 0;
    for (unsigned i = 0; i < ballot->quorum->count; i++)
        count += ballot->votes[i].word == word;
    return count;
}

/* So many may fail without harm. */
static unsigned spare(const struct ballot *ballot)
{
    return ballot->quorum->count - ballot->quorum->majority;
}

/* ---- beginning and ending ---- */

static void waited_enough(struct hf_timer *timer);

static void ask_again(struct hf_task *task)
{
    struct ballot *ballot = HF_CONTAINER(task, struct ballot, handed);
    if (hf__link_linked(&ballot->waiting))
        hf__op_wake(ballot->op);
}

static struct ballot *allocate(struct quorum *quorum)
{
    struct ballot *ballot = hf__calloc(1, sizeof *ballot + quorum->count * sizeof *ballot->votes);
    if (!ballot)
        return NULL;
    ballot->quorum = quorum;
    hf__link_init(&ballot->link);
    hf__link_init(&ballot->waiting);
    hf__timer_init(&ballot->limit, waited_enough);
    hf__task_init(&ballot->handed, ask_again);
    return ballot;
}

static struct ballot *new_ballot(struct quorum *quorum, struct hf_op *op)
{
    struct hf_link *link = hf__list_pop(&quorum->free_ballots);
    struct ballot *ballot = link ? HF_CONTAINER(link, struct ballot, link) : allocate(quorum);
    if (!ballot)
        return NULL;
    hf__list_append(&quorum->ballots, &ballot->link);
    ballot->is_next = false;
    ballot->op = op;
    ballot->number = op->engine_word[0] = ++quorum->claims;
    op->engine_pointer = ballot;
    memcpy(ballot->name, op->name, op->name_length);
    ballot->name[op->name_length] = 0;
    for (unsigned i = 0; i < quorum->count; i++)
        hf__vote_set(&ballot->votes[i], ballot);
    return ballot;
}

struct ballot *hf__ballot_of(const struct hf_op *op)
{
    struct ballot *ballot = op->engine_pointer;
    return ballot && ballot->number == op->engine_word[0] ? ballot : NULL;
}

/* The core comes again, maybe to what has gone on without it. */
static struct ballot *ballot_for(struct hf_op *op)
{
    struct ballot *ballot = hf__ballot_of(op);
    if (ballot)
        ballot->op = op;
    return ballot;
}

static void close_votes(struct ballot *ballot)
{
    for (unsigned i = 0; i < ballot->quorum->count; i++)
        hf__vote_close(&ballot->votes[i]);
    hf__timer_stop(loop_of(ballot), &ballot->limit);
    hf__link_remove(&ballot->waiting);
    hf__link_remove(&ballot->handed.link);
}

/* Once the core is out of it, and nothing is left, the ballot is free. */
static void retire(struct ballot *ballot)
{
    if (ballot->op || ballot->pins > 0)
        return;
    for (unsigned i = 0; i < ballot->quorum->count; i++)
        if (!hf__vote_is_gone(&ballot->votes[i]))
            return;
    close_votes(ballot);
    ballot->number = 0;
    hf__link_remove(&ballot->link);
    hf__list_append(&ballot->quorum->free_ballots, &ballot->link);
    hf__quorum_settled(ballot->quorum);
}

void hf__ballot_unpin(struct ballot *ballot)
{
    ballot->pins--;
    retire(ballot);
}

void hf__ballots_close(struct quorum *quorum)
{
    struct hf_link *link;
    while ((link = hf__list_pop(&quorum->ballots))) {
        close_votes(HF_CONTAINER(link, struct ballot, link));
        free(HF_CONTAINER(link, struct ballot, link));
    }
    while ((link = hf__list_pop(&quorum->free_ballots)))
        free(HF_CONTAINER(link, struct ballot, link));
}

/* After a release that nobody has heard of, the core may come again, or not: the op finds the
 * ballot by its number then. */
static void answer(struct ballot *ballot, enum hf_verdict verdict)
{
    struct hf_op *op = ballot->op;
    bool waits = verdict == HF_NO_ANSWER || (verdict == HF_REFUSED && op->enqueue);
    bool comes_back = verdict == HF_GRANTED || (ballot->taking && waits);
    hf__timer_stop(loop_of(ballot), &ballot->limit);
    ballot->open = false;
    if (!waits)
        hf__link_remove(&ballot->waiting);
    if (!comes_back)
        ballot->op = NULL;
    op->verdict = verdict;
    hf__op_done(&ballot->quorum->base, op);
}

/* So many servers may be left with something of ours, and the next one can be granted the lock all
 * the same: by those that had granted it to us, for the others may be dead. */
static unsigned may_be_left(const struct ballot *ballot)
{
    unsigned there = 0;
    for (unsigned i = 0; i < ballot->quorum->count; i++)
        there += !hf__vote_is_gone(&ballot->votes[i]);
    return there > ballot->quorum->majority ? there - ballot->quorum->majority : 0;
}

static void begin_giving(struct ballot *ballot)
{
    int64_t host_lease_ms = ballot->quorum->base.host->lease_ms;
    if (ballot->taking)
        ballot->left = may_be_left(ballot);
    for (unsigned i = 0; i < ballot->quorum->count && ballot->taking; i++) {
        struct vote *vote = &ballot->votes[i];
        int64_t lease_ms = vote->op.lease_ms ? vote->op.lease_ms : host_lease_ms;
        if (now_of(ballot) + lease_ms > vote->forgotten_ms)
            vote->forgotten_ms = now_of(ballot) + lease_ms;
    }
    ballot->taking = false;
    for (unsigned i = 0; i < ballot->quorum->count; i++)
        hf__vote_give_back(&ballot->votes[i]);
}

void hf__ballots_abandon(struct quorum *quorum)
{
    HF_LIST_FOREACH (link, following, &quorum->ballots) {
        struct ballot *ballot = HF_CONTAINER(link, struct ballot, link);
        hf__timer_stop(loop_of(ballot), &ballot->limit);
        hf__link_remove(&ballot->waiting);
        ballot->op = NULL;
        ballot->open = false;
        begin_giving(ballot);
        retire(ballot);
    }
}

/* ---- taking ---- */

/* The moment from which the lease counts: most servers have confirmed it since. */
static int64_t confirmed_at(const struct ballot *ballot)
{
    const struct quorum *quorum = ballot->quorum;
    int64_t best = VOTE_NOT_HELD;
    for (unsigned i = 0; i < quorum->count; i++) {
        int64_t candidate = ballot->votes[i].held_since_ms;
        unsigned as_new = 0;
        for (unsigned k = 0; k < quorum->count; k++)
            as_new += ballot->votes[k].held_since_ms >= candidate;
        if (candidate > best && as_new >= quorum->majority)
            best = candidate;
    }
    return best;
}

static void set_lease(struct ballot *ballot, int64_t asked_at_ms)
{
    struct hf_op *op = ballot->op;
    struct hf_lease *lease = &op->own_lease;
    lease->engine = &ballot->quorum->base;
    lease->asked_at_ms = asked_at_ms;
    lease->lease_ms = op->lease_ms ? op->lease_ms : ballot->quorum->base.host->lease_ms;
    lease->fixed = op->lease_ms > 0;
    op->rests_on = lease;
}

static void end_round(struct ballot *ballot, enum hf_verdict verdict)
{
    ballot->held = 0;
    answer(ballot, verdict);
    begin_giving(ballot);
    retire(ballot);
}

static const hf_error *error_of(const struct ballot *ballot, enum vote_word word)
{
    for (unsigned i = 0; i < ballot->quorum->count; i++)
        if (ballot->votes[i].word == word && ballot->votes[i].op.error)
            return ballot->votes[i].op.error;
    return NULL;
}

static void explain(struct ballot *ballot, const hf_error *why, int code)
{
    unsigned silent = count_words(ballot, VOTE_SILENT), never = count_words(ballot, VOTE_NEVER);
    hf__op_explain(ballot->op, code, why ? why->native : 0,
                   "%u of the quorum's %u servers cannot be had, and %u are needed: %.240s",
                   silent + never, ballot->quorum->count, ballot->quorum->majority,
                   why ? why->text : "no answer");
}

static void fail(struct ballot *ballot)
{
    const hf_error *why = error_of(ballot, VOTE_NEVER);
    explain(ballot, why, why ? why->code : HF_ENOMEM);
    end_round(ballot, HF_FAILED);
}

/* What may be there ends by itself with the lease. */
static void be_silent(struct ballot *ballot)
{
    const hf_error *why = error_of(ballot, VOTE_SILENT);
    explain(ballot, why ? why : error_of(ballot, VOTE_NEVER), HF_UNREACHABLE);
    set_lease(ballot, now_of(ballot));
    end_round(ballot, HF_NO_ANSWER);
}

/* Contenders that have split the votes do not come again at the same time. */
static void refuse(struct ballot *ballot)
{
    uint64_t salt;
    hf__random(&salt, sizeof salt);
    int64_t room_ms = REDIS_LOOK_MOST_MS - REDIS_LOOK_LEAST_MS + slowness_of(ballot);
    ballot->op->rests_on = NULL;
    ballot->op->unplaced = false;
    ballot->op->retry_at_ms =
        now_of(ballot) + REDIS_LOOK_LEAST_MS + (int64_t)(salt % (uint64_t)room_ms);
    end_round(ballot, HF_REFUSED);
}

static void judge_taking(struct ballot *ballot);

/* Enough have granted it. */
static void carry(struct ballot *ballot)
{
    const struct quorum *quorum = ballot->quorum;
    unsigned count = 0;
    if (ballot->token == 0)
        for (unsigned i = 0; i < quorum->count; i++)
            if (ballot->votes[i].word == VOTE_YES && ballot->votes[i].op.token > ballot->token)
                ballot->token = ballot->votes[i].op.token;
    for (unsigned i = 0; i < quorum->count; i++)
        count += hf__vote_has_token(&ballot->votes[i]);
    for (unsigned i = 0; i < quorum->count; i++)
        hf__vote_level(&ballot->votes[i]);
    if (count < quorum->majority) {
        /* Nobody is going to answer for a server that has not done it when it was asked to. */
        if (count_words(ballot, VOTE_YES) < quorum->majority &&
            count_words(ballot, VOTE_UNHEARD) == 0)
            judge_taking(ballot);
        return;
    }
    ballot->op->token = ballot->token;
    set_lease(ballot, confirmed_at(ballot));
    answer(ballot, HF_GRANTED);
}

static void judge_taking(struct ballot *ballot)
{
    unsigned majority = ballot->quorum->majority;
    unsigned yes = count_words(ballot, VOTE_YES), no = count_words(ballot, VOTE_NO);
    unsigned never = count_words(ballot, VOTE_NEVER), silent = count_words(ballot, VOTE_SILENT);
    unsigned unheard = count_words(ballot, VOTE_UNHEARD);
    if (yes >= majority)
        carry(ballot);
    else if (never > spare(ballot))
        fail(ballot);
    else if (silent > spare(ballot) || (no == 0 && unheard == 0))
        be_silent(ballot);
    else if (no == 0 || yes + no + never < majority)
        return; /* Whoever is not heard yet decides. */
    else if (yes + unheard < majority)
        refuse(ballot);
    else if (!ballot->limit.started && ballot->op->enqueue) /* A bare try does not come again. */
        hf__timer_start(loop_of(ballot), &ballot->limit,
                        now_of(ballot) + STRAGGLERS_MS + slowness_of(ballot));
}

static void waited_enough(struct hf_timer *timer)
{
    struct ballot *ballot = HF_CONTAINER(timer, struct ballot, limit);
    if (ballot->open && ballot->taking && count_words(ballot, VOTE_NO) > 0)
        refuse(ballot);
}

/* ---- giving back ---- */

/* What is given back has left before whoever waits for it here asks again. */
static void hand_on(const struct ballot *ballot)
{
    HF_LIST_FOREACH (link, following, &ballot->quorum->waiting) {
        struct ballot *next = HF_CONTAINER(link, struct ballot, waiting);
        if (strcmp(next->name, ballot->name) == 0) {
            next->is_next = true;
            next->here_since_ms = ballot->here_since_ms;
            hf__loop_defer(loop_of(next), &next->handed);
        }
    }
}

static void judge_giving(struct ballot *ballot)
{
    unsigned there = 0, silent = 0, lost = 0;
    for (unsigned i = 0; i < ballot->quorum->count; i++) {
        const struct vote *vote = &ballot->votes[i];
        there += !hf__vote_is_gone(vote);
        silent += !hf__vote_is_gone(vote) && vote->word == VOTE_SILENT;
        lost += vote->lost;
    }
    if (there <= ballot->left) {
        ballot->op->lost = ballot->held > 0 && ballot->held < ballot->quorum->majority + lost;
        answer(ballot, HF_GONE);
        retire(ballot);
    } else if (silent > ballot->left) {
        explain(ballot, error_of(ballot, VOTE_SILENT), HF_UNREACHABLE);
        answer(ballot, HF_NO_ANSWER);
    }
}

/* ---- what the servers say ---- */

void hf__ballot_judge(struct ballot *ballot, struct vote *vote)
{
    if (ballot->open && ballot->taking) {
        judge_taking(ballot);
    } else if (ballot->open) {
        judge_giving(ballot);
    } else {
        if (ballot->taking)
            hf__vote_level(vote);
        retire(ballot);
        hf__ballot_review(ballot);
    }
}

/* A vote that was not waited for, or a renewal, has moved what the lock rests on. */
void hf__ballot_review(struct ballot *ballot)
{
    if (!ballot->op || ballot->open || !ballot->taking)
        return;
    struct hf_lease *lease = &ballot->op->own_lease;
    int64_t asked_at_ms = confirmed_at(ballot);
    if (asked_at_ms == VOTE_NOT_HELD)
        hf__lease_renewed(lease, now_of(ballot), false);
    else if (!lease->fixed && asked_at_ms > lease->asked_at_ms)
        hf__lease_renewed(lease, asked_at_ms, true);
}

/* ---- what the core asks ---- */

void hf__quorum_attempt(struct hf_engine *engine, struct hf_op *op)
{
    struct quorum *quorum = HF_CONTAINER(engine, struct quorum, base);
    struct ballot *ballot = ballot_for(op);
    if (!ballot)
        ballot = new_ballot(quorum, op);
    if (!ballot) {
        hf__op_explain(op, HF_ENOMEM, 0, "out of memory for a ballot");
        op->verdict = HF_FAILED;
        hf__op_done(engine, op);
        return;
    }
    hf__link_remove(&ballot->waiting);
    if (op->enqueue)
        hf__list_append(&quorum->waiting, &ballot->waiting);
    ballot->taking = ballot->open = true;
    ballot->token = 0;
    ballot->held = 0;
    ballot->began_ms = now_of(ballot);
    if (!ballot->is_next)
        ballot->here_since_ms = ballot->began_ms;
    ballot->is_next = false;
    for (unsigned i = 0; i < quorum->count; i++) {
        struct vote *vote = &ballot->votes[i];
        vote->levelled = false;
        vote->op.mode = op->mode;
        vote->op.lease_ms = op->lease_ms;
        hf__vote_ask(vote);
    }
}

void hf__quorum_release(struct hf_engine *engine, struct hf_op *op)
{
    struct ballot *ballot = ballot_for(op);
    if (!ballot) {
        op->verdict = HF_GONE;
        hf__op_done(engine, op);
        return;
    }
    for (unsigned i = 0; i < ballot->quorum->count && ballot->taking; i++)
        ballot->held += ballot->votes[i].held_since_ms != VOTE_NOT_HELD || ballot->votes[i].lost;
    hf__link_remove(&ballot->waiting);
    ballot->open = true;
    begin_giving(ballot);
    if (ballot->held > 0 && now_of(ballot) - ballot->here_since_ms < IN_A_ROW_MS)
        hand_on(ballot);
    judge_giving(ballot);
}

/* Servers that have not granted it are asked again, unless they had, and have lost it. */
void hf__quorum_renew(struct hf_engine *engine, struct hf_lease *lease)
{
    struct quorum *quorum = HF_CONTAINER(engine, struct quorum, base);
    struct ballot *ballot = ballot_for(HF_CONTAINER(lease, struct hf_op, own_lease));
    for (unsigned i = 0; i < quorum->count && ballot && ballot->taking && !ballot->open; i++) {
        struct vote *vote = &ballot->votes[i];
        struct hf_engine *server = &quorum->members[i]->base;
        if (vote->busy || vote->lost)
            continue;
        if (vote->held_since_ms != VOTE_NOT_HELD)
            server->ops->renew(server, &vote->op.own_lease);
        else
            hf__vote_ask(vote);
    }
}
