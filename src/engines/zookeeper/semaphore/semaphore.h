/* SPDX-License-Identifier: Apache-2.0 */
/* Semaphores: what a claim for permits has beside its place in a queue. */
#ifndef HF_ENGINES_ZOOKEEPER_SEMAPHORE_SEMAPHORE_H
#define HF_ENGINES_ZOOKEEPER_SEMAPHORE_SEMAPHORE_H

#include "engines/zookeeper/zookeeper.h"

/* The node that has the leases below it, and the semaphore's total in it: four bytes, as in
 * Curator's SharedCount. */
#define ZK_LEASES "leases"
#define ZK_LOCKS "locks"
#define ZK_TOTAL_SIZE 4u

/* `failed` NULL: nothing is left; else `reply` is what was said of it, or NULL. */
typedef void hf__zk_cleared(struct zookeeper *zk, struct zk_queue_node *place,
                            struct zk_request *failed, struct zk_reply *reply);

struct zk_permits {
    char *locks, *leases;    /* paths; place->path is one of them */
    char stem[ZK_NODE_SIZE]; /* of the leases' names */
    int64_t *numbers;        /* of the leases that are known */
    uint32_t count;          /* of those */
    uint32_t seen;           /* leases of everybody's when ours had been made */
    uint32_t out;            /* answers that are missing */
    int vain_error;          /* why it is in vain to go on: a refusal; ZK_OK if it is not */
    int refusal;             /* the first error among the answers; ZK_OK: there was none */
    int64_t total;           /* below 0: not known */
    struct hf_known known;   /* of leases of ours whose names are not known */
    bool watching;           /* the question for the total set a watch */
    bool first;              /* a bare try has not written yet */
    bool failed;             /* one of the answers was none */
    hf__zk_cleared *cleared;
};

/* Is the asking op gone? */
static inline bool hf__zk_is_late(const struct zk_request *request)
{
    return !request->place->op || request->place->session != request->session;
}

static inline bool hf__zk_is_error(const struct zk_reply *reply)
{
    return !reply || (reply->error != ZK_OK && reply->error != ZK_NO_NODE);
}

/* "path/child", in memory of its own. NULL: out of memory. */
char *hf__zk_join(const char *path, const char *child);
/* What the bytes in a leases' node say, or -1: nothing. */
int64_t hf__zk_total(const char *data, size_t length);
/* The other way. */
void hf__zk_total_bytes(uint32_t total, char bytes[ZK_TOTAL_SIZE]);

/* Replaces place->path. False: out of memory. */
bool hf__zk_permits_new(struct zk_queue_node *place);
void hf__zk_permits_free(struct zk_queue_node *place);
/* What one of the leases that are known is called. */
void hf__zk_lease_name(const struct zk_permits *permits, uint32_t index, char name[ZK_NODE_SIZE]);
/* No lease is left. */
void hf__zk_permits_forget(struct zk_queue_node *place);

/* True: it has taken the question over. */
bool hf__zk_semaphore_begin(struct zookeeper *zk, struct zk_queue_node *place);
/* No node stands in front. True: it goes on here; false: the claim has its leases. */
bool hf__zk_semaphore_turn(struct zookeeper *zk, struct zk_queue_node *place);
/* One does, and is asked about next: how many permits are there in all, now and when that changes?
 * False: out of memory, and the attempt has ended with that. */
bool hf__zk_semaphore_look(struct zookeeper *zk, struct zk_queue_node *place);
/* After both answers. True: it waits in vain, and the attempt has ended with that. */
bool hf__zk_semaphore_is_in_vain(struct zookeeper *zk, struct zk_queue_node *place);

/* ---- semaphore_release.c: what was taken goes back ---- */

/* Deletes whatever is there, known or not. False: out of memory. */
bool hf__zk_leases_clear(struct zookeeper *zk, struct zk_queue_node *place,
                         hf__zk_cleared *cleared);
bool hf__zk_semaphore_release(struct zookeeper *zk, struct zk_queue_node *place);

/* ---- semaphore_total.c: how many permits there are ---- */

/* With an hf_code and, where that needs one, an explanation that is the callee's. */
typedef void hf__zk_total_done(struct zookeeper *zk, void *arg, int code, hf_error *error);

/* Makes the semaphore with that many permits, or changes how many it has; 0: it goes. One of `done`
 * and `discard`, which may be NULL, is called once; `discard` when the engine closes. */
void hf__zk_total_set(struct zookeeper *zk, const char *name, size_t length, uint32_t permits,
                      bool only_new, hf__zk_total_done *done, void (*discard)(void *arg),
                      void *arg);
void hf__zk_totals_close(struct zookeeper *zk);

#endif
