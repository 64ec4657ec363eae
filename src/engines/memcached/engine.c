/* SPDX-License-Identifier: Apache-2.0 */
/* The engine `memcached:`: opening, closing, and its table. */
#include "base/error.h"
#include "base/testing.h"
#include "memcached.h"

#include <stdlib.h>

static int check_lease(const struct hf_host *host, const struct hf_url *url, hf_error *error)
{
    if (hf__mc_lease_fits(host->lease_ms))
        return HF_OK;
    return hf__url_refuse(url, error, MC_LEASE_RULE);
}

static int open_memcached(struct hf_engine **ret, const struct hf_host *host, struct hf_url *url,
                          hf_error *error)
{
    unsigned count = url->host_count ? url->host_count : 1;
    struct memcached *mc = hf__calloc(1, sizeof *mc + count * sizeof mc->servers[0]);
    *ret = NULL;
    if (!mc)
        return hf__error_set(error, HF_ENOMEM, 0, "out of memory for a client of memcached");
    int code = check_lease(host, url, error);
    if (code == HF_OK)
        code = hf__mc_settings(&mc->settings, url, error);
    if (code != HF_OK) {
        hf__endpoints_close(&mc->settings.endpoints);
        free(mc);
        return code;
    }
    mc->base = (struct hf_engine){ .ops = &hf__memcached, .host = host };
    hf__free_list_init(&mc->requests, sizeof(struct mc_request));
    mc->server_count = count;
    for (unsigned i = 0; i < count; i++)
        hf__mc_server_open(&mc->servers[i], mc, i);
    hf__host_event(host, HF_EVENT_ADVISORY, "", 0,
                   "locks at memcached are advisory: it may forget one by eviction or a restart");
    *ret = &mc->base;
    return HF_OK;
}

static void close_memcached(struct hf_engine *engine, void (*closed)(void *arg), void *arg)
{
    struct memcached *mc = (struct memcached *)engine;
    for (unsigned i = 0; i < mc->server_count; i++)
        hf__mc_server_close(&mc->servers[i]);
    hf__free_list_end(&mc->requests, NULL);
    hf__endpoints_close(&mc->settings.endpoints);
    free(mc);
    closed(arg);
}

static void begin_oneshot(struct hf_engine *engine, struct hf_oneshot *oneshot)
{
    struct memcached *mc = (struct memcached *)engine;
    if (oneshot->verb == HF_ONESHOT_DIAGNOSE)
        hf__mc_diagnose(mc, oneshot);
    else if (oneshot->verb != HF_ONESHOT_INSPECT)
        hf__mc_change(mc, oneshot);
    else if (oneshot->name)
        hf__mc_inspect(mc, oneshot);
    else
        hf__mc_list(mc, oneshot);
}

static void mc_forked(struct hf_engine *engine)
{
    struct memcached *mc = (struct memcached *)engine;
    for (unsigned i = 0; i < mc->server_count; i++)
        hf__peer_forked(&mc->servers[i].peer);
}

static void mc_explain_silence(struct hf_engine *engine, struct hf_op *op, hf_error **error)
{
    struct memcached *mc = (struct memcached *)engine;
    struct mc_server *server =
        op ? hf__mc_server_of(mc, op->in.name, op->in.name_length) : &mc->servers[0];
    hf__peer_why_silent(&server->peer, error);
}

static const char *const schemes[] = { "memcached", "memcacheds", "memcached+unix", NULL };

const struct hf_engine_ops hf__memcached = {
    .name = "memcached",
    .schemes = schemes,
    .caps = HF_CAP_MUTEX | HF_CAP_TOKEN | HF_CAP_DETACH | HF_CAP_INSPECT | HF_CAP_BREAK,
    .open = open_memcached,
    .close = close_memcached,
    .attempt = hf__mc_attempt,
    .release = hf__mc_release,
    .renew = hf__mc_renew,
    .compact = hf__mc_compact,
    .oneshot = begin_oneshot,
    .detach = hf__mc_detach,
    .forked = mc_forked,
    .why_silent = mc_explain_silence,
};
