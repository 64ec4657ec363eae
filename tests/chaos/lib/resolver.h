/* SPDX-License-Identifier: Apache-2.0 */
/* A resolver of a test's own: in this program getaddrinfo answers for "store.test" what the test
 * says, when it says so. */
#ifndef HF_TESTS_CHAOS_LIB_RESOLVER_H
#define HF_TESTS_CHAOS_LIB_RESOLVER_H

#include "test.h"

/* "store.test" has so many addresses: these ports of this machine, in this order. */
void resolver_set(int count, const int *ports);
/* Look-ups from now on stay out until they are released. */
void resolver_block(void);
void resolver_release(void);
/* How many look-ups of it have begun, and how many have ended. */
int resolver_begun(void);
int resolver_ended(void);

/* A port that accepts no connection, and drops what asks for one: as behind a firewall. */
int silent_port(void);
/* A port that accepts connections, and never says a word. */
int mute_port(void);

#endif
