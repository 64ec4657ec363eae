/* SPDX-License-Identifier: Apache-2.0 */
/* Circles of threads of this process that wait for each other, over all its clients. */
#ifndef HF_CORE_API_OWN_CIRCLE_H
#define HF_CORE_API_OWN_CIRCLE_H

#include "core/table/blocked.h"

/* Does this hold keep such a request from its lock? */
bool hf__blocked_is_kept_out(const struct hf_blocked *blocked, const struct hf_claim *holder);
/* With its stripe locked: does it go on waiting? */
bool hf__blocked_still_waits(const struct hf_blocked *blocked);
/* The entry of the lock that it waits for, or NULL. With the shard locked. */
struct hf_shard *hf__blocked_shard(const struct hf_blocked *blocked);
struct hf_lock_entry *hf__blocked_entry(const struct hf_blocked *blocked);
uint64_t hf__blocked_thread(const struct hf_blocked *blocked);

/* The client's store in a sentence: the begin of its URL. */
#define HF_STORE_TEXT_SIZE 48
void hf__store_tell(const struct hf_client *client, char text[HF_STORE_TEXT_SIZE]);

/* Does the call close a circle? Then it has ended, and the sentence names the circle. */
bool hf__own_circle_end(struct hf_blocked *blocked, char *text, size_t size);

#endif
