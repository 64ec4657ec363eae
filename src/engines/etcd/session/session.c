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
/* etcd's own limit. */
#define TTL_MAX 9000000000
/* The pause before a session is revoked again, where the server has refused that. */
#define REVOKE_AGAIN_MS 500

int64_t hf__etcd_ttl_of(int64_t lease_ms)
{
    int64_t ttl = lease_ms / 1000 + (lease_ms % 1000 != 0);
    return ttl < TTL_MAX ? ttl : TTL_MAX;
}

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
    hf__link_init(&session->marks);
    hf__list_append(&etcd->living, &session->link);
    return hf__etcd_session_use(session);
}

/* ---- beginning ---- */

static void session_go_on(struct etcd *etcd, struct etcd_session *session)
{
    struct hf_link waiting, *link;
    hf__link_init(&waiting);
    hf__list_append_all(&waiting, &session->waiting);
    while ((link = hf__list_pop(&waiting))) {
        struct etcd_wait *wait = HF_CONTAINER(link, struct etcd_wait, link);
        wait->go_on(etcd, wait);
    }
}

void hf__etcd_session_fail(struct etcd *etcd, struct etcd_session *session,
                           const struct etcd_reply *reply)
{
    struct hf_link waiting, *link;
    hf__link_init(&waiting);
    HF_LIST_FOREACH (each, following, &etcd->living) {
        struct etcd_session *one = HF_CONTAINER(each, struct etcd_session, link);
        if (session ? one == session : !one->granting)
            hf__list_append_all(&waiting, &one->waiting);
    }
    while ((link = hf__list_pop(&waiting))) {
        struct etcd_wait *wait = HF_CONTAINER(link, struct etcd_wait, link);
        wait->fail(etcd, wait, reply);
    }
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

static void request_over(void *arg)
{
    hf__etcd_session_drop(arg);
}

static struct etcd_request *session_request(struct etcd *etcd, struct etcd_session *session,
                                            const struct etcd_method *method,
                                            etcd_answered *answered)
{
    struct etcd_request *request = hf__etcd_request(etcd, method, answered);
    if (request) {
        request->drop = request_over;
        request->session = hf__etcd_session_use(session);
    }
    return request;
}

static void session_grant(struct etcd *etcd, struct etcd_session *session)
{
    static const struct etcd_reply no_memory = { .status = HF_GRPC_UNAVAILABLE,
                                                 .word = ETCD_UNSENT,
                                                 .text = "out of memory for a session" };
    HfEtcd__LeaseGrantRequest message;
    hf_etcd__lease_grant_request__init(&message);
    struct etcd_request *request =
        session_request(etcd, session, &hf__etcd_lease_grant, grant_answered);
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

void hf__etcd_session_await(struct etcd *etcd, struct etcd_session *session, struct etcd_wait *wait)
{
    hf__list_append(&session->waiting, &wait->link);
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

/* ---- heartbeats: one stream, with replies in the order of the questions ---- */

static struct etcd *of_call(struct hf_grpc_call *call)
{
    return HF_CONTAINER(call, struct etcd, beats);
}

/* NULL: it was lost. */
static struct etcd_session *session_of(const struct etcd *etcd, int64_t id)
{
    HF_LIST_FOREACH (link, following, &etcd->living)
        if (HF_CONTAINER(link, struct etcd_session, link)->id == id)
            return HF_CONTAINER(link, struct etcd_session, link);
    return NULL;
}

/* When the oldest heartbeat left, which this is the reply to. False: none is out. */
static bool take_beat(struct etcd_session *session, int64_t *ret_sent_ms)
{
    if (session->beat_count == 0)
        return false;
    *ret_sent_ms = session->beats[0];
    session->beat_count--;
    memmove(session->beats, session->beats + 1, session->beat_count * sizeof *session->beats);
    return true;
}

static void beat_answered(struct hf_grpc_call *call, const uint8_t *bytes, size_t length)
{
    struct etcd *etcd = of_call(call);
    int64_t sent_at_ms;
    const HfEtcd__LeaseKeepAliveResponse *reply =
        hf__etcd_read(&etcd->arena, &hf_etcd__lease_keep_alive_response__descriptor, bytes, length);
    if (!reply) {
        hf__peer_break(&etcd->peer, HF_ECORRUPT, 0, "its reply cannot be read");
        return;
    }
    etcd->peer.failures = 0;
    struct etcd_session *session = session_of(etcd, reply->id);
    if (!session || !take_beat(session, &sent_at_ms))
        return;
    if (reply->ttl > 0)
        hf__etcd_session_confirm(etcd, session, sent_at_ms, reply->ttl * 1000);
    else
        hf__etcd_session_lose(etcd, session, true);
}

static void beats_ended(struct hf_grpc_call *call)
{
    hf__etcd_stream_ended(of_call(call), call, "heartbeats");
}

void hf__etcd_beat(struct etcd *etcd, struct etcd_session *session)
{
    static const struct hf_grpc_events events = { beat_answered, beats_ended };
    HfEtcd__LeaseKeepAliveRequest request;
    hf_etcd__lease_keep_alive_request__init(&request);
    if (!hf__peer_is_ready(&etcd->peer)) {
        hf__peer_want(&etcd->peer);
        return;
    }
    if (session->beat_count == ETCD_BEATS_MAX)
        return;
    etcd->beats.events = &events;
    etcd->beats.streaming = true;
    if (!etcd->beats.channel &&
        !hf__etcd_begin_call(etcd, &etcd->beats, "/etcdserverpb.Lease/LeaseKeepAlive", 0, true))
        return;
    request.id = session->id;
    if (!hf__etcd_send(etcd, &etcd->beats, &request.base, false))
        return;
    session->beats[session->beat_count++] = hf__etcd_now(etcd);
    hf__peer_await(&etcd->peer);
}

static bool is_wanted(const struct etcd_session *session)
{
    return session->state == ETCD_SESSION_ALIVE &&
           (session->lease.watched || !hf__list_empty(&session->waiting));
}

bool hf__etcd_beats_are_wanted(const struct etcd *etcd)
{
    HF_LIST_FOREACH (link, following, &etcd->living)
        if (is_wanted(HF_CONTAINER(link, struct etcd_session, link)))
            return true;
    return false;
}

bool hf__etcd_session_is_granted(const struct etcd *etcd)
{
    HF_LIST_FOREACH (link, following, &etcd->living)
        if (HF_CONTAINER(link, struct etcd_session, link)->granting)
            return true;
    return false;
}

void hf__etcd_beat_again(struct etcd *etcd)
{
    HF_LIST_FOREACH (link, following, &etcd->living) {
        struct etcd_session *session = HF_CONTAINER(link, struct etcd_session, link);
        if (is_wanted(session))
            hf__etcd_beat(etcd, session);
    }
}

int64_t hf__etcd_oldest_beat(const struct etcd *etcd)
{
    int64_t oldest_ms = HF_NEVER;
    HF_LIST_FOREACH (link, following, &etcd->living) {
        const struct etcd_session *session = HF_CONTAINER(link, struct etcd_session, link);
        if (session->beat_count > 0 && session->beats[0] < oldest_ms)
            oldest_ms = session->beats[0];
    }
    return oldest_ms;
}

/* What waits for one hears that it does not come. */
void hf__etcd_beats_forget(struct etcd *etcd)
{
    const struct etcd_reply reply = { .status = HF_GRPC_UNAVAILABLE,
                                      .word = ETCD_UNSENT,
                                      .text = etcd->why };
    HF_LIST_FOREACH (link, following, &etcd->living)
        HF_CONTAINER(link, struct etcd_session, link)->beat_count = 0;
    hf__etcd_session_fail(etcd, NULL, &reply);
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

void hf__etcd_session_doubt(struct etcd *etcd, struct etcd_session *session)
{
    session->doubtful = true;
    if (session == etcd->session)
        etcd->session = NULL; /* mutant: etcd-doubtful-session-gets-no-later-key */
    hf__loop_defer(hf__etcd_loop(etcd), &etcd->retire);
}

void hf__etcd_session_is_stuck(struct etcd *etcd, struct etcd_session *session)
{
    session->stuck = true;
    hf__etcd_session_doubt(etcd, session);
}

void hf__etcd_sessions_are_stuck(struct etcd *etcd)
{
    HF_LIST_FOREACH (link, following, &etcd->living) {
        struct etcd_session *session = HF_CONTAINER(link, struct etcd_session, link);
        session->stuck = session->doubtful;
    }
    hf__loop_defer(hf__etcd_loop(etcd), &etcd->retire);
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
    /* The engine ends in the loop's next turn: this is inside of its connection. */
    if (etcd->closing && --etcd->goodbyes == 0)
        hf__timer_start(hf__etcd_loop(etcd), &etcd->goodbye, hf__etcd_now(etcd));
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
        session_request(etcd, session, &hf__etcd_lease_revoke, revoke_answered);
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
