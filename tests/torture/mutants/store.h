/* SPDX-License-Identifier: Apache-2.0 */
/* A lease store in memory that processes share: names, who holds them and until when, who waits.
 *
 * It is changed by scripts only. A script is atomic, as one that runs inside a store on the network
 * is: its changes are made in a copy, and count from one moment on, in which its caller is alive.
 * Time is the store's own, CLOCK_BOOTTIME. */
#ifndef TESTS_TORTURE_MUTANTS_STORE_H
#define TESTS_TORTURE_MUTANTS_STORE_H

#include "torture/history/history.h"

enum { STORE_CLAIMS = 24 };

struct store;

/* What an owner has, or waits for. */
struct store_claim {
    uint64_t owner, token;
    int64_t expires_ns; /* a waiter: he is passed over if he has not asked again by then */
    int64_t lease_ns;
    uint32_t permits;
    enum torture_share share;
};

struct store_claims {
    unsigned count;
    struct store_claim list[STORE_CLAIMS];
};

struct store_value {
    uint64_t token; /* the last one given out */
    uint32_t count; /* of a latch */
    struct store_claims holders;
    struct store_claims waiters; /* the first is the next */
};

struct store_question {
    uint64_t owner;
    int64_t lease_ns;
    uint32_t permits, limit; /* how many, of how many; 1 of 1 where nothing is counted */
    enum torture_share share;
    bool shares;    /* of a read-write lock */
    bool queues;    /* waits for its turn */
    bool immortal;  /* without a lease */
    bool unchecked; /* whatever is there */
};

struct store_answer {
    bool yes;
    uint64_t token;
    int64_t retry_ns; /* a no stands until then, if nothing changes */
    unsigned held, waiting;
};

/* `memory` was zeroed once, before the first process came. */
struct store *store_open(void *memory, size_t size);

typedef void store_script(struct store *store, const char *name,
                          const struct store_question *question, struct store_answer *ret);

store_script script_take;      /* asked again: the same answer, and the lease begins anew */
store_script script_look;      /* would it be granted? */
store_script script_draw;      /* only a token */
store_script script_give;      /* if it is the owner's */
store_script script_delete;    /* whoever's it is */
store_script script_is_owner;  /* changes nothing */
store_script script_renew;     /* if it is the owner's */
store_script script_extend;    /* whoever's it is */
store_script script_upgrade;   /* to exclusive, when there is nobody else */
store_script script_downgrade; /* to shared */
store_script script_latch_set; /* to `permits` */
store_script script_latch_down;
store_script script_latch_is_open;
store_script script_count;  /* holders and waiters */
store_script script_forget; /* all of it */

/* How often what is known of a name has changed in a way that others wait for. */
uint32_t store_changes(const struct store *store, const char *name);
/* Sleeps until there are more changes than `seen`, or until `until_ns`. */
void store_sleep(struct store *store, const char *name, uint32_t seen, int64_t until_ns);

/* ---- between the files of the store ---- */

struct store_key;

/* A script at work. */
struct store_command {
    struct store *store;
    struct store_key *key;
    struct store_value *value; /* a copy */
    int64_t now_ns;
    bool tells; /* something has changed that others wait for */
};

struct store_command store_begin(struct store *store, const char *name);
void store_commit(struct store_command *command);

#endif
