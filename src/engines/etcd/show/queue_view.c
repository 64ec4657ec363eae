/* SPDX-License-Identifier: Apache-2.0 */
/* Reading keys: which name, which kind, which of them hold. */
#include "queue_view.h"

#include "engines/etcd/kinds/kinds.h"

#include <stdio.h>
#include <string.h>

#define READ "/read/"
#define WRITE "/write/"

static bool is_digits(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] < '0' || text[i] > '9')
            return false;
    return length > 0;
}

/* A lease in hexadecimal digits, and perhaps a number behind a dot. */
static bool is_lease(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        bool digit = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
        if (!digit && (text[i] != '.' || i == 0 || i == length - 1))
            return false;
    }
    return length > 0;
}

static bool ends_with(const char *text, size_t length, const char *wanted)
{
    size_t end = strlen(wanted);
    return length > end && memcmp(text + length - end, wanted, end) == 0;
}

/* "NUMBER.WEIGHT" */
static bool is_claim(const char *text, size_t length)
{
    const char *dot = memchr(text, '.', length);
    return dot && is_digits(text, (size_t)(dot - text)) &&
           is_digits(dot + 1, length - (size_t)(dot + 1 - text));
}

/* A key of a semaphore, a counter or a latch? `slash`: what is behind the last one. */
static bool see_kind(struct etcd_seen_key *seen, const char *text, size_t length, size_t slash)
{
    static const hf_mode modes[] = { HF_PERMIT, HF_COUNTER, HF_LATCH };
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char below[16];
        const char *word = hf__etcd_kind_word(modes[i]);
        size_t word_length = strlen(word);
        snprintf(below, sizeof below, "/%s/", word);
        bool object = length - slash == word_length && memcmp(text + slash, word, word_length) == 0;
        bool claim = ends_with(text, slash, below) && is_claim(text + slash, length - slash);
        if (!object && !claim)
            continue;
        seen->kind = object ? ETCD_KEY_OBJECT : ETCD_KEY_CLAIM;
        seen->mode = modes[i];
        seen->weight = hf__etcd_weight(text, length);
        seen->suffix = object ? slash : slash - word_length - 1;
        seen->name_length = seen->suffix - 1;
        return true;
    }
    return false;
}

struct etcd_seen_key hf__etcd_see_key(const etcd_key_value *key)
{
    const char *text = (const char *)key->key.data;
    size_t length = key->key.len, slash = length;
    struct etcd_seen_key seen = { .key = key, .kind = ETCD_KEY_FOREIGN };
    while (slash > 0 && text[slash - 1] != '/')
        slash--;
    if (slash < 2 || memchr(text, 0, length) || see_kind(&seen, text, length, slash))
        return seen;
    const char *last = text + slash;
    size_t last_length = length - slash;
    bool reads = ends_with(text, slash, READ), writes = ends_with(text, slash, WRITE);
    size_t kind = reads ? sizeof READ - 1 : sizeof WRITE - 1;
    if ((reads || writes) && is_digits(last, last_length)) {
        seen.kind = reads ? ETCD_KEY_READER : ETCD_KEY_WRITER;
        seen.name_length = slash - kind;
        seen.suffix = seen.name_length + 1;
    } else if (is_lease(last, last_length)) {
        seen.kind = ETCD_KEY_MUTEX;
        seen.name_length = slash - 1;
        seen.suffix = slash;
    }
    return seen;
}

static int compare(const void *one, const void *other)
{
    const struct etcd_seen_key *a = one, *b = other;
    size_t shorter = a->name_length < b->name_length ? a->name_length : b->name_length;
    int order = memcmp(a->key->key.data, b->key->key.data, shorter);
    if (order == 0 && a->name_length != b->name_length)
        order = a->name_length < b->name_length ? -1 : 1;
    if (order == 0 && a->key->create_revision != b->key->create_revision)
        order = a->key->create_revision < b->key->create_revision ? -1 : 1;
    return order;
}

/* A writer has the key of a reader besides, which was put together with it. */
static bool is_second_key(const struct etcd_seen_key *keys, size_t count, size_t at)
{
    int64_t created = keys[at].key->create_revision;
    if (keys[at].kind != ETCD_KEY_READER)
        return false;
    bool before = at > 0 && keys[at - 1].kind == ETCD_KEY_WRITER &&
                  keys[at - 1].key->create_revision == created;
    bool behind = at + 1 < count && keys[at + 1].kind == ETCD_KEY_WRITER &&
                  keys[at + 1].key->create_revision == created;
    return before || behind;
}

size_t hf__etcd_sort_seen(struct etcd_seen_key *keys, size_t count)
{
    if (count > 1)
        qsort(keys, count, sizeof *keys, compare);
    for (size_t i = 0; i < count; i++)
        if (is_second_key(keys, count, i))
            keys[i].kind = ETCD_KEY_FOREIGN;
    size_t left = 0;
    for (size_t i = 0; i < count; i++)
        if (keys[i].kind != ETCD_KEY_FOREIGN)
            keys[left++] = keys[i];
    return left;
}

const struct etcd_seen_key *hf__etcd_find_object(const struct etcd_seen_key *keys, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (keys[i].kind == ETCD_KEY_OBJECT)
            return &keys[i];
    return NULL;
}

static void find_holders_of_permits(struct etcd_seen_key *keys, size_t count,
                                    const struct etcd_total *total)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (keys[i].kind != ETCD_KEY_CLAIM)
            continue;
        sum += keys[i].weight;
        keys[i].holds = sum <= total->permits || keys[i].key->create_revision <= total->held_until;
    }
}

/* A counter or a latch has no holder. */
void hf__etcd_find_holders(struct etcd_seen_key *keys, size_t count)
{
    const struct etcd_seen_key *object = hf__etcd_find_object(keys, count);
    bool writer = false;
    if (object && object->mode == HF_PERMIT) {
        struct etcd_total total = hf__etcd_total_read(object->key);
        find_holders_of_permits(keys, count, &total);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (keys[i].kind == ETCD_KEY_CLAIM || keys[i].kind == ETCD_KEY_OBJECT)
            continue;
        keys[i].holds = keys[i].kind == ETCD_KEY_READER ? !writer : i == 0;
        writer |= keys[i].kind != ETCD_KEY_READER;
    }
}
