/* SPDX-License-Identifier: Apache-2.0 */
/* Guards, and the undo journal of what is changed inside. A guard is a word that holds the session
 * inside. A visitor that finds a dead session there takes the guard over by exchanging exactly that
 * value (a session's number is never used again), and first undoes what the dead one had begun. */
#include "base/clock.h"
#include "base/testing.h"
#include "file.h"
#include "local.h"

#include <poll.h>
#include <sched.h>

enum { SPINS = 100, YIELDS_A_LOOK = 16, YIELDS = 400 };

static bool take_guard(_Atomic uint64_t *guard, uint64_t *seen, uint64_t session)
{
    return atomic_compare_exchange_strong_explicit(guard, seen, session, memory_order_acquire,
                                                   memory_order_relaxed);
}

static int stuck(struct local *local, uint64_t holder, hf_error **error)
{
    int pid = hf__local_session_pid(local, holder);
    if (!pid)
        hf__explain(error, HF_UNREACHABLE, 0,
                    "a client of '%s' has stopped in the middle of a change; continue or kill it",
                    local->path);
    else
        hf__explain(
            error, HF_UNREACHABLE, 0,
            "process %d has stopped in the middle of a change of '%s'; continue (kill -CONT "
            "%d) or kill it",
            pid, local->path, pid);
    return HF_UNREACHABLE;
}

static int64_t patience_ms(const struct local *local)
{
    int64_t limit_ms = local->base.host->request_timeout_ms;
    return limit_ms > 0 && limit_ms < LOCAL_PATIENCE_MS ? limit_ms : LOCAL_PATIENCE_MS;
}

/* The slow way: gives the holder time, and looks from time to time whether it lives. */
static int wait_for(struct local *local, _Atomic uint64_t *guard, bool *stolen, hf_error **error)
{
    int64_t until_ms = 0;
    for (unsigned round = 0;; round++) {
        uint64_t seen = 0;
        if (take_guard(guard, &seen, local->session))
            return HF_OK;
        if (round < SPINS) {
            hf__relax();
            continue;
        }
        /* mutant: dead-one-guard-is-never-taken */
        if (round % YIELDS_A_LOOK == 0 && seen != local->session && !hf__local_alive(local, seen) &&
            take_guard(guard, &seen, local->session)) {
            HF_POINT("local:guard:stolen");
            *stolen = true;
            return HF_OK;
        }
        if (round < SPINS + YIELDS) {
            sched_yield();
            continue;
        }
        if (!until_ms)
            until_ms = hf__clock_ms() + patience_ms(local);
        else if (hf__clock_ms() >= until_ms)
            return stuck(local, seen, error);
        poll(NULL, 0, 1);
    }
}

int hf__local_guard(struct local *local, _Atomic uint64_t *guard, bool *stolen, hf_error **error)
{
    uint64_t seen = 0;
    *stolen = false;
    if (take_guard(guard, &seen, local->session))
        return HF_OK;
    return wait_for(local, guard, stolen, error);
}

bool hf__local_guard_try(struct local *local, _Atomic uint64_t *guard)
{
    uint64_t seen = 0;
    if (take_guard(guard, &seen, local->session))
        return true;
    /* mutant: where-renaming-died-lock */
    return !hf__local_alive(local, seen) && take_guard(guard, &seen, local->session);
}

void hf__local_unguard(_Atomic uint64_t *guard)
{
    atomic_store_explicit(guard, 0, memory_order_release);
}

/* ---- the undo journal ---- */

static _Atomic uint64_t *journaled(struct local *local, uint32_t word)
{
    uint64_t offset = (uint64_t)word * 8;
    if (offset < LOCAL_SEGMENTS_AT)
        return NULL;
    unsigned k =
        63u - (unsigned)__builtin_clzll((offset - LOCAL_SEGMENTS_AT) / LOCAL_SEGMENT_SIZE + 1);
    if (!hf__local_map(local, k))
        return NULL;
    return (_Atomic uint64_t *)(void *)(local->map + offset);
}

/* Empties it. A release store only keeps the stores before it in their place; the next change's
 * first entry must not be written before this, or a kill in between would undo a mixture of both.
 */
static void empty_journal(struct local_lock *lock)
{
    atomic_store_explicit(&lock->journal_count, 0, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
}

/* Doing it twice is doing it once: a process that is killed in here leaves the rest to the next. */
void hf__txn_undo(struct txn *txn)
{
    struct local_lock *lock = txn->lock;
    uint32_t count = atomic_load_explicit(&lock->journal_count, memory_order_acquire);
    if (count > LOCAL_JOURNAL) {
        txn->damaged = true;
        count = 0;
    }
    while (count--) { /* mutant: journal-is-undone-first */
        _Atomic uint64_t *word = journaled(txn->local, lock->journal_word[count]);
        HF_POINT("local:undo");
        if (word)
            local_put(word, lock->journal_old[count]);
        else
            txn->damaged = true;
    }
    HF_POINT("local:undo:end");
    empty_journal(lock);
}

void hf__txn_set(struct txn *txn, _Atomic uint64_t *word, uint64_t value)
{
    struct local_lock *lock = txn->lock;
    uint32_t count = atomic_load_explicit(&lock->journal_count, memory_order_relaxed);
    if (txn->damaged || count >= LOCAL_JOURNAL) {
        txn->damaged = true; /* mutant: change-of-too-many-words */
        return;
    }
    lock->journal_word[count] = (uint32_t)(((uintptr_t)word - (uintptr_t)txn->local->map) / 8);
    lock->journal_old[count] = local_get(word);
    HF_POINT("local:journal"); /* mutant: word-is-changed-before-its-old */
    atomic_store_explicit(&lock->journal_count, count + 1, memory_order_release);
    HF_POINT("local:journal:counted");
    local_put(word, value);
    HF_POINT("local:set");
}

void hf__txn_commit(struct txn *txn)
{
    if (txn->damaged) {
        hf__txn_undo(txn);
        return;
    }
    HF_POINT("local:commit");
    empty_journal(txn->lock);
    HF_POINT("local:committed");
}
