/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of etcd, made on the stack and read into an arena: no sockets, no clock. */
#ifndef HF_ENGINES_ETCD_WIRE_MESSAGES_H
#define HF_ENGINES_ETCD_WIRE_MESSAGES_H

#include "etcd.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef HfEtcd__ResponseHeader etcd_header;
typedef HfEtcd__KeyValue etcd_key_value;
typedef HfEtcd__RangeRequest etcd_range;
typedef HfEtcd__RangeResponse etcd_range_reply;
typedef HfEtcd__Compare etcd_compare;
typedef HfEtcd__TxnResponse etcd_txn_reply;
typedef HfEtcd__WatchResponse etcd_watch_reply;

/* ---- Bytes ---- */

/* A key, or the end of a range. */
struct etcd_bytes {
    const char *bytes;
    size_t length;
};

static inline ProtobufCBinaryData hf__etcd_binary(struct etcd_bytes bytes)
{
    return (ProtobufCBinaryData){ bytes.length, (uint8_t *)(uintptr_t)bytes.bytes };
}

static inline struct etcd_bytes hf__etcd_bytes(const char *bytes, size_t length)
{
    return (struct etcd_bytes){ bytes, length };
}

bool hf__etcd_is_key(const ProtobufCBinaryData *data, struct etcd_bytes key);

/* The end of the range of all keys that begin with `prefix`: in `room`, which has as many bytes as
 * the prefix, and one at least. Returns the length. */
size_t hf__etcd_prefix_end(const char *prefix, size_t length, char *room);

/* ---- Transactions ---- */

#define ETCD_COMPARES_MAX 6u
#define ETCD_OPERATIONS_MAX 8u

enum etcd_branch { ETCD_THEN, ETCD_ELSE };

/* Lives where it is made: it points into itself. */
struct etcd_txn {
    HfEtcd__TxnRequest message;
    etcd_compare compares[ETCD_COMPARES_MAX], *compare_list[ETCD_COMPARES_MAX];
    HfEtcd__RequestOp operations[2][ETCD_OPERATIONS_MAX], *lists[2][ETCD_OPERATIONS_MAX];
    union {
        etcd_range range;
        HfEtcd__PutRequest put;
        HfEtcd__DeleteRangeRequest removal;
    } bodies[2][ETCD_OPERATIONS_MAX];
};

void hf__etcd_txn_begin(struct etcd_txn *txn);
/* If `key` was created at this revision; 0: there is no such key. */
etcd_compare *hf__etcd_txn_if_created(struct etcd_txn *txn, struct etcd_bytes key,
                                      int64_t revision);
/* If its last change was at this revision; 0: there is no such key. */
void hf__etcd_txn_if_changed(struct etcd_txn *txn, struct etcd_bytes key, int64_t revision);
/* If all keys of the range were created before this revision; 1: there is none. */
void hf__etcd_txn_if_all_older(struct etcd_txn *txn, struct etcd_bytes key, struct etcd_bytes end,
                               int64_t revision);
void hf__etcd_txn_put(struct etcd_txn *txn, enum etcd_branch branch, struct etcd_bytes key,
                      struct etcd_bytes value, int64_t lease);
void hf__etcd_txn_delete(struct etcd_txn *txn, enum etcd_branch branch, struct etcd_bytes key);
/* The caller sets what the range is to be. */
etcd_range *hf__etcd_txn_range(struct etcd_txn *txn, enum etcd_branch branch, struct etcd_bytes key,
                               struct etcd_bytes end);
/* The first, or last, `limit` keys by the revision of their creation. */
void hf__etcd_range_by_creation(etcd_range *range, bool first, int64_t limit);
/* The same, by the revision of their last change. */
void hf__etcd_range_by_change(etcd_range *range, bool first, int64_t limit);

/* ---- Replies ---- */

/* What one message was read into, until the next one. */
struct etcd_arena {
    ProtobufCAllocator allocator;
    char *bytes;
    size_t size, used;
    struct etcd_overflow *overflow; /* more than the arena has; one block a piece */
    size_t overflowed;
};

void hf__etcd_arena_init(struct etcd_arena *arena);
void hf__etcd_arena_free(struct etcd_arena *arena);
/* NULL: it is no such message, or there is no memory. It lives until the next call. */
void *hf__etcd_read(struct etcd_arena *arena, const ProtobufCMessageDescriptor *type,
                    const uint8_t *bytes, size_t length);

/* Reply number `index` of a transaction, a range's; NULL: it is none. */
const etcd_range_reply *hf__etcd_txn_range_reply(const etcd_txn_reply *reply, size_t index);
/* Its only, or first, key; NULL: there is none, or the reply is none. */
const etcd_key_value *hf__etcd_txn_first_key(const etcd_txn_reply *reply, size_t index);
static inline int64_t hf__etcd_revision(const etcd_header *header)
{
    return header ? header->revision : 0;
}

#endif
