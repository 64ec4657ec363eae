/* SPDX-License-Identifier: Apache-2.0 */
/* See addresses.h. The look-up is in a thread of net/lookup.c, which may outlive the client. */
#include "engines/sql/driver/addresses.h"

#include "base/clock.h"
#include "base/testing.h"
#include "core/engine.h"
#include "engines/sql/driver/driver.h"
#include "net/lookup.h"

#include <stdio.h>
#include <stdlib.h>

static struct hf_loop *addresses_loop_of(const struct sql_addresses *addresses)
{
    return addresses->host->loop;
}

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

static void stop_looking_up(struct sql_addresses *addresses)
{
    if (addresses->lookup)
        hf__lookup_listen(addresses->lookup, NULL);
    if (addresses->looked_up) {
        addresses->looked_up->data = NULL;
        uv_close((uv_handle_t *)addresses->looked_up, free_handle);
    }
    addresses->lookup = NULL;
    addresses->looked_up = NULL;
}

static void addresses_give_up(struct sql_addresses *addresses, const char *why)
{
    stop_looking_up(addresses);
    hf__timer_stop(addresses_loop_of(addresses), &addresses->share);
    addresses->events->given_up(addresses, why);
}

/* ---- one after the other ---- */

static const struct addrinfo *address_at(const struct sql_addresses *addresses, unsigned index)
{
    const struct addrinfo *address = addresses->found;
    for (unsigned i = 0; i < index; i++)
        address = address->ai_next;
    return address;
}

/* Until this server has let us in, the route's next try begins with the address after it. */
static void try_address(struct sql_addresses *addresses)
{
    const struct addrinfo *address = address_at(addresses, addresses->next);
    char port[8] = "0";
    int64_t now_ms = hf__loop_now(addresses_loop_of(addresses));
    int64_t left_ms = addresses->until_ms - now_ms;
    getnameinfo(address->ai_addr, address->ai_addrlen, addresses->text, sizeof addresses->text,
                port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    addresses->port = (unsigned)strtoul(port, NULL, 10);
    addresses->at = addresses->next;
    addresses->next = address->ai_next ? addresses->at + 1 : 0;
    addresses->route->first = addresses->next;
    int64_t share_ms = left_ms / (int64_t)addresses->untried;
    addresses->untried--;
    hf__timer_start(addresses_loop_of(addresses), &addresses->share,
                    hf__clock_add(now_ms, share_ms));
    addresses->events->attempt(addresses);
}

bool hf__addresses_next(struct sql_addresses *addresses)
{
    if (addresses->untried == 0)
        return false;
    try_address(addresses);
    return true;
}

static void share_is_over(struct hf_timer *timer)
{
    struct sql_addresses *addresses = HF_CONTAINER(timer, struct sql_addresses, share);
    if (addresses->untried > 0)
        try_address(addresses);
    else
        addresses_give_up(addresses, addresses->count ? "no connection in time"
                                                      : "its name is not found in time");
}

/* ---- finding them ---- */

static void looked_up(uv_async_t *handle)
{
    struct sql_addresses *addresses = handle->data;
    char words[200];
    if (!addresses)
        return;
    int status = hf__lookup_take(&addresses->route->lookups, addresses->lookup, &addresses->found);
    addresses->lookup = NULL;
    stop_looking_up(addresses);
    if (addresses->found) {
        for (const struct addrinfo *at = addresses->found; at; at = at->ai_next)
            addresses->count++;
        addresses->untried = addresses->count;
        addresses->next = addresses->route->first % addresses->count;
        try_address(addresses);
        return;
    }
    snprintf(words, sizeof words, "the host's name cannot be looked up: %s",
             status ? uv_strerror(status) : "no address");
    addresses_give_up(addresses, words);
}

static void look_up(struct sql_addresses *addresses)
{
    const struct sql_place *place = addresses->place;
    uv_async_t *handle = hf__calloc(1, sizeof *handle);
    int code = handle ? uv_async_init(addresses->host->uv, handle, looked_up) : UV_ENOMEM;
    if (code != 0) {
        free(handle);
        addresses_give_up(addresses, "out of memory for a look-up");
        return;
    }
    handle->data = addresses;
    addresses->looked_up = handle;
    code =
        hf__lookup_begin(&addresses->route->lookups, place->host, place->port, &addresses->lookup);
    if (code != 0) {
        addresses_give_up(addresses, uv_strerror(code));
        return;
    }
    addresses_loop_of(addresses)->watches_more = true;
    hf__lookup_listen(addresses->lookup, handle);
}

/* An address in digits needs no look-up, and no thread for it. */
static bool is_address(const char *host)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    return uv_ip4_addr(host, 0, &v4) == 0 || uv_ip6_addr(host, 0, &v6) == 0;
}

static void begin_later(struct hf_timer *timer)
{
    struct sql_addresses *addresses = HF_CONTAINER(timer, struct sql_addresses, share);
    hf__timer_init(timer, share_is_over);
    hf__timer_start(addresses_loop_of(addresses), timer, addresses->until_ms);
    if (!is_address(addresses->place->host)) {
        look_up(addresses);
        return;
    }
    snprintf(addresses->text, sizeof addresses->text, "%.63s", addresses->place->host);
    addresses->port = addresses->place->port;
    addresses->count = 1;
    addresses->events->attempt(addresses);
}

void hf__addresses_begin(struct sql_addresses *addresses, const struct hf_host *host,
                         const struct sql_place *place, int64_t limit_ms,
                         const struct sql_address_events *events)
{
    int64_t now_ms = hf__loop_now(host->loop);
    addresses->host = host;
    addresses->place = place;
    addresses->events = events;
    addresses->route = place->route ? place->route : &addresses->own_route;
    addresses->until_ms = hf__clock_add(now_ms, limit_ms);
    hf__timer_init(&addresses->share, begin_later);
    hf__timer_start(host->loop, &addresses->share, now_ms);
}

void hf__addresses_proved(struct sql_addresses *addresses)
{
    hf__timer_stop(addresses_loop_of(addresses), &addresses->share);
    addresses->route->first = addresses->at;
}

void hf__addresses_end(struct sql_addresses *addresses)
{
    if (!addresses->host)
        return;
    stop_looking_up(addresses);
    hf__timer_stop(addresses_loop_of(addresses), &addresses->share);
    if (addresses->found)
        freeaddrinfo(addresses->found);
    addresses->found = NULL;
    hf__route_end(&addresses->own_route);
}
