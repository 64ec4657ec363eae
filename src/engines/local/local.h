/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded engine's own state, and what its files offer each other. */
#ifndef HF_LOCAL_LOCAL_H
#define HF_LOCAL_LOCAL_H

#include "core/engine_sync.h"
#include "layout.h"

#include <pthread.h>

/* How long a visitor waits for a guard whose holder lives but does not move. */
#define LOCAL_PATIENCE_MS 1000

#define LOCAL_CACHE 64u
#define LOCAL_WAKES 16u
#define LOCAL_WATCHES 64u
#define LOCAL_WANTED 16u

struct local;
struct uv_poll_s;

/* A session whose process the loop watches. */
struct local_watch {
    struct local *local;
    struct uv_poll_s *poll;
    uint64_t session; /* 0: not in use */
    int fd;
};

struct local {
    struct hf_engine base;
    unsigned char *map;
    _Atomic unsigned segments; /* mapped here */
    unsigned segments_limit;   /* as far as the reserved addresses go */
    pthread_mutex_t map_mutex;
    int directory, file,
        liveness; /* descriptors; `liveness` carries the lock on the session's byte */
    uint64_t session;
    unsigned slot; /* the session's, from when its byte is locked */
    uint64_t pid_namespace;
    char path[512]; /* of the state file, for sentences */
    char directory_path[400];
    char file_name[80];
    char namespace_name[72];
    unsigned mode;
    bool shared; /* the URL says mode= */
    bool spins;  /* there is another processor on which a holder may run */

    _Atomic uint32_t cache[LOCAL_CACHE]; /* free nodes that are ours */
    _Atomic uint32_t node_hint, cell_hint;
    _Atomic unsigned nodes; /* of the file that the slot has: ours, and what no sweep could clear */

    /* wake.c */
    int sender, receiver;
    struct uv_poll_s *receiver_poll;
    struct hf_timer look_timer;
    bool looks;
    _Atomic(_Atomic(void *) *)
        waiting[LOCAL_SEGMENTS]; /* by node: its op, or a mark for a sleeper */

    /* death_watch.c */
    pthread_mutex_t watch_mutex;
    struct local_watch watches[LOCAL_WATCHES];
    uint64_t wanted[LOCAL_WANTED];
    unsigned wanted_count;
    struct hf_task watch_task;
    bool watch_posted;

    /* removed.c */
    _Atomic bool removed, removed_posted;
    _Atomic int64_t next_look_ms;
    struct hf_task removed_task;
    bool begun; /* this client has begun the file */

    /* local.c */
    unsigned handles; /* that libuv has yet to close */
    /* Loop only: frees this if it is closing, once nothing of it is with libuv or the loop. */
    void (*finish)(struct local *local);
    void (*closed)(void *arg);
    void *closed_arg;
    bool closing;
};

/* ---- open.c: the state file is opened, set up, and closed ---- */

/* Leaves the client with a slot, and segment 0 mapped. */
int hf__local_file_open(struct local *local, struct hf_url *url, hf_error *error);
void hf__local_file_close(struct local *local);

/* ---- create.c: a new file, or one of an earlier boot ---- */

int hf__local_set_up(struct local *local, hf_error *error);

/* ---- paths.c: directories and names of files ---- */

int hf__local_place(struct local *local, struct hf_url *url, hf_error *error);
/* Says that there is no such store, to a client that must not make one. */
int hf__local_missing(const struct local *local, hf_error *error);
int hf__local_errno_code(int native);

/* ---- removed.c: other programs that remove the file ---- */

#define LOCAL_REMOVED "its state file was removed"

/* Protects a directory or file against clean-up as long as the descriptor is open. */
void hf__local_keep(int descriptor);
void hf__local_removed_open(struct local *local);
/* Has the file been removed or replaced? Looks now; if so, all holds are checked. Any thread. */
bool hf__local_look_for_file(struct local *local);
/* The same, but looks once in a second at most. */
bool hf__local_is_removed(struct local *local, int64_t now_ms);
int hf__local_explain_removed(const struct local *local, hf_error **error);

/* ---- session.c: living sessions ---- */

/* Makes the slot ours, once the file is mapped. True: earlier clients of it left nothing there. */
bool hf__local_session_open(struct local *local);
/* Once nothing of ours is in the file, as far as we know. */
void hf__local_session_close(struct local *local);
bool hf__local_alive(struct local *local, uint64_t session);
/* Keeps a slot that no session has from being claimed, for a moment; false: a session has it. */
bool hf__local_session_seize(struct local *local, unsigned slot);
void hf__local_session_let_go(struct local *local, unsigned slot);
/* As far as its owner is the process of `session`: its pid here, or 0. */
int hf__local_session_pid(struct local *local, uint64_t session);

/* ---- journal.c: guards, and what is changed inside of them ---- */

static inline void hf__relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* A transaction on one lock, inside its guard. */
struct txn {
    struct local *local;
    struct local_lock *lock;
    uint32_t reference;
    int64_t now_ms;   /* 0: not read yet */
    const char *name; /* NULL: not needed yet */
    uint32_t steps;   /* taken along lists; more than there are nodes: a circle */
    bool damaged;     /* something in the file cannot be; nothing is changed any more */
    bool took_over;   /* something of a dead owner's was cleared away */
    uint64_t took_over_token;
    char name_copy[LOCAL_NAME_LONGEST + 1]; /* where `name` may point to */
    unsigned wake_count;
    uint32_t wakes[LOCAL_WAKES];
};

/* Enters a guard: HF_OK, or HF_UNREACHABLE (its holder lives and does not leave). *stolen: its
 * holder had died inside. */
int hf__local_guard(struct local *local, _Atomic uint64_t *guard, bool *stolen, hf_error **error);
/* Only if no living session is inside. */
bool hf__local_guard_try(struct local *local, _Atomic uint64_t *guard);
void hf__local_unguard(_Atomic uint64_t *guard);
/* Changes a word, undoably, until hf__txn_commit. */
void hf__txn_set(struct txn *txn, _Atomic uint64_t *word, uint64_t value);
void hf__txn_commit(struct txn *txn);
/* Takes back what has not been committed, by this process or one that was killed. */
void hf__txn_undo(struct txn *txn);

/* ---- txn.c: transactions ---- */

int64_t hf__txn_now(struct txn *txn);
/* By a lock's reference. `txn` need not be left unless the answer is HF_OK. */
int hf__txn_enter(struct txn *txn, struct local *local, uint32_t reference, hf_error **error);
/* Only if no living session is inside. */
bool hf__txn_try(struct txn *txn, struct local *local, uint32_t reference);
void hf__txn_leave(struct txn *txn);
/* Its holder is alone, whatever the lock's mode. */
static inline bool local_is_exclusive(uint64_t word)
{
    unsigned mode = local_state_mode(word);
    return mode == HF_MUTEX || mode == HF_FAIR || mode == HF_WRITE;
}

/* A look from outside: it has no holder and no waiter. */
bool hf__local_seems_free(struct local *local, const struct local_lock *lock);

/* ---- name_table.c ---- */

/* Finds and enters the lock `name`. HF_OK with txn->lock == NULL: not there, and not `create`. */
int hf__txn_name(struct txn *txn, struct local *local, const char *name, uint32_t length,
                 uint64_t hash, bool create, hf_error **error);
/* Of a lock that is not in use: its place is free for another name. */
void hf__txn_forget(struct txn *txn);
/* The bytes of a lock's name inside a transaction; NULL: damaged. */
const char *hf__txn_name_bytes(struct txn *txn, uint32_t *length);

/* ---- node_pool.c ---- */

/* A free node that is ours; NULL: HF_ELIMIT and the like in *error. */
struct local_node *hf__node_pool_take(struct local *local, hf_error **error, int *code);
void hf__node_pool_give(struct local *local, struct local_node *node);
/* The same, past our cache. */
void hf__node_pool_return(struct local *local, struct local_node *node);
/* Clears away what dead sessions left: our slot's, or everybody's (0). */
void hf__local_sweep(struct local *local, unsigned slot);

/* ---- wait_list.c: the lists of a lock; steps of a transaction ---- */

struct local_node *hf__txn_node(struct txn *txn, uint32_t reference);
void hf__wait_list_append(struct txn *txn, _Atomic uint64_t *list, struct local_node *node);
void hf__wait_list_remove(struct txn *txn, _Atomic uint64_t *list, struct local_node *node);
/* The first of a list, and the next; NULL at the end, and when the list is damaged. */
struct local_node *hf__wait_list_first(struct txn *txn, const _Atomic uint64_t *list);
struct local_node *hf__wait_list_next(struct txn *txn, const struct local_node *node);

/* ---- grant.c: what may be held together ---- */

hf_kind hf__mode_kind(hf_mode mode);
hf_kind hf__txn_kind(const struct txn *txn);
/* Something is held, waited for, or stored under this name. */
bool hf__txn_in_use(const struct txn *txn);
/* Could this be granted now, leaving aside which claim came first? */
bool hf__txn_may_grant(struct txn *txn, hf_mode mode, uint32_t permits);
/* Grants to a free or a waiting node. */
void hf__txn_grant(struct txn *txn, struct local_node *node, hf_mode mode, uint64_t deadline_ms,
                   unsigned flags);
/* Raises the UPGRADE that is held to WRITE, if it is alone. */
bool hf__txn_raise(struct txn *txn, struct local_node *node);
/* Each of these is a whole transaction. Takes a held node out of the lock; it goes on as `state`.
 */
void hf__txn_drop(struct txn *txn, struct local_node *node, enum local_state state, unsigned flags);
/* Takes a waiting node out of the queue; it goes on as `state`. */
void hf__txn_leave_queue(struct txn *txn, struct local_node *node, enum local_state state,
                         unsigned flags);
/* Lowers WRITE or UPGRADE to `mode`, and withdraws a pending upgrade. */
void hf__txn_lower(struct txn *txn, struct local_node *node, hf_mode mode);

/* Takes a parked node out of the holders. */
void hf__txn_evict(struct txn *txn, struct local_node *node);
/* From now on, every grant of any name has a larger token. */
void hf__local_raise_floor(struct local *local, uint64_t token);
/* Every client that comes brings the clock along, so that a grant needs not read it. */
void hf__local_raise_floor_to_clock(struct local *local);

/* ---- fast_path.c: locks that no other claim wants, past the guard ---- */

/* The engine's slots of the same names. */
bool hf__local_fast_acquire(struct hf_engine *engine, struct hf_op *op, uint64_t *kept);
bool hf__local_fast_release(struct hf_engine *engine, struct hf_op *op, uint64_t *kept);
bool hf__local_fast_drop(struct hf_engine *engine, uint64_t *kept);

/* ---- grant_waiters.c: what is due is given ---- */

void hf__txn_pump(struct txn *txn);
/* A mutex that its holder gives back may be taken by the first claim to come. True: a waiter has
 * been told so, now or before, or there is none. False: it is to be handed over. */
bool hf__txn_lend(struct txn *txn);
/* How long a waiter that was told may take to come. */
#define LOCAL_STALE_WAKE_MS 5
/* Before there are only `total` permits: a waiter for more loses its place, and has to ask anew.
 */
void hf__txn_turn_away(struct txn *txn, uint32_t total);

/* ---- clear_dead.c: dead holders and waiters, and what has expired, are cleared away ---- */

/* Takes a dead or detached owner's node out of the lock and frees it. */
void hf__txn_clear(struct txn *txn, struct local_node *node);
/* True: it was dead, and is cleared away. */
bool hf__txn_clear_if_dead(struct txn *txn, struct local_node *node);
/* Expired and dead holders, and dead waiters at the head. */
void hf__txn_reap(struct txn *txn);
/* Dead waiters close before a waiting node: those that hf__local_blockers looks at. */
void hf__txn_reap_before(struct txn *txn, const struct local_node *own);
/* The earliest time at which a hold of this lock ends by itself. */
int64_t hf__txn_next_deadline(struct txn *txn);

/* ---- acquire.c ---- */

/* The asking owner, as others see it. */
void hf__local_sign(struct local_node *node, const struct hf_op *op);
enum hf_verdict hf__local_attempt(struct local *local, struct hf_op *op, bool asynchronous);
enum hf_verdict hf__local_release(struct local *local, struct hf_op *op);

/* op->engine.word[0]: the node's reference; high half: the futex word that was seen.
 * op->engine.word[1]: roused. Other threads look at both. */
static inline uint32_t local_op_node(const struct hf_op *op)
{
    return local_low(__atomic_load_n(&op->engine.word[0], __ATOMIC_RELAXED));
}

/* op->engine.pointer of an HF_COUNTER that was granted: it has taken its units. */
#define LOCAL_TOOK ((void *)1)

static inline void local_op_set(struct hf_op *op, uint32_t node, uint32_t seen)
{
    __atomic_store_n(&op->engine.word[0], local_pair(node, seen), __ATOMIC_RELAXED);
}

/* ---- wake.c: telling waiters ---- */

int hf__local_wake_open(struct local *local, hf_error *error);
void hf__local_wake_close(struct local *local);
/* Removes the socket that a dead client of a slot has left. False: this user may not. */
bool hf__local_remove_socket(struct local *local, unsigned slot);
/* Inside a transaction: changes the futex word now, tells after it. */
void hf__txn_wake(struct txn *txn, struct local_node *node);
/* After the txn. */
void hf__local_tell(struct local *local, const uint32_t *nodes, unsigned count);
/* After a new file was begun: tells the clients of an older one, if there are any. */
void hf__local_tell_predecessors(struct local *local);
/* Tells a session that some of its holds may be gone. */
void hf__local_tell_recheck(struct local *local, uint64_t session);
/* Notes the waiter on a node: an op (wake it on the loop), or LOCAL_SLEEPER; NULL: none. */
#define LOCAL_SLEEPER ((void *)1)
void hf__local_note(struct local *local, uint32_t node, void *waiter);
/* Makes each of our waiters look again. Loop only. */
void hf__local_wake_all(struct local *local);
void hf__local_sleep(struct local *local, struct hf_op *op, int64_t until_ms);
void hf__local_rouse(struct local *local, struct hf_op *op);

/* ---- death_watch.c: hearing of a death at once ---- */

void hf__death_watch_open(struct local *local);
/* Loop only; counts down `handles` for each, and calls `finish`. */
void hf__death_watch_close(struct local *local);
/* Any thread: watch these, if possible. True: all of them are watched already. */
bool hf__death_watch(struct local *local, const uint64_t *sessions, unsigned count);
/* What this op waits for: sessions of holders and of those before it. Any of them dead, or a hold
 * expired, or the op granted: *due. */
unsigned hf__local_blockers(struct local *local, struct hf_op *op, uint64_t sessions[LOCAL_WANTED],
                            bool *due);

/* ---- local.c ---- */

extern const struct hf_engine_ops hf__local;

/* ---- change.c, inspect.c ---- */

void hf__local_change(struct hf_engine *engine, struct hf_oneshot *change);
void hf__local_inspect(struct hf_engine *engine, struct hf_oneshot *query);
void hf__local_examine(struct hf_engine *engine, struct hf_oneshot *examination);
void hf__local_key(const struct local_node *node, char key[HF_OWNER_KEY_SIZE]);
bool hf__local_key_parse(const char *key, uint64_t id[2], uint64_t *owner);

#endif
