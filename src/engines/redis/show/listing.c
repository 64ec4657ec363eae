/* SPDX-License-Identifier: Apache-2.0 */
/* Showing everything that is in use, as far as it can be found: by the tokens, which every grant of
 * ours leaves for most of a day; by the mark of a kind that has none; and by the queues. */
#include "listing.h"
#include "engines/redis/kinds/keys.h"
#include "engines/redis/topology/cluster.h"

#include <stdlib.h>
#include <string.h>

/* How many keys the server looks at for one answer, which takes it about a millisecond. */
#define SCAN_COUNT "4000"

/* One walk through all keys finds those of all prefixes: "holdfast_" and "redisson_lock_". An index
 * of the names would need a write for each new name, and names are often used but once. */
#define PATTERN "[hr][oe][dl][di]*_*:*"

/* What is behind one of these, and a colon, is a name. */
static const struct {
    const char *text;
    bool own; /* as hf__command_own makes it, or else hf__command_derived */
} prefixes[] = {
    { REDIS_TOKEN_PREFIX, false }, /* a grant of ours, within hours */
    /* mutant: list-has-no-fair-mutex */
    { REDIS_FAIR_QUEUE_PREFIX, false }, /* any client's wait for a fair mutex */
    { REDIS_MARK_PREFIX, true },        /* a semaphore, a counter or a latch of ours */
    /* mutant: list-has-no-mutex-that-ours */
    { REDIS_QUEUE_PREFIX, true }, /* our waits for a mutex */
    /* mutant: list-has-nothing-else */
    { REDIS_PLACES_PREFIX, true }, /* and for anything else */
};

/* Is there another server to look through? */
static bool goes_on(struct listing *listing)
{
    struct cluster *cluster = listing->at->cluster;
    struct redis *next = cluster ? hf__cluster_next(cluster, listing->at) : NULL;
    if (next)
        listing->at = next;
    return next != NULL;
}

static void free_listing(struct listing *listing)
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
    free_listing(listing);
    hf__oneshot_done(&front->base, query);
}

static void page_seen(struct listing *listing)
{
    if (listing->failed || listing->query->unwanted)
        hf__listing_end(listing);
    else if (listing->cursor != 0)
        hf__listing_scan(listing);
    else if (goes_on(listing))
        hf__listing_begin(listing);
    else
        hf__listing_end(listing);
}

/* What is not held or waited for is not in use. */
static void show_member(struct listing *listing, const struct found *found,
                        redisReply *const *parts)
{
    bool no_memory;
    if (hf__reply_number(parts[PART_IN_USE]) != 1)
        return;
    if (hf__seen_set_add(&listing->shown, found->name, found->length, &no_memory)) {
        hf__listing_show(listing, found, parts);
    } else if (no_memory) {
        listing->query->code = HF_ENOMEM;
        listing->failed = true;
    }
}

static void member_answered(struct connection *connection, struct redis_request *request,
                            const redisReply *reply)
{
    struct redis *redis = connection->redis;
    struct listing *listing = request->listing;
    if (reply)
        hf__oneshot_progress(listing->query);
    /* mutant: what-application-keeps */
    bool is_no_lock = hf__reply_is_array(reply, 1) || (reply && hf__reply_code(reply) == HF_EKIND);
    if (hf__reply_is_array(reply, PARTS))
        show_member(listing, request->memory, reply->element);
    else if (!is_no_lock && !listing->failed)
        hf__listing_fail(connection, request, reply, listing);
    hf__request_free(redis, request);
    if (--listing->looks_out == 0)
        page_seen(listing);
}

static void look_at(struct redis *redis, struct listing *listing, const char *name, size_t length)
{
    if (length == 0 || length > HF_NAME_MAX || memchr(name, 0, length))
        return;
    struct redis_request *request = hf__listing_look(listing, name, length, member_answered);
    if (!request)
        return;
    listing->looks_out++;
    hf__redis_ask(redis, request, name, length);
}

/* A token at "{name}" is of the lock "name", and of a lock that is called "{name}": Redisson does
 * not tell them apart. A mark there is of "name", and at ":{name}" of "{name}". */
static void look_at_owners(struct redis *redis, struct listing *listing, const char *rest,
                           size_t length, bool own)
{
    if (!own)
        look_at(redis, listing, rest, length);
    else if (*rest == ':')
        look_at(redis, listing, rest + 1, length - 1);
    if (length > 2 && *rest == '{' && rest[length - 1] == '}' && !memchr(rest + 1, '{', length - 1))
        look_at(redis, listing, rest + 1, length - 2);
}

static void look_behind_prefix(struct redis *redis, struct listing *listing, const redisReply *key)
{
    if (key->type != REDIS_REPLY_STRING)
        return;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t before = strlen(prefixes[i].text);
        if ((size_t)key->len > before + 1 && key->str[before] == ':' &&
            memcmp(key->str, prefixes[i].text, before) == 0)
            look_at_owners(redis, listing, key->str + before + 1, (size_t)key->len - before - 1,
                           prefixes[i].own);
    }
}

static void scan_answered(struct connection *connection, struct redis_request *request,
                          const redisReply *reply)
{
    struct redis *redis = connection->redis;
    struct listing *listing = request->listing;
    listing->at = redis;
    bool whole = hf__reply_is_array(reply, 2) && reply->element[1]->type == REDIS_REPLY_ARRAY;
    if (reply)
        hf__oneshot_progress(listing->query);
    /* It stays while the page is taken apart. */
    listing->looks_out = 1;
    if (whole) {
        int64_t cursor = hf__reply_number(reply->element[0]);
        listing->cursor = cursor > 0 ? (uint64_t)cursor : 0;
        for (size_t i = 0; i < reply->element[1]->elements; i++)
            look_behind_prefix(redis, listing, reply->element[1]->element[i]);
    } else {
        hf__listing_fail(connection, request, reply, listing);
    }
    hf__request_free(redis, request);
    if (--listing->looks_out == 0)
        page_seen(listing);
}

static void send_scan(struct connection *connection, struct redis_request *request)
{
    struct command command;
    hf__command_begin(&command, "SCAN");
    hf__command_print(&command, "%llu", (unsigned long long)request->listing->cursor);
    hf__command_print(&command, "MATCH");
    hf__command_print(&command, PATTERN);
    hf__command_print(&command, "COUNT");
    hf__command_print(&command, SCAN_COUNT);
    hf__connection_write(connection, request, &command);
}

void hf__listing_scan(struct listing *listing)
{
    struct redis_request *request = hf__request_new(listing->at);
    if (!request) {
        listing->query->code = HF_ENOMEM;
        listing->failed = true;
        page_seen(listing);
        return;
    }
    hf__listing_ask(listing, request, send_scan, scan_answered);
}

void hf__inspect_close(struct redis *redis)
{
    struct hf_link *link;
    while ((link = hf__list_pop(&redis->listings)))
        free_listing(HF_CONTAINER(link, struct listing, link));
}
