/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of locks: a mutex, a fair mutex, permits, and so on. Each is a file (mutex.c) that fills in
 * a struct redis_kind; kinds.c finds it by the mode that is asked for. A kind says what the server
 * is to do, in scripts of its own; when it is asked, and what follows from the answer, is not its
 * matter (lock.c, renew.c). */
#ifndef HF_ENGINES_REDIS_KINDS_KINDS_H
#define HF_ENGINES_REDIS_KINDS_KINDS_H

#include "engines/redis/wire/connection.h"

/* The build reads these times out of here for the scripts (embed.py): each is a plain number. */

/* Tokens follow the server's clock, so one that was not asked for in this time may be forgotten. */
#define REDIS_TOKEN_MS INT64_C(86400000)
/* A lock that is given to a waiter is its own for this time before it has said anything. */
#define REDIS_GRANT_MS INT64_C(4000)
/* An owner that has held it for less than this may pass on the token after its own:
 * mutex_release.lua. */
#define REDIS_COUNT_ON_MS 1000
/* Lua counts exactly below this. */
#define REDIS_TOKEN_EXACT (UINT64_C(1) << 53)
/* A queue that no client looks at any more may be forgotten. */
#define REDIS_QUEUE_MS INT64_C(60000)
/* Java deletes a latch at zero, and knows nothing of the mark beside it. So the mark ends when our
 * clients have not used the latch for this time. */
#define REDIS_LATCH_MARK_MS INT64_C(3600000)
/* The time between the questions of a claim with a place in line; a third of what queue.lua gives
 * it. */
#define REDIS_PLACE_MS 2000
/* A place in a fair queue lives for this time without a sign of life. A client that takes the lock
 * by Redisson brings the end of all other places nearer, by its own fairLockWaitTimeout: five
 * minutes. */
#define REDIS_FAIR_PLACE_MS INT64_C(10000)
#define REDIS_FAIR_OTHERS_MS INT64_C(300000)
/* A fair queue that only our clients stand in ends when none of them has asked for this time. It is
 * longer than any of their places, and longer than a client of Redisson that comes behind them
 * sleeps before it looks again. */
#define REDIS_FAIR_QUEUE_MS INT64_C(300000)
/* The number of permits given out together: the server does nothing else meanwhile. */
#define REDIS_PERMITS_MAX 10000u
/* uuid:number */
#define REDIS_FIELD_SIZE HF_OWNER_KEY_SIZE

/* What a mode is at the server: each function writes one command, which runs a script of the kind.
 * The scripts of all kinds reply alike:
 *
 *   acquire   {1, token}: granted
 *             {0, ms until it may be free}: refused; -1 where that is unknown
 *             {-1, the end of a sentence}: it cannot be granted; -3 if too much is asked for
 *             {-4}: what is to be raised is not held any more
 *             With op->in.enqueue the claim is going to wait. Where it may be given the lock
 *             without another request (grant_channel.c), a refusal has a third element: 1 if
 *             clients of another library may release it, else 0.
 *   release   1: released; 2: released, and a waiter holds it now; 0: it was not this owner's (any
 *             more); -1: the name has been overwritten
 *   extend    1 or 0
 *   renew     how many leases it was asked to renew. Then the numbers, from 1, of those that are
 *             not their owner's (any more); negative, of those that the server refuses to renew; if
 *             there are such, then why. KEYS are the locks' names, and then what `pair` adds for
 *             each of them. ARGV has the lease in ms of all, and then what `renewal` adds.
 */
struct redis_kind {
    bool leased; /* a grant is a hold, and rests on a lease */
    bool grants; /* the lock is given to a waiter (grant_channel.c) */
    bool queues; /* a refused claim that waits has a place at the server, which it keeps by asking
                    again every REDIS_PLACE_MS, and which `release` takes back */
    enum redis_script renew;
    void (*acquire)(struct connection *connection, struct command *command, const struct hf_op *op);
    const struct redis_many *take_many, *give_many; /* NULL: each alone */
    /* NULL: attach.lua does it for any kind. Answers {1, token, ms left} and maybe the mode and the
       permits, or {0}: it is not left under that key. `back`: undoes it. */
    void (*attach)(struct connection *connection, struct command *command, const struct hf_op *op,
                   bool back);
    void (*release)(struct connection *connection, struct command *command, const struct hf_op *op);
    void (*extend)(struct connection *connection, struct command *command, const struct hf_op *op,
                   int64_t lease_ms);
    /* Adds one lease's arguments, always as many, REDIS_RENEWAL_ARGUMENTS at most. */
    void (*renewal)(const struct redis *redis, struct command *command, const struct hf_op *op);
    /* Adds the other key that a lease is in, or the lock's name again. NULL: there is none. Half a
       lease, where the other key is at another server, would be taken for none. */
    void (*pair)(const struct redis *redis, struct command *command, const struct hf_op *op);
    /* Adds the name of the channel on which waiters are woken. NULL: releases are not told, and a
       waiter looks. */
    void (*channel)(const struct redis *redis, struct command *command, const struct hf_op *op);
    /* The key by which its owner is known to others; NULL: its field. */
    void (*owner_key)(const struct redis *redis, const struct hf_op *op,
                      char key[HF_OWNER_KEY_SIZE]);
    /* The answer has been heard, and it is not asked for again; may be NULL. */
    void (*settled)(struct redis *redis, const struct hf_op *op);
};

/* The keys of one lock that a script may need to know. */
#define REDIS_KEYS_OF_ONE 3u

/* How requests of one kind are batched, in one call of a script. KEYS are the first key of each,
 * then the second of each, and so on. ARGV is what is common to all, then each one's field. The
 * reply is an array. It has for each request the reply that it would have had alone, or just the
 * token that it is granted, or nil where it must be asked alone. */
struct redis_many {
    enum redis_script script;
    unsigned keys; /* of each */
    void (*add_key[REDIS_KEYS_OF_ONE])(const struct redis *redis, struct command *command,
                                       const struct hf_op *op);
    /* How many of these, from the first, what is asked now can need; the same for those that are
       alike, once they leave. NULL: all. */
    unsigned (*needs)(const struct hf_op *op);
    /* Is what is common to all the same for both? NULL: always. */
    bool (*are_alike)(const struct hf_op *op, const struct hf_op *other);
    /* NULL: nothing is. */
    void (*add_common)(const struct redis *redis, struct command *command, const struct hf_op *op);
};

const struct redis_kind *hf__redis_kind(const struct redis *redis, hf_mode mode);
extern const struct redis_kind hf__redis_mutex, hf__redis_fair, hf__redis_rw, hf__redis_semaphore,
    hf__redis_counter, hf__redis_latch, hf__redis_simple;

/* How scripts call the modes: "mutex", "read". */
const char *hf__redis_mode_name(hf_mode mode);
hf_mode hf__redis_mode_of(const redisReply *name);

/* ---- what kinds ask about an op ---- */

/* The field by which an op is known at the server. */
void hf__redis_field(const struct redis *redis, const struct hf_op *op,
                     char field[REDIS_FIELD_SIZE]);
void hf__redis_add_field(const struct redis *redis, struct command *command,
                         const struct hf_op *op);
/* What the lease of its next grant is. */
int64_t hf__redis_lease_ms(const struct redis *redis, const struct hf_op *op);
/* 0: it takes no place in a queue, 1: it does if it is refused, 2: it may have one already. A claim
 * that cannot be told of a grant takes none: it would be passed over. */
unsigned hf__redis_waits(const struct hf_op *op);
/* It has a place, or an attempt without a reply may have got it one. */
bool hf__redis_may_wait(const struct hf_op *op);
/* Begins the command of a script that looks at one lease: of the lock, and its pair. */
void hf__redis_lease_script(struct connection *connection, struct command *command,
                            enum redis_script script, const struct hf_op *op);
/* fair.c: how much of a key that something was left under is its field: a fair mutex's says behind
 * it what it is the key of. */
size_t hf__fair_field_length(const char *key);
/* semaphore.c: what the ids of an op's permits begin with. */
void hf__semaphore_add_prefix(const struct redis *redis, struct command *command,
                              const struct hf_op *op);

#endif
