/* SPDX-License-Identifier: Apache-2.0 */
/* What the conformance tests share: a client on the store under test, looking, and peers. */
#ifndef TESTS_CONFORMANCE_H
#define TESTS_CONFORMANCE_H

#include "test.h"

#include <holdfast.h>

/* Long enough for anything that must happen, on any machine. */
#define SOON_MS 20000

/* $HOLDFAST_TEST_URL, or an embedded store in the test's own directory. */
const char *store_url(void);
bool store_is_local(void);
/* Whether it keeps what each owner says of itself. */
bool store_keeps_texts(void);
/* Are its locks a database's own, which know names and no kinds? */
bool store_has_plain_locks(void);
/* Does what a client has rest on sessions? They bound how much it can be, and how far ahead any of
 * it can be believed in. */
bool store_has_sessions(void);
/* Does the store's client library block, so that each connection has a thread of its own? */
bool store_has_threads(void);
/* Has each reader a token of its own, larger than that of the last writer? */
bool store_numbers_readers(void);

/* How often to do what `count` rounds try: a quarter of it where a round keeps a server busy for
 * milliseconds, unless $HOLDFAST_TEST_ALL_ROUNDS asks for all. */
int store_rounds(int count);

/* A name no other test uses, the same in all processes of one. Valid until this thread ends, or has
 * asked for 32 more. */
const char *name_of(const char *stem);

/* The lease of clients opened from now on, in peers too; 0, as at first: the library's own. Where a
 * test waits for a loss that only the next renewal tells, a shorter one tells it sooner. */
extern int64_t client_lease_ms;
hf_client *open_client(void);
hf_client *open_client_with(hf_client_options options);
/* A lease of `lease_ms`, or the shortest one that the store has. */
int64_t short_lease(int64_t lease_ms);
/* A lease of `lease_ms`, or the longest one that the store has. */
int64_t long_lease(int64_t lease_ms);
/* Skips the test unless the client has all of these. */
void need(const hf_client *client, unsigned caps);
/* Skips the test where a fork() must not meet a client's thread at work. */
void need_forks_at_any_time(void);

void check_code(const char *file, int line, const char *text, int got, int wanted);
void check_in_vain(const char *file, int line, const char *text, int got);
void check_error(const char *file, int line, const char *text, int got, int wanted);

#define CHECK_CODE(call, wanted) check_code(__FILE__, __LINE__, #call, (call), (wanted))
/* A wait that ended without the lock: HF_BUSY, or HF_UNREACHABLE where it was over before a server
 * had answered, however short that was. */
#define CHECK_IN_VAIN(call) check_in_vain(__FILE__, __LINE__, #call, (call))
/* Also that hf_last_error says so in a proper sentence. */
#define CHECK_ERROR(call, wanted) check_error(__FILE__, __LINE__, #call, (call), (wanted))

#define LOCK_OPTIONS(...) (&HF_LOCK_OPTIONS(__VA_ARGS__))
/* Among them, where a test would miss a wake-up: a look for circles wakes the call that waits, and
 * would hide that it was lost. */
#define NO_LOOK .deadlock_ms = HF_FOREVER

/* Takes the name without waiting for anybody, or fails the test. Owner 0: the thread. */
hf_hold *take(hf_client *client, const char *name, hf_mode mode, uint64_t owner);
/* The same of a mutex where the store's answers have a limit that a machine may stand still for. */
hf_hold *take_patiently(hf_client *client, const char *name);
/* What an attempt to take it now answers; gives it back at once if it could. */
int probe(hf_client *client, const char *name, hf_mode mode, uint64_t owner);
void give_back(hf_hold *hold);
/* An hf_lost_cb for an _Atomic int. */
void count_loss(void *arg, const hf_loss *loss);
/* Takes a mutex, and counts its losses. */
hf_hold *take_watched(hf_client *client, const char *name, _Atomic int *losses);

/* Locks "one" at each in vain: the server at this port is down, and that is told in time. */
void check_lock_all_told(const hf_lock_item *items, size_t count, int64_t wait_ms, int port);

/* ---- Looking ---- */

struct seen {
    char name[64];
    hf_kind kind;
    hf_role role;
    uint32_t total, value, permits, rank;
    uint64_t token;
    hf_mode mode;
    char owner_key[HF_OWNER_KEY_SIZE], owner_text[200], host[100];
    int64_t pid, since_ms, lease_left_ms;
};

struct picture {
    int count, holders, waiters, objects;
    struct seen seen[128]; /* the first ones */
};

/* Valid until the thread looks again. */
const struct picture *look(hf_client *client, const char *name);
int holders(hf_client *client, const char *name);
int waiters(hf_client *client, const char *name);
const struct seen *find_role(const struct picture *picture, hf_role role, int index);
/* Nobody holds and nobody waits, within a short while. */
void check_nothing_left(hf_client *client, const char *name);

/* ---- Peers: other processes with a client of their own that do as they are told ---- */

struct peer {
    struct child child;
    uint64_t token; /* of the last lock that was answered HF_OK */
};

void peer_start(struct peer *peer);
/* Begins to lock; the answer comes by peer_answer. `slot` (0..7) names the hold from then on. */
void peer_begin(struct peer *peer, int slot, const char *name, int64_t wait_ms,
                const hf_lock_options *options);
int peer_answer(struct peer *peer);
int peer_lock(struct peer *peer, int slot, const char *name, int64_t wait_ms,
              const hf_lock_options *options);
int peer_unlock(struct peer *peer, int slot);
bool peer_held(struct peer *peer, int slot);
void peer_end(struct peer *peer);

/* ---- Asynchronous requests: what became of them ---- */

struct outcome {
    _Atomic int calls;
    _Atomic int code;
    hf_hold *_Atomic hold;
    pthread_t thread;
    char text[360];
};

void record_outcome(void *arg, int code, hf_hold *hold, const hf_error *error);
#define WAIT_OUTCOME(outcome) EVENTUALLY((outcome)->calls > 0, SOON_MS)
/* Asks for a lock, for as long as it takes. */
void begin_wait(hf_client *client, const char *name, hf_mode mode, struct outcome *outcome);
/* What was asked for is granted soon. NULL: it has no hold. */
hf_hold *await_grant(const struct outcome *outcome);
/* One client asks for `count` names without waiting in between, and then releases all of them so.
 * Each call is answered HF_OK, and where the store shows all names none of them is left. */
void lock_and_unlock_many(int count);

#endif
