/* SPDX-License-Identifier: Apache-2.0 */
/* Looking into a state file. */
#include "state.h"

#include "base/clock.h"
#include "base/rand.h"
#include "core/api/client.h"
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct hf_loop loop;
static struct hf_client nobody; /* with no sink for events */
static const struct hf_host host = { .loop = &loop,
                                     .id = { 0x1234, 0x5678 },
                                     .owner_text = "the inspector",
                                     .host_name = "here",
                                     .core = &nobody };

struct local *state_open(const char *directory)
{
    struct hf_url url = { .scheme = "local", .path = directory };
    struct hf_engine *engine;
    hf_error error;
    if (hf__local.open(&engine, &host, &url, &error) != HF_OK)
        FAIL("%s", error.text);
    return (struct local *)engine;
}

static void closed(void *arg)
{
    *(bool *)arg = true;
}

void state_close(struct local *local)
{
    bool done = false;
    hf__local.close(&local->base, closed, &done);
    CHECK(done);
}

/* ---- one lock ---- */

struct walk {
    struct txn visit;
    unsigned held, waiting, exclusive, upgrades, permits;
    uint32_t strong;
    unsigned char *seen; /* by reference */
};

static void check_links(struct walk *walk, const _Atomic uint64_t *list, unsigned state)
{
    uint32_t previous = 0;
    struct local_node *node = hf__wait_list_first(&walk->visit, list);
    for (; node; node = hf__wait_list_next(&walk->visit, node)) {
        uint32_t reference = local_reference(walk->visit.local, node);
        CHECK_INT(local_state_state(local_get(&node->state)), state);
        CHECK_INT(local_state_lock(local_get(&node->state)), walk->visit.reference);
        CHECK_INT(local_high(local_get(&node->link)), previous);
        CHECK(local_get(&node->session) != 0);
        CHECK(!walk->seen[reference]);
        walk->seen[reference] = 1;
        previous = reference;
    }
    CHECK(!walk->visit.damaged);
    CHECK_INT(local_high(local_get(list)), previous);
}

static void count_holder(struct walk *walk, struct local_node *node)
{
    unsigned mode = local_state_mode(local_get(&node->state));
    bool exclusive = mode == HF_MUTEX || mode == HF_FAIR || mode == HF_WRITE;
    walk->held++;
    walk->exclusive += exclusive;
    walk->upgrades += mode == HF_UPGRADE;
    if (mode == HF_UPGRADE || mode == HF_WRITE)
        walk->strong = local_reference(walk->visit.local, node);
    if (mode == HF_PERMIT)
        walk->permits += node->permits;
    CHECK_INT(hf__mode_kind(mode), hf__txn_kind(&walk->visit));
    CHECK(local_get(&node->token) != 0);
    CHECK(local_get(&node->token) <= local_get(&walk->visit.lock->token));
    if (exclusive)
        CHECK(local_get(&node->token) == local_get(&walk->visit.lock->token));
}

static void check_lock(struct local *local, uint32_t reference, unsigned char *seen)
{
    struct walk walk = { .seen = seen };
    hf_error *error = NULL;
    if (hf__txn_enter(&walk.visit, local, reference, &error) != HF_OK)
        FAIL("%s", error->text);
    struct local_lock *lock = walk.visit.lock;
    CHECK_INT(atomic_load(&lock->journal_count), 0);
    check_links(&walk, &lock->holders, LOCAL_HELD);
    check_links(&walk, &lock->waiters, LOCAL_WAITING);
    struct local_node *node = hf__wait_list_first(&walk.visit, &lock->holders);
    for (; node; node = hf__wait_list_next(&walk.visit, node))
        count_holder(&walk, node);
    CHECK(walk.exclusive == 0 || walk.held == 1);
    CHECK(walk.upgrades <= 1);
    CHECK_INT(local_high(local_get(&lock->shape)), walk.strong);
    if (hf__txn_kind(&walk.visit) == HF_KIND_SEMAPHORE)
        CHECK_INT(local_low(local_get(&lock->numbers)), walk.permits);
    uint32_t length;
    CHECK(local_get(&lock->hash) <= LOCAL_HASH_RENAMED || hf__txn_name_bytes(&walk.visit, &length));
    hf__txn_leave(&walk.visit);
}

/* ---- everything ---- */

static void check_nodes(struct local *local, const unsigned char *seen)
{
    for (unsigned k = 0; k < atomic_load(&local->segments); k++) {
        for (uint32_t i = 0; i < LOCAL_NODES << k; i++) {
            struct local_node *node = local_node_in(local, k, i);
            if (local_in_a_list(local_get(&node->state)))
                CHECK(seen[local_reference(local, node)]);
        }
    }
}

void state_check(struct local *local)
{
    struct local_header *header = local_header(local);
    CHECK(local_get(&header->segments) >= 1 && local_get(&header->segments) <= LOCAL_SEGMENTS);
    CHECK(hf__local_map(local, (unsigned)local_get(&header->segments) - 1));
    unsigned segments = atomic_load(&local->segments);
    unsigned char *seen = calloc(local_segment_at(segments) / 64, 1);
    CHECK(seen != NULL);
    bool stolen;
    hf_error *error = NULL;
    CHECK_INT(hf__local_guard(local, &header->guard, &stolen, &error), HF_OK);
    hf__local_unguard(&header->guard);
    for (unsigned k = 0; k < segments; k++) {
        for (uint32_t i = 0; i < LOCAL_LOCKS << k; i++)
            check_lock(local, local_reference(local, local_lock_in(local, k, i)), seen);
    }
    check_nodes(local, seen);
    free(seen);
}

unsigned state_claims(struct local *local)
{
    unsigned count = 0;
    for (unsigned k = 0; k < atomic_load(&local->segments); k++) {
        for (uint32_t i = 0; i < LOCAL_NODES << k; i++)
            count += local_in_a_list(local_get(&local_node_in(local, k, i)->state));
    }
    return count;
}

uint64_t state_token(struct local *local, const char *name)
{
    struct txn visit;
    hf_error *error = NULL;
    uint32_t length = (uint32_t)strlen(name);
    uint64_t hash = hf__hash(name, length);
    CHECK_INT(hf__txn_name(&visit, local, name, length, hash, false, &error), HF_OK);
    if (!visit.lock)
        return 0;
    uint64_t token = local_get(&visit.lock->token);
    hf__txn_leave(&visit);
    return token;
}

void state_rewrite(const char *directory, void (*change)(unsigned char *bytes, size_t size))
{
    char path[600];
    struct stat about;
    snprintf(path, sizeof(path), "%s/default.hf", directory);
    int file = open(path, O_RDWR | O_CLOEXEC);
    CHECK(file >= 0);
    CHECK_INT(fstat(file, &about), 0);
    unsigned char *bytes = malloc((size_t)about.st_size);
    CHECK(bytes != NULL);
    CHECK(pread(file, bytes, (size_t)about.st_size, 0) == about.st_size);
    change(bytes, (size_t)about.st_size);
    CHECK(pwrite(file, bytes, (size_t)about.st_size, 0) == about.st_size);
    close(file);
    free(bytes);
}
