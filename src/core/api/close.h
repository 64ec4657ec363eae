/* SPDX-License-Identifier: Apache-2.0 */
/* Closing clients. */
#ifndef HF_CORE_API_CLOSE_H
#define HF_CORE_API_CLOSE_H

#include "core/claim/claim.h"

/* Frees a client that has no claims: engine, loop, memory. Also one that was opened halfway. */
void hf__client_close_parts(struct hf_client *client);
/* The memory alone. */
void hf__client_free(struct hf_client *client);

#endif
