/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast: distributed locks with one API and one set of guarantees over many stores.
 *
 * This header is the contract, and it reads from top to bottom as a tutorial:
 *
 *     hf_client *client;
 *     hf_hold *hold;
 *     if (hf_open(&client, "local:", NULL) != HF_OK)
 *         return complain(hf_last_error()->text);
 *     if (hf_lock(client, "orders/42", 1000, NULL, &hold) == HF_OK) {
 *         // claim_order and write_order give the token to the resource, see section 4
 *         if (claim_order(42, hf_token(hold)) && read_order(42, &order))
 *             write_order(42, change(order), hf_token(hold));
 *         hf_unlock(hold);
 *     }
 *     hf_close(client);
 *
 * Conventions that hold everywhere:
 *
 *  - Times are milliseconds, relative, and say so in their name. HF_FOREVER (-1) waits for ever,
 *    0 does not wait, other negative values are refused with HF_EINVAL.
 *  - Strings that you pass in are copied; strings that you are handed belong to the library, and
 *    the comment says until when they live.
 *  - Every function may be called from any thread unless its comment says otherwise.
 *  - Callbacks run on the client's loop, never inside the call that asked for them. They must not
 *    block: blocking calls on the same client answer HF_EDEADLK there, and while one runs no other
 *    does, on_lost of other holds included. Another client may be called.
 *  - A hold belongs to no thread: any may use it and give it back. A NULL hold or client is no
 *    crash: giving it back does nothing, and all else answers "no", 0, "" or HF_EINVAL.
 *  - No function is a cancellation point. A thread that is cancelled (pthread_cancel) inside one,
 *    or in a callback that runs there, ends after the function has returned. A lock that it was
 *    granted by then is still its own to release (pthread_cleanup_push).
 *  - The library never prints, never exits and installs no signal handlers.
 */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HF_VERSION_MAJOR 0
#define HF_VERSION_MINOR 1
#define HF_VERSION_PATCH 0

#if defined(__GNUC__)
#define HF_API __attribute__((visibility("default")))
/* The answer has to be looked at: without HF_OK there is no hold, or not the one that was asked
 * for. */
#define HF_LOOK __attribute__((warn_unused_result))
#else
#define HF_API
#define HF_LOOK
#endif

/* Wait without a limit. */
#define HF_FOREVER ((int64_t)-1)

/* The default of a client's request_timeout_ms. */
#define HF_REQUEST_TIMEOUT_MS 5000

/* The longest lock name, in bytes. A name is any bytes but NUL, at least one. */
#define HF_NAME_MAX 1024

/* Room for an owner key as text, with its NUL (see hf_detach). */
#define HF_OWNER_KEY_SIZE 64

/* The version of the library that runs, such as "0.1.0". Static. */
HF_API const char *hf_version(void);

/* ---- 1. Answers --------------------------------------------------------------------------
 *
 * Every call answers with one of these codes. They say what to *do*, and never confuse "somebody
 * else has it" with "the store could not be asked". */
typedef enum hf_code {
    HF_OK = 0,
    /* Answers: the store has been asked and said so. */
    HF_BUSY = 1,     /* somebody else holds it, and wait_ms is over (or was 0) */
    HF_LOST = 2,     /* you held it, and lost it: what you did since may have met another owner */
    HF_CANCELED = 3, /* you cancelled the request */
    /* The store could not be asked, or will not talk to you. */
    HF_UNREACHABLE = 4, /* no answer in time; whatever was left there is being cleaned up */
    HF_DENIED = 5,      /* the store refuses you: permission, password, ownership */
    /* Errors: the call cannot work as it stands. */
    HF_EINVAL = 6,    /* an argument is wrong; the sentence says which */
    HF_EDEADLK = 7,   /* the caller would wait for itself */
    HF_EKIND = 8,     /* the name is in use as another kind of thing, or with other permits */
    HF_ENOTSUP = 9,   /* this engine cannot do that */
    HF_EFORKED = 10,  /* the client was opened in the parent of this process */
    HF_ECLOSED = 11,  /* the client is being closed */
    HF_ENOMEM = 12,   /* out of memory; nothing has changed */
    HF_ELIMIT = 13,   /* a limit is reached: of the store (sessions, names, disk space), or of this
                         process (descriptors, threads) */
    HF_ECORRUPT = 14, /* the store's state is damaged, foreign, or of another version */
    HF_EINTERNAL = 15 /* the library found itself in a state that cannot be; please report it */
} hf_code;

/* The code's name ("HF_BUSY"), and a short sentence for it. Static, for unknown codes too. */
HF_API const char *hf_code_name(int code);
HF_API const char *hf_code_text(int code);

/* The sentence for the human: what is wrong, where, and what to do about it. */
typedef struct hf_error {
    int code;       /* an hf_code */
    int native;     /* the store's or the system's own number (errno), or 0 */
    char text[360]; /* one line, no newline, passwords removed */
} hf_error;

/* What the calling thread's last call that did not answer HF_OK had to say. Never NULL. Lives, and
 * stays unchanged, until the thread's next call into the library. */
HF_API const hf_error *hf_last_error(void);

/* ---- 2. Clients --------------------------------------------------------------------------
 *
 * A client is one connection (or one pool, or one mapped file) to one store. Open one for a
 * process and share it among all threads. */
typedef struct hf_client hf_client;

/* A caller that turns the loop looks for its answer for up to a tenth of a millisecond before it
 * sleeps, giving the processor away in between, as long as answers come that soon from another
 * processor than its own. */
typedef enum hf_driver {
    HF_DRIVE_THREAD = 0, /* a thread of the client turns the loop: the default. A blocking call may
                            do so in its place while it waits, and hf_unlock_nowait for a moment
                            (they take up to 128 KiB of stack), but callbacks of holds and requests
                            run on the client's thread */
    HF_DRIVE_CALLER = 1  /* no thread: blocking calls turn the loop, hf_dispatch turns it between
                            them; such a client may be used by one thread at a time. While neither
                            runs, no lease is renewed and no callback runs, on_lost included:
                            dispatch when hf_fd is readable, at least every third of the lease */
} hf_driver;

typedef enum hf_event_type {
    HF_EVENT_GRANTED = 0,    /* a lock was granted; not sent for nested holds */
    HF_EVENT_WAITING = 1,    /* a request was refused, or has to queue, and begins to wait */
    HF_EVENT_RELEASED = 2,   /* a lock was given back */
    HF_EVENT_LOST = 3,       /* a lock was lost */
    HF_EVENT_TAKEOVER = 4,   /* what an owner that is gone had was taken back */
    HF_EVENT_STORE_DOWN = 5, /* the store stopped answering: sent once, for all names (""); in turn
                                with the next where only one of several connections is silent */
    HF_EVENT_STORE_UP = 6,   /* it has answered a question again, likewise */
    HF_EVENT_NOT_RENEWED = 7 /* the store answers, but refuses to renew a lock (you may no longer do
                                it, say), which is yours until its lease is over: sent once for each
                                reason, until it is renewed again */
} hf_event_type;

typedef struct hf_event {
    size_t size;
    hf_event_type type;
    const char *name; /* the lock's name, or "" */
    uint64_t token;   /* or 0 */
    const char *text; /* one line for a log; of STORE_DOWN, the reason where it is known; of
                         NOT_RENEWED, what will be the loss's */
} hf_event;

/* Called on whichever thread the event happens; must not block, fork or call the library. The
 * event and its strings live until the function returns. */
typedef void hf_event_cb(void *arg, const hf_event *event);

/* For tests, and for holdfast torture: where the library is just now in acquiring, renewing, losing
 * or giving back `name`, so that somebody may stop the thread, or end the process, where it hurts
 * most:
 *
 *     before_ask       the store is about to be asked
 *     queued           it has said no; the request has its place in the queue, and goes to sleep
 *     displaced        the lease or session that the place rests on is lost; it asks for another
 *     after_answer     it has granted, and nobody has been told
 *     before_return    the caller is about to hear its answer
 *     before_renew     a lease is about to be asked to go on
 *     after_renew      the store has answered that; the new deadline does not count yet
 *     before_loss      a hold is about to be marked as lost
 *     before_release   the store is about to be asked to take something back
 *     after_release    it has, and nobody has been told
 *
 * What nobody else wants may be taken or given back, passing none. Points may be added. Runs on any
 * thread, and may block it; must not call the library. `name` lives until the function returns. */
typedef void hf_point_cb(void *arg, const char *point, const char *name);

typedef struct hf_client_options {
    size_t size; /* set by HF_CLIENT_OPTIONS_INIT */
    hf_driver driver;
    int64_t lease_ms;       /* lease of holds without one of their own; 0: 30,000. At least 100,
                               else HF_EINVAL. Engines whose store sees a process die (local:) need
                               no lease and ignore it */
    const char *owner_text; /* who you are, for hf_inspect; NULL: user@host:pid program, for which
                               the system looks up the user, maybe in a directory far away */
    hf_event_cb *on_event;  /* where events go; NULL: nowhere */
    void *event_arg;
    bool existing_only;    /* where the store is missing, do not make one: HF_UNREACHABLE instead */
    hf_point_cb *on_point; /* NULL: none, which costs nothing */
    void *point_arg;
    /* How long a call without a wait_ms of its own waits for a store that does not answer:
     * hf_unlock and hf_downgrade, everything with wait_ms 0, the one-shot verbs of sections 5, 7
     * and 8, and hf_close for all that it gives back together. 0: HF_REQUEST_TIMEOUT_MS. At least
     * 10, else HF_EINVAL. What was asked by then is given back, or repeated, afterwards. */
    int64_t request_timeout_ms;
} hf_client_options;

/* The defaults, in C from C99 on and in C++ from C++11 on:
 *
 *     hf_client_options options = HF_CLIENT_OPTIONS_INIT;
 *     options.driver = HF_DRIVE_CALLER;
 *
 * HF_CLIENT_OPTIONS(.driver = HF_DRIVE_CALLER) is the same as one expression, in C only. Its
 * address may be given to a call; like every compound literal it lives until the block ends.
 */
#ifdef __cplusplus
#define HF_CLIENT_OPTIONS_INIT hf_client_options_init()
static inline hf_client_options hf_client_options_init(void)
{
    hf_client_options options = {};
    options.size = sizeof(options);
    return options;
}
#else
#define HF_CLIENT_OPTIONS_INIT                                                                     \
    {                                                                                              \
        .size = sizeof(hf_client_options)                                                          \
    }
#define HF_CLIENT_OPTIONS(...)                                                                     \
    ((hf_client_options){ .size = sizeof(hf_client_options), __VA_ARGS__ })
#endif

/* Opens the store that `url` names: "local:", "local:///run/myapp?ns=jobs". NULL: $HOLDFAST_URL,
 * or "local:" where that is not set. `options` may be NULL. holdfast-url(7) lists schemes and
 * options. A store behind a network is not asked yet: a dead server or a wrong password is the
 * answer of the first call. HF_OK: *ret is yours, to be given to hf_close. Else *ret is NULL. */
HF_API HF_LOOK int hf_open(hf_client **ret, const char *url, const hf_client_options *options);

/* Gives every hold back, ends every request with HF_ECLOSED (their callbacks run before hf_close
 * returns), and frees the client with all its holds. Threads that still block in a call on this
 * client come back with HF_ECLOSED first. No new call may begin once hf_close has begun. What a
 * silent store does not confirm within request_timeout_ms is left to it, be it held or just asked
 * for, and ends with its lease or session; a store that is known to be silent (HF_EVENT_STORE_DOWN)
 * has a second. In a forked child it frees memory only. Not from a callback. NULL is fine. */
HF_API void hf_close(hf_client *client);

/* What the engine behind a client can do: an OR of these. */
#define HF_CAP_MUTEX 0x001u
#define HF_CAP_FAIR 0x002u
#define HF_CAP_RW 0x004u
#define HF_CAP_UPGRADE 0x008u
#define HF_CAP_PERMIT 0x010u  /* leased permits */
#define HF_CAP_COUNTER 0x020u /* plain counter */
#define HF_CAP_LATCH 0x040u
#define HF_CAP_TOKEN 0x080u  /* fencing tokens */
#define HF_CAP_DETACH 0x100u /* hf_detach, hf_attach */
#define HF_CAP_INSPECT 0x200u
#define HF_CAP_BREAK 0x400u
#define HF_CAP_INSPECT_ALL 0x800u /* hf_inspect without a name misses nothing that is in use */
HF_API unsigned hf_caps(const hf_client *client);

/* The URL the client was opened with, password removed. Lives as long as the client. */
HF_API const char *hf_url(const hf_client *client);

/* ---- 3. Locking --------------------------------------------------------------------------
 *
 * Acquiring returns a *hold*. The hold is the proof: it carries the token, the deadline and the
 * loss signal, and giving back needs it. */
typedef struct hf_hold hf_hold;

typedef enum hf_mode {
    HF_MUTEX = 0,   /* exclusive; a newcomer may overtake waiters for a short while (barging), which
                       is fastest; nobody starves */
    HF_FAIR = 1,    /* exclusive; first come, first served, by arrival at the store */
    HF_READ = 2,    /* read-write lock, shared: many at a time */
    HF_UPGRADE = 3, /* read-write lock, shared with readers, but one at a time: the one who may go
                       on to HF_WRITE without letting anybody in between */
    HF_WRITE = 4,   /* read-write lock, exclusive */
    HF_PERMIT = 5,  /* semaphore: `permits` of its permits, which come back if their owner dies */
    HF_COUNTER = 6, /* plain counter: take `permits` from it; nobody owns them, there is no hold */
    HF_LATCH = 7    /* count-down latch: wait until it is at zero; there is no hold */
} hf_mode;

/* A name is one thing at a time: a mutex, a fair mutex, a read-write lock, a semaphore, a counter
 * or a latch. Asking for another while it is in use answers HF_EKIND, as far as the store's format
 * tells them apart (Redisson's, on Redis, does not tell a fair mutex from a plain one). */

/* Why and what was lost. Lives until the callback returns. */
typedef struct hf_loss {
    size_t size;
    const char *name;
    uint64_t token;
    const char *reason; /* one line; the store's words, where it has refused to renew it */
} hf_loss;

/* Runs once per hold, on the client's loop, when the hold is lost, unless hf_unlock finds that out
 * first. It is due before any other owner can exist, with a margin of 2 ms and a hundredth of the
 * lease for the loop to get a processor; hf_held is false by then in any case. (A forced break
 * takes the lock at once, and so does a store that forgets what it was told or whose clock jumps,
 * see docs/guarantees.md: there the token fences you.) Once hf_unlock has returned, it is neither
 * running nor going to; so do not hold, around hf_unlock, a mutex that on_lost takes, and mind that
 * hf_unlock_nowait waits for one that runs.
 *
 * It may itself call hf_unlock_nowait on the hold, if it has it: it may run before hf_lock has
 * returned on another thread, so what it reads there needs a mutex or an atomic of yours. What a
 * `done` has put down it can read: both run on the loop, in this order. */
typedef void hf_lost_cb(void *arg, const hf_loss *loss);

typedef struct hf_lock_options {
    size_t size; /* set by HF_LOCK_OPTIONS_INIT */
    hf_mode mode;
    uint32_t permits;       /* HF_PERMIT, HF_COUNTER: how many to take; 0 means 1 */
    uint32_t limit;         /* HF_PERMIT: create the semaphore with this many permits unless it
                               exists; if it exists with another number: HF_EKIND. 0: it must exist,
                               else HF_EKIND */
    int64_t lease_ms;       /* 0: held until you unlock, and renewed as long as the process lives
                               (with HF_DRIVE_CALLER: as long as it dispatches). > 0: ends by itself
                               after so long; at least 10, else HF_EINVAL */
    uint64_t owner;         /* 0: the calling thread (hf_lock), or the request itself, shared with
                               nobody (hf_lock_async). HF_OWNER_NEW: an owner that nothing else is.
                               Else a number of your choice below 2^62: a task, a fibre. Numbers
                               count within one client: another client's 7 is another owner */
    const char *owner_text; /* shown by hf_inspect where the store keeps it (Redis: the client's
                               alone); NULL: the client's */
    hf_lost_cb *on_lost;    /* NULL: none */
    void *lost_arg;
    bool no_reentry; /* where this owner holds the name already: HF_EDEADLK, not a second hold */
} hf_lock_options;

/* For `owner`: the call is an owner of its own. It never re-enters, and nothing re-enters its hold.
 */
#define HF_OWNER_NEW UINT64_MAX

/* As HF_CLIENT_OPTIONS_INIT and HF_CLIENT_OPTIONS. */
#ifdef __cplusplus
#define HF_LOCK_OPTIONS_INIT hf_lock_options_init()
static inline hf_lock_options hf_lock_options_init(void)
{
    hf_lock_options options = {};
    options.size = sizeof(options);
    return options;
}
#else
#define HF_LOCK_OPTIONS_INIT                                                                       \
    {                                                                                              \
        .size = sizeof(hf_lock_options)                                                            \
    }
#define HF_LOCK_OPTIONS(...) ((hf_lock_options){ .size = sizeof(hf_lock_options), __VA_ARGS__ })
#endif

/* Acquires `name`, waiting at most `wait_ms` (HF_FOREVER, 0: do not wait). `options` may be NULL: a
 * mutex for the calling thread, without a lease of its own.
 *
 * The owner that holds the name already re-enters at once, without asking the store, and gets a
 * second hold on the same grant; the last hf_unlock gives it back. A reader that holds HF_WRITE or
 * HF_UPGRADE may take HF_READ (so "take read, unlock write" is a downgrade), HF_UPGRADE may take
 * HF_WRITE (waits for the readers to leave), but HF_READ that asks for HF_WRITE or HF_UPGRADE is
 * answered HF_EDEADLK: two such readers would wait for each other. All holds on a grant have the
 * lease that its first one was taken with, whatever `lease_ms` a nested one asks for, so it may end
 * under a nested hold that was to be held until it is given back. Permits are never re-entered:
 * each call takes its own. As long as an owner's first request is not granted, a second one of the
 * same owner queues behind it as another owner's would; no_reentry refuses only what is held.
 *
 *   +-- Warning: an owner is a thread by default ------------------------------------------------+
 *   | Where one thread serves several tasks (a thread pool, coroutines, asyncio, an event loop), |
 *   | the second task re-enters the first one's lock: both are answered HF_OK, with one token,   |
 *   | and nothing excludes them. There, use HF_OWNER_NEW, or a number for each task. no_reentry  |
 *   | answers HF_EDEADLK instead, and so finds such a mistake. A task must not block its thread  |
 *   | in hf_lock either: another task of that thread may have to release the lock. Use           |
 *   | hf_lock_async, or wait_ms 0 and try again.                                                 |
 *   +--------------------------------------------------------------------------------------------+
 *
 * HF_OK: *ret is yours, to be given to hf_unlock or hf_unlock_nowait (NULL for HF_COUNTER and
 *        HF_LATCH, where `ret` may be NULL too).
 * HF_BUSY, HF_UNREACHABLE, HF_DENIED, HF_E...: *ret is NULL, and nothing of yours is or will be
 * left at the store: no queue entry, no late grant (unless you close the client, or exit, before
 * the store answers: then for up to a lease). The answer comes when wait_ms is over, also from a
 * store that hangs: HF_UNREACHABLE, if it was silent throughout the last second of the wait (behind
 * another thread of this client that wants the same name: as far as that one has noticed). With
 * wait_ms 0 there is one attempt, which may take up to request_timeout_ms. Cleaning up goes on
 * behind your back, until hf_close. */
HF_API HF_LOOK int hf_lock(hf_client *client, const char *name, int64_t wait_ms,
                           const hf_lock_options *options, hf_hold **ret);

/* Gives the hold back and frees it, whatever the answer; waits for the store's answer.
 * HF_OK: given back. HF_LOST: it had been lost before; where hf_held was false, a store that does
 * not answer has half a second, and is cleaned up behind your back. HF_UNREACHABLE: no answer
 * within request_timeout_ms, or before its lease was over; it ends with that at the latest, and the
 * library keeps trying until then. NULL is fine. */
HF_API int hf_unlock(hf_hold *hold);

/* The same without waiting for the store; what hf_unlock is in a callback. It may do a little of
 * what is left over from other calls, and on_event may hear of that inside of it; no other callback
 * runs there. The release may leave a little later: a process that ends before it does, and without
 * hf_close, keeps others waiting until the lease is over. */
HF_API void hf_unlock_nowait(hf_hold *hold);

/* ---- 4. What a hold knows ----------------------------------------------------------------
 *
 * These ask nobody: no I/O, no waiting, callable anywhere, in a hot loop too. A hold must not be
 * used after it was given back. */

/* True only while no other owner can exist, by a clock that goes on in suspend, counted from before
 * the question left; that is, as long as the store keeps what it was told, and nobody breaks the
 * lock by force (docs/guarantees.md). Once false it stays false. Between hf_held and your write a
 * pause can still happen. Only a fenced resource refuses the late write: see hf_token. */
HF_API bool hf_held(const hf_hold *hold);

/* How long hf_held stays true without renewal: >= 0; INT64_MAX where no lease limits it. */
HF_API int64_t hf_remaining_ms(const hf_hold *hold);

/* The fencing token: larger than that of every earlier exclusive grant of this name at this store.
 * Shared holds carry the token of the last exclusive one, or a larger one of their own. 0 on
 * engines without HF_CAP_TOKEN. How a resource uses it:
 *
 *  1. Claim: the first request after the grant gives the token to the resource. In one atomic step
 *     the resource refuses the token if it has stored a larger one, else stores it.
 *  2. Read only after the claim was accepted.
 *  3. Write with the token: the resource compares it in the same transaction as the write, and
 *     refuses the write if it has stored a larger one.
 *
 * Comparing tokens at the write alone loses updates: an owner that wakes late may write after the
 * next owner has read and before it has written. docs/fencing.md has snippets for SQL, Redis, files
 * and HTTP. */
HF_API uint64_t hf_token(const hf_hold *hold);

/* The name, as you gave it; lives as long as the hold. */
HF_API const char *hf_hold_name(const hf_hold *hold);

/* What is held now: HF_WRITE becomes HF_READ by hf_downgrade. */
HF_API hf_mode hf_hold_mode(const hf_hold *hold);

/* ---- 5. Changing a hold ------------------------------------------------------------------ */

/* HF_UPGRADE to HF_WRITE, in place, once the readers have left. The hold stays what it was unless
 * the answer is HF_OK; a lease of its own (lease_ms) goes on as it was. An earlier HF_WRITE of this
 * owner that is still asked for, or being given back, comes first, within wait_ms. HF_EDEADLK: the
 * hold is HF_READ. HF_EINVAL: it is no read-write hold. */
HF_API HF_LOOK int hf_upgrade(hf_hold *hold, int64_t wait_ms);

/* HF_WRITE or HF_UPGRADE to the weaker `mode`, in place, at once, letting nobody in between. The
 * strongest of the owner's holds counts: another HF_WRITE of its keeps readers out as before.
 * HF_UNREACHABLE: no answer; it is repeated until there is one. HF_DENIED, HF_E...: the store
 * refuses; the hold is what it was. */
HF_API int hf_downgrade(hf_hold *hold, hf_mode mode);

/* Gives the hold a lease of `lease_ms` from now, never shorter than what it has left.
 * HF_LOST: too late. HF_EINVAL: less than 10, or the hold has no lease of its own. HF_UNREACHABLE:
 * the hold is what it was, and its lease as long as it was; it becomes longer if the answer still
 * comes. */
HF_API HF_LOOK int hf_renew(hf_hold *hold, int64_t lease_ms);

/* Lets a hold with a lease of its own live on without this process: frees `hold`, leaves the lock
 * with its lease, and writes the key by which hf_attach finds it again. For scripts that lock in
 * one process and unlock in another. The hold must be the only one of its owner on that name
 * (else HF_EINVAL). An earlier change of it that has not ended is waited for, as after a refused
 * hf_upgrade, within request_timeout_ms; HF_BUSY: another thread's hf_upgrade still waits then.
 *
 * With any answer but HF_OK, `hold` is still yours, and held for as long as it was. After
 * HF_UNREACHABLE the store may have detached it or not: ask again for the key, or give it back with
 * hf_unlock, or leave it to its lease; each works in either case. */
HF_API HF_LOOK int hf_detach(hf_hold *hold, char owner_key[HF_OWNER_KEY_SIZE]);

/* Takes over what hf_detach left. HF_LOST: nobody holds `name` under this key (any more). */
HF_API HF_LOOK int hf_attach(hf_client *client, const char *name, const char *owner_key,
                             hf_hold **ret);

/* ---- 6. Without blocking -----------------------------------------------------------------
 *
 * Every request is answered exactly once, through its callback, on the client's loop. */
typedef uint64_t hf_request; /* names a request; 0 is none; never reused within 2^30 requests */

/* `code` as hf_lock answers it; `error` is its sentence (NULL with HF_OK), and lives until the
 * callback returns; `hold` is yours with HF_OK, and NULL for HF_COUNTER and HF_LATCH. */
typedef void hf_done_cb(void *arg, int code, hf_hold *hold, const hf_error *error);

/* Begins what hf_lock does. HF_OK: `done` will be called once. Else it will not, and the answer
 * says why; HF_BUSY: an earlier HF_WRITE of this owner is still asked for, or being given back.
 * `ret` may be NULL. */
HF_API HF_LOOK int hf_lock_async(hf_client *client, const char *name, int64_t wait_ms,
                                 const hf_lock_options *options, hf_done_cb *done, void *arg,
                                 hf_request *ret);

/* Asks a request to end with HF_CANCELED; it may still end otherwise, if its answer was on the way.
 * Harmless at any time, also for requests that have ended. */
HF_API void hf_cancel(hf_client *client, hf_request request);

/* For programs with a loop of their own (HF_DRIVE_CALLER). Poll this descriptor for reading, and
 * call hf_dispatch when it is readable: it runs what is due, callbacks included, and never blocks.
 * The descriptor belongs to the client. With HF_DRIVE_THREAD: -1, and HF_EINVAL. */
HF_API int hf_fd(const hf_client *client);
HF_API int hf_dispatch(hf_client *client);

/* ---- 7. Semaphores, counters, latches ---------------------------------------------------- */

/* Sets how many permits semaphore `name` has in all; creates it. Fewer than are taken now is fine:
 * nobody gets one until enough came back. Who waits for more than there are from then on is told so
 * within seconds: HF_EINVAL, or HF_EKIND if it named another limit. It stands in nobody's way then.
 * Of what waits for the name in one client, only the first is told; the others are when it is their
 * turn. 0 removes it, once nobody holds a permit (else HF_BUSY). */
HF_API int hf_semaphore_set(hf_client *client, const char *name, uint32_t permits);

/* The plain counter: a number that anybody may add to and take from, and that no death gives back.
 * hf_counter_set creates it or overwrites its value; hf_counter_add creates it at 0 first;
 * hf_counter_remove forgets it; who waits for some of it waits on. Taking is hf_lock with
 * HF_COUNTER, or hf_counter_take. */
HF_API int hf_counter_set(hf_client *client, const char *name, uint32_t value);
HF_API int hf_counter_add(hf_client *client, const char *name, uint32_t amount);
HF_API HF_LOOK int hf_counter_take(hf_client *client, const char *name, uint32_t amount,
                                   int64_t wait_ms);
HF_API int hf_counter_get(hf_client *client, const char *name, uint32_t *ret_value);
HF_API int hf_counter_remove(hf_client *client, const char *name);

/* A latch is set to a count, counted down, and opens at zero, which is also what a latch that was
 * never set is at. hf_latch_set answers HF_BUSY while the latch is above zero: count it down first.
 * `ret_left` may be NULL. */
HF_API int hf_latch_set(hf_client *client, const char *name, uint32_t count);
HF_API int hf_latch_down(hf_client *client, const char *name, uint32_t amount, uint32_t *ret_left);
HF_API int hf_latch_get(hf_client *client, const char *name, uint32_t *ret_left);
HF_API HF_LOOK int hf_latch_wait(hf_client *client, const char *name, int64_t wait_ms);

/* ---- 8. Looking and breaking ------------------------------------------------------------- */

typedef enum hf_kind {
    HF_KIND_FREE = 0, /* never stored: nothing is known of the name */
    HF_KIND_MUTEX = 1,
    HF_KIND_FAIR = 2,
    HF_KIND_RW = 3,
    HF_KIND_SEMAPHORE = 4,
    HF_KIND_COUNTER = 5,
    HF_KIND_LATCH = 6
} hf_kind;

typedef enum hf_role {
    HF_ROLE_OBJECT = 0, /* the thing itself: one entry per name, before its holders and waiters */
    HF_ROLE_HOLDER = 1,
    HF_ROLE_WAITER = 2
} hf_role;

typedef struct hf_entry {
    size_t size;
    const char *name;
    size_t name_length; /* bytes, without the NUL */
    hf_kind kind;
    hf_role role;
    /* HF_ROLE_OBJECT */
    uint32_t total; /* semaphore: its permits in all */
    uint32_t value; /* semaphore: free permits; counter: its value; latch: its count */
    uint64_t token; /* object: the last one granted; holder: its own. 0: none, or not known */
    /* HF_ROLE_HOLDER, HF_ROLE_WAITER */
    hf_mode mode;
    uint32_t permits;
    uint32_t rank;          /* waiter: 1 is next */
    const char *owner_key;  /* unique for an owner; what hf_break takes */
    const char *owner_text; /* what the owner says of itself, or "" */
    const char *host;       /* or "" */
    int64_t pid;            /* as its owner sees it, or 0 */
    int64_t since_ms;       /* how long ago the hold, or the wait, began; -1: nobody knows */
    int64_t lease_left_ms;  /* holder: -1 where no lease limits it */
} hf_entry;

/* Return false to stop. Runs on the calling thread, inside hf_inspect; may call the library. The
 * entry and its strings live until the function returns. */
typedef bool hf_entry_cb(void *arg, const hf_entry *entry);

/* Shows `name`, or every name in use if it is NULL: for each its object, holders, waiters in order.
 * Without HF_CAP_INSPECT_ALL (Redis) that is only what this library took within 12 hours, has set,
 * or waits for: what others hold is shown when it is asked for by its name. A name is a consistent
 * picture of one moment; several names are several moments. It ends when the store has said nothing
 * for request_timeout_ms. Where it does not return HF_OK, what was shown until then may be a part.
 */
HF_API int hf_inspect(hf_client *client, const char *name, hf_entry_cb *visit, void *arg);

/* Takes `name` away from the holder with this owner key, or from all holders if NULL. Their holds
 * are lost, their tokens are fenced by the next grant. They hear of it at once where the store
 * tells them (local:, zk:), and else with the next renewal, within a third of the lease; one with a
 * lease of its own, by hf_unlock or when that ends. `ret_count` (may be NULL): how many.
 * HF_BUSY: the name is held, but not under this key. HF_OK with a count of 0: nobody held it. */
HF_API int hf_break(hf_client *client, const char *name, const char *owner_key,
                    uint32_t *ret_count);

/* What a store says about itself, and what about it endangers locks. */
typedef struct hf_remark {
    size_t size;
    const char *what;        /* what is so; of a plain fact, its name */
    const char *value;       /* of a plain fact; NULL: this is a danger */
    const char *consequence; /* of a danger: what may come of it ... */
    const char *cure;        /* ... and what to do about it; else NULL */
    const char *id;          /* of a danger: its name, the same in all later versions; else NULL */
} hf_remark;

/* Return false to stop. Runs on the calling thread, inside hf_examine; may call the library. The
 * remark and its strings live until the function returns. */
typedef bool hf_remark_cb(void *arg, const hf_remark *remark);

/* Asks the store about itself, for whoever looks after it: what `holdfast doctor` says. An engine
 * that has nothing to say about its store says nothing, and HF_OK. Where a user may be limited to
 * some names (Redis), whether this one may do what the locks called `name` need is part of it;
 * NULL: what the locks of all names need. Neither touches a lock that is called so. What was said
 * before it failed is shown all the same. */
HF_API int hf_examine(hf_client *client, const char *name, hf_remark_cb *visit, void *arg);

#ifdef __cplusplus
}
#endif

#endif
