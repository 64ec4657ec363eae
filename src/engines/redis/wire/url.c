/* SPDX-License-Identifier: Apache-2.0 */
/* What a URL of Redis says: redis://[user[:password]@][host[:port]][/database][?timeout=MS],
 * rediss: for the same with TLS, redis+unix:///path[?db=N], redis+sentinel://host,host/master, or
 * redis+cluster://host:port,host:port. */
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_DEFAULT "3000"
#define TIMEOUT_MIN 100
#define TIMEOUT_MAX 3600000
#define DATABASE_MAX 1000000

static bool parse_number(const char *text, long least, long most, long *ret)
{
    char *end;
    if (*text < '0' || *text > '9' || strlen(text) > 9)
        return false;
    *ret = strtol(text, &end, 10);
    return !*end && *ret >= least && *ret <= most;
}

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
    settings->sentinel_password = hf__url_option(url, "sentinel_password", NULL);
    if (!url->host_count || !*settings->master || strchr(settings->master, '/'))
        return hf__url_refuse(
            url, error,
            "redis+sentinel://host,host,host/master names the sentinels and the master "
            "that they know");
    snprintf(settings->shown, sizeof settings->shown, "master \"%.60s\"", settings->master);
    return HF_OK;
}

/* Any of the cluster's servers will do; the others are asked when it is down. */
static int read_seeds(struct redis_settings *settings, struct hf_url *url, hf_error *error)
{
    settings->seeds = url->hosts;
    settings->seed_count = url->host_count;
    if (!url->host_count || strlen(url->path) > 1)
        return hf__url_refuse(
            url, error,
            "redis+cluster://host:port,host:port names some servers of the cluster, "
            "and no database: a cluster has but one");
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
        place->path = url->path;
        snprintf(settings->shown, sizeof settings->shown, "%.250s", url->path);
        if (url->host_count || *url->path != '/')
            return hf__url_refuse(url, error,
                                  "redis+unix:///path names the socket's path, and no host");
        /* What the kernel has room for. */
        if (strlen(url->path) > 107)
            return hf__url_refuse(url, error, "a socket's path has at most 107 bytes");
        return HF_OK;
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
    const char *text = in_path ? url->path + 1 : hf__url_option(url, "db", "0");
    long database;
    if (!parse_number(text, 0, DATABASE_MAX, &database))
        return hf__url_refuse(url, error, "a database is a number, such as redis://host/3");
    if (settings->seeds && database != 0)
        return hf__url_refuse(url, error, "a cluster has but one database: leave out db");
    settings->database = (unsigned)database;
    return HF_OK;
}

static int read_choices(struct redis_settings *settings, struct hf_url *url, hf_error *error)
{
    if (!hf__url_choice(url, "format", "redisson", "simple", &settings->simple))
        return hf__url_refuse(url, error, "format is redisson or simple");
    if (!hf__url_choice(url, "fence", "on", "off", &settings->unfenced))
        return hf__url_refuse(url, error, "fence is on or off");
    return HF_OK;
}

static int read_sync(struct redis_settings *settings, struct hf_url *url, hf_error *error)
{
    long replicas;
    if (!parse_number(hf__url_option(url, "sync", "0"), 0, 100, &replicas))
        return hf__url_refuse(url, error, "sync is a number of replicas, such as sync=1");
    settings->replicas = (unsigned)replicas;
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
    long timeout;
    settings->user = url->user && *url->user ? url->user : NULL;
    settings->password = url->password;
    if (settings->user && !settings->password)
        return hf__url_refuse(url, error, "a user needs a password: redis://user:password@host");
    if (!parse_number(hf__url_option(url, "timeout", TIMEOUT_DEFAULT), TIMEOUT_MIN, TIMEOUT_MAX,
                      &timeout))
        return hf__url_refuse(url, error,
                              "timeout is a number of milliseconds from 100 to 3600000");
    settings->timeout_ms = settings->place.limit_ms = timeout;
    int code = read_place(settings, url, error);
    if (code == HF_OK)
        code = read_database(settings, url, error);
    if (code == HF_OK)
        code = read_choices(settings, url, error);
    if (code == HF_OK)
        code = read_sync(settings, url, error);
    if (code == HF_OK && wants_tls(url))
        code = hf__tls_open_by_url(&settings->place.tls, url, error);
    return code;
}
