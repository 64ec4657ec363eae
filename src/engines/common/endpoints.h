/* SPDX-License-Identifier: Apache-2.0 */
/* Which servers a URL names, how they are reached, and as which user. Read once, when a client is
 * opened; its texts are the URL's own, which lives as long as the engine. */
#ifndef HF_ENGINES_COMMON_ENDPOINTS_H
#define HF_ENGINES_COMMON_ENDPOINTS_H

#include "base/url.h"
#include "net/stream.h"
#include "net/tls.h"

/* Zero at first. */
struct hf_endpoints {
    struct hf_stream_place places[HF_URL_HOSTS_MAX]; /* for peer.h's `place`, by peer->place_at */
    unsigned count;
    const char *user, *password; /* NULL: none */
    struct hf_tls *tls;          /* NULL: without */
    char shown[280];             /* "host:port,host:port", or a socket's path, for sentences */
};

/* The hosts of the URL, at `port` where it names none, and the user. HF_EINVAL, with *error: there
 * is no host, or a user without a password. */
int hf__endpoints_read(struct hf_endpoints *ret, const struct hf_url *url, unsigned port,
                       hf_error *error);
/* The one Unix socket of SCHEME+unix:///path, and the user; likewise. */
int hf__endpoints_read_socket(struct hf_endpoints *ret, const struct hf_url *url, hf_error *error);
/* After either: TLS to all of them, by the options of the URL. */
int hf__endpoints_open_tls(struct hf_endpoints *endpoints, struct hf_url *url, hf_error *error);
/* In a random order, so that not every client begins with the first server of the list. */
void hf__endpoints_shuffle(struct hf_endpoints *endpoints);
/* After any of these, also after a failure. */
void hf__endpoints_close(struct hf_endpoints *endpoints);

/* The user alone, for an engine with a list of servers of its own. */
int hf__endpoints_user(const struct hf_url *url, const char **user, const char **password,
                       hf_error *error);

#endif
