/* SPDX-License-Identifier: Apache-2.0 */
/* The engines `postgres:` and `mysql:`: opening, closing, and their tables. */
#include "base/error.h"
#include "base/testing.h"
#include "engines/sql/session/session.h"
#include "engines/sql/sql.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long closing waits for the deletion of receipts. */
#define CLOSE_MS 1000

/* The statements as a user may give them to the database's own client. */
static char *write_statements(const struct sql *sql, enum sql_script_number number)
{
    const struct sql_script *script = hf__sql_script(sql, number);
    char place[SQL_PLACE_SIZE] = "";
    if (number == SQL_GRANTS && sql->named)
        hf__schema_name_quote(place, sql->settings.schema, '"');
    size_t size = sizeof place + 40, used = 0;
    for (unsigned i = 0; i < script->count; i++)
        size += strlen(script->statements[i].text) + 2;
    char *text = hf__calloc(1, size);
    if (text && *place)
        used = (size_t)snprintf(text, size, "GRANT USAGE ON SCHEMA %s TO USER;\n", place);
    for (unsigned i = 0; text && i < script->count; i++) {
        size_t length = strlen(script->statements[i].text);
        while (length > 0 && script->statements[i].text[length - 1] == '\n')
            length--;
        used += (size_t)snprintf(text + used, size - used, "%.*s;\n", (int)length,
                                 script->statements[i].text);
    }
    return text;
}

static void free_part(struct sql *part)
{
    free(part->schema);
    free(part->grants);
    hf__schema_name_close(part);
    free(part);
}

/* To the database each part is a client of its own. NULL: out of memory. */
static struct sql *open_part(const struct sql_settings *settings, const struct hf_engine_ops *ops,
                             const struct hf_host *host, unsigned number)
{
    struct sql *sql = hf__calloc(1, sizeof *sql);
    if (!sql)
        return NULL;
    sql->settings = *settings;
    sql->base = (struct hf_engine){ .ops = ops, .host = host };
    sql->dialect = settings->driver->dialect;
    sql->id[0] = host->id[0];
    sql->id[1] = host->id[1] + number; /* mutant: parts-have-one-identity */
    bool named = hf__schema_name_open(sql);
    sql->base.schema = sql->schema = write_statements(sql, SQL_SCHEMA);
    sql->base.grants = sql->grants = write_statements(sql, SQL_GRANTS);
    if (!named || !sql->schema || !sql->grants) {
        free_part(sql);
        return NULL;
    }
    snprintf(sql->settings.session, sizeof sql->settings.session,
             "holdfast%016" PRIx64 "%016" PRIx64, sql->id[0], sql->id[1]);
    snprintf(sql->channel, sizeof sql->channel, "hf_%016" PRIx64 "%016" PRIx64, sql->id[0],
             sql->id[1]);
    hf__link_init(&sql->renewals);
    hf__link_open(sql);
    hf__waiting_open(sql);
    hf__counter_open(sql);
    return sql;
}

static int open_sql(struct hf_engine **ret, const struct hf_engine_ops *ops,
                    const struct hf_engine_ops *layout_ops, const struct sql_driver *driver,
                    const struct hf_host *host, struct hf_url *url, hf_error *error)
{
    struct sql_settings settings = { .driver = driver };
    struct sql *first = NULL;
    *ret = NULL;
    int code = hf__sql_settings(&settings, driver, url, error);
    if (code != HF_OK)
        return code;
    if (settings.sessions > 0)
        return hf__session_open(ret, &settings, host, error);
    for (unsigned i = 0; i < settings.connections; i++) {
        struct sql *part = open_part(&settings, settings.layout ? layout_ops : ops, host, i);
        if (!part) {
            while (i-- > 0)
                free_part(first->parts[i]);
            return hf__error_set(error, HF_ENOMEM, 0, "out of memory for a client of a database");
        }
        first = first ? first : part;
        first->parts[i] = part;
        part->first = first;
    }
    *ret = &first->base;
    return HF_OK;
}

/* The last part frees all of them: each other one counts at the first. */
static void end_close(struct hf_timer *timer)
{
    struct sql *sql = HF_CONTAINER(timer, struct sql, closing), *first = sql->first;
    hf__link_remove(&sql->settle.link);
    hf__list_append_all(&sql->free_tasks, &sql->settling);
    hf__link_close(sql);
    hf__waiting_close(sql);
    if (--first->open_parts > 0)
        return;
    void (*closed)(void *arg) = first->closed;
    void *arg = first->closed_arg;
    for (unsigned i = first->settings.connections; i-- > 0;)
        free_part(first->parts[i]);
    closed(arg);
}

/* The receipts of takes that have just been answered go first. */
static void close_part(struct sql *sql)
{
    bool waits = sql->unsettled > 0 && hf__peer_is_ready(&sql->peer);
    hf__timer_init(&sql->closing, end_close);
    if (waits) /* mutant: client-closes-before-receipts-are-deleted */
        hf__timer_start(sql->base.host->loop, &sql->closing, hf__sql_now(sql) + CLOSE_MS);
    else
        end_close(&sql->closing);
}

static void close_sql(struct hf_engine *engine, void (*closed)(void *arg), void *arg)
{
    struct sql *first = (struct sql *)engine;
    unsigned count = first->settings.connections;
    first->open_parts = count;
    for (unsigned i = 0; i < count; i++) {
        struct sql *sql = first->parts[i];
        sql->closed = closed;
        sql->closed_arg = arg;
    }
    for (unsigned i = 0; i < count; i++)
        close_part(first->parts[i]);
}

static void forked_sql(struct hf_engine *engine)
{
    const struct sql *first = (struct sql *)engine;
    for (unsigned i = 0; i < first->settings.connections; i++) {
        struct sql_connection *connection = first->parts[i]->connection;
        if (connection)
            connection->driver->forked(connection);
    }
}

static void why_silent_sql(struct hf_engine *engine, struct hf_op *op, hf_error **error)
{
    const struct sql *first = (struct sql *)engine;
    struct sql *part = op ? hf__sql_part_of(engine, op) : NULL;
    if (part && !hf__row_lock_explain(part, op, error))
        hf__peer_why_silent(&part->peer, error);
    for (unsigned i = 0; i < first->settings.connections && !part && !*error; i++)
        hf__peer_why_silent(&first->parts[i]->peer, error);
}

#define SQL_CAPS                                                                                   \
    (HF_CAP_MUTEX | HF_CAP_FAIR | HF_CAP_RW | HF_CAP_UPGRADE | HF_CAP_PERMIT | HF_CAP_COUNTER |    \
     HF_CAP_LATCH | HF_CAP_TOKEN | HF_CAP_DETACH | HF_CAP_INSPECT | HF_CAP_INSPECT_ALL |           \
     HF_CAP_BREAK | HF_CAP_SCHEMA | HF_CAP_RATE)
/* The tables of other programs have mutexes, and no room for more. */
#define LAYOUT_CAPS                                                                                \
    (HF_CAP_MUTEX | HF_CAP_TOKEN | HF_CAP_INSPECT | HF_CAP_INSPECT_ALL | HF_CAP_BREAK |            \
     HF_CAP_SCHEMA)

#define OWN_TABLES                                                                                 \
    .caps = SQL_CAPS, .raises_tokens = true, .names_threads = true, .detach = hf__sql_detach

#define COMMON                                                                                     \
    .close = close_sql, .forgets = true, .attempt = hf__sql_attempt, .release = hf__sql_release,   \
    .renew = hf__sql_renew, .oneshot = hf__sql_oneshot, .forked = forked_sql,                      \
    .why_silent = why_silent_sql

#ifdef HF_SQL_POSTGRES
static const struct hf_engine_ops postgres_layout;

static int open_postgres(struct hf_engine **ret, const struct hf_host *host, struct hf_url *url,
                         hf_error *error)
{
    return open_sql(ret, &hf__postgres, &postgres_layout, &hf__sql_postgres, host, url, error);
}

static const char *const postgres_schemes[] = { "postgres", "postgresql", NULL };

const struct hf_engine_ops hf__postgres = {
    .name = "postgres",
    .schemes = postgres_schemes,
    .open = open_postgres,
    COMMON,
    OWN_TABLES,
};

static const struct hf_engine_ops postgres_layout = {
    .name = "postgres with a layout",
    .schemes = postgres_schemes,
    .caps = LAYOUT_CAPS,
    .open = open_postgres,
    COMMON,
};
#endif

#ifdef HF_SQL_MYSQL
static const struct hf_engine_ops mysql_layout;

static int open_mysql(struct hf_engine **ret, const struct hf_host *host, struct hf_url *url,
                      hf_error *error)
{
    return open_sql(ret, &hf__mysql, &mysql_layout, &hf__sql_mysql, host, url, error);
}

static const char *const mysql_schemes[] = { "mysql", "mariadb", NULL };

const struct hf_engine_ops hf__mysql = {
    .name = "mysql",
    .schemes = mysql_schemes,
    .open = open_mysql,
    COMMON,
    OWN_TABLES,
};

static const struct hf_engine_ops mysql_layout = {
    .name = "mysql with a layout",
    .schemes = mysql_schemes,
    .caps = LAYOUT_CAPS,
    .open = open_mysql,
    COMMON,
};
#endif
