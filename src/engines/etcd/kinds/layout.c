/* SPDX-License-Identifier: Apache-2.0 */
/* Where the keys of a semaphore, a counter or a latch are. */
#include "kinds.h"

#include "base/testing.h"

#include <string.h>

static const char *const words[] = {
    [HF_PERMIT] = "permits",
    [HF_COUNTER] = "counter",
    [HF_LATCH] = "latch",
};

const char *hf__etcd_kind_word(hf_mode mode)
{
    return words[mode];
}

const char *hf__etcd_kind_of_suffix(const char *text, size_t length)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t word = words[i] ? strlen(words[i]) : SIZE_MAX;
        if (word <= length && memcmp(text, words[i], word) == 0 &&
            (length == word || text[word] == '/'))
            return words[i];
    }
    return NULL;
}

/* '0' comes right behind '/'. */
bool hf__etcd_layout_new(struct etcd_layout *layout, const struct etcd *etcd, const char *name,
                         size_t name_length, const char *word)
{
    size_t root = strlen(etcd->settings.root), prefix = root + name_length + 1;
    size_t object = prefix + strlen(word);
    char *text = hf__calloc(1, 2 * (object + 1) + prefix);
    *layout = (struct etcd_layout){ .memory = text };
    if (!text)
        return false;
    char *end = text + object + 1, *past = end + object + 1;
    memcpy(text, etcd->settings.root, root);
    memcpy(text + root, name, name_length);
    text[prefix - 1] = '/';
    memcpy(text + prefix, word, object - prefix);
    text[object] = '/';
    memcpy(end, text, object);
    end[object] = '0';
    memcpy(past, text, prefix - 1);
    past[prefix - 1] = '0';
    layout->object = hf__etcd_bytes(text, object);
    layout->claims.begin = hf__etcd_bytes(text, object + 1);
    layout->claims.end = hf__etcd_bytes(end, object + 1);
    layout->before.begin = hf__etcd_bytes(text, prefix);
    layout->before.end = layout->object;
    layout->past.begin = layout->claims.end;
    layout->past.end = hf__etcd_bytes(past, prefix);
    return true;
}

void hf__etcd_layout_free(struct etcd_layout *layout)
{
    free(layout->memory);
    layout->memory = NULL;
}

/* A key that says nothing of it was put by hand. */
uint32_t hf__etcd_weight(const char *key, size_t length)
{
    size_t dot = length;
    uint64_t weight = 0;
    while (dot > 0 && key[dot - 1] != '.' && key[dot - 1] != '/')
        dot--;
    if (dot == 0 || key[dot - 1] != '.' || length - dot > 10 || length == dot)
        return 1;
    for (size_t i = dot; i < length; i++) {
        if (key[i] < '0' || key[i] > '9')
            return 1;
        weight = weight * 10 + (uint64_t)(key[i] - '0');
    }
    return weight > UINT32_MAX ? UINT32_MAX : (uint32_t)weight;
}

/* ---- parts of transactions ---- */

void hf__etcd_txn_if_kind(struct etcd_txn *txn, const struct etcd_layout *layout)
{
    hf__etcd_txn_if_all_older(txn, layout->before.begin, layout->before.end, 1);
    hf__etcd_txn_if_all_older(txn, layout->past.begin, layout->past.end, 1);
}

static void add_other_kind(struct etcd_txn *txn, enum etcd_branch branch,
                           const struct etcd_span *span)
{
    etcd_range *range = hf__etcd_txn_range(txn, branch, span->begin, span->end);
    range->limit = 1;
    range->keys_only = true;
}

void hf__etcd_txn_other_kinds(struct etcd_txn *txn, enum etcd_branch branch,
                              const struct etcd_layout *layout)
{
    add_other_kind(txn, branch, &layout->before);
    add_other_kind(txn, branch, &layout->past);
}

etcd_range *hf__etcd_txn_claims(struct etcd_txn *txn, enum etcd_branch branch,
                                const struct etcd_layout *layout)
{
    etcd_range *range = hf__etcd_txn_range(txn, branch, layout->claims.begin, layout->claims.end);
    range->keys_only = true;
    return range;
}

void hf__etcd_txn_object(struct etcd_txn *txn, enum etcd_branch branch,
                         const struct etcd_layout *layout)
{
    hf__etcd_txn_range(txn, branch, layout->object, hf__etcd_bytes("", 0));
}
