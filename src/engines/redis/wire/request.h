/* SPDX-License-Identifier: Apache-2.0 */
/* A request to a server: from being asked until its answer has been understood (request.c). Most
 * are about an op, or whatever else the core has asked for; their memory is the client's. */
#ifndef HF_ENGINES_REDIS_WIRE_REQUEST_H
#define HF_ENGINES_REDIS_WIRE_REQUEST_H

#include "core/engine.h"
#include "engines/common/pipeline.h"
#include "reply.h"

struct redis;
struct redis_many;
struct redis_kind;
struct connection;
struct listing;

/* A request that is out, or waits for the connection. */
struct redis_request {
    struct hf_pipeline_item item; /* comes first */
    /* Writes it. Runs again if the server has forgotten the script. */
    void (*send)(struct connection *connection, struct redis_request *request);
    /* Exactly once. `reply` NULL: there is none; connection->peer.why says why, and item.sent
     * whether the server may have heard of it. */
    void (*answered)(struct connection *connection, struct redis_request *request,
                     const redisReply *reply);
    union {
        struct hf_op *op;
        struct hf_oneshot *change;
        struct hf_oneshot *query;
        struct listing *listing;
        struct redis_request *marked;   /* replica_wait.c: the grant that the mark is for */
        struct connection *finding;     /* sentinel.c: the connection that wants its master */
        struct redis_request *place_of; /* fast_enqueue.c: the request that a place was taken for */
    };
    void *memory;                  /* freed with the request */
    const struct redis_many *many; /* NULL: it is asked alone */
    struct hf_link parts;          /* the requests that this one asks together (batch.c) */
    /* With an op: its kind, and what is asked of it. */
    const struct redis_kind *kind;
    enum hf_asked asked;
    bool early;       /* it may leave before the greeting is answered: its answer is not heard */
    bool unmapped;    /* what is answered was said to the question for the cluster's map */
    bool listened;    /* a grant could have been heard of when it was sent */
    uint64_t heard;   /* how many releases had been heard of when it was sent */
    bool placed;      /* it has its place in the queue (fast_enqueue.c) */
    unsigned repeats; /* how often the server had forgotten the script */
    /* Where replicas are to confirm it: what is told of that (replica_wait.c); the opening of the
     * connection that answered it; and whether it has got no mark, because its slot has left. */
    void (*confirmed)(struct redis *redis, struct redis_request *request, bool enough);
    unsigned opening;
    bool unmarked;
    /* In a cluster: -1 is any; how often it has gone on; whether the node is asked as an
     * exception, while the slot is on its way there. */
    int slot;
    unsigned hops;
    bool asks;
};

static inline struct redis_request *hf__request_at(struct hf_link *link)
{
    return HF_CONTAINER(link, struct redis_request, item.link);
}

/* NULL: out of memory. */
struct redis_request *hf__request_new(struct redis *redis);
void hf__request_free(struct redis *redis, struct redis_request *request);
/* For `answered`: whatever the answer is, the request has done what it could. */
void hf__request_ignored(struct connection *connection, struct redis_request *request,
                         const redisReply *reply);
/* There is a reply to it, so it will not be executed any more, but what it has left there is not
 * known. */
void hf__request_executed(struct redis_request *request);
/* What an error means, an hf_code: what a cluster says has another meaning where it is known to be
 * one. */
int hf__request_code(const struct redis *redis, const redisReply *reply);
/* Sets *error for a reply that is missing, an error, or nonsense, and says what it means: an
 * hf_code. `name`: of the lock that it was about, or NULL. `definite`: the server has done nothing,
 * and will not. */
int hf__request_failed(const struct connection *connection, const struct redis_request *request,
                       const redisReply *reply, const char *name, hf_error **error, bool *definite);

#endif
