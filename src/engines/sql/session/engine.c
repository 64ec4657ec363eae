/* SPDX-License-Identifier: Apache-2.0 */
/* The layout "session": opening, closing, and what it offers. */
#include "engines/sql/session/session.h"

#include "base/error.h"
#include "base/testing.h"
#include "engines/sql/sql.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* The server's time-outs have 31 bits of milliseconds, or a year of seconds. */
#define LEASE_MAX_MS (INT64_C(20) * 86400 * 1000)

static const struct hf_engine_ops *ops_of(enum sql_dialect dialect);

int hf__session_open(struct hf_engine **ret, const struct sql_settings *settings,
                     const struct hf_host *host, hf_error *error)
{
    struct sessions *all = hf__calloc(1, sizeof *all);
    if (!all)
        return hf__error_set(error, HF_ENOMEM, 0, "out of memory for a client of a database");
    all->settings = *settings;
    all->dialect = settings->driver->dialect;
    all->base = (struct hf_engine){ .ops = ops_of(all->dialect), .host = host };
    all->lease_ms = host->lease_ms < LEASE_MAX_MS ? host->lease_ms : LEASE_MAX_MS;
    all->seat_count = settings->sessions;
    hf__link_init(&all->queue);
    hf__link_init(&all->free_requests);
    hf__link_init(&all->free_claims);
    snprintf(all->settings.session, sizeof all->settings.session,
             "holdfast%016" PRIx64 "%016" PRIx64, host->id[0], host->id[1]);
    if (!hf__session_pool_open(all)) {
        hf__session_pool_close(all);
        free(all);
        return hf__error_set(error, HF_ENOMEM, 0, "out of memory for a client of a database");
    }
    hf__host_event(host, HF_EVENT_ADVISORY, "", 0,
                   "session locks are exclusive while the server runs; a restart, a failover or a "
                   "KILL lets another owner in at once");
    *ret = &all->base;
    return HF_OK;
}

/* The sessions end with their connections, and what they have locked with them. */
static void close_sessions(struct hf_engine *engine, void (*closed)(void *arg), void *arg)
{
    struct sessions *all = (struct sessions *)engine;
    hf__session_claims_close(all);
    hf__session_pool_close(all);
    for (struct hf_link *link; (link = hf__list_pop(&all->free_claims));)
        free(HF_CONTAINER(link, struct session_claim, link));
    free(all);
    closed(arg);
}

static void engine_oneshot(struct hf_engine *engine, struct hf_oneshot *oneshot)
{
    struct sessions *all = (struct sessions *)engine;
    if (oneshot->verb == HF_ONESHOT_INSPECT)
        hf__session_show(all, oneshot);
    else if (oneshot->verb == HF_ONESHOT_BREAK)
        hf__session_break(all, oneshot);
    else if (oneshot->verb == HF_ONESHOT_RENEW)
        hf__session_extend(all, oneshot);
    else
        hf__session_diagnose(all, oneshot);
}

static void engine_forked(struct hf_engine *engine)
{
    struct sessions *all = (struct sessions *)engine;
    for (unsigned i = 0; i < all->seat_count; i++)
        if (all->seats[i].connection)
            all->seats[i].connection->driver->forked(all->seats[i].connection);
}

static void engine_explain_silence(struct hf_engine *engine, struct hf_op *op, hf_error **error)
{
    (void)op;
    hf__peer_why_silent(&((struct sessions *)engine)->seats[0].peer, error);
}

static int open_no_engine(struct hf_engine **ret, const struct hf_host *host, struct hf_url *url,
                          hf_error *error)
{
    (void)host;
    *ret = NULL;
    return hf__url_refuse(url, error, "the layout is not known when it is opened");
}

static const char *const no_schemes[] = { NULL };

#define COMMON                                                                                     \
    .schemes = no_schemes, .open = open_no_engine, .close = close_sessions,                        \
    .attempt = hf__session_attempt, .release = hf__session_release, .renew = hf__session_renew,    \
    .oneshot = engine_oneshot, .forked = engine_forked, .why_silent = engine_explain_silence

#define CAPS (HF_CAP_MUTEX | HF_CAP_FAIR | HF_CAP_TOKEN | HF_CAP_INSPECT | HF_CAP_BREAK)

static const struct hf_engine_ops postgres_session = {
    .name = "postgres with layout=session",
    .caps = CAPS | HF_CAP_RW | HF_CAP_INSPECT_ALL,
    COMMON,
};

static const struct hf_engine_ops mysql_session = {
    .name = "mysql with layout=session",
    .caps = CAPS,
    COMMON,
};

static const struct hf_engine_ops *ops_of(enum sql_dialect dialect)
{
    return dialect == SQL_POSTGRES ? &postgres_session : &mysql_session;
}
