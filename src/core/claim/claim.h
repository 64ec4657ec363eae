/* SPDX-License-Identifier: Apache-2.0 */
/* What the core keeps: clients, lock entries, claims and holds.
 *
 * A *claim* is one owner's claim on one name, from the first attempt to the end of its release; it
 * embeds the engine's op. A *grant* is what a claim has been given. Its address stays the same when
 * the claim is compacted (claim_compact.c). A *hold* is what the user has in hand; nested holds
 * share a grant. A *lock entry* is a name that is in use in this process: its queue of claims that
 * still ask, and its list of claims that hold.
 *
 * What may be touched where:
 *  - lock entries, the lists in them, holds, and a claim's `held_mode`: under the mutex of the
 *    entry's shard.
 *  - a claim's state machine (claim_fsm.c): by its driver alone. That is the loop, or the calling
 *    thread (sync_driver.c) from the beginning of the call to its end.
 *  - `valid_until_ms` and `lost`: read by any thread (hf_held), written by the driver or the
 *    watchdog.
 */
#ifndef HF_CORE_CLAIM_CLAIM_H
#define HF_CORE_CLAIM_CLAIM_H

#include "base/clock.h"
#include "core/counts.h"
#include "core/engine_sync.h"

#include <pthread.h>
#include <stdatomic.h>

enum hf_claim_state {
    HF_CLAIM_QUEUED,  /* behind another claim of this process, has not asked the store */
    HF_CLAIM_ASKING,  /* attempt is out */
    HF_CLAIM_WAITING, /* refused; waits for a wake, its retry time, its deadline */
    HF_CLAIM_HELD,    /* granted */
    HF_CLAIM_LEAVING, /* release is out, or is to be repeated */
    HF_CLAIM_OVER     /* nothing of it is at the store */
};

/* What a call is answered. */
struct hf_answer {
    int code;
    hf_hold *hold;
    hf_error *error; /* the engine's words, or NULL; the receiver frees them */
};

/* A thread that blocks in a call, on its stack, or a reply (core/api/reply.h). The claim forgets it
 * when it has told it. */
struct hf_waiter {
    _Atomic uint32_t answered;
    struct hf_answer answer;
    void (*tell)(struct hf_waiter *waiter); /* NULL: a thread waits for `answered` */
    /* Of the threads that wait for a claim to be lowered, or to come to rest: */
    struct hf_waiter *next;
    struct hf_claim *claim;
    struct hf_timer patience;
    int64_t until_ms;
    bool
        asks; /* it is going to raise the claim, and has its own limit, not the client's patience */
    bool lost; /* it knows what it will be told, and gives a silent store little time */
};

/* What a claim's caller, or its entry, has to say to the loop, which does the lowest first. */
#define HF_CMD_START 1u     /* it comes to the loop: to ask, to be watched, to repeat a release */
#define HF_CMD_LOSE 2u      /* what is held may be lost */
#define HF_CMD_TURN 4u      /* it may ask, or raise */
#define HF_CMD_CANCEL 8u    /* its caller does not want it any more */
#define HF_CMD_SETTLE 16u   /* its holds have changed, or a thread waits for it to be at rest */
#define HF_CMD_ANNOUNCE 32u /* it is lost, and its holds have not been told */

/* Bits of a claim's `turn`. */
#define HF_TURN_COME 1u  /* it is the head of its entry's queue */
#define HF_TURN_ENDED 2u /* `ending` has been set: do not sleep on */
#define HF_TURN_HEARD 4u /* the head before this one had an answer of the store */

struct hf_claim {
    struct hf_op op;

    /* Made once, with the memory; each use leaves these as it found them. */
    struct hf_client *client;
    struct hf_shard *shard;
    uint32_t generation, index; /* of the request id */
    uint32_t uses;              /* how often this memory has been another claim */
    union {
        struct hf_link entry_link; /* in entry->queue, entry->holders or shard->deferred */
        struct hf_claim *next_free;
    };
    struct hf_link rest_link;  /* in shard->resting, or in nothing */
    struct hf_link undo_link;  /* in shard->undone, or in nothing */
    struct hf_link lease_link; /* in the holders of `watched` */
    struct hf_lease *watched;  /* what op.out.rests_on was when the watchdog heard of it last */
    struct hf_timer alarm;     /* for its deadline, or for when it asks again */
    struct hf_task command;

    /* From here on to text, everything is zero at the begin of a use. */
    struct hf_lock_entry *entry;
    struct hf_grant *grant;
    struct hf_hold *new_hold;    /* joins by the next grant; allocated before the first question */
    struct hf_hold *changing;    /* the hold that hf_upgrade raises; or NULL */
    struct hf_hold *answer_hold; /* what the caller is handed with HF_OK */

    int64_t asked_at_us; /* when the request that is not answered yet began; 0: there is none */
    /* Since when it is held, in microseconds, HF_HELD_UNTIMED, or 0: it is not. Negative: the time
     * counts for other locks, too (under the shard's mutex). */
    int64_t held_from_us;
    int64_t wait_from_ms, wait_until_ms, retry_at_ms;
    int64_t leave_until_ms; /* by then a silent store has forgotten us by itself */

    const char *lost_reason;

    struct hf_waiter *waiter;        /* hears the outcome; after lowering, maybe several */
    struct hf_waiter *unlock_waiter; /* waits until the claim is not driven any more, likewise
                                        (under the shard's mutex) */
    hf_done_cb *done;
    union {
        void *done_arg;
        struct hf_blocked *blocked; /* without `done`: the call that asks, of a thread; or NULL */
    };

    enum hf_claim_state state;
    int outcome;               /* what the caller is told, an hf_code */
    unsigned silences;         /* questions without an answer, in a row */
    uint32_t pins;             /* with any, its memory stays (under the shard's mutex) */
    uint32_t canceled_request; /* the generation that HF_CMD_CANCEL is under way for */
    _Atomic int ending; /* HF_CANCELED, HF_EDEADLK or HF_ECLOSED asked for from elsewhere, or 0 */
    _Atomic uint32_t turn; /* HF_TURN_... */
    _Atomic uint32_t in_callback;
    int8_t held_mode;    /* what the owner may use: an hf_mode, or HF_KEEP_NOTHING before the grant
                            and after the last unlock (under the shard's mutex) */
    int8_t store_mode;   /* what the store has for us, likewise */
    int8_t refused_keep; /* what the store has refused to lower it to, or 0 (likewise) */
    bool driven;    /* a driver is at it, and no other begins anything (under the shard's mutex) */
    bool here;      /* driven by the calling thread */
    bool completed; /* the caller has its answer */
    bool said_waiting; /* the sink has heard that this call waits */
    bool leaving;      /* the caller has given up: whatever is granted goes back */
    bool not_queued;   /* refused, and not in the store's queue yet */
    bool woken;        /* a wake came while a question was out */
    bool store_seen;   /* the store's last word was an answer, not silence */
    bool granted_late; /* the store's last grant had come after its own end */
    bool again;        /* once released, it asks anew: the grant had come after its own end */
    bool upgrading;    /* asks for HF_WRITE while it holds HF_UPGRADE (under the shard's mutex) */
    bool raise_waits;  /* ... and its caller waits for that: op.in.enqueue, once it asks */
    bool started;      /* handed to the loop (under the shard's mutex) */
    bool awaits_deadline, awaits_retry; /* what `alarm` is for (loop only) */
    bool forgotten;                     /* over, but pinned: the last pin frees it */
    bool undone;         /* in shard->undone (written by the driver, under the shard's mutex) */
    bool undone_unheard; /* ... and its release has met silence (the same) */
    bool fetched;        /* to be renewed or lost, and neither yet (under the shard's mutex) */
    uint8_t commands;    /* on their way to the loop, HF_CMD_...; a pin (under the shard's mutex) */

    char *text; /* HF_OWNER_KEY_SIZE, made when a call first brings its owner's or an attach key,
                   and kept with the memory */
};

struct hf_hold {
    struct hf_grant *grant;
    union {
        struct hf_link link;
        struct hf_hold *next_free;
    };
    _Atomic hf_mode mode;
    bool announced; /* its on_lost has run */
    hf_lost_cb *on_lost;
    void *lost_arg;
};

/* What any thread may read of a claim, at a place that stays when the claim is set aside. */
struct hf_grant {
    struct hf_hold first; /* of the holds, so that a claim needs one piece of memory for both */
    struct hf_shard *shard;
    struct hf_lock_entry *entry;
    struct hf_claim *claim; /* NULL: it is set aside (under the shard's mutex, as what follows) */
    union {
        struct hf_link holds;
        struct hf_grant *next_free;
    };
    struct hf_link aside;           /* in one of the shard's lists of what is set aside */
    _Atomic int64_t valid_until_ms; /* HF_NEVER: no lease limits it */
    _Atomic uint64_t token;         /* of the last grant */
    _Atomic bool lost;
    _Atomic bool fixed; /* it rests on a fixed lease of its own, as of the last grant */
    /* What of a claim that is set aside has no place in its entry. */
    int8_t mode;
    bool enqueue;
    struct hf_known known;
    _Atomic bool loss_counted;
};

struct hf_lock_entry {
    struct hf_lock_entry *next; /* in the bucket, or in the pool */
    uint64_t hash;
    union {
        struct {
            struct hf_link queue;   /* claims that ask or are going to; the first is the head */
            struct hf_link holders; /* claims that hold, or hold and ask for more, or leave */
        };
        struct { /* while the only claim, which holds, is set aside */
            struct hf_grant *grant;
            uint64_t owner, engine_word[2];
        } aside;
    };
    uint64_t kept;   /* the engine's word on the name between two claims; 0: none */
    uint32_t claims; /* all of them, bare tries too, which are in neither list */
    uint16_t name_length;
    uint8_t size : 7;     /* which of the pool's sizes it has, by the room for its name */
    uint8_t is_aside : 1; /* (under the shard's mutex) */
    _Atomic bool silent;  /* the store's last word to the head was silence */
    union {
        _Atomic int64_t heard_at_ms; /* the store's last reply on the name that was in time */
        int64_t held_from_us;        /* the claim's, while it is set aside: no waiter asks then */
    };
    char name[];
};

/* It is held, and no clock was read. */
#define HF_HELD_UNTIMED 1
#define HF_SHARDS 64u
#define HF_CLAIM_CHUNK 16u
#define HF_LOCK_ENTRY_SIZES 5u

struct hf_shard {
    pthread_mutex_t mutex;
    struct hf_client *client;
    struct hf_lock_entry **buckets;
    uint32_t bucket_count, entry_count;
    uint32_t calls_begun; /* on names of this shard (under the mutex) */
    _Atomic uint32_t calls_ended;
    struct hf_lock_entry
        *idle; /* stays for what its engine keeps in it, though no claim needs it now */
    struct hf_lock_entry *free_entries[HF_LOCK_ENTRY_SIZES];
    struct hf_grant *free_grants;
    struct hf_hold *free_holds;
    _Atomic uint64_t held, fast_grants, nested; /* counted under the mutex */
    struct hf_counts *counts;
    struct hf_claim *free_claims;
    uint32_t free_claim_count;
    /* Claims whose caller was told no, while the store may still have something for them; and bare
     * tries for the same names, which wait for that. */
    struct hf_link undone, deferred;
    struct hf_link resting; /* claims that may be set aside, the longest at rest first */
    uint32_t resting_count;
    uint32_t fetched_count;    /* of claims that are `fetched` */
    uint32_t aside_count;      /* grants whose claim is set aside, in any of these lists */
    struct hf_link aside;      /* grants whose claim is set aside, the next one due first */
    struct hf_link aside_lost; /* the same of locks that are lost */
    /* Grants without a hold whose claim is compacted: to be released, once there is memory. */
    struct hf_link aside_ended;
    struct hf_task compact_task;
    struct hf_timer aside_due; /* (loop only) */
    struct hf_claim **chunks;
    uint32_t chunk_count, chunk_room;
    struct hf_block *blocks; /* everything allocated for the pools, to be freed at the end */
} __attribute__((aligned(64)));

/* What happens to claims on the loop (async_driver.c). What is below it knows it by these alone. */
struct hf_claim_driver {
    void (*init)(struct hf_claim *claim); /* the timers and tasks of new memory */
    /* The lease of a claim: lost, renewed, or without a reply to its renewal. */
    void (*lease_lost)(struct hf_claim *claim, const char *reason);
    void (*lease_renewed)(struct hf_claim *claim);
    void (*lease_unheard)(struct hf_claim *claim);
};

enum hf_drive_kind { HF_DRIVE_KIND_THREAD, HF_DRIVE_KIND_CALLER, HF_DRIVE_KIND_TEST };

struct hf_client {
    struct hf_engine *engine;
    const struct hf_engine_ops *ops;
    const struct hf_engine_sync_ops *sync; /* NULL: the engine needs I/O to answer */
    bool here;                             /* it does not */
    struct hf_loop loop;
    struct hf_host host;
    const struct hf_claim_driver *driver;
    struct hf_uv_loop *drive;
    enum hf_drive_kind drive_kind;
    void (*test_pump)(struct hf_client *client); /* HF_DRIVE_KIND_TEST: turns the loop once */
    uint32_t fork_number;
    _Atomic int closing;
    _Atomic uint64_t request_owners;
    /* How far the clock is ahead of one that stops in suspend, and when that was found out, by the
     * latter. */
    _Atomic int64_t suspended_ms, suspended_at_ms;
    int64_t request_timeout_ms; /* of calls without a wait_ms of their own */
    hf_event_cb *on_event;
    void *event_arg;
    hf_point_cb *on_point;
    void *point_arg;
    pthread_t calling_back; /* runs an on_lost (under the mutex of its claim's shard) */
    _Atomic bool silent;    /* the store's last word was silence */
    _Atomic int64_t silent_since_ms;
    pthread_mutex_t silence_mutex;
    struct hf_link oneshots; /* one-shot questions that are out (loop only) */
    /* A list for a look at circles (oneshot.h) is out, whether or not a call waits for it still. */
    _Atomic bool peeks;
    pthread_mutex_t stop_mutex;
    struct hf_link stop_waits; /* that a stop ends (under stop_mutex, as `stop_bell`) */
    /* Where hf_stop_set finds this client; NULL: nowhere. */
    _Atomic(struct hf_client *) *stop_bell;
    _Atomic uint32_t stop_wait_count;
    _Atomic bool stop_posted;
    struct hf_task stop_task; /* looks through them */
    struct hf_link link;      /* in the list of open clients (fork.c) */
    struct hf_url url;
    const char *prefix; /* of the URL: the store's names begin with it, and callers do not see it */
    uint32_t prefix_length;
    char owner_text[192], host_name[64];
    _Atomic uint64_t reconnects, renewal_late_ms; /* see hf_stats */
    struct hf_counts counts[HF_COUNT_PARTS];
    struct hf_shard shards[HF_SHARDS];
};

/* How long a wait lasts before it looks for a circle of waits; without I/O. */
#define HF_DEADLOCK_MS 5000
#define HF_DEADLOCK_HERE_MS 700

/* What a call asks for, after its arguments have been checked. */
struct hf_lock_args {
    const char *name;
    uint32_t name_length;
    uint64_t name_hash;
    int64_t wait_ms, wait_until_ms;
    int64_t now_ms; /* when it was asked */
    hf_mode mode;
    uint32_t permits, limit;
    int64_t lease_ms;
    uint64_t owner;
    const char *owner_text, *attach_key;
    hf_lost_cb *on_lost;
    void *lost_arg;
    hf_stop *stop;
    int64_t deadlock_ms; /* HF_NEVER: the call ends no circle of waits */
    bool here;           /* the calling thread is going to drive it */
    bool blocks;         /* the calling thread waits for the answer */
    bool starts;         /* it is told what needs no wait, and the rest goes on on the loop */
    bool no_reentry;
    bool election; /* the claim is a candidacy: `mode` is what the engine has for it */
};

/* A lock's name as its caller knows it, of the store's. */
static inline const char *hf__shown_name(const struct hf_client *client, const char *name)
{
    return *name ? name + client->prefix_length : name;
}

/* Says to a test where we are; with no mutex held, since it may be long. */
static inline void hf__point(const struct hf_client *client, const char *point, const char *name)
{
    if (__builtin_expect(client->on_point != NULL, 0))
        client->on_point(client->point_arg, point, hf__shown_name(client, name));
}

static inline bool hf__mode_is_rw(hf_mode mode)
{
    return mode == HF_READ || mode == HF_UPGRADE || mode == HF_WRITE;
}

/* Counters and latches are taken, or passed, and leave nothing in hand. */
static inline bool hf__mode_leaves_hold(hf_mode mode)
{
    return mode != HF_COUNTER && mode != HF_LATCH;
}

static inline void hf__shard_lock(struct hf_shard *shard)
{
    pthread_mutex_lock(&shard->mutex);
}

static inline void hf__shard_unlock(struct hf_shard *shard)
{
    pthread_mutex_unlock(&shard->mutex);
}

/* With the shard locked: the claim is held from now on; it is not any more, which may be said
 * twice. */
static inline void hf__claim_count_hold(struct hf_claim *claim)
{
    hf__count_alone(&claim->shard->held, 1);
    claim->held_from_us = hf__clock_us();
}

static inline void hf__shard_count_hold_end(struct hf_shard *shard, int64_t from_us)
{
    if (from_us == 0)
        return;
    hf__count_alone(&shard->held, UINT64_MAX); /* one less */
    if (from_us != HF_HELD_UNTIMED)
        hf__count_time(shard->counts, HF_COUNT_HOLDS,
                       hf__clock_us() - (from_us < 0 ? -from_us : from_us),
                       from_us < 0 ? HF_TIMED_OF : 1);
}

static inline void hf__claim_count_hold_end(struct hf_claim *claim)
{
    hf__shard_count_hold_end(claim->shard, claim->held_from_us);
    claim->held_from_us = 0;
}

/* ---- claim.c ---- */

/* Counts a loss, once for a grant. Any thread. */
void hf__claim_count_loss(struct hf_claim *claim);

/* With the shard locked: makes a new claim of memory from the pool. */
void hf__claim_reset(struct hf_shard *shard, struct hf_claim *claim);

/* Sends the claim to the loop with a command, which pins it. With the shard locked. */
void hf__claim_post(struct hf_claim *claim, unsigned command);
/* Until hf__claim_unpin the claim's memory is not used for another claim, nor its entry's for
 * another name. With the shard locked. */
void hf__claim_pin(struct hf_claim *claim);

/* A claim by its request id; the shard stays locked if it is found (unlock with hf__shard_unlock).
 */
hf_request hf__claim_id(const struct hf_claim *claim);
struct hf_claim *hf__claim_find(struct hf_client *client, hf_request id);

/* Calls `visit` for every claim that is not over, shard by shard, under the shard's mutex. */
void hf__claims_visit(struct hf_client *client, void (*visit)(struct hf_claim *claim, void *arg),
                      void *arg);

#endif
