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

static int open_sql(struct hf_engine **ret, const struct hf_engine_ops *ops,
                    const struct hf_engine_ops *layout_ops, const struct sql_driver *driver,
                    const struct hf_host *host, struct hf_url *url, hf_error *error)
{
    *ret = NULL;
    struct sql *sql = hf__calloc(1, sizeof *sql);
    if (!sql)
        return hf__error_set(error, HF_ENOMEM, 0, "out of memory for a client of a database");
    int code = hf__sql_settings(&sql->settings, driver, url, error);
    bool by_session = code == HF_OK && sql->settings.sessions > 0;
    if (by_session)
        code = hf__session_open(ret, &sql->settings, host, error);
    if (by_session || code != HF_OK) {
        free(sql);
        return code;
    }
    sql->base = (struct hf_engine){ .ops = sql->settings.layout ? layout_ops : ops, .host = host };
    sql->dialect = driver->dialect;
    bool named = hf__schema_name_open(sql);
    sql->base.schema = sql->schema = write_statements(sql, SQL_SCHEMA);
    sql->base.grants = sql->grants = write_statements(sql, SQL_GRANTS);
    if (!named || !sql->schema || !sql->grants) {
        hf__schema_name_close(sql);
        free(sql->schema);
        free(sql->grants);
        free(sql);
        return hf__error_set(error, HF_ENOMEM, 0, "out of memory for a client of a database");
    }
    snprintf(sql->settings.session, sizeof sql->settings.session,
             "holdfast%016" PRIx64 "%016" PRIx64, host->id[0], host->id[1]);
    snprintf(sql->channel, sizeof sql->channel, "hf_%016" PRIx64 "%016" PRIx64, host->id[0],
             host->id[1]);
    hf__link_init(&sql->renewals);
    hf__link_open(sql);
    hf__waiting_open(sql);
    hf__counter_open(sql);
    *ret = &sql->base;
    return HF_OK;
}

static void end_close(struct hf_timer *timer)
{
    struct sql *sql = HF_CONTAINER(timer, struct sql, closing);
    void (*closed)(void *arg) = sql->closed;
    void *arg = sql->closed_arg;
    hf__link_remove(&sql->settle.link);
    hf__list_append_all(&sql->free_tasks, &sql->settling);
    hf__link_close(sql);
    hf__waiting_close(sql);
    free(sql->schema);
    free(sql->grants);
    hf__schema_name_close(sql);
    free(sql);
    closed(arg);
}

/* The receipts of takes that have just been answered go first. */
static void close_sql(struct hf_engine *engine, void (*closed)(void *arg), void *arg)
{
    struct sql *sql = (struct sql *)engine;
    bool waits = sql->unsettled > 0 && hf__peer_is_ready(&sql->peer);
    sql->closed = closed;
    sql->closed_arg = arg;
    hf__timer_init(&sql->closing, end_close);
    if (waits) /* mutant: client-closes-before-receipts-are-deleted */
        hf__timer_start(sql->base.host->loop, &sql->closing, hf__sql_now(sql) + CLOSE_MS);
    else
        end_close(&sql->closing);
}

static void forked_sql(struct hf_engine *engine)
{
    struct sql *sql = (struct sql *)engine;
    if (sql->connection)
        sql->connection->driver->forked(sql->connection);
}

static void why_silent_sql(struct hf_engine *engine, struct hf_op *op, hf_error **error)
{
    struct sql *sql = (struct sql *)engine;
    if (!hf__row_lock_explain(sql, op, error))
        hf__peer_why_silent(&sql->peer, error);
}

#define SQL_CAPS                                                                                   \
    (HF_CAP_MUTEX | HF_CAP_FAIR | HF_CAP_RW | HF_CAP_UPGRADE | HF_CAP_PERMIT | HF_CAP_COUNTER |    \
     HF_CAP_LATCH | HF_CAP_TOKEN | HF_CAP_DETACH | HF_CAP_INSPECT | HF_CAP_INSPECT_ALL |           \
     HF_CAP_BREAK | HF_CAP_SCHEMA)
/* The tables of other programs have mutexes, and no room for more. */
#define LAYOUT_CAPS                                                                                \
    (HF_CAP_MUTEX | HF_CAP_TOKEN | HF_CAP_INSPECT | HF_CAP_INSPECT_ALL | HF_CAP_BREAK |            \
     HF_CAP_SCHEMA)

#define OWN_TABLES .caps = SQL_CAPS, .raises_tokens = true, .detach = hf__sql_detach

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
