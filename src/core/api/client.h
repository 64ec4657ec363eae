/* SPDX-License-Identifier: Apache-2.0 */
/* Clients: opening in two steps, so that a simulation can put its own engine and clock in between.
 */
#ifndef HF_CORE_API_CLIENT_H
#define HF_CORE_API_CLIENT_H

#include "core/claim/claim.h"

/* Everything but the loop's driver and the engine. NULL: out of memory. */
struct hf_client *hf__client_new(const hf_client_options *options);
void hf__client_free(struct hf_client *client);

/* After the engine is open. */
void hf__client_set_engine(struct hf_client *client, struct hf_engine *engine);

/* What the store has to say for itself: an answer to any question, or silence. Any thread. */
void hf__client_heard(struct hf_client *client, bool answered);
/* Silence, and what is known of its reason; NULL: nothing. */
void hf__client_heard_why(struct hf_client *client, const hf_error *why);

#endif
