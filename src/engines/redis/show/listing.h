/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at locks: at one (inspect.c), or at everything that is in use (listing.c). */
#ifndef HF_ENGINES_REDIS_SHOW_LISTING_H
#define HF_ENGINES_REDIS_SHOW_LISTING_H

#include "client_names.h"
#include "engines/redis/redis.h"
#include "seen_set.h"

/* The parts of what inspect.lua answers. */
enum {
    PART_KIND,
    PART_TOTAL,
    PART_VALUE,
    PART_TOKEN,
    PART_HOLDERS,
    PART_WAITERS,
    PART_IN_USE,   /* 1: held, waited for, or otherwise there */
    PART_UNMARKED, /* 1: a number without our mark */
    PARTS
};

/* A name that is looked at: a request's memory. */
struct found {
    uint32_t length;
    char name[];
};

/* One look, or a listing page by page: the names of one page are looked at before the next is asked
 * for. */
struct listing {
    struct hf_link link; /* in redis->listings */
    struct hf_oneshot *query;
    struct redis *at; /* the server that is looked through now; in a cluster, one after the other */
    struct owners owners; /* the clients connected to it */
    uint64_t cursor;
    unsigned looks_out;
    bool failed;
    struct shown shown;
};

/* A request about a name, with inspect.lua. NULL: out of memory. */
struct redis_request *hf__listing_look(struct listing *listing, const char *name, size_t length,
                                       void (*answered)(struct connection *, struct redis_request *,
                                                        const redisReply *));
/* `parts` is what inspect.lua answers. */
void hf__listing_show(const struct listing *listing, const struct found *found,
                      redisReply *const *parts);
void hf__listing_fail(struct connection *connection, const struct redis_request *request,
                      const redisReply *reply, struct listing *listing);
/* With the one name. */
void hf__listing_look_at_one(struct listing *listing);
/* Tells the core. */
void hf__listing_end(struct listing *listing);
void hf__listing_free(struct listing *listing);

#endif
