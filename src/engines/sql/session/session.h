/* SPDX-License-Identifier: Apache-2.0 */
/* The layout "session" of the engines `postgres:` and `mysql:`: the database's own named locks
 * (advisory locks, GET_LOCK), which need no table and end with a session. Runs on the loop.
 *
 *     key.c, digest.c   what a name is called at the database
 *     statements.c      what is said to it
 *     seat.c            seats, the sessions on them, requests, heartbeats
 *     pool.c            the connections of all seats
 *     greet.c           what a new session is told, and asked
 *     claim.c, lock.c   the life of a claim
 *     show.c, doctor.c  holders and waiters, breaking; what endangers locks
 *
 * A seat has one connection at a time, and each connection is a session of its own. What is known
 * of an old session never counts for the next one on the same seat. Seat 0 is for all short
 * requests; a claim that waits, and what it is granted then, has another seat for itself. */
#ifndef HF_ENGINES_SQL_SESSION_H
#define HF_ENGINES_SQL_SESSION_H

#include "engines/common/own_end.h"
#include "engines/common/peer.h"
#include "engines/sql/scripts.h"

#define SESSION_TEXT_SIZE 65u
/* The time by which the server ends a silent session later than its client stops believing in
 * it. */
#define SESSION_MARGIN_MS 1000

enum session_key_form {
    SESSION_KEY_NAME,
    SESSION_KEY_NUMBER,
    SESSION_KEY_DISTRIBUTEDLOCK,
    SESSION_KEY_SYMFONY,
    SESSION_KEY_RAILS
};

/* Compared byte by byte: two names may have the same key, and are one lock then. */
struct session_key {
    int64_t number, second;       /* PostgreSQL */
    bool pair;                    /* ... two numbers of 32 bits, which are a space of their own */
    char text[SESSION_TEXT_SIZE]; /* MySQL */
};

enum session_word {
    SESSION_TRY,
    SESSION_WAIT,
    SESSION_UNLOCK,
    SESSION_TRY_SHARED,
    SESSION_WAIT_SHARED,
    SESSION_UNLOCK_SHARED,
    SESSION_LOWER,
    SESSION_BEAT,
    SESSION_CANCEL,
    SESSION_SET_UP,
    SESSION_FACTS,
    SESSION_CLUSTER,
    SESSION_SHOW,
    SESSION_LOCKS,
    SESSION_LOCKS_PLUGIN,
    SESSION_BREAK,
    SESSION_END,
    SESSION_DOCTOR,
    SESSION_WORD_COUNT
};

struct sessions;
struct session_seat;
struct session_claim;
struct session_request;

/* One session at the server. Lives as long as a claim or a request has to do with it. */
struct session {
    struct hf_lease lease; /* what rests on it */
    struct sessions *all;
    int64_t id; /* the server's */
    unsigned uses;
    bool over, beating;
    struct hf_link ends; /* claims with an end of their own */
};

struct session_seat {
    struct sessions *all;
    unsigned number;
    struct hf_peer peer;
    struct sql_settings *settings; /* the URL's, with a name of its own for the session */
    struct sql_place place;
    struct sql_connection *connection;
    struct session *session; /* NULL: none that is ready */
    bool fence;              /* the session before may live at the server, */
    int64_t fence_until_ms;  /* ... until then at the latest */
    unsigned fence_tries;
    struct hf_link waiting, out;
    struct hf_link claims;       /* that have, or may have, something on this session */
    struct session_claim *owner; /* the one that has the seat for itself; or NULL */
    struct hf_timer idle;
};

typedef void session_done(struct session_request *request, const struct sql_answer *answer);

struct session_request {
    struct sql_request request;
    struct session_seat *seat;
    struct hf_link link;
    session_done *done;
    struct session *session; /* that it was sent on */
    struct session_claim *claim;
    struct hf_oneshot *oneshot;
    int64_t sent_at_ms;
    /* Where the reply may take for ever: told that it has left. NULL: the reply comes soon. */
    void (*sent)(struct session_claim *claim);
    unsigned tries;
    struct session_key key; /* what the values point to */
    struct sql_value values[SQL_PARAMETER_COUNT];
};

enum session_state {
    SESSION_CLAIM_IDLE,    /* nothing is at the server */
    SESSION_CLAIM_TRYING,  /* a try is out */
    SESSION_CLAIM_WAITING, /* the statement that waits is out, on a seat of its own */
    SESSION_CLAIM_GRANTED, /* ... has been granted, and the core has not asked yet */
    SESSION_CLAIM_HELD,
    SESSION_CLAIM_RELEASING /* an unlock is out */
};

struct session_claim {
    struct hf_op *op; /* NULL: it has left */
    struct sessions *all;
    enum session_state state;
    struct session_key key;
    struct session_seat *seat; /* whose list of claims it is in; NULL: none */
    struct hf_link link;
    struct hf_link queue_link; /* among those that want a seat */
    struct session *session;   /* that its grant rests on, or NULL */
    struct hf_own_end end;
    struct hf_timer again; /* cancels once more */
    uint64_t token;
    int64_t asked_at_ms;
    unsigned uses;    /* by its op and by requests */
    unsigned cancels; /* that are out */
    bool shared;      /* what it has at the server */
    bool asked;       /* the core waits for the answer to an attempt */
    bool releasing;   /* ... to a release */
    bool replied;     /* the statement that waits has ended; what it has locked is to be unlocked */
    bool over;        /* its own end has come */
    bool confirming;  /* ... what it was granted is asked for once more */
    bool repeated;    /* its attempt has begun again on another session */
};

#define SESSION_CONTENDED 64u

struct sessions {
    struct hf_engine base;
    struct sql_settings settings;
    enum sql_dialect dialect;
    int64_t lease_ms;
    unsigned seat_count;
    struct session_seat *seats;
    struct hf_link queue; /* claims that want a seat */
    struct hf_link free_requests, free_claims;
    /* By the key's hash: it was last found held; how often it was believed to be since. */
    unsigned char contended[SESSION_CONTENDED];
    struct hf_timer closing;
    void (*closed)(void *arg);
    void *closed_arg;
};

static inline int64_t hf__session_now(const struct sessions *all)
{
    return hf__loop_now(all->base.host->loop);
}

/* ---- engine.c ---- */

/* `settings` are copied. */
int hf__session_open(struct hf_engine **ret, const struct sql_settings *settings,
                     const struct hf_host *host, hf_error *error);

/* ---- key.c ---- */

/* False: *error says what such names look like. */
bool hf__session_key_make(struct session_key *key, const struct sql_settings *settings,
                          const char *name, uint32_t length, hf_error **error);
bool hf__session_key_is(const struct session_key *one, const struct session_key *other);
/* How it is shown to users that look for it at the server. */
void hf__session_key_write(char *text, size_t size, const struct session_key *key);

/* ---- digest.c ---- */

uint32_t hf__session_crc32(const void *bytes, size_t length);
void hf__session_sha1(uint8_t digest[20], const void *bytes, size_t length);
void hf__session_sha512(uint8_t digest[64], const void *bytes, size_t length);

/* ---- statements.c ---- */

/* NULL: the dialect has none. */
const struct sql_script *hf__session_script(enum sql_dialect dialect, enum session_word word,
                                            bool pair);

/* ---- pool.c ---- */

bool hf__session_pool_open(struct sessions *all);
/* Its claims have left. */
void hf__session_pool_close(struct sessions *all);

/* ---- seat.c ---- */

void hf__session_break_seat(struct session_seat *seat, const struct sql_failure *failure);
void hf__session_seat_ready(struct session_seat *seat);
/* The session on it is over. Its claims are not told. */
void hf__session_seat_end(struct session_seat *seat);
/* A request of the seat's own, before it is ready. */
void hf__session_prepare(struct session_request *request, const struct sql_script *script);
void hf__session_send(struct session_request *request);
/* With the claim's key, if there is one, and a use of it. NULL: out of memory. */
struct session_request *hf__session_request(struct session_seat *seat, struct session_claim *claim,
                                            session_done *done);
void hf__session_request_key(struct session_request *request, const struct session_key *key);
void hf__session_number(struct session_request *request, enum sql_parameter parameter,
                        int64_t number);
/* Sends it, once there is a session. */
void hf__session_run(struct session_request *request, enum session_word word);
/* Ends it with an answer. */
void hf__session_request_over(struct session_request *request, const struct sql_answer *answer);
void hf__session_claim_use_ends(struct session_claim *claim);
/* What a failure means: a code, and a sentence in *error. */
int hf__session_explain(struct session_request *request, const struct sql_failure *failure,
                        hf_error **error, bool *definite);
/* A reply to what left at asked_at_ms has come on it. */
void hf__session_confirm(struct session *session, int64_t asked_at_ms);
void hf__session_beat(struct session *session);
void hf__session_keep(struct session *session);
void hf__session_drop(struct session *session);
/* For a claim that waits: a seat without an owner. NULL: there is none. */
struct session_seat *hf__session_seat_find(struct sessions *all);
/* Another claim with the same key that has something on it, or NULL. */
struct session_claim *hf__session_seat_has(struct session_seat *seat,
                                           const struct session_claim *claim);
void hf__session_seat_leave(struct session_claim *claim);
struct session_seat *hf__session_seat_of(const struct session *session);
/* An answer's number that says on which session it was made: one that was moved is not ours. */
bool hf__session_is_moved(struct session_request *request, const struct sql_answer *answer,
                          unsigned column);
int64_t hf__session_field(const struct sql_answer *answer, unsigned row, unsigned column);

void hf__session_renew(struct hf_engine *engine, struct hf_lease *lease);
/* No memory, or a failure. */
void hf__session_oneshot_ends(struct sessions *all, struct hf_oneshot *oneshot, int code);
void hf__session_oneshot_failed(struct session_request *request, const struct sql_answer *answer);

/* ---- greet.c ---- */

void hf__session_greet(struct hf_peer *peer);

/* ---- claim.c ---- */

/* NULL: out of memory. */
struct session_claim *hf__session_claim_new(struct sessions *all, struct hf_op *op);
/* It has nothing on a session any more. */
void hf__session_claim_rest(struct session_claim *claim);
/* ... and its op is over. */
void hf__session_claim_leave(struct session_claim *claim);

void hf__session_claims_close(struct sessions *all);
void hf__session_extend(struct sessions *all, struct hf_oneshot *oneshot);

/* ---- lock.c ---- */

void hf__session_finish(struct session_claim *claim, enum hf_verdict verdict);
/* It is over before its caller releases it: what it holds is unlocked. */
void hf__session_end_now(struct session_claim *claim);

void hf__session_attempt(struct hf_engine *engine, struct hf_op *op);
void hf__session_release(struct hf_engine *engine, struct hf_op *op);

/* ---- show.c, doctor.c ---- */

void hf__session_show(struct sessions *all, struct hf_oneshot *oneshot);
void hf__session_break(struct sessions *all, struct hf_oneshot *oneshot);
void hf__session_diagnose(struct sessions *all, struct hf_oneshot *oneshot);

#endif
