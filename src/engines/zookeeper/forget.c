/* SPDX-License-Identifier: Apache-2.0 */
/* Forgetting a free name: its empty node is deleted. Those above it go too if they are empty and
 * were missing when this session forgot something before: a server does not tell which nodes are
 * containers. A node with children is never deleted, and a claim makes a missing parent again. */
#include "engines/zookeeper/show/children_snapshot.h"

#include "base/testing.h"

#include <string.h>

static void end_forgetting(struct zookeeper *zk, struct children_snapshot *survey, int code)
{
    struct hf_oneshot *change = survey->arg;
    change->code = code;
    change->contacted = code != HF_UNREACHABLE && code != HF_ENOMEM;
    change->error = survey->error;
    survey->error = NULL;
    hf__zk_snapshot_free(survey);
    hf__oneshot_done(&zk->base, change);
}

/* Of a node above the name's nothing need be known. */
static void fail_forgetting(struct zookeeper *zk, struct zk_request *request,
                            const struct zk_reply *reply)
{
    struct children_snapshot *survey = request->arg;
    end_forgetting(zk, survey,
                   survey->above ? HF_OK : hf__zk_explain(zk, request, reply, &survey->error));
}

static struct zk_request *ask_about_node(struct zookeeper *zk, struct children_snapshot *survey,
                                         int32_t operation, zk_answered *answered)
{
    struct zk_request *request = hf__zk_session_request(zk, operation, answered, survey);
    if (!request) {
        end_forgetting(zk, survey, HF_ENOMEM);
        return NULL;
    }
    hf__zk_write_text(&request->body, survey->path);
    return request;
}

static void node_found(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply);

static void look_at_node(struct zookeeper *zk, struct children_snapshot *survey)
{
    struct zk_request *request = ask_about_node(zk, survey, ZK_EXISTS, node_found);
    if (!request)
        return;
    hf__zk_write_bool(&request->body, false);
    hf__zk_ask(zk, request);
}

static void look_above(struct zookeeper *zk, struct children_snapshot *survey)
{
    char *slash = strrchr(survey->path, '/');
    if (slash == survey->path) {
        end_forgetting(zk, survey, HF_OK);
        return;
    }
    *slash = 0;
    survey->above = true;
    look_at_node(zk, survey);
}

/* Made since a forgetting that found it missing. */
static bool is_new(const struct zookeeper *zk, const char *path)
{
    size_t length = zk->absent ? strlen(zk->absent) : 0;
    return length > 0 && strncmp(path, zk->absent, length) == 0 &&
           (path[length] == '/' || path[length] == 0);
}

static void note_absent(struct zookeeper *zk, const char *path)
{
    size_t size = strlen(path) + 1;
    if (is_new(zk, path))
        return;
    free(zk->absent);
    zk->absent = hf__calloc(1, size);
    if (zk->absent)
        memcpy(zk->absent, path, size);
}

static void node_deleted(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct children_snapshot *survey = request->arg;
    bool in_use = reply && (reply->error == ZK_NOT_EMPTY || reply->error == ZK_BAD_VERSION);
    if (reply && (reply->error == ZK_OK || reply->error == ZK_NO_NODE))
        look_above(zk, survey);
    else if (in_use && !survey->above)
        end_forgetting(zk, survey, HF_BUSY);
    else
        fail_forgetting(zk, request, reply);
}

static void node_found(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct children_snapshot *survey = request->arg;
    struct zk_stat stat;
    if (reply && reply->error == ZK_NO_NODE) {
        note_absent(zk, survey->path);
        look_above(zk, survey);
        return;
    }
    if (!reply || reply->error != ZK_OK) {
        fail_forgetting(zk, request, reply);
        return;
    }
    hf__zk_read_stat(&reply->body, &stat);
    /* Its children are other names' nodes. */
    if (stat.child_count > 0 || (survey->above && !is_new(zk, survey->path))) {
        end_forgetting(zk, survey, HF_OK);
        return;
    }
    if (stat.data_length > 0) { /* a latch's count, or another program's */
        end_forgetting(zk, survey, survey->above ? HF_OK : HF_BUSY);
        return;
    }
    struct zk_request *deletion = ask_about_node(zk, survey, ZK_DELETE, node_deleted);
    if (!deletion)
        return;
    hf__zk_write_int(&deletion->body, stat.version);
    hf__zk_ask(zk, deletion);
}

static void claims_found(struct zookeeper *zk, struct children_snapshot *survey)
{
    bool in_use = survey->count > 0 || survey->semaphore;
    if (survey->code != HF_OK || in_use)
        end_forgetting(zk, survey, survey->code != HF_OK ? survey->code : HF_BUSY);
    else
        look_at_node(zk, survey);
}

void hf__zk_forget(struct zookeeper *zk, struct hf_oneshot *change)
{
    struct children_snapshot *survey = hf__zk_snapshot_new(
        zk, hf__zk_path_of(zk->settings->root, change->name, change->name_length));
    if (!survey) {
        change->code = HF_ENOMEM;
        hf__oneshot_done(&zk->base, change);
        return;
    }
    survey->arg = change;
    survey->done = claims_found;
    hf__zk_snapshot_begin(zk, survey);
}
