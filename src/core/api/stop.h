/* SPDX-License-Identifier: Apache-2.0 */
/* Ends waits from outside. A wait that has a stop is in a list of its client. hf_stop_set, which
 * may run in a signal's handler, has the loop of each such client look through that list. */
#ifndef HF_CORE_API_STOP_H
#define HF_CORE_API_STOP_H

#include "core/claim/claim.h"
#include "core/loop/uv_loop.h"

struct hf_stop_wait {
    struct hf_link link; /* in client->stop_waits (under client->stop_mutex, as `wanted`) */
    struct hf_interlude interlude;
    struct hf_client *client;
    hf_stop *stop;
    void (*end)(struct hf_stop_wait *wait); /* on the loop, under client->stop_mutex; maybe late */
    hf_request request;                     /* what `end` ends, or */
    struct hf_waiter *waiter;               /* the waiter for a change of a claim */
    bool wanted;                            /* `interrupted` has said so */
};

/* From before a request is sent to the loop until it has its answer. Without a stop, both do
 * nothing. Returns what the waiting thread does in between; NULL: nothing. */
struct hf_interlude *hf__stop_wait_begin(struct hf_stop_wait *wait, struct hf_client *client,
                                         hf_stop *stop, void (*end)(struct hf_stop_wait *wait));
void hf__stop_wait_end(struct hf_stop_wait *wait);

/* False: there is no memory for that. A wait without a thread of its own would not hear a stop. */
bool hf__stop_reaches(struct hf_client *client);

/* When a client is made, and before it is freed. */
void hf__stops_open(struct hf_client *client);
void hf__stops_close(struct hf_client *client);

#endif
