/* SPDX-License-Identifier: Apache-2.0 */
/* What a URL of ZooKeeper says: zk://[user:password@]host[:port][,host[:port]...][/path]
 * [?timeout=MS][&names=curator|kazoo][&parents=container|persistent][&auth=digest], or zks: for the
 * same with TLS. */
#include "base/error.h"
#include "engines/common/settings.h"
#include "zookeeper.h"

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

int hf__zk_settings(struct zk_settings *settings, struct hf_url *url, hf_error *error)
{
    struct hf_endpoints *servers = &settings->servers;
    bool tls = strcmp(url->scheme, "zks") == 0; /* mutant: zks-is-not-told-from-zk */
    int code = hf__settings_read(settings, options, sizeof options / sizeof *options, url, error);
    if (settings->persistent == HF_SETTING_ABSENT)
        settings->persistent = settings->kazoo;
    if (code == HF_OK)
        code = hf__endpoints_read(servers, url, tls ? PORT_TLS_DEFAULT : PORT_DEFAULT, error);
    if (code == HF_OK)
        code = read_root(settings, url, error);
    if (code == HF_OK && tls)
        code = hf__endpoints_open_tls(servers, url, error);
    hf__endpoints_shuffle(servers);
    return code;
}
