/* SPDX-License-Identifier: Apache-2.0 */
/* How a lock's name becomes a path, and what the nodes under it are called: nothing here asks a
 * server. The formats are Curator's and kazoo's; docs/engines/zookeeper.md shows them. */
#ifndef HF_ENGINES_ZOOKEEPER_QUEUE_NODE_NAMES_H
#define HF_ENGINES_ZOOKEEPER_QUEUE_NODE_NAMES_H

#include "engines/zookeeper/wire/codec.h"

#include <holdfast.h>

#define ZK_UUID_SIZE 37
/* Of a sequence number. */
#define ZK_DIGITS 10u
/* Of our own nodes, whose names are no longer than that; and of those that we look at. */
#define ZK_NODE_SIZE 64
#define ZK_CHILD_SIZE 160

/* What a node stands for: a place in a mutex' queue, or in a read-write lock's, a permit, a waiter
 * for a latch, or a candidate of an election. */
enum zk_family { ZK_STRANGER, ZK_LOCK, ZK_READER, ZK_WRITER, ZK_LEASE, ZK_AWAIT, ZK_CANDIDATE };

/* root + "/" + the name, with every byte that ZooKeeper does not take, or that would make one name
 * look like another, written as %XX. NULL: out of memory. The caller frees it. */
char *hf__zk_path_of(const char *root, const char *name, size_t length);
/* The way back, into `name`: its length, or 0 if no name is written so. */
size_t hf__zk_name_of(const char *root, const char *path, char name[HF_NAME_MAX + 1]);

void hf__zk_uuid(char uuid[ZK_UUID_SIZE]);
/* The part of a node's name before its number. */
void hf__zk_node_stem(char stem[ZK_NODE_SIZE], const char *uuid, enum zk_family family, bool kazoo);

struct zk_child {
    const char *name;
    size_t length;
    enum zk_family family;
    int64_t number;
};
struct zk_child hf__zk_child(const char *name, size_t length);
/* Is there any contender among them? */
bool hf__zk_has_contender(struct zk_reader children);

enum zk_family hf__zk_family_of(hf_mode mode);
/* Does a node of `other`, in front of one of `family`, keep that from being granted? */
bool hf__zk_stands_against(enum zk_family other, enum zk_family family);

/* What a list of children says to a node called `own`, with this number: */
struct zk_view {
    bool bad;                 /* it is no list, and the rest of this is nothing */
    bool own;                 /* it is among them */
    bool other_kind;          /* and so is a node of another kind of lock */
    bool blocked;             /* a node in front stands against it: */
    struct zk_child in_front; /* the nearest of those, in the list's memory */
};
void hf__zk_view(struct zk_view *view, struct zk_reader children, enum zk_family family,
                 const char *own, int64_t number);
/* The child that is called by this stem and a number, or none (length 0). False: it is no list. */
bool hf__zk_find_stem(struct zk_reader children, const char *stem, struct zk_child *child);

/* What we write into our nodes, for users that look: a line of words. */
struct zk_note {
    hf_mode mode;
    bool ours; /* it is a line of ours; else the rest is nothing, but for `owner`: all of it */
    uint32_t permits;
    int64_t pid, lease_ms;
    char host[64], owner[128];
    char thread[HF_OWNER_KEY_SIZE]; /* see hf_entry */
};
void hf__zk_note_write(const struct zk_note *note, char *text, size_t size);
void hf__zk_note_read(struct zk_note *note, const char *bytes, size_t length);

#endif
