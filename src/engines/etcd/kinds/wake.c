/* SPDX-License-Identifier: Apache-2.0 */
/* What an event of a watch means to a waiter of a semaphore, a counter or a latch. */
#include "kinds.h"

#include <string.h>

bool hf__etcd_is_object(const ProtobufCBinaryData *key, size_t prefix_length)
{
    if (key->len <= prefix_length)
        return false;
    size_t length = key->len - prefix_length;
    const char *word = hf__etcd_kind_of_suffix((const char *)key->data + prefix_length, length);
    return word && strlen(word) == length;
}

bool hf__etcd_waits_for_object(const struct etcd_claim *claim, const ProtobufCBinaryData *object)
{
    if (claim->layout && claim->op->in.mode == HF_PERMIT)
        return true;
    return hf__etcd_is_key(object, hf__etcd_bytes(claim->blocker, claim->blocker_length));
}

static bool begins_with(const ProtobufCBinaryData *key, struct etcd_bytes prefix)
{
    return key->len > prefix.length && memcmp(key->data, prefix.bytes, prefix.length) == 0;
}

/* A key behind its own may be the one that is gone: then it looks once in vain. */
bool hf__etcd_takes_note(struct etcd_claim *claim, const etcd_key_value *gone)
{
    if (!claim->layout || claim->op->in.mode != HF_PERMIT)
        return false;
    if (!begins_with(&gone->key, claim->layout->claims.begin))
        return hf__etcd_is_key(&gone->key, claim->layout->object);
    if (gone->mod_revision <= claim->seen)
        return false;
    uint32_t weight = hf__etcd_weight((const char *)gone->key.data, gone->key.len);
    claim->missing -= claim->missing < weight ? claim->missing : weight;
    return claim->missing == 0; /* mutant: etcd-permits-that-come-back-wake */
}
