/* The engine `redis:` from the inside: a client of one server, with one connection for questions
 * and one on which releases are heard. Everything here runs on the loop. */
#ifndef HF_ENGINES_REDIS_H
#define HF_ENGINES_REDIS_H

#include "base/list.h"
#include "base/loop.h"
#include "base/url.h"
#include "core/engine.h"
#include "net/stream.h"
#include "net/tls.h"

#include <hiredis/hiredis.h>

/* Tokens follow the server's clock, so one that nobody asked for in so long may be forgotten. */
#define REDIS_TOKEN_MS INT64_C(86400000)
/* A waiter that may have missed a release looks again so soon. */
#define REDIS_POLL_MS 1000
/* A waiter whom nobody tells looks so often, more or less, so that they do not all look at once. */
#define REDIS_LOOK_LEAST_MS 25
#define REDIS_LOOK_MOST_MS 75
/* A lock that is given to a waiter is its own for so long before it has said anything. */
#define REDIS_GRANT_MS INT64_C(4000)
/* Whoever waits for that looks so often at least whether it is still in the queue. */
#define REDIS_QUEUE_LOOK_MS 3000
/* A queue that nobody looks at any more may be forgotten. */
#define REDIS_QUEUE_MS INT64_C(60000)
/* Who has a place in line asks so often; a third of what queue.lua gives it. */
#define REDIS_PLACE_MS 2000
/* A server that has forgotten a script so often although it was just told is not Redis. */
#define REDIS_REPEATS_MOST 10u
/* The server does nothing else while it gives out so many. */
#define REDIS_PERMITS_MOST 10000u
#define REDIS_PORT 6379
#define REDIS_SENTINEL_PORT 26379
/* The longest name of a host that a sentinel or a node may answer, with its NUL. */
#define REDIS_HOST_SIZE 256
/* A place in a fair queue lives so long without a sign of life. Whoever takes the lock by Redisson
 * brings the end of all other places nearer, by its own fairLockWaitTimeout: five minutes. */
#define REDIS_FAIR_PLACE_MS INT64_C(10000)
#define REDIS_FAIR_OTHERS_MS INT64_C(300000)
#define REDIS_CHANNEL_BUCKETS 1024u
/* uuid:number */
#define REDIS_FIELD_SIZE HF_OWNER_KEY_SIZE

/* ---- url.c: what the URL says ---- */

extern const struct hf_engine_ops hf__redis, hf__redis_plain, hf__quorum;

struct redis_settings {
    struct hf_stream_place place;
    const char *user, *password; /* NULL: none */
    unsigned database;
    int64_t timeout_ms; /* how long the server may be silent while a question is out */
    unsigned replicas;  /* sync: so many must have a grant before it is believed */
    const char *master; /* NULL: `place` is the server; else sentinels know it by this name */
    const struct hf_url_host *sentinels;
    unsigned sentinel_count;
    const char *sentinel_password;   /* NULL: none */
    const struct hf_url_host *seeds; /* NULL: `place` is the server; else nodes of a cluster */
    unsigned seed_count;
    bool simple;     /* format=simple: plain locks, as SET NX PX makes them */
    bool unfenced;   /* fence=off: no tokens */
    char shown[280]; /* where it is, for sentences */
};

/* What `settings` has got by then is given back by hf__redis_settings_close, also after a failure.
 */
int hf__redis_settings(struct redis_settings *settings, struct hf_url *url, hf_error *error);
void hf__redis_settings_close(struct redis_settings *settings);

/* ---- reply.c: what the server says ---- */

/* A reader that refuses what no answer to us can be: too long, too deep, too many elements. */
redisReader *hf__reply_reader(void);
/* Feeds the bytes; false: the reader is out of order, or a limit is reached. `*unread` counts the
 * bytes since the last whole reply. */
bool hf__reply_feed(redisReader *reader, const char *bytes, size_t length, size_t *unread);

/* Is it an array of at least `count` elements? */
bool hf__reply_is_array(const redisReply *reply, size_t count);
/* A number: an integer, or its digits. -1 for anything else. */
int64_t hf__reply_number(const redisReply *reply);
/* The text, or "" for what is none. */
const char *hf__reply_text(const redisReply *reply);

/* What INFO says, a line of "key:value"; "" where there is none. Returns `value`. */
const char *hf__reply_info(const redisReply *reply, const char *key, char *value, size_t size);

/* What an error reply means: an hf_code, HF_UNREACHABLE for those that pass by themselves. */
int hf__reply_code(const redisReply *error);
bool hf__reply_says(const redisReply *reply, const char *word);

/* ---- command.c: what we say ---- */

enum redis_script {
#define HF_SCRIPT(name, sha, text, sharded_sha, sharded_text) REDIS_##name,
#include "engines/redis/scripts.inc"
#undef HF_SCRIPT
    REDIS_SCRIPTS
};

/* Leases renewed by one call. */
#define REDIS_RENEWALS 128u
/* The same for leases of which a second key has to be named, in a cluster. */
#define REDIS_PAIR_RENEWALS 8u
/* Of those a kind may add to the call for each lease, beside the lock's name. */
#define REDIS_RENEWAL_ARGUMENTS 2u
#define REDIS_ARGUMENTS ((1u + REDIS_RENEWAL_ARGUMENTS) * REDIS_RENEWALS + 4u)

#define REDIS_TEXT_SIZE 16384u

/* The arguments are not copied, but for those that the command itself makes into text. */
struct command {
    int count;
    const char *arguments[REDIS_ARGUMENTS];
    size_t lengths[REDIS_ARGUMENTS];
    size_t used;
    char text[REDIS_TEXT_SIZE];
};

void hf__command_begin(struct command *command, const char *word);
void hf__command_add(struct command *command, const char *bytes, size_t length);
__attribute__((format(printf, 2, 3))) void hf__command_print(struct command *command,
                                                             const char *format, ...);
void hf__command_number(struct command *command, int64_t number); /* not below 0 */
/* The same with bytes that do not stay where they are. */
void hf__command_copy(struct command *command, const void *bytes, size_t length);
/* Redisson's rule for what belongs to a lock: "prefix:name" if the name has a brace, else
 * "prefix:{name}". */
void hf__command_derived(struct command *command, const char *prefix, const char *name,
                         uint32_t length);

/* False: out of memory, or too much waits; nothing was queued. */
bool hf__command_write(const struct command *command, struct hf_stream *stream);
#define REDIS_DIGITS_MAX 20u
/* Writes its digits, without a NUL; returns how many they are. */
size_t hf__write_number(char *at, uint64_t number);

#define REDIS_TOKEN_PREFIX "redisson_lock_token"
#define REDIS_CHANNEL_PREFIX "redisson_lock__channel"
#define REDIS_MARK_PREFIX "holdfast_kind"
#define REDIS_QUEUE_PREFIX "holdfast_lock_queue"
#define REDIS_FAIR_QUEUE_PREFIX "redisson_lock_queue"
#define REDIS_FAIR_TIMES_PREFIX "redisson_lock_timeout"

/* ---- connection.c: a connection that comes back by itself ---- */

struct redis;
struct connection;

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
    };
    void *memory;                  /* freed with the question */
    const struct redis_many *many; /* NULL: it is asked alone */
    struct hf_link parts;          /* the questions that this one asks together (together.c) */
    int64_t sent_at_ms;
    bool sent;
    bool listened;    /* a grant could have been heard of when it was sent */
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

enum connection_state {
    CONNECTION_DOWN,     /* nobody needs it, or it pauses after a failure */
    CONNECTION_FINDING,  /* asking sentinels where to */
    CONNECTION_OPENING,  /* connecting */
    CONNECTION_GREETING, /* connected; password and database are being settled */
    CONNECTION_READY
};

struct connection {
    struct redis *redis;
    enum connection_state state;
    struct hf_stream *stream;
    redisReader *reader;
    size_t unread;                /* bytes of a reply that is not whole yet */
    struct hf_link questions;     /* wait for the connection */
    struct hf_link out;           /* sent, in the order of their answers */
    struct hf_timer pause;        /* until the next try */
    struct hf_timer limit;        /* the oldest question has waited for too long; or a failure */
    unsigned failures;            /* in a row */
    unsigned openings;            /* how often it was ready */
    uint64_t known_scripts;       /* a bit for each that this connection has sent in full */
    uint64_t server_id;           /* the server's number for this connection, or for the last one */
    char server_run[41];          /* which run of the server gave it; "" where it does not say */
    hf_error why;                 /* of the last failure */
    bool failing;                 /* `why` is set, and is to be told */
    struct hf_stream_place place; /* where it goes now */
    /* With sentinels: how many may still be asked this time; the master they named last. */
    unsigned sentinels_left, master_port;
    char master_host[REDIS_HOST_SIZE];
    /* For the one that listens: the connection is ready; is lost; a reply that answers nothing. */
    void (*ready)(struct connection *connection);
    void (*lost)(struct connection *connection);
    void (*pushed)(struct connection *connection, const redisReply *reply);
};

void hf__connection_init(struct connection *connection, struct redis *redis);
void hf__connection_close(struct connection *connection);
/* Opens it at connection->place, with whatever was read before forgotten. */
void hf__connection_open_at(struct connection *connection);
/* Opens it unless it is open, or pauses. */
void hf__connection_want(struct connection *connection);
/* Sends the question as soon as the connection is ready. */
void hf__connection_ask(struct connection *connection, struct question *question);
/* For `send`: writes the command, to which `question` (or nobody) waits for the answer. */
void hf__connection_write(struct connection *connection, struct question *question,
                          struct command *command);
/* kinds.c: begins the command of a script that looks at one lease: of the lock, and its pair. */
void hf__redis_lease_script(struct connection *connection, struct command *command,
                            enum redis_script script, const struct hf_op *op);
/* Begins a script's command: by its digest if this connection has sent it before. */
void hf__connection_script(struct connection *connection, struct command *command,
                           enum redis_script script, unsigned keys);
__attribute__((format(printf, 4, 5))) void
hf__connection_break(struct connection *connection, int code, int native, const char *format, ...);

/* sentinel.c: asks where the master is, then calls hf__connection_open_at; or breaks. */
void hf__sentinel_find(struct connection *connection);
/* The limit of the one that is being asked has passed. */
void hf__sentinel_silent(struct connection *connection);

/* greeting.c: what is said first on each connection. Calls hf__connection_greeted, or breaks. */
void hf__greeting_begin(struct connection *connection);
void hf__connection_greeted(struct connection *connection);

/* ---- kinds: one file each, mutex.c and so on; kinds.c knows them all ---- */

/* What a mode is at the server: each function writes one command, which runs a script of the
 * kind's. All kinds' scripts answer alike, so nothing else asks which kind it has before it:
 *
 *   acquire   {1, token}, {0, ms until it may be free, -1 where nobody knows}, or {-1, why it
 *             cannot be: a sentence's end}, the same with -3 if it is asked for too much. With
 *             op->enqueue, it is going to wait. Where it may be given the lock without asking
 *             (inbox.c), the refusal has a third element, 1 if others than our clients may let go
 *             of it, or 0
 *   release   1, or 0: it was not this owner's (any more)
 *   extend    the same
 *   renew     how many leases it was asked to renew, and then the numbers, from 1, of those that
 *             are not their owner's (any more), and, below 0, of those that the server refuses to
 *             renew; if there are such, then why. KEYS are the locks' names, and then what `pair`
 *             adds for each of them; ARGV the lease in ms of all, and then what `renewal` adds */
struct redis_many;

struct redis_kind {
    bool leased; /* a grant is a hold, and rests on a lease */
    bool grants; /* the lock is given to who waits for it (inbox.c) */
    bool queues; /* who is refused and waits has a place at the server, which it keeps by asking
                    again every REDIS_PLACE_MS, and which `release` takes back */
    enum redis_script renew;
    void (*acquire)(struct connection *connection, struct command *command, const struct hf_op *op);
    const struct redis_many *take_many, *give_many; /* NULL: each alone */
    /* NULL: attach.lua does it for any kind. Answers {1, token, ms left} and maybe the mode and the
       permits, or {0}: nobody has it under that key. `back`: undoes it. */
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
    /* Adds the name of the channel on which waiters are woken. NULL: nobody tells of a release, and
       who waits looks. */
    void (*channel)(const struct redis *redis, struct command *command, const struct hf_op *op);
    /* The key by which its owner is known to others; NULL: its field. */
    void (*owner_key)(const struct redis *redis, const struct hf_op *op,
                      char key[HF_OWNER_KEY_SIZE]);
    /* The answer has been heard, and nobody asks for it again; may be NULL. */
    void (*settled)(struct redis *redis, const struct hf_op *op);
};

/* The keys of one lock that a script may need to know. */
#define REDIS_KEYS_OF_ONE 4u

/* How questions of one kind are asked together, in one call of a script. KEYS are the first key of
 * each, then the second of each, and so on; ARGV what is common to all, then each one's field. It
 * answers an array: for each of them what it is answered alone, or just the token that it is
 * granted, or nil, for it must be asked alone. */
struct redis_many {
    enum redis_script script;
    unsigned keys; /* of each */
    void (*add_key[REDIS_KEYS_OF_ONE])(const struct redis *redis, struct command *command,
                                       const struct hf_op *op);
    /* Is what is common to all the same for both? NULL: always. */
    bool (*are_alike)(const struct hf_op *op, const struct hf_op *other);
    void (*leaves)(struct connection *connection, struct question *question);
    /* NULL: nothing is. */
    void (*add_common)(const struct redis *redis, struct command *command, const struct hf_op *op);
};

const struct redis_kind *hf__redis_kind(const struct redis *redis, hf_mode mode);
extern const struct redis_kind hf__redis_mutex, hf__redis_fair, hf__redis_rw, hf__redis_semaphore,
    hf__redis_counter, hf__redis_latch, hf__redis_simple;

/* How scripts call the modes: "mutex", "read". */
const char *hf__redis_mode_name(hf_mode mode);
hf_mode hf__redis_mode_of(const redisReply *name);

/* semaphore.c: what the ids of an op's permits begin with. */
void hf__semaphore_add_prefix(const struct redis *redis, struct command *command,
                              const struct hf_op *op);

/* ---- names.c: the keys and channels of a lock ---- */

enum redis_channel {
    REDIS_CHANNEL_MUTEX,
    REDIS_CHANNEL_RW,
    REDIS_CHANNEL_SEMAPHORE, /* counters, too */
    REDIS_CHANNEL_LATCH
};

void hf__names_channel(struct command *command, enum redis_channel channel, const char *name,
                       uint32_t length);
void hf__names_permits(struct command *command, const char *name, uint32_t length);
/* The lock's own key, and its token's. */
void hf__redis_add_lock(const struct redis *redis, struct command *command, const struct hf_op *op);
void hf__redis_add_token(const struct redis *redis, struct command *command,
                         const struct hf_op *op);
/* Begins a script's command with all the keys that names.lua expects. */
void hf__names_script(struct connection *connection, struct command *command,
                      enum redis_script script, enum redis_channel channel, const char *name,
                      uint32_t length);

/* ---- channel.c: hearing of releases ---- */

/* An op that waits. */
struct waiter {
    struct hf_op *op;
    struct redis *redis;     /* where it waits */
    struct channel *channel; /* NULL: it listens to none */
    struct hf_link link;     /* in the channel's */
    struct hf_link in_inbox;
    struct hf_link of_all; /* in redis->waiters */
    struct hf_timer look;  /* the lock may be free then */
    /* What we were told to have been granted (0: nothing), how long the lease is, and a moment at
     * which it had not been granted yet. */
    uint64_t granted_token;
    int64_t granted_ms, not_before_ms;
};

/* The op is woken when its lock's release is heard of, or may have been missed. False: no memory.
 */
bool hf__channel_join(struct redis *redis, struct hf_op *op);
/* No longer that, but it still waits. */
void hf__channel_quit(struct hf_op *op);
/* Is the server known to tell us? */
bool hf__channel_sure(const struct hf_op *op);
void hf__channels_open(struct redis *redis);
void hf__channels_close(struct redis *redis);

/* The op's place among those who wait, made if there is none. NULL: no memory. */
struct waiter *hf__waiter_of(struct redis *redis, struct hf_op *op);
/* It does not wait any more, for anything. */
void hf__waiter_leave(struct hf_op *op);

void hf__listening_say(struct redis *redis, const char *word, const char *channel, size_t length);

/* ---- inbox.c: hearing of grants ---- */

#define REDIS_INBOX_BUCKETS 256u
#define REDIS_INBOX_PREFIX "holdfast:"

struct inbox {
    char channel[sizeof REDIS_INBOX_PREFIX + 36];
    bool wanted;                                 /* somebody has waited */
    bool confirmed;                              /* the server tells us */
    struct hf_link waiters[REDIS_INBOX_BUCKETS]; /* by the number of the claim */
};

void hf__inbox_init(struct redis *redis);
/* The op may be granted its lock from now on. */
void hf__inbox_join(struct redis *redis, struct hf_op *op);
/* The listening connection is ready; is lost; the server says that it tells us; has told us. */
void hf__inbox_ready(struct redis *redis);
void hf__inbox_lost(struct redis *redis);
void hf__inbox_confirmed(struct redis *redis);
void hf__inbox_heard(struct redis *redis, const char *message);

/* ---- pulse.c: is the listening connection alive, and how late may be what comes on it? ---- */

struct pulse {
    struct hf_timer timer;
    int64_t asked_at_ms; /* the question that is out, or -1 */
    int64_t heard_at_ms; /* anything */
    /* What is heard now, the server has said after this moment: the last question answered left
     * then. */
    int64_t not_before_ms;
};

void hf__pulse_init(struct redis *redis);
void hf__pulse_begin(struct redis *redis);
void hf__pulse_end(struct redis *redis);
void hf__pulse_heard(struct redis *redis);
void hf__pulse_answered(struct redis *redis);
/* Somebody begins to wait: what is heard from now on should not be of long ago. */
void hf__pulse_hurry(struct redis *redis);

/* ---- redis.c, question.c ---- */

struct redis {
    struct hf_engine base;
    struct redis_settings settings;
    struct quorum *quorum; /* NULL: it decides alone */
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
    struct connection asking, listening, syncing;
    struct hf_link free_questions; /* the front's */
    struct pulse pulse;
    struct channel *channels[REDIS_CHANNEL_BUCKETS];
    struct hf_link waiters, free_waiters;
    struct inbox inbox;
    /* The front's: renewals that are asked for and not answered; those that are to be asked for;
     * listings of everything that are under way. */
    struct hf_link renewals, gathering, listings;
    struct hf_task send_renewals;
    struct hf_timer renewals_due; /* until then, what has been gathered waits for company */
    unsigned renewals_out, renewals_out_most, renewals_full;
    char refusal[400];
    /* Questions of this turn, which are asked together when it ends. */
    struct hf_link giving, taking;
    struct hf_task ask_together;
    /* Granted questions of which the replicas are to be asked; of which they are being asked. */
    struct hf_link sync_gathering, sync_asked;
    struct hf_task sync_begin;
};

/* What an op remembers. engine_word[0] is its claim's number, engine_pointer its waiter (or
 * NULL), engine_word[1] an OR of these. */
#define REDIS_HOLDS 1u  /* the server has granted it */
#define REDIS_UNSURE 2u /* a question had no answer: the server may have granted it */
#define REDIS_RENEWING 4u
#define REDIS_QUEUED 8u     /* the server keeps a place for it, or has done so */
#define REDIS_CONTENDED 16u /* it had to wait */
#define REDIS_LISTENS 32u   /* it can be told of a grant, as of its last question */

/* The field by which an op is known at the server. */
void hf__redis_field(const struct redis *redis, const struct hf_op *op,
                     char field[REDIS_FIELD_SIZE]);
void hf__redis_add_field(const struct redis *redis, struct command *command,
                         const struct hf_op *op);
/* What the lease of its next grant is. */
int64_t hf__redis_lease_ms(const struct redis *redis, const struct hf_op *op);
/* 0: it takes no place in a queue, 1: it does if it is refused, 2: it may have one already. Who
 * cannot be told of a grant takes none: it would be passed over. */
unsigned hf__redis_waits(const struct hf_op *op);

/* A client of one server, or, with a front, of one node. NULL: out of memory. */
struct redis *hf__redis_new(const struct hf_host *host, const struct redis_settings *settings,
                            struct redis *front);
/* Ends what it has open; its memory is the caller's. */
void hf__redis_disconnect(struct redis *redis);
/* Asks the server, or in a cluster the one that has what is called so. NULL: any. */
void hf__redis_ask(struct redis *redis, struct question *question, const char *name, size_t length);

/* NULL: out of memory. */
struct question *hf__question_new(struct redis *redis);
void hf__question_free(struct redis *redis, struct question *question);
/* For `answered`: whatever the answer is, the question has done what it could. */
void hf__question_ignored(struct connection *connection, struct question *question,
                          const redisReply *reply);
/* Sets *error for a reply that is missing, an error, or nonsense, and says what it means: an
 * hf_code. `definite`: the server has done nothing, and will not. */
int hf__question_failed(const struct connection *connection, const struct question *question,
                        const redisReply *reply, hf_error **error, bool *definite);

/* together.c: like hf__connection_ask on `asking`, at the end of the turn; `many` may be NULL. */
void hf__together_ask(struct redis *redis, struct question *question,
                      const struct redis_many *many);
/* What has been asked so far goes before what is asked next. */
void hf__together_flush(struct redis *redis);
void hf__together_open(struct redis *redis);
void hf__together_close(struct redis *redis);
/* ask.c: before a question is written, alone or together with others. */
void hf__attempt_leaves(struct connection *connection, struct question *question);
void hf__release_leaves(struct connection *connection, struct question *question);

void hf__redis_attempt(struct hf_engine *engine, struct hf_op *op);
void hf__redis_release(struct hf_engine *engine, struct hf_op *op);
/* An attempt that is out is given back behind it, should nobody be there to hear its answer. */
void hf__redis_dismiss(struct redis *redis, struct hf_op *op);
/* sync.c: a granted question is kept until the replicas have been asked, and handed back. If they
 * have not got it, op->error says so. */
void hf__sync_wait(struct redis *redis, struct question *question);
void hf__attempt_confirmed(struct redis *redis, struct question *question, bool enough);
void hf__sync_open(struct redis *redis);
void hf__sync_close(struct redis *redis);
void hf__redis_renew(struct hf_engine *engine, struct hf_lease *lease);
bool hf__redis_set_aside(struct hf_engine *engine, struct hf_op *op);
void hf__renewals_open(struct redis *redis);
void hf__renewals_close(struct redis *redis);
void hf__renewals_forget(struct redis *redis, struct hf_op *op);
/* ballot.c: one server's word on a lease, and the least that its token may be. */
void hf__vote_renewed(struct hf_op *op, int64_t asked_at_ms, bool still_ours);
uint64_t hf__vote_least_token(const struct hf_op *op);
void hf__redis_change(struct hf_engine *engine, struct hf_change *change);
void hf__redis_inspect(struct hf_engine *engine, struct hf_query *query);
void hf__redis_examine(struct hf_engine *engine, struct hf_examination *examination);
/* quorum_examine.c: one server's remark. */
void hf__quorum_remark(struct hf_examination *part, const hf_remark *remark);
void hf__inspect_close(struct redis *redis);

#endif
