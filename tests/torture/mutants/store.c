/* SPDX-License-Identifier: Apache-2.0 */
/* The store's memory: names, two versions of each value, a lock that dead processes do not keep,
 * and waiting for changes. */
#include "store.h"

#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { KEYS = 64, COUNTERS = 1024 };

struct store_key {
    char name[96];
    bool used;
    _Atomic uint32_t current; /* which version counts */
    struct store_value versions[2];
};

struct store {
    _Atomic int32_t inside;             /* the process that runs a script, or 0 */
    _Atomic uint32_t changes[COUNTERS]; /* by the hash of the name */
    struct store_key keys[KEYS];
};

struct store *store_open(void *memory, size_t size)
{
    assert(size >= sizeof(struct store));
    return memory;
}

/* ---- one script at a time ---- */

static void enter(struct store *store)
{
    int32_t self = getpid(), other = 0;

    while (!atomic_compare_exchange_strong(&store->inside, &other, self)) {
        /* Whoever was killed in here has left nothing that counts. */
        if (kill(other, 0) < 0 && errno == ESRCH &&
            atomic_compare_exchange_strong(&store->inside, &other, self))
            return;
        sched_yield();
        other = 0;
    }
}

static void leave(struct store *store)
{
    atomic_store(&store->inside, 0);
}

/* ---- names ---- */

static struct store_key *find(struct store *store, const char *name)
{
    struct store_key *unused = NULL;

    for (struct store_key *key = store->keys; key < store->keys + KEYS; key++) {
        if (key->used && strcmp(key->name, name) == 0)
            return key;
        if (!key->used)
            unused = key;
    }
    assert(unused);
    snprintf(unused->name, sizeof unused->name, "%s", name);
    memset(unused->versions, 0, sizeof unused->versions);
    unused->used = true;
    return unused;
}

static bool is_empty(const struct store_value *value)
{
    return !value->token && !value->count && !value->holders.count && !value->waiters.count;
}

static size_t counter_of(const char *name)
{
    size_t hash = 5381;

    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash % COUNTERS;
}

/* ---- scripts ---- */

struct store_command store_begin(struct store *store, const char *name)
{
    struct store_command command = { .store = store, .now_ns = torture_clock_ns() };
    struct store_key *key;
    uint32_t current;

    enter(store);
    key = find(store, name);
    current = atomic_load(&key->current);
    key->versions[!current] = key->versions[current];
    command.key = key;
    command.value = &key->versions[!current];
    return command;
}

/* Who is told before it counts finds the store busy until it does: so no death in between can keep
 * the news back. */
void store_commit(struct store_command *command)
{
    struct store_key *key = command->key;
    _Atomic uint32_t *changes = &command->store->changes[counter_of(key->name)];

    if (command->tells) {
        atomic_fetch_add(changes, 1);
        syscall(SYS_futex, changes, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    }
    atomic_store(&key->current, !atomic_load(&key->current));
    key->used = !is_empty(command->value);
    leave(command->store);
}

/* ---- waiting ---- */

uint32_t store_changes(const struct store *store, const char *name)
{
    return atomic_load(&store->changes[counter_of(name)]);
}

void store_sleep(struct store *store, const char *name, uint32_t seen, int64_t until_ns)
{
    int64_t left_ns = until_ns - torture_clock_ns();
    const struct timespec limit = { .tv_sec = left_ns / 1000000000,
                                    .tv_nsec = left_ns % 1000000000 };

    if (left_ns > 0)
        syscall(SYS_futex, &store->changes[counter_of(name)], FUTEX_WAIT, seen, &limit, NULL, 0);
}
