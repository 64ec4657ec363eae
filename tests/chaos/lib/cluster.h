/* SPDX-License-Identifier: Apache-2.0 */
/* A Redis Cluster of a test's own: three masters, each with a replica. */
#ifndef HF_TESTS_CHAOS_LIB_CLUSTER_H
#define HF_TESTS_CHAOS_LIB_CLUSTER_H

#include "server.h"

#define CLUSTER_MASTERS 3
#define CLUSTER_NODES (2 * CLUSTER_MASTERS)
/* Replicas that were short of the processor try to be elected again and again. */
#define CLUSTER_SETTLES_MS 90000

struct cluster {
    struct server nodes[CLUSTER_NODES]; /* the masters come first; a replica follows three later */
    char bus[CLUSTER_NODES][SERVER_BUS_SIZE], file[CLUSTER_NODES][12], patience[12];
    const char *arguments[CLUSTER_NODES][18];
    /* More of each node's command line, ending with NULL; or NULL. */
    const char *const *more;
};

/* `patience_ms`: how long a node is silent before the others replace it. Nobody is replaced by
 * itself where that is 0. Call it in the thread that the test ends in. */
void cluster_start(struct cluster *cluster, int patience_ms);
/* Those that still live. */
void cluster_kill(struct cluster *cluster);

/* Names all masters; valid until the thread asks again. */
const char *cluster_url(const struct cluster *cluster, int timeout_ms);

bool is_master(const struct server *server);
/* The node that has the name now, as the first one that answers says. */
struct server *cluster_owner(struct cluster *cluster, const char *name);
/* A name that begins with the stem and belongs to a slot from `first` to `last`. */
void cluster_name(const struct cluster *cluster, const char *stem, long first, long last,
                  char *name, size_t size);
unsigned cluster_slot(const struct cluster *cluster, const char *key);
/* The slot is on its way from one master to another, and each has what it has; one key goes; all
 * that is left goes, and the slot has arrived. */
void cluster_part(struct cluster *cluster, int from, int to, unsigned slot);
void cluster_move_key(struct cluster *cluster, int from, int to, const char *key);
void cluster_arrive(struct cluster *cluster, int from, int to, unsigned slot);
/* Moves so many of the first slots of one master to another, with what is in them, one by one. */
void cluster_reshard(struct cluster *cluster, int from, int to, int slots);

#endif
