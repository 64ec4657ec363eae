/* Looking. The format keeps a holder's field and nothing else of it; who waits is known by number
 * only, from those who listen for the release. What is locked at all is found by the tokens, which
 * every grant of ours leaves for most of a day. */
#include "base/testing.h"
#include "cluster.h"
#include "kinds.h"
#include "names.h"
#include "shown.h"

#include <string.h>

#define WAITERS_SHOWN_MAX 10000
#define SCAN_COUNT "500"

/* The parts of what inspect.lua answers. */
enum {
    PART_KIND,
    PART_TOTAL,
    PART_VALUE,
    PART_TOKEN,
    PART_HOLDERS,
    PART_WAITERS,
    PART_IN_USE, /* 1: held, waited for, or otherwise there */
    PARTS
};

/* What is in use has one of these at least: a token, or the mark of a kind without tokens. */
enum { OF_TOKENS, OF_MARKS, PREFIXES };
static const char *const prefixes[] = {
    [OF_TOKENS] = REDIS_TOKEN_PREFIX, [OF_MARKS] = REDIS_MARK_PREFIX
};

/* A name found by its token: a question's memory. */
struct found {
    uint32_t length;
    char name[];
};

/* Everything, page by page: the names of one page are looked at before the next is asked for. */
struct listing {
    struct hf_link link; /* in redis->listings */
    struct hf_query *query;
    struct redis *at; /* the server that is looked through now; in a cluster, one after the other */
    unsigned prefix;  /* of the keys that are looked for now */
    uint64_t cursor;
    unsigned looks_out;
    bool failed;
    struct shown shown;
};

/* The script's words. */
static const char *const kinds[] = { "", "mutex", "fair", "rw", "semaphore", "counter", "latch" };

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

/* The store keeps the last token of a name, and not whose it is. It is a holder's own where nobody
 * can have been granted one since, and where the holder is a client of ours that wants tokens. */
static bool has_last_token(hf_mode mode, const char *owner_key)
{
    const char *colon = strchr(owner_key, ':');
    return mode != HF_PERMIT && colon &&
           hf__redis_is_fenced(owner_key, (size_t)(colon - owner_key));
}

/* {mode, permits, key, ms left}: a holder's or a waiter's. */
static void show_person(struct hf_query *query, hf_entry entry, const redisReply *row)
{
    if (!hf__reply_is_array(row, 4))
        return;
    entry.mode = hf__redis_mode_of(row->element[0]);
    entry.permits = small(row->element[1]);
    entry.owner_key = entry.owner_text = hf__reply_text(row->element[2]);
    if (!has_last_token(entry.mode, entry.owner_key))
        entry.token = 0;
    if (entry.role == HF_ROLE_HOLDER)
        entry.lease_left_ms = hf__reply_number(row->element[3]);
    hf__query_add(query, &entry);
}

static void show_waiters(struct hf_query *query, hf_entry entry, const redisReply *waiters)
{
    int64_t count =
        waiters->type == REDIS_REPLY_ARRAY ? (int64_t)waiters->elements : hf__reply_number(waiters);
    entry.role = HF_ROLE_WAITER;
    for (int64_t i = 0; i < count && i < WAITERS_SHOWN_MAX; i++) {
        entry.rank = (uint32_t)i + 1;
        if (waiters->type == REDIS_REPLY_ARRAY)
            show_person(query, entry, waiters->element[i]);
        else
            hf__query_add(query, &entry);
    }
}

/* `parts` is what inspect.lua answers. */
static void show(struct hf_query *query, const struct found *found, redisReply *const *parts)
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
    hf__query_add(query, &object);
    person.role = HF_ROLE_HOLDER;
    for (size_t i = 0; hf__reply_is_array(parts[PART_HOLDERS], i + 1); i++)
        show_person(query, person, parts[PART_HOLDERS]->element[i]);
    person.token = 0;
    show_waiters(query, person, parts[PART_WAITERS]);
}

static void fail(struct connection *connection, const struct question *question,
                 const redisReply *reply, struct hf_query *query)
{
    bool definite;
    query->code = hf__question_failed(connection, question, reply, &query->error, &definite);
}

static void send_look(struct connection *connection, struct question *question)
{
    const struct found *found = question->memory;
    struct command command;
    bool simple = connection->redis->settings.simple;
    hf__names_script(connection, &command, simple ? REDIS_SIMPLE_INSPECT : REDIS_INSPECT,
                     REDIS_CHANNEL_MUTEX, found->name, found->length);
    hf__command_own(&command, REDIS_QUEUE_PREFIX, found->name, found->length);
    hf__command_derived(&command, REDIS_FAIR_QUEUE_PREFIX, found->name, found->length);
    hf__connection_write(connection, question, &command);
}

static struct question *ask(struct redis *redis, const char *name, size_t length,
                            void (*answered)(struct connection *, struct question *,
                                             const redisReply *))
{
    struct found *found = hf__calloc(1, sizeof *found + length + 1);
    struct question *question = found ? hf__question_new(redis) : NULL;
    if (!question) {
        free(found);
        return NULL;
    }
    memcpy(found->name, name, length);
    found->length = (uint32_t)length;
    question->memory = found;
    question->send = send_look;
    question->answered = answered;
    return question;
}

/* ---- one name ---- */

static void look_answered(struct connection *connection, struct question *question,
                          const redisReply *reply)
{
    struct redis *redis = connection->redis;
    struct hf_query *query = question->query;
    if (hf__reply_is_array(reply, PARTS)) {
        show(query, question->memory, reply->element);
    } else if (hf__reply_is_array(reply, 1)) {
        query->code = HF_EKIND;
        hf__explain(&query->error, HF_EKIND, 0, "\"%.200s\" %.100s", query->name,
                    hf__reply_text(reply->element[0]));
    } else {
        fail(connection, question, reply, query);
    }
    hf__question_free(redis, question);
    hf__query_done(&redis->base, query);
}

/* ---- everything ---- */

static void scan(struct listing *listing);

/* Is there another server to look through? */
static bool goes_on(struct listing *listing)
{
    struct cluster *cluster = listing->at->cluster;
    struct redis *next = cluster ? hf__cluster_next(cluster, listing->at) : NULL;
    if (next)
        listing->at = next;
    listing->prefix = 0;
    return next != NULL;
}

static void free_listing(struct listing *listing)
{
    hf__link_remove(&listing->link);
    hf__shown_release(&listing->shown);
    free(listing);
}

static void page_seen(struct listing *listing)
{
    struct hf_query *query = listing->query;
    struct redis *front = listing->at->front;
    if (listing->cursor == 0)
        listing->prefix++;
    if (!listing->failed && (listing->prefix < PREFIXES || goes_on(listing))) {
        scan(listing);
        return;
    }
    free_listing(listing);
    hf__query_done(&front->base, query);
}

/* What nobody holds or waits for is not in use. */
static void show_member(struct listing *listing, const struct found *found,
                        redisReply *const *parts)
{
    bool no_memory;
    if (hf__reply_number(parts[PART_IN_USE]) != 1)
        return;
    if (hf__shown_add(&listing->shown, found->name, found->length, &no_memory)) {
        show(listing->query, found, parts);
    } else if (no_memory) {
        listing->query->code = HF_ENOMEM;
        listing->failed = true;
    }
}

static void member_answered(struct connection *connection, struct question *question,
                            const redisReply *reply)
{
    struct redis *redis = connection->redis;
    struct listing *listing = question->listing;
    if (hf__reply_is_array(reply, PARTS))
        show_member(listing, question->memory, reply->element);
    if (!hf__reply_is_array(reply, 1) && !listing->failed) {
        listing->failed = true;
        fail(connection, question, reply, listing->query);
    }
    hf__question_free(redis, question);
    if (--listing->looks_out == 0)
        page_seen(listing);
}

static void look_at(struct redis *redis, struct listing *listing, const char *name, size_t length)
{
    if (length == 0 || length > HF_NAME_MAX || memchr(name, 0, length))
        return;
    struct question *question = ask(redis, name, length, member_answered);
    if (!question) {
        listing->failed = true;
        listing->query->code = HF_ENOMEM;
        return;
    }
    question->listing = listing;
    listing->looks_out++;
    hf__redis_ask(redis, question, name, length);
}

/* A token at "{name}" is of the lock "name", and of a lock that is called "{name}": Redisson does
 * not tell them apart. A mark there is of "name", and at ":{name}" of "{name}". */
static void look_at_owners(struct redis *redis, struct listing *listing, const redisReply *key)
{
    size_t prefix = strlen(prefixes[listing->prefix]) + 1;
    if (key->type != REDIS_REPLY_STRING || (size_t)key->len <= prefix)
        return;
    const char *rest = key->str + prefix;
    size_t length = (size_t)key->len - prefix;
    if (listing->prefix == OF_TOKENS)
        look_at(redis, listing, rest, length);
    else if (*rest == ':')
        look_at(redis, listing, rest + 1, length - 1);
    if (length > 2 && *rest == '{' && rest[length - 1] == '}' && !memchr(rest + 1, '{', length - 1))
        look_at(redis, listing, rest + 1, length - 2);
}

static void scan_answered(struct connection *connection, struct question *question,
                          const redisReply *reply)
{
    struct redis *redis = connection->redis;
    struct listing *listing = question->listing;
    listing->at = redis;
    bool whole = hf__reply_is_array(reply, 2) && reply->element[1]->type == REDIS_REPLY_ARRAY;
    listing->failed = !whole;
    /* It stays while the page is taken apart. */
    listing->looks_out = 1;
    if (whole) {
        int64_t cursor = hf__reply_number(reply->element[0]);
        listing->cursor = cursor > 0 ? (uint64_t)cursor : 0;
        for (size_t i = 0; i < reply->element[1]->elements; i++)
            look_at_owners(redis, listing, reply->element[1]->element[i]);
    } else {
        fail(connection, question, reply, listing->query);
    }
    hf__question_free(redis, question);
    if (--listing->looks_out == 0)
        page_seen(listing);
}

static void send_scan(struct connection *connection, struct question *question)
{
    struct command command;
    hf__command_begin(&command, "SCAN");
    hf__command_print(&command, "%llu", (unsigned long long)question->listing->cursor);
    hf__command_print(&command, "MATCH");
    hf__command_print(&command, "%s:*", prefixes[question->listing->prefix]);
    hf__command_print(&command, "COUNT");
    hf__command_print(&command, SCAN_COUNT);
    hf__connection_write(connection, question, &command);
}

/* The front of a cluster stands for the first server of it, which may not be known yet. */
static void scan(struct listing *listing)
{
    struct redis *redis = listing->at;
    struct question *question = hf__question_new(redis);
    if (!question) {
        listing->query->code = HF_ENOMEM;
        listing->failed = true;
        page_seen(listing);
        return;
    }
    question->listing = listing;
    question->send = send_scan;
    question->answered = scan_answered;
    question->slot = -1;
    if (redis->cluster && redis == redis->front)
        hf__redis_ask(redis, question, NULL, 0);
    else
        hf__connection_ask(&redis->asking, question);
}

void hf__redis_inspect(struct hf_engine *engine, struct hf_query *query)
{
    struct redis *redis = (struct redis *)engine;
    struct listing *listing = query->name ? NULL : hf__calloc(1, sizeof *listing);
    struct question *question =
        query->name ? ask(redis, query->name, query->name_length, look_answered) : NULL;
    hf__together_flush(redis);
    if (listing) {
        listing->query = query;
        listing->at = redis;
        hf__list_append(&redis->listings, &listing->link);
        scan(listing);
    } else if (question) {
        question->query = query;
        hf__redis_ask(redis, question, query->name, query->name_length);
    } else {
        query->code = HF_ENOMEM;
        hf__query_done(engine, query);
    }
}

void hf__inspect_close(struct redis *redis)
{
    struct hf_link *link;
    while ((link = hf__list_pop(&redis->listings)))
        free_listing(HF_CONTAINER(link, struct listing, link));
}
