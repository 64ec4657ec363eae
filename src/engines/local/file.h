/* SPDX-License-Identifier: Apache-2.0 */
/* The state file as it is mapped here: ranges, references, and what they point to. */
#ifndef HF_LOCAL_FILE_H
#define HF_LOCAL_FILE_H

#include "local.h"

bool hf__local_map_range(struct local *local, uint64_t from, uint64_t to);
/* 0 or an errno. */
int hf__local_allocate(struct local *local, uint64_t from, uint64_t to);
/* What to do after it failed. */
const char *hf__local_room_cure(int native);
/* Sees to it that segment `k` is mapped here. */
bool hf__local_map(struct local *local, unsigned k);
/* Makes one more segment; under the guard of names. */
int hf__local_grow(struct local *local, hf_error **error);
int hf__local_damaged(struct local *local, hf_error **error, const char *what);

static inline struct local_header *local_header(const struct local *local)
{
    return (struct local_header *)(void *)local->map;
}

static inline struct local_session *local_session(const struct local *local, unsigned slot)
{
    return (struct local_session *)(void *)(local->map + LOCAL_SESSIONS_AT) + slot;
}

/* By segment and number, which must exist here. */
static inline struct local_lock *local_lock_in(const struct local *local, unsigned k, uint32_t i)
{
    return (struct local_lock *)(void *)(local->map + local_segment_at(k)) + i;
}

static inline struct local_node *local_node_in(const struct local *local, unsigned k, uint32_t i)
{
    return (struct local_node *)(void *)(local->map + local_segment_at(k) +
                                         (LOCAL_LOCKS_SIZE << k)) +
           i;
}

static inline struct local_cell *local_cell_in(const struct local *local, unsigned k, uint32_t i)
{
    return (struct local_cell *)(void *)(local->map + local_segment_at(k) +
                                         ((LOCAL_LOCKS_SIZE + LOCAL_NODES_SIZE) << k)) +
           i;
}

static inline uint32_t local_reference(const struct local *local, const void *at)
{
    return (uint32_t)((uint64_t)((const unsigned char *)at - local->map) / 64);
}

/* By reference; NULL: there is no such thing, so it is 0 or the file is damaged. */
struct local_lock *hf__local_lock(struct local *local, uint32_t reference);
struct local_node *hf__local_find_node(struct local *local, uint32_t reference);
struct local_cell *hf__local_cell(struct local *local, uint32_t reference);
/* Most are in segment 0, which is always mapped. */
static inline struct local_node *hf__local_node(struct local *local, uint32_t reference)
{
    uint64_t offset = (uint64_t)reference * 64;
    uint64_t inside = offset - LOCAL_SEGMENTS_AT - LOCAL_LOCKS_SIZE;
    if (inside < LOCAL_NODES_SIZE && inside % sizeof(struct local_node) == 0)
        return (struct local_node *)(void *)(local->map + offset);
    return hf__local_find_node(local, reference);
}
/* Segment and number of a node. */
bool hf__local_node_place(uint32_t reference, unsigned *k, uint32_t *i);

#endif
