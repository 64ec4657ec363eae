/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of etcd: transactions are put together, replies are read into an arena. */
#include "messages.h"

#include "base/testing.h"

#include <assert.h>
#include <string.h>

/* The replies of acquiring and releasing fit. */
#define ARENA_SIZE 16384u
/* A few bytes on the wire may ask for many in memory. */
#define OVERFLOW_MAX (64u << 20)
#define ALIGNMENT _Alignof(max_align_t)

/* ---- bytes ---- */

bool hf__etcd_is_key(const ProtobufCBinaryData *data, struct etcd_bytes key)
{
    return data->len == key.length && memcmp(data->data, key.bytes, key.length) == 0;
}

size_t hf__etcd_prefix_end(const char *prefix, size_t length, char *room)
{
    memcpy(room, prefix, length);
    while (length > 0 && (unsigned char)room[length - 1] == 0xff)
        length--;
    if (length == 0) {
        room[0] = 0; /* all keys from the prefix on */
        return 1;
    }
    room[length - 1] = (char)((unsigned char)room[length - 1] + 1);
    return length;
}

/* ---- transactions ---- */

void hf__etcd_txn_begin(struct etcd_txn *txn)
{
    txn->message = (HfEtcd__TxnRequest)HF_ETCD__TXN_REQUEST__INIT;
    txn->message.compare = txn->compare_list;
    txn->message.success = txn->lists[ETCD_THEN];
    txn->message.failure = txn->lists[ETCD_ELSE];
}

static etcd_compare *add_compare(struct etcd_txn *txn, struct etcd_bytes key)
{
    assert(txn->message.n_compare < ETCD_COMPARES_MAX);
    etcd_compare *compare = &txn->compares[txn->message.n_compare];
    *compare = (etcd_compare)HF_ETCD__COMPARE__INIT;
    compare->key = hf__etcd_binary(key);
    txn->compare_list[txn->message.n_compare++] = compare;
    return compare;
}

etcd_compare *hf__etcd_txn_if_created(struct etcd_txn *txn, struct etcd_bytes key, int64_t revision)
{
    etcd_compare *compare = add_compare(txn, key);
    compare->target = HF_ETCD__COMPARE__TARGET__CREATE;
    compare->target_union_case = HF_ETCD__COMPARE__TARGET_UNION_CREATE_REVISION;
    compare->create_revision = revision;
    return compare;
}

void hf__etcd_txn_if_changed(struct etcd_txn *txn, struct etcd_bytes key, int64_t revision)
{
    etcd_compare *compare = add_compare(txn, key);
    compare->target = HF_ETCD__COMPARE__TARGET__MOD;
    compare->target_union_case = HF_ETCD__COMPARE__TARGET_UNION_MOD_REVISION;
    compare->mod_revision = revision;
}

void hf__etcd_txn_if_all_older(struct etcd_txn *txn, struct etcd_bytes key, struct etcd_bytes end,
                               int64_t revision)
{
    etcd_compare *compare = hf__etcd_txn_if_created(txn, key, revision);
    compare->result = HF_ETCD__COMPARE__RESULT__LESS;
    compare->range_end = hf__etcd_binary(end);
}

static unsigned add_operation(struct etcd_txn *txn, enum etcd_branch branch)
{
    size_t *count = branch == ETCD_THEN ? &txn->message.n_success : &txn->message.n_failure;
    assert(*count < ETCD_OPERATIONS_MAX);
    HfEtcd__RequestOp *operation = &txn->operations[branch][*count];
    *operation = (HfEtcd__RequestOp)HF_ETCD__REQUEST_OP__INIT;
    txn->lists[branch][*count] = operation;
    return (unsigned)(*count)++;
}

void hf__etcd_txn_put(struct etcd_txn *txn, enum etcd_branch branch, struct etcd_bytes key,
                      struct etcd_bytes value, int64_t lease)
{
    unsigned index = add_operation(txn, branch);
    HfEtcd__PutRequest *put = &txn->bodies[branch][index].put;
    *put = (HfEtcd__PutRequest)HF_ETCD__PUT_REQUEST__INIT;
    put->key = hf__etcd_binary(key);
    put->value = hf__etcd_binary(value);
    put->lease = lease;
    txn->operations[branch][index].request_case = HF_ETCD__REQUEST_OP__REQUEST_REQUEST_PUT;
    txn->operations[branch][index].request_put = put;
}

void hf__etcd_txn_delete(struct etcd_txn *txn, enum etcd_branch branch, struct etcd_bytes key)
{
    unsigned index = add_operation(txn, branch);
    HfEtcd__DeleteRangeRequest *removal = &txn->bodies[branch][index].removal;
    *removal = (HfEtcd__DeleteRangeRequest)HF_ETCD__DELETE_RANGE_REQUEST__INIT;
    removal->key = hf__etcd_binary(key);
    txn->operations[branch][index].request_case = HF_ETCD__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
    txn->operations[branch][index].request_delete_range = removal;
}

etcd_range *hf__etcd_txn_range(struct etcd_txn *txn, enum etcd_branch branch, struct etcd_bytes key,
                               struct etcd_bytes end)
{
    unsigned index = add_operation(txn, branch);
    etcd_range *range = &txn->bodies[branch][index].range;
    *range = (etcd_range)HF_ETCD__RANGE_REQUEST__INIT;
    range->key = hf__etcd_binary(key);
    range->range_end = hf__etcd_binary(end);
    txn->operations[branch][index].request_case = HF_ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE;
    txn->operations[branch][index].request_range = range;
    return range;
}

void hf__etcd_range_by_creation(etcd_range *range, bool first, int64_t limit)
{
    range->sort_target = HF_ETCD__RANGE_REQUEST__TARGET__CREATE;
    range->sort_order =
        first ? HF_ETCD__RANGE_REQUEST__ORDER__ASCEND : HF_ETCD__RANGE_REQUEST__ORDER__DESCEND;
    range->limit = limit;
}

void hf__etcd_range_by_change(etcd_range *range, bool first, int64_t limit)
{
    hf__etcd_range_by_creation(range, first, limit);
    range->sort_target = HF_ETCD__RANGE_REQUEST__TARGET__MOD;
}

/* ---- an arena ---- */

struct etcd_overflow {
    struct etcd_overflow *next;
    max_align_t bytes[];
};

static void *take_overflow(struct etcd_arena *arena, size_t size)
{
    if (size > OVERFLOW_MAX - arena->overflowed)
        return NULL;
    struct etcd_overflow *block = hf__calloc(1, sizeof *block + size);
    if (!block)
        return NULL;
    block->next = arena->overflow;
    arena->overflow = block;
    arena->overflowed += size;
    return block->bytes;
}

static void *messages_take(void *arg, size_t size)
{
    struct etcd_arena *arena = arg;
    size_t begun = (arena->used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!arena->bytes)
        arena->bytes = hf__calloc(1, ARENA_SIZE);
    if (!arena->bytes || begun > ARENA_SIZE || size > ARENA_SIZE - begun)
        return arena->bytes ? take_overflow(arena, size) : NULL;
    arena->used = begun + size;
    hf__take_again(arena->bytes + begun, size);
    return arena->bytes + begun;
}

/* All of it goes at once. */
static void give_back(void *arg, void *pointer)
{
    (void)arg, (void)pointer;
}

static void reset(struct etcd_arena *arena)
{
    while (arena->overflow) {
        struct etcd_overflow *next = arena->overflow->next;
        free(arena->overflow);
        arena->overflow = next;
    }
    if (arena->bytes)
        hf__set_aside(arena->bytes, ARENA_SIZE);
    arena->used = arena->overflowed = 0;
}

void hf__etcd_arena_init(struct etcd_arena *arena)
{
    *arena = (struct etcd_arena){ .allocator = { messages_take, give_back, arena } };
}

void hf__etcd_arena_free(struct etcd_arena *arena)
{
    reset(arena);
    free(arena->bytes);
    arena->bytes = NULL;
}

void *hf__etcd_read(struct etcd_arena *arena, const ProtobufCMessageDescriptor *type,
                    const uint8_t *bytes, size_t length)
{
    reset(arena);
    return protobuf_c_message_unpack(type, &arena->allocator, length, bytes);
}

/* ---- replies ---- */

const etcd_range_reply *hf__etcd_txn_range_reply(const etcd_txn_reply *reply, size_t index)
{
    if (index >= reply->n_responses ||
        reply->responses[index]->response_case != HF_ETCD__RESPONSE_OP__RESPONSE_RESPONSE_RANGE)
        return NULL;
    return reply->responses[index]->response_range;
}

const etcd_key_value *hf__etcd_txn_first_key(const etcd_txn_reply *reply, size_t index)
{
    const etcd_range_reply *range = hf__etcd_txn_range_reply(reply, index);
    return range && range->n_kvs > 0 ? range->kvs[0] : NULL;
}
