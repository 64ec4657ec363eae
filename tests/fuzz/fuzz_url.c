/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever is given for a URL: it is refused with a sentence or taken apart, and a password is in
 * neither what is shown nor the sentence. */
#include "base/url.h"
#include "engines/quorum/quorum.h"
#include "engines/redis/settings.h"

#include "core_side.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_inside(const struct hf_url *url, const char *text)
{
    return !text || (text >= url->storage && text < url->storage + sizeof url->storage);
}

static void check(struct hf_url *url)
{
    if (!is_inside(url, url->scheme) || !is_inside(url, url->user) ||
        !is_inside(url, url->password) || !is_inside(url, url->path))
        abort();
    if (url->host_count > HF_URL_HOSTS_MAX || url->option_count > HF_URL_OPTIONS_MAX)
        abort();
    for (unsigned i = 0; i < url->host_count; i++)
        if (!is_inside(url, url->hosts[i].name) || !*url->hosts[i].name)
            abort();
}

/* Files are not opened for a fuzzer. */
static void read_settings(struct hf_url *url)
{
    struct redis_settings settings = { 0 };
    hf_error error = { 0 };
    if (strncmp(url->scheme, "rediss", 6) == 0)
        return;
    if (hf__redis_settings(&settings, url, &error) != HF_OK && !*error.text)
        abort();
    hf__redis_settings_close(&settings);
}

/* A quorum's URLs are taken apart when its servers are opened; nobody connects to one yet. */
static void open_quorum(struct hf_url *url, const char *text)
{
    struct core_side core;
    hf_error error = { 0 };
    if (strcmp(url->scheme, "quorum") != 0 || strstr(text, "rediss"))
        return;
    core_side_init(&core);
    core_side_open(&core, &hf__quorum, url, &error);
    core_side_close(&core);
    if (strstr(error.text, ":geHeim@"))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct hf_url url;
    static char text[2 * HF_URL_MAX];
    hf_error error = { 0 };
    if (size >= sizeof text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    if (hf__url_parse(&url, text, &error) == HF_OK) {
        check(&url);
        read_settings(&url);
        open_quorum(&url, text);
    } else if (!*error.text) {
        abort();
    }
    /* A password that nothing else can look like. */
    const char *secret = "geHeim";
    static const char front[] = "redis://me:geHeim@";
    if (size < HF_URL_MAX && !strstr(text, secret)) {
        memmove(text + sizeof front - 1, text, strlen(text) + 1);
        memcpy(text, front, sizeof front - 1);
        hf__url_parse(&url, text, &error);
        if (strstr(url.redacted, secret) || strstr(error.text, secret))
            abort();
    }
    return 0;
}
