/* SPDX-License-Identifier: Apache-2.0 */
/* Looking and breaking: a name's keys are read, the object, its holders and its waiters shown, or
 * holders' keys deleted. */
#include "key_list.h"

#include "base/error.h"
#include "engines/common/findings.h"
#include "engines/etcd/kinds/kinds.h"

#include <stdio.h>
#include <string.h>

/* ---- showing ---- */

/* Clocks of other machines may differ; this is shown, and decides nothing. */
static int64_t clamp(int64_t value, int64_t most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

static hf_kind kind_of(const struct etcd_seen_key *key)
{
    struct etcd_note note;
    if (key->kind == ETCD_KEY_OBJECT || key->kind == ETCD_KEY_CLAIM)
        return key->mode == HF_PERMIT    ? HF_KIND_SEMAPHORE
               : key->mode == HF_COUNTER ? HF_KIND_COUNTER
                                         : HF_KIND_LATCH;
    if (key->kind != ETCD_KEY_MUTEX)
        return HF_KIND_RW;
    hf__etcd_note_read(&note, key->key->value.data, key->key->value.len);
    return note.mode == HF_FAIR ? HF_KIND_FAIR : HF_KIND_MUTEX;
}

/* The revision at which a claim was granted is its owner's alone: 0 where that is not us. A
 * leader's is its key's. */
static uint64_t inspect_token_of(struct etcd *etcd, const struct etcd_seen_key *key)
{
    const ProtobufCBinaryData *text = &key->key->key;
    struct etcd_note note;
    hf__etcd_note_read(&note, key->key->value.data, key->key->value.len);
    if (key->kind == ETCD_KEY_MUTEX && !note.ours && *note.owner)
        return (uint64_t)key->key->create_revision;
    struct etcd_claim *claim =
        hf__etcd_claim_find(etcd, hf__etcd_bytes((const char *)text->data, text->len));
    return claim && claim->op && hf__etcd_holds(claim) ? claim->op->out.token : 0;
}

static void show_key(struct etcd *etcd, struct hf_oneshot *oneshot,
                     const struct etcd_seen_key *seen, hf_entry *entry)
{
    char owner_key[HF_OWNER_KEY_SIZE];
    struct etcd_note note;
    const ProtobufCBinaryData *text = &seen->key->key;
    int64_t now_ms = hf__finding_wall_ms();
    hf__etcd_note_read(&note, seen->key->value.data, seen->key->value.len);
    snprintf(owner_key, sizeof owner_key, "%.*s", (int)(text->len - seen->suffix),
             (const char *)text->data + seen->suffix);
    entry->mode = seen->kind == ETCD_KEY_READER   ? HF_READ
                  : seen->kind == ETCD_KEY_WRITER ? HF_WRITE
                  : seen->kind == ETCD_KEY_CLAIM  ? seen->mode
                                                  : note.mode;
    entry->permits = seen->kind == ETCD_KEY_CLAIM ? seen->weight : 1;
    entry->owner_key = owner_key;
    entry->owner_text = note.owner;
    entry->host = note.host;
    entry->thread = note.thread;
    entry->claim = (uint64_t)seen->key->create_revision;
    entry->pid = note.pid;
    entry->since_ms = note.ours ? clamp(now_ms - note.since_ms, INT64_MAX) : -1;
    entry->lease_left_ms = -1;
    if (seen->holds && note.lease_ms > 0)
        entry->lease_left_ms = clamp(note.since_ms + note.lease_ms - now_ms, note.lease_ms);
    entry->token = seen->holds ? inspect_token_of(etcd, seen) : 0;
    hf__oneshot_entry(oneshot, entry);
}

/* What the object says: permits in all, and those that are free, or a value. */
static void show_value(hf_entry *entry, const struct etcd_seen_key *keys, size_t count)
{
    const struct etcd_seen_key *object = hf__etcd_find_object(keys, count);
    if (!object)
        return;
    struct etcd_total total = hf__etcd_total_read(object->key);
    uint64_t taken = 0;
    entry->kind = kind_of(object);
    entry->value = total.permits;
    if (object->mode != HF_PERMIT)
        return;
    for (size_t i = 0; i < count; i++)
        taken += keys[i].holds ? keys[i].weight : 0;
    entry->total = total.permits;
    entry->value = taken < total.permits ? (uint32_t)(total.permits - taken) : 0;
}

/* The keys of one name, in order. */
static void show_name(struct etcd *etcd, struct hf_oneshot *oneshot, struct etcd_seen_key *keys,
                      size_t count)
{
    char name[HF_NAME_MAX + 1] = "";
    size_t root = strlen(etcd->settings.root);
    size_t length = oneshot->name ? oneshot->name_length : keys[0].name_length - root;
    const char *bytes = oneshot->name ? oneshot->name : (const char *)keys[0].key->key.data + root;
    if (length > HF_NAME_MAX)
        return;
    memcpy(name, bytes, length);
    name[length] = 0;
    hf_entry entry = { .size = sizeof entry,
                       .name = name,
                       .name_length = length,
                       .kind = count > 0 ? kind_of(&keys[0]) : HF_KIND_FREE,
                       .role = HF_ROLE_OBJECT,
                       .owner_key = "",
                       .owner_text = "",
                       .host = "",
                       .thread = "",
                       .lease_left_ms = -1 };
    hf__etcd_find_holders(keys, count);
    for (size_t i = 0; i < count; i++)
        if (keys[i].holds && inspect_token_of(etcd, &keys[i]) > entry.token)
            entry.token = inspect_token_of(etcd, &keys[i]);
    show_value(&entry, keys, count);
    hf__oneshot_entry(oneshot, &entry);
    entry.role = HF_ROLE_HOLDER;
    for (size_t i = 0; i < count; i++)
        if (keys[i].holds)
            show_key(etcd, oneshot, &keys[i], &entry);
    entry.role = HF_ROLE_WAITER;
    for (size_t i = 0; i < count; i++)
        if (!keys[i].holds && keys[i].kind != ETCD_KEY_OBJECT) {
            entry.rank++;
            show_key(etcd, oneshot, &keys[i], &entry);
        }
}

static bool same_name(const struct etcd_seen_key *one, const struct etcd_seen_key *other)
{
    return one->name_length == other->name_length &&
           memcmp(one->key->key.data, other->key->key.data, one->name_length) == 0;
}

static void oneshot_end(struct etcd *etcd, struct hf_oneshot *oneshot, int code)
{
    oneshot->code = code;
    if (code == HF_ENOMEM)
        hf__explain(&oneshot->error, code, 0, "out of memory for a look at the keys");
    hf__oneshot_done(&etcd->base, oneshot);
}

/* What there is when the list does not go on, is shown all the same. */
static void shown(struct etcd *etcd, struct etcd_key_list *list, const struct etcd_reply *failure)
{
    struct hf_oneshot *oneshot = list->oneshot;
    size_t begun = 0;
    int code = failure ? hf__etcd_explain(etcd, failure, &oneshot->error) : HF_OK;
    if (oneshot->name && !failure) {
        show_name(etcd, oneshot, list->keys, list->count);
    } else if (!oneshot->name) {
        for (size_t i = 1; i <= list->count; i++)
            if (i == list->count || !same_name(&list->keys[i], &list->keys[begun])) {
                show_name(etcd, oneshot, list->keys + begun, i - begun);
                begun = i;
            }
    }
    oneshot_end(etcd, oneshot, code);
    hf__etcd_key_list_free(list);
}

/* ---- breaking ---- */

/* Its holders' keys go in one transaction each; the last reply ends it. */
static void breaking_step(struct etcd *etcd, struct etcd_key_list *list)
{
    if (--list->out > 0)
        return;
    oneshot_end(etcd, list->oneshot, list->code);
    hf__etcd_key_list_free(list);
}

static void inspect_broken(struct etcd *etcd, struct etcd_request *request,
                           const struct etcd_reply *reply)
{
    struct etcd_key_list *list = request->arg;
    const etcd_txn_reply *txn = reply->message;
    if (reply->status == HF_GRPC_OK)
        list->oneshot->result += txn->succeeded;
    else if (list->code == HF_OK)
        list->code = hf__etcd_explain(etcd, reply, &list->oneshot->error);
    breaking_step(etcd, list);
}

static void break_key(struct etcd *etcd, struct etcd_key_list *list,
                      const struct etcd_seen_key *seen)
{
    struct etcd_txn txn;
    const etcd_key_value *key = seen->key;
    char reader[ETCD_KEY_SIZE]; /* a writer of ours has this one, too */
    size_t number = seen->suffix + sizeof "write/" - 1;
    struct etcd_bytes text = hf__etcd_bytes((const char *)key->key.data, key->key.len);
    struct etcd_request *request = hf__etcd_request(etcd, &hf__etcd_txn, inspect_broken);
    if (!request) {
        list->code = HF_ENOMEM;
        return;
    }
    request->arg = list;
    list->out++;
    hf__etcd_txn_begin(&txn);
    hf__etcd_txn_if_created(&txn, text, key->create_revision);
    hf__etcd_txn_delete(&txn, ETCD_THEN, text);
    if (seen->kind == ETCD_KEY_WRITER && text.length < sizeof reader) {
        size_t more = text.length - number;
        memcpy(reader, text.bytes, seen->suffix);
        memcpy(reader + seen->suffix, "read/", sizeof "read/" - 1);
        memcpy(reader + seen->suffix + sizeof "read/" - 1, text.bytes + number, more);
        hf__etcd_txn_delete(&txn, ETCD_THEN,
                            hf__etcd_bytes(reader, seen->suffix + sizeof "read/" - 1 + more));
    }
    hf__etcd_ask(etcd, request, &txn.message.base);
}

static bool is_wanted(const struct hf_oneshot *oneshot, const struct etcd_seen_key *seen)
{
    const ProtobufCBinaryData *text = &seen->key->key;
    size_t length = text->len - seen->suffix;
    return !oneshot->key || (strlen(oneshot->key) == length &&
                             memcmp(text->data + seen->suffix, oneshot->key, length) == 0);
}

static void holders_listed(struct etcd *etcd, struct etcd_key_list *list,
                           const struct etcd_reply *failure)
{
    bool held = false, found = false;
    if (failure)
        list->code = hf__etcd_explain(etcd, failure, &list->oneshot->error);
    list->out = 1;
    hf__etcd_find_holders(list->keys, list->count);
    for (size_t i = 0; i < list->count && !failure; i++) {
        if (!list->keys[i].holds)
            continue;
        held = true;
        if (!is_wanted(list->oneshot, &list->keys[i]))
            continue;
        found = true;
        break_key(etcd, list, &list->keys[i]);
    }
    if (held && !found)
        list->code = HF_BUSY;
    breaking_step(etcd, list);
}

/* ---- asking ---- */

void hf__etcd_look(struct etcd *etcd, struct hf_oneshot *oneshot)
{
    bool breaks = oneshot->verb == HF_ONESHOT_BREAK;
    if (!hf__etcd_list_keys(etcd, oneshot, breaks ? holders_listed : shown))
        oneshot_end(etcd, oneshot, HF_ENOMEM);
}
