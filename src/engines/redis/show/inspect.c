/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at a lock. The format keeps a holder's field and nothing else of it; the name of its
 * client's connection says which owner that is. Waiters are known by number only where they listen
 * for the release. */
#include "base/testing.h"
#include "base/wait_graph.h"
#include "engines/redis/kinds/keys.h"
#include "engines/redis/kinds/kinds.h"
#include "listing.h"

#include <stdlib.h>
#include <string.h>

#define WAITERS_SHOWN_MAX 10000
/* Where the UUID of a client has its version. */
#define VERSION_AT 14

/* The script's words. */
static const char *const kinds[] = { "",          "mutex",   "fair",  "rw",
                                     "semaphore", "counter", "latch", "limiter" };

static hf_kind kind_of(const redisReply *word)
{
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i], hf__reply_text(word)) == 0)
            return (hf_kind)i;
    return HF_KIND_FREE;
}

static uint32_t small(const redisReply *reply)
{
    int64_t number = hf__reply_number(reply);
    return number < 0 ? 0 : number > UINT32_MAX ? UINT32_MAX : (uint32_t)number;
}

/* The store keeps the last token of a name, and not whose it is. It is a holder's own where no
 * claim can have been granted one since, and where the holder is a client of ours that wants
 * tokens. */
static bool has_last_token(hf_mode mode, const char *owner_key)
{
    const char *colon = strchr(owner_key, ':');
    return mode != HF_PERMIT && colon && /* mutant: permit-is-shown-with-last */
           hf__client_names_has_tokens(owner_key, (size_t)(colon - owner_key));
}

/* A claim of ours: the thread is in its number. */
static void name_thread(char thread[HF_OWNER_KEY_SIZE], const char *owner_key)
{
    const char *colon = strchr(owner_key, ':');
    bool ours = colon && colon - owner_key > VERSION_AT && owner_key[VERSION_AT] == '8';
    uint64_t number = ours ? strtoull(colon + 1, NULL, 10) : 0;
    hf__thread_key(thread, owner_key, number >> HF_CLAIM_BITS);
}

/* {mode, permits, key, ms left}: a holder's, or with the ms that it has waited, a waiter's. */
static void show_person(const struct listing *listing, hf_entry entry, const redisReply *row)
{
    char thread[HF_OWNER_KEY_SIZE];
    if (!hf__reply_is_array(row, 4))
        return;
    entry.mode = hf__redis_mode_of(row->element[0]);
    entry.permits = small(row->element[1]);
    entry.owner_key = hf__reply_text(row->element[2]);
    const char *text = hf__client_names_find(&listing->owners, entry.owner_key);
    entry.owner_text = text ? text : entry.owner_key;
    name_thread(thread, entry.owner_key);
    entry.thread = thread;
    if (!has_last_token(entry.mode, entry.owner_key))
        entry.token = 0;
    if (entry.role == HF_ROLE_HOLDER)
        entry.lease_left_ms = hf__reply_number(row->element[3]);
    else
        entry.since_ms = hf__reply_number(row->element[3]);
    hf__oneshot_entry(listing->query, &entry);
}

static void show_waiters(const struct listing *listing, hf_entry entry, const redisReply *waiters)
{
    int64_t count =
        waiters->type == REDIS_REPLY_ARRAY ? (int64_t)waiters->elements : hf__reply_number(waiters);
    entry.role = HF_ROLE_WAITER;
    for (int64_t i = 0; i < count && i < WAITERS_SHOWN_MAX; i++) {
        entry.rank = (uint32_t)i + 1;
        if (waiters->type == REDIS_REPLY_ARRAY)
            show_person(listing, entry, waiters->element[i]);
        else
            hf__oneshot_entry(listing->query, &entry);
    }
}

void hf__listing_show(const struct listing *listing, const struct found *found,
                      redisReply *const *parts)
{
    int64_t token = hf__reply_number(parts[PART_TOKEN]);
    hf_entry object = { .size = sizeof object,
                        .name = found->name,
                        .name_length = found->length,
                        .kind = kind_of(parts[PART_KIND]),
                        .role = HF_ROLE_OBJECT,
                        .token = token > 0 ? (uint64_t)token : 0,
                        .owner_key = "",
                        .owner_text = "",
                        .host = "",
                        .since_ms = -1,
                        .lease_left_ms = -1 };
    hf_entry person = object;
    object.total = small(parts[PART_TOTAL]);
    object.value = small(parts[PART_VALUE]);
    object.unmarked = hf__reply_number(parts[PART_UNMARKED]) == 1;
    hf__oneshot_entry(listing->query, &object);
    person.role = HF_ROLE_HOLDER;
    for (size_t i = 0; hf__reply_is_array(parts[PART_HOLDERS], i + 1); i++)
        show_person(listing, person, parts[PART_HOLDERS]->element[i]);
    person.token = 0;
    show_waiters(listing, person, parts[PART_WAITERS]);
}

void hf__listing_fail(struct connection *connection, const struct redis_request *request,
                      const redisReply *reply, struct listing *listing)
{
    struct hf_oneshot *query = listing->query;
    bool definite;
    listing->failed = true;
    query->code =
        hf__request_failed(connection, request, reply, query->name, &query->error, &definite);
}

void hf__listing_free(struct listing *listing)
{
    hf__link_remove(&listing->link);
    hf__client_names_release(&listing->owners);
    hf__seen_set_release(&listing->shown);
    free(listing);
}

void hf__listing_end(struct listing *listing)
{
    struct hf_oneshot *query = listing->query;
    struct redis *front = listing->at->front;
    hf__listing_free(listing);
    hf__oneshot_done(&front->base, query);
}

static void inspect_send_look(struct connection *connection, struct redis_request *request)
{
    const struct found *found = request->memory;
    struct command command;
    if (connection->redis->settings.simple) {
        hf__connection_script(connection, &command, REDIS_SIMPLE_INSPECT, 2);
        hf__command_add(&command, found->name, found->length);
        hf__command_derived(&command, REDIS_TOKEN_PREFIX, found->name, found->length);
    } else {
        hf__keys_script(connection, &command, REDIS_INSPECT, REDIS_CHANNEL_MUTEX, found->name,
                        found->length);
        hf__command_own(&command, REDIS_QUEUE_PREFIX, found->name, found->length);
        hf__command_derived(&command, REDIS_FAIR_QUEUE_PREFIX, found->name, found->length);
        hf__command_derived(&command, REDIS_FAIR_TIMES_PREFIX, found->name, found->length);
    }
    hf__connection_write(connection, request, &command);
}

struct redis_request *hf__listing_look(struct listing *listing, const char *name, size_t length,
                                       void (*answered)(struct connection *, struct redis_request *,
                                                        const redisReply *))
{
    struct found *found = hf__calloc(1, sizeof *found + length + 1);
    struct redis_request *request = found ? hf__request_new(listing->at) : NULL;
    if (!request) {
        free(found);
        listing->failed = true;
        listing->query->code = HF_ENOMEM;
        return NULL;
    }
    request->listing = listing;
    memcpy(found->name, name, length);
    found->length = (uint32_t)length;
    request->memory = found;
    request->send = inspect_send_look;
    request->answered = answered;
    return request;
}

/* ---- one name ---- */

static void inspect_look_answered(struct connection *connection, struct redis_request *request,
                                  const redisReply *reply)
{
    struct listing *listing = request->listing;
    struct hf_oneshot *query = listing->query;
    query->contacted |= reply != NULL;
    if (hf__reply_is_array(reply, PARTS)) {
        hf__listing_show(listing, request->memory, reply->element);
    } else if (hf__reply_is_array(reply, 1)) {
        query->code = HF_EKIND;
        hf__explain(&query->error, HF_EKIND, 0, "\"%.200s\" %.100s", query->name,
                    hf__reply_text(reply->element[0]));
    } else {
        hf__listing_fail(connection, request, reply, listing);
    }
    hf__request_free(connection->redis, request);
    hf__listing_end(listing);
}

void hf__listing_look_at_one(struct listing *listing)
{
    const struct hf_oneshot *query = listing->query;
    struct redis_request *request =
        hf__listing_look(listing, query->name, query->name_length, inspect_look_answered);
    if (request)
        hf__redis_ask(listing->at->front, request, query->name, query->name_length);
    else
        hf__listing_end(listing);
}
