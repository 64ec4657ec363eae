/* SPDX-License-Identifier: Apache-2.0 */
/* What a new session is told and asked: the one before it on the seat ends, the server ends this
 * one only after its client has stopped believing in it, and what cannot be right is refused. */
#include "engines/sql/session/session.h"

#include "base/testing.h"
#include "engines/sql/sql.h"

#include <string.h>
#include <strings.h>

/* The number of times a new connection looks whether the session before it has ended. */
#define FENCE_TRIES 40u
#define FENCE_PAUSE_MS 5

static struct session *new_session(struct session_seat *seat, int64_t asked_at_ms)
{
    struct session *session = hf__calloc(1, sizeof *session);
    if (!session)
        return NULL;
    session->all = seat->all;
    session->uses = 1;
    session->lease.engine = &seat->all->base;
    session->lease.lease_ms = seat->all->lease_ms;
    session->lease.asked_at_ms = asked_at_ms;
    hf__link_init(&session->ends);
    return session;
}

static void greet_with(struct session_seat *seat, const struct sql_script *script,
                       session_done *done, unsigned tries)
{
    struct session_request *request = hf__session_request(seat, NULL, done);
    if (!request) {
        hf__peer_break(&seat->peer, HF_ENOMEM, 0, "out of memory for a request");
        return;
    }
    int64_t limit_ms = seat->all->lease_ms + SESSION_MARGIN_MS; /* mutant: server-ends-it-later */
    request->tries = tries;
    request->values[SQL_P_SESSION] =
        (struct sql_value){ .type = SQL_TEXT,
                            .bytes = seat->settings->session,
                            .length = (uint32_t)strlen(seat->settings->session) };
    /* MySQL counts in seconds. */
    hf__session_number(request, SQL_P_LEASE_US,
                       seat->all->dialect == SQL_MYSQL ? (limit_ms + 999) / 1000 : limit_ms);
    hf__session_prepare(request, script);
    hf__session_send(request);
}

static const struct sql_script *script_of(const struct session_seat *seat, enum session_word word)
{
    return hf__session_script(seat->all->dialect, word, false);
}

static bool is_greeting(const struct session_seat *seat)
{
    return seat->peer.state == HF_PEER_GREETING && !seat->peer.failing;
}

/* Not for a connection that is lost: why is known. */
static bool greeting_failed(struct session_request *request, const struct sql_answer *answer)
{
    if (answer->failure && is_greeting(request->seat))
        hf__session_break_seat(request->seat, answer->failure);
    return answer->failure || !is_greeting(request->seat);
}

static void cluster_known(struct session_request *request, const struct sql_answer *answer)
{
    struct session_seat *seat = request->seat;
    const struct sql_value *value = hf__answer_field(answer, 0, 1);
    if (greeting_failed(request, answer))
        return;
    if (value && value->bytes && value->length == 2 && strncasecmp(value->bytes, "ON", 2) == 0)
        hf__peer_break(&seat->peer, HF_ENOTSUP, 0,
                       "it is a node of a Galera cluster: nodes do not know each other's "
                       "named locks; leave layout=session out");
    else
        hf__session_seat_ready(seat);
}

static bool mentions(const struct sql_value *text, const char *word)
{
    return text && text->bytes && memmem(text->bytes, text->length, word, strlen(word));
}

static void facts_known(struct session_request *request, const struct sql_answer *answer)
{
    struct session_seat *seat = request->seat;
    const struct sql_script *cluster = script_of(seat, SESSION_CLUSTER);
    if (greeting_failed(request, answer))
        return;
    if (hf__session_field(answer, 0, 1) != 1) {
        hf__peer_break(&seat->peer, HF_ENOTSUP, 0,
                       "it runs with sysdate-is-now, so a waiter reads its token before it is "
                       "granted; start it without");
        return;
    }
    if (mentions(hf__answer_field(answer, 0, 2), "TiDB")) {
        hf__peer_break(&seat->peer, HF_ENOTSUP, 0,
                       "TiDB's named locks end with a transaction after an hour; leave "
                       "layout=session out");
        return;
    }
    seat->session = new_session(seat, request->sent_at_ms);
    if (!seat->session) {
        hf__peer_break(&seat->peer, HF_ENOMEM, 0, "out of memory for a session");
        return;
    }
    seat->session->id = hf__session_field(answer, 0, 0);
    if (cluster)
        greet_with(seat, cluster, cluster_known, 0);
    else
        hf__session_seat_ready(seat);
}

static void set_up(struct session_request *request, const struct sql_answer *answer)
{
    if (!greeting_failed(request, answer))
        greet_with(request->seat, script_of(request->seat, SESSION_FACTS), facts_known, 0);
}

static const struct sql_script *end_old_script(const struct session_seat *seat)
{
    return hf__sql_constant(seat->all->dialect, NULL, SQL_KILL_OLD);
}

static void old_session_ended(struct session_request *request, const struct sql_answer *answer);

static void look_for_old(struct hf_timer *timer)
{
    struct session_seat *seat = HF_CONTAINER(timer, struct session_seat, idle);
    if (is_greeting(seat))
        greet_with(seat, end_old_script(seat), old_session_ended, ++seat->fence_tries);
}

/* Without the right to end it, it ends by its own limit. */
static void old_session_ended(struct session_request *request, const struct sql_answer *answer)
{
    struct session_seat *seat = request->seat;
    bool cannot = answer->failure && answer->failure->trouble != SQL_LOST &&
                  answer->failure->trouble != SQL_NO_MEMORY;
    bool gone = !answer->failure && hf__session_field(answer, 0, 0) == 0;
    if (!is_greeting(seat))
        return;
    if (gone || cannot || request->tries >= FENCE_TRIES) {
        greet_with(seat, script_of(seat, SESSION_SET_UP), set_up, 0);
        return;
    }
    seat->idle.fire = look_for_old;
    hf__timer_start(seat->all->base.host->loop, &seat->idle,
                    hf__session_now(seat->all) + FENCE_PAUSE_MS);
}

void hf__session_greet(struct hf_peer *peer)
{
    struct session_seat *seat = HF_CONTAINER(peer, struct session_seat, peer);
    if (seat->connection->pooled)
        hf__peer_break(peer, HF_ENOTSUP, 0,
                       "a pooler in between lends sessions to other programs, and session locks "
                       "with them; connect to the server itself, or leave layout=session out");
    else if (seat->fence || seat->connection->crowded) /* mutant: old-session-is-ended */
        greet_with(seat, end_old_script(seat), old_session_ended, 0);
    else
        greet_with(seat, script_of(seat, SESSION_SET_UP), set_up, 0);
}
