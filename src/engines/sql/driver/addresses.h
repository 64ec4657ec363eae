/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses of a host, one after the other, for client libraries that would block in looking up
 * its name, or give the first address the time of all. */
#ifndef HF_ENGINES_SQL_DRIVER_ADDRESSES_H
#define HF_ENGINES_SQL_DRIVER_ADDRESSES_H

#include "base/loop.h"
#include "net/stream.h"

#include <netdb.h>

struct hf_host;
struct sql_place;

/* One try to connect. In zeroed memory of the driver's, which lives until hf__addresses_end. */
struct sql_addresses {
    char text[64]; /* the address that has its turn, in digits */
    unsigned port;
    unsigned untried; /* addresses behind it */
    unsigned count;
    /* addresses.c's own */
    const struct hf_host *host;
    const struct sql_place *place;
    const struct sql_address_events *events;
    struct hf_route own_route, *route;
    struct hf_lookup *lookup;
    struct uv_async_s *looked_up;
    struct addrinfo *found;
    unsigned at, next;
    struct hf_timer share;
    int64_t until_ms;
};

/* All run on the loop, never inside of hf__addresses_begin. */
struct sql_address_events {
    /* Connect to `text` and `port`. What the last address has led to is given up. */
    void (*attempt)(struct sql_addresses *addresses);
    /* There is none, or no time is left. */
    void (*given_up)(struct sql_addresses *addresses, const char *why);
};

/* `place` has a host, and lives as long. Each address gets its share of `limit_ms`. */
void hf__addresses_begin(struct sql_addresses *addresses, const struct hf_host *host,
                         const struct sql_place *place, int64_t limit_ms,
                         const struct sql_address_events *events);
/* The address that has its turn has failed: `attempt` is called for the next. False: it was the
 * last. */
bool hf__addresses_next(struct sql_addresses *addresses);
/* It is the right one: there is no limit any more, and the route's next connection begins here. */
void hf__addresses_proved(struct sql_addresses *addresses);
/* No event comes any more. May be called again, and for one that never began. */
void hf__addresses_end(struct sql_addresses *addresses);

#endif
