/* SPDX-License-Identifier: Apache-2.0 */
/* The engine `zk:`: opening, closing, and its table. */
#include "engines/zookeeper/session/session_pool.h"

#include "base/error.h"
#include "base/testing.h"

static int open_zookeeper(struct hf_engine **ret, const struct hf_host *host, struct hf_url *url,
                          hf_error *error)
{
    *ret = NULL;
    struct zk_client *client = hf__calloc(1, sizeof *client);
    if (!client)
        return hf__error_set(error, HF_ENOMEM, 0, "out of memory for a client of ZooKeeper");
    int code = hf__zk_settings(&client->settings, url, error);
    if (code == HF_OK) {
        client->base = (struct hf_engine){ .ops = &hf__zookeeper, .host = host };
        if (!hf__zk_session_pool_open(client)) {
            hf__endpoints_close(&client->settings.servers);
            code = hf__error_set(error, HF_ENOMEM, 0, "out of memory for a session of ZooKeeper");
        }
    }
    if (code == HF_OK)
        *ret = &client->base;
    else
        free(client);
    return code;
}

static void close_zookeeper(struct hf_engine *engine, void (*closed)(void *arg), void *arg)
{
    struct zk_client *client = (struct zk_client *)engine;
    client->closed = closed;
    client->closed_arg = arg;
    hf__zk_session_pool_close(client);
}

static const char *const schemes[] = { "zk", "zks", NULL };

const struct hf_engine_ops hf__zookeeper = {
    .name = "zookeeper",
    .schemes = schemes,
    .caps = HF_CAP_MUTEX | HF_CAP_FAIR | HF_CAP_RW | HF_CAP_PERMIT | HF_CAP_LATCH | HF_CAP_TOKEN |
            HF_CAP_INSPECT | HF_CAP_INSPECT_ALL | HF_CAP_BREAK,
    .open = open_zookeeper,
    .close = close_zookeeper,
    .forgets = true,
    .names_threads = true,
    .attempt = hf__zk_session_pool_attempt,
    .release = hf__zk_session_pool_release,
    .renew = hf__zk_renew,
    .oneshot = hf__zk_session_pool_oneshot,
    .forked = hf__zk_session_pool_forked,
    .why_silent = hf__zk_session_pool_why_silent,
};
