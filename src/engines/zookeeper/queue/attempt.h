/* SPDX-License-Identifier: Apache-2.0 */
/* An attempt's parts, for each other: acquire.c makes a node in the queue, or finds it again,
 * queue_position.c says what its neighbours mean, and complete.c ends the question. */
#ifndef HF_ENGINES_ZOOKEEPER_QUEUE_ATTEMPT_H
#define HF_ENGINES_ZOOKEEPER_QUEUE_ATTEMPT_H

#include "engines/zookeeper/zookeeper.h"

/* Parents come and go, and so may our node; somewhere it has to end. */
#define ZK_TRIES_MAX 8u

/* Has the claim left before the answer came? */
static inline bool hf__zk_has_left(const struct zk_request *request)
{
    return !request->place->op;
}

/* ---- acquire.c ---- */

/* False: nothing was asked, and the op says why. */
bool hf__zk_begin(struct zookeeper *zk, struct zk_queue_node *place);
void hf__zk_ask_for_node(struct zookeeper *zk, struct zk_queue_node *place);
/* Asks for the token of a node that was found in the queue, and whether this session has made it.
 */
void hf__zk_adopt(struct zookeeper *zk, struct zk_queue_node *place);
/* False: out of memory, and the attempt has ended with that. */
bool hf__zk_ask_for_children(struct zookeeper *zk, struct zk_queue_node *place,
                             zk_answered *answered);
/* False: out of memory, which the claim has heard. */
bool hf__zk_ask_for_barrier(struct zookeeper *zk, struct zk_queue_node *place);

/* ---- queue_position.c ---- */

void hf__zk_ask_for_list(struct zookeeper *zk, struct zk_queue_node *place);
void hf__zk_list_answered(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply);

/* ---- complete.c ---- */

/* What a server says that is none of ZooKeeper's proves nothing. */
void hf__zk_protocol_error(struct zookeeper *zk, struct zk_queue_node *place);
void hf__zk_wrong_kind(struct zookeeper *zk, struct zk_queue_node *place);

#endif
