/* SPDX-License-Identifier: Apache-2.0 */
/* The driver for PostgreSQL: a connection of libpq that never blocks the loop. Names are looked up
 * in a thread of net/lookup.c, as libpq would block for it, and one address is tried at a time.
 * PQcancel, PQexec and PQreset block, and are never called: giving up is closing. */
#include "engines/sql/driver/postgres.h"
#include "base/clock.h"
#include "base/testing.h"
#include "core/engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct pg *pg_of(struct sql_connection *connection)
{
    return HF_CONTAINER(connection, struct pg, base);
}

static struct hf_loop *postgres_loop_of(const struct pg *pg)
{
    return pg->base.host->loop;
}

/* ---- the descriptor ---- */

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

/* libpq may close its socket and open another in the next call. */
static void stop_watching(struct pg *pg)
{
    if (!pg->poll)
        return;
    pg->poll->data = NULL;
    uv_poll_stop(pg->poll);
    uv_close((uv_handle_t *)pg->poll, free_handle);
    pg->poll = NULL;
}

static void descriptor_ready(uv_poll_t *handle, int status, int events);

static void break_off(struct pg *pg, const struct sql_failure *why);

static void break_for(struct pg *pg, enum sql_trouble trouble, const char *words)
{
    struct sql_failure why = { .trouble = trouble };
    snprintf(why.text, sizeof why.text, "%s", words);
    break_off(pg, &why);
}

static bool begin_watching(struct pg *pg, int fd)
{
    pg->poll = hf__calloc(1, sizeof *pg->poll);
    if (!pg->poll) {
        break_for(pg, SQL_NO_MEMORY, "out of memory for a connection");
        return false;
    }
    if (fd < 0 || uv_poll_init(pg->base.host->uv, pg->poll, fd) != 0) {
        free(pg->poll);
        pg->poll = NULL;
        break_for(pg, SQL_LIMIT, "the connection cannot be watched");
        return false;
    }
    pg->poll->data = pg;
    pg->fd = fd;
    return true;
}

static void watch(struct pg *pg, int events)
{
    int fd = PQsocket(pg->pg);
    if (pg->poll && pg->fd != fd)
        stop_watching(pg);
    if (!pg->poll && !begin_watching(pg, fd))
        return;
    postgres_loop_of(pg)->watches_more = true;
    if (uv_poll_start(pg->poll, events, descriptor_ready) != 0)
        break_for(pg, SQL_LIMIT, "the connection cannot be watched");
}

void hf__pg_watch(struct pg *pg)
{
    int more = PQflush(pg->pg);
    if (more < 0) {
        struct sql_failure why;
        hf__pg_failure_of_connection(&why, pg->pg);
        break_off(pg, &why);
    } else {
        watch(pg, more > 0 ? UV_READABLE | UV_WRITABLE : UV_READABLE);
    }
}

static void flush_at_end_of_turn(struct hf_task *task)
{
    struct pg *pg = HF_CONTAINER(task, struct pg, flush);
    if (pg->state != PG_BROKEN)
        hf__pg_watch(pg);
}

/* ---- the end ---- */

static void free_pg(struct pg *pg)
{
    hf__pg_drop_items(pg);
    free(pg);
}

static void free_later(struct hf_task *task)
{
    free_pg(HF_CONTAINER(task, struct pg, begin));
}

/* Tells it, from the loop: nothing of the engine's is on the stack. */
static void tell_broken(struct hf_task *task)
{
    struct pg *pg = HF_CONTAINER(task, struct pg, begin);
    pg->inside = true;
    hf__pg_lose_requests(pg, &pg->why);
    pg->inside = false;
    if (!pg->closed)
        pg->base.events->broken(pg->base.arg, &pg->why);
}

/* The first reason stands. `broken` is told on the loop, soon. */
static void break_off(struct pg *pg, const struct sql_failure *why)
{
    if (pg->state == PG_BROKEN || pg->closed)
        return;
    pg->why = *why;
    /* A session that was never ready cannot be lost. */
    if (pg->state != PG_READY && why->trouble == SQL_LOST)
        pg->why.trouble = SQL_NOT_READY;
    pg->state = PG_BROKEN;
    stop_watching(pg);
    hf__addresses_end(&pg->addresses);
    hf__timer_stop(postgres_loop_of(pg), &pg->limit);
    hf__link_remove(&pg->begin.link);
    hf__task_init(&pg->begin, tell_broken);
    hf__loop_defer(postgres_loop_of(pg), &pg->begin);
}

static void close_postgres(struct sql_connection *connection)
{
    struct pg *pg = pg_of(connection);
    pg->closed = true;
    stop_watching(pg);
    hf__addresses_end(&pg->addresses);
    hf__timer_stop(postgres_loop_of(pg), &pg->limit);
    hf__link_remove(&pg->flush.link);
    if (pg->pg)
        PQfinish(pg->pg);
    pg->pg = NULL;
    hf__link_remove(&pg->begin.link);
    hf__task_init(&pg->begin, free_later);
    /* Inside of an event, its caller still looks at the connection. */
    if (pg->inside)
        hf__loop_defer(postgres_loop_of(pg), &pg->begin);
    else
        free_pg(pg);
}

static void forked_postgres(struct sql_connection *connection)
{
    struct pg *pg = pg_of(connection);
    if (pg->pg && PQsocket(pg->pg) >= 0)
        close(PQsocket(pg->pg));
}

/* ---- a session of its own ---- */

static void send_text(struct pg *pg, const char *text, struct sql_request *request,
                      pg_finished *finished)
{
    struct sql_failure why;
    if (!hf__pg_send_text(pg, text, request, finished, &why))
        break_off(pg, &why);
}

static void is_usable(struct pg *pg)
{
    pg->state = PG_READY;
    hf__timer_stop(postgres_loop_of(pg), &pg->limit);
    if (!pg->base.place->socket)
        hf__addresses_proved(&pg->addresses);
    pg->base.events->ready(pg->base.arg);
}

static void is_set_up(struct pg *pg, PGresult *rows, const struct sql_failure *failure)
{
    if (failure) {
        break_off(pg, failure);
        return;
    }
    pg->base.crowded = PQntuples(rows) != 1 || *PQgetvalue(rows, 0, 0) != 't';
    is_usable(pg);
}

/* The wait for a row ends well before the wait for the reply. */
static long long row_wait_ms(const struct pg *pg)
{
    int64_t share_ms = pg->base.settings->timeout_ms / 4;
    return share_ms > SQL_ROW_WAIT_MS ? SQL_ROW_WAIT_MS : share_ms > 50 ? share_ms : 50;
}

/* What a server, a database or a role may have set otherwise. An older version lacks some. */
static const char *const defaults[][2] = {
    { "default_transaction_isolation", "read committed" },
    { "statement_timeout", "0" },
    { "transaction_timeout", "0" },
    { "idle_in_transaction_session_timeout", "60s" },
    { "idle_session_timeout", "0" },
    { "standard_conforming_strings", "on" },
    { "transform_null_equals", "off" },
    { "exit_on_error", "off" },
    { "DateStyle", "ISO" },
    { "IntervalStyle", "postgres" },
};

#define DEFAULT_COUNT (sizeof defaults / sizeof defaults[0])
#define DEFAULT_SIZE 180u

/* The advisory lock is what the client's next session finds this one by; see kill_old.sql. */
static void set_up(struct pg *pg)
{
    char text[DEFAULT_COUNT * DEFAULT_SIZE + 400];
    const bool keeps_zone = pg->base.settings->layout != NULL; /* as the other programs have it */
    size_t size = sizeof text, used = 0;
    used += (size_t)snprintf(
        text, size,
        "SELECT pg_try_advisory_lock((hashtext('%s')::bigint << 32) # hashtext('2' || '%s'))",
        pg->base.settings->session, pg->base.settings->session);
    for (size_t i = 0; i < DEFAULT_COUNT; i++)
        used += (size_t)snprintf(text + used, size - used,
                                 ", CASE WHEN current_setting('%s', true) IS NOT NULL"
                                 " THEN set_config('%s', '%s', false) END",
                                 defaults[i][0], defaults[i][0], defaults[i][1]);
    snprintf(text + used, size - used,
             ", set_config('lock_timeout', '%lld', false),"
             " set_config('TimeZone', CASE WHEN %d = 0 THEN 'UTC'"
             " ELSE current_setting('TimeZone') END, false),"
             /* mutant: relaxed-commits-wait */
             " set_config('synchronous_commit', CASE WHEN %d = 1 THEN 'off'"
             " ELSE current_setting('synchronous_commit') END, false)",
             row_wait_ms(pg), keeps_zone, pg->base.settings->relaxed);
    pg->state = PG_SETTING_UP;
    send_text(pg, text, NULL, is_set_up);
}

/* A session that a pooler lends is left as it is, so each transaction says what it needs. The zone
 * is the default of this role and database, which a client of the pooler's may have changed. */
static void lend(struct pg *pg, const char *zone)
{
    char *quoted = PQescapeLiteral(pg->pg, zone, strlen(zone));
    int size = (int)sizeof pg->prelude;
    if (!quoted || snprintf(pg->prelude, sizeof pg->prelude,
                            "SELECT set_config('lock_timeout', '%lld', true),"
                            " set_config('statement_timeout', '0', true),"
                            " set_config('TimeZone', %s, true)",
                            row_wait_ms(pg), pg->base.settings->layout ? quoted : "'UTC'") >= size)
        break_for(pg, SQL_NO_MEMORY, "out of memory for a connection");
    else
        is_usable(pg);
    PQfreemem(quoted);
}

/* Behind a pooler the process that answers is not the one that the login named. */
static void is_greeted(struct pg *pg, PGresult *rows, const struct sql_failure *failure)
{
    if (failure || PQntuples(rows) != 1) {
        struct sql_failure odd = { .trouble = SQL_WRONG, .text = "it does not say what it is" };
        break_off(pg, failure ? failure : &odd);
        return;
    }
    pg->base.pooled = strtol(PQgetvalue(rows, 0, 0), NULL, 10) != PQbackendPID(pg->pg);
    snprintf(pg->version, sizeof pg->version, "%.70s", PQgetvalue(rows, 0, 2));
    if (*PQgetvalue(rows, 0, 1) == 't')
        break_for(pg, SQL_READ_ONLY, "this server is a replica, which takes no writes");
    else if (strcmp(PQgetvalue(rows, 0, 3), "on") == 0)
        break_for(pg, SQL_READ_ONLY, "sessions are read-only: default_transaction_read_only is on");
    else if (pg->base.pooled)
        lend(pg, PQgetvalue(rows, 0, 4));
    else
        set_up(pg);
}

/* The library prints nothing. */
static void ignore_notice(void *arg, const PGresult *notice)
{
    (void)arg, (void)notice;
}

static void postgres_greet(struct pg *pg)
{
    pg->state = PG_GREETING;
    if (PQsetnonblocking(pg->pg, 1) != 0 || !PQenterPipelineMode(pg->pg)) {
        break_for(pg, SQL_WRONG, "libpq has no pipeline mode");
        return;
    }
    PQsetErrorVerbosity(pg->pg, PQERRORS_DEFAULT);
    send_text(pg,
              "SELECT pg_backend_pid(), pg_is_in_recovery(),"
              " current_setting('server_version'),"
              " current_setting('transaction_read_only'),"
              " (SELECT reset_val FROM pg_settings WHERE name = 'TimeZone')",
              NULL, is_greeted);
}

/* ---- events of the descriptor ---- */

static void go_on_connecting(struct pg *pg)
{
    stop_watching(pg);
    PostgresPollingStatusType status = PQconnectPoll(pg->pg);
    if (status == PGRES_POLLING_OK) {
        postgres_greet(pg);
    } else if (status == PGRES_POLLING_FAILED) {
        struct sql_failure why;
        hf__pg_failure_of_connection(&why, pg->pg);
        /* A server that has answered has answered for all. */
        if (why.trouble != SQL_NOT_READY || !hf__addresses_next(&pg->addresses))
            break_off(pg, &why);
    } else {
        watch(pg, status == PGRES_POLLING_READING ? UV_READABLE : UV_WRITABLE);
    }
}

static void read_input(struct pg *pg)
{
    struct sql_failure why;
    bool lost = !PQconsumeInput(pg->pg);
    if (lost) {
        hf__pg_failure_of_connection(&why, pg->pg);
        if (why.trouble == SQL_NOT_READY)
            why.trouble = SQL_LOST;
    }
    /* What came before the end is complete. */
    hf__pg_read_results(pg);
    if (!pg->closed) {
        PGnotify *notify;
        pg->inside = true;
        while (!pg->closed && pg->state == PG_READY && (notify = PQnotifies(pg->pg))) {
            pg->base.events->notified(pg->base.arg, notify->extra, strlen(notify->extra));
            PQfreemem(notify);
        }
        pg->inside = false;
    }
    if (pg->closed || pg->state == PG_BROKEN)
        return;
    if (lost)
        break_off(pg, &why);
    else
        hf__pg_watch(pg);
}

static void descriptor_ready(uv_poll_t *handle, int status, int events)
{
    struct pg *pg = handle->data;
    (void)status, (void)events;
    if (!pg || pg->state == PG_BROKEN || pg->closed)
        return;
    if (pg->state == PG_CONNECTING)
        go_on_connecting(pg);
    else
        read_input(pg);
}

/* ---- the beginning ---- */

struct words {
    const char *keys[24], *values[24];
    unsigned count;
};

static void add_word(struct words *words, const char *key, const char *value)
{
    if (!value)
        return;
    words->keys[words->count] = key;
    words->values[words->count++] = value;
}

/* libpq has no list of this machine's authorities before version 16. */
static const char *authorities(const struct sql_settings *settings)
{
    static const char *const files[] = { "/etc/ssl/certs/ca-certificates.crt",
                                         "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem" };
    if (settings->ca || settings->tls != SQL_TLS_VERIFY)
        return settings->ca;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (access(files[i], R_OK) == 0)
            return files[i];
    return NULL;
}

static void add_session(struct words *words, const struct sql_settings *settings)
{
    static const char *const modes[] = { "verify-full", "require", "disable" };
    add_word(words, "user", settings->user);
    add_word(words, "password", settings->password);
    add_word(words, "dbname", settings->database);
    add_word(words, "sslmode", modes[settings->tls]);
    add_word(words, "sslrootcert", authorities(settings));
    add_word(words, "sslcert", settings->cert);
    add_word(words, "sslkey", settings->key);
    /* Looking for Kerberos tickets would block. */
    add_word(words, "gssencmode", "disable");
    add_word(words, "application_name", settings->session);
    add_word(words, "client_encoding", "UTF8");
    add_word(words, "keepalives_idle", "10");
    add_word(words, "keepalives_interval", "3");
    add_word(words, "keepalives_count", "3");
    add_word(words, "tcp_user_timeout", "15000");
}

/* `address` NULL: a socket in the file system. The name is what a certificate is made out to. */
static void connect_to(struct pg *pg, const char *address, unsigned port_number)
{
    const struct sql_place *place = pg->base.place;
    char port[12];
    struct words words = { .count = 0 };
    snprintf(port, sizeof port, "%u", port_number);
    add_word(&words, "host", address ? place->host : place->socket);
    add_word(&words, "hostaddr", address);
    add_word(&words, "port", port);
    add_session(&words, pg->base.settings);
    words.keys[words.count] = NULL;
    pg->state = PG_CONNECTING;
    pg->pg = PQconnectStartParams(words.keys, words.values, 0);
    if (!pg->pg || PQstatus(pg->pg) == CONNECTION_BAD) {
        struct sql_failure why = { .trouble = SQL_NO_MEMORY,
                                   .text = "out of memory for a connection" };
        if (pg->pg)
            hf__pg_failure_of_connection(&why, pg->pg);
        break_off(pg, &why);
        return;
    }
    PQsetErrorVerbosity(pg->pg, PQERRORS_VERBOSE);
    PQsetNoticeReceiver(pg->pg, ignore_notice, NULL);
    watch(pg, UV_WRITABLE);
}

static void postgres_attempt(struct sql_addresses *addresses)
{
    struct pg *pg = HF_CONTAINER(addresses, struct pg, addresses);
    stop_watching(pg);
    hf__pg_drop_items(pg);
    if (pg->pg)
        PQfinish(pg->pg);
    pg->pg = NULL;
    connect_to(pg, addresses->text, addresses->port);
}

static void given_up(struct sql_addresses *addresses, const char *why)
{
    break_for(HF_CONTAINER(addresses, struct pg, addresses), SQL_NOT_READY, why);
}

static void begin_at_socket(struct hf_task *task)
{
    struct pg *pg = HF_CONTAINER(task, struct pg, begin);
    connect_to(pg, NULL, pg->base.place->port);
}

static void limit_is_over(struct hf_timer *timer)
{
    break_for(HF_CONTAINER(timer, struct pg, limit), SQL_NOT_READY, "no connection in time");
}

static struct sql_connection *open_postgres(const struct hf_host *host,
                                            const struct sql_settings *settings,
                                            const struct sql_place *place,
                                            const struct sql_events *events, void *arg)
{
    static const struct sql_address_events address_events = { postgres_attempt, given_up };
    struct pg *pg = hf__calloc(1, sizeof *pg);
    if (!pg)
        return NULL;
    pg->base = (struct sql_connection){
        .driver = &hf__sql_postgres,
        .host = host,
        .settings = settings,
        .place = place,
        .events = events,
        .arg = arg,
    };
    hf__link_init(&pg->sent);
    hf__link_init(&pg->free_items);
    hf__timer_init(&pg->limit, limit_is_over);
    hf__task_init(&pg->flush, flush_at_end_of_turn);
    hf__task_init(&pg->begin, begin_at_socket);
    int64_t limit_ms = place->limit_ms ? place->limit_ms : settings->timeout_ms;
    if (!place->socket) {
        hf__addresses_begin(&pg->addresses, host, place, limit_ms, &address_events);
        return &pg->base;
    }
    hf__loop_defer(host->loop, &pg->begin);
    hf__timer_start(host->loop, &pg->limit, hf__clock_add(hf__loop_now(host->loop), limit_ms));
    return &pg->base;
}

/* ---- the interface ---- */

static void run_postgres(struct sql_connection *connection, struct sql_request *request)
{
    struct pg *pg = pg_of(connection);
    struct sql_failure why;
    if (!hf__pg_send(pg, request, &why))
        break_off(pg, &why);
}

/* A request whose statement is made here; its answer has no rows. */
static void is_listening(struct pg *pg, PGresult *rows, const struct sql_failure *failure)
{
    (void)pg, (void)rows, (void)failure;
}

static void listen_postgres(struct sql_connection *connection, const char *channel,
                            struct sql_request *request)
{
    char text[100];
    snprintf(text, sizeof text, "LISTEN %.63s", channel);
    send_text(pg_of(connection), text, request, is_listening);
}

static const char *version_postgres(struct sql_connection *connection)
{
    return pg_of(connection)->version;
}

const struct sql_driver hf__sql_postgres = {
    .name = "PostgreSQL",
    .dialect = SQL_POSTGRES,
    .port = 5432,
    .open = open_postgres,
    .run = run_postgres,
    .listen = listen_postgres,
    .close = close_postgres,
    .forked = forked_postgres,
    .version = version_postgres,
};
