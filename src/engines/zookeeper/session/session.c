/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: what our nodes live on. A session's lease is half as long as the session, and is
 * counted from what most servers have agreed to: one may answer us that is itself cut off from the
 * others, while these let the session run out. A session whose lease was lost is ended by us, if
 * the servers have not done so, before the next one begins, so that what was in it is gone when a
 * caller relies on that. */
#include "engines/zookeeper/zookeeper.h"

#include "base/testing.h"

#include <string.h>

#define RETIRE_AGAIN_MS 50

int32_t hf__zk_session_asks_ms(const struct zookeeper *zk)
{
    int64_t lease_ms = zk->base.host->lease_ms;
    return lease_ms < INT32_MAX ? (int32_t)lease_ms : INT32_MAX;
}

static struct zk_session *new_session(struct zookeeper *zk)
{
    struct zk_session *session = hf__calloc(1, sizeof *session);
    if (!session)
        return NULL;
    session->lease.engine = &zk->base;
    session->timeout_ms = hf__zk_session_asks_ms(zk);
    return hf__zk_session_use(session);
}

static void end_current(struct zookeeper *zk)
{
    struct zk_session *session = zk->session;
    session->state = ZK_SESSION_ENDING;
    zk->ending = session;
    zk->session = NULL;
    if (zk->greeted == session)
        hf__zk_close_session(zk);
    hf__zk_connection_want(zk);
}

void hf__zk_session_look(struct zookeeper *zk)
{
    struct zk_session *session = zk->session;
    if (session && session->state == ZK_SESSION_ALIVE &&
        hf__session_lease_is_lost(&session->lease, hf__zk_now(zk)))
        end_current(zk);
}

/* ---- what the servers refuse to delete ---- */

static bool has_holds(const struct zookeeper *zk)
{
    HF_LIST_FOREACH (link, following, &zk->places) {
        const struct zk_queue_node *place = HF_CONTAINER(link, struct zk_queue_node, link);
        /* mutant: zookeeper-stuck-session-carries-held-locks */
        if (place->op && place->held && !place->over && place->session == zk->session)
            return true;
    }
    return false;
}

/* A request that is out is answered first: a change whose reply is missing may have been done. */
void hf__zk_session_retire_fired(struct hf_timer *timer)
{
    struct zookeeper *zk = HF_CONTAINER(timer, struct zookeeper, retire);
    const struct zk_session *session = zk->session;
    if (!session || !session->stuck || session->state != ZK_SESSION_ALIVE || has_holds(zk))
        return;
    if (hf__list_empty(&zk->pipeline.out) && hf__list_empty(&zk->pipeline.waiting))
        end_current(zk); /* mutant: zookeeper-stuck-session-ends */
    else
        hf__timer_start(hf__zk_loop(zk), timer, hf__zk_now(zk) + RETIRE_AGAIN_MS);
}

void hf__zk_session_left(struct zookeeper *zk)
{
    if (zk->session && zk->session->stuck && !zk->closing)
        hf__timer_start(hf__zk_loop(zk), &zk->retire, hf__zk_now(zk));
}

void hf__zk_session_is_stuck(struct zookeeper *zk, struct zk_session *session)
{
    session->stuck = true;
    hf__zk_session_left(zk);
}

bool hf__zk_session_has_room(const struct zk_session *session, size_t weight)
{
    /* mutant: session-is-full-before-next */
    return !session->stuck && /* mutant: zookeeper-stuck-session-gets-no-later-claim */
           weight <= hf__zk_bounds.paths && session->paths <= hf__zk_bounds.paths - weight;
}

struct zk_session *hf__zk_session_current(struct zookeeper *zk)
{
    hf__zk_session_look(zk);
    if (!zk->session)
        zk->session = new_session(zk);
    return zk->session;
}

struct zk_request *hf__zk_session_request(struct zookeeper *zk, int32_t operation,
                                          zk_answered *answered, void *arg)
{
    struct zk_session *session = hf__zk_session_current(zk);
    struct zk_request *request = session ? hf__zk_request(zk, session, operation, answered) : NULL;
    if (request)
        request->arg = arg;
    return request;
}

struct zk_session *hf__zk_session_wanted(struct zookeeper *zk)
{
    if (zk->ending)
        return zk->ending;
    bool needed = zk->session && (zk->session->id != 0 || !hf__list_empty(&zk->pipeline.waiting));
    return needed ? zk->session : NULL;
}

static void resize(struct zookeeper *zk, struct zk_session *session, int64_t asked_at_ms)
{
    int64_t lease_ms = hf__zk_belief_ms(session->timeout_ms);
    hf__lease_answer(&session->lease, asked_at_ms, HF_LEASE_RENEWED, lease_ms, NULL);
    hf__own_ends_confirm(&zk->leased, &session->lease, asked_at_ms, lease_ms);
}

void hf__zk_session_welcomed(struct zookeeper *zk, struct zk_session *session,
                             const struct zk_welcome *welcome, int64_t asked_at_ms)
{
    bool begun = session->state == ZK_SESSION_NEW;
    if (begun) {
        session->state = ZK_SESSION_ALIVE;
        session->id = welcome->session;
        session->timeout_ms = welcome->timeout_ms;
    }
    memcpy(session->password, welcome->password, sizeof session->password);
    /* Servers may differ in how long they let a session be. A leader that is new counts from how
     * long it was at first, so what was short stays short. */
    if (welcome->timeout_ms < session->timeout_ms) /* mutant: session-that-became-shorter */
        session->timeout_ms = welcome->timeout_ms;
    asked_at_ms =
        hf__zk_session_proof_greet(&session->contacts, asked_at_ms, session->timeout_ms, begun);
    if (session->state == ZK_SESSION_ALIVE && !session->lease.lost)
        resize(zk, session, asked_at_ms);
}

void hf__zk_session_confirm(struct zookeeper *zk, struct zk_session *session, int64_t asked_at_ms)
{
    struct hf_lease *lease = &session->lease;
    struct zk_session_proof *contacts = &session->contacts;
    if (session->state != ZK_SESSION_ALIVE || lease->lost ||
        !hf__zk_session_proof_wants(contacts, asked_at_ms, session->timeout_ms))
        return;
    asked_at_ms = hf__zk_session_proof_note(contacts, asked_at_ms, session->timeout_ms);
    if (asked_at_ms <= lease->asked_at_ms)
        return;
    if (lease->watched)
        hf__lease_answer(lease, asked_at_ms, HF_LEASE_RENEWED, 0, NULL);
    else
        lease->asked_at_ms = asked_at_ms;
    hf__own_ends_confirm(&zk->leased, lease, asked_at_ms, 0);
}

void hf__zk_session_over(struct zookeeper *zk, struct zk_session *session)
{
    hf__zk_session_use(session);
    session->state = ZK_SESSION_OVER;
    struct zk_session **owner = zk->ending == session ? &zk->ending : &zk->session;
    if (*owner == session) {
        *owner = NULL;
        hf__zk_session_drop(session);
    }
    hf__zk_orphans(zk);
    if (session->lease.watched)
        hf__lease_answer(&session->lease, 0, HF_LEASE_GONE, 0, NULL);
    session->lease.lost = true;
    hf__own_ends_lose(&zk->leased, &session->lease);
    hf__zk_session_drop(session);
}

/* The watchdog is early: the connection beats by itself, and nothing but an answer counts. */
void hf__zk_renew(struct hf_engine *engine, struct hf_lease *lease)
{
    (void)engine; /* the lease names the session's own connection */
    hf__zk_connection_heartbeat((struct zookeeper *)lease->engine);
}
