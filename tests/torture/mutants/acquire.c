/* SPDX-License-Identifier: Apache-2.0 */
/* Acquiring: asking, waiting for a change, asking again; and leaving no trace of what failed. */
#include "session.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MS INT64_C(1000000)

static struct mutant_claim *find_held(const struct mutant_session *session,
                                      const struct torture_ask *ask)
{
    if (ask->lock->form == TORTURE_SEMAPHORE)
        return NULL;
    for (struct mutant_claim *claim = session->claims; claim; claim = claim->next)
        if (claim->lock == ask->lock && claim->owner == ask->owner && mutant_is_held(claim))
            return claim;
    return NULL;
}

static bool is_fair(const struct torture_lock *lock)
{
    return lock->form == TORTURE_MUTEX && lock->flags & TORTURE_FIFO;
}

/* An owner of the store's is one claim: what comes late of an older one is not ours. */
static struct mutant_claim *new_claim(struct mutant_session *session, const struct torture_ask *ask)
{
    struct mutant_claim *claim = calloc(1, sizeof *claim);
    int64_t lease_ms = ask->lease_ms ? ask->lease_ms : session->setup->lease_ms;

    if (!claim)
        abort();
    claim->lock = ask->lock;
    claim->owner = ask->owner;
    claim->question = (struct store_question){
        .owner = (uint64_t)getpid() << 32 | ++session->next_owner,
        .lease_ns = lease_ms * MS,
        .permits = ask->lock->form == TORTURE_SEMAPHORE ? ask->permits : 1,
        .limit = ask->lock->permits,
        .share = ask->share,
        .shares = ask->lock->form == TORTURE_RW,
        .queues = is_fair(ask->lock) && ask->wait_ms != 0,
        .immortal = mutant == MUTANT_SETNX_EXPIRE,
        .unchecked = mutant == MUTANT_CHECK_INCREMENT,
    };
    return claim;
}

/* ---- one question ---- */

static struct store_answer attempt(struct mutant_session *session, struct mutant_claim *claim)
{
    const struct store_question *question = &claim->question;
    const char *name = claim->lock->name;
    int64_t asked_ns = mutant_clock_ns();
    struct store_answer answer = { .yes = true };

    if (mutant == MUTANT_CHECK_INCREMENT)
        answer = mutant_ask(session, "before_acquire", script_look, name, question);
    if (answer.yes)
        answer = mutant_ask(
            session, mutant == MUTANT_CHECK_INCREMENT ? "between_check_and_take" : "before_acquire",
            script_take, name, question);
    if (answer.yes && mutant == MUTANT_SETNX_EXPIRE)
        mutant_ask(session, "between_set_and_expire", script_renew, name, question);
    if (answer.yes)
        mutant_set_deadline(claim, asked_ns);
    return answer;
}

static uint64_t token_of(const struct store_answer *answer, uint64_t drawn)
{
    struct timespec now;

    if (mutant == MUTANT_LOOSE_TOKEN)
        return drawn;
    if (mutant != MUTANT_CLIENT_TOKEN)
        return answer->token;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* ---- until there is an answer ---- */

static int64_t patience_ends_ns(const struct torture_ask *ask)
{
    int64_t wait_ms = ask->wait_ms;

    if (ask->cancel_ms > 0 && (wait_ms < 0 || ask->cancel_ms < wait_ms))
        wait_ms = ask->cancel_ms;
    return wait_ms < 0 ? TORTURE_NEVER : torture_clock_ns() + wait_ms * MS;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool wait_for(struct mutant_session *session, struct mutant_claim *claim, int64_t end_ns)
{
    const char *name = claim->lock->name;
    uint64_t drawn = 0;

    if (mutant == MUTANT_LOOSE_TOKEN)
        drawn = mutant_ask(session, "before_token", script_draw, name, &claim->question).token;
    for (bool first = true;; first = false) {
        uint32_t seen = store_changes(session->store, name);
        struct store_answer answer = attempt(session, claim);
        if (answer.yes) {
            claim->token = token_of(&answer, drawn);
            return true;
        }
        if (torture_clock_ns() >= end_ns)
            return false;
        if (first && claim->question.queues)
            mutant_at_point(session, "queued");
        store_sleep(session->store, name, seen, earlier(answer.retry_ns, end_ns));
    }
}

/* Whatever became of the question: nothing of it is left. */
static void clean_up(struct mutant_session *session, struct mutant_claim *claim)
{
    if (mutant != MUTANT_NO_CLEANUP)
        mutant_ask(session, "before_cleanup", script_give, claim->lock->name, &claim->question);
    free(claim);
}

/* An answer that comes after the lease is none. A bare try passes it on, since it may have barred
 * others. */
static bool is_too_late(const struct mutant_claim *claim, const struct torture_ask *ask,
                        int64_t end_ns)
{
    if (mutant == MUTANT_NO_CLEANUP && ask->wait_ms != 0 && torture_clock_ns() >= end_ns)
        return true;
    return ask->wait_ms != 0 && !mutant_is_held(claim);
}

static struct mutant_claim *take(struct mutant_session *session, const struct torture_ask *ask)
{
    struct mutant_claim *claim = new_claim(session, ask);
    int64_t end_ns = patience_ends_ns(ask);
    bool granted = wait_for(session, claim, end_ns);

    if (granted && !is_too_late(claim, ask, end_ns)) {
        claim->next = session->claims;
        session->claims = claim;
        return claim;
    }
    if (granted || claim->question.queues)
        clean_up(session, claim);
    else
        free(claim);
    return NULL;
}

enum torture_answer mutant_acquire(void *arg, const struct torture_ask *ask,
                                   struct torture_grip **ret)
{
    struct mutant_session *session = arg;
    struct mutant_claim *claim = find_held(session, ask);

    *ret = NULL;
    if (!claim)
        claim = take(session, ask);
    if (!claim)
        return TORTURE_BUSY;
    *ret = calloc(1, sizeof **ret);
    if (!*ret)
        abort();
    **ret = (struct torture_grip){ claim, ask->on_lost, ask->lost_arg };
    claim->grips++;
    mutant_at_point(session, "before_return");
    return TORTURE_GRANTED;
}
