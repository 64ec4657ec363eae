/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that contend for one lock of a Redis server, each with a client of its own, and look at
 * what the server has of them. */
#ifndef HF_TESTS_CHAOS_LIB_CONTENDERS_H
#define HF_TESTS_CHAOS_LIB_CONTENDERS_H

#include "conformance.h"
#include "server.h"

#define CONTENDERS 3

/* A process with a client of its own, which locks and unlocks the name "one" as it is told. */
struct contender {
    struct child child;
    const struct server *server;
    hf_mode mode;
    int64_t lease_ms; /* 0: renewed */
    /* What it says of itself, in shared memory. */
    struct state {
        _Atomic bool holds;
        _Atomic uint64_t token;
    } * state;
};

/* A server of their own, and who wants its lock. */
struct scene {
    struct server server;
    struct contender contenders[CONTENDERS];
};

struct scene *begin(hf_mode mode);
/* Their leases are fixed. */
struct scene *begin_with(hf_mode mode, int64_t lease_ms);
/* All of them leave, and nothing may be left. */
void end(struct scene *scene);
void leave(struct contender *contender);
void check_nothing_is_left(const struct scene *scene);

void take_it(struct contender *contender);
/* It begins to wait, as so manieth. */
void wait_for_it(struct scene *scene, int place, struct contender *contender);
void let_go(struct contender *contender);

/* What a script answers, which is a number. */
int ask(const struct scene *scene, const char *script);
/* How many are in the queue and can be told. */
int waiting(const struct scene *scene);

/* It begins to wait as well, for a lease that is shorter than that of a grant: a fixed one, or one
 * that is renewed. */
#define SHORT_LEASE_MS 3000
void wait_for_fixed_lease(struct scene *scene, int place, struct contender *contender);
void wait_for_renewed_lease(struct scene *scene, int place, struct contender *contender);

#define QUEUE "'holdfast_lock_queue:{one}'"

#endif
