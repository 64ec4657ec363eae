/* SPDX-License-Identifier: Apache-2.0 */
/* What a store promises to the core, in nine sentences:
 *
 *  1. Everything runs on the loop, and nothing blocks (the slots of engine_sync.h are the
 *     exception, and say themselves where they run).
 *  2. `attempt` is idempotent: asking twice is asking once.
 *  3. REFUSED promises a wake for any change after the state it saw; `retry_at_ms` covers wakes
 *     that get lost.
 *  4. Completion comes exactly once per question, and never from inside the question.
 *  5. NO_ANSWER means *unknown*: it may have happened, it may still happen.
 *  6. A lease counts from when the question left, never from when the answer came.
 *  7. Whatever depends on a lease (a hold, a place in a queue) says so in `rests_on`. A raise that
 *     is refused, or not answered, leaves it as it was: what is held goes on resting on it.
 *  8. After `release` has answered GONE, nothing of this owner is left but what `keep` names: no
 *     key, no node, no queue entry.
 *  9. What the store shows of us under an older session is not ours: it is never adopted.
 *
 * An engine *attempts*; it never acquires. Waiting, deadlines, cancelling and cleaning up are
 * written once, in claim_fsm.c. "attempt" raises what this owner has on a name, "release" lowers
 * it. */
#ifndef HF_CORE_ENGINE_H
#define HF_CORE_ENGINE_H

#include "base/loop.h"
#include "base/url.h"
#include "core/known.h"

#include <holdfast.h>

struct uv_loop_s;
struct hf_engine;
struct hf_engine_sync_ops;
struct hf_tap;

enum hf_verdict {
    HF_GRANTED,   /* attempt: this owner now has `mode` on the name */
    HF_REFUSED,   /* attempt: it has not; see sentence 3 */
    HF_GONE,      /* release: only `keep` is left */
    HF_NO_ANSWER, /* unknown; op->out.error says why. The core asks again or withdraws */
    HF_FAILED, /* definite: it cannot work (op->out.error says why); nothing new of ours is left */
    HF_REFUSED_NOT_QUEUED /* attempt with `enqueue`: as REFUSED, but the claim has no place yet in
                             the queue that the store has for it. Without such a queue: REFUSED */
};

/* op->in.keep: nothing stays. */
#define HF_KEEP_NOTHING (-1)

/* A promise of the store with an end: behind one lock (Redis, SQL), or behind a whole session with
 * all that rests on it (etcd, ZooKeeper). lease.c watches it and neither knows nor cares which. A
 * session's lease that was lost is not used again: a new session is a new struct. */
struct hf_lease {
    struct hf_engine *engine;
    int64_t lease_ms;    /* its length */
    int64_t asked_at_ms; /* when the question left that it was last confirmed by */
    int64_t ends_at_ms;  /* not 0: it may be believed in until then at the latest, however often it
                            is confirmed: a claim's own end on top of a session's */
    /* lease.c's own */
    struct hf_link holders;
    struct hf_timer timer;
    bool watched, lost, renewing;
    const char *refusal; /* why the store has refused to renew it since it was confirmed, or NULL */
    /* The engine's again. */
    bool fixed; /* never renewed; has a deadline all the same */
};

/* Owners from here up to twice as much are threads. With the second bit the claim was asked for
 * with a callback: its thread does not wait for it. */
#define HF_OWNER_THREADS (UINT64_C(1) << 62)
#define HF_OWNER_ASYNC (UINT64_C(1) << 61)

/* The number of the thread that a claim's owner is, if it blocks while it waits for the claim; else
 * 0. */
static inline uint64_t hf__owner_thread_number(uint64_t owner)
{
    return owner >> 61 == HF_OWNER_THREADS >> 61 ? owner & (HF_OWNER_ASYNC - 1) : 0;
}

/* A claim's number at a store, of its number in the client, with its thread in front where there is
 * room: what hf_inspect shows of threads. */
#define HF_CLAIM_BITS 44
static inline uint64_t hf__claim_number(uint64_t owner, uint64_t claim)
{
    uint64_t thread = hf__owner_thread_number(owner);
    return thread < UINT64_C(1) << 18 ? thread << HF_CLAIM_BITS | claim : claim;
}

/* One owner's claim on one name, as the engine sees it. Embedded in the core's claim. */
struct hf_op {
    /* Set by the core. The engine never writes it, except that the grant of an attach fills mode,
     * permits and lease_ms. Constant while a question is out. Of a claim that is held, the thread
     * that then asks writes it: on the loop, where renewals read it, unless the engine answers
     * without I/O. So a renewal may find the HF_WRITE of a raise that is out, or was refused. */
    struct {
        const char *name; /* ends with a NUL */
        uint32_t name_length;
        uint64_t name_hash;
        uint64_t owner; /* unique within the client; with the client's id, in the world. One owner
                           may have several claims on a name (permits, or a new claim while the
                           release of the last one is still repeated). So a release must tell claims
                           apart, not only owners: engine.word is a place for that */
        const char *owner_text; /* for inspect */
        const char *attach_key; /* not NULL: take over what was left under this owner key. NULL
                                   again once that is granted */
        hf_mode mode;           /* attempt: what is wanted */
        int keep;               /* release: what stays (an hf_mode), or HF_KEEP_NOTHING */
        uint32_t permits, limit;
        int64_t lease_ms;    /* 0: the client's, renewed as long as the process lives; else fixed */
        int64_t asked_at_ms; /* when this question was handed to the engine, on the loop's clock */
        bool election;       /* HF_FAIR, HF_MUTEX: in the format of an election, where another
                                library has one at this store */
        bool enqueue;        /* false: a bare try, which leaves nothing behind if refused; true: the
                                caller is going to wait, so take a place and arm the wake */
    } in;
    /* Set by the engine before the answer. */
    struct {
        bool lost; /* FAILED, GONE: what was held is known to be lost, without a release of ours */
        bool contacted;  /* GONE, FAILED: the store has replied; not set where the engine answers by
                            itself. The other verdicts imply it */
        bool hands_over; /* set inside `release`: another process gets the lock by it, and is
                            expected to give it back at once. The thread that waits for the reply
                            sleeps, so that the other has a processor. A hint */
        enum hf_verdict verdict;
        int64_t retry_at_ms; /* REFUSED: the next attempt, woken or not. HF_NEVER: wakes are sure */
        uint64_t token;      /* GRANTED */
        struct hf_lease *rests_on; /* GRANTED, REFUSED: see sentence 7; NULL: on nothing that ends
                                      before the process does */
        hf_error *error; /* NO_ANSWER, FAILED: set by hf__op_explain, freed by the core. It may
                            still have the words of an earlier NO_ANSWER. Without memory for words
                            the answer is the same */
    } out;
    /* The engine's own; zero before the first question. */
    struct {
        uint64_t word[2];
        void *pointer;
        struct hf_known known; /* what the store has of the claim, for engines that keep it here */
        /* For stores that lease lock by lock: fill it, and set out.rests_on = &own_lease. */
        struct hf_lease own_lease;
    } engine;
    /* The core's. */
    struct {
        struct hf_task answer;
        void (*woken)(struct hf_op *op);
    } core;
};

/* What the core is told of a verdict of known.h. */
static inline void hf__op_set_verdict(struct hf_op *op, enum hf_known_verdict verdict)
{
    static const enum hf_verdict verdicts[] = {
        [HF_KNOWN_NO_ANSWER] = HF_NO_ANSWER, [HF_KNOWN_GRANTED] = HF_GRANTED,
        [HF_KNOWN_REFUSED] = HF_REFUSED,     [HF_KNOWN_NOT_THERE] = HF_FAILED,
        [HF_KNOWN_FAILED] = HF_FAILED,       [HF_KNOWN_WITHDRAW] = HF_NO_ANSWER,
        [HF_KNOWN_GONE] = HF_GONE,           [HF_KNOWN_LOST] = HF_GONE,
        [HF_KNOWN_LEFT] = HF_FAILED,
    };
    op->out.verdict = verdicts[verdict];
    op->out.lost = verdict == HF_KNOWN_LOST || verdict == HF_KNOWN_NOT_THERE;
}

enum hf_oneshot_verb {
    HF_ONESHOT_SEMAPHORE_SET,
    HF_ONESHOT_COUNTER_SET,
    HF_ONESHOT_COUNTER_ADD,
    HF_ONESHOT_COUNTER_GET,
    HF_ONESHOT_COUNTER_REMOVE,
    HF_ONESHOT_LATCH_SET,
    HF_ONESHOT_LATCH_DOWN,
    HF_ONESHOT_LATCH_GET,
    HF_ONESHOT_RATE_TAKE, /* `rate` says what; OK or BUSY, and `delay_us` */
    HF_ONESHOT_BREAK,     /* the holder with `key`, or all if it is NULL; `result`: how many */
    HF_ONESHOT_RENEW, /* `op`'s own fixed lease: at least `lease_ms` from asked_at_ms; HF_LOST if it
                         is no longer held. The core moves own_lease */
    HF_ONESHOT_DETACH,  /* for the slot `detach` alone: `op` goes on by its lease alone, without the
                          session; `key_out` is its key. The caller may not receive the answer:
                          a second attempt, and the op's own release and renewal, work as before */
    HF_ONESHOT_INSPECT, /* holders and waiters: hf__oneshot_entry for each, in the order that
                           hf_inspect promises. `name` NULL: all names */
    HF_ONESHOT_DIAGNOSE, /* what the store is, and what endangers locks on it: hf__oneshot_remark
                            for each. `name` NULL: for all locks. Without remarks the answer is
                            HF_OK */
    HF_ONESHOT_GUARD,    /* with HF_CAP_GUARD: `guard` gets what a transaction compares that `op`
                           guards; HF_LOST if it is not held. Asks no server */
    HF_ONESHOT_FORGET,   /* with `forgets`: removes what the store keeps of a name that is free;
                            HF_BUSY if it is in use. What later tokens need stays */
    HF_ONESHOT_SCHEMA    /* with HF_CAP_SCHEMA: `value` is an hf_schema_action; `result`: rows */
};

/* What is taken from a rate limiter. The store has a time of its own clock for it: when the whole
 * burst is there again. Taking moves that to max(it, now) + cost_us, and the permits are there
 * burst_us before. If that is later than in wait_us, nothing is taken: BUSY. All are below 2^45. */
struct hf_rate_ask {
    int64_t cost_us, burst_us, wait_us;
};

/* From now until the permits of `ask` are there, or negative; *full_us is the limiter's time. */
static inline int64_t hf__rate_delay_us(const struct hf_rate_ask *ask, int64_t now_us,
                                        int64_t *full_us)
{
    *full_us = (*full_us > now_us ? *full_us : now_us) + ask->cost_us;
    return *full_us - ask->burst_us - now_us;
}

/* What hf_inspect shows of a time that is left. */
static inline uint32_t hf__rate_left_ms(int64_t left_us)
{
    int64_t left_ms = left_us > 0 ? (left_us + 999) / 1000 : 0;
    return left_ms < UINT32_MAX ? (uint32_t)left_ms : UINT32_MAX;
}

/* A request that makes no claim. The engine sets `code` (an hf_code, with `error` for all but
 * HF_OK, HF_BUSY and HF_LOST) and calls hf__oneshot_done once. It is never asked for a verb that
 * its caps exclude. The caller may have left before the answer. */
struct hf_oneshot {
    /* In. */
    enum hf_oneshot_verb verb;
    const char *name; /* ends with a NUL; lives until the answer */
    uint32_t name_length;
    uint64_t name_hash;
    uint32_t value;   /* SEMAPHORE, COUNTER, LATCH */
    const char *key;  /* BREAK */
    struct hf_op *op; /* RENEW, DETACH: the same claim until the answer; attempts and releases of it
                         go on meanwhile */
    int64_t lease_ms, asked_at_ms;
    struct hf_rate_ask rate; /* RATE_TAKE */
    bool unwanted;           /* the caller has left: the engine answers INSPECT as soon as it can */
    /* Out. */
    int code;
    bool contacted; /* the store has replied; not set where the engine answers by itself */
    uint32_t result;
    int64_t delay_us; /* RATE_TAKE: after which the permits are there */
    char key_out[HF_OWNER_KEY_SIZE];
    char *guard; /* GUARD: HF_GUARD_SIZE bytes, which live until the answer */
    hf_error *error;
    /* The engine's own; NULL at first. The core frees it where `close` drops the request. */
    void *engine_pointer;
    /* The core's. */
    struct hf_task answer;
};

/* What the core offers to an engine. Lives longer than the engine. */
struct hf_host {
    struct hf_loop *loop;
    struct uv_loop_s *uv;   /* NULL in simulations */
    uint64_t id[2];         /* the client's; it begins with HF_PROCESS_DIGITS of its process */
    const char *owner_text; /* user@host:pid program, or the user's choice */
    const char *host_name;
    uint64_t token_floor;       /* 0: none; see raises_tokens */
    int64_t lease_ms;           /* for claims without a lease of their own */
    int64_t request_timeout_ms; /* no answer on the calling thread takes longer; 0: no limit */
    bool turns_rarely;          /* the loop may stand still for as long as the program likes */
    bool existing_only; /* `open` makes no store where there is none: HF_UNREACHABLE, ENOENT */
    void *core;
    struct hf_tap *tap;           /* NULL, or what sees each answer first (engine_tap.h) */
    _Atomic uint64_t *reconnects; /* counts connections that were made again; may be NULL */
};

struct hf_engine_ops {
    const char *name;
    const char *const *schemes; /* ends with NULL */
    unsigned caps;              /* HF_CAP_... */
    bool forgets;       /* names leave something at the store, and HF_ONESHOT_FORGET removes it */
    bool names_threads; /* hf_entry.thread is told, of holders and of waiters */
    bool raises_tokens; /* host->token_floor is kept: each grant of this client has a larger one */

    /* ---- Seven slots that every engine fills ---- */

    /* Opens without waiting for the store where that would block. `url` has been parsed, and lives
     * as long as the engine. HF_OK, or a code with *error filled. */
    int (*open)(struct hf_engine **ret, const struct hf_host *host, struct hf_url *url,
                hf_error *error);
    /* No claim is left by then, unless the store was silent for too long: what is still out is
     * dropped without an answer. Closes its handles, frees itself, and calls `closed` once,
     * possibly from inside. */
    void (*close)(struct hf_engine *engine, void (*closed)(void *arg), void *arg);
    void (*attempt)(struct hf_engine *engine, struct hf_op *op);
    /* After a granted HF_COUNTER that no caller waits for any more, it gives the units back. With
     * nothing to keep, the core may give the op up before the answer comes, when everything that
     * could be left has ended by itself; an engine that still has it in a queue finds it by its own
     * means (hf__op_done on a reused op is the engine's mistake). */
    void (*release)(struct hf_engine *engine, struct hf_op *op);
    void (*renew)(struct hf_engine *engine, struct hf_lease *lease); /* -> hf__lease_answer */
    void (*oneshot)(struct hf_engine *engine, struct hf_oneshot *oneshot);
    /* In the child after fork(): closes what it shares with the parent, and tells the store
     * nothing. */
    void (*forked)(struct hf_engine *engine);

    /* ---- Five that may be NULL ---- */

    /* The client is closed, and what this op has at the store, or may have, has not been released.
     * Sends a last release, and does not wait for its answer. `close` comes next, and gives it the
     * time to leave; after that the op's memory goes. Never answers, and calls nothing back. */
    void (*dismiss)(struct hf_engine *engine, struct hf_op *op);
    /* The op is held on a lease of its own, and nothing about it is out. True: the engine knows it
     * by nothing but what it carries, so that its memory may serve another claim. Before it is
     * asked about again, another op carries the same: the name, the owner, mode, token, enqueue,
     * engine.word, engine.known and the lease, with everything else as in a new one. */
    bool (*compact)(struct hf_engine *engine, struct hf_op *op);
    /* With HF_CAP_DETACH: HF_ONESHOT_DETACH. */
    void (*detach)(struct hf_engine *engine, struct hf_oneshot *oneshot);
    /* A time-out ends while an attempt is out, or a request that is no op's (NULL). The engine may
     * hf__explain, with HF_UNREACHABLE, what it knows of the answers that are missing. */
    void (*why_silent)(struct hf_engine *engine, struct hf_op *op, hf_error **error);
    /* For an engine that replies without I/O (engine_sync.h). */
    const struct hf_engine_sync_ops *sync;
};

/* Every engine's own struct begins with this. */
struct hf_engine {
    const struct hf_engine_ops *ops;
    const struct hf_host *host;
    /* With HF_CAP_SCHEMA: the statements that make the tables, and those that let USER use them.
     * Set by `open`. */
    const char *schema, *grants;
};

/* ---- How an engine answers (implemented by the core) ---- */

/* Once per attempt and release (not those of engine_sync.h), with op->out.verdict set. May be
 * called from inside the question: the core reads it later (sentence 4 is kept here, once, for all
 * engines). */
void hf__op_done(struct hf_engine *engine, struct hf_op *op);

/* A hint that asking again is worth it. Spurious ones are welcome. Loop only. */
void hf__op_wake(struct hf_op *op);

/* For an engine without wakes, to which a release of the claim `op` has just been confirmed: the
 * claim of the same client that waits for the same name, and is to ask next. NULL: there is none.
 * Loop only. */
struct hf_op *hf__op_next(struct hf_op *op);
/* Does this client hold the name, or is it releasing it, so that hf__op_next is going to tell? Loop
 * only. */
bool hf__op_is_held_here(struct hf_op *op);

/* What has become of a request to renew a lease. */
enum hf_lease_answer {
    HF_LEASE_RENEWED,   /* the store has confirmed it */
    HF_LEASE_GONE,      /* the store says that it is not held any more; definite */
    HF_LEASE_REFUSED,   /* the store serves others, but does not renew this lease for now */
    HF_LEASE_NOT_READY, /* the store serves no client for now; attempts get NO_ANSWER meanwhile */
    HF_LEASE_NO_ANSWER  /* there will be no reply */
};

/* Reports an answer about `lease` to a request that left at asked_at_ms. Loop only; may be called
 * from inside `renew`, and also for a confirmation that no `renew` has asked for.
 *  length_ms: RENEWED: its length from now on, counted from asked_at_ms, which may be shorter than
 *             before. 0: unchanged; then an older asked_at_ms than the known one changes nothing.
 *  reason:    REFUSED, NOT_READY: a sentence that lives as long as the engine, the same pointer for
 *             the same words. Holders get it as an event, and as the reason of a loss if the lease
 *             ends before it is confirmed again.
 * NO_ANSWER is optional: where the engine says nothing, the deadline stands, and `renew` is called
 * again. It frees the place of this renewal among those that are out. */
void hf__lease_answer(struct hf_lease *lease, int64_t asked_at_ms, enum hf_lease_answer answer,
                      int64_t length_ms, const char *reason);

/* This one grant is no longer ours, though what it rests on is (its node was deleted, say). Does
 * nothing for an op that is not held. `reason` is static. Loop only. */
void hf__op_lost(struct hf_op *op, const char *reason);

/* The answer of a one-shot request, once; like hf__op_done, also from inside the question. */
void hf__oneshot_done(struct hf_engine *engine, struct hf_oneshot *oneshot);
/* INSPECT: copies the entry. On the thread that answers the request. */
void hf__oneshot_entry(struct hf_oneshot *oneshot, const hf_entry *entry);
/* DIAGNOSE: copies the remark. Loop only. */
void hf__oneshot_remark(struct hf_oneshot *oneshot, const hf_remark *remark);
/* The store has answered a part of it: the caller's time-out begins anew. Loop only. */
void hf__oneshot_progress(struct hf_oneshot *oneshot);

/* Explains NO_ANSWER, FAILED and error codes: one sentence, what is wrong, where, what to do. */
__attribute__((format(printf, 4, 5))) void hf__op_explain(struct hf_op *op, int code, int native,
                                                          const char *format, ...);
__attribute__((format(printf, 4, 5))) void hf__explain(hf_error **error, int code, int native,
                                                       const char *format, ...);

/* To the client's event sink; any thread. */
void hf__host_event(const struct hf_host *host, hf_event_type type, const char *name,
                    uint64_t token, const char *text);
bool hf__host_wants_events(const struct hf_host *host);

#endif
