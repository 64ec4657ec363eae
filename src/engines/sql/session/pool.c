/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of seats: connections that come back by themselves, each time as another session. */
#include "engines/sql/session/session.h"

#include "base/testing.h"
#include "engines/sql/sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct session_seat *seat_of(struct hf_peer *peer)
{
    return HF_CONTAINER(peer, struct session_seat, peer);
}

static struct hf_loop *pool_loop_of(const struct session_seat *seat)
{
    return seat->all->base.host->loop;
}

/* ---- the connection ---- */

/* What has a request out hears by that. */
static void lose_claim(struct session_claim *claim)
{
    bool held = claim->state == SESSION_CLAIM_HELD;
    if (!held && claim->state != SESSION_CLAIM_GRANTED)
        return;
    claim->end.lease.asked_at_ms = claim->session ? claim->session->lease.asked_at_ms : 0;
    claim->confirming = false;
    hf__session_claim_rest(claim);
    hf__known_forget(&claim->op->engine.known);
    if (held)
        hf__op_lost(claim->op, "its session at the database has ended");
    else if (claim->asked)
        hf__session_finish(claim, HF_NO_ANSWER);
    else
        hf__op_wake(claim->op);
}

static void lose_all(struct hf_link *requests)
{
    static const struct sql_failure lost = { .trouble = SQL_LOST, .text = "connection lost" };
    struct sql_answer answer = { .failure = &lost };
    struct hf_link taken, *link;
    hf__link_init(&taken);
    hf__list_append_all(&taken, requests);
    while ((link = hf__list_first(&taken)))
        hf__session_request_over(HF_CONTAINER(link, struct session_request, link), &answer);
}

static void pool_failed(struct hf_peer *peer, enum hf_peer_state was)
{
    struct session_seat *seat = seat_of(peer);
    if (was == HF_PEER_READY && !hf__list_empty(&seat->claims)) {
        seat->fence = true;
        seat->fence_until_ms = hf__session_now(seat->all) + seat->all->lease_ms + SESSION_MARGIN_MS;
    }
    hf__session_seat_end(seat);
    HF_LIST_FOREACH (link, following, &seat->claims)
        lose_claim(HF_CONTAINER(link, struct session_claim, link));
    lose_all(&seat->out);
    /* What has not been sent goes to the next session, if there is a server. */
    if (was != HF_PEER_READY && hf__peer_round_is_over(peer))
        lose_all(&seat->waiting);
}

static void connection_ready(void *arg)
{
    hf__peer_connected(&((struct session_seat *)arg)->peer);
}

static void connection_broken(void *arg, const struct sql_failure *why)
{
    hf__session_break_seat(arg, why);
}

static void connection_notified(void *arg, const char *payload, size_t length)
{
    (void)arg, (void)payload, (void)length;
}

static bool pool_place(struct hf_peer *peer, struct hf_peer_try *ret)
{
    const struct sql_settings *settings = &seat_of(peer)->all->settings;
    ret->place.host = settings->places[peer->place_at].host;
    ret->place.port = settings->places[peer->place_at].port;
    if (settings->place_count == 1)
        ret->limit_ms = 0;
    return true;
}

static bool dial(struct hf_peer *peer, const struct hf_peer_try *attempt)
{
    static const struct sql_events events = { connection_ready, connection_broken,
                                              connection_notified };
    struct session_seat *seat = seat_of(peer);
    const struct sql_driver *driver = seat->settings->driver;
    (void)attempt;
    seat->place = seat->settings->places[peer->place_at];
    seat->place.limit_ms = peer->place.limit_ms;
    seat->place.route = &peer->route;
    seat->fence_tries = 0;
    seat->connection =
        driver->open(seat->all->base.host, seat->settings, &seat->place, &events, seat);
    return seat->connection != NULL;
}

static void hang_up(struct hf_peer *peer)
{
    struct session_seat *seat = seat_of(peer);
    struct sql_connection *connection = seat->connection;
    seat->connection = NULL;
    connection->driver->close(connection);
}

/* What an old session may have locked keeps others out until the next one has ended it. */
static bool pool_needed(struct hf_peer *peer)
{
    const struct session_seat *seat = seat_of(peer);
    return !hf__list_empty(&seat->waiting) ||
           (seat->fence && hf__session_now(seat->all) < seat->fence_until_ms);
}

static int64_t pool_oldest(struct hf_peer *peer)
{
    HF_LIST_FOREACH (link, following, &seat_of(peer)->out) {
        const struct session_request *request = HF_CONTAINER(link, struct session_request, link);
        if (!request->sent)
            return request->sent_at_ms;
    }
    return HF_NEVER;
}

/* ---- opening and closing ---- */

static bool open_seat(struct sessions *all, unsigned number)
{
    static const struct hf_peer_callbacks callbacks = { .place = pool_place,
                                                        .greet = hf__session_greet,
                                                        .failed = pool_failed,
                                                        .needed = pool_needed,
                                                        .oldest = pool_oldest,
                                                        .dial = dial,
                                                        .hang_up = hang_up };
    struct session_seat *seat = &all->seats[number];
    seat->all = all;
    seat->number = number;
    hf__link_init(&seat->waiting);
    hf__link_init(&seat->out);
    hf__link_init(&seat->claims);
    hf__timer_init(&seat->idle, NULL);
    hf__peer_init(&seat->peer, &(struct hf_peer_config){ .host = all->base.host,
                                                         .callbacks = &callbacks,
                                                         .store = all->settings.driver->name,
                                                         .shown = all->settings.shown,
                                                         .place_count = all->settings.place_count,
                                                         .timeout_ms = all->settings.timeout_ms });
    seat->settings = hf__calloc(1, sizeof *seat->settings);
    if (!seat->settings)
        return false;
    *seat->settings = all->settings;
    size_t length = strlen(all->settings.session);
    snprintf(seat->settings->session + length, sizeof seat->settings->session - length, "s%u",
             number);
    return true;
}

bool hf__session_pool_open(struct sessions *all)
{
    bool opened = true;
    all->seats = hf__calloc(all->seat_count, sizeof *all->seats);
    for (unsigned i = 0; all->seats && i < all->seat_count; i++)
        opened = open_seat(all, i) && opened;
    return all->seats && opened;
}

static void free_requests(struct hf_link *requests)
{
    struct hf_link *link;
    while ((link = hf__list_pop(requests))) {
        struct session_request *request = HF_CONTAINER(link, struct session_request, link);
        struct session_claim *claim = request->claim;
        hf__session_drop(request->session);
        free(request);
        if (claim)
            hf__session_claim_use_ends(claim);
    }
}

void hf__session_pool_close(struct sessions *all)
{
    for (unsigned i = 0; all->seats && i < all->seat_count; i++) {
        struct session_seat *seat = &all->seats[i];
        hf__peer_close(&seat->peer);
        hf__timer_stop(pool_loop_of(seat), &seat->idle);
        free_requests(&seat->out);
        free_requests(&seat->waiting);
        hf__session_drop(seat->session);
        free(seat->settings);
    }
    for (struct hf_link *link; (link = hf__list_pop(&all->free_requests));)
        free(HF_CONTAINER(link, struct session_request, link));
    free(all->seats);
}
