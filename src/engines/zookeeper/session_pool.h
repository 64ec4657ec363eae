/* SPDX-License-Identifier: Apache-2.0 */
/* The engine that the core knows. The paths of what lives on one session are few enough for the
 * servers to read its end back, so a client has a second session when the first one is full, and so
 * on: each is a `struct zookeeper`, with a connection of its own, and knows nothing of the others.
 */
#ifndef HF_ENGINES_ZOOKEEPER_SESSION_POOL_H
#define HF_ENGINES_ZOOKEEPER_SESSION_POOL_H

#include "engines/zookeeper/zookeeper.h"

struct zk_client {
    struct hf_engine base;
    struct zk_settings settings;
    struct hf_link members; /* in the order in which they are filled; the first one stays */
    struct hf_link leaving; /* that are being closed */
    unsigned count;         /* of members */
    unsigned opened;        /* so far */
    struct hf_timer look;   /* for those that nothing has rested on for a while */
    void (*closed)(void *arg);
    void *closed_arg;
};

/* False: out of memory. */
bool hf__zk_session_pool_open(struct zk_client *client);
/* Closes them all, and frees the client in the end. */
void hf__zk_session_pool_close(struct zk_client *client);

/* The claim's place, which is at one of them. NULL: there is none, and the op says why. */
struct zk_queue_node *hf__zk_session_pool_place(struct zk_client *client, struct hf_op *op);
/* The one that has the claim; the first one for what belongs to none (`op` may be NULL). */
struct zookeeper *hf__zk_session_pool_member(struct zk_client *client, const struct hf_op *op);
void hf__zk_session_pool_forked(struct hf_engine *engine);

#endif
