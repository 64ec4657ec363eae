/* SPDX-License-Identifier: Apache-2.0 */
/* The engines `postgres:` and `mysql:` from the inside: a client of one database. Everything here
 * runs on the loop.
 *
 *     driver.h    the interface to the client libraries
 *     scripts.h   what is said to the database, as .sql files
 *     advice.c    what failures mean
 *     task.c      requests, and their parameters
 *     link.c      a connection that comes back by itself, and the requests on it
 *     lock.c      the life of a claim
 *     claims.c    what it is called at the database, over which connection, and its lease
 *     counter.c   receipts of what was taken from counters
 *     change.c, inspect.c
 *     waiting.c   claims that wait: notifications and polling
 *
 * The rows are the truth. A notification is only a hint. */
#ifndef HF_ENGINES_SQL_H
#define HF_ENGINES_SQL_H

#include "core/engine.h"
#include "engines/common/peer.h"
#include "engines/sql/scripts.h"

#define SQL_OWNER_SIZE 24u
#define SQL_INFO_SIZE 300u

/* How long a place in the queue lasts without a sign of life, and how often it gives one. */
#define SQL_PLACE_MS 10000
#define SQL_LOOK_MS 3000
/* A lock that was handed over is confirmed by its new owner within this time, or lost. */
#define SQL_HAND_MS 5000
/* Tables of other programs count in 31 or 32 bits of seconds, or in nine digits. */
#define SQL_LAYOUT_LEASE_MAX_MS (30LL * 365 * 86400 * 1000)

struct sql;
struct sql_named;

/* A request of the engine's: one script, and what it is about. */
struct sql_task {
    struct sql_request request;
    struct sql *sql;
    struct hf_link link; /* in sql->waiting or sql->out, or free */
    /* The answer, without the troubles that the link has mended. `answer` as in driver.h. */
    void (*done)(struct sql_task *task, const struct sql_answer *answer);
    struct hf_op *op;
    struct hf_oneshot *change;
    struct hf_oneshot *query;
    int64_t sent_at_ms;
    int64_t asked_at_ms; /* when a grant was asked for whose token is being raised; or 0 */
    unsigned char asked; /* enum hf_asked: of `op`; 0: what it asks changes no claim */
    unsigned char meant; /* enum hf_known_verdict: why the claim leaves before it is answered */
    bool contacted;      /* the database has replied */
    bool unheard;        /* an earlier request of the claim has no reply */
    bool guesses;        /* a place was asked for before the lock */
    bool raised;         /* the token of its grant has been raised */
    unsigned tries;
    struct hf_timer again; /* after a deadlock */
    struct hf_lease *lease;
    struct hf_link renewal_link;
    char *memory; /* a name of its own, for a task that outlives its op */
    struct sql_value values[SQL_PARAMETER_COUNT];
    unsigned char owner[SQL_OWNER_SIZE], key[SQL_OWNER_SIZE];
    char info[SQL_INFO_SIZE];
};

/* hf_forget keeps a token of the last second (forget.sql). A statement that took half as long, or
 * has no reply, may have read the clock before a token that is forgotten by now. */
#define SQL_SLOW_GRANT_MS 500

#define SQL_CONNECTIONS_MAX 16
#define SQL_WAITER_BUCKETS 64u
/* Of more names than this whose rows are locked, the others are not known as such. */
#define SQL_LOCKED_ROWS 32u
/* What the scripts answer for a name that is in use as another kind: this, and the hf_kind. */
#define SQL_OTHER_KIND 20

/* A part of a client: one of its connections, and all claims whose names belong to that. */
struct sql {
    struct hf_engine base;
    struct sql_settings settings;
    struct sql *first; /* the part that the core knows, which alone has the list of all */
    struct sql *parts[SQL_CONNECTIONS_MAX];
    unsigned open_parts; /* of the first one: those that have not closed */
    enum sql_dialect dialect;
    struct sql_named *named; /* with schema=: the scripts with that name in them; else NULL */
    char *schema;            /* the statements that make the tables */
    char *grants;            /* ... and that let another user use them */
    uint64_t id[2];          /* the first half of each owner: no other part's, or client's */
    char channel[40];        /* the notifications for this part */
    uint64_t claims;         /* numbers given to claims so far */
    /* link.c */
    struct hf_peer peer;
    struct sql_connection *connection;
    struct sql_place place; /* of that connection */
    bool fence;             /* what was sent on the last connection may be executed yet */
    bool making_schema;
    bool listens, listening; /* notifications come; they are being asked for */
    bool missed;             /* claims waited while no notifications came */
    bool ascii_info; /* the column of a layout does not take all of what a claim says of itself */
    struct hf_link waiting, out, pausing, free_tasks;
    struct sql_task *own; /* link.c's own request: schema, fencing, listening */
    /* row_lock.c: hashes of names; the request that tries one; when the next one may */
    uint64_t locked_rows[SQL_LOCKED_ROWS];
    unsigned locked_row_count;
    struct sql_task *row_probe;
    int64_t row_probe_at_ms;
    /* waiting.c */
    struct hf_link waiters[SQL_WAITER_BUCKETS];
    unsigned waiter_count;
    /* lock.c: a bit for each 64th of all names, set where a mutex was last found held */
    uint64_t contended;
    /* counter.c: receipts that are deleted at the end of the turn */
    struct hf_link settling;
    struct hf_task settle;
    unsigned unsettled; /* receipts that are not known to be deleted */
    /* engine.c: while the client closes */
    void (*closed)(void *arg);
    void *closed_arg;
    struct hf_timer closing;
    struct hf_link renewals; /* ops that are being renewed: tasks, by `renewal_link` */
};

/* op->engine.word[0] is its claim's number, word[1] an OR of these. What the database may have of
 * the claim is in op->engine.known. */
#define SQL_WOKEN 1u /* it was notified, and has not asked since */
#define SQL_RENEWING 2u
#define SQL_WAITED 4u     /* other owners have wanted the name */
#define SQL_POLLS_SHIFT 8 /* above: how often it has looked in vain since it waits */

/* All requests about a name go over the connection of this part: the order of that connection is
 * what their answers rest on (docs/internals/fast-paths.md). NULL: requests about no name. */
struct sql *hf__sql_part(struct hf_engine *engine, const char *name, uint32_t length);

static inline struct sql *hf__sql_part_of(struct hf_engine *engine, const struct hf_op *op)
{
    return hf__sql_part(engine, op->in.name, op->in.name_length);
}

static inline int64_t hf__sql_now(const struct sql *sql)
{
    return hf__loop_now(sql->base.host->loop);
}

#ifdef HF_SQL_POSTGRES
extern const struct hf_engine_ops hf__postgres;
#endif
#ifdef HF_SQL_MYSQL
extern const struct hf_engine_ops hf__mysql;
#endif

/* ---- url.c ---- */

int hf__sql_settings(struct sql_settings *settings, const struct sql_driver *driver,
                     struct hf_url *url, hf_error *error);

/* No server of the URL is on another machine. */
bool hf__sql_is_local(const struct sql_settings *settings);

/* ---- doctor/ ---- */

void hf__sql_diagnose(struct sql *sql, struct hf_oneshot *oneshot);

/* ---- schema_name.c ---- */

/* A schema of 63 bytes as an identifier with a dot behind it: each may be a quote. */
#define SQL_PLACE_SIZE 140

/* Between `mark`s, which stand twice inside; answers the length. */
size_t hf__schema_name_quote(char *to, const char *text, char mark);
/* False: out of memory. */
bool hf__schema_name_open(struct sql *sql);
void hf__schema_name_close(struct sql *sql);
/* NULL: there is no such script. */
const struct sql_script *hf__sql_script(const struct sql *sql, enum sql_script_number number);

/* ---- advice.c ---- */

/* The table check says so of a table whose rows may stand twice. */
#define SQL_NO_UNIQUE_KEY "has no unique key"
/* ... and of a column whose UTC would be another moment in each session. */
#define SQL_HAS_ZONE "not a time without a zone"

/* An hf_code. */
int hf__sql_code(enum sql_trouble trouble);
/* "; DO THIS", or "". */
const char *hf__sql_advice(const struct sql_settings *settings, const struct sql_failure *failure);

/* ---- task.c ---- */

/* A task with the parameters that every script knows. NULL: out of memory. */
struct sql_task *hf__task_new(struct sql *sql, const char *name, uint32_t name_length);
void hf__task_free(struct sql_task *task);
void hf__task_number(struct sql_task *task, enum sql_parameter parameter, int64_t number);
void hf__task_bytes(struct sql_task *task, enum sql_parameter parameter, const void *bytes,
                    size_t length);
/* A task about an op, with all its parameters. */
struct sql_task *hf__task_about(struct sql *sql, struct hf_op *op);
/* A column does not hold what a claim says of itself: less of it. False: it says nothing. */
bool hf__task_shorten_info(struct sql_task *task);

/* Field `column` of the first row; 0 or NULL where there is none. */
int64_t hf__answer_number(const struct sql_answer *answer, unsigned row, unsigned column);
const struct sql_value *hf__answer_field(const struct sql_answer *answer, unsigned row,
                                         unsigned column);

/* ---- link.c ---- */

void hf__link_open(struct sql *sql);
void hf__link_close(struct sql *sql);
/* Sends it, once there is a connection. */
void hf__link_run(struct sql *sql, struct sql_task *task, enum sql_script_number script);
/* The same script once more, after this pause. */
void hf__link_pause(struct sql_task *task, int64_t pause_ms);
/* ... after a pause that grows; false: it has been tried too often. */
bool hf__link_repeat(struct sql_task *task);
/* Asks for notifications, before what is run after it, if there are claims that wait. */
void hf__link_listen(struct sql *sql);
/* A reply was not that to its request: what is out has no reply, and the connection goes. */
void hf__link_misheard(struct sql *sql);
/* What a failed task means: a code, and a sentence in *error. *definite: nothing has happened, and
 * asking again will not help. */
int hf__link_explain(struct sql *sql, const struct sql_task *task, const struct sql_answer *answer,
                     hf_error **error, bool *definite);

/* ---- row_lock.c ---- */

/* Each answer to a request passes here. NULL: no failure. */
void hf__row_lock_note(struct sql_task *task, const struct sql_failure *failure);
/* 0: the request may be sent. Else the row of its name is locked, and it is asked for again after
 * this. */
int64_t hf__row_lock_pause_ms(struct sql_task *task);
/* Why a reply about the op is missing, if it is that. */
bool hf__row_lock_explain(struct sql *sql, const struct hf_op *op, hf_error **error);

/* ---- claims.c: what a claim is called at the database ---- */

void hf__owner_write(const struct sql *sql, const struct hf_op *op,
                     unsigned char owner[SQL_OWNER_SIZE]);
void hf__owner_key(const unsigned char owner[SQL_OWNER_SIZE], char key[HF_OWNER_KEY_SIZE]);
bool hf__owner_read(const char *key, unsigned char owner[SQL_OWNER_SIZE]);
int64_t hf__op_lease_ms(const struct sql *sql, const struct hf_op *op);
bool hf__lease_fits(const struct sql *sql, int64_t lease_ms, hf_error **error);
void hf__op_set_lease(struct sql *sql, struct hf_op *op, int64_t asked_at_ms, int64_t lease_ms);
hf_kind hf__kind_of(hf_mode mode);

/* ---- the engine's slots ---- */

void hf__sql_attempt(struct hf_engine *engine, struct hf_op *op);
void hf__sql_release(struct hf_engine *engine, struct hf_op *op);
void hf__sql_renew(struct hf_engine *engine, struct hf_lease *lease);
void hf__sql_oneshot(struct hf_engine *engine, struct hf_oneshot *change);
void hf__sql_detach(struct hf_engine *engine, struct hf_oneshot *change);
void hf__sql_inspect(struct hf_engine *engine, struct hf_oneshot *query);
/* Did the statement change, or return, a row? */
static inline bool hf__answer_changed(const struct sql_answer *answer)
{
    return answer->row_count > 0 || answer->affected > 0;
}

/* ---- counter.c ---- */

/* The reply to a take is about to be heard. Its receipt goes, unless hf__counter_keep comes first:
 * the caller has left. */
void hf__counter_taken(struct sql *sql, struct hf_op *op);
void hf__counter_keep(struct sql *sql, struct hf_op *op);
void hf__counter_open(struct sql *sql);

/* ---- waiting.c ---- */

void hf__waiting_open(struct sql *sql);
void hf__waiting_close(struct sql *sql);
/* From now on a notification for the op wakes it. False: it waited already, or there is no
 * memory. */
bool hf__waiting_add(struct sql *sql, struct hf_op *op);
void hf__waiting_remove(struct sql *sql, struct hf_op *op);
/* What was told before there was an ear for it may have been for any of them. */
void hf__waiting_wake_all(struct sql *sql);
void hf__waiting_notified(struct sql *sql, const char *payload, size_t length);
/* When a refused op looks again, woken or not. `rank` 1: it is next; `left_us`: when that which
 * keeps it out ends by itself at the latest. */
int64_t hf__waiting_retry_at(struct sql *sql, struct hf_op *op, int64_t rank, int64_t left_us);

#endif
