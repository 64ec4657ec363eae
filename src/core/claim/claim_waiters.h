/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a claim that is being changed: to have it lowered, or to raise it next. */
#ifndef HF_CORE_CLAIM_CLAIM_WAITERS_H
#define HF_CORE_CLAIM_CLAIM_WAITERS_H

#include "core/claim/claim.h"

/* Has the loop look whether the claim needs lowering; `waiter`, if not NULL, is told. With the
 * shard locked, as all that follows but hf__claim_waiters_await and hf__waiters_complete. */
void hf__claim_waiters_line_up(struct hf_claim *claim, struct hf_waiter *waiter);

/* On the loop: what is new in line waits with limited patience from here on. */
void hf__claim_waiters_begin_waits(struct hf_claim *claim);

/* On the loop: takes the waiters for the lowering that begins now out of the line. */
struct hf_waiter *hf__claim_waiters_take_unlocks(struct hf_claim *claim);

/* On the loop: the claim is at rest, or over, and needs no lowering. */
void hf__claim_waiters_complete(struct hf_claim *claim);

/* On the loop of a client that is being closed: nothing is raised any more. */
void hf__claim_waiters_end_waits(struct hf_claim *claim);

/* Waits until the claim is not driven any more, to raise it then. HF_OK: it may be worth it.
 * HF_BUSY, HF_UNREACHABLE: not before until_ms. HF_ECLOSED; HF_CANCELED by the stop, which may be
 * NULL. The claim is pinned, or held by the caller. */
int hf__claim_waiters_await(struct hf_claim *claim, int64_t until_ms, hf_stop *stop);

/* On the loop: tells everybody in line; the first one gets the engine's words. */
void hf__waiters_complete(struct hf_client *client, struct hf_waiter *first,
                          struct hf_answer answer);

/* For a bare try to raise what is just being changed. */
#define HF_REST_TOO_EARLY                                                                          \
    "\"%.200s\": an earlier HF_WRITE is still asked for, or being released; ask again"

#endif
