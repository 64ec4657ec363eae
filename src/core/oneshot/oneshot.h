/* SPDX-License-Identifier: Apache-2.0 */
/* One question on the loop that a thread waits for, but not longer than the client's patience: then
 * the question goes on without it, and frees itself. */
#ifndef HF_CORE_ONESHOT_ONESHOT_H
#define HF_CORE_ONESHOT_ONESHOT_H

#include "core/claim/claim.h"

struct hf_oneshot {
    struct hf_client *client;
    void (*begin)(struct hf_oneshot *verb); /* on the loop: asks */
    void (*ended)(struct hf_oneshot *verb); /* on the loop, once answered, however late; or NULL */
    void (*left)(
        struct hf_oneshot *verb); /* on the loop: the caller goes without an answer; or NULL */
    void (*discard)(struct hf_oneshot *verb); /* frees it */
    struct hf_link link;                      /* in client->verbs, until it is answered */
    struct hf_task start;
    struct hf_timer patience;
    struct hf_waiter *waiter;
    bool abandoned; /* its caller has left */
};

/* HF_OK: answered, and the verb is the caller's again. HF_UNREACHABLE, HF_ECLOSED: not in time, or
 * not before hf_close, and the verb is not the caller's any more. */
struct hf_answer hf__oneshot_run(struct hf_oneshot *verb);

/* On the loop: a part of the answer is there, so the client's patience begins anew. */
void hf__oneshot_goes_on(struct hf_oneshot *verb);

/* On the loop: the answer is there. */
void hf__oneshot_answered(struct hf_oneshot *verb);

/* On the loop of a client that is being closed: nobody waits any longer. */
void hf__oneshots_end(struct hf_client *client);
/* Frees what was never answered, once the engine is gone. */
void hf__oneshots_discard(struct hf_client *client);

#endif
