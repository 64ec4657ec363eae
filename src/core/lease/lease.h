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

/* The clocks of two machines run apart by at most one part in a hundred, and the store rounds.
 * docs/guarantees.md says why. */
static inline int64_t hf__lease_margin_ms(int64_t lease_ms)
{
    return lease_ms / 100 + 2; /* mutant: no-margin-for-clocks-that-run */
}

/* Until when whatever rests on `lease` may be believed: its end, less the drift margin. Inline, so
 * that a claim's step needs nothing of the watchdog. */
static inline int64_t hf__lease_valid_until(const struct hf_lease *lease)
{
    int64_t until_ms = lease->asked_at_ms + lease->lease_ms - hf__lease_margin_ms(lease->lease_ms);
    /* mutant: lease-of-one-own-is-believed */
    return lease->ends_at_ms != 0 && lease->ends_at_ms < until_ms ? lease->ends_at_ms : until_ms;
}

/* When a lease of this length was asked for that may be believed in until then. */
static inline int64_t hf__lease_asked_at(int64_t valid_until_ms, int64_t lease_ms)
{
    return valid_until_ms - lease_ms + hf__lease_margin_ms(lease_ms);
}

/* The store has confirmed a lease of this length (hf_renew). It never shortens what was there. */
void hf__lease_extended(struct hf_lease *lease, int64_t asked_at_ms, int64_t lease_ms);

#endif
