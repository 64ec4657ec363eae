/* SPDX-License-Identifier: Apache-2.0 */
/* Clients: opening in two steps, so that a simulation can put its own engine and clock in between.
 */
#ifndef HF_CORE_API_CLIENT_H
#define HF_CORE_API_CLIENT_H

#include "core/claim/claim.h"

/* Everything but the loop's driver and the engine. NULL: out of memory. */
struct hf_client *hf__client_new(const hf_client_options *options);

/* After the engine is open. */
void hf__client_set_engine(struct hf_client *client, struct hf_engine *engine);

#endif
