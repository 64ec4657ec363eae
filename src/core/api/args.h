/* SPDX-License-Identifier: Apache-2.0 */
/* Checks what a caller passes in, and turns it into what the core asks for. */
#ifndef HF_CORE_API_ARGS_H
#define HF_CORE_API_ARGS_H

#include "core/claim/claim.h"

/* A lock's name at the store: with the URL's prefix. */
struct hf_store_name {
    const char *text; /* the caller's, or `room` */
    uint32_t length;
    uint64_t hash;
    char room[HF_NAME_MAX + 1];
};

/* HF_OK, or a code with its sentence in hf_last_error. `full` is the args' name, and lives as long.
 */
int hf__args_read(struct hf_lock_args *ask, struct hf_store_name *full, struct hf_client *client,
                  const char *name, int64_t wait_ms, const hf_lock_options *options);

/* A client that may be used: not NULL, not from before a fork, and, for calls that wait, not from a
 * callback on its own loop. */
int hf__args_client(const struct hf_client *client, bool waits);

/* A lock's name, as the caller gives it. */
int hf__args_name(const struct hf_client *client, const char *name, struct hf_store_name *ret);

int hf__args_wait(int64_t wait_ms);

/* A stop, or NULL. HF_CANCELED if it is set. */
int hf__args_stop(const hf_stop *stop);

/* A lease's length, cut to what can be added to a clock. */
int64_t hf__args_lease(int64_t lease_ms);

/* When a wait that begins now is over. */
int64_t hf__args_until(int64_t now_ms, int64_t wait_ms);

#endif
