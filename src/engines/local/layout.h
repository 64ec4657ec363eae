/* SPDX-License-Identifier: Apache-2.0 */
/* The state file: what lies where. Fixed widths, no pointers, the same for every compiler and libc.
 *
 *   header | 1024 sessions | segment 0 | segment 1 | ...
 *
 * Segment k holds 4096 << k locks, then their claim nodes, then cells for long names; so each is
 * twice the size of the one before, and where it begins is a shift. A *reference* is an offset in
 * the file divided by 64; 0 is none. Words that a transaction changes are 64 bits wide, so that the
 * undo journal knows one size only. */
#ifndef HF_LOCAL_LAYOUT_H
#define HF_LOCAL_LAYOUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOCAL_MAGIC 0x74736166646c6f68u /* "holdfast" */
#define LOCAL_VERSION 1u

#define LOCAL_SESSION_BITS 10
#define LOCAL_SESSIONS (1u << LOCAL_SESSION_BITS)
#define LOCAL_DETACHED UINT64_MAX /* a node's session: it lives by its deadline alone */
/* Far behind the data: byte + i belongs to session i. */
#define LOCAL_LOCK_BYTE ((int64_t)1 << 40)

#define LOCAL_SEGMENTS 10u
#define LOCAL_LOCKS 4096u /* in segment 0 */
#define LOCAL_NODES (LOCAL_LOCKS + LOCAL_LOCKS / 4)
#define LOCAL_CELLS (LOCAL_LOCKS / 16)
#define LOCAL_WINDOW 16u /* a name lies at most this far from where its hash points */

#define LOCAL_JOURNAL 10u
#define LOCAL_NAME_INLINE 120u
#define LOCAL_NAME_LONGEST 1024u
#define LOCAL_TEXT 48u

#define LOCAL_HASH_NEVER 0u   /* never used: a search may end here */
#define LOCAL_HASH_RENAMED 1u /* between two names; of no use to a search, which goes on */

struct local_header {
    _Atomic uint64_t magic; /* written last */
    uint64_t version;
    uint64_t layout; /* a hash of all sizes and offsets */
    char boot_id[40];
    _Atomic uint64_t guard;       /* of names: creating, renaming, growing */
    _Atomic uint64_t token_floor; /* no less than any token that was forgotten with its name, and
                                   than the clock when a client last came */
    _Atomic uint64_t segments;
};

/* A session is one client. While the client lives, it holds a lock on the session's byte. */
struct local_session {
    _Atomic uint64_t epoch; /* counts the clients that had this slot */
    uint64_t id[2];
    uint64_t pid_namespace;
    int64_t start_ms;
    int32_t pid;
    uint32_t uid;
    _Atomic uint32_t overflow; /* a wake did not fit into the socket: look at everything */
    _Atomic uint32_t socket;   /* there is one */
    int64_t left_ms;           /* start_ms of a client that has closed and left no node */
    char host[64];
    char owner[128];
};

/* A list is the head's reference in the low half and the tail's in the high half; a node's link is
 * the next's and the previous' likewise. */
struct local_lock {
    _Atomic uint64_t guard; /* 0, or the session inside */
    _Atomic uint64_t hash;
    _Atomic uint64_t shape;   /* kind; high half: the node that holds UPGRADE or WRITE */
    _Atomic uint64_t numbers; /* low: value; high: total. See grant.c */
    _Atomic uint64_t token;
    _Atomic uint64_t holders;
    _Atomic uint64_t waiters;
    _Atomic uint64_t turn_us; /* since when a mutex has not been handed over to a waiter */

    uint32_t name_length;
    uint32_t name_cell; /* reference, or 0: inline */
    char name[LOCAL_NAME_INLINE];

    _Atomic uint32_t journal_count;
    uint32_t journal_word[LOCAL_JOURNAL]; /* offset in the file, divided by 8 */
    uint32_t unused_too;
    uint64_t journal_old[LOCAL_JOURNAL];
};

/* One owner's claim on one lock. */
struct local_node {
    _Atomic uint64_t session; /* 0: no session's */
    _Atomic uint64_t link;
    _Atomic uint64_t state; /* see below */
    _Atomic uint64_t token;
    _Atomic uint64_t
        deadline_ms; /* 0: none. An offer's: when it lapses. A waiter's: its last wake */
    uint64_t since_ms;
    uint32_t permits;
    _Atomic uint32_t futex; /* bit 0: a thread sleeps */
    uint64_t owner;
    uint64_t id[2]; /* the client that owner is a number of */
    char text[LOCAL_TEXT];
};

struct local_cell {
    uint64_t lock; /* the reference of the lock that uses it, if that says the same */
    uint64_t unused[7];
    char name[LOCAL_NAME_LONGEST];
};

_Static_assert(sizeof(void *) == 8, "the state file needs a 64-bit machine");
_Static_assert(sizeof(_Atomic uint64_t) == 8 && sizeof(_Atomic uint32_t) == 4, "atomics are bare");
_Static_assert(sizeof(struct local_header) <= 4096, "the header is a page");
_Static_assert(sizeof(struct local_session) == 256, "session");
_Static_assert(sizeof(struct local_lock) == 320, "lock");
_Static_assert(offsetof(struct local_lock, name) == 72, "a lock's hot words are one cache line");
_Static_assert(offsetof(struct local_lock, journal_count) == 192, "journal");
_Static_assert(sizeof(struct local_node) == 128, "node");
_Static_assert(sizeof(struct local_cell) == 1088, "cell");

#define LOCAL_SESSIONS_AT 4096u
#define LOCAL_SEGMENTS_AT                                                                          \
    ((uint64_t)LOCAL_SESSIONS_AT + LOCAL_SESSIONS * sizeof(struct local_session))
#define LOCAL_LOCKS_SIZE ((uint64_t)LOCAL_LOCKS * sizeof(struct local_lock))
#define LOCAL_NODES_SIZE ((uint64_t)LOCAL_NODES * sizeof(struct local_node))
#define LOCAL_CELLS_SIZE ((uint64_t)LOCAL_CELLS * sizeof(struct local_cell))
#define LOCAL_SEGMENT_SIZE (LOCAL_LOCKS_SIZE + LOCAL_NODES_SIZE + LOCAL_CELLS_SIZE)
_Static_assert(LOCAL_SEGMENTS_AT % 4096 == 0 && LOCAL_SEGMENT_SIZE % 4096 == 0, "whole pages");

/* Where segment `k` begins, and with it how long a file of `k` segments is. */
static inline uint64_t local_segment_at(unsigned k)
{
    return LOCAL_SEGMENTS_AT + LOCAL_SEGMENT_SIZE * (((uint64_t)1 << k) - 1);
}

/* ---- a node's state word: lock | mode << 32 | state << 40 | flags << 48 ---- */

enum local_state {
    LOCAL_FREE = 0,
    LOCAL_WAITING = 1, /* in the lock's waiters */
    LOCAL_HELD = 2,    /* in the lock's holders */
    LOCAL_LOST = 3,   /* was held, and was expired or broken: in no list, its owner has yet to hear;
                         with LOCAL_OFFERED, a place in the queue was all that it lost */
    LOCAL_TAKEN = 4,  /* a counter or latch has been granted: in no list, nothing is held */
    LOCAL_PARKED = 5, /* was given back, and lies in the lock's holders for its owner to take again
                         or any visitor to take out; fast_path.c */
    LOCAL_EVICTED = 6 /* was parked and taken out: in no list, its owner has yet to notice */
};

#define LOCAL_ASYNCHRONOUS 0x01u /* wait by datagram, not on the futex */
#define LOCAL_OFFERED 0x02u      /* granted from the queue, not yet fetched */
#define LOCAL_PENDING 0x04u      /* holds UPGRADE and waits for WRITE */
#define LOCAL_WOKEN 0x08u        /* told that a mutex is free, has not come yet */
#define LOCAL_DUE 0x10u          /* came too late, and is handed the mutex next */
#define LOCAL_BROKEN 0x40u       /* lost by a break, not by its deadline */
#define LOCAL_PINNED 0x80u       /* HELD, PARKED: changes under the lock's guard only */

static inline uint64_t local_state(uint32_t lock, unsigned mode, enum local_state state,
                                   unsigned flags)
{
    return lock | (uint64_t)mode << 32 | (uint64_t)state << 40 | (uint64_t)flags << 48;
}

static inline uint32_t local_state_lock(uint64_t word)
{
    return (uint32_t)word;
}

static inline unsigned local_state_mode(uint64_t word)
{
    return (word >> 32) & 0xff;
}

static inline unsigned local_state_state(uint64_t word)
{
    return (word >> 40) & 0xff;
}

static inline unsigned local_state_flags(uint64_t word)
{
    return (unsigned)(word >> 48);
}

static inline bool local_in_a_list(uint64_t word)
{
    return local_state_state(word) == LOCAL_WAITING || local_state_state(word) == LOCAL_HELD;
}

static inline uint64_t local_with_flags(uint64_t word, unsigned flags)
{
    return (word & 0x0000ffffffffffffu) | (uint64_t)flags << 48;
}

static inline uint64_t local_pair(uint32_t low, uint32_t high)
{
    return low | (uint64_t)high << 32;
}

static inline uint32_t local_low(uint64_t pair)
{
    return (uint32_t)pair;
}

static inline uint32_t local_high(uint64_t pair)
{
    return (uint32_t)(pair >> 32);
}

static inline unsigned local_session_slot(uint64_t session)
{
    return (unsigned)(session & (LOCAL_SESSIONS - 1));
}

static inline uint64_t local_session_epoch(uint64_t session)
{
    return session >> LOCAL_SESSION_BITS;
}

static inline uint64_t local_get(const _Atomic uint64_t *word)
{
    return atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)word, memory_order_relaxed);
}

/* Release: a process that is killed leaves a prefix of its stores in program order behind. */
static inline void local_put(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

#endif
