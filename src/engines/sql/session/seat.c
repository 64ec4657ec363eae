/* SPDX-License-Identifier: Apache-2.0 */
/* Seats and the sessions on them: requests, and heartbeats, by which both sides judge whether a
 * session lives. The server ends one that is silent SESSION_MARGIN_MS after its client has stopped
 * to believe in it, at the earliest. */
#include "engines/sql/session/session.h"

#include "base/testing.h"
#include "engines/sql/sql.h"

#include <stdlib.h>
#include <string.h>

static struct hf_loop *seat_loop_of(const struct session_seat *seat)
{
    return seat->all->base.host->loop;
}

int64_t hf__session_field(const struct sql_answer *answer, unsigned row, unsigned column)
{
    const struct sql_value *field = hf__answer_field(answer, row, column);
    return field && field->type == SQL_NUMBER ? field->number : 0;
}

/* ---- sessions ---- */

void hf__session_keep(struct session *session)
{
    session->uses++;
}

void hf__session_drop(struct session *session)
{
    if (session && --session->uses == 0)
        free(session);
}

/* One that nothing rests on has no watchdog, and its lease moves without one. */
void hf__session_confirm(struct session *session, int64_t asked_at_ms)
{
    struct hf_lease *lease = &session->lease;
    if (session->over || asked_at_ms - lease->asked_at_ms < lease->lease_ms / 4)
        return;
    if (lease->watched)
        hf__lease_answer(lease, asked_at_ms, HF_LEASE_RENEWED, 0, NULL);
    else
        lease->asked_at_ms = asked_at_ms;
    hf__own_ends_confirm(&session->ends, lease, asked_at_ms, 0);
}

void hf__session_seat_end(struct session_seat *seat)
{
    struct session *session = seat->session;
    seat->session = NULL;
    hf__timer_stop(seat_loop_of(seat), &seat->idle);
    if (!session)
        return;
    session->over = true;
    session->lease.asked_at_ms = hf__session_now(seat->all) - 2 * session->lease.lease_ms;
    hf__session_drop(session);
}

struct session_seat *hf__session_seat_of(const struct session *session)
{
    for (unsigned i = 0; i < session->all->seat_count; i++)
        if (session->all->seats[i].session == session)
            return &session->all->seats[i];
    return NULL;
}

/* ---- requests ---- */

struct session_request *hf__session_request(struct session_seat *seat, struct session_claim *claim,
                                            session_done *done)
{
    struct hf_link *link = hf__list_pop(&seat->all->free_requests);
    struct session_request *request =
        link ? HF_CONTAINER(link, struct session_request, link) : hf__calloc(1, sizeof *request);
    if (!request)
        return NULL;
    memset(request, 0, sizeof *request);
    hf__link_init(&request->link);
    hf__link_init(&request->request.link);
    request->seat = seat;
    request->done = done;
    request->claim = claim;
    if (claim) {
        claim->uses++;
        hf__session_request_key(request, &claim->key);
    }
    return request;
}

void hf__session_number(struct session_request *request, enum sql_parameter parameter,
                        int64_t number)
{
    request->values[parameter] = (struct sql_value){ .type = SQL_NUMBER, .number = number };
}

void hf__session_request_key(struct session_request *request, const struct session_key *key)
{
    request->key = *key;
    hf__session_number(request, SQL_P_VALUE, key->number);
    hf__session_number(request, SQL_P_LIMIT, key->second);
    request->values[SQL_P_NAME_TEXT] = (struct sql_value){
        .type = SQL_TEXT, .bytes = request->key.text, .length = (uint32_t)strlen(request->key.text)
    };
}

void hf__session_claim_use_ends(struct session_claim *claim)
{
    if (--claim->uses > 0)
        return;
    hf__link_remove(&claim->link);
    hf__list_append(&claim->all->free_claims, &claim->link);
}

void hf__session_request_over(struct session_request *request, const struct sql_answer *answer)
{
    struct sessions *all = request->seat->all;
    struct session_claim *claim = request->claim;
    hf__link_remove(&request->link);
    request->done(request, answer);
    hf__session_drop(request->session);
    hf__list_append(&all->free_requests, &request->link);
    if (claim)
        hf__session_claim_use_ends(claim);
}

void hf__session_break_seat(struct session_seat *seat, const struct sql_failure *failure)
{
    hf__peer_break(&seat->peer, hf__sql_code(failure->trouble), failure->native, "%.150s%s%s%s%s",
                   failure->text, *failure->state ? " (" : "", failure->state,
                   *failure->state ? ")" : "", hf__sql_advice(&seat->all->settings, failure));
}

static void seat_answered(struct sql_request *driven, const struct sql_answer *answer)
{
    struct session_request *request = HF_CONTAINER(driven, struct session_request, request);
    enum sql_trouble trouble = answer->failure ? answer->failure->trouble : SQL_FINE;
    if (trouble == SQL_LOST || trouble == SQL_READ_ONLY || trouble == SQL_NOT_READY)
        hf__session_break_seat(request->seat, answer->failure);
    else if (request->session && !request->sent)
        hf__session_confirm(request->session, request->sent_at_ms);
    hf__session_request_over(request, answer);
}

void hf__session_send(struct session_request *request)
{
    struct session_seat *seat = request->seat;
    hf__link_remove(&request->link);
    hf__list_append(&seat->out, &request->link);
    request->sent_at_ms = hf__session_now(seat->all);
    request->request.sent = true;
    if ((request->session = seat->session))
        hf__session_keep(request->session);
    if (!request->sent)
        hf__peer_await(&seat->peer);
    seat->connection->driver->run(seat->connection, &request->request);
    if (request->sent)
        request->sent(request->claim);
}

static void send_waiting(struct session_seat *seat)
{
    struct hf_link *link;
    while (hf__peer_is_ready(&seat->peer) && (link = hf__list_first(&seat->waiting)))
        hf__session_send(HF_CONTAINER(link, struct session_request, link));
}

void hf__session_prepare(struct session_request *request, const struct sql_script *script)
{
    request->request.script = script;
    request->request.values = request->values;
    request->request.answered = seat_answered;
    request->request.sent = false;
}

void hf__session_run(struct session_request *request, enum session_word word)
{
    struct session_seat *seat = request->seat;
    hf__session_prepare(request, hf__session_script(seat->all->dialect, word, request->key.pair));
    hf__list_append(&seat->waiting, &request->link);
    send_waiting(seat);
    if (!hf__list_empty(&seat->waiting))
        hf__peer_want(&seat->peer);
}

int hf__session_explain(struct session_request *request, const struct sql_failure *failure,
                        hf_error **error, bool *definite)
{
    const struct sql_settings *settings = &request->seat->all->settings;
    const hf_error *why = &request->seat->peer.why;
    enum sql_trouble trouble = failure->trouble;
    bool open = hf__sql_is_open(&request->request, failure);
    if (trouble == SQL_LOST) {
        int code = why->code == HF_OK ? HF_UNREACHABLE : why->code;
        *definite = !open && (code == HF_DENIED || code == HF_EINVAL || code == HF_ENOTSUP);
        /* HF_ENOMEM says that nothing has changed. */
        bool kept = *definite || code == HF_ELIMIT || (!open && code == HF_ENOMEM);
        code = kept ? code : HF_UNREACHABLE;
        hf__explain(error, code, why->native, "%s",
                    *why->text ? why->text : "the connection to the database was lost");
        return code;
    }
    int code = open ? HF_UNREACHABLE : hf__sql_code(trouble);
    *definite = code != HF_UNREACHABLE;
    hf__explain(error, code, failure->native, "%s at %.100s: %.150s%s%s%s%s",
                settings->driver->name, settings->shown, failure->text, *failure->state ? " (" : "",
                failure->state, *failure->state ? ")" : "", hf__sql_advice(settings, failure));
    return code;
}

/* ---- one-shot verbs ---- */

void hf__session_oneshot_ends(struct sessions *all, struct hf_oneshot *oneshot, int code)
{
    free(oneshot->engine_pointer);
    oneshot->engine_pointer = NULL;
    oneshot->code = code;
    hf__oneshot_done(&all->base, oneshot);
}

void hf__session_oneshot_failed(struct session_request *request, const struct sql_answer *answer)
{
    struct hf_oneshot *oneshot = request->oneshot;
    bool definite;
    oneshot->contacted = answer->failure->trouble != SQL_LOST;
    hf__session_oneshot_ends(
        request->seat->all, oneshot,
        hf__session_explain(request, answer->failure, &oneshot->error, &definite));
}

/* ---- heartbeats ---- */

bool hf__session_is_moved(struct session_request *request, const struct sql_answer *answer,
                          unsigned column)
{
    if (!request->session || hf__session_field(answer, 0, column) == request->session->id)
        return false;
    hf__peer_break(&request->seat->peer, HF_ENOTSUP, 0,
                   "a proxy in between gives statements to other sessions, and locks with them; "
                   "connect to the server itself");
    return true;
}

static void beaten(struct session_request *request, const struct sql_answer *answer)
{
    request->session->beating = false;
    if (!answer->failure)
        hf__session_is_moved(request, answer, 2);
}

void hf__session_beat(struct session *session)
{
    struct session_seat *seat = hf__session_seat_of(session);
    if (!seat || session->beating)
        return;
    struct session_request *request = hf__session_request(seat, NULL, beaten);
    if (!request)
        return;
    session->beating = true;
    hf__session_run(request, SESSION_BEAT);
}

/* Also for what has an end of its own, which has no watchdog, and to keep the first seat open. */
static void idle_fired(struct hf_timer *timer)
{
    struct session_seat *seat = HF_CONTAINER(timer, struct session_seat, idle);
    struct session *session = seat->session;
    int64_t now_ms = hf__session_now(seat->all), third_ms = seat->all->lease_ms / 3 + 1;
    bool waits = seat->owner && seat->owner->state == SESSION_CLAIM_WAITING;
    bool used = seat->number == 0 || seat->owner || !hf__list_empty(&seat->claims) ||
                !hf__list_empty(&seat->out);
    if (!session)
        return;
    if (!used) {
        hf__session_seat_end(seat);
        hf__peer_reconnect(&seat->peer);
        return;
    }
    if (!waits && now_ms - session->lease.asked_at_ms >= third_ms)
        hf__session_beat(session);
    hf__timer_start(seat_loop_of(seat), timer, now_ms + third_ms);
}

void hf__session_renew(struct hf_engine *engine, struct hf_lease *lease)
{
    struct session *session = HF_CONTAINER(lease, struct session, lease);
    if (session->over)
        hf__lease_answer(lease, hf__session_now((struct sessions *)engine), HF_LEASE_GONE, 0, NULL);
    else
        hf__session_beat(session);
}

void hf__session_seat_ready(struct session_seat *seat)
{
    hf__peer_ready(&seat->peer);
    seat->fence = false;
    seat->idle.fire = idle_fired;
    hf__timer_start(seat_loop_of(seat), &seat->idle,
                    hf__session_now(seat->all) + seat->all->lease_ms / 3 + 1);
    send_waiting(seat);
}

/* ---- which seat ---- */

struct session_claim *hf__session_seat_has(struct session_seat *seat,
                                           const struct session_claim *claim)
{
    HF_LIST_FOREACH (link, following, &seat->claims) {
        struct session_claim *other = HF_CONTAINER(link, struct session_claim, link);
        /* What is being unlocked is so before the next request is read. */
        if (other != claim && other->state != SESSION_CLAIM_RELEASING &&
            hf__session_key_is(&other->key, &claim->key))
            return other;
    }
    return NULL;
}

struct session_seat *hf__session_seat_find(struct sessions *all)
{
    struct session_seat *found = NULL;
    for (unsigned i = 1; i < all->seat_count; i++) {
        struct session_seat *seat = &all->seats[i];
        if (!seat->owner && (!found || (!found->session && seat->session)))
            found = seat;
    }
    return found;
}

/* The next one that wants a seat hears of it. */
void hf__session_seat_leave(struct session_claim *claim)
{
    struct session_seat *seat = claim->seat;
    struct hf_link *first;
    hf__link_remove(&claim->link);
    claim->seat = NULL;
    if (!seat || seat->owner != claim)
        return;
    seat->owner = NULL;
    if ((first = hf__list_pop(&seat->all->queue)))
        hf__op_wake(HF_CONTAINER(first, struct session_claim, queue_link)->op);
}
