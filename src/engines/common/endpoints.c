/* SPDX-License-Identifier: Apache-2.0 */
/* The servers of a URL. */
#include "endpoints.h"

#include "base/rand.h"

#include <stdio.h>
#include <string.h>

/* What the kernel has room for. */
#define SOCKET_PATH_MAX 107

int hf__endpoints_user(const struct hf_url *url, const char **user, const char **password,
                       hf_error *error)
{
    *user = url->user && *url->user ? url->user : NULL;
    *password = url->password;
    if (*user && !*password)
        return hf__url_refuse(url, error, "a user needs a password: %s://user:password@host",
                              url->scheme);
    return HF_OK;
}

int hf__endpoints_read(struct hf_endpoints *ret, const struct hf_url *url, unsigned port,
                       hf_error *error)
{
    size_t used = 0;
    if (url->host_count == 0)
        return hf__url_refuse(url, error, "name at least one server, as in %s://host:%u",
                              url->scheme, port);
    for (unsigned i = 0; i < url->host_count; i++) {
        struct hf_stream_place *place = &ret->places[i];
        place->host = url->hosts[i].name;
        place->port = url->hosts[i].port ? url->hosts[i].port : port;
        if (i > 0 && used + 1 < sizeof ret->shown)
            ret->shown[used++] = ',';
        hf__url_write_place(ret->shown + used, sizeof ret->shown - used, place->host, place->port);
        used += strlen(ret->shown + used);
    }
    ret->count = url->host_count;
    return hf__endpoints_user(url, &ret->user, &ret->password, error);
}

int hf__endpoints_read_socket(struct hf_endpoints *ret, const struct hf_url *url, hf_error *error)
{
    ret->places[0].path = url->path;
    ret->count = 1;
    snprintf(ret->shown, sizeof ret->shown, "%.250s", url->path);
    if (url->host_count || *url->path != '/')
        return hf__url_refuse(url, error, "%s:///path names the socket's path, and no host",
                              url->scheme);
    if (strlen(url->path) > SOCKET_PATH_MAX)
        return hf__url_refuse(url, error, "a socket's path has at most %d bytes", SOCKET_PATH_MAX);
    return hf__endpoints_user(url, &ret->user, &ret->password, error);
}

int hf__endpoints_open_tls(struct hf_endpoints *endpoints, struct hf_url *url, hf_error *error)
{
    int code = hf__tls_open_by_url(&endpoints->tls, url, error);
    for (unsigned i = 0; i < endpoints->count; i++)
        endpoints->places[i].tls = endpoints->tls;
    return code;
}

void hf__endpoints_shuffle(struct hf_endpoints *endpoints)
{
    for (unsigned left = endpoints->count; left > 1; left--) {
        uint64_t salt;
        hf__random(&salt, sizeof salt);
        unsigned picked = (unsigned)(salt % left);
        struct hf_stream_place place = endpoints->places[picked];
        endpoints->places[picked] = endpoints->places[left - 1];
        endpoints->places[left - 1] = place;
    }
}

void hf__endpoints_close(struct hf_endpoints *endpoints)
{
    if (endpoints->tls)
        hf__tls_close(endpoints->tls);
    endpoints->tls = NULL;
}
