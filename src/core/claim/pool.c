/* SPDX-License-Identifier: Apache-2.0 */
/* Pools: free lists over blocks that only grow. */
#include "core/claim/pool.h"

#include "base/testing.h"
#include "core/api/fork.h"

#include <stdlib.h>
#include <string.h>

#define HOLDS_PER_BLOCK 32u
#define GRANTS_PER_BLOCK 16u
#define GATES_BLOCK_SIZE 2048u
#define BUCKETS_MIN 16u

/* An entry has one of these rooms for its name, with the NUL. */
static const uint32_t name_rooms[HF_LOCK_ENTRY_SIZES] = { 24, 48, 96, 256, HF_NAME_MAX + 8 };
_Static_assert((HF_NAME_MAX + 8) % 8 == 0, "entries lie behind each other");

/* Begins every allocation that lives until the client closes. */
struct hf_block {
    struct hf_block *next;
    max_align_t items[];
};

static void *new_block(struct hf_shard *shard, size_t count, size_t size)
{
    struct hf_block *block = hf__calloc(1, sizeof *block + count * size);
    if (!block)
        return NULL;
    block->next = shard->blocks;
    shard->blocks = block;
    return block->items;
}

int hf__pool_open(struct hf_shard *shard)
{
    pthread_mutex_init(&shard->mutex, NULL);
    shard->buckets = hf__calloc(BUCKETS_MIN, sizeof *shard->buckets);
    shard->bucket_count = shard->buckets ? BUCKETS_MIN : 0;
    return shard->buckets ? HF_OK : HF_ENOMEM;
}

void hf__pool_close(struct hf_shard *shard)
{
    for (uint32_t c = 0; c < shard->chunk_count; c++)
        for (uint32_t i = 0; i < HF_CLAIM_CHUNK; i++) {
            free(shard->chunks[c][i].op.out.error);
            free(shard->chunks[c][i].text);
        }
    while (shard->blocks) {
        struct hf_block *next = shard->blocks->next;
        free(shard->blocks);
        shard->blocks = next;
    }
    free(shard->chunks);
    free(shard->buckets);
    /* In a forked child another thread of the parent may have it locked for ever. A client without
     * a number has not been opened whole. */
    const struct hf_client *client = shard->client;
    if (!client || client->fork_number == 0 || !hf__forked(client))
        pthread_mutex_destroy(&shard->mutex);
}

static bool add_chunk(struct hf_shard *shard)
{
    if (shard->chunk_count == shard->chunk_room) {
        uint32_t room = shard->chunk_room ? shard->chunk_room * 2 : 4;
        struct hf_claim **grown = hf__calloc(room, sizeof *grown);
        if (!grown)
            return false;
        if (shard->chunks)
            memcpy(grown, shard->chunks, shard->chunk_count * sizeof *grown);
        struct hf_claim **old = shard->chunks;
        shard->chunks = grown;
        hf__free_replaced(old);
        shard->chunk_room = room;
    }
    struct hf_claim *chunk = new_block(shard, HF_CLAIM_CHUNK, sizeof *chunk);
    if (!chunk)
        return false;
    for (uint32_t i = HF_CLAIM_CHUNK; i-- > 0;) {
        chunk[i].index = shard->chunk_count * HF_CLAIM_CHUNK + i;
        chunk[i].next_free = shard->free_claims;
        shard->free_claims = &chunk[i];
    }
    shard->chunks[shard->chunk_count++] = chunk;
    shard->free_claim_count += HF_CLAIM_CHUNK;
    return true;
}

struct hf_claim *hf__pool_get_claim(struct hf_shard *shard, uint32_t spared)
{
    if (shard->free_claim_count <= spared && !add_chunk(shard))
        return NULL;
    struct hf_claim *claim = shard->free_claims;
    shard->free_claims = claim->next_free;
    shard->free_claim_count--;
    return claim;
}

void hf__pool_put_claim(struct hf_shard *shard, struct hf_claim *claim)
{
    hf__drop_error(&claim->op);
    claim->generation++;
    claim->uses++;
    claim->entry = NULL;
    claim->next_free = shard->free_claims;
    shard->free_claims = claim;
    shard->free_claim_count++;
}

struct hf_grant *hf__pool_get_grant(struct hf_shard *shard)
{
    if (!shard->free_grants) {
        struct hf_grant *grants = new_block(shard, GRANTS_PER_BLOCK, sizeof *grants);
        if (!grants)
            return NULL;
        for (unsigned i = 0; i < GRANTS_PER_BLOCK; i++) {
            grants[i].shard = shard;
            hf__link_init(&grants[i].aside);
            hf__pool_put_grant(shard, &grants[i]);
        }
    }
    struct hf_grant *grant = shard->free_grants;
    shard->free_grants = grant->next_free;
    return grant;
}

void hf__pool_put_grant(struct hf_shard *shard, struct hf_grant *grant)
{
    grant->next_free = shard->free_grants;
    shard->free_grants = grant;
}

struct hf_hold *hf__pool_get_hold(struct hf_shard *shard)
{
    if (!shard->free_holds) {
        struct hf_hold *holds = new_block(shard, HOLDS_PER_BLOCK, sizeof *holds);
        if (!holds)
            return NULL;
        for (unsigned i = 0; i < HOLDS_PER_BLOCK; i++)
            hf__pool_put_hold(shard, &holds[i]);
    }
    struct hf_hold *hold = shard->free_holds;
    shard->free_holds = hold->next_free;
    hf__link_init(&hold->link);
    return hold;
}

void hf__pool_put_hold(struct hf_shard *shard, struct hf_hold *hold)
{
    if (hold->grant && hold == &hold->grant->first)
        return;
    hold->next_free = shard->free_holds;
    shard->free_holds = hold;
}

static bool add_gates(struct hf_shard *shard, uint8_t of_size)
{
    size_t size = sizeof(struct hf_lock_entry) + name_rooms[of_size];
    size_t count = GATES_BLOCK_SIZE / size > 1 ? GATES_BLOCK_SIZE / size : 1;
    char *entries = new_block(shard, count, size);
    if (!entries)
        return false;
    for (size_t i = 0; i < count; i++) {
        struct hf_lock_entry *entry = (struct hf_lock_entry *)(void *)(entries + i * size);
        entry->size = of_size & 127u;
        hf__pool_put_entry(shard, entry);
    }
    return true;
}

struct hf_lock_entry *hf__pool_get_entry(struct hf_shard *shard, const char *name, uint32_t length)
{
    uint8_t size = 0;
    while (length >= name_rooms[size])
        size++;
    if (!shard->free_entries[size] && !add_gates(shard, size))
        return NULL;
    struct hf_lock_entry *entry = shard->free_entries[size];
    shard->free_entries[size] = entry->next;
    memcpy(entry->name, name, length);
    entry->name[length] = 0;
    entry->name_length = (uint16_t)length;
    return entry;
}

void hf__pool_put_entry(struct hf_shard *shard, struct hf_lock_entry *entry)
{
    entry->next = shard->free_entries[entry->size];
    shard->free_entries[entry->size] = entry;
}

void hf__pool_grow_buckets(struct hf_shard *shard)
{
    if (shard->entry_count < shard->bucket_count)
        return;
    uint32_t count = shard->bucket_count * 2;
    struct hf_lock_entry **grown = hf__calloc(count, sizeof *grown);
    if (!grown)
        return;
    for (uint32_t i = 0; i < shard->bucket_count; i++)
        for (struct hf_lock_entry *entry = shard->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            entry->next = grown[entry->hash & (count - 1)];
            grown[entry->hash & (count - 1)] = entry;
        }
    struct hf_lock_entry **old = shard->buckets;
    shard->buckets = grown;
    hf__free_replaced(old);
    shard->bucket_count = count;
}
