/* SPDX-License-Identifier: Apache-2.0 */
/* The driver for MySQL and MariaDB, as the loop sees it. Its sessions have threads of their own. */
#include "base/clock.h"
#include "base/loop.h"
#include "base/testing.h"
#include "core/engine.h"
#include "engines/sql/driver/addresses.h"
#include "engines/sql/driver/mysql_session.h"

#include <stdio.h>

struct mysql_connection {
    struct sql_connection base;
    struct mysql_session *session; /* NULL: the host's name is being looked up */
    uv_async_t changed;            /* the session's thread has something to tell */
    struct sql_addresses addresses;
    struct sql_place at;   /* where the session is */
    struct hf_timer limit; /* of a socket in the file system */
    struct hf_task failing;
    struct hf_link asked; /* the requests that are not answered */
    bool is_ready, is_broken, closed;
    /* The session that listens, from `listen` on. */
    struct mysql_session *ear;
    uv_async_t ear_changed;
    unsigned handles; /* of libuv; the second one is the ear's */
    char channel[MYSQL_NAME_SIZE];
    struct sql_request *listening; /* not answered yet */
    struct hf_timer ear_again;
    const char *failed_here;              /* why the connection is given up by us, or NULL */
    const struct sql_request *never_sent; /* the request that it is given up for, or NULL */
};

static struct mysql_connection *connection_of(struct sql_connection *base)
{
    return HF_CONTAINER(base, struct mysql_connection, base);
}

static struct hf_loop *mysql_loop_of(const struct mysql_connection *connection)
{
    return connection->base.host->loop;
}

/* A lost ear is opened anew after this time; until then waiters look by themselves. */
#define EAR_PAUSE_MS 1000

/* The last of the handles takes the connection with it. */
static void free_connection(uv_handle_t *handle)
{
    struct mysql_connection *connection = handle->data;
    if (--connection->handles == 0)
        free(connection);
}

/* ---- what the thread tells ---- */

static void answer_job(struct mysql_connection *connection, struct mysql_job *job)
{
    struct sql_request *request = job->request;
    struct sql_answer answer = {
        .failure = job->failed ? &job->failure : NULL,
        .row_count = job->failed ? 0 : job->row_count,
        .column_count = job->failed ? 0 : job->column_count,
        .fields = job->fields,
        .affected = job->affected,
        .insert_id = job->insert_id,
    };
    request->sent = job->sent;
    hf__link_remove(&request->link);
    request->answered(request, &answer);
    hf__mysql_job_free(job);
    (void)connection;
}

static void end(struct mysql_connection *connection, const struct sql_failure *why, bool begun)
{
    connection->is_broken = true;
    hf__addresses_end(&connection->addresses);
    hf__timer_stop(mysql_loop_of(connection), &connection->limit);
    hf__timer_stop(mysql_loop_of(connection), &connection->ear_again);
    /* `begun`: the thread may be executing the first of them. */
    struct hf_link *link;
    struct sql_failure lost = *why;
    lost.trouble = SQL_LOST;
    while (!connection->closed && (link = hf__list_pop(&connection->asked))) {
        struct sql_request *request = HF_CONTAINER(link, struct sql_request, link);
        bool never_sent = request == connection->never_sent;
        struct sql_answer answer = { .failure = never_sent ? why : &lost };
        request->sent = begun && !never_sent;
        begun = false;
        request->answered(request, &answer);
    }
    if (!connection->closed)
        connection->base.events->broken(connection->base.arg, why);
}

/* What the session has to tell is taken all at once: an answer may close the connection. */
static void session_changed(uv_async_t *handle)
{
    struct mysql_connection *connection = handle->data;
    struct mysql_session *session = connection->session;
    struct hf_link answered, *link;
    struct sql_failure why;
    if (connection->closed || connection->is_broken || !session)
        return;
    hf__link_init(&answered);
    pthread_mutex_lock(&session->mutex);
    hf__list_append_all(&answered, &session->answered);
    bool ready = session->ready, broken = session->broken;
    why = session->why;
    pthread_mutex_unlock(&session->mutex);
    if (ready && !connection->is_ready) {
        connection->is_ready = true;
        hf__timer_stop(mysql_loop_of(connection), &connection->limit);
        if (!connection->at.socket)
            hf__addresses_proved(&connection->addresses);
        connection->base.events->ready(connection->base.arg);
    }
    while ((link = hf__list_pop(&answered))) {
        struct mysql_job *job = HF_CONTAINER(link, struct mysql_job, link);
        if (connection->closed || connection->is_broken)
            hf__mysql_job_free(job);
        else
            answer_job(connection, job);
    }
    /* A server that has answered has answered for all. */
    if (broken && !connection->is_ready && why.trouble == SQL_NOT_READY &&
        hf__addresses_next(&connection->addresses))
        return;
    if (broken && !connection->closed && !connection->is_broken)
        end(connection, &why, false);
}

/* ---- notifications ---- */

static void answer_listen(struct mysql_connection *connection, const struct sql_failure *failure)
{
    struct sql_request *request = connection->listening;
    struct sql_answer answer = { .failure = failure };
    connection->listening = NULL;
    if (!request)
        return;
    hf__link_remove(&request->link);
    request->sent = true;
    request->answered(request, &answer);
}

static void leave_ear(struct mysql_connection *connection)
{
    if (connection->ear)
        hf__mysql_session_leave(connection->ear);
    connection->ear = NULL;
}

static void open_ear(struct hf_timer *timer)
{
    struct mysql_connection *connection = HF_CONTAINER(timer, struct mysql_connection, ear_again);
    connection->ear = hf__mysql_session_open(connection->base.settings, &connection->at,
                                             connection->channel, &connection->ear_changed);
    if (!connection->ear)
        hf__timer_start(mysql_loop_of(connection), timer,
                        hf__loop_now(mysql_loop_of(connection)) + EAR_PAUSE_MS);
}

/* Without an ear the engine polls. One that was lost comes back. */
static void ear_changed(uv_async_t *handle)
{
    struct mysql_connection *connection = handle->data;
    struct mysql_session *ear = connection->ear;
    if (connection->closed || connection->is_broken || !ear)
        return;
    pthread_mutex_lock(&ear->mutex);
    bool ready = ear->ready, heard = ear->heard, broken = ear->broken;
    struct sql_failure why = ear->why;
    ear->heard = false;
    pthread_mutex_unlock(&ear->mutex);
    bool fresh = ready && connection->listening;
    if (broken) {
        leave_ear(connection);
        if (ready)
            hf__timer_start(mysql_loop_of(connection), &connection->ear_again,
                            hf__loop_now(mysql_loop_of(connection)) + EAR_PAUSE_MS);
    }
    if (connection->listening && (ready || broken))
        answer_listen(connection, ready ? NULL : &why);
    if (ready && (heard || !fresh) && !connection->closed)
        connection->base.events->notified(connection->base.arg, "", 0);
}

/* ---- giving up by ourselves ---- */

static void fail_here(struct hf_task *task)
{
    struct mysql_connection *connection = HF_CONTAINER(task, struct mysql_connection, failing);
    struct sql_failure why = { .trouble = SQL_NO_MEMORY };
    if (connection->closed || connection->is_broken)
        return;
    snprintf(why.text, sizeof why.text, "%s", connection->failed_here);
    end(connection, &why, true);
}

static void not_connected(struct mysql_connection *connection, const char *words)
{
    struct sql_failure why = { .trouble = SQL_NOT_READY };
    snprintf(why.text, sizeof why.text, "%s", words);
    end(connection, &why, false);
}

static void connecting_takes_too_long(struct hf_timer *timer)
{
    not_connected(HF_CONTAINER(timer, struct mysql_connection, limit), "no connection in time");
}

/* ---- connecting ---- */

static int64_t limit_of(const struct mysql_connection *connection)
{
    int64_t limit_ms = connection->base.place->limit_ms;
    return limit_ms ? limit_ms : connection->base.settings->timeout_ms;
}

static bool open_session(struct mysql_connection *connection)
{
    connection->session = hf__mysql_session_open(connection->base.settings, &connection->at, NULL,
                                                 &connection->changed);
    return connection->session != NULL;
}

/* The library checks the name that it is given against the certificate. So it looks that name up
 * by itself where it checks, and goes through the addresses, with a share for each. */
static void mysql_attempt(struct sql_addresses *addresses)
{
    struct mysql_connection *connection =
        HF_CONTAINER(addresses, struct mysql_connection, addresses);
    bool by_name = connection->base.settings->tls == SQL_TLS_VERIFY;
    if (connection->session)
        hf__mysql_session_leave(connection->session);
    connection->at = *connection->base.place;
    connection->at.limit_ms = limit_of(connection) / (int64_t)addresses->count;
    if (!by_name) {
        connection->at.host = addresses->text;
        connection->at.port = addresses->port;
    }
    if (!open_session(connection))
        not_connected(connection, "out of memory for a connection");
}

static void given_up(struct sql_addresses *addresses, const char *why)
{
    not_connected(HF_CONTAINER(addresses, struct mysql_connection, addresses), why);
}

/* ---- the interface ---- */

static struct mysql_connection *new_connection(const struct hf_host *host,
                                               const struct sql_settings *settings,
                                               const struct sql_place *place,
                                               const struct sql_events *events, void *arg)
{
    struct mysql_connection *connection = hf__calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    connection->base = (struct sql_connection){
        .driver = &hf__sql_mysql,
        .host = host,
        .settings = settings,
        .place = place,
        .events = events,
        .arg = arg,
    };
    connection->changed.data = connection;
    hf__link_init(&connection->asked);
    hf__task_init(&connection->failing, fail_here);
    hf__timer_init(&connection->limit, connecting_takes_too_long);
    hf__timer_init(&connection->ear_again, open_ear);
    if (uv_async_init(host->uv, &connection->changed, session_changed) != 0) {
        free(connection);
        return NULL;
    }
    connection->handles = 1;
    return connection;
}

static struct sql_connection *open_connection(const struct hf_host *host,
                                              const struct sql_settings *settings,
                                              const struct sql_place *place,
                                              const struct sql_events *events, void *arg)
{
    static const struct sql_address_events address_events = { mysql_attempt, given_up };
    struct mysql_connection *connection = new_connection(host, settings, place, events, arg);
    if (!connection)
        return NULL;
    connection->at = *place;
    if (!place->socket) {
        hf__addresses_begin(&connection->addresses, host, place, limit_of(connection),
                            &address_events);
        return &connection->base;
    }
    if (!open_session(connection)) {
        uv_close((uv_handle_t *)&connection->changed, free_connection);
        return NULL;
    }
    hf__timer_start(host->loop, &connection->limit,
                    hf__clock_add(hf__loop_now(host->loop), limit_of(connection)));
    return &connection->base;
}

/* Without memory for it, the order of answers cannot be kept: the connection is given up. */
static void run(struct sql_connection *base, struct sql_request *request)
{
    struct mysql_connection *connection = connection_of(base);
    struct mysql_job *job = hf__mysql_job_new(request);
    /* mutant: request-that-is-given-up-was-sent */
    hf__list_append(&connection->asked, &request->link);
    if (!job) {
        connection->failed_here = "out of memory for a request";
        connection->never_sent = request;
        hf__loop_defer(mysql_loop_of(connection), &connection->failing);
        return;
    }
    hf__mysql_session_ask(connection->session, job);
}

static void listen_to(struct sql_connection *base, const char *channel, struct sql_request *request)
{
    struct mysql_connection *connection = connection_of(base);
    hf__list_append(&connection->asked, &request->link);
    connection->listening = request;
    snprintf(connection->channel, sizeof connection->channel, "%s", channel);
    connection->ear_changed.data = connection;
    if (connection->handles == 1 &&
        uv_async_init(base->host->uv, &connection->ear_changed, ear_changed) == 0)
        connection->handles = 2;
    leave_ear(connection);
    if (connection->handles == 2)
        open_ear(&connection->ear_again);
    if (!connection->ear) {
        connection->failed_here = "out of memory for a connection";
        hf__loop_defer(mysql_loop_of(connection), &connection->failing);
    }
}

static void close_connection(struct sql_connection *base)
{
    struct mysql_connection *connection = connection_of(base);
    connection->closed = true;
    hf__addresses_end(&connection->addresses);
    hf__timer_stop(mysql_loop_of(connection), &connection->limit);
    hf__timer_stop(mysql_loop_of(connection), &connection->ear_again);
    hf__link_remove(&connection->failing.link);
    leave_ear(connection);
    while (hf__list_pop(&connection->asked))
        ;
    if (connection->session)
        hf__mysql_session_leave(connection->session);
    if (connection->handles == 2)
        uv_close((uv_handle_t *)&connection->ear_changed, free_connection);
    uv_close((uv_handle_t *)&connection->changed, free_connection);
}

static void mysql_forked(struct sql_connection *base)
{
    struct mysql_connection *connection = connection_of(base);
    if (connection->session)
        hf__mysql_session_forked(connection->session);
    if (connection->ear)
        hf__mysql_session_forked(connection->ear);
}

static const char *version(struct sql_connection *base)
{
    return connection_of(base)->session->version;
}

const struct sql_driver hf__sql_mysql = {
    .name = "MySQL",
    .dialect = SQL_MYSQL,
    .port = 3306,
    .open = open_connection,
    .run = run,
    .listen = listen_to,
    .close = close_connection,
    .forked = mysql_forked,
    .version = version,
};
