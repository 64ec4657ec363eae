/* SPDX-License-Identifier: Apache-2.0 */
/* Circles of threads that wait for each other. In one process the call that closes a circle finds
 * it in the lock entries (own_circle.h). Over processes a call that has waited for its deadlock_ms
 * looks at what the stores of its process show, twice (base/wait_graph.h). */
#ifndef HF_CORE_API_DEADLOCK_H
#define HF_CORE_API_DEADLOCK_H

#include "base/wait_graph.h"
#include "core/api/own_circle.h"
#include "core/loop/uv_loop.h"
#include "core/oneshot/oneshot.h"
#include "core/table/blocked.h"

/* The most stores that one look is at. */
#define HF_DEADLOCK_STORES 8

struct hf_deadlock_list {
    struct hf_peek *peek;
    uint64_t store;
    bool complete;
    char at[HF_STORE_TEXT_SIZE];
};

/* On the stack of a call that asks for a lock and blocks. */
struct hf_deadlock_wait {
    struct hf_interlude interlude, *stop;
    struct hf_blocked blocked;
    struct hf_deadlock_list lists[HF_DEADLOCK_STORES]; /* of the look that is out */
    unsigned list_count;
    struct hf_graph first;     /* what the look before that has shown */
    int64_t next_ms, pause_ms; /* the next look; HF_NEVER: none */
    int64_t asked_ms, own_at_ms;
    int64_t due_ms;     /* since when the look that is next waits for the lists of other looks */
    bool watches;       /* the call's thread may be in a circle */
    bool own_is_listed; /* the first list is that of the call's own store */
    bool has_first;
    char circle[320];
};

/* Once the request has begun, before it is driven. `stop` is the call's other interlude, or NULL.
 * Returns: the interlude of both, or NULL. */
struct hf_interlude *hf__deadlock_wait_begin(struct hf_deadlock_wait *wait, struct hf_claim *claim,
                                             const struct hf_lock_args *ask, bool contended,
                                             struct hf_interlude *stop);
/* With the answer, which gets its sentence. */
void hf__deadlock_wait_end(struct hf_deadlock_wait *wait, struct hf_answer *answer);

#endif
