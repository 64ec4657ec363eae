/* SPDX-License-Identifier: Apache-2.0 */
/* The lease store: each lock has a lease of its own, a release compares and deletes, waiters are
 * told by messages of which one in five gets lost. */
#ifndef TESTS_SIM_LEASE_STORE_H
#define TESTS_SIM_LEASE_STORE_H

#include "engine.h"

/* A waiter keeps its place in a queue by asking again within this time. */
#define PLACE_MS 180

struct sim_engine *lease_engine_open(struct sim_client *client);

#endif
