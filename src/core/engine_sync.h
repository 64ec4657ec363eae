/* SPDX-License-Identifier: Apache-2.0 */
/* The slots of an engine that replies without I/O, so that the calling thread need not go to the
 * loop (today the embedded engine alone). An engine with a connection has none of these. */
#ifndef HF_CORE_ENGINE_SYNC_H
#define HF_CORE_ENGINE_SYNC_H

#include "core/engine.h"

/* All slots are filled. They run on any thread, at the same time for different ops, and return the
 * verdict in place of calling hf__op_done. The asynchronous slots exist as well: the loop uses them
 * for hf_lock_async, and for what a calling thread has left behind. */
struct hf_engine_sync_ops {
    enum hf_verdict (*attempt)(struct hf_engine *engine, struct hf_op *op);
    enum hf_verdict (*release)(struct hf_engine *engine, struct hf_op *op);
    /* After `attempt` answered REFUSED with `enqueue`: sleeps on the calling thread until the op is
     * worth another attempt, or until_ms. May return early. */
    void (*sleep)(struct hf_engine *engine, struct hf_op *op, int64_t until_ms);
    /* Ends a `sleep` of another thread, or the next one if there is none now. */
    void (*wake)(struct hf_engine *engine, struct hf_op *op);
    /* Is a granted op still held? Called under a mutex of the core: never waits. */
    bool (*held)(struct hf_engine *engine, const struct hf_op *op);

    /* The fast path, for an exclusive claim without a lease, on a name that this client released
     * last and that no other owner has wanted since. Called under a mutex of the core, for one
     * claim of a name at a time: never waits. `kept` is a word of the engine's about the name. The
     * core stores it between two claims; 0 is none. False: take the common path. */
    bool (*fast_acquire)(struct hf_engine *engine, struct hf_op *op, uint64_t *kept);
    bool (*fast_release)(struct hf_engine *engine, struct hf_op *op, uint64_t *kept);
    /* The core is about to forget the name: the engine leaves nothing of this client's there.
     * False: not possible now. */
    bool (*fast_drop)(struct hf_engine *engine, uint64_t *kept);
};

/* Some grants may no longer be held (after a break, say): the core asks `held` about each. Loop
 * only. */
void hf__holds_recheck(const struct hf_host *host, const char *reason);

#endif
