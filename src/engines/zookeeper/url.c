/* SPDX-License-Identifier: Apache-2.0 */
/* What a URL of ZooKeeper says: zk://[user:password@]host[:port][,host[:port]...][/path]
 * [?timeout=MS][&names=curator|kazoo][&parents=container|persistent][&auth=digest], or zks: for the
 * same with TLS. */
#include "base/error.h"
#include "base/rand.h"
#include "zookeeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT_DEFAULT 2181
#define PORT_TLS_DEFAULT 2281
#define TIMEOUT_DEFAULT "5000"
#define TIMEOUT_MIN 100
#define TIMEOUT_MAX 3600000

static bool parse_timeout(const char *text, int64_t *ret)
{
    char *end;
    if (*text < '0' || *text > '9' || strlen(text) > 9)
        return false;
    *ret = strtol(text, &end, 10);
    return !*end && *ret >= TIMEOUT_MIN && *ret <= TIMEOUT_MAX;
}

/* So that not every client comes to the first server of the list. */
static void shuffle(struct zk_settings *settings)
{
    for (unsigned left = settings->place_count; left > 1; left--) {
        uint64_t salt;
        hf__random(&salt, sizeof salt);
        unsigned picked = (unsigned)(salt % left);
        struct hf_stream_place place = settings->places[picked];
        settings->places[picked] = settings->places[left - 1];
        settings->places[left - 1] = place;
    }
}

static bool wants_tls(const struct hf_url *url)
{
    return strcmp(url->scheme, "zks") == 0;
}

static void read_hosts(struct zk_settings *settings, const struct hf_url *url)
{
    size_t used = 0;
    unsigned port = wants_tls(url) ? PORT_TLS_DEFAULT : PORT_DEFAULT;
    for (unsigned i = 0; i < url->host_count; i++) {
        struct hf_stream_place *place = &settings->places[i];
        place->host = url->hosts[i].name;
        place->port = url->hosts[i].port ? url->hosts[i].port : port;
        place->tls = settings->tls;
        if (used < sizeof settings->shown)
            used += (size_t)snprintf(settings->shown + used, sizeof settings->shown - used,
                                     "%s%.200s:%u", i ? "," : "", place->host, place->port);
    }
    settings->place_count = url->host_count;
    shuffle(settings);
}

/* "/a/b", "/" and "" are paths; what ZooKeeper itself refuses is not. */
static int read_root(struct zk_settings *settings, const struct hf_url *url, hf_error *error)
{
    size_t length = strlen(url->path);
    while (length > 0 && url->path[length - 1] == '/')
        length--;
    memcpy(settings->root, url->path, length);
    settings->root[length] = 0;
    char name[HF_NAME_MAX + 1];
    size_t name_length = length ? hf__zk_name_of("", settings->root, name) : 0;
    char *again = name_length ? hf__zk_path_of("", name, name_length) : NULL;
    if (name_length && !again)
        return hf__error_set(error, HF_ENOMEM, 0, "out of memory for a client of ZooKeeper");
    bool good = length == 0 || (again && strcmp(again, settings->root) == 0);
    free(again);
    return good ? HF_OK
                : hf__url_refuse(url, error,
                                 "the path is no path of ZooKeeper's, such as zk://host/locks");
}

static int read_user(struct zk_settings *settings, struct hf_url *url, hf_error *error)
{
    const char *scheme = hf__url_option(url, "auth", "digest");
    settings->user = url->user && *url->user ? url->user : NULL;
    settings->password = url->password;
    if (strcmp(scheme, "digest") != 0)
        return hf__url_refuse(url, error, "auth=digest is the only kind of authentication");
    if (settings->user && !settings->password)
        return hf__url_refuse(url, error, "a user needs a password: zk://user:password@host");
    return HF_OK;
}

static int read_place(struct zk_settings *settings, struct hf_url *url, hf_error *error)
{
    int code = wants_tls(url) ? hf__tls_open_by_url(&settings->tls, url, error) : HF_OK;
    if (code == HF_OK)
        read_hosts(settings, url);
    return code;
}

void hf__zk_settings_close(struct zk_settings *settings)
{
    if (settings->tls)
        hf__tls_close(settings->tls);
    settings->tls = NULL;
}

int hf__zk_settings(struct zk_settings *settings, struct hf_url *url, hf_error *error)
{
    if (url->host_count == 0)
        return hf__url_refuse(url, error, "name at least one server, as in zk://host:2181");
    if (!parse_timeout(hf__url_option(url, "timeout", TIMEOUT_DEFAULT), &settings->timeout_ms))
        return hf__url_refuse(url, error,
                              "timeout is a number of milliseconds from 100 to 3600000");
    if (!hf__url_choice(url, "names", "curator", "kazoo", &settings->kazoo))
        return hf__url_refuse(url, error, "names is \"curator\" or \"kazoo\"");
    settings->persistent = settings->kazoo;
    if (!hf__url_choice(url, "parents", "container", "persistent", &settings->persistent))
        return hf__url_refuse(url, error, "parents is \"container\" or \"persistent\"");
    int code = read_root(settings, url, error);
    if (code == HF_OK)
        code = read_user(settings, url, error);
    return code == HF_OK ? read_place(settings, url, error) : code;
}
