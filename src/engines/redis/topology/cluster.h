/* SPDX-License-Identifier: Apache-2.0 */
/* A Redis Cluster from the inside: which server has which lock, and how that is found out.
 *
 * The client that the core knows is the front: it has no connection of its own. Each server is a
 * node, a `struct redis` like the one for a single server, with its own connections, channels and
 * inbox, so that what one node does or leaves undone touches the others' locks in nothing. What is
 * asked about a name goes to the node of the name's slot (hf__redis_ask), and goes on from there if
 * the node says so. */
#ifndef HF_ENGINES_REDIS_TOPOLOGY_CLUSTER_H
#define HF_ENGINES_REDIS_TOPOLOGY_CLUSTER_H

#include "engines/redis/redis.h"
#include "slot.h"

/* More servers than these are not gone to. */
#define REDIS_NODES_MAX 500u

struct cluster {
    struct redis *front;
    /* NULL: out of memory. */
    struct redis *(*new_node)(struct redis *front);
    struct redis *nodes[REDIS_NODES_MAX]; /* stay until the client is closed */
    unsigned node_count;
    uint16_t owner[REDIS_SLOTS]; /* the node's number plus 1; 0: unknown */
    struct hf_link parked;       /* requests whose node is not known */
    /* Asking for the map: one round at a time, in which each node is asked once at most. */
    struct hf_timer again;
    int64_t began_at_ms;
    unsigned round;
    bool asking, wanted;
};

/* HF_OK, or a code with *error filled. */
int hf__cluster_open(struct redis *front, struct redis *(*new_node)(struct redis *front),
                     hf_error *error);
/* Ends all connections, then frees all nodes and the cluster. */
void hf__cluster_close(struct cluster *cluster, void (*disconnect)(struct redis *node));
/* After an error: does the request go on to another node? */
bool hf__cluster_redirects(struct connection *connection, struct redis_request *request,
                           const redisReply *error);
/* Does the failure of a connection in this state say anything of its slots? Call it before its
 * requests are answered. */
bool hf__cluster_is_concerned(struct connection *connection, enum hf_peer_state was);
/* A connection has failed: another node may have its slots by now. */
void hf__cluster_want_map(struct cluster *cluster);
/* The node that has slots and comes after `node`, or the first one; NULL: there is none. */
struct redis *hf__cluster_next(struct cluster *cluster, const struct redis *node);
/* The client is closed: only requests that may leave early go on. */
void hf__cluster_silence(struct cluster *cluster, void (*silence)(struct redis *node));
void hf__cluster_forked(struct cluster *cluster, void (*forked)(struct redis *node));

#endif
