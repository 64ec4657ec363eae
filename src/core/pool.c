/* SPDX-License-Identifier: Apache-2.0 */
/* Pools: free lists over blocks that only grow. */
#include "core/pool.h"

#include "base/testing.h"

#include <stdlib.h>
#include <string.h>

#define HOLDS_PER_BLOCK 32u
#define GRANTS_PER_BLOCK 16u
#define GATES_BLOCK_SIZE 2048u
#define BUCKETS_MIN 16u

/* A gate has one of these rooms for its name, with the NUL. */
static const uint32_t name_rooms[HF_GATE_SIZES] = { 24, 48, 96, 256, HF_NAME_MAX + 8 };
_Static_assert((HF_NAME_MAX + 8) % 8 == 0, "gates lie behind each other");

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
            free(shard->chunks[c][i].op.error);
            free(shard->chunks[c][i].text);
        }
    while (shard->blocks) {
        struct hf_block *next = shard->blocks->next;
        free(shard->blocks);
        shard->blocks = next;
    }
    free(shard->chunks);
    free(shard->buckets);
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
    size_t size = sizeof(struct hf_gate) + name_rooms[of_size];
    size_t count = GATES_BLOCK_SIZE / size > 1 ? GATES_BLOCK_SIZE / size : 1;
    char *gates = new_block(shard, count, size);
    if (!gates)
        return false;
    for (size_t i = 0; i < count; i++) {
        struct hf_gate *gate = (struct hf_gate *)(void *)(gates + i * size);
        gate->size = of_size & 127u;
        hf__pool_put_gate(shard, gate);
    }
    return true;
}

struct hf_gate *hf__pool_get_gate(struct hf_shard *shard, const char *name, uint32_t length)
{
    uint8_t size = 0;
    while (length >= name_rooms[size])
        size++;
    if (!shard->free_gates[size] && !add_gates(shard, size))
        return NULL;
    struct hf_gate *gate = shard->free_gates[size];
    shard->free_gates[size] = gate->next;
    memcpy(gate->name, name, length);
    gate->name[length] = 0;
    gate->name_length = (uint16_t)length;
    return gate;
}

void hf__pool_put_gate(struct hf_shard *shard, struct hf_gate *gate)
{
    gate->next = shard->free_gates[gate->size];
    shard->free_gates[gate->size] = gate;
}

void hf__pool_grow_buckets(struct hf_shard *shard)
{
    if (shard->gate_count < shard->bucket_count)
        return;
    uint32_t count = shard->bucket_count * 2;
    struct hf_gate **grown = hf__calloc(count, sizeof *grown);
    if (!grown)
        return;
    for (uint32_t i = 0; i < shard->bucket_count; i++)
        for (struct hf_gate *gate = shard->buckets[i], *next; gate; gate = next) {
            next = gate->next;
            gate->next = grown[gate->hash & (count - 1)];
            grown[gate->hash & (count - 1)] = gate;
        }
    struct hf_gate **old = shard->buckets;
    shard->buckets = grown;
    hf__free_replaced(old);
    shard->bucket_count = count;
}
