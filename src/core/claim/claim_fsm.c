/* SPDX-License-Identifier: Apache-2.0 */
/* The wait loop. Every claim, on every engine, goes this way:
 *
 *              TURN, RETRY
 *       QUEUED ------------> ASKING <----------- WAKE, RETRY ----------- WAITING
 *         |                   |  |  \                                      ^  |
 *         |           GRANTED |  |   \------- REFUSED, NO_ANSWER ---------/   |
 *         |                   v  |                                            |
 *         |                 HELD | GRANTED too late,                          |
 *         |                   |  | REFUSED or NO_ANSWER                       |
 *         |         DOWNGRADE |  | when no caller waits any more              |
 *         |                   v  v                                            |
 *         |                 LEAVING <------------ DEADLINE, END --------------/
 *         |                   |
 *         |                   | GONE             (GONE with something kept: back to HELD)
 *         v                   v
 *        OVER <--------------/      FAILED, and a bare try REFUSED, go from ASKING to OVER.
 *
 * Where no other claim wants the name, QUEUED goes to HELD, and HELD to OVER, in one step
 * (fast_path.c).
 *
 * Four rules carry everything:
 *  - Only an answer of the store moves a claim to HELD or OVER, and the answer's meaning is judged
 *    by our clock: a grant that comes after its own end is given back.
 *  - A wake is a hint. One that comes while a question is out is remembered, and the question
 *    repeated.
 *  - The caller gets its answer at its deadline, whatever is still out; the claim then goes on by
 *    itself until the store has nothing of it left.
 *  - Silence is not an answer: after it the same question is asked again, a release included. */
#include "core/claim/claim_fsm.h"

#include "base/clock.h"
#include "base/rand.h"
#include "core/lease/lease.h"

#include <assert.h>

/* The last look comes early enough for its answer, or for the silence. */
#define LAST_LOOK_MS (2 * HF_SILENCE_MS)

#define BIT(state) (1u << (state))

/* From each state, where a claim may go. */
/* clang-format off */
static const unsigned moves[] = {
    [HF_CLAIM_QUEUED]  = BIT(HF_CLAIM_ASKING)  | BIT(HF_CLAIM_OVER),
    [HF_CLAIM_ASKING]  = BIT(HF_CLAIM_ASKING)  | BIT(HF_CLAIM_WAITING) | BIT(HF_CLAIM_HELD)
                       | BIT(HF_CLAIM_LEAVING) | BIT(HF_CLAIM_OVER),
    [HF_CLAIM_WAITING] = BIT(HF_CLAIM_ASKING)  | BIT(HF_CLAIM_LEAVING),
    [HF_CLAIM_HELD]    = BIT(HF_CLAIM_ASKING)  | BIT(HF_CLAIM_LEAVING),
    [HF_CLAIM_LEAVING] = BIT(HF_CLAIM_LEAVING) | BIT(HF_CLAIM_HELD)    | BIT(HF_CLAIM_ASKING)
                       | BIT(HF_CLAIM_OVER),
    [HF_CLAIM_OVER]    = 0,
};
/* clang-format on */

const char *hf__claim_state_name(enum hf_claim_state state)
{
    static const char *const names[] = { "queued", "asking", "waiting", "held", "leaving", "over" };
    return names[state];
}

static void move(struct hf_claim *claim, enum hf_claim_state to)
{
    assert(moves[claim->state] & BIT(to));
    claim->state = to;
}

/* What counts is what the store has for us: a raise goes on when its owner gave back all it held.
 */
static bool holds_something(const struct hf_claim *claim)
{
    return claim->store_mode != HF_KEEP_NOTHING;
}

static void test_point(const struct hf_claim *claim, const char *point)
{
    hf__point(claim->client, point, claim->op.in.name);
}

static unsigned ask(struct hf_claim *claim, int64_t now_ms)
{
    move(claim, HF_CLAIM_ASKING);
    claim->woken = false;
    claim->again = false;
    claim->op.out.lost = false;
    claim->op.in.asked_at_ms = now_ms;
    test_point(claim, "before_ask");
    return HF_DO_ASK;
}

/* Decides what the caller is told; the first decision stands. */
static unsigned complete(struct hf_claim *claim, int outcome)
{
    if (claim->completed) /* mutant: request-is-told-twice */
        return HF_DO_NOTHING;
    claim->outcome = outcome;
    return HF_DO_COMPLETE;
}

int64_t hf__claim_lease_ms(const struct hf_claim *claim)
{
    if (claim->op.out.rests_on)
        return claim->op.out.rests_on->lease_ms;
    return claim->op.in.lease_ms ? claim->op.in.lease_ms : claim->client->host.lease_ms;
}

static unsigned leave(struct hf_claim *claim, int64_t now_ms)
{
    move(claim, HF_CLAIM_LEAVING);
    claim->silences = 0;
    claim->op.out.lost = false;
    /* A store on this machine forgets us when we die, not before. */
    if (claim->client->here)
        claim->leave_until_ms = HF_NEVER;
    else
        claim->leave_until_ms = hf__clock_add(now_ms, hf__claim_lease_ms(claim));
    test_point(claim, "before_release");
    return HF_DO_RELEASE;
}

/* What a caller hears of a definite no. */
static int failure(const struct hf_claim *claim, int otherwise)
{
    if (claim->op.out.lost)
        return HF_LOST;
    return claim->op.out.error ? claim->op.out.error->code : otherwise;
}

/* Nothing is at the store beyond what was held before: no release is needed. */
static unsigned end(struct hf_claim *claim)
{
    if (holds_something(claim)) {
        move(claim, HF_CLAIM_HELD);
        return HF_DO_NOTHING;
    }
    move(claim, HF_CLAIM_OVER);
    return HF_DO_FORGET;
}

/* When to ask a silent store again: later and later, up to two seconds, and not all at once. */
static int64_t after_silence(struct hf_claim *claim, int64_t now_ms)
{
    unsigned doublings = claim->silences < 5 ? claim->silences : 5;
    claim->silences++;
    int64_t pause = INT64_C(40) << doublings;
    uint64_t salt[2] = { claim->op.in.owner ^ claim->op.in.name_hash, (uint64_t)now_ms };
    return now_ms + pause + (int64_t)(hf__hash(salt, sizeof salt) % (uint64_t)(pause / 2));
}

static bool patience_is_over(const struct hf_claim *claim, int64_t now_ms)
{
    return claim->leaving || now_ms >= claim->wait_until_ms;
}

bool hf__claim_is_unanswered(const struct hf_claim *claim, int64_t now_ms)
{
    return claim->state == HF_CLAIM_ASKING && now_ms - claim->op.in.asked_at_ms >= HF_SILENCE_MS;
}

/* Silence is what fills the last second of a wait, or the whole of a shorter one. A bare try has
 * one question, and is told of that. */
static bool was_heard_lately(const struct hf_claim *claim, int64_t now_ms)
{
    int64_t end_ms = now_ms < claim->wait_until_ms ? now_ms : claim->wait_until_ms;
    int64_t since_ms = end_ms - LAST_LOOK_MS;
    if (since_ms < claim->wait_from_ms) /* mutant: reply-before-the-wait-counts */
        since_ms = claim->wait_from_ms;
    /* mutant: one-open-reply-is-silence */
    return claim->op.in.enqueue && atomic_load(&claim->entry->heard_at_ms) >= since_ms;
}

static int code_without_grant(const struct hf_claim *claim, int64_t now_ms)
{
    /* mutant: silence-at-end-of-wait */
    bool silent = !claim->store_seen || hf__claim_is_unanswered(claim, now_ms);
    if (!silent || was_heard_lately(claim, now_ms))
        return HF_BUSY;
    /* A store that has no room for another client has said so. */
    bool full = claim->op.out.error && claim->op.out.error->code == HF_ELIMIT;
    return full ? HF_ELIMIT : HF_UNREACHABLE;
}

/* A refused claim looks once more before its wait ends, and knows then whether the store still
 * answers: a refusal of long ago does not say that. */
static int64_t next_look(const struct hf_claim *claim, int64_t now_ms)
{
    int64_t last_look_ms = claim->wait_until_ms - LAST_LOOK_MS;
    bool looks = !claim->client->here && claim->wait_until_ms != HF_NEVER &&
                 now_ms < last_look_ms && last_look_ms < claim->op.out.retry_at_ms;
    return looks ? last_look_ms : claim->op.out.retry_at_ms; /* mutant: long-wait-ends */
}

static int why_it_ends(const struct hf_claim *claim)
{
    int ending = atomic_load(&claim->ending);
    return ending ? ending : HF_CANCELED;
}

/* What a caller hears whose wait ends without a grant. */
static int code_of_end(const struct hf_claim *claim, enum hf_claim_event event, bool lost,
                       int64_t now_ms)
{
    if (lost)
        return HF_LOST;
    return event == HF_ON_END ? why_it_ends(claim) : code_without_grant(claim, now_ms);
}

/* What the head hears of the store, or was told of it, those behind it hear too. */
static void note_silence(struct hf_claim *claim, bool silent)
{
    claim->store_seen = !silent;
    if (atomic_load_explicit(&claim->entry->silent, memory_order_relaxed) != silent)
        atomic_store(&claim->entry->silent, silent);
}

/* A reply to an attempt. The reply to a release says less: of a quorum, one server may give it. */
static void note_reply(struct hf_claim *claim, int64_t now_ms)
{
    note_silence(claim, false);
    atomic_store_explicit(&claim->entry->heard_at_ms, now_ms, memory_order_relaxed);
}

static unsigned granted(struct hf_claim *claim, int64_t now_ms)
{
    test_point(claim, "after_answer");
    hf__claim_set_validity(claim);
    /* A store whose replies are that late is as good as silent. */
    claim->granted_late = now_ms >= atomic_load(&claim->grant->valid_until_ms);
    if (claim->granted_late) /* mutant: late-grant-is-a-word */
        note_silence(claim, true);
    else
        note_reply(claim, now_ms);
    if (claim->leaving) /* mutant: late-grant-is-kept */
        return leave(claim, now_ms);
    if (!hf__mode_leaves_hold(claim->op.in.mode)) {
        move(claim, HF_CLAIM_OVER);
        return complete(claim, HF_OK) | HF_DO_FORGET;
    }
    /* mutant: grant-after-its-own-end */
    if (claim->granted_late) {
        claim->again = now_ms < claim->wait_until_ms;
        return leave(claim, now_ms) | (claim->again ? 0u : complete(claim, HF_UNREACHABLE));
    }
    move(claim, HF_CLAIM_HELD);
    return complete(claim, HF_OK);
}

static unsigned refused(struct hf_claim *claim, int64_t now_ms)
{
    claim->granted_late = false;
    note_reply(claim, now_ms);
    claim->silences = 0;
    if (!claim->op.in.enqueue)
        return complete(claim, HF_BUSY) | end(claim);
    if (patience_is_over(claim, now_ms))
        return complete(claim, HF_BUSY) | leave(claim, now_ms);
    if (claim->woken)
        return ask(claim, now_ms);
    move(claim, HF_CLAIM_WAITING);
    claim->retry_at_ms = next_look(claim, now_ms); /* mutant: retry-time-of-refusal */
    if (!claim->not_queued)                        /* mutant: owner-has-no-place-yet-is-said */
        test_point(claim, "queued");
    return HF_DO_SLEEP;
}

static unsigned unanswered(struct hf_claim *claim, int64_t now_ms)
{
    claim->granted_late = false;
    note_silence(claim, true);
    if (patience_is_over(claim, now_ms) || !claim->op.in.enqueue)
        /* mutant: attempt-without-answer-leaves */
        return complete(claim, code_without_grant(claim, now_ms)) | leave(claim, now_ms);
    move(claim, HF_CLAIM_WAITING);
    claim->retry_at_ms = after_silence(claim, now_ms);
    return HF_DO_SLEEP;
}

static unsigned step_queued(struct hf_claim *claim, enum hf_claim_event event, int64_t now_ms)
{
    /* A claim whose wait ends just after its turn has come passes on what it was told. */
    /* mutant: owner-comes-to-head-has-heard */
    claim->store_seen = atomic_load(&claim->turn) & HF_TURN_HEARD;
    if (event == HF_ON_TURN || event == HF_ON_RETRY)
        return ask(claim, now_ms);
    if (event != HF_ON_DEADLINE && event != HF_ON_END)
        return HF_DO_NOTHING;
    bool silent = atomic_load(&claim->entry->silent) && !was_heard_lately(claim, now_ms);
    silent |= !claim->op.in.enqueue;
    int seen = silent ? HF_UNREACHABLE : HF_BUSY;
    unsigned actions = complete(claim, event == HF_ON_END ? why_it_ends(claim) : seen);
    move(claim, HF_CLAIM_OVER);
    return actions | HF_DO_FORGET;
}

static unsigned step_asking(struct hf_claim *claim, enum hf_claim_event event, int64_t now_ms)
{
    if (event == HF_ON_ANSWER) {
        switch (claim->op.out.verdict) {
        case HF_GRANTED:
            return granted(claim, now_ms);
        case HF_REFUSED:
        case HF_REFUSED_NOT_QUEUED:
            return refused(claim, now_ms);
        case HF_NO_ANSWER:
            return unanswered(claim, now_ms);
        case HF_FAILED:
            return complete(claim, failure(claim, HF_ENOMEM)) | end(claim);
        case HF_GONE:
            break;
        }
        /* GONE answers a release, never an attempt. */
        assert(false);
        return HF_DO_NOTHING;
    }
    if (event == HF_ON_WAKE) /* mutant: wake-during-question */
        claim->woken = true;
    /* mutant: owners-call-is-over-hears */
    if (event == HF_ON_LEASE_LOST && !claim->leaving && !holds_something(claim)) {
        claim->woken = true;
        test_point(claim, "displaced");
    }
    bool lost = event == HF_ON_LEASE_LOST && holds_something(claim);
    if (!lost && event != HF_ON_DEADLINE && event != HF_ON_END)
        return HF_DO_NOTHING;
    claim->leaving = true;
    return complete(claim, code_of_end(claim, event, lost, now_ms));
}

static unsigned gone(struct hf_claim *claim, int64_t now_ms)
{
    test_point(claim, "after_release");
    note_silence(claim, claim->granted_late); /* mutant: late-release-is-a-word */
    if (claim->again)
        return ask(claim, now_ms);
    /* mutant: loss-without-sentence */
    bool lost = atomic_load(&claim->grant->lost) || claim->op.out.lost;
    unsigned actions = complete(claim, lost ? HF_LOST : HF_OK);
    if (claim->op.in.keep != HF_KEEP_NOTHING) {
        move(claim, HF_CLAIM_HELD);
        return actions;
    }
    move(claim, HF_CLAIM_OVER);
    return actions | HF_DO_FORGET;
}

/* No caller waits any more for what was going to be asked anew. Cancelling a request that was
 * answered long ago does not concern the release that is under way now. */
static unsigned step_impatient(struct hf_claim *claim, enum hf_claim_event event, bool lost)
{
    if (!claim->again)
        return event == HF_ON_END && why_it_ends(claim) != HF_ECLOSED
                   ? HF_DO_NOTHING
                   : complete(claim, HF_UNREACHABLE);
    claim->again = false; /* mutant: owner-gives-up-while-asking */
    claim->leaving = true;
    return complete(claim,
                    event == HF_ON_DEADLINE ? HF_UNREACHABLE : code_of_end(claim, event, lost, 0));
}

static unsigned step_leaving(struct hf_claim *claim, enum hf_claim_event event, int64_t now_ms)
{
    bool lost = event == HF_ON_LEASE_LOST && holds_something(claim);
    if (event == HF_ON_DEADLINE || event == HF_ON_END || (lost && claim->again))
        return step_impatient(claim, event, lost);
    if (event == HF_ON_RETRY) {
        move(claim, HF_CLAIM_LEAVING);
        return HF_DO_RELEASE;
    }
    if (event != HF_ON_ANSWER)
        return HF_DO_NOTHING;
    if (claim->op.out.verdict == HF_GONE) /* mutant: release-without-answer-counts */
        return gone(claim, now_ms);
    /* What stays is renewed meanwhile, so the store does not forget the rest of it by itself. */
    bool stays = claim->op.in.keep != HF_KEEP_NOTHING && !atomic_load(&claim->grant->lost);
    /* What rests on a session stays there as long as the session is kept alive, and what was never
     * answered may rest on one. */
    /* mutant: release-is-repeated */
    bool own = claim->op.out.rests_on == &claim->op.engine.own_lease;
    bool forgotten = own && now_ms >= claim->leave_until_ms;
    if (claim->op.out.verdict == HF_NO_ANSWER && (stays || !forgotten)) {
        claim->retry_at_ms = after_silence(claim, now_ms);
        return HF_DO_PAUSE;
    }
    if (claim->op.out.verdict == HF_NO_ANSWER && claim->again) {
        hf__known_forget(&claim->op.engine.known); /* its lease has ended */
        return ask(claim, now_ms);
    }
    /* The store has forgotten us by itself, or says that it cannot be done. */
    unsigned actions = complete(claim, failure(claim, HF_UNREACHABLE));
    if (claim->op.in.keep != HF_KEEP_NOTHING) {
        move(claim, HF_CLAIM_HELD);
        return actions;
    }
    move(claim, HF_CLAIM_OVER);
    return actions | HF_DO_FORGET;
}

static unsigned step_waiting(struct hf_claim *claim, enum hf_claim_event event, int64_t now_ms)
{
    bool lost = event == HF_ON_LEASE_LOST && holds_something(claim);
    if (event == HF_ON_DEADLINE || event == HF_ON_END || lost) {
        claim->leaving = true;
        return complete(claim, code_of_end(claim, event, lost, now_ms)) | leave(claim, now_ms);
    }
    if (event == HF_ON_LEASE_LOST) /* mutant: owner-loses-its-place-in-line */
        test_point(claim, "displaced");
    if (event == HF_ON_WAKE || event == HF_ON_RETRY || event == HF_ON_LEASE_LOST)
        return ask(claim, now_ms);
    return HF_DO_NOTHING;
}

static unsigned step_held(struct hf_claim *claim, enum hf_claim_event event, int64_t now_ms)
{
    if (event == HF_ON_DOWNGRADE) {
        claim->granted_late = false; /* a raise's, whose caller has been told */
        return leave(claim, now_ms);
    }
    if (event != HF_ON_UPGRADE)
        return HF_DO_NOTHING;
    if (atomic_load(&claim->grant->lost))
        return complete(claim, HF_LOST);
    if (atomic_load(&claim->ending))
        return complete(claim, why_it_ends(claim));
    /* A renewal may be out, which reads the op: so it changes where the claim is driven, and not
     * where the call prepares it. */
    claim->op.in.mode = HF_WRITE;
    claim->op.in.keep = HF_UPGRADE;
    claim->op.in.enqueue = claim->raise_waits;
    return ask(claim, now_ms);
}

unsigned hf__claim_step(struct hf_claim *claim, enum hf_claim_event event, int64_t now_ms)
{
    unsigned actions = HF_DO_NOTHING;
    switch (claim->state) {
    case HF_CLAIM_QUEUED:
        actions = step_queued(claim, event, now_ms);
        break;
    case HF_CLAIM_ASKING:
        actions = step_asking(claim, event, now_ms);
        break;
    case HF_CLAIM_WAITING:
        actions = step_waiting(claim, event, now_ms);
        break;
    case HF_CLAIM_HELD:
        actions = step_held(claim, event, now_ms);
        break;
    case HF_CLAIM_LEAVING:
        actions = step_leaving(claim, event, now_ms);
        break;
    case HF_CLAIM_OVER:
        break;
    }
    if (event == HF_ON_DEADLINE && (actions & HF_DO_COMPLETE) && claim->outcome == HF_UNREACHABLE)
        note_silence(claim, true); /* mutant: silence-that-another-was-told */
    return actions;
}

void hf__claim_set_validity(struct hf_claim *claim)
{
    const struct hf_lease *lease = claim->op.out.rests_on;
    int64_t until_ms = lease ? hf__lease_valid_until(lease) : HF_NEVER;
    atomic_store_explicit(&claim->grant->valid_until_ms, until_ms, memory_order_release);
}

void hf__claim_fast_acquire(struct hf_claim *claim)
{
    assert(claim->state == HF_CLAIM_QUEUED);
    claim->state = HF_CLAIM_HELD;
}

void hf__claim_abandon(struct hf_claim *claim)
{
    assert(claim->state == HF_CLAIM_HELD);
    claim->state = HF_CLAIM_OVER;
}

void hf__claim_begin(struct hf_claim *claim, const struct hf_lock_args *ask)
{
    int ending = atomic_load(&claim->ending); /* of an earlier question; HF_ECLOSED stays */
    if (ending && ending != HF_ECLOSED &&
        atomic_compare_exchange_strong(&claim->ending, &ending, 0))
        atomic_fetch_and(&claim->turn, ~HF_TURN_ENDED);
    claim->asked_at_us = hf__clock_us();
    hf__count(claim->shard->counts, HF_COUNT_ASKED, 1);
    claim->completed = false;
    claim->blocked = NULL;
    claim->said_waiting = false;
    claim->leaving = false;
    claim->woken = false;
    claim->again = false;
    claim->store_seen = false;
    claim->granted_late = false;
    claim->silences = 0;
    claim->outcome = HF_OK;
    claim->raise_waits = ask->wait_ms != 0;
    bool held = claim->upgrading; /* mutant: op-of-held-claim-stays */
    if (!held) {
        claim->op.in.enqueue = ask->wait_ms != 0;
        claim->op.in.mode = ask->mode;
        claim->op.in.lease_ms = ask->lease_ms;
    }
    claim->wait_from_ms = ask->now_ms;
    claim->wait_until_ms = ask->wait_until_ms;
    claim->retry_at_ms = HF_NEVER;
    if (ask->wait_ms != 0)
        return;
    /* A bare try waits for the store's answer, not for the lock; and before it asks, for what its
     * own client has to undo there, but not for half of its time. An attach that asked before would
     * be told of a loss. */
    int64_t timeout_ms = claim->client->request_timeout_ms;
    int64_t defers_ms = timeout_ms < 2 * HF_SILENCE_MS ? timeout_ms / 2 : HF_SILENCE_MS;
    claim->wait_until_ms = hf__clock_add(ask->now_ms, timeout_ms);
    if (!ask->attach_key)
        claim->retry_at_ms = hf__clock_add(ask->now_ms, defers_ms);
}
