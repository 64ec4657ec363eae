/* SPDX-License-Identifier: Apache-2.0 */
/* A quorum of real servers, of a test's own. */
#ifndef HF_TESTS_CHAOS_LIB_QUORUM_H
#define HF_TESTS_CHAOS_LIB_QUORUM_H

#include "conformance.h"
#include "server.h"

/* Nobody who waits for a server's time-out gets through the test. */
#define NEVER_MS 600000
/* Where none hangs, one that is only slow is not to be given up. */
#define SLOW_MS 60000

void quorum_start(struct server servers[QUORUM_SERVERS]);
void quorum_end(struct server servers[QUORUM_SERVERS]);
hf_client *quorum_open(const struct server *servers, int timeout_ms, int64_t lease_ms);

/* "one" is at all servers. */
void quorum_expect_everywhere(const struct server servers[QUORUM_SERVERS]);
/* Neither "one" nor "two" is at any. */
void quorum_expect_nothing_left(const struct server servers[QUORUM_SERVERS]);

#endif
