/* SPDX-License-Identifier: Apache-2.0 */
/* A request with a callback: what asks for a lock, or raises one, without blocking. */
#ifndef HF_CORE_API_REQUEST_H
#define HF_CORE_API_REQUEST_H

#include "core/claim/claim.h"

/* Prepares a claim for a question. */
void hf__request_begin(struct hf_claim *claim, const struct hf_lock_args *ask);

/* What lets a stop end a request; free() ends one that was not started. */
struct hf_stoppable;

/* NULL without a stop. HF_ENOMEM, with a sentence. */
int hf__stoppable_new(struct hf_stoppable **ret, struct hf_client *client, const hf_stop *stop);

/* Sends a new claim to the loop, or one that is marked as upgrading: `done` hears the answer. */
void hf__request_start(struct hf_claim *claim, const struct hf_lock_args *ask, bool raise,
                       struct hf_stoppable *stoppable, hf_done_cb *done, void *arg);
/* The calling thread asks for a new claim, once. HF_ANSWER_FOLLOWS: the loop goes on with it, and
 * `done` hears the answer. The claim may be gone afterwards, and the stoppable is. */
struct hf_answer hf__request_start_here(struct hf_claim *claim, const struct hf_lock_args *ask,
                                        struct hf_stoppable *stoppable, hf_done_cb *done,
                                        void *arg);

#endif
