/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: the leases that our keys rest on, and our marks. Their ids are ours, so that a grant
 * can be asked for again. A session is counted from when a question left, and one that was lost is
 * revoked by us and never used again. A session that nothing rests on is not renewed.
 *
 * Marks have a long session of their own: a change whose reply is missing is to be known again when
 * the store could not be reached for longer than a lease. */
#include "engines/etcd/kinds/change.h"

#include "base/rand.h"

#include <string.h>

/* A session that nothing has rested on for longer than this part of it is asked about first. */
#define STALE_PARTS 2
/* The session of marks: longer than a store is silent. What a client leaves that dies ends then. */
#define MARKS_MS INT64_C(3600000)
/* The pause before a session is revoked again, where the server has refused that. */
#define REVOKE_AGAIN_MS 500

struct etcd_session *hf__etcd_session_use(struct etcd_session *session)
{
    session->uses++;
    return session;
}

void hf__etcd_session_drop(struct etcd_session *session)
{
    if (session && --session->uses == 0) {
        hf__etcd_marks_free(session);
        free(session);
    }
}

static struct etcd_session *session_new(struct etcd *etcd, int64_t length_ms)
{
    uint64_t salt;
    struct etcd_session *session = hf__calloc(1, sizeof *session);
    if (!session)
        return NULL;
    hf__random(&salt, sizeof salt);
    session->id = (int64_t)(salt >> 1) | 1;
    session->length_ms = length_ms;
    session->lease.engine = &etcd->base;
    hf__link_init(&session->link);
    hf__link_init(&session->waiting);
    hf__link_init(&session->changes);
    hf__link_init(&session->marks);
    hf__list_append(&etcd->living, &session->link);
    return hf__etcd_session_use(session);
}

/* ---- beginning ---- */

/* Claims that waited for the session go on. */
static void session_go_on(struct etcd *etcd, struct etcd_session *session)
{
    struct hf_link waiting, *link;
    hf__link_init(&waiting);
    hf__list_append_all(&waiting, &session->waiting);
    while ((link = hf__list_pop(&waiting)))
        hf__etcd_go_on(etcd, HF_CONTAINER(link, struct etcd_claim, wait_link));
    hf__list_append_all(&waiting, &session->changes);
    while ((link = hf__list_pop(&waiting)))
        hf__etcd_change_go_on(HF_CONTAINER(link, struct etcd_change, wait_link));
}

void hf__etcd_session_fail(struct etcd *etcd, struct etcd_session *session,
                           const struct etcd_reply *reply)
{
    struct hf_link waiting, changes, *link;
    hf__link_init(&waiting);
    hf__link_init(&changes);
    HF_LIST_FOREACH (each, following, &etcd->living) {
        struct etcd_session *one = HF_CONTAINER(each, struct etcd_session, link);
        if (session ? one != session : one->granting)
            continue;
        hf__list_append_all(&waiting, &one->waiting);
        hf__list_append_all(&changes, &one->changes);
    }
    while ((link = hf__list_pop(&waiting)))
        hf__etcd_fail(etcd, HF_CONTAINER(link, struct etcd_claim, wait_link), reply);
    while ((link = hf__list_pop(&changes)))
        hf__etcd_change_give_up(HF_CONTAINER(link, struct etcd_change, wait_link), reply);
}

static void grant_answered(struct etcd *etcd, struct etcd_request *request,
                           const struct etcd_reply *reply)
{
    struct etcd_session *session = request->session;
    int64_t sent_at_ms = request->sent_at_ms;
    session->granting = false;
    session->asked_for |= hf__etcd_leaves_open(reply);
    if (session->state != ETCD_SESSION_NEW)
        return;
    if (reply->status == HF_GRPC_OK) {
        const HfEtcd__LeaseGrantResponse *grant = reply->message;
        session->state = ETCD_SESSION_ALIVE;
        hf__etcd_session_confirm(etcd, session, sent_at_ms, grant->ttl * 1000);
    } else if (reply->word == ETCD_REFUSED && reply->status == HF_GRPC_FAILED_PRECONDITION &&
               strstr(reply->text, "already exists")) {
        /* An earlier request that was not answered has made it; a heartbeat tells its length. */
        session->state = ETCD_SESSION_ALIVE;
        hf__etcd_beat(etcd, session);
    } else {
        hf__etcd_session_fail(etcd, session, reply);
    }
}

static void session_grant(struct etcd *etcd, struct etcd_session *session)
{
    static const struct etcd_reply no_memory = { .status = HF_GRPC_UNAVAILABLE,
                                                 .word = ETCD_UNSENT,
                                                 .text = "out of memory for a session" };
    HfEtcd__LeaseGrantRequest message;
    hf_etcd__lease_grant_request__init(&message);
    struct etcd_request *request =
        hf__etcd_session_request(etcd, session, &hf__etcd_lease_grant, grant_answered);
    if (!request) {
        hf__etcd_session_fail(etcd, session, &no_memory);
        return;
    }
    session->granting = true;
    message.id = session->id;
    message.ttl = hf__etcd_ttl_of(session->length_ms);
    hf__etcd_ask(etcd, request, &message.base);
}

/* ---- living ---- */

bool hf__etcd_session_lives(struct etcd *etcd, struct etcd_session *session)
{
    struct hf_lease *lease = &session->lease;
    /* 0: its length is not known yet. */
    if (session->state == ETCD_SESSION_ALIVE &&
        (lease->lost ||
         (lease->lease_ms > 0 && hf__session_lease_is_lost(lease, hf__etcd_now(etcd)))))
        hf__etcd_session_lose(etcd, session, false);
    return session->state <= ETCD_SESSION_ALIVE;
}

static struct etcd_session *current(struct etcd *etcd, struct etcd_session **place,
                                    int64_t length_ms)
{
    if (*place)
        hf__etcd_session_lives(etcd, *place);
    if (!*place)
        *place = session_new(etcd, length_ms);
    return *place;
}

struct etcd_session *hf__etcd_session_current(struct etcd *etcd)
{
    return current(etcd, &etcd->session, etcd->base.host->lease_ms);
}

struct etcd_session *hf__etcd_session_of_marks(struct etcd *etcd)
{
    int64_t lease_ms = etcd->base.host->lease_ms;
    /* mutant: etcd-marks-have-a-long-session */
    return current(etcd, &etcd->marks, lease_ms > MARKS_MS ? lease_ms : MARKS_MS);
}

bool hf__etcd_session_is_known(const struct etcd *etcd, const struct etcd_session *session)
{
    const struct hf_lease *lease = &session->lease;
    bool known = session->state == ETCD_SESSION_ALIVE && lease->lease_ms > 0;
    return known && (lease->watched ||
                     hf__etcd_now(etcd) < lease->asked_at_ms + lease->lease_ms / STALE_PARTS);
}

/* A question that cannot leave fails at once all that waits for it. */
static void session_ask(struct etcd *etcd, struct etcd_session *session)
{
    static const struct etcd_reply few_streams = { .word = ETCD_REFUSED,
                                                   .status = HF_GRPC_RESOURCE_EXHAUSTED,
                                                   .by_server = true,
                                                   .text = ETCD_STREAMS_OPTION };
    if (session->granting || session->beat_count > 0)
        return;
    if (hf__peer_is_ready(&etcd->peer) && hf__etcd_streams_max(etcd) < ETCD_STREAMS_MIN)
        hf__etcd_session_fail(etcd, session, &few_streams);
    else if (session->state == ETCD_SESSION_ALIVE)
        hf__etcd_beat(etcd, session);
    else
        session_grant(etcd, session);
}

bool hf__etcd_session_is_ready(struct etcd *etcd, struct etcd_claim *claim)
{
    struct etcd_session *session = claim->session;
    if (hf__etcd_session_is_known(etcd, session))
        return true;
    hf__list_append(&session->waiting, &claim->wait_link);
    session_ask(etcd, session);
    return false;
}

void hf__etcd_session_await(struct etcd *etcd, struct etcd_session *session,
                            struct etcd_change *change)
{
    hf__list_append(&session->changes, &change->wait_link);
    session_ask(etcd, session);
}

void hf__etcd_session_confirm(struct etcd *etcd, struct etcd_session *session, int64_t asked_at_ms,
                              int64_t ttl_ms)
{
    struct hf_lease *lease = &session->lease;
    if (session->state != ETCD_SESSION_ALIVE || lease->lost)
        return;
    if (asked_at_ms > lease->asked_at_ms || lease->lease_ms != ttl_ms)
        hf__lease_answer(lease, asked_at_ms, HF_LEASE_RENEWED, ttl_ms, NULL);
    hf__own_ends_confirm(&etcd->leased, lease, asked_at_ms, ttl_ms);
    session_go_on(etcd, session);
}

void hf__etcd_renew(struct hf_engine *engine, struct hf_lease *lease)
{
    struct etcd *etcd = (struct etcd *)engine;
    HF_LIST_FOREACH (link, following, &etcd->living) {
        struct etcd_session *session = HF_CONTAINER(link, struct etcd_session, link);
        /* A claim's lease follows its session's, and is not renewed. */
        if (&session->lease == lease && session->state == ETCD_SESSION_ALIVE)
            hf__etcd_beat(etcd, session);
    }
}

/* ---- doubt ---- */

static void revoke_again_fired(struct hf_timer *timer);

/* A lock that is held keeps it, and what waits there, if all is well. */
static bool is_needed(const struct etcd_session *session)
{
    if (!session->doubtful || session->state != ETCD_SESSION_ALIVE)
        return true;
    if (session->stuck) /* mutant: etcd-key-that-may-not-be-deleted-ends-without-waiters */
        return session->holds > 0;
    return session->keys > 0 || session->lease.watched;
}

/* A request that comes late finds no lease then, and puts nothing. One in each turn: what is told
 * of the end may end another one. */
static void retire_due(struct hf_task *task)
{
    struct etcd *etcd = HF_CONTAINER(task, struct etcd, retire);
    HF_LIST_FOREACH (link, following, &etcd->living) {
        struct etcd_session *session = HF_CONTAINER(link, struct etcd_session, link);
        if (etcd->closing || is_needed(session))
            continue;
        hf__loop_defer(hf__etcd_loop(etcd), task);
        /* mutant: etcd-doubtful-session-ends */
        hf__etcd_session_lose(etcd, session, false);
        return;
    }
}

void hf__etcd_sessions_open(struct etcd *etcd)
{
    hf__link_init(&etcd->living);
    hf__link_init(&etcd->endings);
    hf__timer_init(&etcd->revoke_again, revoke_again_fired);
    hf__task_init(&etcd->retire, retire_due);
}

static void session_doubt(struct etcd *etcd, struct etcd_session *session)
{
    session->doubtful = true;
    if (session == etcd->session)
        etcd->session = NULL; /* mutant: etcd-doubtful-session-gets-no-later-key */
    hf__loop_defer(hf__etcd_loop(etcd), &etcd->retire);
}

void hf__etcd_session_is_stuck(struct etcd *etcd, struct etcd_claim *claim)
{
    claim->session->stuck = true;
    session_doubt(etcd, claim->session);
}

void hf__etcd_sessions_are_stuck(struct etcd *etcd)
{
    HF_LIST_FOREACH (link, following, &etcd->living) {
        struct etcd_session *session = HF_CONTAINER(link, struct etcd_session, link);
        session->stuck = session->doubtful;
    }
    hf__loop_defer(hf__etcd_loop(etcd), &etcd->retire);
}

void hf__etcd_session_doubt(struct etcd *etcd, struct etcd_claim *claim)
{
    session_doubt(etcd, claim->session);
    /* mutant: etcd-late-key-is-watched */
    if (hf__etcd_may_have_key(claim))
        hf__etcd_watch_orphan(etcd, claim);
}

/* What has just left may be in the middle of telling the core: it ends in the loop's next step. */
void hf__etcd_session_left(struct etcd *etcd, struct etcd_session *session)
{
    session->keys--;
    if (session->doubtful)
        hf__loop_defer(hf__etcd_loop(etcd), &etcd->retire);
}

/* ---- ending ---- */

static void revoke(struct etcd *etcd, struct etcd_session *session);

static void session_over(struct etcd *etcd, struct etcd_session *session)
{
    session->state = ETCD_SESSION_OVER;
    hf__link_remove(&session->link);
    hf__etcd_session_drop(session);
    if (etcd->closing)
        hf__etcd_goodbye_done(etcd);
}

static void revoke_answered(struct etcd *etcd, struct etcd_request *request,
                            const struct etcd_reply *reply)
{
    struct etcd_session *session = request->session;
    bool over = reply->status == HF_GRPC_OK || hf__etcd_is_lease_gone(reply);
    session->revoking = false;
    if (over || etcd->closing)
        session_over(etcd, session);
    else if (!etcd->revoke_again.started)
        hf__timer_start(hf__etcd_loop(etcd), &etcd->revoke_again,
                        hf__etcd_now(etcd) + REVOKE_AGAIN_MS);
}

static void revoke_again_fired(struct hf_timer *timer)
{
    struct etcd *etcd = HF_CONTAINER(timer, struct etcd, revoke_again);
    HF_LIST_FOREACH (link, following, &etcd->endings) {
        struct etcd_session *session = HF_CONTAINER(link, struct etcd_session, link);
        if (!session->revoking)
            revoke(etcd, session);
    }
}

static void revoke(struct etcd *etcd, struct etcd_session *session)
{
    HfEtcd__LeaseRevokeRequest message;
    hf_etcd__lease_revoke_request__init(&message);
    struct etcd_request *request =
        hf__etcd_session_request(etcd, session, &hf__etcd_lease_revoke, revoke_answered);
    if (!request)
        return; /* it ends by itself */
    session->revoking = true;
    message.id = session->id;
    hf__etcd_ask(etcd, request, &message.base);
}

/* Its use goes to the list of endings. */
static void begin_end(struct etcd *etcd, struct etcd_session *session)
{
    struct etcd_session **place = session == etcd->marks ? &etcd->marks : &etcd->session;
    if (session == *place)
        *place = NULL;
    hf__link_remove(&session->link);
    hf__list_append(&etcd->endings, &session->link);
    session->state = ETCD_SESSION_ENDING;
}

void hf__etcd_session_lose(struct etcd *etcd, struct etcd_session *session, bool over)
{
    if (session->state >= ETCD_SESSION_ENDING)
        return;
    begin_end(etcd, session);
    hf__etcd_session_use(session);
    if (over)
        session_over(etcd, session);
    else
        revoke(etcd, session);
    if (session->lease.watched)
        hf__lease_answer(&session->lease, 0, HF_LEASE_GONE, 0, NULL);
    session->lease.lost = true;
    hf__own_ends_lose(&etcd->leased, &session->lease);
    session_go_on(etcd, session); /* with the next one */
    hf__etcd_session_drop(session);
}

static void session_close(struct etcd *etcd, struct etcd_session *session)
{
    if (session->state == ETCD_SESSION_NEW && !session->granting && !session->asked_for)
        return;
    begin_end(etcd, session);
    etcd->goodbyes++;
    revoke(etcd, session);
}

void hf__etcd_sessions_close(struct etcd *etcd)
{
    HF_LIST_FOREACH (link, following, &etcd->endings)
        etcd->goodbyes++;
    revoke_again_fired(&etcd->revoke_again);
    HF_LIST_FOREACH (link, following, &etcd->living)
        session_close(etcd, HF_CONTAINER(link, struct etcd_session, link));
}

void hf__etcd_sessions_free(struct etcd *etcd)
{
    struct hf_link *link;
    hf__link_remove(&etcd->retire.link);
    hf__timer_stop(hf__etcd_loop(etcd), &etcd->revoke_again);
    etcd->session = etcd->marks = NULL;
    hf__list_append_all(&etcd->endings, &etcd->living);
    while ((link = hf__list_pop(&etcd->endings)))
        hf__etcd_session_drop(HF_CONTAINER(link, struct etcd_session, link));
}
