/* SPDX-License-Identifier: Apache-2.0 */
/* Stories of the wait loop in virtual time. The test plays the store, word for word; what comes of
 * it is one line for each step of a claim, each question to the store, and each answer to a caller.
 *
 *     ask(7, HF_MUTEX, 100);
 *     refused(7, FOR_EVER);
 *     wake(7);
 *
 * gives
 *
 *     [   0] orders/42 #7: queued, turn -> asking
 *     [   0] #7 attempts
 *     [   0] orders/42 #7: asking, refused -> waiting
 *     [   0] orders/42 #7: waiting, wake -> asking
 *     [   0] #7 attempts */
#ifndef TESTS_TRACE_STORY_H
#define TESTS_TRACE_STORY_H

#include "core/claim/claim.h"
#include "test.h"

#define LEASE_MS 1000
#define FOR_EVER (-1)

void story_begin(void);
/* The story must have been this. Begins the next one. */
void story_was(const char *wanted);

/* ---- the callers, by their owner numbers ---- */

void ask(uint64_t owner, hf_mode mode, int64_t wait_ms);
void ask_leased(uint64_t owner, hf_mode mode, int64_t wait_ms, int64_t lease_ms);
/* The last hold that this owner was granted. */
hf_hold *hold_of(uint64_t owner);
void give_back(uint64_t owner);
void cancel(uint64_t owner);
void pass_ms(int64_t ms);
/* Time passes, and the client's loop does not turn. */
void pause_ms(int64_t ms);

/* The sentence that this owner heard last; "" with HF_OK. */
const char *sentence_of(uint64_t owner);

/* ---- the store ---- */

/* Holds and places rest on the owner's own lease, counted from the question. */
void granted(uint64_t owner);
/* The same for a store that forgets nobody. */
void granted_for_ever(uint64_t owner);
void refused(uint64_t owner, int64_t retry_in_ms);
/* Has given the asker a place in the queue that rests on a lease. */
void refused_with_place(uint64_t owner);
/* The same, resting on one of two sessions. */
void refused_in_session(uint64_t owner, unsigned number);
void granted_in_session(uint64_t owner, unsigned number);
void silent(uint64_t owner);
void gone(uint64_t owner);
void failed(uint64_t owner, int code);
void wake(uint64_t owner);
void renewed(uint64_t owner, bool still_ours);
void session_renewed(unsigned number, bool still_ours);

#endif
