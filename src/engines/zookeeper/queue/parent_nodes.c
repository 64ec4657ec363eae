/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes above what we make: asked for from the top, all at once. Those that are there say so,
 * or that we may not make them, and neither matters if what is below them can be made. */
#include "engines/zookeeper/zookeeper.h"

#include <string.h>

int hf__zk_parent_error(int before, const struct zk_reply *reply)
{
    if (!reply || reply->error == ZK_NO_NODE || reply->error == ZK_UNIMPLEMENTED)
        return before;
    /* mutant: parent-that-may-not-be-made */
    return reply->error == ZK_NODE_EXISTS ? ZK_OK : reply->error;
}

void hf__zk_parent_answered(struct zookeeper *zk, const struct zk_reply *reply)
{
    if (reply && reply->error == ZK_UNIMPLEMENTED)
        zk->plain_parents = true;
}

bool hf__zk_ask_for_parents(struct zookeeper *zk, char *path, bool itself,
                            struct zk_request *(*create)(struct zookeeper *zk, void *arg,
                                                         int32_t operation),
                            void *arg)
{
    bool plain = zk->settings->persistent || zk->plain_parents;
    for (char *slash = strchr(path + 1, '/'); slash || itself;
         slash = slash ? strchr(slash + 1, '/') : NULL) {
        struct zk_request *request = create(zk, arg, plain ? ZK_CREATE : ZK_CREATE_CONTAINER);
        if (!request)
            return false;
        if (slash)
            *slash = 0;
        else
            itself = false;
        hf__zk_write_text(&request->body, path);
        if (slash)
            *slash = '/';
        hf__zk_write_create(&request->body, "", 0, plain ? ZK_PERSISTENT : ZK_CONTAINER,
                            zk->settings->servers.user != NULL);
        hf__zk_ask(zk, request);
    }
    return true;
}

static void parent_answered(struct zookeeper *zk, struct zk_request *request,
                            struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    hf__zk_parent_answered(zk, reply);
    place->parent_error = hf__zk_parent_error(place->parent_error, reply);
}

static struct zk_request *new_parent(struct zookeeper *zk, void *arg, int32_t operation)
{
    return hf__zk_queue_node_request(zk, arg, operation, parent_answered);
}

bool hf__zk_ask_for_parents_of(struct zookeeper *zk, struct zk_queue_node *place)
{
    return hf__zk_ask_for_parents(zk, place->path, true, new_parent, place);
}
