/* SPDX-License-Identifier: Apache-2.0 */
/* What a URL of a quorum says: quorum:URL,URL,URL[?option=value...], each URL that of one server,
 * redis:, rediss: or redis+unix:. The options are for all of them. */
#include "quorum.h"

#include <stdio.h>
#include <string.h>

/* Options of the whole that make no sense for it, or belong to a server in the middle. */
static int check_options(struct hf_url *url, hf_error *error)
{
    if (hf__url_option(url, "format", NULL) || hf__url_option(url, "sync", NULL))
        return hf__url_refuse(url, error,
                              "the servers of a quorum have plain locks and no replicas; leave out "
                              "format and sync");
    if (hf__url_option(url, "fence", NULL))
        return hf__url_refuse(
            url, error, "a quorum's servers are kept in step by their tokens; leave out fence");
    for (unsigned i = 0; i < url->option_count; i++)
        if (strstr(url->options[i].value, "://"))
            return hf__url_refuse(
                url, error,
                "options stand at the end, after the last server, and are for all of "
                "them");
    return url->option_count < HF_URL_OPTIONS_MAX ? HF_OK
                                                  : hf__url_refuse(url, error, "too many options");
}

static bool is_one_server(const struct hf_url *url)
{
    static const char *const schemes[] = { "redis", "rediss", "redis+unix" };
    for (unsigned i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strcmp(url->scheme, schemes[i]) == 0)
            return true;
    return false;
}

/* What stands between the commas. */
static int read_member(struct quorum *quorum, struct hf_url *whole, const char *text, size_t length,
                       hf_error *error)
{
    char copy[HF_URL_MAX];
    struct hf_url *url = &quorum->urls[quorum->count];
    struct hf_engine *engine = NULL;
    snprintf(copy, sizeof copy, "%.*s", (int)length, text);
    if (hf__url_parse(url, copy, error) != HF_OK)
        return HF_EINVAL;
    if (!is_one_server(url))
        return hf__url_refuse(url, error,
                              "a quorum is of single servers, by redis:, rediss: or redis+unix:");
    for (unsigned i = 0; i < whole->option_count; i++)
        url->options[i] = whole->options[i];
    url->options[whole->option_count] =
        (struct hf_url_option){ .key = "format", .value = "simple" };
    url->option_count = whole->option_count + 1;
    int code = hf__redis_open_part(&engine, quorum->base.host, url, &hf__quorum_sink, error);
    if (code != HF_OK)
        return code;
    quorum->members[quorum->count++] = engine;
    for (unsigned i = 0; i < whole->option_count; i++)
        whole->options[i].used |= url->options[i].used;
    for (unsigned i = 0; i + 1 < quorum->count; i++)
        if (hf__redis_has_same_address(quorum->members[i], engine))
            return hf__url_refuse(url, error, "a quorum has each server but once");
    return HF_OK;
}

int hf__quorum_open_members(struct quorum *quorum, struct hf_url *url, hf_error *error)
{
    static const char form[] = "a quorum is of an odd number of servers, from 3 to 9: "
                               "quorum:redis://one,redis://two,redis://three";
    const char *text = url->path;
    unsigned count = 1;
    for (const char *at = text; *at; at++)
        count += *at == ',';
    int code = check_options(url, error);
    if (code == HF_OK &&
        (url->host_count || count < QUORUM_MIN || count > QUORUM_MAX || count % 2 == 0))
        code = hf__url_refuse(url, error, form);
    for (unsigned i = 0; i < count && code == HF_OK; i++) {
        size_t length = strcspn(text, ",");
        code = read_member(quorum, url, text, length, error);
        text += length + 1;
    }
    quorum->majority = count / 2 + 1; /* mutant: half-of-servers-are-enough */
    return code;
}
