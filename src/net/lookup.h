/* SPDX-License-Identifier: Apache-2.0 */
/* Name look-ups that may take as long as they like: nothing waits for one but its listener. */
#ifndef HF_NET_LOOKUP_H
#define HF_NET_LOOKUP_H

#include <netdb.h>
#include <uv.h>

struct hf_lookup;

/* A look-up in `list` that is still out for this host and port, or has just been answered; else a
 * new one. So one connection has one look-up of a host out at most. 0, or a libuv code. */
int hf__lookup_begin(struct hf_lookup **list, const char *host, unsigned port,
                     struct hf_lookup **ret);

/* `listener` is called on its loop once the look-up is answered, which may be at once. NULL: it is
 * not called any more. */
void hf__lookup_listen(struct hf_lookup *lookup, uv_async_t *listener);

/* Ends an answered look-up. 0: *addresses is the caller's, for freeaddrinfo. Else a libuv code. */
int hf__lookup_take(struct hf_lookup **list, struct hf_lookup *lookup, struct addrinfo **addresses);

/* Drops all: nothing listens any more. */
void hf__lookups_drop(struct hf_lookup **list);

#endif
