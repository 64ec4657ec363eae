/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of one client that hand a lock to each other at a store that tells no waiter of a
 * release. */
#ifndef HF_TESTS_CHAOS_LIB_OWN_THREADS_H
#define HF_TESTS_CHAOS_LIB_OWN_THREADS_H

#include "conformance.h"

#define OWN_THREADS 4

/* Each thread takes the lock "one" so many times. Returns how long it takes all of them. */
int64_t own_threads_hand_over_ms(hf_client *client, int rounds);
/* The threads of `many` hand the lock to each other, which each holds for 20 ms, until one thread
 * of `other` has had it so many times. Returns how often `many` has had it. */
int own_threads_beside(hf_client *many, hf_client *other, int wanted);

#endif
