/* SPDX-License-Identifier: Apache-2.0 */
/* The engine `zk:`: opening, closing, and its table. */
#include "engines/zookeeper/session_pool.h"

#include "engines/zookeeper/doctor/doctor.h"

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

static void zk_attempt(struct hf_engine *engine, struct hf_op *op)
{
    struct zk_queue_node *place = hf__zk_session_pool_place((struct zk_client *)engine, op);
    if (place) {
        hf__zk_attempt(hf__zk_of(place), place);
        return;
    }
    op->out.verdict = HF_FAILED;
    hf__op_done(engine, op);
}

static void zk_release(struct hf_engine *engine, struct hf_op *op)
{
    hf__zk_release(hf__zk_session_pool_member((struct zk_client *)engine, op), op);
}

static void begin_oneshot(struct hf_engine *engine, struct hf_oneshot *oneshot)
{
    /* mutant: renewal-goes-to-first-session */
    struct zookeeper *zk = hf__zk_session_pool_member((struct zk_client *)engine, oneshot->op);
    if (oneshot->verb == HF_ONESHOT_INSPECT)
        hf__zk_inspect(zk, oneshot);
    else if (oneshot->verb == HF_ONESHOT_DIAGNOSE)
        hf__zk_diagnose(zk, oneshot);
    else
        hf__zk_change(zk, oneshot);
}

static void zk_explain_silence(struct hf_engine *engine, struct hf_op *op, hf_error **error)
{
    struct zookeeper *zk = hf__zk_session_pool_member((struct zk_client *)engine, op);
    hf__peer_why_silent(&zk->peer, error);
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
    .attempt = zk_attempt,
    .release = zk_release,
    .renew = hf__zk_renew,
    .oneshot = begin_oneshot,
    .forked = hf__zk_session_pool_forked,
    .why_silent = zk_explain_silence,
};
