/* SPDX-License-Identifier: Apache-2.0 */
/* What a URL of etcd says: etcd://[user:password@]host[:port][,host[:port]...][/path][?timeout=MS],
 * or etcds: for the same with TLS. */
#include "engines/common/settings.h"
#include "etcd.h"

#include "base/error.h"

#include <string.h>

#define PORT_DEFAULT 2379

static const struct hf_setting table[] = {
    { .name = "timeout",
      .type = HF_SETTING_NUMBER,
      .at = offsetof(struct etcd_settings, timeout_ms),
      .unit = "milliseconds",
      .number = 5000,
      .min = 100,
      .max = 3600000 },
};

/* "/a/b" and "/a/b/" put "a/b/" in front of every name. */
static void read_root(struct etcd_settings *settings, const struct hf_url *url)
{
    const char *path = url->path[0] == '/' ? url->path + 1 : url->path;
    size_t length = strlen(path);
    memcpy(settings->root, path, length);
    if (length > 0 && path[length - 1] != '/')
        settings->root[length++] = '/';
    settings->root[length] = 0;
}

static int read_tls(struct etcd_settings *settings, struct hf_url *url, hf_error *error)
{
    if (strcmp(url->scheme, "etcds") != 0)
        return HF_OK;
    int code = hf__endpoints_open_tls(&settings->servers, url, error);
    if (code == HF_OK && !hf__tls_offer(settings->servers.tls, "\2h2"))
        code = hf__error_set(error, HF_ENOMEM, 0, "out of memory for TLS");
    return code;
}

int hf__etcd_settings(struct etcd_settings *settings, struct hf_url *url, hf_error *error)
{
    int code = hf__settings_read(settings, table, sizeof table / sizeof *table, url, error);
    if (code == HF_OK)
        code = hf__endpoints_read(&settings->servers, url, PORT_DEFAULT, error);
    if (code == HF_OK)
        code = read_tls(settings, url, error);
    if (code != HF_OK) {
        hf__endpoints_close(&settings->servers);
        return code;
    }
    hf__endpoints_shuffle(&settings->servers);
    read_root(settings, url);
    return HF_OK;
}
