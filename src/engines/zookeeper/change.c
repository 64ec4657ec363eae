/* SPDX-License-Identifier: Apache-2.0 */
/* The one-shot verbs: breaking, and what concerns a hold's own lease. */
#include "engines/zookeeper/latch/latch.h"
#include "engines/zookeeper/semaphore/semaphore.h"
#include "engines/zookeeper/show/children_snapshot.h"

#include <string.h>

static void finish_change(struct zookeeper *zk, struct hf_oneshot *change, int code)
{
    change->code = code;
    hf__oneshot_done(&zk->base, change);
}

/* ---- breaking ---- */

static void zk_broken(struct zookeeper *zk, struct children_snapshot *survey)
{
    struct hf_oneshot *change = survey->arg;
    int code = survey->code;
    change->error = survey->error;
    change->contacted = code != HF_UNREACHABLE && code != HF_ENOMEM;
    survey->error = NULL;
    hf__zk_snapshot_free(survey);
    finish_change(zk, change, code);
}

static void node_deleted(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    const struct surveyed *node = request->arg;
    struct children_snapshot *survey = node->survey;
    struct hf_oneshot *change = survey->arg;
    if (reply && reply->error == ZK_OK)
        change->result += hf__zk_snapshot_is_first(survey, node);
    else if ((!reply || reply->error != ZK_NO_NODE) && survey->code == HF_OK)
        survey->code = hf__zk_explain(zk, request, reply, &survey->error);
    if (--survey->out == 0)
        zk_broken(zk, survey);
}

static void delete_node(struct zookeeper *zk, struct children_snapshot *survey,
                        struct surveyed *node)
{
    struct zk_request *request = hf__zk_session_request(zk, ZK_DELETE, node_deleted, node);
    if (!request) {
        survey->code = HF_ENOMEM;
        return;
    }
    survey->out++;
    hf__zk_write_child(&request->body, survey->path, node->name);
    hf__zk_write_int(&request->body, -1);
    hf__zk_ask(zk, request);
}

static void holders_found(struct zookeeper *zk, struct children_snapshot *survey)
{
    const struct hf_oneshot *change = survey->arg;
    bool held = false, found = false;
    if (survey->semaphore && survey->code == HF_OK) {
        char *leases = hf__zk_join(survey->path, ZK_LEASES);
        if (leases) {
            hf__zk_snapshot_again(zk, survey, leases);
            return;
        }
        survey->code = HF_ENOMEM;
    }
    for (uint32_t i = 0; i < survey->count && survey->code == HF_OK; i++) {
        struct surveyed *node = &survey->nodes[i];
        if (!node->holds)
            continue;
        held = true;
        if (change->key && !hf__zk_snapshot_same_claim(node, change->key))
            continue;
        found = true;
        delete_node(zk, survey, node);
    }
    if (survey->code == HF_OK && held && !found)
        survey->code = HF_BUSY;
    if (survey->out == 0)
        zk_broken(zk, survey);
}

static void begin_break(struct zookeeper *zk, struct hf_oneshot *change)
{
    struct children_snapshot *survey = hf__zk_snapshot_new(
        zk, hf__zk_path_of(zk->settings->root, change->name, change->name_length));
    if (!survey) {
        finish_change(zk, change, HF_ENOMEM);
        return;
    }
    survey->arg = change;
    survey->done = holders_found;
    hf__zk_snapshot_begin(zk, survey);
}

/* ---- a fixed lease ---- */

/* Clients that look see the new end; and that the node could be written says that it is there. */
static void renewed(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct hf_oneshot *change = request->change;
    struct zk_queue_node *place = change->op->engine.pointer;
    change->contacted = reply != NULL;
    if (hf__zk_is_error(reply)) {
        finish_change(zk, change, hf__zk_explain(zk, request, reply, &change->error));
        return;
    }
    bool moved = reply->error == ZK_OK && place && hf__own_end_move(&place->end, change);
    finish_change(zk, change, moved ? HF_OK : HF_LOST);
}

static void begin_renewal(struct zookeeper *zk, struct hf_oneshot *change)
{
    char data[400];
    struct zk_queue_node *place = change->op->engine.pointer;
    if (!place || !place->end.timer.started) {
        finish_change(zk, change, HF_LOST);
        return;
    }
    struct zk_request *request = hf__zk_request(zk, place->session, ZK_SET_DATA, renewed);
    if (!request) {
        finish_change(zk, change, HF_ENOMEM);
        return;
    }
    int64_t lease_ms = hf__own_end_longer_ms(&place->end, change);
    request->change = change;
    hf__zk_describe(zk, change->op, lease_ms, data, sizeof data);
    hf__zk_write_child(&request->body, place->path, place->node);
    hf__zk_write_bytes(&request->body, data, strlen(data));
    hf__zk_write_int(&request->body, -1);
    hf__zk_ask(zk, request);
}

/* ---- how many permits there are ---- */

static void total_set(struct zookeeper *zk, void *arg, int code, hf_error *error)
{
    struct hf_oneshot *change = arg;
    change->error = error;
    change->contacted = code != HF_UNREACHABLE && code != HF_ENOMEM;
    finish_change(zk, change, code);
}

static void begin_setting(struct zookeeper *zk, struct hf_oneshot *change)
{
    if (change->value > INT32_MAX) {
        hf__explain(&change->error, HF_ELIMIT, 0, "a semaphore has %d permits at most", INT32_MAX);
        finish_change(zk, change, HF_ELIMIT);
        return;
    }
    hf__zk_total_set(zk, change->name, change->name_length, change->value, false, total_set, NULL,
                     change);
}

void hf__zk_change(struct zookeeper *zk, struct hf_oneshot *change)
{
    if (change->verb == HF_ONESHOT_SEMAPHORE_SET) {
        begin_setting(zk, change);
    } else if (change->verb == HF_ONESHOT_LATCH_SET || change->verb == HF_ONESHOT_LATCH_DOWN ||
               change->verb == HF_ONESHOT_LATCH_GET) {
        hf__zk_latch_change(zk, change);
    } else if (change->verb == HF_ONESHOT_BREAK) {
        begin_break(zk, change);
    } else if (change->verb == HF_ONESHOT_RENEW) {
        begin_renewal(zk, change);
    } else if (change->verb == HF_ONESHOT_FORGET) {
        hf__zk_forget(zk, change);
    } else {
        hf__explain(&change->error, HF_ENOTSUP, 0, "this engine cannot do that");
        finish_change(zk, change, HF_ENOTSUP);
    }
}
