/* SPDX-License-Identifier: Apache-2.0 */
/* The engine `redis:` from the inside: a client of one server, with one connection for requests
 * and one on which releases are heard. Everything here runs on the loop.
 *
 *     settings.h    what the URL says
 *     command.h     what is said to a server, and
 *     reply.h       what it answers
 *     request.h    both together, and
 *     connection.h  the way there and back
 *     keys.h       keys and channels
 *     kinds.h       what a mutex, a permit, ... is at the server
 *     waiter.h     hearing of releases and grants
 *
 * This file has the client, and what follows from an answer: the life of a claim (lock.c), a place
 * without a script (fast_enqueue.c), several requests together (batch.c), replicas
 * (replica_wait.c), renewals, changes and requests about locks. */
#ifndef HF_ENGINES_REDIS_H
#define HF_ENGINES_REDIS_H

#include "core/engine.h"
#include "engines/common/poll.h"
#include "engines/redis/settings.h"
#include "engines/redis/sink.h"
#include "engines/redis/wait/waiter.h"
#include "engines/redis/wire/connection.h"

/* Names that a release of ours has just given to others are remembered, this number at least. */
#define REDIS_HANDED_ON 16u
/* What such a release answers. */
#define REDIS_HAS_HANDED_ON 2
/* The same: the name has something else in it, so the hold is lost. */
#define REDIS_OVERWRITTEN (-1)

/* When that was, by our clock and by the server's. */
struct handed_on {
    uint64_t name; /* its hash */
    int64_t at_us, server_us;
    uint64_t token; /* of the owner that has handed it on */
};

/* Reasons of losses stay until the client is closed, so the number of different ones is limited. */
#define REDIS_REFUSALS_MAX 16u
#define REDIS_REFUSAL_SIZE 400

struct redis {
    struct hf_engine base;
    struct redis_settings settings;
    const struct redis_sink *sink; /* where its answers go: to the core, or to a larger engine */
    /* What the core knows and all servers share; itself, if there is but one. */
    struct redis *front;
    struct cluster *cluster; /* NULL: there is but one */
    /* A node's: where it is, its number, in which round of asking for the map it had its turn last,
     * in which it was asked last, and whether it knows channels that are heard at one server alone.
     */
    char host[REDIS_HOST_SIZE];
    unsigned number, round, asked;
    bool sharded;
    char uuid[37];
    unsigned sentinel; /* the one to ask first */
    uint64_t claims;   /* numbers given to claims so far; the front's */
    struct connection cmd, pubsub, replicas;
    /* With sentinels: the connection to one of them (sentinel_watch.c), whether it has named the
     * master where we are, whether it is being asked, and until when it is not. */
    struct connection sentinel_link;
    bool watch_agreed, watch_asks;
    struct hf_timer watch;
    struct hf_free_list free_requests; /* the front's */
    struct pubsub_heartbeat pulse;
    struct channel *channels[REDIS_CHANNEL_BUCKETS];
    uint64_t releases_heard;
    unsigned asked_again; /* channels, in this pulse */
    struct hf_link waiters, free_waiters;
    struct inbox inbox;
    /* The last ones by their names' hashes; and what the server has just said of its clock, or 0.
     */
    struct handed_on handed_on[REDIS_HANDED_ON];
    int64_t server_us;
    struct hf_hand_overs hand_overs; /* of names whose waiters poll; the front's */
    /* The front's: renewals that are asked for and not answered; those that are to be asked for;
     * listings of everything that are under way. */
    struct hf_link renewals, gathering, listings;
    struct hf_task send_renewals;
    struct hf_timer renewals_due; /* until then, what has been gathered waits for company */
    unsigned renewals_out, renewals_out_most, renewals_full;
    char refusals[REDIS_REFUSALS_MAX][REDIS_REFUSAL_SIZE]; /* see renew.c */
    /* Requests of this turn, which are asked together when it ends. */
    struct hf_link giving, taking;
    struct hf_task ask_together;
    /* The front's, while it is closed: last releases that have not left; until when they may; what
     * to call then. */
    unsigned dismissals;
    bool dismisses;
    struct hf_timer leaving;
    int64_t leave_until_ms;
    void (*closed)(void *arg);
    void *closed_arg;
    /* Granted requests of which the replicas are to be asked; of which they are being asked. */
    struct hf_link sync_gathering, sync_asked;
    struct hf_task sync_begin;
};

/* What an op remembers, beside what the server has of it (engine.known). engine.word[0] is its
 * claim's number, engine.pointer its waiter (or NULL), engine.word[1] an OR of these; above them
 * the loop's ms when it was granted (0: not known); and on top how often it was asked to be raised.
 */
#define REDIS_RENEWING 1u
#define REDIS_CONTENDED 2u  /* it had to wait */
#define REDIS_LISTENS 4u    /* it can be told of a grant, as of its last request */
#define REDIS_CONFIRMING 8u /* the server has granted it, and its replicas are being asked */
#define REDIS_WRITES 16u    /* it is a write hold by now, whatever it was granted as */
#define REDIS_GRANTED_SHIFT 5
#define REDIS_RAISES_SHIFT 48
/* What a refusal leaves as it is. */
#define REDIS_STAYS (UINT64_C(0xffff) << REDIS_RAISES_SHIFT | REDIS_RENEWING)

/* Does it ask for more than it holds already? */
static inline bool hf__redis_raises(const struct hf_op *op)
{
    return op->in.mode == HF_WRITE && hf__known_holds(&op->engine.known);
}

extern const struct redis_sink hf__redis_core_sink;
/* Is it a part of another engine? */
static inline bool hf__redis_is_part(const struct redis *redis)
{
    return redis->sink != &hf__redis_core_sink;
}

/* cluster.c: asks the server, or in a cluster the one that has what is called so. NULL: any. */
void hf__redis_ask(struct redis *redis, struct redis_request *request, const char *name,
                   size_t length);

/* ---- connections.c: what the connections to a server with locks are for ---- */

void hf__connections_open(struct redis *redis);

/* ---- lock.c: the life of a claim ---- */

void hf__redis_attempt(struct hf_engine *engine, struct hf_op *op);
void hf__redis_release(struct hf_engine *engine, struct hf_op *op);
/* Its release; or the attached lock goes back under its key, as no caller has heard of it. */
void hf__lock_write_way_out(struct connection *connection, struct redis_request *request);

/* ---- token_floor.c: the client's tokens are above a number ---- */

/* Before an attempt is written. */
void hf__token_floor_raise(struct connection *connection, const struct hf_op *op);
/* Is it granted with a token that is not above it? */
bool hf__token_floor_refuses(const struct redis *redis, const struct hf_op *op, uint64_t token);

/* ---- fast_enqueue.c: a place in a queue without a script ---- */

/* Is a lock that two clients hand to each other about to be let go? */
bool hf__fast_enqueue_is_between_two(struct redis *redis, const struct hf_op *op);
/* A release has been answered; has it given the lock to another? */
void hf__fast_enqueue_note(struct redis *redis, const struct hf_op *op, bool handed_on);
/* Asks for the server's time, before such a release. */
void hf__fast_enqueue_ask_clock(struct connection *connection);
/* Writes the attempt, if it is surely refused: what is answered is how many ms the lock lives, and
 * request->placed says whether it has its place. Else false, and nothing is written. */
bool hf__fast_enqueue_ask(struct connection *connection, struct redis_request *request);

/* ---- batch.c: what is asked in one turn goes in one call ---- */

/* Like hf__connection_ask on `cmd`, at the end of the turn; `many` may be NULL. */
void hf__batch_ask(struct redis *redis, struct redis_request *request,
                   const struct redis_many *many);
/* Before a request is written, alone or in a batch. */
void hf__batch_leaves(struct connection *connection, struct redis_request *request);
/* What has been asked so far goes before what is asked next. */
void hf__batch_flush(struct redis *redis);
void hf__batch_open(struct redis *redis);
void hf__batch_close(struct redis *redis);

/* ---- replica_wait.c: replicas ---- */

/* A granted request is kept until the replicas have been asked, and handed back. If they have not
 * got it, op->out.error says so. */
void hf__replica_wait_wait(struct redis *redis, struct redis_request *request,
                           void (*confirmed)(struct redis *, struct redis_request *, bool enough));
void hf__replica_wait_why_silent(struct hf_engine *engine, struct hf_op *op, hf_error **error);
void hf__replica_wait_open(struct redis *redis);
void hf__replica_wait_close(struct redis *redis);

/* ---- sentinel_watch.c: have the sentinels another master now? ---- */

/* There is a connection to the master. */
void hf__sentinel_watch_begin(struct redis *redis);
void hf__sentinel_watch_open(struct redis *redis);
void hf__sentinel_watch_close(struct redis *redis);

/* ---- renew.c: leases, and what rests ---- */

void hf__redis_renew(struct hf_engine *engine, struct hf_lease *lease);
bool hf__redis_compact(struct hf_engine *engine, struct hf_op *op);
void hf__renewals_open(struct redis *redis);
void hf__renewals_close(struct redis *redis);
void hf__renewals_forget(struct redis *redis, struct hf_op *op);

/* ---- change.c, listing.c, survey.c ---- */

void hf__redis_change(struct hf_engine *engine, struct hf_oneshot *change);
void hf__redis_detach(struct hf_engine *engine, struct hf_oneshot *change);
void hf__redis_inspect(struct hf_engine *engine, struct hf_oneshot *query);
void hf__inspect_close(struct redis *redis);
void hf__redis_diagnose(struct hf_engine *engine, struct hf_oneshot *examination);

#endif
