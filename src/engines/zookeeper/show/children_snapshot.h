/* SPDX-License-Identifier: Apache-2.0 */
/* A survey of one path: its queue as it was at one moment, and what each node in it says. */
#ifndef HF_ENGINES_ZOOKEEPER_SHOW_CHILDREN_SNAPSHOT_H
#define HF_ENGINES_ZOOKEEPER_SHOW_CHILDREN_SNAPSHOT_H

#include "engines/zookeeper/zookeeper.h"

struct children_snapshot;

struct surveyed {
    struct children_snapshot *survey;
    char name[ZK_NODE_SIZE];
    enum zk_family family;
    int64_t number;
    bool there, holds;
    struct zk_stat stat;
    struct zk_note note;
};

struct children_snapshot {
    struct hf_link link;    /* in zk->surveys */
    char *path;             /* owned */
    struct surveyed *nodes; /* in the order of the queue */
    uint32_t count, room, out;
    bool semaphore; /* it has its permits below this path */
    bool above;     /* forgetting it: the path is no longer the name's, but one above it */
    int64_t total;  /* what the path itself says of permits, or -1 */
    int code;       /* of the survey: HF_OK, or why it failed, with `error` */
    hf_error *error;
    /* Of every other child; may be NULL. */
    void (*met)(struct children_snapshot *survey, const char *child, size_t length);
    void (*done)(struct zookeeper *zk, struct children_snapshot *survey);
    void *arg;
    void (*discard)(struct children_snapshot *survey); /* frees `arg`; may be NULL */
};

/* Takes `path` over. NULL: out of memory. */
struct children_snapshot *hf__zk_snapshot_new(struct zookeeper *zk, char *path);
/* Looks; `done` is called once. */
void hf__zk_snapshot_begin(struct zookeeper *zk, struct children_snapshot *survey);
void hf__zk_snapshot_free(struct children_snapshot *survey);
/* For another path, which it takes over. */
void hf__zk_snapshot_again(struct zookeeper *zk, struct children_snapshot *survey, char *path);
/* A claim for several permits has as many nodes. */
bool hf__zk_snapshot_same_claim(const struct surveyed *node, const char *name);
/* No other node of its claim is in front of it. */
bool hf__zk_snapshot_is_first(const struct children_snapshot *survey, const struct surveyed *node);
void hf__zk_snapshots_close(struct zookeeper *zk);

/* ---- entries.c: what a survey that is done shows ---- */

hf_kind hf__zk_kind_of(const struct children_snapshot *survey);
void hf__zk_show(struct hf_oneshot *query, const struct children_snapshot *survey, const char *name,
                 size_t length);
/* Of a semaphore: its holders, and then its waiters. */
void hf__zk_show_leases(struct hf_oneshot *query, const struct children_snapshot *survey,
                        const char *name, size_t length);
void hf__zk_show_line(struct hf_oneshot *query, const struct children_snapshot *survey,
                      const char *name, size_t length);

#endif
