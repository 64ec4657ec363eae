/* SPDX-License-Identifier: Apache-2.0 */
/* Listing: first the keys without their values, then the values of the locks' keys alone, all at
 * one revision. */
#include "key_list.h"

#include <string.h>

/* Keys of a page, and values of one. */
#define PAGE 1000
/* What a key of a lock has as a value is shorter. */
#define VALUE_MAX 4096u

/* A key that outlives its reply. */
struct etcd_key_copy {
    struct etcd_key_copy *next;
    etcd_key_value key;
    uint8_t bytes[];
};

void hf__etcd_key_list_free(struct etcd_key_list *list)
{
    hf__link_remove(&list->link);
    for (struct etcd_key_copy *copy = list->copies, *next; copy; copy = next) {
        next = copy->next;
        free(copy);
    }
    free(list->keys);
    free(list->follows);
    free(list);
}

void hf__etcd_key_lists_free(struct etcd *etcd)
{
    struct hf_link *link;
    while ((link = hf__list_first(&etcd->key_lists)))
        hf__etcd_key_list_free(HF_CONTAINER(link, struct etcd_key_list, link));
}

static void list_end(struct etcd *etcd, struct etcd_key_list *list,
                     const struct etcd_reply *failure)
{
    list->count = hf__etcd_sort_seen(list->keys, list->count);
    list->listed(etcd, list, failure);
}

static void no_memory(struct etcd *etcd, struct etcd_key_list *list)
{
    static const struct etcd_reply failure = { .status = HF_GRPC_UNAVAILABLE,
                                               .word = ETCD_UNSENT,
                                               .text = "out of memory for a look at the keys" };
    list_end(etcd, list, &failure);
}

static bool list_ask(struct etcd *etcd, struct etcd_key_list *list, HfEtcd__RangeRequest *message,
                     etcd_answered *answered)
{
    struct etcd_request *request = hf__etcd_request(etcd, &hf__etcd_range, answered);
    if (!request)
        return false;
    request->arg = list;
    message->revision = list->revision;
    message->limit = PAGE;
    hf__etcd_ask(etcd, request, &message->base);
    return true;
}

/* False: the list has ended. A revision that was compacted meanwhile is replaced by any. */
static bool is_page_good(struct etcd *etcd, struct etcd_key_list *list,
                         const struct etcd_reply *reply)
{
    list->oneshot->contacted |= hf__etcd_is_definite(reply);
    if (reply->status == HF_GRPC_OK && !list->oneshot->unwanted) {
        hf__oneshot_progress(list->oneshot);
        return true;
    }
    if (reply->status == HF_GRPC_OUT_OF_RANGE && list->revision != 0) {
        list->revision = 0;
        return true;
    }
    list_end(etcd, list, reply->status == HF_GRPC_OK ? NULL : reply);
    return false;
}

/* ---- values ---- */

/* NULL: out of memory. */
static const etcd_key_value *copy_key(struct etcd_key_list *list, const etcd_key_value *key,
                                      const ProtobufCBinaryData *value)
{
    size_t length = value->len < VALUE_MAX ? value->len : VALUE_MAX;
    struct etcd_key_copy *copy = hf__calloc(1, sizeof *copy + key->key.len + length);
    if (!copy)
        return NULL;
    copy->next = list->copies;
    list->copies = copy;
    copy->key = *key;
    copy->key.key.data = copy->bytes;
    copy->key.value.data = copy->bytes + key->key.len;
    copy->key.value.len = length;
    memcpy(copy->bytes, key->key.data, key->key.len);
    if (length > 0)
        memcpy(copy->bytes + key->key.len, value->data, length);
    return &copy->key;
}

static void ask_for_values(struct etcd *etcd, struct etcd_key_list *list);

static void values_answered(struct etcd *etcd, struct etcd_request *request,
                            const struct etcd_reply *reply)
{
    struct etcd_key_list *list = request->arg;
    const HfEtcd__RangeResponse *page = reply->message;
    if (!is_page_good(etcd, list, reply))
        return;
    size_t at = list->valued;
    for (size_t i = 0; page && i < page->n_kvs; i++) {
        const ProtobufCBinaryData *key = &page->kvs[i]->key;
        while (at < list->count &&
               !hf__etcd_is_key(&list->keys[at].key->key,
                                hf__etcd_bytes((const char *)key->data, key->len)))
            at++;
        if (at == list->count)
            break;
        const etcd_key_value *copy = copy_key(list, list->keys[at].key, &page->kvs[i]->value);
        if (!copy) {
            no_memory(etcd, list);
            return;
        }
        list->keys[at].key = copy;
    }
    if (page)
        list->valued += list->from_length; /* keys that were asked for */
    ask_for_values(etcd, list);
}

/* Of keys that follow each other: the index behind the last one. */
static size_t end_of_run(const struct etcd_key_list *list)
{
    size_t end = list->valued + 1;
    while (end < list->count && list->follows[end] && end - list->valued < PAGE)
        end++;
    return end;
}

/* Up to this key, which is the last of a run. */
static void ask_for_run(struct etcd *etcd, struct etcd_key_list *list,
                        const ProtobufCBinaryData *last)
{
    HfEtcd__RangeRequest message;
    memcpy(list->end, last->data, last->len);
    list->end[last->len] = 0;
    hf_etcd__range_request__init(&message);
    message.key = list->keys[list->valued].key->key;
    message.range_end = hf__etcd_binary(hf__etcd_bytes(list->end, last->len + 1));
    if (!list_ask(etcd, list, &message, values_answered))
        no_memory(etcd, list);
}

static void ask_for_values(struct etcd *etcd, struct etcd_key_list *list)
{
    while (list->valued < list->count) {
        size_t end = end_of_run(list);
        const ProtobufCBinaryData *last = &list->keys[end - 1].key->key;
        list->from_length = end - list->valued;
        if (last->len < sizeof list->end) {
            ask_for_run(etcd, list, last);
            return;
        }
        list->valued = end; /* too long for a key of ours */
    }
    list_end(etcd, list, NULL);
}

/* ---- keys ---- */

static bool list_add(struct etcd_key_list *list, const struct etcd_seen_key *seen, bool follows)
{
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        struct etcd_seen_key *keys = hf__realloc(list->keys, room * sizeof *keys);
        if (!keys)
            return false;
        list->keys = keys;
        bool *flags = hf__realloc(list->follows, room * sizeof *flags);
        list->room = room;
        if (!flags)
            return false;
        list->follows = flags;
    }
    struct etcd_seen_key *key = &list->keys[list->count];
    *key = *seen;
    key->key = copy_key(list, seen->key, &(const ProtobufCBinaryData){ 0 });
    list->follows[list->count] = follows;
    list->count += key->key != NULL;
    return key->key != NULL;
}

static bool add_page(const struct etcd *etcd, struct etcd_key_list *list,
                     const HfEtcd__RangeResponse *page)
{
    const struct hf_oneshot *oneshot = list->oneshot;
    size_t root = strlen(etcd->settings.root);
    bool follows = false;
    for (size_t i = 0; i < page->n_kvs; i++) {
        struct etcd_seen_key seen = hf__etcd_see_key(page->kvs[i]);
        bool wanted = !oneshot->name || seen.name_length == root + oneshot->name_length;
        bool ours = seen.kind != ETCD_KEY_FOREIGN && wanted && seen.name_length > root;
        if (ours && !list_add(list, &seen, follows))
            return false;
        follows = ours;
    }
    return true;
}

static bool ask_for_keys(struct etcd *etcd, struct etcd_key_list *list);

static void keys_answered(struct etcd *etcd, struct etcd_request *request,
                          const struct etcd_reply *reply)
{
    struct etcd_key_list *list = request->arg;
    const HfEtcd__RangeResponse *page = reply->message;
    if (!is_page_good(etcd, list, reply))
        return;
    if (page && !add_page(etcd, list, page)) {
        no_memory(etcd, list);
        return;
    }
    const ProtobufCBinaryData *last = page && page->n_kvs ? &page->kvs[page->n_kvs - 1]->key : NULL;
    bool more = !page || (page->more && last && last->len < sizeof list->from);
    if (page && list->revision == 0)
        list->revision = hf__etcd_revision(page->header);
    if (last && more) { /* the next one begins behind it */
        memcpy(list->from, last->data, last->len);
        list->from[last->len] = 0;
        list->from_length = last->len + 1;
    }
    if (!more)
        ask_for_values(etcd, list);
    else if (!ask_for_keys(etcd, list))
        no_memory(etcd, list);
}

static bool ask_for_keys(struct etcd *etcd, struct etcd_key_list *list)
{
    HfEtcd__RangeRequest message;
    hf_etcd__range_request__init(&message);
    message.key = hf__etcd_binary(hf__etcd_bytes(list->from, list->from_length));
    message.range_end = hf__etcd_binary(hf__etcd_bytes(list->end, list->end_length));
    message.keys_only = true;
    return list_ask(etcd, list, &message, keys_answered);
}

bool hf__etcd_list_keys(struct etcd *etcd, struct hf_oneshot *oneshot, etcd_keys_listed *listed)
{
    size_t length = strlen(etcd->settings.root);
    struct etcd_key_list *list = hf__calloc(1, sizeof *list);
    if (!list)
        return false;
    hf__link_init(&list->link);
    list->oneshot = oneshot;
    list->listed = listed;
    memcpy(list->from, etcd->settings.root, length);
    if (oneshot->name) {
        memcpy(list->from + length, oneshot->name, oneshot->name_length);
        length += oneshot->name_length;
        list->from[length++] = '/';
    }
    list->from_length = length > 0 ? length : 1; /* a NUL: all keys there are */
    list->end_length = length > 0 ? hf__etcd_prefix_end(list->from, length, list->end) : 1;
    hf__list_append(&etcd->key_lists, &list->link);
    if (ask_for_keys(etcd, list))
        return true;
    hf__etcd_key_list_free(list);
    return false;
}
