/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast: distributed locks with one API and one set of guarantees over many stores.
 *
 * This header is the contract. It can be read from top to bottom as a tutorial:
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
 * Conventions of all functions:
 *
 *  - Units. Times are in milliseconds, relative to the call, and have names that end in _ms.
 *    HF_FOREVER (-1) waits without a limit, 0 does not wait. Other negative values are refused
 *    with HF_EINVAL.
 *  - Ownership. Strings that you pass in are copied. Strings that you receive belong to the
 *    library; the comment says how long they live.
 *  - Threads. Any thread may call any function unless the comment says otherwise. A hold does not
 *    belong to a thread: any thread may use and release it.
 *  - Callbacks run on the client's loop, one at a time, never inside the call that asked for them.
 *    A callback must not block: while it runs, no other callback of the client runs, on_lost of
 *    other holds included. A blocking call on the same client returns HF_EDEADLK there. Calls on
 *    another client are allowed.
 *  - NULL. A NULL hold or client is not a crash. Releasing or closing NULL does nothing; other
 *    functions return false, 0, "" or HF_EINVAL.
 *  - Cancellation. No function is a cancellation point. A thread that is cancelled (pthread_cancel)
 *    inside one ends after the function has returned, and so does one in a callback. A lock that
 *    was granted to the thread by then has to be released by the thread (pthread_cleanup_push).
 *  - Signals. A blocked call goes on after the handler; none returns EINTR. A handler ends it by
 *    hf_stop_set (section 3), the only function that may be called in a handler. A handler must not
 *    fork: its child would go on in the call, which may wait for ever there, or return what is the
 *    parent's. The same holds for `interrupted` of an hf_stop.
 *  - The library never prints, never exits and installs no signal handlers.
 *
 * Common errors. Each list "Returns:" names what is particular to its function. Every function
 * that returns an hf_code may also return HF_EINVAL, HF_EDEADLK, HF_EFORKED, HF_ECLOSED and
 * HF_ENOMEM. If it has to ask the store (all but the functions of section 4), also HF_UNREACHABLE,
 * HF_DENIED, HF_ELIMIT, HF_ECORRUPT and HF_EINTERNAL. Section 1 says what each means.
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
/* The result must be checked: without HF_OK there is no hold, or not the one that was asked for. */
#define HF_LOOK __attribute__((warn_unused_result))
#else
#define HF_API
#define HF_LOOK
#endif

/* Wait without a limit. */
#define HF_FOREVER (-INT64_C(1))
/* The default of a client's request_timeout_ms. */
#define HF_REQUEST_TIMEOUT_MS 5000
/* The longest lock name, in bytes. A name has at least one byte, and no NUL. */
#define HF_NAME_MAX 1024
/* The size of a buffer for an owner key as text, with its NUL (see hf_detach). */
#define HF_OWNER_KEY_SIZE 64

/* Returns: the version of the library in use, such as "0.1.0". Static. */
HF_API const char *hf_version(void);
/* Returns: for each engine a line: schemes, and where it is or why it cannot load. free() it. */
HF_API char *hf_engines(void);

/* ---- 1. Result codes ---------------------------------------------------------------------
 *
 * A code says what to do next. "Another owner holds the lock" and "the store could not be asked"
 * are never the same code. */
typedef enum hf_code {
    HF_OK = 0,
    /* The store has answered. */
    HF_BUSY = 1,     /* another owner holds it, and wait_ms has passed (or was 0) */
    HF_LOST = 2,     /* it was held and is lost: another owner may have held it since */
    HF_CANCELED = 3, /* hf_cancel or an hf_stop has ended the request */
    /* The store could not be asked, or refuses this user. */
    HF_UNREACHABLE = 4, /* no reply in time; the store may have executed the request. The library
                           cleans up what the request has left */
    HF_DENIED = 5,      /* the store refuses this user: permission, password, ownership */
    /* The call cannot work as it is. */
    HF_EINVAL = 6,    /* an argument is NULL, too long or out of range; the error text says which */
    HF_EDEADLK = 7,   /* the caller would wait for itself, as in a callback of the same client, or
                         in a circle of threads that wait for each other */
    HF_EKIND = 8,     /* the name is in use as another kind of object, or with another limit */
    HF_ENOTSUP = 9,   /* this engine does not have the operation */
    HF_EFORKED = 10,  /* the client was opened in the parent of this process */
    HF_ECLOSED = 11,  /* hf_close has begun */
    HF_ENOMEM = 12,   /* out of memory; nothing has changed */
    HF_ELIMIT = 13,   /* a limit is reached: of the store (sessions, names, disk space), or of this
                         process (descriptors, threads) */
    HF_ECORRUPT = 14, /* the store's state or reply is damaged, foreign, or of another version */
    HF_EINTERNAL = 15 /* a bug of the library; please report it */
} hf_code;

/* Returns: the code's name ("HF_BUSY"), and a short sentence for it. Static; never NULL, also for
 * numbers that are no hf_code. */
HF_API const char *hf_code_name(int code);
HF_API const char *hf_code_text(int code);

/* An error for a human: what is wrong, where, and what to do about it. */
typedef struct hf_error {
    int code;       /* an hf_code */
    int native;     /* the number that the store or the system uses (errno), or 0 */
    char text[360]; /* one line without a newline, passwords removed */
} hf_error;

/* Returns: the error of the calling thread's last call that did not return HF_OK. Never NULL. It
 * belongs to the library and does not change until the thread's next call into the library. */
HF_API const hf_error *hf_last_error(void);

/* ---- 2. Clients --------------------------------------------------------------------------
 *
 * A client is one connection (or one pool, or one mapped file) to one store. Open one for a
 * process, and share it among all threads. */
typedef struct hf_client hf_client;

/* Which thread runs the event loop of a client.
 *
 * A thread that waits for a reply and runs the loop polls for up to 100 µs before it sleeps, as
 * long as replies come that soon from another processor. It yields the processor in between. */
typedef enum hf_driver {
    HF_DRIVE_THREAD = 0, /* the default: a thread of the client runs the loop. A blocking call may
                            run it in that thread's place while it waits, and hf_unlock_nowait for a
                            moment; they use up to 128 KiB of stack. Callbacks of holds and requests
                            always run on the client's thread */
    HF_DRIVE_CALLER = 1, /* no thread: blocking calls run the loop, and hf_dispatch runs it between
                            them. One thread at a time may use such a client. While no call runs the
                            loop, no lease is renewed and no callback runs, on_lost included. Call
                            hf_dispatch when hf_fd is readable, at least every third of the lease */
    HF_DRIVE_SHARED = 2  /* as HF_DRIVE_THREAD, for event loops that await one request at a time:
                            hf_dispatch, when hf_fd is readable, spares them two changes of thread.
                            Where it is late by 10 ms, the client's thread goes on. Callbacks run on
                            either thread, one at a time; also inside hf_dispatch, and inside the
                            calls that begin a request */
} hf_driver;

typedef enum hf_event_type {
    HF_EVENT_GRANTED = 0,     /* a lock was granted; not sent for nested holds */
    HF_EVENT_WAITING = 1,     /* a request was refused, or has to queue, and begins to wait */
    HF_EVENT_RELEASED = 2,    /* a lock was released */
    HF_EVENT_LOST = 3,        /* a lock was lost */
    HF_EVENT_TAKEOVER = 4,    /* the lock of an owner that is gone was taken back */
    HF_EVENT_STORE_DOWN = 5,  /* the store does not reply: sent once, for all names (""); alternates
                                with the next where only one of several connections is silent */
    HF_EVENT_STORE_UP = 6,    /* the store replies again; sent likewise */
    HF_EVENT_NOT_RENEWED = 7, /* the store replies, but refuses to renew a lock, for example after a
                                permission was revoked. The lock stays held until its lease ends.
                                Sent once for each reason, until the lock is renewed again */
    HF_EVENT_ADVISORY = 8 /* the store may forget a lock without notice (memcached): sent once, when
                             the client is opened, for all names ("") */
} hf_event_type;

typedef struct hf_event {
    size_t size;
    hf_event_type type;
    const char *name; /* the lock's name, or "" */
    uint64_t token;   /* or 0 */
    const char *text; /* one line for a log. STORE_DOWN: the reason, where it is known. NOT_RENEWED:
                         the reason that the loss will have */
} hf_event;

/* Receives events. Runs on the thread on which the event happens. It must not block, fork or call
 * the library. The event and its strings live until the function returns. */
typedef void hf_event_cb(void *arg, const hf_event *event);

/* For tests and for holdfast torture: reports each critical point that the library passes for the
 * lock `name`. The function may stop its thread or end the process there.
 *
 *     before_ask       the store is about to be asked
 *     queued           the store has refused; the request is queued and goes to sleep
 *     displaced        the lease or session of the queue entry is lost; it asks for another one
 *     after_answer     the store has granted, and the caller does not know it yet
 *     before_return    the caller is about to receive the result
 *     before_renew     a lease is about to be renewed
 *     after_renew      the store has replied to that; the new deadline does not count yet
 *     before_loss      a hold is about to be marked as lost
 *     before_release   the store is about to be asked to release something
 *     after_release    the store has done so, and the caller does not know it yet
 *
 * The fast path of an uncontended lock passes no point. Points may be added. Runs on any thread,
 * and may block it. It must not call the library. `name` lives until the function returns. */
typedef void hf_point_cb(void *arg, const char *point, const char *name);

typedef struct hf_client_options {
    size_t size; /* set by HF_CLIENT_OPTIONS_INIT */
    hf_driver driver;
    int64_t lease_ms;       /* the lease of holds without one of their own. 0: 30,000. Less than 100
                               is HF_EINVAL. Engines that detect the death of a process (local:)
                               need no lease and ignore it */
    const char *owner_text; /* describes this client in hf_inspect. NULL: user@host:pid program,
                               for which the system looks the user up, maybe over the network */
    hf_event_cb *on_event;  /* receives events; NULL: none */
    void *event_arg;
    bool existing_only;    /* a store that does not exist is not created: HF_UNREACHABLE instead */
    hf_point_cb *on_point; /* NULL: none, which costs nothing */
    void *point_arg;
    /* How long a call without a wait_ms of its own waits for a store that does not reply. These
     * are hf_unlock, hf_downgrade, calls with wait_ms 0, and the functions of sections 5, 7 and 8.
     * hf_close waits this long for all that it releases together. 0: HF_REQUEST_TIMEOUT_MS. Less
     * than 10 is HF_EINVAL. Afterwards the request is undone, or repeated. */
    int64_t request_timeout_ms;
    /* Each token that this client is granted is larger than this number: the largest token of the
     * store that was used before. At most 2^62; 0: none. The tokens of a name rise when this client
     * asks for it, for other clients, too. HF_ENOTSUP where tokens are the
     * store's own numbers (ZooKeeper, etcd, memcached, the tables of a layout), or there are none
     * (fence=off). */
    uint64_t token_floor;
} hf_client_options;

/* The defaults, in C from C99 on and in C++ from C++11 on:
 *
 *     hf_client_options options = HF_CLIENT_OPTIONS_INIT;
 *     options.driver = HF_DRIVE_CALLER;
 *
 * HF_CLIENT_OPTIONS(.driver = HF_DRIVE_CALLER) is the same as one expression, in C only. A call may
 * be given its address; like every compound literal it lives until the block ends. */
#ifdef __cplusplus
#define HF_CLIENT_OPTIONS_INIT hf_client_options_defaults()
static inline hf_client_options hf_client_options_defaults(void)
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

/* The same for languages without these macros. `size` is that of the structure which the caller
 * knows: a later library writes no more than that. */
HF_API void hf_client_options_init(hf_client_options *options, size_t size);

/* Opens the store that `url` names, such as "local:" or "local:///run/myapp?ns=jobs". NULL means
 * $HOLDFAST_URL, or "local:" if that is not set. `options` may be NULL. holdfast-url(7) lists
 * schemes and options. A store behind a network is not contacted yet: the first call reports a
 * dead server or a wrong password.
 *
 * Returns:
 *   HF_OK           *ret is a client; pass it to hf_close
 *   HF_EINVAL       the URL or an option is wrong, or this build does not know the scheme
 *   HF_ENOTSUP      token_floor is set, and the store's tokens cannot be raised
 *   HF_UNREACHABLE  the store does not exist, and existing_only is set or it cannot be created
 *   HF_DENIED       the store's file or directory may not be used
 *   HF_ELIMIT       no thread, descriptor or disk space is left
 *   HF_ECORRUPT     the store's file is damaged, foreign or of another version
 *   common errors
 * With any code but HF_OK, *ret is NULL. */
HF_API HF_LOOK int hf_open(hf_client **ret, const char *url, const hf_client_options *options);

/* Releases every hold, ends every request with HF_ECLOSED, and frees the client with all its holds.
 * The callbacks of the requests run before hf_close returns. Threads that block in a call on this
 * client return HF_ECLOSED first. No new call may begin after hf_close has begun.
 *
 * hf_close waits up to request_timeout_ms, or 1 second if the store is known to be silent
 * (HF_EVENT_STORE_DOWN). What the store has not confirmed by then, held or only asked for, ends
 * with its lease or session. In a forked child, hf_close frees memory only. Must not be called in
 * a callback. NULL is allowed. */
HF_API void hf_close(hf_client *client);

/* What the engine of a client supports: an OR of these. */
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
#define HF_CAP_INSPECT_ALL 0x800u /* hf_inspect without a name shows every name in use */
#define HF_CAP_SCHEMA 0x1000u     /* the store is a database with tables: hf_schema */
#define HF_CAP_GUARD 0x2000u      /* hf_guard */
#define HF_CAP_RATE 0x4000u       /* rate limiters */
/* Returns: the OR. A function without its bit returns HF_ENOTSUP. */
HF_API unsigned hf_caps(const hf_client *client);

/* Returns: the client's URL, password removed. Lives as long as the client. */
HF_API const char *hf_url(const hf_client *client);

/* ---- 3. Locking --------------------------------------------------------------------------
 *
 * Acquiring returns a *hold*. It carries the fencing token, the deadline and the loss signal, and
 * releasing needs it. */
typedef struct hf_hold hf_hold;

typedef enum hf_mode {
    HF_MUTEX = 0,   /* exclusive. A newcomer may overtake waiters for a short while (barging), which
                       is fastest; no waiter starves */
    HF_FAIR = 1,    /* exclusive; first come, first served, in order of arrival at the store */
    HF_READ = 2,    /* read-write lock, shared by any number of readers */
    HF_UPGRADE = 3, /* read-write lock, shared with readers, but with no other HF_UPGRADE. It can
                       become HF_WRITE without letting another writer in between */
    HF_WRITE = 4,   /* read-write lock, exclusive */
    HF_PERMIT = 5,  /* semaphore: `permits` of its permits, which come back if their owner dies */
    HF_COUNTER = 6, /* plain counter: take `permits` from it; no owner, so no hold */
    HF_LATCH = 7,   /* count-down latch: wait until it is at zero; there is no hold */
    HF_LEADER = 8   /* leadership of an election, see section 10; hf_hold_mode then says HF_FAIR, or
                       HF_MUTEX where the engine has no fair mutex */
} hf_mode;

/* A name is one object at a time: a mutex, a fair mutex, a read-write lock, a semaphore, a counter
 * or a latch. Asking for another kind while the name is in use returns HF_EKIND, as far as the
 * store's format tells the kinds apart. (Redisson's format on Redis does not tell a fair mutex from
 * a plain one.) */

/* What was lost, and why. Lives until the callback returns. */
typedef struct hf_loss {
    size_t size;
    const char *name;
    uint64_t token;
    const char *reason; /* one line; the store's message if it has refused to renew the lock */
} hf_loss;

/* Reports a loss. Runs once per hold, on the client's loop, unless hf_unlock finds the loss first.
 *
 * It is due before another owner can exist. It comes earlier by 2 ms and a hundredth of the lease,
 * the time that the loop has to get a processor. By then hf_held is false in any case. A forced
 * break takes the lock at once, and so may a store that forgets data or has a clock that jumps (see
 * docs/guarantees.md). There, only the token protects the resource.
 *
 * After hf_unlock has returned, on_lost of the hold does not run and will not run. So do not hold a
 * mutex around hf_unlock that on_lost takes: both would wait for ever. An interpreter's own lock is
 * such a mutex (Python's GIL): let it go around the call, as around all calls that block.
 * hf_unlock_nowait waits for an on_lost that runs, too.
 *
 * on_lost may call hf_unlock_nowait on the hold. It may run before hf_lock has returned on another
 * thread; data of hf_lock's caller need a mutex or an atomic. Data that a `done` callback has
 * written need none: both run on the loop, in this order. */
typedef void hf_lost_cb(void *arg, const hf_loss *loss);

/* A switch that ends waits from outside, with HF_CANCELED: hf_lock, hf_lock_async and hf_lock_all
 * take it in their options, hf_upgrade_stoppable as an argument. One stop serves any number of
 * calls, threads and clients. It stays set: a call that begins afterwards ends at once, so no
 * signal comes too early or too late. It must live until each of these calls has ended.
 *
 *     static hf_stop stop = HF_STOP_INIT;
 *     static void on_term(int signal) { hf_stop_set(&stop); }
 *
 *     if (hf_lock(client, name, HF_FOREVER, &HF_LOCK_OPTIONS(.stop = &stop), &hold) == HF_CANCELED)
 *         return leave();
 *
 * `interrupted` is for programs that cannot act in a handler, such as interpreters. A call that
 * blocks asks it on its own thread, about every 100 ms, and after a signal's handler where the call
 * sleeps. It may call the library, but not close the client of the call. With HF_DRIVE_CALLER, no
 * lease is renewed while it runs. Requests with a callback do not ask it. */
typedef struct hf_stop {
    size_t size;                    /* set by HF_STOP_INIT */
    bool (*interrupted)(void *arg); /* true: this call ends. NULL: none */
    void *interrupted_arg;
    uint32_t is_set; /* the library's: use the functions below */
} hf_stop;

#define HF_STOP_INIT                                                                               \
    {                                                                                              \
        sizeof(hf_stop), NULL, NULL, 0                                                             \
    }

/* Sets the stop: the calls that wait with it end within milliseconds, whether or not the store
 * replies. Does not block, and leaves errno as it was. Any thread may call it at any time, as may a
 * signal's handler: it writes atomic words, wakes futexes and writes to eventfds, and takes no
 * lock. NULL is allowed. */
HF_API void hf_stop_set(hf_stop *stop);
/* Makes a stop usable again once no call waits with it. */
HF_API void hf_stop_clear(hf_stop *stop);
/* Returns: whether it is set. */
HF_API bool hf_stop_is_set(const hf_stop *stop);

typedef struct hf_lock_options {
    size_t size; /* set by HF_LOCK_OPTIONS_INIT */
    hf_mode mode;
    uint32_t permits;       /* HF_PERMIT, HF_COUNTER: the number to take; 0 means 1. More than 1 in
                               another mode is HF_EINVAL, and so is any `limit` */
    uint32_t limit;         /* HF_PERMIT: a semaphore that does not exist is created with this
                               number of permits; one with another number is HF_EKIND. 0: a
                               semaphore that does not exist is HF_EKIND */
    int64_t lease_ms;       /* 0: held until released, and renewed as long as the process lives
                               (HF_DRIVE_CALLER: as long as it dispatches). > 0: ends by itself
                               after this time. Less than 10 is HF_EINVAL */
    uint64_t owner;         /* 0: the calling thread (hf_lock), or the request itself, which no
                               other request shares (hf_lock_async). HF_OWNER_THREAD: the calling
                               thread in both. HF_OWNER_NEW: a new owner. Else a number below
                               2^62 of your choice, for a task or a fibre. Numbers count within
                               one client */
    const char *owner_text; /* shown by hf_inspect where the store keeps it (Redis: the client's
                               alone). NULL: the client's */
    hf_lost_cb *on_lost;    /* NULL: none */
    void *lost_arg;
    bool no_reentry;     /* if this owner already holds the name: HF_EDEADLK, not a second hold */
    hf_stop *stop;       /* ends the wait with HF_CANCELED; NULL: none */
    int64_t deadlock_ms; /* hf_lock: a wait looks after this time for a circle of waits that it is
                            part of. 0: 5,000, and 700 at local:. HF_FOREVER: never */
} hf_lock_options;

/* For `owner`: a new owner for this call. Neither does it re-enter, nor does another call. */
#define HF_OWNER_NEW UINT64_MAX
/* For `owner`: the calling thread, as 0 in hf_lock. */
#define HF_OWNER_THREAD (UINT64_MAX - 1)

/* As HF_CLIENT_OPTIONS_INIT and HF_CLIENT_OPTIONS. */
#ifdef __cplusplus
#define HF_LOCK_OPTIONS_INIT hf_lock_options_defaults()
static inline hf_lock_options hf_lock_options_defaults(void)
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

/* As hf_client_options_init. */
HF_API void hf_lock_options_init(hf_lock_options *options, size_t size);

/* Acquires `name`, and waits for it for up to `wait_ms` (HF_FOREVER: no limit, 0: one attempt).
 * Blocks. `options` may be NULL: a mutex for the calling thread, without a lease of its own.
 *
 * Re-entry. An owner that holds the name gets a second hold on the same grant at once, without
 * asking the store. The last hf_unlock releases the lock. For read-write locks:
 *
 *  - With HF_WRITE or HF_UPGRADE an owner may take HF_READ. "Take read, unlock write" is a
 *    downgrade.
 *  - With HF_UPGRADE it may take HF_WRITE, which waits for the readers to leave.
 *  - With HF_READ alone, HF_WRITE and HF_UPGRADE return HF_EDEADLK: two such readers would wait for
 *    each other.
 *
 * All holds on a grant share the lease that the first hold was taken with. The `lease_ms` of a
 * nested hold is ignored, so the lease may end under it. Permits are never re-entered: each call
 * takes its own. A second request of an owner queues behind its first as long as the first is not
 * granted; no_reentry refuses only what is held.
 *
 *   +-- Warning: an owner is a thread by default ------------------------------------------------+
 *   | Where one thread serves several tasks (a thread pool, coroutines, asyncio, an event loop), |
 *   | the second task re-enters the first one's lock. Both get HF_OK and the same token, and     |
 *   | nothing excludes them. Use HF_OWNER_NEW there, or a number for each task. no_reentry       |
 *   | returns HF_EDEADLK instead, and so finds such a mistake. Such a task must not block its    |
 *   | thread in hf_lock either: another task of the thread may have to release the lock. Use     |
 *   | hf_lock_async, or wait_ms 0 and try again.                                                 |
 *   +--------------------------------------------------------------------------------------------+
 *
 * A store that hangs does not extend the wait. With wait_ms 0 there is one attempt, which may take
 * up to request_timeout_ms.
 *
 * Deadlocks. Threads that wait for each other in a circle would wait for ever. One of them gets
 * HF_EDEADLK, and hf_last_error names the circle; it releases what it holds, and may try again.
 *
 *  - Within a process, also over several clients and stores, it is the call that closes the circle,
 *    and at once. Else it is the wait that began last, after its deadlock_ms: each wait looks at
 *    what the stores show for which its process has a client.
 *  - No circle is reported that was not there at one moment, as the store saw it.
 *  - Owners are threads here (`owner` 0 or HF_OWNER_THREAD in hf_lock). Other owners are in no
 *    circle, nor is what hf_lock_async has asked for: any thread may release it. A hold that
 *    another thread is to release is taken with HF_OWNER_NEW. A thread that waits for its own hold
 *    of another client is in no circle either.
 *  - Only locks that have holders count, so no permits, counters, latches or elections, and no
 *    hf_upgrade. A wait with a limit below its deadlock_ms is left alone.
 *  - Processes find each other's waits at local:, Redis, ZooKeeper, etcd, PostgreSQL and MySQL.
 *    They find none where the store does not name threads: memcached, a quorum, session locks.
 *
 * Returns:
 *   HF_OK           *ret is a hold; pass it to hf_unlock or hf_unlock_nowait. HF_COUNTER and
 *                   HF_LATCH have no hold: *ret is NULL, and `ret` itself may be NULL
 *   HF_BUSY         wait_ms has passed, and another owner holds it or too few permits are free
 *   HF_UNREACHABLE  the store was silent throughout the last second of the wait (behind another
 *                   thread of this client that wants the same name: as far as that one knows)
 *   HF_CANCELED     `stop` is set, or `interrupted` has returned true
 *   HF_EDEADLK      a reader asks for HF_WRITE or HF_UPGRADE; or no_reentry is set and the owner
 *                   holds the name; or the wait is part of a circle
 *   HF_EKIND        the name is another kind of object, or a semaphore with another limit; or
 *                   `limit` is 0 and there is no semaphore
 *   HF_EINVAL       also: more permits than the semaphore has in all
 *   HF_ENOTSUP      the engine does not have this mode
 *   common errors
 *
 * With any code but HF_OK, *ret is NULL and nothing of this request stays at the store: no queue
 * entry, no late grant. What was under way is undone at once, in the background. The client's next
 * request for the name waits for that; a try of another client may be HF_BUSY meanwhile. If you
 * close the client, or exit, before the store replies, something may stay for up to a lease. */
HF_API HF_LOOK int hf_lock(hf_client *client, const char *name, int64_t wait_ms,
                           const hf_lock_options *options, hf_hold **ret);

/* Releases the hold, waits for the store's reply, and frees the hold whatever the result. Blocks
 * for up to request_timeout_ms. In a callback it does not wait. NULL is allowed.
 *
 * Returns:
 *   HF_OK           released; or `hold` is NULL
 *   HF_LOST         the lock had been lost before. If hf_held was false, a store that does not
 *                   reply is waited for 0.5 s only; the library then cleans up in the background
 *   HF_UNREACHABLE  no reply within request_timeout_ms, or before the lease ended. The library
 *                   repeats the release until the lease ends, and the lock with it
 *   common errors, as the store reports them; the lock then ends with its lease or session */
HF_API int hf_unlock(hf_hold *hold);

/* Releases and frees the hold without waiting for the store. For callbacks, and for callers that
 * do not need the result. Does not block, but may finish pending work of other calls, so that
 * on_event may run inside it; no other callback does. The release may be sent a little later: if
 * the process ends before that without hf_close, the lock ends with its lease. NULL is allowed. */
HF_API void hf_unlock_nowait(hf_hold *hold);

/* ---- 4. Properties of a hold -------------------------------------------------------------
 *
 * These do no I/O and do not wait. They may be called on any thread, in callbacks and in hot loops.
 * A hold must not be used after it was released. */

/* Returns: true only while no other owner can exist. Once false, it stays false.
 *
 * The time is counted from before the request was sent, by a clock that goes on during suspend. The
 * promise depends on the store keeping its data, and excludes a forced break (docs/guarantees.md).
 * A pause can still happen between hf_held and your write. Only a fenced resource refuses the late
 * write: see hf_token. */
HF_API bool hf_held(const hf_hold *hold);

/* Returns: for how many milliseconds hf_held stays true without a renewal, 0 or more. INT64_MAX if
 * no lease limits it. */
HF_API int64_t hf_remaining_ms(const hf_hold *hold);

/* Returns: the fencing token, larger than that of every earlier exclusive grant of this name at
 * this store. Shared holds have the token of the last exclusive grant, or a larger one of their
 * own. 0 on engines without HF_CAP_TOKEN. How a resource uses it:
 *
 *  1. Claim: the first request after the grant gives the token to the resource. In one atomic step
 *     the resource refuses the token if it has stored a larger one, else stores it.
 *  2. Read only after the claim was accepted.
 *  3. Write with the token: the resource compares it in the same transaction as the write, and
 *     refuses the write if it has stored a larger one.
 *
 * Comparing tokens at the write alone loses updates. An owner that wakes late may write after the
 * next owner has read and before it has written. See docs/fencing.md for snippets for SQL, Redis,
 * files and HTTP. */
HF_API uint64_t hf_token(const hf_hold *hold);

/* The size of a buffer for a guard, with its NUL. */
#define HF_GUARD_SIZE 3200

/* Writes what a transaction of your own at the same store compares, so that the store refuses the
 * transaction once `hold` is not held any more. No token has to be stored for that, and nothing has
 * to be claimed. Blocks for as long as the client's loop is busy, and asks no server.
 *
 *   etcd    KEY@REVISION: put the comparison "create_revision of KEY = REVISION" into the
 *           transaction. REVISION follows the last '@'. A name may have any bytes, and so has KEY.
 *
 * hf_downgrade changes the guard.
 *
 * Returns:
 *   HF_OK       `guard` is written
 *   HF_LOST     the lock was lost
 *   HF_ENOTSUP  the engine has no HF_CAP_GUARD
 *   common errors */
HF_API HF_LOOK int hf_guard(hf_hold *hold, char guard[HF_GUARD_SIZE]);

/* Returns: the name that was passed to hf_lock. Lives as long as the hold. */
HF_API const char *hf_hold_name(const hf_hold *hold);
/* Returns: the present mode; hf_upgrade and hf_downgrade change it. */
HF_API hf_mode hf_hold_mode(const hf_hold *hold);

/* ---- 5. Changing a hold ------------------------------------------------------------------ */

/* Turns HF_UPGRADE into HF_WRITE, in place, once the readers have left. Blocks for up to `wait_ms`.
 * A lease of the hold's own (lease_ms) is not extended. An earlier HF_WRITE of this owner that is
 * still pending or being released is waited for first, within wait_ms.
 *
 * Returns:
 *   HF_OK       the hold is HF_WRITE
 *   HF_BUSY     readers remain, or an earlier change has not ended within wait_ms
 *   HF_LOST     the lock was lost; release the hold
 *   HF_EDEADLK  the hold is HF_READ
 *   HF_EINVAL   it is no hold of a read-write lock
 *   common errors
 *
 * With any code but HF_OK and HF_LOST, the hold is what it was. */
HF_API HF_LOOK int hf_upgrade(hf_hold *hold, int64_t wait_ms);
/* The same with a stop, which may be NULL.
 *
 * Returns: as hf_upgrade, or HF_CANCELED: the stop has ended it */
HF_API HF_LOOK int hf_upgrade_stoppable(hf_hold *hold, int64_t wait_ms, hf_stop *stop);

/* Turns HF_WRITE or HF_UPGRADE into the weaker `mode`, in place, without letting another owner in
 * between. Blocks for up to request_timeout_ms. The strongest hold of an owner counts: while it has
 * another HF_WRITE, readers stay excluded.
 *
 * Returns:
 *   HF_OK           done, or the hold has that mode already
 *   HF_LOST         the lock was lost; release the hold
 *   HF_UNREACHABLE  no reply yet; the library repeats the request until there is one
 *   HF_EINVAL       `mode` is stronger, or it is no hold of a read-write lock
 *   HF_ENOTSUP      `mode` is HF_UPGRADE, and the engine does not have it
 *   common errors; if the store refuses, the hold is what it was */
HF_API int hf_downgrade(hf_hold *hold, hf_mode mode);

/* Renews the lease of a hold that has one of its own: it ends `lease_ms` from now, but never
 * earlier than before. Blocks for up to request_timeout_ms.
 *
 * Returns:
 *   HF_OK           renewed
 *   HF_LOST         too late: the lease has ended
 *   HF_UNREACHABLE  no reply; the lease ends when it did, unless the reply still arrives
 *   HF_EINVAL       `lease_ms` is less than 10, or the hold has no lease of its own
 *   common errors; the lease ends when it did */
HF_API HF_LOOK int hf_renew(hf_hold *hold, int64_t lease_ms);

/* Leaves a lock with a lease of its own to the store, so that it outlives this process. Frees
 * `hold` and writes the key that hf_attach needs. For scripts that lock in one process and unlock
 * in another. Blocks for up to request_timeout_ms; an earlier change of the hold that has not
 * ended, as after an hf_upgrade that timed out, is waited for within that time.
 *
 * Returns:
 *   HF_OK           `hold` is freed, `owner_key` is written
 *   HF_LOST         the lock was lost
 *   HF_BUSY         an hf_upgrade of another thread still waits
 *   HF_UNREACHABLE  the store may have detached the lock or not. Call hf_detach again, release the
 *                   hold, or leave it to its lease; each works in either case
 *   HF_EINVAL       the owner has another hold on the name, or the hold has no lease of its own
 *   HF_ENOTSUP      the engine cannot detach
 *   common errors
 *
 * With any code but HF_OK, `hold` stays yours, and is held for as long as it was. */
HF_API HF_LOOK int hf_detach(hf_hold *hold, char owner_key[HF_OWNER_KEY_SIZE]);

/* Takes over a lock that hf_detach has left. Blocks for up to request_timeout_ms.
 *
 * Returns:
 *   HF_OK       *ret is a hold, with the lease that is left
 *   HF_LOST     `name` is not held under this key, or not any more
 *   HF_ENOTSUP  the engine cannot attach
 *   common errors
 * With any code but HF_OK, *ret is NULL. */
HF_API HF_LOOK int hf_attach(hf_client *client, const char *name, const char *owner_key,
                             hf_hold **ret);

/* ---- 6. Asynchronous requests ------------------------------------------------------------
 *
 * Every request ends exactly once, by its callback on the client's loop. */
typedef uint64_t hf_request; /* a request; 0 is none; not reused within 2^30 requests */

/* Receives the result of a request: `code` as hf_lock returns it. `error` is its sentence, NULL
 * with HF_OK, and lives until the callback returns. With HF_OK, `hold` is yours; it is NULL for
 * HF_COUNTER and HF_LATCH. */
typedef void hf_done_cb(void *arg, int code, hf_hold *hold, const hf_error *error);

/* Begins what hf_lock does, and does not block. `ret` may be NULL.
 *
 * Returns:
 *   HF_OK       begun: `done` will run exactly once
 *   HF_BUSY     an earlier HF_WRITE of this owner is still pending or being released
 *   HF_EDEADLK  as hf_lock
 *   HF_ENOTSUP  the engine does not have this mode
 *   common errors that need no store
 * With any code but HF_OK, `done` does not run. */
HF_API HF_LOOK int hf_lock_async(hf_client *client, const char *name, int64_t wait_ms,
                                 const hf_lock_options *options, hf_done_cb *done, void *arg,
                                 hf_request *ret);

/* As hf_lock_async, but grants inside the call where no server has to be asked. That is a free lock
 * of local:, and another hold for an owner that holds the name. Then `done` does not run. All else
 * goes on in the background, HF_COUNTER and HF_LATCH always. The call does not wait for the lock.
 * `ret` may be NULL; `ret_hold` may not.
 *
 * Returns:
 *   HF_OK     *ret_hold is a hold: granted, and *ret is 0. Or *ret_hold is NULL: pending; `done`
 *             will run exactly once, maybe before this call has returned
 *   HF_BUSY   as hf_lock_async; or wait_ms is 0, and another owner holds it
 *   HF_EKIND  as hf_lock; so are HF_EINVAL and common errors
 * With any code but HF_OK, `done` does not run, and hf_lock says what stays at the store. */
HF_API HF_LOOK int hf_lock_start(hf_client *client, const char *name, int64_t wait_ms,
                                 const hf_lock_options *options, hf_done_cb *done, void *arg,
                                 hf_request *ret, hf_hold **ret_hold);

/* Begins what hf_unlock does, and does not block. With HF_OK the hold is not yours any more, and
 * `done` runs exactly once, with hf_unlock's code and without a hold. hf_close waits for that. It
 * cannot be cancelled: the library repeats a release that meets silence. For callbacks, too.
 *
 * Returns:
 *   HF_OK       begun, also if the lock has been lost
 *   HF_EINVAL   `hold` or `done` is NULL
 *   HF_ECLOSED, common errors that need no store
 * With any code but HF_OK, `done` does not run, and the hold is still yours. */
HF_API HF_LOOK int hf_unlock_async(hf_hold *hold, hf_done_cb *done, void *arg);

/* Begins what hf_upgrade_stoppable does, and does not block. `stop` may be NULL. With HF_OK `done`
 * runs exactly once, with that code and without a hold: yours is HF_WRITE then. Until then it must
 * not be upgraded otherwise. The hold may be released meanwhile. hf_cancel ends the wait, and so
 * does `stop`; the hold is HF_UPGRADE then. `ret` may be NULL. For callbacks, too.
 *
 * Returns:
 *   HF_OK       begun
 *   HF_BUSY     an earlier HF_WRITE of this owner is still pending or being released
 *   HF_LOST     the lock was lost
 *   HF_EDEADLK, HF_EINVAL, common errors: as hf_upgrade
 * With any code but HF_OK, `done` does not run, and the hold is what it was. */
HF_API HF_LOOK int hf_upgrade_async(hf_hold *hold, int64_t wait_ms, hf_stop *stop, hf_done_cb *done,
                                    void *arg, hf_request *ret);

/* Asks a request to end with HF_CANCELED. It may end with another code if its reply was on the way.
 * Does not block, and does nothing for a request that has ended. hf_lock says what it leaves. */
HF_API void hf_cancel(hf_client *client, hf_request request);

/* For programs with an event loop of their own (HF_DRIVE_CALLER, HF_DRIVE_SHARED). Poll the
 * descriptor of hf_fd for reading, and call hf_dispatch when it is readable. hf_dispatch runs what
 * is due, callbacks included, and never blocks. The descriptor belongs to the client. With
 * HF_DRIVE_SHARED poll it from the time on at which a request has begun, until hf_dispatch returns
 * HF_BUSY; hf_close must not begin while hf_dispatch runs.
 *
 * hf_fd returns: the descriptor, or -1 with HF_DRIVE_THREAD.
 * hf_dispatch returns: HF_OK, HF_EINVAL with HF_DRIVE_THREAD, or common errors. HF_BUSY with
 * HF_DRIVE_SHARED: the client's thread runs what is due. */
HF_API int hf_fd(const hf_client *client);
HF_API int hf_dispatch(hf_client *client);

/* ---- 7. Semaphores, counters, latches ----------------------------------------------------
 *
 * These block for up to request_timeout_ms, and longer only where they have a wait_ms. Each may
 * also return HF_ENOTSUP (the engine does not have this kind), HF_EKIND (the name is another kind
 * of object), and the common errors. */

/* Sets the total number of permits of semaphore `name`, and creates it if needed. The number may be
 * smaller than the number that is taken: no permit is granted until enough have come back. 0
 * removes the semaphore.
 *
 * A waiter that asks for more permits than the new total is refused within seconds: with HF_EINVAL,
 * or with HF_EKIND if it named another limit. It does not hold up other waiters. Of the waiters in
 * one client only the first is refused at once, the others when their turn comes.
 *
 * Returns:
 *   HF_OK    set, or removed
 *   HF_BUSY  `permits` is 0, and permits are held */
HF_API int hf_semaphore_set(hf_client *client, const char *name, uint32_t permits);

/* A plain counter: a number that any client may add to and take from. It does not come back when a
 * process dies.
 *
 *  - hf_counter_set creates it, or overwrites its value.
 *  - hf_counter_add adds `amount`; a counter that does not exist begins at 0.
 *  - hf_counter_take takes `amount`, and waits up to `wait_ms` for it; so does hf_lock with
 *    HF_COUNTER, which also takes options, such as a stop.
 *  - hf_counter_get writes the value to *ret_value; 0 if the counter does not exist.
 *  - hf_counter_remove removes it; its waiters go on waiting.
 *
 * Returns:
 *   HF_OK      done
 *   HF_BUSY    hf_counter_take: the value is too small, and wait_ms has passed
 *   HF_ELIMIT  hf_counter_add: the value would exceed 2^32 - 1; it has not changed
 *   HF_EINVAL  also: hf_counter_take with an amount of 0; hf_counter_get without ret_value */
HF_API int hf_counter_set(hf_client *client, const char *name, uint32_t value);
HF_API int hf_counter_add(hf_client *client, const char *name, uint32_t amount);
HF_API HF_LOOK int hf_counter_take(hf_client *client, const char *name, uint32_t amount,
                                   int64_t wait_ms);
HF_API int hf_counter_get(hf_client *client, const char *name, uint32_t *ret_value);
HF_API int hf_counter_remove(hf_client *client, const char *name);

/* A latch is set to a count, counted down, and opens at zero. A latch that was never set is at
 * zero, and so open. What is left is written to *ret_left by hf_latch_down and hf_latch_get; it may
 * be NULL. Waiting by hf_latch_wait lasts up to `wait_ms` until the latch is open; so does hf_lock
 * with HF_LATCH.
 *
 * Returns:
 *   HF_OK      done; hf_latch_wait: the latch is open
 *   HF_BUSY    hf_latch_set: the latch is above zero, and must be counted down first;
 *              hf_latch_wait: the latch is above zero, and wait_ms has passed
 *   HF_EINVAL  also: hf_latch_down with an amount of 0 */
HF_API int hf_latch_set(hf_client *client, const char *name, uint32_t count);
HF_API int hf_latch_down(hf_client *client, const char *name, uint32_t amount, uint32_t *ret_left);
HF_API int hf_latch_get(hf_client *client, const char *name, uint32_t *ret_left);
HF_API HF_LOOK int hf_latch_wait(hf_client *client, const char *name, int64_t wait_ms);

/* The same of counters and latches without blocking, also for callbacks. `done` hears the code of
 * the blocking function, and no hold. A value is written just before `done` runs with HF_OK. Its
 * variable must live until `done` has run.
 *
 * hf_cancel ends hf_counter_take_async and hf_latch_wait_async, and nothing is left of them.
 * hf_lock_async with HF_COUNTER or HF_LATCH also takes a stop. The others do not wait, and have up
 * to request_timeout_ms.
 *
 * Returns:
 *   HF_OK       begun: `done` will run exactly once
 *   HF_EINVAL   also: `done` is NULL
 *   HF_ENOTSUP  the engine does not have this kind
 *   common errors that need no store
 * With any code but HF_OK, `done` does not run. */
HF_API HF_LOOK int hf_counter_set_async(hf_client *client, const char *name, uint32_t value,
                                        hf_done_cb *done, void *arg);
HF_API HF_LOOK int hf_counter_add_async(hf_client *client, const char *name, uint32_t amount,
                                        hf_done_cb *done, void *arg);
HF_API HF_LOOK int hf_counter_take_async(hf_client *client, const char *name, uint32_t amount,
                                         int64_t wait_ms, hf_done_cb *done, void *arg,
                                         hf_request *ret);
HF_API HF_LOOK int hf_counter_get_async(hf_client *client, const char *name, uint32_t *ret_value,
                                        hf_done_cb *done, void *arg);
HF_API HF_LOOK int hf_counter_remove_async(hf_client *client, const char *name, hf_done_cb *done,
                                           void *arg);
HF_API HF_LOOK int hf_latch_set_async(hf_client *client, const char *name, uint32_t count,
                                      hf_done_cb *done, void *arg);
HF_API HF_LOOK int hf_latch_down_async(hf_client *client, const char *name, uint32_t amount,
                                       uint32_t *ret_left, hf_done_cb *done, void *arg);
HF_API HF_LOOK int hf_latch_get_async(hf_client *client, const char *name, uint32_t *ret_left,
                                      hf_done_cb *done, void *arg);
HF_API HF_LOOK int hf_latch_wait_async(hf_client *client, const char *name, int64_t wait_ms,
                                       hf_done_cb *done, void *arg, hf_request *ret);

/* A rate: a number of permits in each period. Its limiter lets `burst` of them go at once, and lets
 * them come back at an even pace. */
typedef struct hf_rate {
    size_t size;       /* set by HF_RATE: sizeof(hf_rate) */
    uint32_t permits;  /* at least 1 */
    int64_t period_ms; /* at least 1 */
    uint32_t burst;    /* 0: as many as `permits`. All of it must come back within 366 days */
    hf_stop *stop;     /* ends the wait with HF_CANCELED; NULL: none */
} hf_rate;

#ifndef __cplusplus
#define HF_RATE(...) ((hf_rate){ .size = sizeof(hf_rate), __VA_ARGS__ })
#endif

/* Takes `permits` from the rate limiter `name`, and waits for up to `wait_ms` until they are there
 * (HF_FOREVER: up to 366 days). In any time t, all clients together take at most
 * t / period_ms * rate->permits + burst, by the store's clock, whatever the clients' clocks say.
 *
 * The limiter exists from the first call on, with its whole burst. Give all calls for a name the
 * same rate. A call is one request: it takes its permits in advance, and sleeps until they have
 * come back, so that callers are served in the order of arrival. What was taken does not come back,
 * also if the caller dies, is canceled, or hears no reply (HF_UNREACHABLE): less than the rate is
 * used then, never more. A permit's share of the period is rounded up to a microsecond.
 *
 * Until its whole burst is there again the name is in use: hf_inspect shows it as HF_KIND_RATE, and
 * another kind is HF_EKIND. At a database it stays in use until hf_forget. hf_close does not end
 * the sleep, which does without the client.
 *
 * *ret_retry_ms, which may be NULL, is set to 0. With HF_BUSY it is set to the milliseconds after
 * which the permits could have been had.
 *
 * Returns:
 *   HF_OK        taken, and the wait is over
 *   HF_BUSY      not within wait_ms; nothing was taken
 *   HF_CANCELED  the stop was set; what had been taken by then does not come back
 *   HF_EINVAL    also: `permits` is 0 or above the burst, which is never there; a rate of 0
 *   HF_ENOTSUP   ZooKeeper, etcd, memcached and a quorum have no clock to limit a rate by */
HF_API HF_LOOK int hf_rate_take(hf_client *client, const char *name, const hf_rate *rate,
                                uint32_t permits, int64_t wait_ms, int64_t *ret_retry_ms);

/* ---- 8. Inspecting, breaking, diagnosing ------------------------------------------------- */

typedef enum hf_kind {
    HF_KIND_FREE = 0, /* never stored: nothing is known of the name */
    HF_KIND_MUTEX = 1,
    HF_KIND_FAIR = 2,
    HF_KIND_RW = 3,
    HF_KIND_SEMAPHORE = 4,
    HF_KIND_COUNTER = 5,
    HF_KIND_LATCH = 6,
    HF_KIND_RATE = 7
} hf_kind;

typedef enum hf_role {
    HF_ROLE_OBJECT = 0, /* the object itself: one entry per name, before its holders and waiters */
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
    uint32_t total; /* semaphore: its total number of permits */
    uint32_t value; /* semaphore: free permits; counter: its value; latch: its count; rate limiter:
                       the milliseconds until its whole burst is there again */
    uint64_t token; /* object: the last token granted; holder: its own. 0: none, or not known */
    /* HF_ROLE_HOLDER, HF_ROLE_WAITER */
    hf_mode mode;
    uint32_t permits;       /* HF_PERMIT, HF_COUNTER; else 0 */
    uint32_t rank;          /* waiter: 1 is next */
    const char *owner_key;  /* unique for an owner; hf_break takes it */
    const char *owner_text; /* the owner's own description, or "" */
    const char *host;       /* or "" */
    int64_t pid;            /* as its owner sees it, or 0 */
    int64_t since_ms;       /* age of the hold, or of the wait; zk:, etcd: a hold's age has its wait
                               in it; -1: not known */
    int64_t lease_left_ms;  /* holder: -1 where no lease limits it */
    bool unmarked; /* object: a number that nothing at the store marks as a semaphore, counter or
                      latch. It is another library's, or an application's own (Redis) */
    const char *thread; /* equal for all claims of one thread, which does nothing else while one of
                           them waits. "": the owner is no thread, or the store does not tell */
    uint64_t claim;     /* no later claim of the name has it (etcd). 0: owner_key has the number */
} hf_entry;

/* Receives the entries of hf_inspect. Runs on the calling thread, inside hf_inspect, and may call
 * the library. The entry and its strings live until the function returns. Return false to stop. */
typedef bool hf_entry_cb(void *arg, const hf_entry *entry);

/* Shows `name`, or every name in use if it is NULL: for each the object, its holders, and its
 * waiters in order. Blocks until the store has been silent for request_timeout_ms.
 *
 * Without HF_CAP_INSPECT_ALL (Redis), NULL shows only names that this library has taken within 12
 * hours, has set, or waits for. Locks of other libraries are shown when asked for by name. The
 * entries of a name are consistent with each other; different names are read at different moments.
 *
 * Returns:
 *   HF_OK       everything was shown, or `visit` has returned false
 *   HF_EINVAL   also: `visit` is NULL
 *   HF_ENOTSUP  the engine cannot show locks
 *   common errors; the entries shown until then may be incomplete */
HF_API int hf_inspect(hf_client *client, const char *name, hf_entry_cb *visit, void *arg);

/* Begins what hf_inspect does, and does not block. With HF_OK `visit` runs for each entry and then
 * `done`, exactly once, with hf_inspect's code; both are passed `arg`, and run on the client's
 * loop. For callbacks, too. It cannot be cancelled, and ends as hf_inspect does.
 *
 * Returns:
 *   HF_OK                  begun
 *   HF_EINVAL, HF_ENOTSUP  as hf_inspect; or `done` is NULL
 *   common errors that need no store
 * With any code but HF_OK, neither runs. */
HF_API HF_LOOK int hf_inspect_async(hf_client *client, const char *name, hf_entry_cb *visit,
                                    hf_done_cb *done, void *arg);

/* Takes `name` by force from the holder with this owner key, or from all holders if it is NULL.
 * Their holds are lost; the next grant fences their tokens. *ret_count, which may be NULL, receives
 * the number of holders. Blocks for up to request_timeout_ms.
 *
 * When a holder learns of it depends on the store: at once (local:, zk:, etcd:), or with its next
 * renewal, within a third of the lease. A hold with a lease of its own learns of it at hf_unlock,
 * or when the lease ends.
 *
 * Returns:
 *   HF_OK       broken; with a count of 0 the name was not held
 *   HF_BUSY     the name is held, but not under this key
 *   HF_EINVAL   also: `owner_key` is too long to be an owner key
 *   HF_ENOTSUP  the engine cannot break locks
 *   common errors */
HF_API int hf_break(hf_client *client, const char *name, const char *owner_key,
                    uint32_t *ret_count);

/* Removes what the store keeps of a name that is free: a row or a key with its last token. For
 * names that are used once, so that they do not pile up until they end by themselves. The next
 * token of the name is larger all the same, as it comes from the store's clock; where that clock is
 * behind the last token, the token stays. A semaphore, counter or latch is removed by its own
 * function first. Blocks for up to request_timeout_ms.
 *
 * At a database this takes up to a second longer than the last grant: a younger token is kept.
 *
 * With layout=shedlock no row is removed that another program has written last. Do not forget a
 * name that a ShedLock program uses: it remembers that the row is there.
 *
 * Returns:
 *   HF_OK     nothing is left of it, or only what later tokens need
 *   HF_BUSY   it is held, waited for, or in use as another kind
 *   common errors */
HF_API int hf_forget(hf_client *client, const char *name);

/* A fact about the store, or a danger to its locks. */
typedef struct hf_remark {
    size_t size;
    const char *what;        /* danger: what is the case; fact: its name */
    const char *value;       /* fact: its value; danger: NULL */
    const char *consequence; /* danger: what may follow from it; fact: NULL */
    const char *cure;        /* danger: what to do about it; fact: NULL */
    const char *id;          /* danger: its name, the same in all later versions; fact: NULL */
} hf_remark;

/* Receives the remarks of hf_examine. Runs on the calling thread, inside hf_examine, and may call
 * the library. The remark and its strings live until the function returns. Return false to stop. */
typedef bool hf_remark_cb(void *arg, const hf_remark *remark);

/* Asks the store about itself, as `holdfast doctor` shows it. Blocks for up to request_timeout_ms.
 * An engine without remarks shows none. Where a user may be limited to some names (Redis), it
 * checks whether this user may do what locks called `name` need, or, with NULL, locks of all names.
 * It touches no lock of that name.
 *
 * Returns:
 *   HF_OK, HF_EINVAL  as hf_inspect
 *   common errors; the remarks found until then are shown first */
HF_API int hf_examine(hf_client *client, const char *name, hf_remark_cb *visit, void *arg);

/* What hf_schema_change does to the tables of a database. */
typedef enum hf_schema_action {
    HF_SCHEMA_CREATE = 1, /* makes those that are missing */
    HF_SCHEMA_DROP,       /* removes them, with all locks in them */
    HF_SCHEMA_MIGRATE,    /* layout=...: makes the engine's own tables, and copies what is held */
    HF_SCHEMA_CLEAN       /* removes rows of names that no client has used for a week */
} hf_schema_action;

/* The statements that make the tables of a database. Does not ask it.
 *
 * Returns: one text, valid until the client is closed; NULL: the engine has no HF_CAP_SCHEMA */
HF_API const char *hf_schema(hf_client *client);

/* The statements that give a user the rights that locks need on those tables, and no others. The
 * user's name, as the database wants it quoted, belongs in the place of each USER. Does not ask the
 * database.
 *
 * Returns: as hf_schema */
HF_API const char *hf_grants(hf_client *client);

/* Changes the tables, as `holdfast schema` and `holdfast gc` do. *ret_count (may be NULL) is how
 * many rows were copied or removed. Blocks for up to request_timeout_ms. An engine makes its tables
 * by itself when it first needs them; this is for users without the right to create tables.
 *
 * Returns:
 *   HF_OK       done
 *   HF_EINVAL   also: there is no such action, or nothing to migrate
 *   HF_ENOTSUP  the engine has no HF_CAP_SCHEMA
 *   HF_ECORRUPT HF_SCHEMA_CREATE: there is a table of that name with other columns
 *   common errors */
HF_API int hf_schema_change(hf_client *client, hf_schema_action action, uint32_t *ret_count);

/* ---- 9. Several locks at once ------------------------------------------------------------
 *
 * All or nothing. The locks may be at one store or at several: each item names its client. */
typedef struct hf_lock_item {
    hf_client *client;
    const char *name;
    const hf_lock_options *options; /* NULL: those of the call. May not have an on_lost or a stop */
} hf_lock_item;

/* The locks that one hf_lock_all was granted. */
typedef struct hf_hold_set hf_hold_set;

/* The most items of a call. */
#define HF_LOCK_ALL_MAX 1024

/* Acquires all `count` locks, one after the other, within one `wait_ms` for all of them together.
 * With wait_ms 0, none is asked for once the longest request_timeout_ms of the clients is over.
 *
 * The order is the same in every program: by the bytes of the client's URL (hf_url), then by the
 * bytes of the name. No two calls wait for each other in a circle, if all programs write a
 * store's URL in the same way and acquire no other lock while they hold some. `holdfast run -l a
 * -l b` uses the same order.
 *
 * std::lock and std::scoped_lock of C++ do not fit locks at a store: they try without a pause, and
 * two threads refuse each other for minutes.
 *
 * `options` (may be NULL) apply to each item without options of its own. Their on_lost runs once:
 * for the first lock that is lost after hf_lock_all has returned HF_OK. A name that is there twice,
 * at clients with the same URL, is taken once; the options of both must be the same. Several
 * clients must be driven by threads of their own (HF_DRIVE_THREAD).
 *
 * Returns:
 *   HF_OK           *ret is a set; pass it to hf_unlock_all before any of its clients is closed.
 *                   All locks were held at the same moment: each was checked once more at the end
 *   HF_LOST         a lock was lost while others were being acquired. The loss ends the wait for
 *                   them. The loss of a lock without a lease (hf_remaining_ms is INT64_MAX) is
 *                   reported when the wait for the next lock has ended
 *   HF_BUSY, HF_UNREACHABLE and others
 *                   as hf_lock returned it for the lock that hf_last_error names. A rest of the
 *                   wait below 0.5 s judges no store that has replied before: HF_BUSY
 *   HF_EINVAL       no item, or more than HF_LOCK_ALL_MAX; a name is there twice, with other
 *                   options or for permits; HF_COUNTER or HF_LATCH, which have no hold
 *   common errors
 *
 * With any code but HF_OK, *ret is NULL, and what was granted is being released in the background:
 * hf_close waits for that, an exit without it does not. The calling thread is the owner, unless
 * `owner` says otherwise. While the call runs, hf_close of one of its clients waits for it. A call
 * that waits for a lock of that client ends at once. */
HF_API HF_LOOK int hf_lock_all(const hf_lock_item *items, size_t count, int64_t wait_ms,
                               const hf_lock_options *options, hf_hold_set **ret);

/* As hf_done_cb, with a set in place of a hold. Runs on the loop of one of the clients. */
typedef void hf_all_done_cb(void *arg, int code, hf_hold_set *set, const hf_error *error);

/* Begins what hf_lock_all does, and does not block. All arguments are copied. With HF_OK `done`
 * runs exactly once, with hf_lock_all's code. The `stop` of the options ends the wait. Without an
 * `owner`, each lock has an owner of its own. on_lost may run before `done` where there are several
 * clients. hf_close of a client waits until `done` has returned. For callbacks, too.
 *
 * Returns:
 *   HF_OK      begun
 *   HF_EINVAL  as hf_lock_all; or `done` is NULL, or an owner is HF_OWNER_THREAD
 *   others     as hf_lock_async for the first lock
 * With any code but HF_OK, `done` does not run. */
HF_API HF_LOOK int hf_lock_all_async(const hf_lock_item *items, size_t count, int64_t wait_ms,
                                     const hf_lock_options *options, hf_all_done_cb *done,
                                     void *arg);

/* Begins what hf_unlock_all does, and does not block. With HF_OK the set is not yours any more, and
 * `done` runs exactly once, when all are released, with hf_unlock_all's code and without a hold.
 * Each release has the request_timeout_ms of its client.
 *
 * Returns: as hf_unlock_async, for the set */
HF_API HF_LOOK int hf_unlock_all_async(hf_hold_set *set, hf_done_cb *done, void *arg);

/* Releases all locks of the set, the last one first, and frees the set, whatever it returns. Once
 * the longest request_timeout_ms of the clients has passed, the releases that are left are not
 * waited for.
 *
 * Returns:
 *   HF_OK           all released; or `set` is NULL
 *   HF_LOST         at least one had been lost before; hf_last_error names the first
 *   HF_UNREACHABLE  a store did not reply in time, or all together took too long. The other
 *                   releases were not waited for then
 *   common errors, as hf_unlock returned them for the lock that hf_last_error names */
HF_API int hf_unlock_all(hf_hold_set *set);

/* Returns: true only while all locks of the set are held; see hf_held. */
HF_API bool hf_all_held(const hf_hold_set *set);

/* Returns: the smallest hf_remaining_ms of its locks. */
HF_API int64_t hf_all_remaining_ms(const hf_hold_set *set);

/* Returns: the hold of one item, by its index in the call, for hf_token, hf_held, hf_renew and
 * others. It belongs to the set: do not release or detach it. NULL if there is no such item. */
HF_API hf_hold *hf_all_hold(const hf_hold_set *set, size_t index);

/* ---- 10. Elections -----------------------------------------------------------------------
 *
 * Of all candidates for a name, one leads. Its leadership is a hold: hf_held, hf_token (the term),
 * hf_remaining_ms and on_lost tell of it what they tell of a lock. A leader that is deposed is told
 * before another candidate can lead, as far as on_lost says. The next candidate leads at once after
 * hf_resign, and after a death as soon as the store notices: at once (local:), or when the lease
 * ends.
 *
 * At the store an election is a fair mutex, or a mutex where the engine has no fair one. Where
 * another library has elections at the same store, it and this one take part in the same:
 *
 *   etcd       Go's concurrency.Election, and etcdctl elect
 *   zk:        Curator's LeaderLatch; with names=kazoo kazoo's Election
 *
 * A name is an election or a lock, not both. */

/* Campaigns: what hf_lock and hf_lock_async do with HF_LEADER. `options` may be NULL; their `mode`
 * is ignored. Each call is a candidate of its own, unless `owner` says otherwise. Observers are
 * shown `owner_text` as the leader's text. NULL: the client's, and so always on Redis.
 *
 * Returns: as hf_lock and hf_lock_async. *ret is the leadership; pass it to hf_resign */
HF_API HF_LOOK int hf_campaign(hf_client *client, const char *name, int64_t wait_ms,
                               const hf_lock_options *options, hf_hold **ret);
HF_API HF_LOOK int hf_campaign_async(hf_client *client, const char *name, int64_t wait_ms,
                                     const hf_lock_options *options, hf_done_cb *done, void *arg,
                                     hf_request *ret);

/* Ends a leadership, and frees it: another name for hf_unlock.
 *
 * Returns: as hf_unlock; HF_LOST: it had been deposed before */
HF_API int hf_resign(hf_hold *leadership);

/* The leader of an election, as the store shows it. */
typedef struct hf_leader {
    size_t size;         /* sizeof(hf_leader), set by the caller of hf_election_leader */
    bool leads;          /* false: no candidate leads, and the rest is zero */
    uint32_t candidates; /* that wait behind it, where the store shows waiters */
    uint64_t token;      /* its term; 0: there is none */
    int64_t since_ms;    /* for how long; zk:: with its wait; -1: not known (Redis, etcd) */
    char owner_key[HF_OWNER_KEY_SIZE]; /* hf_break takes it */
    char text[256];                    /* its own description, or "" */
} hf_leader;

/* Asks which candidate leads. Blocks for up to request_timeout_ms. The answer may be old when it
 * arrives: it is for showing, and for finding the leader's address. Only hf_held and tokens
 * protect.
 *
 * Returns:
 *   HF_OK       *ret is filled
 *   HF_EKIND    the name is in use as another kind of object
 *   HF_EINVAL   also: `ret` is NULL, or its size is no hf_leader's
 *   HF_ENOTSUP  the engine cannot show locks
 *   common errors */
HF_API HF_LOOK int hf_election_leader(hf_client *client, const char *name, hf_leader *ret);

/* A watch over an election, for programs that campaign and for those that do not. */
typedef struct hf_watch hf_watch;

/* Receives a leader, or that there is none. Runs on the watch's own thread, one call at a time. It
 * may block, and call the library. `leader` lives until the function returns. */
typedef void hf_leader_cb(void *arg, const hf_leader *leader);

/* Watches an election: `changed` runs once for what is the case, and then for each change, in
 * order. A change is another leader, another text, or that none leads any more. The watch asks the
 * store every `every_ms` (0: 1,000; less than 10 is HF_EINVAL). So it leaves out a leader that came
 * and went between two questions. While the store does not reply, nothing is a change. The thread
 * has all signals blocked.
 *
 * Returns:
 *   HF_OK       *ret is a watch; pass it to hf_watch_end before the client is closed
 *   HF_EINVAL   also: `changed` or `ret` is NULL, or the client is HF_DRIVE_CALLER, which one
 *               thread at a time may use: it asks hf_election_leader
 *   HF_ELIMIT   no thread is left
 *   others      as hf_election_leader, for the first question
 * With any code but HF_OK, *ret is NULL. */
HF_API HF_LOOK int hf_election_watch(hf_client *client, const char *name, int64_t every_ms,
                                     hf_leader_cb *changed, void *arg, hf_watch **ret);

/* Ends a watch and frees it. Waits for a question that is out, up to request_timeout_ms, and for
 * `changed`: it does not run after this has returned. Called by `changed` itself, it waits for
 * nothing. In a forked child it frees memory only. NULL is allowed. */
HF_API void hf_watch_end(hf_watch *watch);

/* ---- 11. Statistics ----------------------------------------------------------------------
 *
 * What a client has counted since hf_open, for monitoring. Counting takes no lock, and on the path
 * of an uncontended lock of local: no clock. */

/* The buckets of a histogram: the first counts what took less than 1 µs, number i what took at
 * least 2^(i-1) µs and less than 2^i. The last has no upper end. */
#define HF_STATS_BUCKETS 32

typedef struct hf_stats {
    size_t size; /* sizeof(hf_stats), set by the caller of hf_stats_get */
    /* How requests have ended: hf_lock and all that acquires, hf_upgrade included. A request that
     * was refused for its arguments is not counted. */
    uint64_t granted;     /* HF_OK, of the store; a counter and a latch are granted, too */
    uint64_t nested;      /* HF_OK without the store: the owner held the name */
    uint64_t busy;        /* HF_BUSY with wait_ms 0 */
    uint64_t timed_out;   /* HF_BUSY after a wait */
    uint64_t unreachable; /* HF_UNREACHABLE */
    uint64_t canceled;    /* HF_CANCELED */
    uint64_t failed;      /* any other code */
    /* Locks that were lost, each once, by reason. */
    uint64_t lost_ended;       /* a lease of its own was over before hf_unlock */
    uint64_t lost_not_renewed; /* the lease could not be renewed in time */
    uint64_t lost_taken;       /* broken, deleted, or given up by the store */
    uint64_t renewals;         /* of leases, confirmed by the store; many locks may share one */
    uint64_t renewal_late_ms;  /* by how much the last confirmation came after it was due, which is
                                  a third of the lease after the one before */
    uint64_t requests;   /* to the engine: attempts, releases, renewals, and calls without a lock.
                            It may send several messages for one, and one for several */
    uint64_t unanswered; /* attempts and releases to which no reply came in time */
    uint64_t reconnects; /* connections made again after the first of their kind */
    uint64_t outages;    /* how often the store fell silent (HF_EVENT_STORE_DOWN) */
    uint64_t silent;     /* 1: it is silent now */
    uint64_t held;       /* locks held now; one that was lost counts until it is released */
    uint64_t waiting;    /* requests now without an end */
    uint64_t wait_us;    /* the sums of the histograms, in microseconds */
    uint64_t hold_us;
    uint64_t waits[HF_STATS_BUCKETS]; /* of granted requests, from the call to the grant */
    uint64_t holds[HF_STATS_BUCKETS]; /* of locks, from the grant to the last hf_unlock. Of those
                                         that local: grants on its shortest path, the first 64
                                         are timed, and then one of 64, which counts for all */
} hf_stats;

/* Reads the statistics. Does no I/O and waits for no thread. Each number is exact once the calls
 * that change it have returned; those of one snapshot may be a moment apart.
 *
 * Returns:
 *   HF_OK       *ret is filled, as far as its size says
 *   HF_EINVAL   also: `ret` is NULL, or its size is no hf_stats'
 *   HF_EFORKED  and no other common error */
HF_API int hf_stats_get(const hf_client *client, hf_stats *ret);

/* Returns: the same as text in the format OpenMetrics 1.0, for a program's own /metrics; free() it.
 * Each line has the client's URL as its label `store`. Times are in seconds. NULL: hf_last_error
 * says why. */
HF_API char *hf_stats_text(const hf_client *client);

#ifdef __cplusplus
}
#endif

#endif
