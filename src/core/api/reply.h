/* SPDX-License-Identifier: Apache-2.0 */
/* The reply to a call that does not block: a waiter of its own, and a task that tells the program,
 * on the client's loop. Until that has run, the call is counted in, and hf_close waits for it. */
#ifndef HF_CORE_API_REPLY_H
#define HF_CORE_API_REPLY_H

#include "core/claim/claim.h"

struct hf_reply {
    struct hf_waiter waiter;
    struct hf_task task;
    struct hf_client *client;
    uint64_t name_hash;
    hf_done_cb *done;
    void *arg;
    hf_hold *hold; /* what `done` is handed with HF_OK */
    /* Of a one-shot question: takes the waiter's answer out of it, on the thread that tells. */
    void (*finish)(struct hf_reply *reply);
    struct hf_oneshot_call *call;
    uint32_t *ret_value; /* where the program wants a number, or NULL */
    hf_entry_cb *visit;
    struct copied_entry *found; /* for `visit` */
    bool says_released;         /* with HF_OK the program's sink is told, with this token */
    uint64_t token;
    hf_error error;             /* the sentence, if the code is not HF_OK and... */
    bool explained;             /* ... it is there already */
    char name[HF_NAME_MAX + 1]; /* the store's */
};

/* Counts the call in. HF_EINVAL without a callback, HF_ENOMEM or HF_ECLOSED, with a sentence. */
int hf__reply_new(struct hf_reply **ret, struct hf_client *client, const char *name,
                  uint64_t name_hash, hf_done_cb *done, void *arg);
/* Any thread: the reply is this code, and its sentence is in hf_last_error. The reply is gone. */
void hf__reply_send(struct hf_reply *reply, int code);

#endif
