/* SPDX-License-Identifier: Apache-2.0 */
/* Circles of threads that wait for each other. In one client the call that closes a circle finds it
 * in the lock entries, all of them at one moment. Over processes a call that has waited for its
 * deadlock_ms looks at what the store shows, twice (base/wait_graph.h). */
#ifndef HF_CORE_API_DEADLOCK_H
#define HF_CORE_API_DEADLOCK_H

#include "base/wait_graph.h"
#include "core/loop/uv_loop.h"
#include "core/oneshot/oneshot.h"
#include "core/table/blocked.h"

/* On the stack of a call that asks for a lock and blocks. */
struct hf_deadlock_wait {
    struct hf_interlude interlude, *stop;
    struct hf_blocked blocked;
    struct hf_peek listing;    /* of the look that is out */
    struct hf_graph first;     /* the list before that */
    int64_t next_ms, pause_ms; /* the next look; HF_NEVER: none */
    int64_t asked_ms;
    bool watches; /* the call's thread may be in a circle */
    bool looks, has_first;
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
