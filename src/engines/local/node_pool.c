/* SPDX-License-Identifier: Apache-2.0 */
/* Claim nodes: a small cache of our own in front of the file's, and the sweep after the dead. */
#include "base/testing.h"
#include "file.h"
#include "local.h"

#include <stdlib.h>

static uint32_t node_count(unsigned k)
{
    return LOCAL_NODES << k;
}

static void adopt(struct local *local, struct local_node *node)
{
    node->id[0] = local->base.host->id[0];
    node->id[1] = local->base.host->id[1];
    local_put(&node->state, 0);
}

/* The file's nodes, from where the last search ended; the first of them all is as good as any. */
static struct local_node *search(struct local *local)
{
    unsigned segments = atomic_load(&local->segments);
    uint32_t total = LOCAL_NODES * ((1u << segments) - 1);
    uint32_t start = atomic_load_explicit(&local->node_hint, memory_order_relaxed) % total;
    for (uint32_t i = 0; i < total; i++) {
        uint32_t at = (start + i) % total;
        unsigned k = 31u - (unsigned)__builtin_clz(at / LOCAL_NODES + 1);
        struct local_node *node = local_node_in(local, k, at - LOCAL_NODES * ((1u << k) - 1));
        uint64_t nobody = 0;
        if (local_get(&node->session) == 0 &&
            atomic_compare_exchange_strong(&node->session, &nobody, local->session)) {
            HF_POINT("local:node:taken");
            atomic_store_explicit(&local->node_hint, at + 1, memory_order_relaxed);
            atomic_fetch_add(&local->nodes, 1);
            adopt(local, node);
            return node;
        }
    }
    return NULL;
}

static int grow(struct local *local, uint64_t segments, hf_error **error)
{
    bool stolen;
    int code = hf__local_guard(local, &local_header(local)->guard, &stolen, error);
    if (code)
        return code;
    if (local_get(&local_header(local)->segments) == segments)
        code = hf__local_grow(local, error);
    hf__local_unguard(&local_header(local)->guard);
    return code;
}

static struct local_node *search_harder(struct local *local, hf_error **error, int *code)
{
    for (unsigned pass = 0; pass < 2 * LOCAL_SEGMENTS; pass++) {
        uint64_t segments = local_get(&local_header(local)->segments);
        if (segments && segments <= LOCAL_SEGMENTS)
            hf__local_map(local, (unsigned)segments - 1);
        struct local_node *node = search(local);
        if (node)
            return node;
        if (pass == 0) {
            hf__local_sweep(local, 0);
            continue;
        }
        *code = grow(local, segments, error);
        if (*code)
            return NULL;
    }
    hf__explain(error, HF_ELIMIT, 0, "'%s' has no room for another claim", local->path);
    *code = HF_ELIMIT;
    return NULL;
}

struct local_node *hf__node_pool_take(struct local *local, hf_error **error, int *code)
{
    for (unsigned i = 0; i < LOCAL_CACHE; i++) {
        if (!atomic_load_explicit(&local->cache[i], memory_order_relaxed))
            continue;
        uint32_t reference = atomic_exchange_explicit(&local->cache[i], 0, memory_order_acquire);
        struct local_node *node = hf__local_node(local, reference);
        if (node)
            return node;
    }
    return search_harder(local, error, code);
}

void hf__node_pool_return(struct local *local, struct local_node *node)
{
    local_put(&node->session, 0);
    atomic_fetch_sub(&local->nodes, 1);
}

void hf__node_pool_give(struct local *local, struct local_node *node)
{
    const uint64_t *id = local->base.host->id;
    bool plain = node->id[0] == id[0] && node->id[1] == id[1];
    for (unsigned i = 0; plain && i < LOCAL_CACHE; i++) {
        uint32_t nothing = 0;
        if (!atomic_load_explicit(&local->cache[i], memory_order_relaxed) &&
            atomic_compare_exchange_strong_explicit(&local->cache[i], &nothing,
                                                    local_reference(local, node),
                                                    memory_order_release, memory_order_relaxed))
            return;
    }
    hf__node_pool_return(local, node);
}

/* ---- the sweep ---- */

/* True: nothing of its lock refers to the node any more, not even the journal, which the txn has
 * undone: a node that its owner was about to put into a list may be named there. */
static bool cleared(struct local *local, struct local_node *node, uint64_t session)
{
    uint32_t reference = local_state_lock(local_get(&node->state));
    struct txn txn;
    hf_error *ignored = NULL;
    if (!reference) /* mutant: sweep-frees-node-that-journal */
        return true;
    int code = hf__txn_enter(&txn, local, reference, &ignored);
    free(ignored);
    if (code)
        return false;
    if (local_get(&node->session) == session &&
        local_state_lock(local_get(&node->state)) == reference) {
        hf__txn_clear(&txn, node);
        hf__txn_pump(&txn);
    }
    hf__txn_leave(&txn);
    return !local_in_a_list(local_get(&node->state));
}

static void sweep_node(struct local *local, struct local_node *node, uint64_t session)
{
    bool gone = cleared(local, node, session);
    HF_POINT("local:sweep");
    if (gone)
        atomic_compare_exchange_strong(&node->session, &session, 0);
    else if (local_session_slot(session) == local->slot)
        atomic_fetch_add(&local->nodes, 1);
}

void hf__local_sweep(struct local *local, unsigned slot)
{
    unsigned segments = atomic_load(&local->segments);
    for (unsigned k = 0; k < segments; k++) {
        for (uint32_t i = 0; i < node_count(k); i++) {
            struct local_node *node = local_node_in(local, k, i);
            uint64_t session = local_get(&node->session);
            bool ours = !slot || local_session_slot(session) == slot;
            if (session && session != local->session && session != LOCAL_DETACHED && ours &&
                !hf__local_alive(local, session))
                sweep_node(local, node, session);
        }
    }
}
