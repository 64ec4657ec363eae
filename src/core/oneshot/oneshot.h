/* SPDX-License-Identifier: Apache-2.0 */
/* One question on the loop that a thread waits for, but not longer than the client's patience: then
 * the question goes on without it, and frees itself. */
#ifndef HF_CORE_ONESHOT_ONESHOT_H
#define HF_CORE_ONESHOT_ONESHOT_H

#include "core/claim/claim.h"

struct hf_oneshot_call {
    struct hf_oneshot question; /* what the engine sees */
    struct hf_client *client;
    void (*begin)(struct hf_oneshot_call *call); /* on the loop: asks; NULL: the engine */
    void (*ended)(struct hf_oneshot_call *call); /* on the loop, once answered, however late; or
                                                      NULL */
    void (*left)(struct hf_oneshot_call *call);  /* on the loop: the caller goes without an answer;
                                                      or NULL */
    void (*discard)(struct hf_oneshot_call *call); /* frees it */
    struct hf_link link;                           /* in client->oneshots, until it is answered */
    struct hf_task start;
    struct hf_timer patience;
    struct hf_waiter *waiter;
    hf_stop *stop;                      /* ends hf__oneshot_call_run; NULL: none */
    struct hf_oneshot_call **stoppable; /* by which the stop finds it, until its caller is told */
    bool started;                       /* the loop has begun it */
    bool stopped;                       /* the stop was set before that: it is not asked */
    bool abandoned;                     /* its caller has left */
};

/* HF_OK: answered, and the call is the caller's again. HF_UNREACHABLE, HF_ECLOSED, HF_CANCELED: not
 * in time, or not before hf_close or the stop, and the call is not the caller's any more. */
struct hf_answer hf__oneshot_call_run(struct hf_oneshot_call *call);

/* Begins that, and returns: the waiter is told by the loop. */
void hf__oneshot_call_begin(struct hf_oneshot_call *call, struct hf_waiter *waiter);

/* On the loop: asks the engine. */
void hf__oneshot_call_ask(struct hf_oneshot_call *call);

/* A list of all names that goes on while its caller does something else. NULL: there is none, or
 * client->peeks: one at a time, so that a busy store does not get lists faster than it makes them.
 * It keeps no client open: hf_close ends it, and its caller still has to. */
struct hf_peek *hf__peek_begin(struct hf_client *client);
bool hf__peek_is_there(struct hf_peek *peek);
/* Shows what there is, if that is all of it, and frees it. Blocks at nothing: a list that is not
 * there is freed when it comes. */
bool hf__peek_end(struct hf_peek *peek, hf_entry_cb *visit, void *arg);

/* On the loop of a client that is being closed: no caller waits any longer. */
void hf__oneshots_end(struct hf_client *client);
/* Frees what was never answered, once the engine is gone. */
void hf__oneshots_discard(struct hf_client *client);

#endif
