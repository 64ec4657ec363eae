/* SPDX-License-Identifier: Apache-2.0 */
/* The subject: a careful client of a lease store, with the mistakes of the mutants where they would
 * be made. */
#include "server.h"
#include "session.h"

#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MS INT64_C(1000000)

enum mutant mutant;

/* ---- asking ---- */

void mutant_at_point(const struct mutant_session *session, const char *point)
{
    session->setup->point(session->setup->point_arg, point);
}

/* What is between two machines: without it, what happens between two questions would take no time,
 * and mistakes there would be hidden. */
static void travel(struct mutant_session *session)
{
    const struct timespec way = { .tv_nsec = torture_between(&session->dice, 20000, 200000) };

    ppoll(NULL, 0, &way, NULL);
}

struct store_answer mutant_ask(struct mutant_session *session, const char *point,
                               store_script *script, const char *name,
                               const struct store_question *question)
{
    struct store_answer answer;

    mutant_at_point(session, point);
    travel(session);
    if (session->server >= 0)
        answer = server_ask(session->server, script, name, question);
    else
        script(session->store, name, question, &answer);
    mutant_at_point(session, "after_send");
    travel(session);
    return answer;
}

static struct store_answer ask(struct mutant_session *session, const char *point,
                               store_script *script, const struct mutant_claim *claim)
{
    return mutant_ask(session, point, script, claim->lock->name, &claim->question);
}

/* ---- the session ---- */

static void *open_session(const struct torture_setup *setup)
{
    struct mutant_session *session = calloc(1, sizeof *session);

    if (!session)
        return NULL;
    session->setup = setup;
    session->store = store_open(setup->memory, setup->memory_size);
    session->dice = torture_prng((uint64_t)torture_clock_ns(), setup->client, 0);
    session->server = -1;
    if (!setup->url[0] || (session->server = server_connect(setup->url)) >= 0)
        return session;
    free(session);
    return NULL;
}

static void close_session(void *arg)
{
    struct mutant_session *session = arg;

    if (session->server >= 0)
        close(session->server);
    free(session);
}

static const char *complain(void *session)
{
    (void)session;
    return "the store cannot be opened";
}

/* ---- giving back ---- */

static void forget_claim(struct mutant_session *session, struct mutant_claim *claim)
{
    struct mutant_claim **link = &session->claims;

    while (*link != claim)
        link = &(*link)->next;
    *link = claim->next;
    free(claim);
}

static bool give_back(struct mutant_session *session, const struct mutant_claim *claim)
{
    if (mutant == MUTANT_SETNX_DEL) {
        ask(session, "before_release", script_delete, claim);
        return true;
    }
    if (mutant == MUTANT_GET_DEL)
        return ask(session, "before_release", script_is_owner, claim).yes &&
               ask(session, "between_check_and_delete", script_delete, claim).yes;
    return ask(session, "before_release", script_give, claim).yes;
}

static enum torture_answer lose(struct torture_grip *grip)
{
    if (!grip->claim->lost)
        grip->on_lost(grip->lost_arg);
    grip->claim->lost = true;
    return TORTURE_GONE;
}

static enum torture_answer release(void *arg, struct torture_grip *grip)
{
    struct mutant_session *session = arg;
    struct mutant_claim *claim = grip->claim;
    enum torture_answer answer = TORTURE_GRANTED;
    bool last = --claim->grips == 0;

    if (last || mutant == MUTANT_EARLY_RELEASE)
        answer = give_back(session, claim) ? TORTURE_GRANTED : lose(grip);
    if (last)
        forget_claim(session, claim);
    free(grip);
    return answer;
}

/* ---- while it is held ---- */

static bool still(void *session, const struct torture_grip *grip)
{
    (void)session;
    return mutant_is_held(grip->claim);
}

static int64_t remaining_ms(void *session, const struct torture_grip *grip)
{
    int64_t left_ns = mutant_left_ns(grip->claim);

    (void)session;
    return left_ns == INT64_MAX ? left_ns : left_ns / MS;
}

static uint64_t token(void *session, const struct torture_grip *grip)
{
    (void)session;
    return grip->claim->token;
}

/* A yes that comes after the lease is none. */
static enum torture_answer answer(struct torture_grip *grip, bool yes)
{
    return yes && mutant_is_held(grip->claim) ? TORTURE_GRANTED : lose(grip);
}

static enum torture_answer renew(void *arg, struct torture_grip *grip, int64_t lease_ms)
{
    struct mutant_session *session = arg;
    struct mutant_claim *claim = grip->claim;
    store_script *script = mutant == MUTANT_BLIND_RENEWAL ? script_extend : script_renew;
    int64_t asked_ns;

    if (!mutant_is_held(claim))
        return lose(grip);
    mutant_at_point(session, "before_renew");
    asked_ns = mutant_clock_ns();
    claim->question.lease_ns = lease_ms * MS;
    if (!ask(session, "before_send", script, claim).yes)
        return lose(grip);
    mutant_set_deadline(claim, asked_ns);
    return answer(grip, true);
}

static enum torture_answer upgrade(void *arg, struct torture_grip *grip, int64_t wait_ms)
{
    struct mutant_session *session = arg;
    struct mutant_claim *claim = grip->claim;
    int64_t end_ns = torture_clock_ns() + wait_ms * MS;

    for (;;) {
        uint32_t seen = store_changes(session->store, claim->lock->name);
        struct store_answer told = ask(session, "before_upgrade", script_upgrade, claim);
        if (told.yes)
            claim->token = told.token;
        if (told.yes || !told.held)
            return answer(grip, told.yes);
        if (torture_clock_ns() >= end_ns)
            return TORTURE_BUSY;
        store_sleep(session->store, claim->lock->name, seen,
                    told.retry_ns < end_ns ? told.retry_ns : end_ns);
    }
}

static enum torture_answer downgrade(void *arg, struct torture_grip *grip)
{
    return answer(grip, ask(arg, "before_downgrade", script_downgrade, grip->claim).yes);
}

/* ---- latches ---- */

static enum torture_answer latch_set(void *arg, const struct torture_lock *lock, uint32_t count)
{
    const struct store_question question = { .permits =
                                                 mutant == MUTANT_EARLY_LATCH ? count - 1 : count };

    mutant_ask(arg, "before_latch_set", script_latch_set, lock->name, &question);
    return TORTURE_GRANTED;
}

static enum torture_answer count_down(void *arg, const struct torture_lock *lock)
{
    mutant_ask(arg, "before_count_down", script_latch_down, lock->name, NULL);
    return TORTURE_GRANTED;
}

static enum torture_answer look(void *arg, const struct torture_lock *lock)
{
    return mutant_ask(arg, "before_look", script_latch_is_open, lock->name, NULL).yes
               ? TORTURE_GRANTED
               : TORTURE_BUSY;
}

static enum torture_answer await(void *arg, const struct torture_lock *lock, int64_t wait_ms)
{
    struct mutant_session *session = arg;
    int64_t end_ns = torture_clock_ns() + wait_ms * MS;

    for (;;) {
        /* Changes are listened for before the question, so that none gets lost in between. */
        uint32_t seen = store_changes(session->store, lock->name);
        if (look(session, lock) == TORTURE_GRANTED)
            return TORTURE_GRANTED;
        if (torture_clock_ns() >= end_ns)
            return TORTURE_BUSY;
        if (mutant == MUTANT_LATE_SUBSCRIBE) {
            mutant_at_point(session, "before_subscribe");
            seen = store_changes(session->store, lock->name);
        }
        store_sleep(session->store, lock->name, seen, end_ns);
    }
}

/* ---- the end ---- */

static enum torture_answer inspect(void *arg, const struct torture_lock *lock,
                                   struct torture_left *ret)
{
    struct store_answer answer = mutant_ask(arg, "before_count", script_count, lock->name, NULL);

    *ret = (struct torture_left){ answer.held, answer.waiting };
    return TORTURE_GRANTED;
}

static void forget(void *arg, const struct torture_lock *lock)
{
    mutant_ask(arg, "before_forget", script_forget, lock->name, NULL);
}

const struct torture_subject mutant_subject = {
    .name = "a lease store in memory",
    .open = open_session,
    .close = close_session,
    .complain = complain,
    .acquire = mutant_acquire,
    .release = release,
    .still = still,
    .remaining_ms = remaining_ms,
    .token = token,
    .renew = renew,
    .upgrade = upgrade,
    .downgrade = downgrade,
    .latch_set = latch_set,
    .count_down = count_down,
    .await = await,
    .look = look,
    .forms = 1u << TORTURE_MUTEX | 1u << TORTURE_RW | 1u << TORTURE_SEMAPHORE | 1u << TORTURE_LATCH,
    .fair = true,
    .fences = true,
    .reenters = true,
    .inspect = inspect,
    .forget = forget,
};
