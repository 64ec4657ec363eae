/* SPDX-License-Identifier: Apache-2.0 */
/* From a name to its lock. Locks lie in windows of their segment where the name's hash points; a
 * place that was used once is never unused again, so a search ends at the first that never was. */
#include "base/testing.h"
#include "file.h"
#include "local.h"

#include <errno.h>
#include <string.h>

struct search {
    struct local *local;
    uint64_t hash;
    unsigned k, i;
    bool blind; /* there is more, which cannot be mapped here */
};

/* The next lock along the windows, or NULL when they are through. */
static struct local_lock *next_lock(struct search *search)
{
    if (search->i == LOCAL_WINDOW) {
        search->i = 0;
        search->k++;
    }
    search->blind = search->k < local_get(&local_header(search->local)->segments) &&
                    !hf__local_map(search->local, search->k);
    if (search->blind || search->k >= local_get(&local_header(search->local)->segments))
        return NULL;
    uint32_t mask = (LOCAL_LOCKS << search->k) - 1;
    return local_lock_in(search->local, search->k, (uint32_t)(search->hash + search->i++) & mask);
}

static struct local_lock *next_match(struct search *search)
{
    for (struct local_lock *lock; (lock = next_lock(search)) != NULL;) {
        uint64_t hash = atomic_load_explicit(&lock->hash, memory_order_acquire);
        if (hash == search->hash)
            return lock;
        if (hash == LOCAL_HASH_NEVER)
            return NULL;
    }
    return NULL;
}

/* A name that we cannot see may be there all the same; to make it again would be a second lock. */
static int cannot_see(struct local *local, hf_error **error)
{
    if (local_get(&local_header(local)->segments) > LOCAL_SEGMENTS)
        return hf__local_damaged(local, error, "it claims more segments than there can be");
    hf__explain(error, HF_ENOMEM, errno,
                "cannot map all of '%s', which others made larger; raise 'ulimit -v'", local->path);
    return HF_ENOMEM;
}

static const char *bytes_of(struct local *local, const struct local_lock *lock)
{
    if (lock->name_length > LOCAL_NAME_LONGEST)
        return NULL;
    if (!lock->name_cell)
        return lock->name_length <= LOCAL_NAME_INLINE ? lock->name : NULL;
    struct local_cell *cell = hf__local_cell(local, lock->name_cell);
    return cell ? cell->name : NULL;
}

const char *hf__txn_name_bytes(struct txn *txn, uint32_t *length)
{
    *length = txn->lock->name_length;
    const char *bytes = bytes_of(txn->local, txn->lock);
    if (!bytes)
        txn->damaged = true;
    return bytes;
}

static bool has_name(struct local *local, const struct local_lock *lock, const char *name,
                     uint32_t length, uint64_t hash)
{
    if (local_get(&lock->hash) != hash || lock->name_length != length)
        return false;
    const char *bytes = bytes_of(local, lock);
    return bytes && !memcmp(bytes, name, length); /* mutant: names-are-compared-by-their */
}

/* ---- making one, under the guard of names ---- */

static bool cell_in_use(struct local *local, const struct local_cell *cell)
{
    struct local_lock *user =
        cell->lock <= UINT32_MAX && cell->lock ? hf__local_lock(local, (uint32_t)cell->lock) : NULL;
    return user && user->name_cell == local_reference(local, cell) &&
           local_get(&user->hash) != LOCAL_HASH_NEVER;
}

static struct local_cell *free_cell(struct local *local)
{
    uint64_t segments = local_get(&local_header(local)->segments);
    if (!segments || segments > LOCAL_SEGMENTS || !hf__local_map(local, (unsigned)segments - 1))
        return NULL;
    uint32_t total = LOCAL_CELLS * ((1u << segments) - 1);
    uint32_t start = atomic_load_explicit(&local->cell_hint, memory_order_relaxed);
    for (uint32_t i = 0; i < total; i++) {
        uint32_t at = (start + i) % total;
        unsigned k = 31u - (unsigned)__builtin_clz(at / LOCAL_CELLS + 1);
        struct local_cell *cell = local_cell_in(local, k, at - LOCAL_CELLS * ((1u << k) - 1));
        if (!cell_in_use(local, cell)) {
            atomic_store_explicit(&local->cell_hint, at + 1, memory_order_relaxed);
            return cell;
        }
    }
    return NULL;
}

/* No visitor looks at the name of a lock whose hash is not its own yet. */
static bool write_name(struct local *local, struct local_lock *lock, const char *name,
                       uint32_t length)
{
    if (length > LOCAL_NAME_INLINE) {
        struct local_cell *cell = free_cell(local);
        if (!cell)
            return false;
        memcpy(cell->name, name, length);
        cell->lock = local_reference(local, lock);
        HF_POINT("local:name:cell");
        lock->name_cell = local_reference(local, cell);
    } else {
        memcpy(lock->name, name, length);
        lock->name_cell = 0;
    }
    lock->name_length = length;
    HF_POINT("local:name:written");
    return true;
}

static bool publish(struct local *local, struct local_lock *lock, const char *name, uint32_t length,
                    uint64_t hash)
{
    if (!write_name(local, lock, name, length))
        return false;
    atomic_store_explicit(&lock->hash, hash, memory_order_release);
    HF_POINT("local:name:published");
    return true;
}

/* What a forgotten name's tokens have reached, every later one of any name exceeds. */
void hf__txn_forget(struct txn *txn)
{
    /* mutant: forgotten-name-leaves-no-floor */
    hf__local_raise_floor(txn->local, local_get(&txn->lock->token));
    HF_POINT("local:forget:floor");
    local_put(&txn->lock->hash, LOCAL_HASH_RENAMED);
    HF_POINT("local:forget:hash");
    local_put(&txn->lock->token, 0);
    local_put(&txn->lock->numbers, 0);
    local_put(&txn->lock->shape, 0);
    HF_POINT("local:forget:end");
}

/* The windows are full: an idle lock among them makes room. */
static bool recycle(struct local *local, const char *name, uint32_t length, uint64_t hash)
{
    struct search search = { .local = local, .hash = hash };
    for (struct local_lock *lock; (lock = next_lock(&search)) != NULL;) {
        struct txn txn;
        if (!hf__local_seems_free(local, lock) ||
            !hf__txn_try(&txn, local, local_reference(local, lock)))
            continue;
        bool idle = !hf__txn_in_use(&txn), done = false; /* mutant: names-in-use-are-forgotten */
        if (idle) {
            hf__txn_forget(&txn);
            done = publish(local, lock, name, length, hash);
        }
        hf__txn_leave(&txn);
        if (idle)
            return done;
    }
    return false;
}

static int make(struct local *local, const char *name, uint32_t length, uint64_t hash,
                hf_error **error)
{
    for (unsigned grown = 0; grown <= LOCAL_SEGMENTS; grown++) {
        struct search search = { .local = local, .hash = hash };
        for (struct local_lock *lock; (lock = next_lock(&search)) != NULL;) {
            if (has_name(local, lock, name, length, hash))
                return HF_OK;
            if (local_get(&lock->hash) != LOCAL_HASH_NEVER)
                continue;
            if (publish(local, lock, name, length, hash))
                return HF_OK;
            break;
        }
        if (search.blind)
            return cannot_see(local, error);
        if (recycle(local, name, length, hash))
            return HF_OK;
        int code = hf__local_grow(local, error);
        if (code)
            return code;
    }
    hf__explain(error, HF_ELIMIT, 0, "'%s' has no room for another name", local->path);
    return HF_ELIMIT;
}

static int make_guarded(struct local *local, const char *name, uint32_t length, uint64_t hash,
                        hf_error **error)
{
    bool stolen;
    _Atomic uint64_t *guard = &local_header(local)->guard;
    int code = hf__local_guard(local, guard, &stolen, error);
    if (code)
        return code;
    HF_POINT("local:names:guard");
    code = make(local, name, length, hash, error);
    HF_POINT("local:names:made");
    hf__local_unguard(guard);
    return code;
}

int hf__txn_name(struct txn *txn, struct local *local, const char *name, uint32_t length,
                 uint64_t hash, bool create, hf_error **error)
{
    if (hash <= LOCAL_HASH_RENAMED)
        hash += 2;
    /* Each round either ends or was overtaken by a renaming, which is rare. */
    for (unsigned round = 0; round < 1000; round++) {
        struct search search = { .local = local, .hash = hash };
        for (struct local_lock *lock; (lock = next_match(&search)) != NULL;) {
            int code = hf__txn_enter(txn, local, local_reference(local, lock), error);
            if (code)
                return code;
            if (has_name(local, lock, name, length, hash)) {
                txn->name = name;
                return HF_OK;
            }
            hf__txn_leave(txn);
        }
        txn->lock = NULL;
        if (search.blind) /* mutant: name-that-cannot-be-seen */
            return cannot_see(local, error);
        if (!create)
            return HF_OK;
        int code = make_guarded(local, name, length, hash, error);
        if (code)
            return code;
    }
    return hf__local_damaged(local, error, "a name cannot be found again");
}
