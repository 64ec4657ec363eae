/* SPDX-License-Identifier: Apache-2.0 */
/* A view of the store: what hf_inspect shows, counted by name, with the names of --top in front. */
#include "exporter.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_SIZE 65536

/* Strings of a view: they are freed together. */
struct exporter_chunk {
    struct exporter_chunk *next;
    size_t used;
    char bytes[];
};

/* What visits the entries of hf_inspect. */
struct taking {
    struct exporter_view *view;
    const struct exporter_view *last;
    const char *pattern;
    /* The name whose entries come. */
    char name[HF_NAME_MAX + 1];
    struct exporter_lock lock;
    bool matches; /* it is one of --names */
};

/* FNV-1a, which goes on from `hash`; the first is of 0. */
static uint64_t hash_on(uint64_t hash, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;

    hash ^= UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static const char *keep_text(struct exporter_view *view, const char *text)
{
    size_t length = text ? strlen(text) + 1 : 1;
    struct exporter_chunk *chunk = view->chunks;

    if (length == 1)
        return "";
    if (!chunk || chunk->used + length > CHUNK_SIZE) {
        size_t size = length > CHUNK_SIZE ? length : CHUNK_SIZE;

        chunk = malloc(sizeof(*chunk) + size);
        if (!chunk) {
            view->out_of_memory = true;
            return "";
        }
        *chunk = (struct exporter_chunk){ .next = view->chunks };
        view->chunks = chunk;
    }
    chunk->used += length;
    return memcpy(chunk->bytes + chunk->used - length, text, length);
}

/* The array with room for one more, which is counted. NULL: out of memory; the old one stays. */
static void *grow(struct exporter_view *view, void *array, size_t *count, size_t *room, size_t size)
{
    if (*count == *room) {
        size_t wanted = *room ? 2 * *room : 64;

        array = reallocarray(array, wanted, size);
        if (!array) {
            view->out_of_memory = true;
            return NULL;
        }
        *room = wanted;
    }
    (*count)++;
    return array;
}

/* A name that is neither held nor waited for, and has no number, is a memory of the store's. */
static void end_lock(struct taking *taking)
{
    struct exporter_view *view = taking->view;
    struct exporter_lock *lock = &taking->lock, *kept;

    if (lock->holders + lock->waiters + lock->total + lock->value == 0)
        return;
    view->names++;
    view->holders += lock->holders;
    view->waiters += lock->waiters;
    if (taking->matches) {
        uint64_t numbers[] = { lock->token, lock->total, lock->value };

        kept = grow(view, view->locks, &view->lock_count, &view->lock_room, sizeof(*kept));
        if (!kept)
            return;
        view->locks = kept;
        lock->name = keep_text(view, taking->name);
        kept[view->lock_count - 1] = *lock;
        view->identity += hash_on(lock->hash, numbers, sizeof(numbers));
    }
    *lock = (struct exporter_lock){ 0 };
}

static int by_hash(const void *a, const void *b)
{
    uint64_t x = ((const struct exporter_sight *)a)->hash;
    uint64_t y = ((const struct exporter_sight *)b)->hash;

    return (x > y) - (x < y);
}

/* For how long this owner has been seen with what it has: at least so old is its hold. */
static int64_t age_seen(struct taking *taking, uint64_t hash)
{
    struct exporter_view *view = taking->view;
    const struct exporter_view *last = taking->last;
    struct exporter_sight sight = { hash, view->taken_ms }, *found = NULL, *sights;

    if (last && last->sight_count)
        found = bsearch(&sight, last->sights, last->sight_count, sizeof(sight), by_hash);
    if (found)
        sight.since_ms = found->since_ms; /* mutant: age-begins-with-each-look */
    sights = grow(view, view->sights, &view->sight_count, &view->sight_room, sizeof(sight));
    if (sights) {
        view->sights = sights;
        sights[view->sight_count - 1] = sight;
    }
    return view->taken_ms - sight.since_ms;
}

static void add_owner(struct taking *taking, const hf_entry *entry)
{
    struct exporter_view *view = taking->view;
    struct exporter_lock *lock = &taking->lock;
    uint64_t numbers[] = { entry->role, entry->token };
    uint64_t hash = hash_on(lock->hash, numbers, sizeof(numbers));
    struct exporter_owner *owners =
        grow(view, view->owners, &view->owner_count, &view->owner_room, sizeof(*owners));
    struct exporter_owner owner = { .role = entry->role,
                                    .mode = entry->mode,
                                    .permits = entry->permits,
                                    .since_ms = entry->since_ms,
                                    .pid = entry->pid,
                                    .id = hash_on(0, entry->owner_key, strlen(entry->owner_key)),
                                    .text = keep_text(view, entry->owner_text),
                                    .host = keep_text(view, entry->host) };

    hash = hash_on(hash, &owner.id, sizeof(owner.id));
    if (owner.since_ms < 0)
        owner.since_ms = age_seen(taking, hash);
    view->identity += hash_on(hash, &entry->rank, sizeof(entry->rank)) + entry->permits;
    if (!owners)
        return;
    view->owners = owners;
    owners[view->owner_count - 1] = owner;
    int64_t *oldest = entry->role == HF_ROLE_HOLDER ? &lock->oldest_hold_ms : &lock->oldest_wait_ms;
    if (owner.since_ms > *oldest)
        *oldest = owner.since_ms;
}

static bool keep_entry(void *arg, const hf_entry *entry)
{
    struct taking *taking = arg;
    struct exporter_lock *lock = &taking->lock;

    if (entry->role == HF_ROLE_OBJECT || strcmp(entry->name, taking->name) != 0) {
        end_lock(taking);
        snprintf(taking->name, sizeof(taking->name), "%s", entry->name);
        taking->matches = !taking->pattern || fnmatch(taking->pattern, entry->name, 0) == 0;
        *lock = (struct exporter_lock){ .name_length = entry->name_length,
                                        .kind = entry->kind,
                                        .hash = hash_on(0, entry->name, entry->name_length),
                                        .first_owner = taking->view->owner_count };
    }
    if (entry->role == HF_ROLE_OBJECT) {
        lock->total = entry->total;
        lock->value = entry->value;
        lock->token = entry->token;
        return true;
    }
    lock->holders += entry->role == HF_ROLE_HOLDER;
    lock->waiters += entry->role == HF_ROLE_WAITER;
    if (entry->token > lock->token)
        lock->token = entry->token;
    if (taking->matches)
        add_owner(taking, entry);
    return !taking->view->out_of_memory;
}

/* What is waited for most, then what is held longest. */
static int by_interest(const void *a, const void *b)
{
    const struct exporter_lock *x = a, *y = b;

    if (x->waiters != y->waiters)
        return x->waiters < y->waiters ? 1 : -1;
    if (x->oldest_hold_ms != y->oldest_hold_ms)
        return x->oldest_hold_ms < y->oldest_hold_ms ? 1 : -1;
    return strcmp(x->name, y->name);
}

struct exporter_view *exporter_view_down(const char *error)
{
    struct exporter_view *view = calloc(1, sizeof(*view));

    if (!view)
        return NULL;
    view->taken_ms = cli_now_ms();
    view->valid_until_ms = INT64_MAX;
    snprintf(view->error, sizeof(view->error), "%s", error);
    return view;
}

struct exporter_view *exporter_view_take(const struct exporter *exporter, hf_client *client,
                                         const struct exporter_view *last)
{
    const char *pattern = exporter->settings->name_pattern;
    bool is_name = pattern && !strpbrk(pattern, "*?[");
    struct exporter_view *view = exporter_view_down("");
    struct taking taking = { .view = view, .last = last, .pattern = is_name ? NULL : pattern };
    int64_t top = exporter->settings->top;
    int code;

    if (!view)
        return NULL;
    code = client ? hf_inspect(client, is_name ? pattern : NULL, keep_entry, &taking) : HF_OK;
    end_lock(&taking);
    view->answer_ms = cli_now_ms() - view->taken_ms;
    if (code != HF_OK || view->out_of_memory) {
        struct exporter_view *down =
            exporter_view_down(code != HF_OK ? hf_last_error()->text : hf_code_text(HF_ENOMEM));

        exporter_view_free(view);
        return down;
    }
    view->up = true;
    if (view->lock_count)
        qsort(view->locks, view->lock_count, sizeof(*view->locks), by_interest);
    if (view->sight_count)
        qsort(view->sights, view->sight_count, sizeof(*view->sights), by_hash);
    view->shown = view->lock_count < (size_t)top ? view->lock_count : (size_t)top;
    return view;
}

void exporter_view_free(struct exporter_view *view)
{
    if (!view)
        return;
    while (view->chunks) {
        struct exporter_chunk *next = view->chunks->next;

        free(view->chunks);
        view->chunks = next;
    }
    free(view->locks);
    free(view->owners);
    free(view->sights);
    free(view);
}
