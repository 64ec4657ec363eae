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
    hf_hold *hold;      /* what `done` is handed with HF_OK */
    bool says_released; /* with HF_OK the program's sink is told, with this token */
    uint64_t token;
    hf_error error;             /* the sentence, if the code is not HF_OK and... */
    bool explained;             /* ... it is there already */
    char name[HF_NAME_MAX + 1]; /* the store's */
};

/* Counts the call in. HF_ENOMEM or HF_ECLOSED, with a sentence. */
int hf__reply_new(struct hf_reply **ret, struct hf_client *client, const char *name,
                  uint64_t name_hash, hf_done_cb *done, void *arg);
/* Any thread: the reply is this code, and its sentence is in hf_last_error. The reply is gone. */
void hf__reply_send(struct hf_reply *reply, int code);

#endif
