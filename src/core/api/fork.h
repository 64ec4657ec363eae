/* SPDX-License-Identifier: Apache-2.0 */
/* All clients of this process, and whether we are still the process that opened one. */
#ifndef HF_CORE_API_FORK_H
#define HF_CORE_API_FORK_H

#include "core/claim/claim.h"

/* Other threads' fork() waits from a forbid that answered HF_OK until the allow. */
int hf__fork_forbid(void);
void hf__fork_allow(void);
/* Between the two: the first half of a new client's id. It begins with HF_PROCESS_DIGITS that all
 * clients of this process share, and no forked child: a thread is known by them at all stores. */
uint64_t hf__owner_client_id(void);
/* fork(): every client registers; in a child, its engine lets go of what the kernel shares. */
int hf__fork_register(struct hf_client *client);
void hf__fork_unregister(struct hf_client *client);
bool hf__forked(const struct hf_client *client);
/* All clients of this process, none of which goes in between. `visit` does not block. */
void hf__clients_visit(void (*visit)(struct hf_client *client, void *arg), void *arg);

#endif
