/* SPDX-License-Identifier: Apache-2.0 */
/* A blocked caller's sleep: on the futex of its node, with a look now and then at those it waits
 * for. */
#include "base/clock.h"
#include "file.h"
#include "local.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    FIRST_LOOK_MS = 2,
    LOOK_MAX_MS = 20,
    WATCHED_LOOK_MS = 100,
    SPIN_US = 10,
    SPINS_A_LOOK = 16
};

static bool add_session(uint64_t sessions[LOCAL_WANTED], unsigned *count, uint64_t session)
{
    for (unsigned i = 0; i < *count; i++) {
        if (sessions[i] == session)
            return true;
    }
    if (*count == LOCAL_WANTED)
        return false;
    sessions[(*count)++] = session;
    return true;
}

/* Holders, and waiters before the op: they may be granted before it. */
static unsigned collect(struct txn *txn, struct local_node *own, uint64_t sessions[LOCAL_WANTED],
                        bool *due)
{
    unsigned count = 0;
    struct local_node *node = hf__wait_list_first(txn, &txn->lock->holders);
    for (; node; node = hf__wait_list_next(txn, node)) {
        int64_t deadline_ms = (int64_t)local_get(&node->deadline_ms);
        if (deadline_ms && deadline_ms <= hf__txn_now(txn))
            *due = true;
        if (!add_session(sessions, &count, local_get(&node->session)))
            break;
    }
    uint32_t previous = local_high(local_get(&own->link));
    for (unsigned i = 0; previous && i < LOCAL_WANTED; i++) {
        node = hf__txn_node(txn, previous);
        if (!node || !add_session(sessions, &count, local_get(&node->session)))
            break;
        previous = local_high(local_get(&node->link));
    }
    return count;
}

unsigned hf__local_blockers(struct local *local, struct hf_op *op, uint64_t sessions[LOCAL_WANTED],
                            bool *due)
{
    struct txn txn;
    hf_error *ignored = NULL;
    unsigned count = 0;
    struct local_node *node = hf__local_node(local, local_op_node(op));
    if (!node || hf__txn_enter(&txn, local, local_state_lock(local_get(&node->state)), &ignored)) {
        free(ignored);
        return 0;
    }
    uint64_t state = local_get(&node->state);
    bool waits =
        local_state_state(state) == LOCAL_WAITING ||
        (local_state_state(state) == LOCAL_HELD && local_state_flags(state) & LOCAL_PENDING);
    bool free_now = local_state_mode(state) == HF_MUTEX && !local_get(&txn.lock->holders);
    *due = !waits || free_now;
    if (waits)
        count = collect(&txn, node, sessions, due);
    *due = *due || txn.damaged;
    hf__txn_leave(&txn);
    for (unsigned i = 0; i < count; i++)
        *due = *due || !hf__local_alive(local, sessions[i]);
    return count;
}

/* False: the word is not what was seen, or we were woken. */
static bool sleep_on(struct local_node *node, uint32_t seen, int64_t sleep_ms)
{
    struct timespec limit = { .tv_sec = sleep_ms / 1000, .tv_nsec = sleep_ms % 1000 * 1000000 };
    uint32_t word = atomic_load(&node->futex);
    if ((word & ~1u) != seen ||
        (!(word & 1) && !atomic_compare_exchange_strong(&node->futex, &word, seen | 1)))
        return false;
    return syscall(SYS_futex, &node->futex, FUTEX_WAIT, seen | 1, &limit, NULL, 0) < 0 &&
           errno == ETIMEDOUT;
}

/* The lock is handed to this waiter next. */
static bool is_next(const struct local_node *node)
{
    uint64_t state = local_get(&node->state);
    if (local_state_mode(state) == HF_MUTEX)
        return local_state_flags(state) & LOCAL_DUE;
    return local_state_state(state) == LOCAL_WAITING && !local_high(local_get(&node->link));
}

/* For about as long as it takes to be woken. True: the word has changed. */
static bool spin(const struct local *local, struct local_node *node, uint32_t seen)
{
    if (!local->spins || !is_next(node))
        return false;
    int64_t until_us = hf__clock_us() + SPIN_US;
    do {
        for (unsigned i = 0; i < SPINS_A_LOOK; i++) {
            if ((atomic_load_explicit(&node->futex, memory_order_relaxed) & ~1u) != seen)
                return true;
            hf__relax();
        }
    } while (hf__clock_us() < until_us); /* mutant: waiter-that-is-next-spins */
    return false;
}

static bool roused(struct hf_op *op)
{
    return __atomic_exchange_n(&op->engine.word[1], 0, __ATOMIC_SEQ_CST);
}

static void sleep_in_slices(struct local *local, struct hf_op *op, struct local_node *node,
                            int64_t until_ms)
{
    uint32_t seen = local_high(op->engine.word[0]);
    int64_t slice_ms = FIRST_LOOK_MS;
    if (spin(local, node, seen))
        return;
    while (!roused(op)) {
        int64_t left_ms = until_ms - hf__clock_ms();
        if (left_ms <= 0 || !sleep_on(node, seen, left_ms < slice_ms ? left_ms : slice_ms))
            break;
        uint64_t sessions[LOCAL_WANTED];
        bool due = true;
        unsigned count = hf__local_blockers(local, op, sessions, &due);
        if (due)
            break;
        slice_ms = slice_ms * 2 < LOOK_MAX_MS ? slice_ms * 2 : LOOK_MAX_MS;
        if (hf__death_watch(local, sessions, count))
            slice_ms = WATCHED_LOOK_MS;
    }
}

void hf__local_sleep(struct local *local, struct hf_op *op, int64_t until_ms)
{
    uint32_t reference = local_op_node(op);
    struct local_node *node = hf__local_node(local, reference);
    if (!node)
        return;
    hf__local_note(local, reference, LOCAL_SLEEPER);
    sleep_in_slices(local, op, node, until_ms);
    hf__local_note(local, reference, NULL);
}
