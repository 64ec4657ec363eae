/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a claim.
 *
 *     IDLE --try on seat 0--> TRYING --granted--> HELD --unlock--> RELEASING --> IDLE
 *      ^                        |                   ^
 *      |                        | refused           | the core asks again
 *      |                        v                   |
 *      +--cancel, unlock-- WAITING --granted--> GRANTED
 *
 * Whatever is on a session ends with it, and a later session adopts nothing: the claim begins
 * again, or is lost. A name that was found held waits at once the next times. What a session has
 * locked it gets again, so no second owner of this client asks on the same session. */
#include "engines/sql/session/session.h"

#include "base/rand.h"
#include "engines/common/poll.h"

#define GUESSES 16u
#define CANCEL_AGAIN_MS 5
#define UNLOCK_TRIES 5u

static struct hf_known *known_of(struct session_claim *claim)
{
    return &claim->op->engine.known;
}

static enum hf_asked asked_of(const struct session_claim *claim)
{
    return claim->op->in.enqueue ? HF_ASKED_ATTEMPT : HF_ASKED_TRY;
}

static enum session_word word_for(const struct session_claim *claim, enum session_word word)
{
    return claim->shared ? word + (SESSION_TRY_SHARED - SESSION_TRY) : word;
}

static unsigned char *contended(struct session_claim *claim)
{
    uint64_t hash = hf__hash(&claim->key, sizeof claim->key);
    return &claim->all->contended[hash % SESSION_CONTENDED];
}

/* ---- answers ---- */

void hf__session_finish(struct session_claim *claim, enum hf_verdict verdict)
{
    struct hf_op *op = claim->op;
    struct sessions *all = claim->all;
    claim->asked = claim->releasing = false;
    op->out.verdict = verdict;
    if (verdict == HF_FAILED || verdict == HF_GONE || (verdict == HF_REFUSED && !op->in.enqueue))
        hf__session_claim_leave(claim);
    hf__op_done(&all->base, op);
}

static void finish_known(struct session_claim *claim, enum hf_asked asked, enum hf_word word)
{
    hf__op_set_verdict(claim->op, hf__known_found(&claim->op->engine.known, asked, word));
    hf__session_finish(claim, claim->op->out.verdict);
}

static void tell_granted(struct session_claim *claim)
{
    struct hf_op *op = claim->op;
    struct hf_lease *lease = &claim->session->lease;
    claim->state = SESSION_CLAIM_HELD;
    op->out.token = claim->token;
    op->out.rests_on = lease;
    if (op->in.lease_ms > 0) {
        hf__own_end_start(&claim->end, op);
        hf__own_end_follow(&claim->end, &claim->session->ends, lease, op);
    }
    hf__session_finish(claim, HF_GRANTED);
}

static void note_grant(struct session_claim *claim, const struct session_request *request,
                       const struct sql_answer *answer)
{
    hf__session_drop(claim->session);
    claim->session = request->session;
    hf__session_keep(claim->session);
    claim->token = (uint64_t)hf__session_field(answer, 0, 1);
    claim->state = SESSION_CLAIM_GRANTED;
    hf__known_found(&claim->op->engine.known, asked_of(claim), HF_WORD_GRANTED);
}

static void forget(struct session_claim *claim)
{
    hf__session_claim_rest(claim);
    hf__known_forget(known_of(claim));
}

/* Its answer found no memory, and the session goes on: what was done at the server is not known. */
static bool is_unheard(const struct session_request *request, const struct sql_answer *answer)
{
    return answer->failure && answer->failure->trouble != SQL_LOST &&
           hf__sql_is_open(&request->request, answer->failure);
}

static void end_unheard(struct session_request *request)
{
    hf__peer_break(&request->seat->peer, HF_UNREACHABLE, 0, "out of memory for an answer");
}

/* The session that the request was on has ended, or is going to. Nothing of the claim is left, as
 * soon as the next session on the seat has ended it. One in doubt is ended where unlocking once
 * more could unlock what another claim has of the same key. */
static bool is_lost(struct session_request *request, const struct sql_answer *answer)
{
    bool lost = answer->failure ? answer->failure->trouble == SQL_LOST
                                : hf__session_is_moved(request, answer, 2);
    if (is_unheard(request, answer) && hf__session_seat_has(request->seat, request->claim)) {
        end_unheard(request);
        lost = true;
    }
    if (lost)
        forget(request->claim);
    return lost;
}

static void attempt_lost(struct session_request *request, const struct sql_answer *answer)
{
    static const struct sql_failure moved = { .trouble = SQL_LOST };
    struct session_claim *claim = request->claim;
    bool definite;
    hf__session_explain(request, answer->failure ? answer->failure : &moved, &claim->op->out.error,
                        &definite);
    hf__session_finish(claim, definite ? HF_FAILED : HF_NO_ANSWER);
}

static void sit(struct session_claim *claim, struct session_seat *seat, enum session_state state)
{
    hf__list_append(&seat->claims, &claim->link);
    claim->seat = seat;
    claim->state = state;
}

static struct session_request *claim_request(struct session_claim *claim, session_done *done)
{
    struct session_request *request = hf__session_request(claim->seat, claim, done);
    if (!request)
        hf__op_explain(claim->op, HF_ENOMEM, 0, "out of memory for a request");
    return request;
}

/* ---- unlocking ---- */

static void unlocked(struct session_request *request, const struct sql_answer *answer);

static void unlock(struct session_claim *claim, unsigned tries)
{
    struct session_request *request = claim_request(claim, unlocked);
    if (request) {
        claim->state = SESSION_CLAIM_RELEASING;
        request->tries = tries;
        hf__session_run(request, word_for(claim, SESSION_UNLOCK));
    } else if (claim->releasing) {
        hf__session_finish(claim, HF_NO_ANSWER);
    }
}

/* What had no caller is over: an attempt begins again. */
static void unlocked_quietly(struct session_claim *claim)
{
    forget(claim);
    if (claim->asked)
        hf__session_finish(claim, HF_NO_ANSWER);
    else if (!claim->over)
        hf__op_wake(claim->op);
}

static void unlocked(struct session_request *request, const struct sql_answer *answer)
{
    struct session_claim *claim = request->claim;
    bool done = hf__session_field(answer, 0, 0) == 1;
    if (!claim->op)
        return;
    bool held = hf__known_holds(known_of(claim)), lost = is_lost(request, answer);
    if (!lost && answer->failure && request->tries >= UNLOCK_TRIES) {
        hf__peer_break(&request->seat->peer, HF_UNREACHABLE, 0, "it does not unlock: %.100s",
                       answer->failure->text);
        forget(claim);
        lost = true;
    }
    if (lost) {
        /* The session has ended before the reply, maybe before the unlock. */
        claim->op->out.lost = held; /* mutant: unlock-without-a-reply */
        if (claim->releasing)
            hf__session_finish(claim, HF_GONE);
        else
            unlocked_quietly(claim);
    } else if (answer->failure) {
        /* A cancel request came late; or it may be unlocked, and the next reply says no more. */
        if (is_unheard(request, answer)) {
            hf__known_sent(known_of(claim), HF_ASKED_RELEASE);
            hf__known_reply(known_of(claim), HF_WORD_OPEN);
        }
        unlock(claim, request->tries + 1);
    } else if (claim->releasing) {
        finish_known(claim, HF_ASKED_RELEASE, done ? HF_WORD_DONE : HF_WORD_MISSING);
    } else {
        unlocked_quietly(claim);
    }
}

void hf__session_end_now(struct session_claim *claim)
{
    claim->over = true;
    if (claim->state == SESSION_CLAIM_HELD && !claim->session->over)
        unlock(claim, 0);
}

static void own_end_over(struct hf_own_end *end)
{
    hf__session_end_now(HF_CONTAINER(end, struct session_claim, end));
}

/* ---- waiting ---- */

static void wait_on(struct session_claim *claim);

/* What an attempt is told once the statement that waits is on its way. */
static void wait_sent(struct session_claim *claim)
{
    claim->op->out.retry_at_ms = HF_NEVER;
    if (claim->asked)
        finish_known(claim, HF_ASKED_ATTEMPT, HF_WORD_QUEUED);
}

static void tell_or_wake(struct session_claim *claim)
{
    if (claim->asked)
        tell_granted(claim);
    else
        hf__op_wake(claim->op);
}

static void grant_confirmed(struct session_request *request, const struct sql_answer *answer)
{
    struct session_claim *claim = request->claim;
    if (!claim->op || claim->state != SESSION_CLAIM_GRANTED || claim->session != request->session ||
        answer->failure || hf__session_is_moved(request, answer, 2))
        return; /* the end of the session tells */
    claim->confirming = false;
    tell_or_wake(claim);
}

/* When the server has granted it is not known after a long wait, and the session may be about to
 * end: a reply to a new request settles that. */
static void wait_granted(struct session_request *request, const struct sql_answer *answer)
{
    struct session_claim *claim = request->claim;
    note_grant(claim, request, answer);
    /* mutant: grant-after-a-long-wait */
    bool fresh = hf__session_now(claim->all) - request->sent_at_ms < claim->all->lease_ms / 3;
    struct session_request *beat = fresh ? NULL : claim_request(claim, grant_confirmed);
    hf__session_confirm(claim->session, request->sent_at_ms);
    claim->confirming = beat != NULL;
    if (beat)
        hf__session_run(beat, SESSION_BEAT);
    else
        tell_or_wake(claim);
}

/* A lock may have been granted just before its statement was cancelled. */
static void wait_ended(struct session_claim *claim)
{
    claim->replied = true;
    if (claim->cancels == 0)
        unlock(claim, 0);
}

static void waited(struct session_request *request, const struct sql_answer *answer)
{
    struct session_claim *claim = request->claim;
    bool postgres = claim->all->dialect == SQL_POSTGRES;
    if (!claim->op)
        return;
    if (is_lost(request, answer)) {
        if (claim->releasing)
            hf__session_finish(claim, HF_GONE);
        else if (claim->asked)
            attempt_lost(request, answer);
        else
            hf__op_wake(claim->op);
    } else if (claim->releasing || answer->failure) {
        wait_ended(claim);
    } else if (postgres || hf__session_field(answer, 0, 0) == 1) {
        wait_granted(request, answer);
    } else {
        wait_on(claim); /* a year has passed */
    }
}

static void wait_on(struct session_claim *claim)
{
    struct session_request *request = claim_request(claim, waited);
    if (!request) {
        hf__session_claim_rest(claim);
        hf__session_finish(claim, HF_NO_ANSWER);
        return;
    }
    request->sent = wait_sent;
    hf__session_run(request, word_for(claim, SESSION_WAIT));
}

/* Without a seat it looks by itself, and when one is left. */
static void wait_begin(struct session_claim *claim)
{
    struct session_seat *seat = hf__session_seat_find(claim->all);
    hf__link_remove(&claim->queue_link);
    if (!seat) {
        hf__list_append(&claim->all->queue, &claim->queue_link);
        claim->op->out.retry_at_ms = hf__session_now(claim->all) + hf__poll_pause_ms(-1, 0);
        hf__known_found(&claim->op->engine.known, HF_ASKED_ATTEMPT, HF_WORD_REFUSED);
        hf__session_finish(claim, HF_REFUSED_NOT_QUEUED);
        return;
    }
    claim->replied = false;
    sit(claim, seat, SESSION_CLAIM_WAITING);
    seat->owner = claim;
    wait_on(claim);
}

/* ---- cancelling a wait ---- */

static void cancel(struct session_claim *claim);

static void canceled(struct session_request *request, const struct sql_answer *answer)
{
    struct session_claim *claim = request->claim;
    bool definite;
    claim->cancels--;
    if (!claim->op || claim->state != SESSION_CLAIM_WAITING)
        return;
    if (claim->replied) {
        wait_ended(claim);
    } else if (answer->failure && claim->releasing) {
        hf__session_explain(request, answer->failure, &claim->op->out.error, &definite);
        hf__session_finish(claim, HF_NO_ANSWER);
    } else if (claim->releasing) {
        /* The cancel request may have overtaken the statement. */
        hf__timer_start(claim->all->base.host->loop, &claim->again,
                        hf__session_now(claim->all) + CANCEL_AGAIN_MS);
    }
}

static void cancel(struct session_claim *claim)
{
    struct session_request *request = hf__session_request(&claim->all->seats[0], claim, canceled);
    if (!request) {
        hf__op_explain(claim->op, HF_ENOMEM, 0, "out of memory for a request");
        hf__session_finish(claim, HF_NO_ANSWER);
        return;
    }
    claim->cancels++;
    hf__session_number(request, SQL_P_VALUE, claim->seat->session ? claim->seat->session->id : 0);
    request->key.pair = false;
    hf__session_run(request, SESSION_CANCEL);
}

static void cancel_again(struct hf_timer *timer)
{
    struct session_claim *claim = HF_CONTAINER(timer, struct session_claim, again);
    if (claim->op && claim->state == SESSION_CLAIM_WAITING && !claim->replied &&
        claim->cancels == 0)
        cancel(claim);
}

/* ---- attempts ---- */

static void attempt_begin(struct session_claim *claim);

/* A session that was idle for long may have ended without a word: the next one is asked. */
static void tried(struct session_request *request, const struct sql_answer *answer)
{
    struct session_claim *claim = request->claim;
    bool definite;
    if (!claim->op)
        return;
    if (is_lost(request, answer)) {
        if (request->session && !claim->repeated) {
            claim->repeated = true;
            attempt_begin(claim);
        } else {
            attempt_lost(request, answer);
        }
    } else if (answer->failure) {
        hf__session_explain(request, answer->failure, &claim->op->out.error, &definite);
        if (definite) {
            hf__session_claim_rest(claim);
            finish_known(claim, asked_of(claim), HF_WORD_NEVER);
        } else {
            unlock(claim, 0);
        }
    } else if (hf__session_field(answer, 0, 0) == 1) {
        *contended(claim) = 0;
        note_grant(claim, request, answer);
        tell_granted(claim);
    } else {
        hf__session_claim_rest(claim);
        *contended(claim) = GUESSES;
        if (claim->op->in.enqueue)
            wait_begin(claim);
        else
            finish_known(claim, HF_ASKED_TRY, HF_WORD_REFUSED);
    }
}

static bool seems_held(struct session_claim *claim)
{
    unsigned char *guesses = contended(claim);
    /* Without a session to wait on, only a try finds out. */
    /* mutant: try-is-no-guess */
    if (!claim->op->in.enqueue || *guesses == 0 || !hf__session_seat_find(claim->all))
        return false;
    --*guesses;
    return true;
}

/* A session that has a key gets it again, also before those that wait. So each reader has a session
 * of its own, as long as there is one. */
static struct session_seat *seat_for_try(struct session_claim *claim)
{
    struct session_seat *first = &claim->all->seats[0];
    struct session_claim *other = hf__session_seat_has(first, claim);
    if (!other)
        return first;
    /* What this client holds is surely not free, but for readers. */
    bool shares = claim->shared && other->shared;
    if (other->state == SESSION_CLAIM_HELD && !shares)
        return NULL;
    struct session_seat *seat = hf__session_seat_find(claim->all);
    if (claim->op->in.enqueue && (seat || !shares))
        return NULL; /* it waits */
    if (seat)
        seat->owner = claim;
    return seat || !shares ? seat : first;
}

static void attempt_begin(struct session_claim *claim)
{
    struct session_seat *seat = seems_held(claim) ? NULL : seat_for_try(claim);
    if (!seat && claim->op->in.enqueue) {
        wait_begin(claim);
        return;
    }
    if (!seat) {
        finish_known(claim, HF_ASKED_TRY, HF_WORD_REFUSED);
        return;
    }
    sit(claim, seat, SESSION_CLAIM_TRYING);
    struct session_request *request = claim_request(claim, tried);
    if (request) {
        hf__session_run(request, word_for(claim, SESSION_TRY));
    } else {
        hf__session_claim_rest(claim);
        hf__session_finish(claim, HF_NO_ANSWER);
    }
}

/* Asked again while it waits: whether the server still replies. */
static void looked(struct session_request *request, const struct sql_answer *answer)
{
    struct session_claim *claim = request->claim;
    bool definite;
    if (!claim->op || !claim->asked)
        return;
    if (claim->state == SESSION_CLAIM_GRANTED) {
        if (!claim->confirming)
            tell_granted(claim);
    } else if (answer->failure) {
        hf__session_explain(request, answer->failure, &claim->op->out.error, &definite);
        hf__session_finish(claim, HF_NO_ANSWER);
    } else {
        wait_sent(claim);
    }
}

void hf__session_attempt(struct hf_engine *engine, struct hf_op *op)
{
    struct sessions *all = (struct sessions *)engine;
    struct session_claim *claim = op->engine.pointer;
    struct session_request *request;
    if (!claim) {
        claim = hf__session_claim_new(all, op);
        if (!claim) {
            hf__op_explain(op, HF_ENOMEM, 0, "out of memory for a claim");
            op->out.verdict = HF_FAILED;
            hf__op_done(engine, op);
            return;
        }
        hf__own_end_init(&claim->end, engine, own_end_over);
        hf__timer_init(&claim->again, cancel_again);
    }
    claim->asked = true;
    claim->repeated = false;
    if (claim->state == SESSION_CLAIM_GRANTED || claim->state == SESSION_CLAIM_HELD) {
        if (!claim->confirming)
            tell_granted(claim);
    } else if (claim->state == SESSION_CLAIM_WAITING) {
        request = hf__session_request(&all->seats[0], claim, looked);
        if (request)
            hf__session_run(request, SESSION_BEAT);
        else
            wait_sent(claim);
    } else if (!hf__session_key_make(&claim->key, &all->settings, op->in.name, op->in.name_length,
                                     &op->out.error)) {
        hf__session_finish(claim, HF_FAILED);
    } else if (claim->state == SESSION_CLAIM_IDLE) {
        attempt_begin(claim);
    }
}

/* ---- releases ---- */

static void lowered(struct session_request *request, const struct sql_answer *answer)
{
    struct session_claim *claim = request->claim;
    if (!claim->op)
        return;
    if (is_unheard(request, answer))
        end_unheard(request);
    if (answer->failure || hf__session_is_moved(request, answer, 2)) {
        hf__op_explain(claim->op, HF_UNREACHABLE, 0, "the session that holds the lock has ended");
        claim->releasing = false;
        claim->op->out.verdict = HF_NO_ANSWER;
    } else {
        bool done = hf__session_field(answer, 0, 0) == 1;
        claim->shared = claim->shared || done;
        claim->releasing = false;
        hf__op_set_verdict(claim->op, hf__known_found(&claim->op->engine.known, HF_ASKED_LOWER,
                                                      done ? HF_WORD_DONE : HF_WORD_MISSING));
    }
    hf__op_done(&claim->all->base, claim->op);
}

static void lower(struct session_claim *claim)
{
    struct session_request *request = claim_request(claim, lowered);
    if (request)
        hf__session_run(request, SESSION_LOWER);
    else
        hf__session_finish(claim, HF_NO_ANSWER);
}

void hf__session_release(struct hf_engine *engine, struct hf_op *op)
{
    struct session_claim *claim = op->engine.pointer;
    bool there = claim && claim->state != SESSION_CLAIM_IDLE;
    bool lowers = op->in.keep != HF_KEEP_NOTHING;
    if (!there || (lowers && claim->state != SESSION_CLAIM_HELD)) {
        op->out.verdict = HF_GONE;
        op->out.lost = lowers;
        if (claim)
            hf__session_claim_leave(claim);
        hf__op_done(engine, op);
        return;
    }
    claim->releasing = true;
    if (lowers)
        lower(claim);
    else if (claim->state == SESSION_CLAIM_WAITING && !claim->replied)
        cancel(claim);
    else if (claim->state == SESSION_CLAIM_GRANTED || claim->state == SESSION_CLAIM_HELD)
        unlock(claim, 0);
}
