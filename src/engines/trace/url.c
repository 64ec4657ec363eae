/* SPDX-License-Identifier: Apache-2.0 */
/* trace:URL[?option=value...]: the URL of another engine, whose options stand at its end. */
#include "trace.h"

#include <stdio.h>
#include <string.h>

/* The path of a URL in a URL is as it was given. Without a "//" in it, it has been decoded, and is
 * about to be decoded once more. */
static bool write_inner(char *text, size_t size, const char *path)
{
    bool decoded = !strstr(path, "://");
    size_t used = 0;
    for (; *path && used + 3 < size; path++) {
        bool escape = decoded && (*path == '%' || *path == '?');
        used += (size_t)snprintf(text + used, size - used, escape ? "%%%02X" : "%c",
                                 (unsigned char)*path);
    }
    text[used] = 0;
    return !*path;
}

int hf__trace_read_url(struct trace *trace, struct hf_url *whole, hf_error *error)
{
    char text[HF_URL_MAX];
    struct hf_url *url = &trace->url;
    if (whole->host_count || !strchr(whole->path, ':') ||
        !write_inner(text, sizeof text, whole->path))
        return hf__url_refuse(whole, error,
                              "the URL of a store stands behind \"trace:\", as in "
                              "trace:redis://127.0.0.1");
    int code = hf__url_parse(url, text, error);
    if (code != HF_OK)
        return code;
    memcpy(url->options, whole->options, sizeof url->options);
    url->option_count = whole->option_count;
    return HF_OK;
}
