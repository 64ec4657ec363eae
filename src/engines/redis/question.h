/* SPDX-License-Identifier: Apache-2.0 */
/* A question to a server: from being asked until its answer has been understood (question.c). Most
 * are about an op, or whatever else the core has asked for; their memory is the client's. */
#ifndef HF_ENGINES_REDIS_QUESTION_H
#define HF_ENGINES_REDIS_QUESTION_H

#include "core/engine.h"
#include "reply.h"

struct redis;
struct redis_many;
struct connection;
struct listing;

/* A question that is out, or waits for the connection. */
struct question {
    struct hf_link link;
    /* Writes it. Runs again if the server has forgotten the script. */
    void (*send)(struct connection *connection, struct question *question);
    /* Exactly once. `reply` NULL: there is none; connection->why says why, and `sent` whether the
     * server may have heard of it. */
    void (*answered)(struct connection *connection, struct question *question,
                     const redisReply *reply);
    union {
        struct hf_op *op;
        struct hf_change *change;
        struct hf_query *query;
        struct listing *listing;
        struct question *marked; /* the grant that a mark is written beside, or NULL (sync.c) */
        struct question
            *place_of; /* who asks, and looks next, for whether it has got it (place.c) */
    };
    void *memory;                  /* freed with the question */
    const struct redis_many *many; /* NULL: it is asked alone */
    struct hf_link parts;          /* the questions that this one asks together (together.c) */
    struct question *whole;        /* the one that this one is a part of, and asked for itself */
    int64_t sent_at_ms;
    bool sent;
    bool unmapped;    /* what is answered was said to who asked for the cluster's map */
    bool listened;    /* a grant could have been heard of when it was sent */
    bool placed;      /* it has its place in the queue (place.c) */
    unsigned repeats; /* how often the server had forgotten the script */
    /* Where replicas are to confirm it: the opening of the connection that answered it; and whether
     * it has got no mark, because its slot has left. */
    unsigned opening;
    bool unmarked;
    /* In a cluster: -1 is any; how often it has gone on; whether the node is asked as an
     * exception, while the slot is on its way there. */
    int slot;
    unsigned hops;
    bool asks;
};

/* NULL: out of memory. */
struct question *hf__question_new(struct redis *redis);
void hf__question_free(struct redis *redis, struct question *question);
/* For `answered`: whatever the answer is, the question has done what it could. */
void hf__question_ignored(struct connection *connection, struct question *question,
                          const redisReply *reply);
/* What an error means, an hf_code: what a cluster says has another meaning to who knows that it is
 * one. */
int hf__question_code(const struct redis *redis, const redisReply *reply);
/* Sets *error for a reply that is missing, an error, or nonsense, and says what it means: an
 * hf_code. `name`: of the lock that it was about, or NULL. `definite`: the server has done nothing,
 * and will not. */
int hf__question_failed(const struct connection *connection, const struct question *question,
                        const redisReply *reply, const char *name, hf_error **error,
                        bool *definite);

#endif
