/* SPDX-License-Identifier: Apache-2.0 */
/* What a URL of ZooKeeper says: zk://[user:password@]host[:port][,host[:port]...][/path]
 * [?timeout=MS][&names=curator|kazoo][&parents=container|persistent][&auth=digest], or zks: for the
 * same with TLS. */
#include "base/error.h"
#include "base/rand.h"
#include "engines/common/settings.h"
#include "zookeeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT_DEFAULT 2181
#define PORT_TLS_DEFAULT 2281

static const struct hf_setting options[] = {
    { .name = "timeout",
      .type = HF_SETTING_NUMBER,
      .at = offsetof(struct zk_settings, timeout_ms),
      .unit = "milliseconds",
      .number = 5000,
      .min = 100,
      .max = 3600000 },
    { .name = "names",
      .type = HF_SETTING_CHOICE,
      .at = offsetof(struct zk_settings, kazoo),
      .words = { "curator", "kazoo" } },
    { .name = "parents",
      .type = HF_SETTING_CHOICE,
      .at = offsetof(struct zk_settings, persistent),
      .words = { "container", "persistent" },
      .choice = HF_SETTING_ABSENT },
    { .name = "auth",
      .type = HF_SETTING_CHOICE,
      .at = offsetof(struct zk_settings, auth),
      .words = { "digest" } },
};

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
    settings->user = url->user && *url->user ? url->user : NULL;
    settings->password = url->password;
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
    int code = hf__settings_read(settings, options, sizeof options / sizeof *options, url, error);
    if (settings->persistent == HF_SETTING_ABSENT)
        settings->persistent = settings->kazoo;
    if (code == HF_OK)
        code = read_root(settings, url, error);
    if (code == HF_OK)
        code = read_user(settings, url, error);
    return code == HF_OK ? read_place(settings, url, error) : code;
}
