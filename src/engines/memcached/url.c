/* SPDX-License-Identifier: Apache-2.0 */
/* What a URL of memcached says: memcached://[user:password@]host[:port][,host[:port]...]
 * [?timeout=MS][&format=holdfast|symfony|laravel|tooz], memcacheds: for the same with TLS, or
 * memcached+unix:///path. */
#include "engines/common/settings.h"
#include "memcached.h"

#include <string.h>

#define PORT_DEFAULT 11211

static const struct hf_setting table[] = {
    { .name = "timeout",
      .type = HF_SETTING_NUMBER,
      .at = offsetof(struct mc_settings, timeout_ms),
      .unit = "milliseconds",
      .number = 3000,
      .min = 100,
      .max = 3600000 },
    { .name = "format",
      .type = HF_SETTING_CHOICE,
      .at = offsetof(struct mc_settings, format_name),
      .words = { "holdfast", "symfony", "laravel", "tooz" } },
};

static int read_hosts(struct mc_settings *settings, const struct hf_url *url, hf_error *error)
{
    if (strcmp(url->scheme, "memcached+unix") == 0)
        return hf__endpoints_read_socket(&settings->endpoints, url, error);
    if (url->host_count > 0 && strlen(url->path) > 1)
        return hf__url_refuse(url, error, "a server of memcached has no path: leave out \"%.60s\"",
                              url->path);
    return hf__endpoints_read(&settings->endpoints, url, PORT_DEFAULT, error);
}

/* Each library chooses the server of a key by a rule of its own, and by its own settings. */
static int check_count(const struct mc_settings *settings, const struct hf_url *url,
                       hf_error *error)
{
    if (settings->format_name != MC_HOLDFAST && url->host_count > 1)
        return hf__url_refuse(url, error,
                              "format=%s has one server: its library would choose another of "
                              "several for the same name",
                              table[1].words[settings->format_name]);
    return HF_OK;
}

/* The handshake sends both in one line. */
static int check_user(const struct mc_settings *settings, const struct hf_url *url, hf_error *error)
{
    const struct hf_endpoints *at = &settings->endpoints;
    if (at->user && (strpbrk(at->user, " \r\n") || strpbrk(at->password, "\r\n")))
        return hf__url_refuse(url, error, "memcached has no users with such characters");
    if (at->user && strlen(at->user) + strlen(at->password) > MC_USER_MAX)
        return hf__url_refuse(url, error, "user and password have at most %d bytes", MC_USER_MAX);
    return HF_OK;
}

int hf__mc_settings(struct mc_settings *settings, struct hf_url *url, hf_error *error)
{
    int code = hf__settings_read(settings, table, sizeof table / sizeof *table, url, error);
    settings->format = &hf__mc_formats[settings->format_name];
    if (code == HF_OK)
        code = read_hosts(settings, url, error);
    if (code == HF_OK)
        code = check_count(settings, url, error);
    if (code == HF_OK)
        code = check_user(settings, url, error);
    if (code == HF_OK && strcmp(url->scheme, "memcacheds") == 0)
        code = hf__endpoints_open_tls(&settings->endpoints, url, error);
    return code;
}
