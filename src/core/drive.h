/* What turns the loop: libuv, in a thread of the client, or in the caller. */
#ifndef HF_CORE_DRIVE_H
#define HF_CORE_DRIVE_H

#include "core/claim.h"

/* Initialises client->loop and host.uv. The thread starts with hf__drive_start. */
int hf__drive_open(struct hf_client *client, enum hf_drive_kind kind, hf_error *error);
int hf__drive_start(struct hf_client *client, hf_error *error);
/* After the engine has closed: ends the thread, frees everything. */
void hf__drive_close(struct hf_client *client);
/* In a forked child: frees what can be freed without touching the parent's kernel objects. */
void hf__drive_abandon(struct hf_client *client);

/* Is the calling thread inside this client's loop (in a callback)? */
bool hf__drive_inside(const struct hf_client *client);

/* Blocks until *flag is set, turning the loop if that is the caller's job. Who is sure to call it
 * next, and says so before it posts, need not wake the loop. */
void hf__drive_begin_wait(struct hf_client *client);
void hf__drive_wait(struct hf_client *client, _Atomic uint32_t *flag);
/* Sets *flag and wakes who waits for it. */
void hf__drive_notify(_Atomic uint32_t *flag);

int hf__drive_fd(const struct hf_client *client);
void hf__drive_dispatch(struct hf_client *client);

#endif
