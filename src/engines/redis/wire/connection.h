/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to a server that comes back by itself: it finds the server, greets it, sends
 * requests as soon as it can, and matches the answers with them (connection.c). */
#ifndef HF_ENGINES_REDIS_WIRE_CONNECTION_H
#define HF_ENGINES_REDIS_WIRE_CONNECTION_H

#include "command.h"
#include "engines/common/peer.h"
#include "request.h"

/* A server that has forgotten a script this number of times although it was just told is not
 * Redis. */
#define REDIS_REPEATS_MAX 10u
/* The longest name of a host that a sentinel or a node may answer, with its NUL. */
#define REDIS_HOST_SIZE 256

struct connection;

/* What a connection is for, one table for each kind. What is NULL is not needed, but for the first
 * three. */
struct connection_use {
    const char *store; /* how sentences about its server begin */
    /* Where it goes. False: hf__peer_go is called later, or hf__peer_break. */
    bool (*place)(struct connection *connection, struct hf_peer_try *ret);
    /* Says what comes first, and calls hf__connection_greeted in the end, or breaks. */
    void (*greet)(struct connection *connection);
    /* It is ready. What waits for that is sent when this returns. */
    void (*ready)(struct connection *connection);
    /* In place of hf__connection_fail, which it calls. */
    void (*failed)(struct connection *connection, enum hf_peer_state was);
    /* After an error: does the request go on to another server? */
    bool (*redirects)(struct connection *connection, struct redis_request *request,
                      const redisReply *error);
    /* A reply that answers nothing. */
    void (*pushed)(struct connection *connection, const redisReply *reply);
    /* Once it is ready: since when a reply is missing, in place of its requests' oldest. */
    int64_t (*oldest_ms)(const struct redis *redis);
};

struct connection {
    struct redis *redis;
    const struct connection_use *use;
    struct hf_peer peer;
    struct hf_pipeline pipeline;
    redisReader *reader;
    size_t unread;          /* bytes of a reply that is not whole yet */
    uint64_t known_scripts; /* a bit for each that this connection has sent in full */
    uint64_t server_id;     /* the server's number for this connection, or for the last one */
    bool last_one_ended;    /* what was sent on the last one is executed no more */
    char server_run[41];    /* which run of the server gave it; "" where it does not say */
    bool silenced;          /* what it reads is of no interest any more */
    /* With sentinels: on which connection they are asked for the master (NULL: not yet), and how
     * many may still be asked this time; which one has named the master last, and what it named. */
    struct connection *search;
    unsigned search_left, named_by, master_port;
    char master_host[REDIS_HOST_SIZE];
};

void hf__connection_init(struct connection *connection, struct redis *redis,
                         const struct connection_use *use);
void hf__connection_close(struct connection *connection);
void hf__connection_forked(struct connection *connection);
/* It is lost: its requests get no reply. */
void hf__connection_fail(struct connection *connection);
/* Only requests that may leave early are still of interest, and no answer is. */
void hf__connection_silence(struct connection *connection);
static inline bool hf__connection_is_ready(const struct connection *connection)
{
    return hf__peer_is_ready(&connection->peer);
}

/* Do both lead to one server, as far as the server tells? One address may lead to several. */
bool hf__connections_match(const struct connection *a, const struct connection *b);
/* Both are ready, and the server has told which run of itself both lead to. */
bool hf__connections_surely_match(const struct connection *a, const struct connection *b);
/* Sends the request as soon as the connection is ready. */
void hf__connection_ask(struct connection *connection, struct redis_request *request);
/* For `send`: writes the command, to which `request` (or none) waits for the answer. */
void hf__connection_write(struct connection *connection, struct redis_request *request,
                          struct command *command);
/* Begins a script's command: by its digest if this connection has sent it before. */
void hf__connection_script(struct connection *connection, struct command *command,
                           enum redis_script script, unsigned keys);

/* sentinel.c: asks where the master is, then calls hf__peer_go; or breaks. */
void hf__sentinel_find(struct connection *connection);
void hf__sentinel_send_question(struct connection *connection, struct redis_request *request);
/* The master that was named cannot be had: its sentinel may be cut off from the others, so the next
 * one is asked first next time. */
void hf__sentinel_doubt(struct connection *connection);
/* The way to one of them. */
void hf__sentinel_place(const struct redis *redis, unsigned sentinel, struct hf_peer_try *ret);
/* What is said first there. */
void hf__sentinel_greet(struct connection *connection);
/* Is the answer {host, port}? */
bool hf__sentinel_names(const redisReply *reply);

/* handshake.c: what is said first on each connection. Calls hf__connection_greeted, or breaks. */
void hf__handshake_begin(struct connection *connection);
void hf__connection_greeted(struct connection *connection);

#endif
