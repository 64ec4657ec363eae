/* SPDX-License-Identifier: Apache-2.0 */
/* The watchdog: renews leases at a third of their length, counts them from the question, and
 * declares them lost by our own clock. One for every store. Loop only, but for
 * hf__lease_valid_until. */
#ifndef HF_CORE_LEASE_LEASE_H
#define HF_CORE_LEASE_LEASE_H

#include "core/claim/claim.h"

/* `claim` rests on op.out.rests_on from now on, and on nothing else. The first claim begins a
 * lease's watch, and the last one to leave ends it. */
void hf__lease_follow(struct hf_claim *claim);
void hf__lease_unwatch(struct hf_claim *claim);

/* Until when whatever rests on `lease` may be believed: its end, less the drift margin. */
int64_t hf__lease_valid_until(const struct hf_lease *lease);

/* When a lease of this length was asked for that may be believed in until then. */
int64_t hf__lease_asked_at(int64_t valid_until_ms, int64_t lease_ms);

/* The store has confirmed a lease of this length (hf_renew). It never shortens what was there. */
void hf__lease_extended(struct hf_lease *lease, int64_t asked_at_ms, int64_t lease_ms);

#endif
