/* SPDX-License-Identifier: Apache-2.0 */
/* What a URL of Redis says: redis://[user[:password]@][host[:port]][/database][?timeout=MS],
 * rediss: for the same with TLS, redis+unix:///path[?db=N], redis+sentinel://host,host/master, or
 * redis+cluster://host:port,host:port. */
#include "engines/common/endpoints.h"
#include "engines/common/settings.h"
#include "engines/redis/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATABASE_MAX 1000000

static const struct hf_setting options[] = {
    { .name = "timeout",
      .type = HF_SETTING_NUMBER,
      .at = offsetof(struct redis_settings, timeout_ms),
      .unit = "milliseconds",
      .number = 3000,
      .min = 100,
      .max = 3600000 },
    { .name = "format",
      .type = HF_SETTING_CHOICE,
      .at = offsetof(struct redis_settings, simple),
      .words = { "redisson", "simple" } },
    { .name = "fence",
      .type = HF_SETTING_CHOICE,
      .at = offsetof(struct redis_settings, unfenced),
      .words = { "on", "off" } },
    { .name = "sync",
      .type = HF_SETTING_NUMBER,
      .at = offsetof(struct redis_settings, replicas),
      .unit = "replicas",
      .max = 100 },
};

/* Where the path does not name it. */
static const struct hf_setting database_option = { .name = "db",
                                                   .type = HF_SETTING_NUMBER,
                                                   .at = offsetof(struct redis_settings, database),
                                                   .max = DATABASE_MAX };

static const struct hf_setting sentinel_option = { .name = "sentinel_password",
                                                   .type = HF_SETTING_TEXT,
                                                   .at = offsetof(struct redis_settings,
                                                                  sentinel_password),
                                                   .secret = true };

static bool by_sentinels(const struct hf_url *url)
{
    return strstr(url->scheme, "+sentinel") != NULL;
}

/* The database is an option here: the path names the master. */
static int read_sentinels(struct redis_settings *settings, struct hf_url *url, hf_error *error)
{
    settings->master = url->path + (*url->path == '/');
    settings->sentinels = url->hosts;
    settings->sentinel_count = url->host_count;
    if (!url->host_count || !*settings->master || strchr(settings->master, '/'))
        return hf__url_refuse(url, error,
                              "%s://host,host,host/master names the sentinels and the master "
                              "that they know",
                              url->scheme);
    snprintf(settings->shown, sizeof settings->shown, "master \"%.60s\"", settings->master);
    return hf__settings_read(settings, &sentinel_option, 1, url, error);
}

/* Any of the cluster's servers will do; the others are asked when it is down. */
static int read_seeds(struct redis_settings *settings, struct hf_url *url, hf_error *error)
{
    settings->seeds = url->hosts;
    settings->seed_count = url->host_count;
    if (!url->host_count || strlen(url->path) > 1)
        return hf__url_refuse(url, error,
                              "%s://host:port,host:port names some servers of the cluster, "
                              "and no database: a cluster has but one",
                              url->scheme);
    snprintf(settings->shown, sizeof settings->shown, "cluster of %.200s", url->hosts[0].name);
    return HF_OK;
}

/* redis:6379, or redis:/host: what was meant as a host would be taken for a database. */
static bool lacks_slashes(const struct hf_url *url)
{
    return !url->host_count && *url->path &&
           (*url->path != '/' || url->path[1 + strspn(url->path + 1, "0123456789")]);
}

static int read_place(struct redis_settings *settings, struct hf_url *url, hf_error *error)
{
    struct hf_stream_place *place = &settings->place;
    if (by_sentinels(url))
        return read_sentinels(settings, url, error);
    if (strstr(url->scheme, "+cluster"))
        return read_seeds(settings, url, error);
    if (strcmp(url->scheme, "redis+unix") == 0) {
        struct hf_endpoints socket = { .count = 0 };
        int code = hf__endpoints_read_socket(&socket, url, error);
        place->path = socket.places[0].path;
        memcpy(settings->shown, socket.shown, sizeof settings->shown);
        return code;
    }
    if (url->host_count > 1)
        return hf__url_refuse(url, error, "this engine speaks to one server; name one host");
    if (url->user && !url->host_count)
        return hf__url_refuse(url, error, "the host is missing after the '@'");
    if (lacks_slashes(url))
        return hf__url_refuse(url, error, "the host stands behind \"//\": %s://host:port/database",
                              url->scheme);
    place->host = url->host_count ? url->hosts[0].name : "127.0.0.1";
    place->port = url->host_count && url->hosts[0].port ? url->hosts[0].port : REDIS_PORT;
    hf__url_write_place(settings->shown, sizeof settings->shown, place->host, place->port);
    return HF_OK;
}

static int read_database(struct redis_settings *settings, struct hf_url *url, hf_error *error)
{
    bool in_path = settings->place.host && strlen(url->path) > 1; /* not with sentinels */
    const char *text = url->path + 1;
    if (!in_path) {
        int code = hf__settings_read(settings, &database_option, 1, url, error);
        if (code != HF_OK)
            return code;
    } else if (strspn(text, "0123456789") != strlen(text) || strlen(text) > 9 ||
               (settings->database = strtol(text, NULL, 10)) > DATABASE_MAX) {
        return hf__url_refuse(url, error, "a database is a number, such as redis://host/3");
    }
    if (settings->seeds && settings->database != 0)
        return hf__url_refuse(url, error, "a cluster has but one database: leave out db");
    return HF_OK;
}

static bool wants_tls(const struct hf_url *url)
{
    return strncmp(url->scheme, "rediss", strlen("rediss")) == 0;
}

void hf__redis_settings_close(struct redis_settings *settings)
{
    if (settings->place.tls)
        hf__tls_close(settings->place.tls);
    settings->place.tls = NULL;
}

int hf__redis_settings(struct redis_settings *settings, struct hf_url *url, hf_error *error)
{
    int code = hf__endpoints_user(url, &settings->user, &settings->password, error);
    if (code == HF_OK)
        code = hf__settings_read(settings, options, sizeof options / sizeof *options, url, error);
    settings->place.limit_ms = settings->timeout_ms;
    if (code == HF_OK)
        code = read_place(settings, url, error);
    if (code == HF_OK)
        code = read_database(settings, url, error);
    if (code == HF_OK && wants_tls(url))
        code = hf__tls_open_by_url(&settings->place.tls, url, error);
    return code;
}
