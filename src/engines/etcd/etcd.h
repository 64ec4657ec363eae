/* SPDX-License-Identifier: Apache-2.0 */
/* The engine `etcd:` from the inside: one connection, the session (a lease with its heartbeats)
 * that keys rest on, and the keys of our claims in their queues. Everything here runs on the loop.
 */
#ifndef HF_ENGINES_ETCD_H
#define HF_ENGINES_ETCD_H

#include "engines/common/endpoints.h"
#include "engines/common/own_end.h"
#include "engines/common/peer.h"
#include "engines/etcd/show/note.h"
#include "engines/etcd/wire/messages.h"

#include "base/list.h"
#include "base/testing.h"
#include "base/url.h"
#include "core/engine.h"
#include "net/grpc.h"

#define ETCD_WATCH_BUCKETS 256u
#define ETCD_KEY_BUCKETS 4096u
/* Calls at a time without which there is no lock: heartbeats, watches, and a request. */
#define ETCD_STREAMS_MIN 3u
#define ETCD_STREAMS_OPTION "--max-concurrent-streams"
/* Moves of a key to another lease whose replies are missing: their leases are revoked. */
#define ETCD_STRAYS_MAX 3u
/* Room for any key: the root, a name, and what follows. */
#define ETCD_KEY_SIZE (HF_URL_MAX + HF_NAME_MAX + 64)

struct etcd;
struct etcd_change;
struct etcd_claim;
struct etcd_layout;
struct etcd_request;
struct etcd_session;
struct etcd_watch;

extern const struct hf_engine_ops hf__etcd;

/* ---- url.c: what the URL says ---- */

struct etcd_settings {
    struct hf_endpoints servers;
    char root[HF_URL_MAX]; /* in front of every name; "" or "some/where/" */
    int64_t timeout_ms;    /* how long a server may be silent */
};

int hf__etcd_settings(struct etcd_settings *settings, struct hf_url *url, hf_error *error);

/* ---- request.c: unary calls, which wait for a connection ---- */

struct etcd_method {
    const char *path;
    const ProtobufCMessageDescriptor *reply;
    bool needs_no_leader;
};

extern const struct etcd_method hf__etcd_range, hf__etcd_txn, hf__etcd_lease_grant,
    hf__etcd_lease_revoke, hf__etcd_status;

/* What has become of a request (status.c). Only what is known to mean so is a refusal. */
enum etcd_word {
    ETCD_DONE,      /* executed: `message` is there */
    ETCD_REFUSED,   /* not executed, nor would be another time */
    ETCD_BUSY,      /* not executed: too much to do just now */
    ETCD_ELSEWHERE, /* not executed, by this member */
    ETCD_TOKEN,     /* not executed, for want of a token that is valid */
    ETCD_FULL,      /* refused; it was executed, or never will be */
    ETCD_OPEN,      /* an error, or no reply: it was executed, or not, or will be */
    ETCD_UNSENT     /* no server has processed it */
};

struct etcd_reply {
    enum etcd_word word;
    int status;     /* a hf_grpc_status */
    bool by_server; /* `status` and `text` are the server's, not ours */
    const char *text;
    const void *message; /* of the method's type; lives until `answered` returns; else NULL */
};

static inline bool hf__etcd_is_definite(const struct etcd_reply *reply)
{
    return reply->word < ETCD_OPEN;
}

/* It was executed, or may be. */
static inline bool hf__etcd_leaves_open(const struct etcd_reply *reply)
{
    return reply->word == ETCD_FULL || reply->word == ETCD_OPEN;
}

/* Exactly once for each request; asking another one from inside is fine. */
typedef void etcd_answered(struct etcd *etcd, struct etcd_request *request,
                           const struct etcd_reply *reply);

/* What has become of a key that was to move to a lease of its own (own_lease.c). `reply`: what has
 * failed, or NULL. The claim may be over. */
enum etcd_move { ETCD_MOVED, ETCD_MOVE_LOST, ETCD_MOVE_NO_MEMORY, ETCD_MOVE_FAILED };
typedef void etcd_moved(struct etcd *etcd, struct etcd_claim *claim, enum etcd_move move,
                        const struct etcd_reply *reply);

struct etcd_request {
    struct hf_grpc_call call;
    struct hf_link link; /* waiting, out, done, or free */
    struct etcd *etcd;
    const struct etcd_method *method;
    etcd_answered *answered; /* NULL: it has answered, and is about to end */
    etcd_moved *moved;       /* of own_lease.c */
    union {
        struct etcd_claim *claim;     /* counted */
        struct etcd_session *session; /* counted */
        struct hf_oneshot *oneshot;
        void *arg;
    };
    void (*drop)(void *arg); /* what `arg` is counted by; NULL: it is not */
    bool is_out;             /* counted in etcd->out_count */
    unsigned refused;        /* how often, before anything was done for it */
    unsigned pauses;         /* so far */
    unsigned token;          /* the number of the one that it was sent with */
    int64_t pause_ms;        /* before it is sent; 0: none */
    struct hf_timer pause;
    int64_t limit_ms; /* for its reply; 0: none but the connection's */
    int64_t sent_at_ms;
    uint8_t *body;
    size_t length, room;
    bool unpacked; /* there was no memory for the body */
};

/* NULL: out of memory. */
struct etcd_request *hf__etcd_request(struct etcd *etcd, const struct etcd_method *method,
                                      etcd_answered *answered);
/* Sends the message, or keeps it until there is a connection, and room for it there. A server that
 * has too much to do is asked again after pauses. */
void hf__etcd_ask(struct etcd *etcd, struct etcd_request *request, const ProtobufCMessage *message);
/* What the reply is, is of no use. */
void hf__etcd_ignore_reply(struct etcd *etcd, struct etcd_request *request,
                           const struct etcd_reply *reply);
void hf__etcd_requests_open(struct etcd *etcd);
void hf__etcd_requests_free(struct etcd *etcd);
/* There is a connection. */
void hf__etcd_send_waiting(struct etcd *etcd);
/* What was sent has no reply; and what waits, if `all`. */
void hf__etcd_leave_unanswered(struct etcd *etcd, bool all);
/* Calls that have been answered do not wait for their end any more. */
void hf__etcd_drop_done(struct etcd *etcd);

/* ---- status.c: what a reply means that is not the hoped-for one ---- */

/* What a call that has ended says. */
struct etcd_reply hf__etcd_reply_of(const struct hf_grpc_call *call);
/* An hf_code, with the sentence in *error. */
int hf__etcd_explain(struct etcd *etcd, const struct etcd_reply *reply, hf_error **error);
/* The server does not know the lease. */
bool hf__etcd_is_lease_gone(const struct etcd_reply *reply);

/* ---- connection.c ---- */

/* What it carries, for all parts that use it (engine.c). */
struct etcd_traffic {
    void (*begins)(struct etcd *etcd); /* there is a connection */
    void (*has_new_token)(struct etcd *etcd);
    void (*ends)(struct etcd *etcd);                       /* with the connection */
    void (*leave_unanswered)(struct etcd *etcd, bool all); /* likewise, after that */
    bool (*is_wanted)(const struct etcd *etcd);
    bool (*needs_streams)(const struct etcd *etcd); /* beats, watches, or what needs them */
    int64_t (*oldest)(struct etcd *etcd);           /* when the oldest without a reply has left */
};

void hf__etcd_connection_open(struct etcd *etcd, const struct etcd_traffic *traffic);
void hf__etcd_connection_close(struct etcd *etcd);
/* A server that knows no leader refuses it at once, if it needs one. False: out of memory, or the
 * server takes no calls; the connection is broken then. */
bool hf__etcd_begin_call(struct etcd *etcd, struct hf_grpc_call *call, const char *path,
                         int64_t limit_ms, bool needs_leader);
/* How many calls the server serves at a time on the connection that there is. */
uint32_t hf__etcd_streams_max(const struct etcd *etcd);
/* Packs a message, and sends it. False: as above. */
bool hf__etcd_send(struct etcd *etcd, struct hf_grpc_call *call, const ProtobufCMessage *message,
                   bool last);
/* Token number `token` is not accepted any more: asks for another one at the same connection, if
 * none has come since. Until it is there no request is sent. */
void hf__etcd_renew_token(struct etcd *etcd, unsigned token);
/* The member cannot serve us: the connection breaks, and what it carried goes to another member. */
void hf__etcd_leave_member(struct etcd *etcd, const char *why);
/* A stream has ended that should not: so does the connection. */
void hf__etcd_stream_ended(struct etcd *etcd, const struct hf_grpc_call *call, const char *what);

/* ---- session.c: sessions, and their heartbeats ---- */

enum etcd_session_state {
    ETCD_SESSION_NEW,    /* no server has heard of it, as far as we know */
    ETCD_SESSION_ALIVE,  /* as far as we know */
    ETCD_SESSION_ENDING, /* it is being revoked, and nothing rests on it any more */
    ETCD_SESSION_OVER    /* nothing of it is left at the servers */
};

/* Heartbeats of one session that have no reply yet. */
#define ETCD_BEATS_MAX 8u

/* What goes on once a session is known to live, or hears why it cannot. */
struct etcd_wait {
    struct hf_link link; /* in the session's `waiting` */
    void (*go_on)(struct etcd *etcd, struct etcd_wait *wait);
    void (*fail)(struct etcd *etcd, struct etcd_wait *wait, const struct etcd_reply *reply);
};

struct etcd_session {
    struct hf_lease lease;
    struct hf_link link; /* in etcd->living, or ->endings */
    enum etcd_session_state state;
    int64_t id;             /* of the lease; ours */
    int64_t length_ms;      /* that is asked for */
    struct hf_link waiting; /* claims, or changes of values */
    struct hf_link marks;   /* that no change has */
    unsigned mark_count;
    int64_t beats[ETCD_BEATS_MAX]; /* when they left */
    unsigned beat_count;
    bool granting, revoking;
    bool asked_for; /* a grant without a reply may have made it, or may still */
    bool doubtful;  /* a request that was given up may still put a key on it, or delete one */
    bool stuck;     /* it has a key that could not be deleted */
    unsigned uses, keys, holds;
};

struct etcd_session *hf__etcd_session_use(struct etcd_session *session);
void hf__etcd_session_drop(struct etcd_session *session);
/* The session that something new may rest on. NULL: out of memory. */
struct etcd_session *hf__etcd_session_current(struct etcd *etcd);
/* The one that marks of changes rest on. NULL: out of memory. */
struct etcd_session *hf__etcd_session_of_marks(struct etcd *etcd);
bool hf__etcd_session_is_known(const struct etcd *etcd, const struct etcd_session *session);
void hf__etcd_session_await(struct etcd *etcd, struct etcd_session *session,
                            struct etcd_wait *wait);
/* Nothing rests on it any more. `over`: nor is anything of it left at the servers. */
void hf__etcd_session_lose(struct etcd *etcd, struct etcd_session *session, bool over);
/* A request that was given up may still be executed: nothing new rests on the session from now on,
 * which ends when no key does. */
void hf__etcd_session_doubt(struct etcd *etcd, struct etcd_session *session);
/* A key could not be deleted: the same, and the session ends as soon as no lock that is held rests
 * on it. Claims that wait there lose their places. */
void hf__etcd_session_is_stuck(struct etcd *etcd, struct etcd_session *session);
/* It was the key of a claim that is over. */
void hf__etcd_sessions_are_stuck(struct etcd *etcd);
/* It is not known to have ended. */
bool hf__etcd_session_lives(struct etcd *etcd, struct etcd_session *session);
void hf__etcd_session_confirm(struct etcd *etcd, struct etcd_session *session, int64_t asked_at_ms,
                              int64_t ttl_ms);
void hf__etcd_renew(struct hf_engine *engine, struct hf_lease *lease);
/* A lease in whole seconds: never less than was asked for, and as much as etcd takes at most. */
int64_t hf__etcd_ttl_of(int64_t lease_ms);
void hf__etcd_sessions_open(struct etcd *etcd);
/* A claim has no key on it any more. */
void hf__etcd_session_left(struct etcd *etcd, struct etcd_session *session);
/* Revokes what is left; etcd->goodbyes says how many replies are missing. */
void hf__etcd_sessions_close(struct etcd *etcd);
void hf__etcd_sessions_free(struct etcd *etcd);
/* What waited for the session hears why it cannot go on; NULL: for any that no grant is out
 * for. */
void hf__etcd_session_fail(struct etcd *etcd, struct etcd_session *session,
                           const struct etcd_reply *reply);

void hf__etcd_beat(struct etcd *etcd, struct etcd_session *session);
/* What rests on one is held, or it is being waited for. */
bool hf__etcd_beats_are_wanted(const struct etcd *etcd);
/* One is being made. */
bool hf__etcd_session_is_granted(const struct etcd *etcd);
/* A new connection: for those sessions. */
void hf__etcd_beat_again(struct etcd *etcd);
/* When the oldest heartbeat without a reply has left, or HF_NEVER. */
int64_t hf__etcd_oldest_beat(const struct etcd *etcd);
void hf__etcd_beats_forget(struct etcd *etcd);

/* ---- own_lease.c ---- */

/* Asks for a lease of that length, and puts the claim's key on it. */
void hf__etcd_own_lease_begin(struct etcd *etcd, struct etcd_claim *claim, int64_t lease_ms,
                              etcd_moved *moved);
/* Ends all that the claim has. */
void hf__etcd_own_lease_drop(struct etcd *etcd, struct etcd_claim *claim);
void hf__etcd_renew_own_lease(struct etcd *etcd, struct hf_oneshot *oneshot);

/* ---- claim.c: what a claim has at the servers ---- */

typedef void etcd_go_on(struct etcd *etcd, struct etcd_claim *claim);

struct etcd_claim {
    struct hf_link link; /* in etcd->claims, or spare */
    char *key;           /* "name/..."; then `blocking`, and its end, in the same memory */
    size_t key_room;
    /* What follows ends with the claim. */
    struct etcd_wait wait;        /* for its session */
    etcd_go_on *go_on;            /* of its kind */
    struct hf_link watch_link;    /* in its watch's `claims` */
    struct hf_link held_link;     /* in etcd->unwatched: held, and not watched yet */
    struct etcd_watch *watch;     /* NULL: none */
    struct hf_op *op;             /* NULL: the claim is over, but requests are out */
    struct etcd_session *session; /* the key's; counted */
    struct etcd_session *earlier; /* that of the key before, or NULL; counted */
    unsigned uses;
    struct hf_link key_link; /* in its bucket of etcd->keys, while it has a key */
    size_t key_length;       /* 0: it has none yet */
    size_t prefix_length;    /* of "name/" */
    char *blocking;          /* keys with this prefix that are older than its own are in its way */
    char *blocking_end;
    size_t blocking_length, blocking_end_length;
    char *blocker; /* one of them, which is waited for */
    size_t blocker_length, blocker_room;
    int64_t created; /* the key's revision; 0: not known */
    int64_t changed; /* that of its last change that is known */
    int64_t own_id;  /* the lease of its own that the key is on; 0: it is on the session's */
    int64_t next_id; /* the one that it is to move to */
    int64_t next_ms; /* its length */
    int64_t stray_ids[ETCD_STRAYS_MAX]; /* that earlier moves without a reply were to */
    struct hf_oneshot *renewal;         /* that is out, or NULL */
    int64_t held_at_ms;
    unsigned tries, looks;      /* in this attempt */
    struct hf_known known;      /* of its key; a place is a key that is there */
    bool rests;                 /* counted among the session's `holds` */
    bool over;                  /* its own lease has ended */
    bool has_two;               /* it began as a writer: a late request may put two keys */
    bool orphaned;              /* its key is watched in case that a late request puts it */
    enum hf_verdict verdict;    /* once its key is deleted */
    struct etcd_layout *layout; /* of a semaphore, counter or latch; else NULL */
    struct etcd_change *change; /* of a counter, while it takes; NULL: none */
    uint64_t missing;           /* permits that it waits for */
    int64_t seen;               /* the revision at which they were missing */
    struct hf_own_end end;      /* where the claim asks for one; `link` is in etcd->leased */
};

/* NULL: out of memory. */
struct etcd_claim *hf__etcd_claim_new(struct etcd *etcd, struct hf_op *op,
                                      void (*lease_is_over)(struct hf_own_end *end));
/* Likewise. The claim lives until the request has answered. */
struct etcd_request *hf__etcd_claim_request(struct etcd *etcd, struct etcd_claim *claim,
                                            const struct etcd_method *method,
                                            etcd_answered *answered);
void hf__etcd_claim_drop(struct etcd_claim *claim);
void hf__etcd_claims_free(struct etcd *etcd);
/* Gives it a key that no claim has under this session. */
bool hf__etcd_claim_name_key(struct etcd *etcd, struct etcd_claim *claim);
void hf__etcd_claim_forget_key(struct etcd_claim *claim);
/* The claim that has this key, or NULL. */
struct etcd_claim *hf__etcd_claim_find(struct etcd *etcd, struct etcd_bytes key);
/* Is that a key of the claim's kind of lock? */
bool hf__etcd_claim_is_same_kind(const struct etcd_claim *claim, const ProtobufCBinaryData *key);
bool hf__etcd_claim_is_writer(const struct etcd_claim *claim);
/* A writer's second key, which it keeps as a reader: one of a reader with the same number, put in
 * the same transaction. Returns its length. */
size_t hf__etcd_claim_reader_key(const struct etcd_claim *claim, char room[ETCD_KEY_SIZE]);
/* The other one of the two keys of a claim that is or was a writer. 0: it has one key. */
size_t hf__etcd_claim_other_key(const struct etcd_claim *claim, char room[ETCD_KEY_SIZE]);
/* It holds its session up no more. */
void hf__etcd_claim_stop_resting(struct etcd_claim *claim);
/* The hold is lost, though its session is not. */
void hf__etcd_claim_lost(struct etcd_claim *claim, const char *why);
/* It has that key now. */
void hf__etcd_claim_rename_to_reader(struct etcd *etcd, struct etcd_claim *claim);
bool hf__etcd_claim_set_blocker(struct etcd_claim *claim, const ProtobufCBinaryData *key);

static inline bool hf__etcd_holds(const struct etcd_claim *claim)
{
    return hf__known_holds(&claim->known);
}

/* A request without a reply may have put a key, or may still. */
static inline bool hf__etcd_may_have_key(const struct etcd_claim *claim)
{
    return claim->known.now & (HF_KNOWN_MAY_HAVE | HF_KNOWN_MAY_COME);
}

static inline bool hf__etcd_has_left(const struct etcd_request *request)
{
    return !request->claim->op;
}

static inline struct etcd_bytes hf__etcd_key_of(const struct etcd_claim *claim)
{
    return hf__etcd_bytes(claim->key, claim->key_length);
}

/* What a key says of its claim (note.h). Returns the length. */
size_t hf__etcd_claim_note(const struct etcd *etcd, const struct etcd_claim *claim,
                           int64_t lease_ms, char text[ETCD_NOTE_SIZE]);
/* The key, and the revision of its creation, as text. */
void hf__etcd_guard(struct etcd *etcd, struct hf_oneshot *oneshot);

/* ---- lock.c: the life of a claim ---- */

void hf__etcd_claims_close(struct etcd *etcd);
/* The claim has nothing to do with it any more. */
void hf__etcd_leave(struct etcd *etcd, struct etcd_claim *claim);

/* `kind` asks the server, as this kind of lock does, once there is a session. */
void hf__etcd_attempt(struct etcd *etcd, struct hf_op *op, etcd_go_on *kind);
/* A transaction of an attempt. NULL: out of memory, which the claim has heard. */
struct etcd_request *hf__etcd_attempt_request(struct etcd *etcd, struct etcd_claim *claim,
                                              etcd_answered *answered);
/* Sends one that may put the claim's key. */
void hf__etcd_ask_to_put(struct etcd *etcd, struct etcd_claim *claim, struct etcd_request *request,
                         const struct etcd_txn *txn);
/* False: the reply was dealt with. */
bool hf__etcd_is_reply_good(struct etcd *etcd, struct etcd_claim *claim,
                            const struct etcd_reply *reply);
/* The reply shows the claim's key. */
void hf__etcd_key_is_there(struct etcd_claim *claim, int64_t created, int64_t changed);
/* True: an earlier request that was not answered has made the key. */
bool hf__etcd_take_over_key(struct etcd_claim *claim, const etcd_key_value *own);
/* Something that it stood on is gone, its session or its key. */
void hf__etcd_begin_again(struct etcd *etcd, struct etcd_claim *claim);

/* How an attempt ends: */
void hf__etcd_fail(struct etcd *etcd, struct etcd_claim *claim, const struct etcd_reply *reply);
void hf__etcd_no_memory(struct etcd *etcd, struct etcd_claim *claim);
void hf__etcd_unreadable(struct etcd *etcd, struct etcd_claim *claim);
void hf__etcd_wrong_kind(struct etcd *etcd, struct etcd_claim *claim);
/* Deletes its key, if it has one, and finishes. HF_NO_ANSWER: and begins again. */
void hf__etcd_withdraw(struct etcd *etcd, struct etcd_claim *claim, enum hf_verdict verdict);
void hf__etcd_finish(struct etcd *etcd, struct etcd_claim *claim, enum hf_verdict verdict);
/* A bare try has put no key. */
void hf__etcd_refuse(struct etcd *etcd, struct etcd_claim *claim);
/* Refused, until something lets it in. `revision` is that of the read that has shown what is in the
 * way: where that has changed since, the claim looks again at once. */
void hf__etcd_wait(struct etcd *etcd, struct etcd_claim *claim, int64_t revision,
                   etcd_go_on *look_again);
/* The same, until this key goes or changes. */
void hf__etcd_wait_for_key(struct etcd *etcd, struct etcd_claim *claim,
                           const ProtobufCBinaryData *key, int64_t revision,
                           etcd_go_on *look_again);
/* Nothing is in its way, as a read at this revision shows. */
void hf__etcd_grant(struct etcd *etcd, struct etcd_claim *claim, int64_t revision);
/* Of a counter's units, or an open latch: its key was deleted in the transaction that shows it. */
void hf__etcd_grant_without_key(struct etcd *etcd, struct etcd_claim *claim);

void hf__etcd_release_no_memory(struct etcd *etcd, struct hf_op *op);
/* What a release has to do with the claim's key. */
void hf__etcd_release_key(struct etcd *etcd, struct hf_op *op);
/* Deletes its key, if it is the one that was put. False: out of memory. */
bool hf__etcd_ask_to_delete(struct etcd *etcd, struct etcd_claim *claim, etcd_answered *answered,
                            int64_t pause_ms);
/* Deletes its key, and no thread waits for the reply. */
void hf__etcd_delete_quietly(struct etcd *etcd, struct etcd_claim *claim);

/* ---- watch.c: one stream, one watch for each contended name, and for keys that are held ---- */

struct etcd_watch {
    struct hf_link id_link, key_link; /* in their buckets */
    struct hf_link pending_link;      /* in etcd->pending: asked for, not answered */
    struct hf_link idle_link;         /* in etcd->idle: nothing needs it */
    struct hf_link given_up_link;     /* in etcd->given_up: is asked for again */
    struct hf_link claims;
    int64_t id;
    int64_t last_change; /* the newest revision that it has told, or missed, and that may let a
                          * waiter in */
    int64_t idle_at_ms, again_at_ms;
    bool prefix;                 /* of all keys that begin with `key` */
    bool puts;                   /* it tells what is put, too */
    bool registered;             /* the server has said so */
    struct etcd_session *orphan; /* of a key that may still be put on it; counted; or NULL */
    bool came;                   /* that key has been seen, when its claim was not over yet */
    char *other;                 /* of a writer: its other key, which comes with that one */
    size_t other_length;
    bool unwanted; /* it ends once it has begun */
    size_t length;
    char key[];
};

/* The claim's wait is watched from now on: it is woken when its blocker or its own key goes, and
 * once when the watch begins. False: out of memory. `ret_registered`: it had begun before. */
bool hf__etcd_watch_wait(struct etcd *etcd, struct etcd_claim *claim, bool *ret_registered);
void hf__etcd_watch_leave(struct etcd *etcd, struct etcd_claim *claim);
/* The claim is held, as a reply of this revision shows: if it is held for longer than a moment, its
 * key is watched. */
void hf__etcd_watch_held(struct etcd *etcd, struct etcd_claim *claim, int64_t revision);
/* If this key appears, which a request without a reply may still bring about, it is deleted. */
void hf__etcd_watch_orphan(struct etcd *etcd, struct etcd_claim *claim);
void hf__etcd_watches_open(struct etcd *etcd);
void hf__etcd_watches_close(struct etcd *etcd);
/* A server that has not heard of them is told all of them. */
void hf__etcd_watch_again(struct etcd *etcd);
void hf__etcd_watches_disconnected(struct etcd *etcd);
bool hf__etcd_watches_any(const struct etcd *etcd);

/* ---- inspect.c, key_list.c ---- */

void hf__etcd_key_lists_free(struct etcd *etcd);

/* Shows what there is, or breaks a lock. */
void hf__etcd_look(struct etcd *etcd, struct hf_oneshot *oneshot);

/* ---- doctor.c ---- */

void hf__etcd_diagnose(struct etcd *etcd, struct hf_oneshot *oneshot);

/* ---- engine.c ---- */

struct etcd {
    struct hf_engine base;
    struct etcd_settings settings;
    struct hf_peer peer;
    struct hf_grpc grpc;
    const struct etcd_traffic *traffic;
    struct hf_task flush;
    struct hf_grpc_call authenticate;
    char *token;     /* of the user, for this connection; NULL: none */
    unsigned tokens; /* so far */
    char why[360];   /* of the last failure, for replies that are missing */
    int why_code;
    bool heard;        /* the server has said something on this connection */
    bool wrong_member; /* the connection ended as its member cannot serve us */
    struct etcd_arena arena;
    uint8_t *packed; /* a message of a stream */
    size_t packed_room;
    struct hf_link waiting, paused, out, done, free_requests;
    unsigned out_count;
    struct etcd_session *session; /* NULL: none yet, or the last one was lost */
    struct etcd_session *marks;   /* likewise; that of the marks of changes */
    struct hf_link living;        /* those, and doubtful ones that keys rest on */
    struct hf_link endings;       /* sessions that are being revoked */
    struct hf_timer revoke_again; /* those of them that the server would not */
    struct hf_task retire;        /* doubtful sessions that nothing needs */
    struct hf_grpc_call beats, watching;
    struct hf_link spare_claims;
    unsigned spare_claim_count;
    struct hf_link claims, leased, unwatched, given_up, changes, key_lists;
    uint64_t changed; /* changes of values so far */
    struct hf_link keys[ETCD_KEY_BUCKETS];
    uint64_t named;           /* keys so far that needed a number */
    struct hf_timer held_due; /* for the first of `unwatched` */
    struct hf_timer given_up_due;
    struct hf_link watch_ids[ETCD_WATCH_BUCKETS], watch_keys[ETCD_WATCH_BUCKETS];
    struct hf_link pending, idle;
    struct hf_timer idle_due;
    unsigned watch_count, orphan_count;
    int64_t last_watch_id;
    bool closing;
    unsigned goodbyes;
    struct hf_timer goodbye; /* how long they may take */
    void (*closed)(void *arg);
    void *closed_arg;
};

static inline struct hf_loop *hf__etcd_loop(const struct etcd *etcd)
{
    return etcd->base.host->loop;
}

static inline int64_t hf__etcd_now(const struct etcd *etcd)
{
    return hf__loop_now(etcd->base.host->loop);
}

static inline bool hf__etcd_can_send(const struct etcd *etcd)
{
    return hf__peer_is_ready(&etcd->peer) && !etcd->authenticate.channel;
}

#endif
