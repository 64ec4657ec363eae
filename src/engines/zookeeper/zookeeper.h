/* SPDX-License-Identifier: Apache-2.0 */
/* The engine `zk:` from the inside: one connection at a time, the session that lives on it, and the
 * places of our claims in their queues. Everything here runs on the loop. */
#ifndef HF_ENGINES_ZOOKEEPER_H
#define HF_ENGINES_ZOOKEEPER_H

#include "engines/zookeeper/queue/node_names.h"
#include "engines/zookeeper/session/session_proof.h"
#include "engines/zookeeper/wire/codec.h"

#include "base/list.h"
#include "base/loop.h"
#include "base/testing.h"
#include "base/url.h"
#include "core/engine.h"
#include "engines/common/endpoints.h"
#include "engines/common/own_end.h"
#include "engines/common/peer.h"
#include "engines/common/pipeline.h"

#include <stdlib.h>

#define ZK_WATCH_BUCKETS 1024u
struct zookeeper;
struct zk_client;
struct zk_request;
struct zk_traffic;
struct zk_queue_node;
struct zk_permits;

typedef void zk_answered(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply);

extern const struct hf_engine_ops hf__zookeeper;

/* What a client may have, which a test may lower before it opens one. */
struct zk_bounds {
    /* Bytes: the server writes the paths of all that ends with a session into one record, and
     * cannot read one back that is larger than a MiB or so. */
    size_t paths;
    unsigned nodes;    /* that an inspection of everything looks at */
    unsigned sessions; /* fewer than a server lets in from one address, unless it was told to */
    int64_t idle_ms;   /* a session that is not the first ends after that, or twice that */
};

extern HF_TUNABLE struct zk_bounds hf__zk_bounds;

/* ---- url.c: what the URL says ---- */

struct zk_settings {
    struct hf_endpoints servers;
    char root[HF_URL_MAX]; /* in front of every path; "" or "/some/where" */
    int64_t timeout_ms;    /* how long a server may take to let us in */
    uint32_t kazoo;        /* kazoo's names instead of Curator's */
    uint32_t persistent;   /* parents that stay */
    uint32_t auth;         /* how the user is shown: there is one way */
};

/* Close settings->servers afterwards, also after a failure. */
int hf__zk_settings(struct zk_settings *settings, struct hf_url *url, hf_error *error);

/* ---- session.c ---- */

enum zk_session_state {
    ZK_SESSION_NEW,    /* no server has heard of it */
    ZK_SESSION_ALIVE,  /* as far as we know */
    ZK_SESSION_ENDING, /* it is being ended, and nothing rests on it any more */
    ZK_SESSION_OVER    /* nothing of it is left at the servers */
};

struct zk_session {
    struct hf_lease lease;
    struct zk_session_proof contacts;
    enum zk_session_state state;
    int64_t id;
    int64_t last_zxid;  /* the newest state that it was shown */
    int32_t timeout_ms; /* the shortest that a server has settled */
    char password[ZK_PASSWORD_SIZE];
    size_t paths; /* bytes of the paths that may be made under it */
    bool stuck;   /* the servers refuse to delete a node of it: it gets no later claim */
    unsigned uses;
};

static inline struct zk_session *hf__zk_session_use(struct zk_session *session)
{
    session->uses++;
    return session;
}

static inline void hf__zk_session_drop(struct zk_session *session)
{
    if (session && --session->uses == 0)
        free(session);
}

/* How long a session is asked for; the servers may settle less, or more. */
int32_t hf__zk_session_asks_ms(const struct zookeeper *zk);
/* The session that something new may rest on. NULL: out of memory. */
struct zk_session *hf__zk_session_current(struct zookeeper *zk);
/* A request under it, with this argument. NULL: out of memory. */
struct zk_request *hf__zk_session_request(struct zookeeper *zk, int32_t operation,
                                          zk_answered *answered, void *arg);
bool hf__zk_session_has_room(const struct zk_session *session, size_t weight);
/* A node of it goes with it only: it ends as soon as no lock that is held rests on it. Claims that
 * wait there begin anew. */
void hf__zk_session_is_stuck(struct zookeeper *zk, struct zk_session *session);
/* A claim rests on the current one no more. */
void hf__zk_session_left(struct zookeeper *zk);
void hf__zk_session_retire_fired(struct hf_timer *timer);
/* The one that the next connection is for, or NULL. */
struct zk_session *hf__zk_session_wanted(struct zookeeper *zk);
/* Ends the current one if its lease was lost; what rests on it is lost, and goes. */
void hf__zk_session_look(struct zookeeper *zk);
void hf__zk_session_welcomed(struct zookeeper *zk, struct zk_session *session,
                             const struct zk_welcome *welcome, int64_t asked_at_ms);
/* Most servers have agreed to a message of ours that left then. */
void hf__zk_session_confirm(struct zookeeper *zk, struct zk_session *session, int64_t asked_at_ms);
void hf__zk_session_over(struct zookeeper *zk, struct zk_session *session);
void hf__zk_renew(struct hf_engine *engine, struct hf_lease *lease);

/* ---- connection.h: requests, and the connection that carries them ---- */

struct zk_request {
    struct hf_pipeline_item item; /* comes first */
    struct zk_session *session;   /* counted; the only one under which it may be sent */
    int32_t operation, xid;
    struct zk_writer body;
    /* Exactly once; asking it again from inside is fine. `reply` NULL: there is none;
     * zk->peer.why says why, and item.sent whether a server may have heard of it, unless the
     * session is over. */
    void (*answered)(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply);
    union {
        struct zk_queue_node *place; /* counted, if there is `drop_place` */
        struct hf_oneshot *change;
        void *arg;
    };
    void (*drop_place)(struct zk_queue_node *place); /* NULL: it is for none */
};

/* What a question is answered is of no use to any caller. */
void hf__zk_ignore_reply(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply);
/* NULL: out of memory. */
struct zk_request *hf__zk_request(struct zookeeper *zk, struct zk_session *session,
                                  int32_t operation, zk_answered *answered);
/* For the same asker, under the same session: what is asked together is answered together, in that
 * order, also if the session comes to its end just then. NULL: out of memory, or `other` was. */
struct zk_request *hf__zk_request_beside(struct zookeeper *zk, const struct zk_request *other,
                                         int32_t operation, zk_answered *answered);
/* A write that changes nothing, asked before a read: the read sees all that was changed before. A
 * `sync` promises that, and the leader breaks it: it answers before it has applied what the servers
 * that follow it have applied already (3.8, 3.9). Needs most servers. NULL: out of memory, or
 * `session` was. */
struct zk_request *hf__zk_barrier(struct zookeeper *zk, struct zk_session *session);
void hf__zk_ask(struct zookeeper *zk, struct zk_request *request);
/* Answers what waits for a session that is over. */
void hf__zk_orphans(struct zookeeper *zk);
/* Says that this session is at its end, if the connection is its own. */
void hf__zk_close_session(struct zookeeper *zk);
/* Queues what was written, and empties the writer. */
void hf__zk_connection_write(struct zookeeper *zk, struct zk_writer *writer);
void hf__zk_connection_want(struct zookeeper *zk);
void hf__zk_connection_heartbeat(struct zookeeper *zk);
void hf__zk_connection_open(struct zookeeper *zk, const struct zk_traffic *traffic);
/* Calls traffic->closed in the end. */
void hf__zk_connection_close(struct zookeeper *zk);
/* Nothing of it is left afterwards, requests included. */
void hf__zk_connection_end(struct zookeeper *zk);
/* What an answer that is missing, or an error, means: an hf_code. Sets *error. */
int hf__zk_explain(struct zookeeper *zk, const struct zk_request *request,
                   const struct zk_reply *reply, hf_error **error);
/* What a server's error means, and what to do about it. */
struct zk_meaning {
    int code;
    const char *what, *cure;
};

const struct zk_meaning *hf__zk_meaning(int error);
/* A definite no, which will be the same the next time. */
bool hf__zk_is_refusal(const struct zk_reply *reply);

/* ---- queue_node.c: a claim's node ---- */

/* What goes on after a part of a claim's life that lock.c has left to another file. */
enum zk_next {
    ZK_NEXT_BEGIN,     /* the attempt, from its beginning */
    ZK_NEXT_LINE_UP,   /* the node is looked for, or made */
    ZK_NEXT_MAKE,      /* the node is made */
    ZK_NEXT_MAKE_ANEW, /* there was one, which is there no more */
    ZK_NEXT_LIST,      /* the queue is listed */
    ZK_NEXT_GRANT,
    ZK_NEXT_RELEASE
};

struct zk_queue_node {
    struct hf_link link;       /* in zk->places */
    struct hf_link watch_link; /* in the bucket of what it watches, or in zk->unwatched */
    struct hf_link path_link; /* in zk->paths, while what happens to watched_path wakes the claim */
    const char *watched_path;
    struct hf_op *op; /* NULL: the claim is over, but requests are out */
    void (*next)(struct zookeeper *zk, struct zk_queue_node *place,
                 enum zk_next next); /* lock.c's */
    struct zk_permits *permits;      /* NULL: it is for no semaphore */
    unsigned uses;
    struct zk_session *session; /* the node's; counted */
    struct zk_session *earlier; /* the one before, or NULL; counted */
    char *path;                 /* the lock's */
    char stem[ZK_NODE_SIZE];    /* by which the node is found, should its number be unknown */
    char node[ZK_NODE_SIZE];    /* "": there is none */
    char second[ZK_NODE_SIZE];  /* a reader's node that is taking a writer's place, or "" */
    char watched[ZK_CHILD_SIZE];
    int64_t number;
    int64_t token;         /* of `node`, or of a claim's newest permit; 0: not known */
    int create_error;      /* of the last question for a node; 0: none */
    int parent_error;      /* of those for the nodes above it */
    unsigned tries;        /* in this attempt */
    size_t weight;         /* among the session's paths, until nothing of it is there */
    struct hf_known known; /* of all its nodes; a place is a node, HF_KNOWN_MAY_HAVE one without a
                              name yet */
    bool missing;          /* a node of it was not there any more when it was given back */
    bool leaving;          /* it is being given back */
    bool held;             /* it was granted, and its loss has not been told */
    struct hf_known second_known; /* of the node `second` */
    bool over;        /* its own lease has ended: a node that it gets after that goes at once */
    bool left_behind; /* the servers refuse to delete it: it stays for its session */
    enum hf_verdict verdict; /* what is answered when the node has been withdrawn */
    struct hf_own_end end;   /* where the claim asks for one; `link` is in zk->leased */
};

static inline bool hf__zk_may_have_node(const struct zk_queue_node *place)
{
    return place->known.now & HF_KNOWN_MAY_HAVE;
}

/* NULL: out of memory. */
struct zk_queue_node *hf__zk_queue_node_new(const struct zk_settings *settings, struct hf_op *op);
/* NULL: out of memory. */
struct zk_request *hf__zk_queue_node_request(struct zookeeper *zk, struct zk_queue_node *place,
                                             int32_t operation, zk_answered *answered);
/* The place is this one's from now on. */
void hf__zk_queue_node_join(struct zookeeper *zk, struct zk_queue_node *place);
/* Nothing of it is at the servers, nor will be. */
bool hf__zk_queue_node_is_loose(const struct zk_queue_node *place);
/* One use less. */
void hf__zk_queue_node_drop(struct zk_queue_node *place);
/* It was held, and is no more. */
void hf__zk_queue_node_lost(struct zk_queue_node *place);
/* The claim has nothing to do with it any more. */
void hf__zk_queue_node_leave(struct zk_queue_node *place);
/* The same, though its node stays at the servers, and counts, until its session is over. */
void hf__zk_queue_node_leave_behind(struct zk_queue_node *place);
void hf__zk_queue_nodes_over(struct zookeeper *zk, const struct zk_session *session);
/* Nothing happens to any of them by itself any more. */
void hf__zk_queue_nodes_close(struct zookeeper *zk);
/* The place is under this session from now on, and counts there; under another one than before, it
 * begins anew. False: that one has no room for it. */
bool hf__zk_queue_node_begin(struct zookeeper *zk, struct zk_queue_node *place,
                             struct zk_session *session);
/* The nodes of a claim. An election has those of Curator's LeaderLatch; kazoo's is a lock. */
enum zk_family hf__zk_family(const struct zookeeper *zk, const struct hf_op *op);
/* Gives its next node a name that no node has had. */
void hf__zk_queue_node_name(struct zookeeper *zk, struct zk_queue_node *place);
/* `token` 0: neither its number of creation is known, nor which session has made it. Such a node is
 * asked about before it is granted anything. */
void hf__zk_queue_node_set_name(struct zk_queue_node *place, const char *name, size_t length,
                                int64_t token);
/* There is no node, and none is asked for. */
void hf__zk_queue_node_clear_name(struct zk_queue_node *place);
/* May something be left of it under the session before? */
bool hf__zk_queue_node_has_past(const struct zk_queue_node *place);
/* What a server says that it has made. */
void hf__zk_queue_node_made(struct zk_queue_node *place, struct zk_reader *body);
/* What we write into our nodes. */
void hf__zk_describe(const struct zookeeper *zk, const struct hf_op *op, int64_t lease_ms,
                     char *text, size_t size);
/* A hold of several permits has as many nodes, and each a name, for which there may be need of
 * `name`. */
uint32_t hf__zk_queue_node_count(const struct zk_queue_node *place);
const char *hf__zk_queue_node_at(const struct zk_queue_node *place, uint32_t index,
                                 char name[ZK_NODE_SIZE]);
/* It watches nothing any more. */
void hf__zk_queue_node_unwatch(struct zk_queue_node *place);
/* Its nodes go, though no caller waits for that. */
void hf__zk_delete_quietly(struct zookeeper *zk, struct zk_queue_node *place);

/* ---- parent_nodes.c ---- */

/* Asks for every node above the last one of the path, and for that, too, if `itself`. False: out of
 * memory, as `create` was (NULL), and not all of them were asked for. */
bool hf__zk_ask_for_parents(struct zookeeper *zk, char *path, bool itself,
                            struct zk_request *(*create)(struct zookeeper *zk, void *arg,
                                                         int32_t operation),
                            void *arg);
/* Those of a place, and its queue's own node. */
bool hf__zk_ask_for_parents_of(struct zookeeper *zk, struct zk_queue_node *place);
void hf__zk_parent_answered(struct zookeeper *zk, const struct zk_reply *reply);
/* Why there is none, after this answer and the ones before it; ZK_OK if nothing speaks against it.
 */
int hf__zk_parent_error(int before, const struct zk_reply *reply);

/* ---- watch.c ---- */

void hf__zk_watch_add(struct zookeeper *zk, struct zk_queue_node *place, const char *child);
/* Its data, and a semaphore's leases: the server has been told. The path outlives the watch. */
void hf__zk_watch_path(struct zookeeper *zk, struct zk_queue_node *place, const char *path);
void hf__zk_watch_event(struct zookeeper *zk, const struct zk_event *event);
/* Tells a server that has not heard of it everything that is watched. */
void hf__zk_watch_again(struct zookeeper *zk, struct zk_writer *writer);
/* Watches what is held, if it is held for longer than a moment, so that a break is heard of. */
void hf__zk_watch_own(struct zookeeper *zk, struct zk_queue_node *place);
void hf__zk_watch_open(struct zookeeper *zk);
void hf__zk_watch_close(struct zookeeper *zk);

/* ---- lock.c: the life of a claim ---- */

/* Parents come and go, and so may our node; somewhere it has to end. */
#define ZK_TRIES_MAX 8u

void hf__zk_attempt(struct zookeeper *zk, struct zk_queue_node *place);
void hf__zk_release(struct zookeeper *zk, struct hf_op *op);

/* ---- verdict.c ---- */

/* Asks about `child` below the place's path, or about that itself (NULL). False: out of memory, and
 * the claim's question has ended with that. So it is with a barrier for it. */
bool hf__zk_ask_about(struct zookeeper *zk, struct zk_queue_node *place, int32_t operation,
                      const char *child, bool watch, zk_answered *answered);
bool hf__zk_ask_for_barrier(struct zookeeper *zk, struct zk_queue_node *place);
/* False: the claim has left, or its attempt has ended with this reply. */
bool hf__zk_goes_on(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply);
/* What ends it. */
void hf__zk_finish(struct zookeeper *zk, struct zk_queue_node *place, enum hf_verdict verdict);
void hf__zk_fail(struct zookeeper *zk, struct zk_queue_node *place,
                 const struct zk_request *request, const struct zk_reply *reply);
/* The servers refuse to delete what it has, or to show it: the claim is over all the same. */
void hf__zk_fail_with_leftover(struct zookeeper *zk, struct zk_queue_node *place,
                               const struct zk_reply *reply);
void hf__zk_no_memory(struct zookeeper *zk, struct zk_queue_node *place);
/* What a server says that is none of ZooKeeper's proves nothing. */
void hf__zk_protocol_error(struct zookeeper *zk, struct zk_queue_node *place);
void hf__zk_wrong_kind(struct zookeeper *zk, struct zk_queue_node *place);
/* Deletes the node, if there is one, and answers then. */
void hf__zk_withdraw(struct zookeeper *zk, struct zk_queue_node *place, enum hf_verdict verdict);
/* What ends a release. */
void hf__zk_gone(struct zookeeper *zk, struct hf_op *op, bool lost);
/* Nothing of the claim is at the servers any more: what the table makes of that. */
void hf__zk_gone_with_session(struct zookeeper *zk, struct zk_queue_node *place);
void hf__zk_no_reply(struct zookeeper *zk, struct zk_queue_node *place,
                     const struct zk_request *request, const struct zk_reply *reply);
enum hf_known_verdict hf__zk_judge_reply(struct zk_queue_node *place,
                                         const struct zk_request *request, enum hf_asked asked,
                                         enum hf_word word);

/* ---- front.c ---- */

/* A bare try: is any claim in the queue? */
void hf__zk_look_first(struct zookeeper *zk, struct zk_queue_node *place);
void hf__zk_wait_behind(struct zookeeper *zk, struct zk_queue_node *place,
                        const struct zk_child *child);

/* ---- lower.c ---- */

/* False: it cannot be, and that has been answered. */
bool hf__zk_can_lower(struct zookeeper *zk, struct zk_queue_node *place);
void hf__zk_lower(struct zookeeper *zk, struct zk_queue_node *place);
/* The second node is the claim's only one. */
void hf__zk_take_second(struct zk_queue_node *place);

/* ---- change.c, forget.c, inspect.c ---- */

void hf__zk_change(struct zookeeper *zk, struct hf_oneshot *change);
void hf__zk_forget(struct zookeeper *zk, struct hf_oneshot *change);
void hf__zk_inspect(struct zookeeper *zk, struct hf_oneshot *query);

/* One session of a client at a time, and its connection. */
struct zookeeper {
    struct hf_engine base;
    struct hf_link link; /* in client->members, or client->leaving */
    struct zk_client *client;
    const struct zk_settings *settings;
    bool idle;                  /* when it was looked at, nothing rested on it */
    struct zk_session *session; /* the current one, or NULL */
    struct zk_session *ending;  /* the one before it, or NULL */
    bool plain_parents;         /* the server knows no containers */
    char *absent; /* the highest path that forgetting has last found missing, or NULL; owned */

    const struct zk_traffic *traffic;
    struct hf_peer peer;
    struct hf_pipeline pipeline; /* waiting: for the connection, or for their session */
    struct hf_free_list free_requests;
    struct zk_session *greeted; /* whose connection it is; counted */
    struct zk_frames frames;
    struct zk_writer out_bytes;
    struct hf_link orphans; /* of sessions that are over */
    struct hf_task answer_orphans;
    struct hf_timer tick;    /* heartbeat.c */
    struct hf_timer retire;  /* of a session that is stuck */
    struct hf_timer goodbye; /* while it closes: the longest wait for a server's last reply */
    int32_t last_xid;
    int64_t hello_at_ms, beat_at_ms;
    bool beating, closing;

    struct hf_link places, unwatched, leased, surveys, examiners;
    struct hf_link paths;     /* that are watched: by heads of semaphores' queues, and at latches */
    struct hf_link totals;    /* that are being set */
    struct hf_link countings; /* changes of latches */
    struct hf_timer watch_later;
    struct hf_link watches[ZK_WATCH_BUCKETS];
};

static inline struct hf_loop *hf__zk_loop(const struct zookeeper *zk)
{
    return zk->base.host->loop;
}

/* Whose place it is. */
static inline struct zookeeper *hf__zk_of(const struct zk_queue_node *place)
{
    return (struct zookeeper *)place->end.lease.engine;
}

static inline int64_t hf__zk_now(const struct zookeeper *zk)
{
    return hf__loop_now(hf__zk_loop(zk));
}

#endif
