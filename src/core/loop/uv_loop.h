/* SPDX-License-Identifier: Apache-2.0 */
/* What turns the loop: libuv, in a thread of the client, or in the caller. Where there is a thread,
 * a caller takes its place for as long as it waits, if it can (loop_owner.h). What is declared here
 * is defined in uv_loop.c and loop_handoff.c. */
#ifndef HF_CORE_LOOP_UV_LOOP_H
#define HF_CORE_LOOP_UV_LOOP_H

#include "core/claim/claim.h"

/* Initialises client->loop and host.uv. The thread starts with hf__uv_loop_start. */
int hf__uv_loop_open(struct hf_client *client, enum hf_drive_kind kind, bool shared,
                     hf_error *error);
/* May a program watch the descriptor, beside the client's thread? */
bool hf__uv_loop_is_shared(const struct hf_client *client);
int hf__uv_loop_start(struct hf_client *client, hf_error *error);
/* After the engine has closed: ends the thread, frees everything. */
void hf__uv_loop_close(struct hf_client *client);
/* In a forked child: frees what can be freed without touching the parent's kernel objects. */
void hf__uv_loop_abandon(struct hf_client *client);

/* What a thread that waits does at this time, and after a signal's handler has run while it sleeps.
 * It does not turn the loop then. It sets the time anew; HF_NEVER: no more. */
struct hf_interlude {
    int64_t at_ms;
    void (*run)(struct hf_interlude *interlude);
};
#define HF_INTERLUDE_MS 100

/* Is the calling thread inside this client's loop (in a callback)? */
bool hf__uv_loop_inside(const struct hf_client *client);

/* A thread that waits for the loop says so before it posts what the loop is to do, and then calls
 * hf__uv_loop_wait, with what hf__uv_loop_begin_wait has answered: is the calling thread going to
 * turn the loop? Blocks until *flag is set. The interlude may be NULL. */
bool hf__uv_loop_begin_wait(struct hf_client *client);
void hf__uv_loop_wait(struct hf_client *client, _Atomic uint32_t *flag, bool turns,
                      struct hf_interlude *interlude);
/* The same for what no caller waits for: the loop is turned once, if it is the caller's to turn. */
bool hf__uv_loop_begin_push(struct hf_client *client);
void hf__uv_loop_push(struct hf_client *client, bool turns);
/* The same for a request of a program that watches the descriptor: its callbacks run here. */
bool hf__uv_loop_begin_watched(struct hf_client *client);
void hf__uv_loop_watched(struct hf_client *client, bool turns);
/* From now on they do not run here, whatever this thread asks for; or they may again. */
void hf__uv_loop_watch_nothing(bool nothing);
/* The store has answered that another owner has what a caller waits for. In the loop. */
void hf__uv_loop_refused(struct hf_client *client);
/* A release lets another process go on: the thread that waits for its reply sleeps, and does not
 * poll. Loop only. */
void hf__uv_loop_yield_processor(struct hf_client *client);
/* Sets *flag and wakes the thread that waits for it. */
void hf__uv_loop_notify(struct hf_client *client, _Atomic uint32_t *flag);
/* The waiter's answer is there. It may be gone when this returns. */
static inline void hf__waiter_tell(struct hf_client *client, struct hf_waiter *waiter)
{
    if (waiter->tell)
        waiter->tell(waiter);
    else
        hf__uv_loop_notify(client, &waiter->answered);
}

/* A request with a callback is about to be posted; it is answered. The client's thread stays at the
 * loop in between. */
void hf__uv_loop_request_begins(struct hf_client *client);
void hf__uv_loop_request_ended(struct hf_client *client);
/* In a task that may lead to a callback of the program: where a caller turns the loop, the task is
 * run again by the client's thread, which is called at once. False: it may go on. */
bool hf__uv_loop_defer_to_thread(struct hf_client *client, struct hf_task *task);
/* In a loop that is turned by a caller, which must not run what the program wants to be told. */
bool hf__uv_loop_is_borrowed(const struct hf_client *client);
/* What follows is a callback of the program, which may take its time. */
void hf__uv_loop_before_callback(struct hf_client *client);

int hf__uv_loop_fd(const struct hf_client *client);
void hf__uv_loop_dispatch(struct hf_client *client);

#endif
