/* SPDX-License-Identifier: Apache-2.0 */
/* A client that has a thread, whose loop callers may turn while that thread is parked. A parked
 * thread that nobody calls would stay so for as long as the test sets, which is for ever. */
#ifndef HF_TESTS_UNIT_LOOP_OWNER_FIXTURE_H
#define HF_TESTS_UNIT_LOOP_OWNER_FIXTURE_H

#include "core/loop/loop_handoff.h"

#include "fixture.h"

#define SOON_MS 20000
#define FOR_EVER_MS 3600000
#define OWNER 7 /* of requests */

/* The thread stays parked for so long when nobody calls. */
void begin_with(int64_t grace_ms);
/* Calls until the loop is to be had, and then has it: what is posted wakes nobody. */
void have_the_wheel(void);

hf_hold *take_as(const char *name, uint64_t owner);
hf_hold *take(const char *name);
void lock_and_unlock(const char *name);

struct answer {
    _Atomic int calls;
    _Atomic pthread_t thread;
    hf_hold *_Atomic hold;
};

/* Asks without blocking; the lock has to come. */
void request(struct answer *answer, const char *name);
/* An hf_done_cb, for a struct answer. */
void keep_answer(void *arg, int code, hf_hold *hold, const hf_error *error);

/* Who was last at these points, since note_thread is the client's on_point. */
extern _Atomic pthread_t asked_by, renewed_by, released_by;
void note_thread(void *arg, const char *point, const char *name);

#endif
