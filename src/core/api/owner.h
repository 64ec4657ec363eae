/* SPDX-License-Identifier: Apache-2.0 */
/* The owner's identity: the calling thread's number, and the client's texts. */
#ifndef HF_CORE_API_OWNER_H
#define HF_CORE_API_OWNER_H

#include "core/claim/claim.h"

/* Owner numbers share one space: what users choose lies below all of ours. */
#define HF_OWNER_USER_MAX ((UINT64_C(1) << 62) - 1)

/* Unique for every thread of this process, also after threads have ended. */
uint64_t hf__owner_thread(void);
/* Unique for every request. */
uint64_t hf__owner_request(struct hf_client *client);

/* Fills client->owner_text and host_name. */
void hf__owner_describe(struct hf_client *client, const char *text);

#endif
