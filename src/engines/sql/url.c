/* SPDX-License-Identifier: Apache-2.0 */
/* What a URL of a database says: postgres://[user[:password]@]host[:port][,host...]/database
 * [?socket=PATH][&timeout=MS][&tls=verify|insecure|off][&ca=FILE][&cert=FILE&key=FILE]
 * [&durability=full|relaxed][&schema=NAME][&connections=N][&layout=NAME][&stale=SECONDS], with
 * layout=session [&sessions=N][&lock_key=FORM] in place of connections; mysql: and mariadb: the
 * same without schema and durability. */
#include "engines/common/settings.h"
#include "engines/sql/session/session.h"
#include "engines/sql/sql.h"

#include <stdio.h>
#include <string.h>

#define TIMEOUT_DEFAULT_MS 3000
#define NOT_GIVEN (-1)
#define SESSIONS_DEFAULT 8u
#define SESSIONS_MAX 64
#define CONNECTIONS_DEFAULT 1

struct options {
    int64_t timeout_ms;
    int64_t stale_s, sessions, connections;
    const char *socket, *ca, *cert, *key, *layout, *schema;
    uint32_t tls, durability, lock_key;
};

static const struct hf_setting table[] = {
    { .name = "timeout",
      .type = HF_SETTING_NUMBER,
      .at = offsetof(struct options, timeout_ms),
      .unit = "milliseconds",
      .number = TIMEOUT_DEFAULT_MS,
      .min = 100,
      .max = 3600000 },
    { .name = "socket", .type = HF_SETTING_TEXT, .at = offsetof(struct options, socket) },
    { .name = "ca", .type = HF_SETTING_TEXT, .at = offsetof(struct options, ca) },
    { .name = "cert", .type = HF_SETTING_TEXT, .at = offsetof(struct options, cert) },
    { .name = "key", .type = HF_SETTING_TEXT, .at = offsetof(struct options, key) },
    { .name = "layout", .type = HF_SETTING_TEXT, .at = offsetof(struct options, layout) },
    { .name = "schema", .type = HF_SETTING_TEXT, .at = offsetof(struct options, schema) },
    { .name = "stale",
      .type = HF_SETTING_NUMBER,
      .at = offsetof(struct options, stale_s),
      .unit = "seconds",
      .number = NOT_GIVEN,
      .max = 31536000 },
    { .name = "sessions",
      .type = HF_SETTING_NUMBER,
      .at = offsetof(struct options, sessions),
      .unit = "sessions",
      .number = NOT_GIVEN,
      .min = 2,
      .max = SESSIONS_MAX },
    { .name = "connections",
      .type = HF_SETTING_NUMBER,
      .at = offsetof(struct options, connections),
      .unit = "connections",
      .number = NOT_GIVEN,
      .min = 1,
      .max = SQL_CONNECTIONS_MAX },
    { .name = "tls",
      .type = HF_SETTING_CHOICE,
      .at = offsetof(struct options, tls),
      .choice = HF_SETTING_ABSENT,
      .words = { "verify", "insecure", "off" } },
    { .name = "durability",
      .type = HF_SETTING_CHOICE,
      .at = offsetof(struct options, durability),
      .choice = HF_SETTING_ABSENT,
      .words = { "full", "relaxed" } },
    { .name = "lock_key",
      .type = HF_SETTING_CHOICE,
      .at = offsetof(struct options, lock_key),
      .choice = HF_SETTING_ABSENT,
      .words = { "name", "number", "distributedlock", "symfony", "rails" } },
};

static bool is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0;
}

bool hf__sql_is_local(const struct sql_settings *settings)
{
    for (unsigned i = 0; i < settings->place_count; i++)
        if (settings->places[i].host && !is_loopback(settings->places[i].host))
            return false;
    return true;
}

/* What leaves this machine is encrypted, unless the URL says otherwise. */
static enum sql_tls choose_tls(const struct hf_url *url, const struct options *options)
{
    if (options->tls != HF_SETTING_ABSENT)
        return (enum sql_tls)options->tls;
    if (options->ca || options->cert)
        return SQL_TLS_VERIFY;
    for (unsigned i = 0; i < url->host_count && !options->socket; i++)
        if (!is_loopback(url->hosts[i].name))
            return SQL_TLS_VERIFY;
    return SQL_TLS_OFF;
}

static void read_places(struct sql_settings *settings, const struct hf_url *url, const char *socket)
{
    size_t used = 0;
    unsigned port = settings->driver->port;
    if (socket) {
        unsigned given = url->host_count ? url->hosts[0].port : 0;
        settings->places[0] = (struct sql_place){ .socket = socket, .port = given ? given : port };
        settings->place_count = 1;
        snprintf(settings->shown, sizeof settings->shown, "%.350s", socket);
        return;
    }
    for (unsigned i = 0; i < url->host_count; i++) {
        struct sql_place *place = &settings->places[i];
        place->host = url->hosts[i].name;
        place->port = url->hosts[i].port ? url->hosts[i].port : port;
        char text[300];
        hf__url_write_place(text, sizeof text, place->host, place->port);
        if (used < sizeof settings->shown)
            used += (size_t)snprintf(settings->shown + used, sizeof settings->shown - used, "%s%s",
                                     i ? "," : "", text);
    }
    settings->place_count = url->host_count;
}

static bool is_on_this_machine(const struct hf_url *url)
{
    return url->host_count == 0 || (url->host_count == 1 && is_loopback(url->hosts[0].name));
}

static const char *first_of_tls(const struct options *options)
{
    bool encrypts = options->tls != HF_SETTING_ABSENT && options->tls != SQL_TLS_OFF;
    return encrypts ? "tls" : options->ca ? "ca" : options->cert ? "cert" : NULL;
}

/* A longer name would be cut, and a temporary schema is another one in each session. */
static bool is_schema_name(const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)name[i] < ' ')
            return false;
    return length > 0 && length <= 63 && strncmp(name, "pg_", 3) != 0 &&
           strcmp(name, "information_schema") != 0;
}

/* Session locks need no table. */
static int refuse_session_options(const struct options *options, bool by_session, bool mysql,
                                  const struct hf_url *url, hf_error *error)
{
    if (!by_session && (options->sessions != NOT_GIVEN || options->lock_key != HF_SETTING_ABSENT))
        return hf__url_refuse(url, error, "sessions and lock_key are for layout=session");
    if (by_session && options->connections != NOT_GIVEN)
        return hf__url_refuse(url, error,
                              "connections is for tables: with layout=session it is sessions=N");
    if (by_session && (options->schema || options->durability != HF_SETTING_ABSENT))
        return hf__url_refuse(url, error,
                              "schema and durability are for tables: layout=session has none");
    if (mysql && options->lock_key == SESSION_KEY_SYMFONY)
        return hf__url_refuse(url, error,
                              "lock_key=symfony is for postgres: Symfony has no "
                              "session locks at MySQL");
    return HF_OK;
}

/* An option that would change nothing is a mistake: what it was meant for does not happen. */
static int refuse_idle_options(const struct sql_settings *settings, const struct options *options,
                               const struct hf_url *url, hf_error *error)
{
    const struct sql_layout *layout = settings->layout;
    if (settings->driver->dialect == SQL_MYSQL && options->durability != HF_SETTING_ABSENT)
        return hf__url_refuse(url, error,
                              "durability is for postgres: here the server decides it for all "
                              "(innodb_flush_log_at_trx_commit)");
    if (settings->driver->dialect == SQL_MYSQL && options->schema)
        return hf__url_refuse(
            url, error, "schema is for postgres: here the database in the path is the schema");
    if (options->schema && !is_schema_name(options->schema))
        return hf__url_refuse(
            url, error,
            "schema is a name of 1 to 63 bytes, as it is without quotes, and none "
            "of the system's (pg_...)");
    if (options->stale_s != NOT_GIVEN && (!layout || strcmp(layout->name, "method_lock") != 0))
        return hf__url_refuse(url, error,
                              "stale is for layout=method_lock: only its rows have an update_time");
    if (options->socket && !is_on_this_machine(url))
        return hf__url_refuse(url, error,
                              "socket stands in the place of a host on this machine; leave out "
                              "the socket, or the hosts");
    if (options->socket && first_of_tls(options))
        return hf__url_refuse(url, error, "%s is for hosts: on a socket there is no TLS",
                              first_of_tls(options));
    if (options->ca && settings->tls != SQL_TLS_VERIFY)
        return hf__url_refuse(url, error, "ca is for tls=verify: else no certificate is checked");
    if (options->cert && settings->tls == SQL_TLS_OFF)
        return hf__url_refuse(url, error, "cert is for TLS, which tls=off turns off");
    return HF_OK;
}

int hf__sql_settings(struct sql_settings *settings, const struct sql_driver *driver,
                     struct hf_url *url, hf_error *error)
{
    struct options options;
    settings->driver = driver;
    int code = hf__settings_read(&options, table, sizeof table / sizeof table[0], url, error);
    if (code != HF_OK)
        return code;
    if (url->host_count == 0 && !options.socket)
        return hf__url_refuse(url, error, "name a host, as in %s://host/database, or a socket",
                              url->scheme);
    if (strlen(url->path) < 2 || strchr(url->path + 1, '/'))
        return hf__url_refuse(url, error, "name the database, as in %s://host/database",
                              url->scheme);
    if (!options.cert != !options.key)
        return hf__url_refuse(url, error, "cert and key belong together");
    bool by_session = options.layout && strcmp(options.layout, "session") == 0;
    settings->layout = options.layout ? hf__sql_layout(driver->dialect, options.layout) : NULL;
    if (options.layout && !settings->layout && !by_session)
        return hf__url_refuse(url, error,
                              "layout is one of session, method_lock, common_lock, shedlock, "
                              "laravel, symfony, int_lock");
    settings->user = url->user && *url->user ? url->user : NULL;
    settings->password = url->password;
    settings->database = url->path + 1;
    settings->tls = choose_tls(url, &options);
    code = refuse_idle_options(settings, &options, url, error);
    if (code == HF_OK)
        code =
            refuse_session_options(&options, by_session, driver->dialect == SQL_MYSQL, url, error);
    if (code != HF_OK)
        return code;
    if (by_session) {
        settings->sessions =
            options.sessions == NOT_GIVEN ? SESSIONS_DEFAULT : (unsigned)options.sessions;
        settings->session_key =
            options.lock_key == HF_SETTING_ABSENT ? SESSION_KEY_NAME : options.lock_key;
    }
    settings->connections =
        options.connections == NOT_GIVEN ? CONNECTIONS_DEFAULT : (unsigned)options.connections;
    settings->stale_s = options.stale_s == NOT_GIVEN ? 0 : options.stale_s;
    settings->schema = options.schema ? options.schema : "";
    settings->ca = options.ca;
    settings->cert = options.cert;
    settings->key = options.key;
    settings->timeout_ms = options.timeout_ms;
    settings->relaxed = options.durability == 1;
    read_places(settings, url, options.socket);
    return HF_OK;
}
