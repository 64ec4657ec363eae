/* SPDX-License-Identifier: Apache-2.0 */
/* The engine `local:`: a state file that all processes of one machine map. */
#include "local.h"
#include "base/testing.h"
#include "file.h"

#include <unistd.h>

static struct local *of(struct hf_engine *engine)
{
    return (struct local *)engine;
}

/* How often an op is asked about again in one turn of the loop because something seems due. */
enum { DUES_MAX = 16, DUE_AGAIN_MS = 1 };

/* ---- opening and closing ---- */

static void free_local(struct local *local)
{
    for (unsigned k = 0; k < LOCAL_SEGMENTS; k++)
        free(atomic_load(&local->waiting[k]));
    int *descriptors[] = { &local->sender, &local->receiver };
    for (unsigned i = 0; i < 2; i++) {
        if (*descriptors[i] >= 0)
            close(*descriptors[i]);
    }
    hf__local_file_close(local);
    pthread_mutex_destroy(&local->map_mutex);
    pthread_mutex_destroy(&local->watch_mutex);
    free(local);
}

/* Once nothing of ours is with libuv or the loop any more. */
static void finish_close(struct local *local)
{
    pthread_mutex_lock(&local->watch_mutex);
    bool posted = local->watch_posted;
    pthread_mutex_unlock(&local->watch_mutex);
    if (!local->closing || local->handles || posted || atomic_load(&local->removed_posted))
        return;
    void (*closed)(void *arg) = local->closed;
    void *arg = local->closed_arg;
    free_local(local);
    closed(arg);
}

static int open_local(struct hf_engine **ret, const struct hf_host *host, struct hf_url *url,
                      hf_error *error)
{
    *ret = NULL;
    struct local *local = hf__calloc(1, sizeof(*local));
    if (!local) {
        *error = (hf_error){ .code = HF_ENOMEM, .text = "out of memory" };
        return HF_ENOMEM;
    }
    local->base.ops = &hf__local;
    local->base.host = host;
    local->finish = finish_close;
    local->directory = local->file = local->liveness = local->sender = local->receiver = -1;
    pthread_mutex_init(&local->map_mutex, NULL);
    local->spins = sysconf(_SC_NPROCESSORS_ONLN) > 1;
    hf__death_watch_open(local);
    hf__local_removed_open(local);
    int code = hf__local_file_open(local, url, error);
    if (code == HF_OK) {
        bool clean = hf__local_session_open(local);
        hf__local_raise_floor_to_clock(local); /* mutant: new-client-does-not-raise */
        /* To look at all nodes takes time, and makes them resident in this process. */
        if (!clean) /* mutant: slot-without-nodes-is-not-swept */
            hf__local_sweep(local, local->slot);
        code = hf__local_wake_open(local, error);
    }
    if (code) {
        free_local(local);
        return code;
    }
    *ret = &local->base;
    return HF_OK;
}

static void close_local(struct hf_engine *engine, void (*closed)(void *arg), void *arg)
{
    struct local *local = of(engine);
    local->closed = closed;
    local->closed_arg = arg;
    for (unsigned i = 0; i < LOCAL_CACHE; i++) {
        uint32_t reference = atomic_exchange(&local->cache[i], 0);
        struct local_node *node = hf__local_node(local, reference);
        if (node)
            hf__node_pool_return(local, node);
    }
    hf__local_session_close(local);
    hf__local_wake_close(local);
    hf__death_watch_close(local);
    local->closing = true;
    finish_close(local);
}

/* The child shares our descriptions: as long as it kept them, we would seem to live. */
static void local_forked(struct hf_engine *engine)
{
    struct local *local = of(engine);
    /* mutant: forked-child-keeps-parent */
    int *descriptors[] = { &local->directory, &local->file, &local->liveness, &local->sender,
                           &local->receiver };
    for (unsigned i = 0; i < sizeof(descriptors) / sizeof(descriptors[0]); i++) {
        if (*descriptors[i] >= 0)
            close(*descriptors[i]);
        *descriptors[i] = -1;
    }
    for (unsigned i = 0; i < LOCAL_WATCHES; i++) {
        if (local->watches[i].poll)
            close(local->watches[i].fd);
    }
}

/* ---- asking on the caller's thread ---- */

static enum hf_verdict attempt_sync(struct hf_engine *engine, struct hf_op *op)
{
    return hf__local_attempt(of(engine), op, false);
}

static enum hf_verdict release_sync(struct hf_engine *engine, struct hf_op *op)
{
    return hf__local_release(of(engine), op);
}

static void sleep_sync(struct hf_engine *engine, struct hf_op *op, int64_t until_ms)
{
    hf__local_sleep(of(engine), op, until_ms);
}

static void wake_sync(struct hf_engine *engine, struct hf_op *op)
{
    hf__local_rouse(of(engine), op);
}

static bool held_sync(struct hf_engine *engine, const struct hf_op *op)
{
    struct local *local = of(engine);
    uint32_t reference = local_op_node(op);
    struct local_node *node = hf__local_node(local, reference);
    /* The node is the op's until that is released, and what was lost is never held again. Its token
     * may have risen: a reader that left let a waiting upgrade through, and the op has yet to hear.
     */
    return node && !atomic_load_explicit(&local->removed, memory_order_relaxed) &&
           local_get(&node->session) == local->session &&
           local_state_state(local_get(&node->state)) == LOCAL_HELD;
}

/* ---- asking on the loop ---- */

/* The deaths of those it waits for are watched from now on. */
static void watch_blockers(struct local *local, struct hf_op *op)
{
    uint64_t sessions[LOCAL_WANTED];
    bool due = true;
    unsigned count = hf__local_blockers(local, op, sessions, &due);
    uint64_t dues = __atomic_load_n(&op->engine.word[1], __ATOMIC_RELAXED);
    __atomic_store_n(&op->engine.word[1], due && dues < DUES_MAX ? dues + 1 : 0, __ATOMIC_RELAXED);
    if (due && dues < DUES_MAX) {
        hf__op_wake(op);
        return;
    }
    /* In a damaged file something may seem due for ever: the rest of the loop has its turn. */
    if (due)
        op->out.retry_at_ms = op->in.asked_at_ms + DUE_AGAIN_MS;
    hf__death_watch(local, sessions, count);
}

static void local_attempt(struct hf_engine *engine, struct hf_op *op)
{
    struct local *local = of(engine);
    uint32_t before = local_op_node(op);
    enum hf_verdict verdict = hf__local_attempt(local, op, true);
    op->out.contacted = true;
    uint32_t node = local_op_node(op);
    bool waits = verdict == HF_REFUSED && op->in.enqueue && node;
    if (before && (before != node || !waits))
        hf__local_note(local, before, NULL);
    if (waits) {
        hf__local_note(local, node, op);
        watch_blockers(local, op);
    }
    hf__op_done(engine, op);
}

static void local_release(struct hf_engine *engine, struct hf_op *op)
{
    hf__local_release(of(engine), op);
    op->out.contacted = true;
    hf__op_done(engine, op);
}

static void local_oneshot(struct hf_engine *engine, struct hf_oneshot *asked)
{
    asked->contacted = true;
    if (asked->verb == HF_ONESHOT_INSPECT)
        hf__local_inspect(engine, asked);
    else if (asked->verb == HF_ONESHOT_DIAGNOSE)
        hf__local_examine(engine, asked);
    else
        hf__local_change(engine, asked);
}

/* Nothing here rests on a lease that is renewed. */
static void renew(struct hf_engine *engine, struct hf_lease *lease)
{
    (void)engine;
    hf__lease_answer(lease, lease->asked_at_ms, HF_LEASE_RENEWED, 0, NULL);
}

static const struct hf_engine_sync_ops sync_ops = {
    .attempt = attempt_sync,
    .release = release_sync,
    .sleep = sleep_sync,
    .wake = wake_sync,
    .held = held_sync,
    .fast_acquire = hf__local_fast_acquire,
    .fast_release = hf__local_fast_release,
    .fast_drop = hf__local_fast_drop,
};

static const char *const schemes[] = { "local", NULL };

const struct hf_engine_ops hf__local = {
    .name = "local",
    .schemes = schemes,
    .caps = HF_CAP_MUTEX | HF_CAP_FAIR | HF_CAP_RW | HF_CAP_UPGRADE | HF_CAP_PERMIT |
            HF_CAP_COUNTER | HF_CAP_LATCH | HF_CAP_TOKEN | HF_CAP_DETACH | HF_CAP_INSPECT |
            HF_CAP_INSPECT_ALL | HF_CAP_BREAK | HF_CAP_RATE,
    .open = open_local,
    .close = close_local,
    .attempt = local_attempt,
    .release = local_release,
    .renew = renew,
    .oneshot = local_oneshot,
    .detach = hf__local_change,
    .forgets = true,
    .names_threads = true,
    .raises_tokens = true,
    .sync = &sync_ops,
    .forked = local_forked,
};
