/* SPDX-License-Identifier: Apache-2.0 */
/* A call that is made of several others: hf_close of a client waits for its end, not only for the
 * end of each part. */
#ifndef HF_CORE_API_CALLS_H
#define HF_CORE_API_CALLS_H

#include <stdbool.h>
#include <stdint.h>

struct hf_client;

/* Begins a call. Returns HF_OK, or why there can be none: the client is closing or of another
 * process, or this is one of its callbacks and the call `waits`. */
int hf__call_begin(struct hf_client *client, bool waits);
/* How long a call without a wait_ms of its own may take. */
int64_t hf__call_timeout_ms(const struct hf_client *client);
/* The code of a call that an HF_UNREACHABLE ends after the last had_ms of its wait: HF_BUSY if that
 * is too short to judge a store by, unless the client knows its store to be silent. */
int hf__call_judge(const struct hf_client *client, int64_t had_ms);
/* HF_ECLOSED if hf_close has begun since. */
int hf__call_check(const struct hf_client *client);
/* Only calls and hf_dispatch run the client's loop (HF_DRIVE_CALLER). */
bool hf__call_runs_loop(const struct hf_client *client);
/* Until it is taken back: a request of this thread is answered by the client's thread, and never
 * inside the call that begins it. For a thread that has a mutex which the answer takes, or that
 * does not watch the loop. */
void hf__call_answers_later(bool later);
/* The client may be gone when this returns. */
void hf__call_ended(struct hf_client *client);

#endif
