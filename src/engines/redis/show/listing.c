/* SPDX-License-Identifier: Apache-2.0 */
/* A look from its beginning: which clients are connected, then the one name, or everything that is
 * in use, as far as it can be found: by the tokens, which every grant of ours leaves for most of a
 * day; by the mark of a kind that has none; and by the queues. */
#include "listing.h"
#include "base/testing.h"
#include "engines/redis/kinds/keys.h"
#include "engines/redis/topology/cluster.h"

#include <stdlib.h>
#include <string.h>

/* The list of more clients would be more than one answer may be. */
#define CLIENTS_MAX 2000

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

/* The front of a cluster stands for the server of the name, or for the first one, which may not be
 * known yet. */
static void ask_server(struct listing *listing, struct redis_request *request,
                       void (*send)(struct connection *, struct redis_request *),
                       void (*answered)(struct connection *, struct redis_request *,
                                        const redisReply *))
{
    const struct hf_oneshot *query = listing->query;
    struct redis *redis = listing->at;
    request->listing = listing;
    request->send = send;
    request->answered = answered;
    request->slot = -1;
    if (redis->cluster && redis == redis->front)
        hf__redis_ask(redis, request, query->name, query->name_length);
    else
        hf__connection_ask(&redis->cmd, request);
}

/* Is there another server to look through? */
static bool goes_on(struct listing *listing)
{
    struct cluster *cluster = listing->at->cluster;
    struct redis *next = cluster ? hf__cluster_next(cluster, listing->at) : NULL;
    if (next)
        listing->at = next;
    return next != NULL;
}

static void begin_at_server(struct listing *listing);
static void scan(struct listing *listing);

static void page_seen(struct listing *listing)
{
    if (listing->failed || listing->query->unwanted)
        hf__listing_end(listing);
    else if (listing->cursor != 0)
        scan(listing);
    else if (goes_on(listing))
        begin_at_server(listing);
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

static void listing_look_at(struct redis *redis, struct listing *listing, const char *name,
                            size_t length)
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
        listing_look_at(redis, listing, rest, length);
    else if (*rest == ':')
        listing_look_at(redis, listing, rest + 1, length - 1);
    if (length > 2 && *rest == '{' && rest[length - 1] == '}' && !memchr(rest + 1, '{', length - 1))
        listing_look_at(redis, listing, rest + 1, length - 2);
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

static void scan(struct listing *listing)
{
    struct redis_request *request = hf__request_new(listing->at);
    if (!request) {
        listing->query->code = HF_ENOMEM;
        listing->failed = true;
        page_seen(listing);
        return;
    }
    ask_server(listing, request, send_scan, scan_answered);
}

/* ---- connected clients ---- */

static void listing_go_on(struct listing *listing)
{
    if (listing->failed)
        hf__listing_end(listing);
    else if (listing->query->name)
        hf__listing_look_at_one(listing);
    else
        scan(listing);
}

static void clients_answered(struct connection *connection, struct redis_request *request,
                             const redisReply *reply)
{
    struct listing *listing = request->listing;
    if (reply)
        hf__client_names_read(&listing->owners, reply);
    else
        hf__listing_fail(connection, request, reply, listing);
    hf__request_free(connection->redis, request);
    listing_go_on(listing);
}

static void send_clients(struct connection *connection, struct redis_request *request)
{
    struct command command;
    hf__command_begin(&command, "CLIENT");
    hf__command_print(&command, "LIST");
    hf__connection_write(connection, request, &command);
}

/* A user that may not ask does without the names; but where a cluster's map is refused, it is not
 * asked. */
static void count_answered(struct connection *connection, struct redis_request *request,
                           const redisReply *reply)
{
    struct redis *redis = connection->redis;
    struct listing *listing = request->listing;
    char count[24];
    listing->query->contacted |= reply != NULL;
    if (!reply || request->unmapped)
        hf__listing_fail(connection, request, reply, listing);
    hf__reply_info(reply, "connected_clients", count, sizeof count);
    hf__request_free(redis, request);
    listing->at = redis;
    bool can_be_asked = *count && strtoul(count, NULL, 10) <= CLIENTS_MAX;
    request = can_be_asked && !listing->failed ? hf__request_new(redis) : NULL;
    if (request)
        ask_server(listing, request, send_clients, clients_answered);
    else
        listing_go_on(listing);
}

static void send_count(struct connection *connection, struct redis_request *request)
{
    struct command command;
    hf__command_begin(&command, "INFO");
    hf__command_print(&command, "clients");
    hf__connection_write(connection, request, &command);
}

static void begin_at_server(struct listing *listing)
{
    struct redis_request *request = hf__request_new(listing->at);
    hf__client_names_release(&listing->owners);
    if (request)
        ask_server(listing, request, send_count, count_answered);
    else
        listing_go_on(listing);
}

/* ---- beginning and ending ---- */

void hf__redis_inspect(struct hf_engine *engine, struct hf_oneshot *query)
{
    struct redis *redis = (struct redis *)engine;
    struct listing *listing = hf__calloc(1, sizeof *listing);
    hf__batch_flush(redis);
    if (!listing) {
        query->code = HF_ENOMEM;
        hf__oneshot_done(engine, query);
        return;
    }
    listing->query = query;
    listing->at = redis;
    hf__list_append(&redis->listings, &listing->link);
    begin_at_server(listing);
}

void hf__inspect_close(struct redis *redis)
{
    struct hf_link *link;
    while ((link = hf__list_pop(&redis->listings)))
        hf__listing_free(HF_CONTAINER(link, struct listing, link));
}
