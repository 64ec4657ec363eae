/* SPDX-License-Identifier: Apache-2.0 */
/* Everything by which a client says something at its Redis server, done while others wait for it.
 */
#ifndef HF_TESTS_CHAOS_LIB_DEEDS_H
#define HF_TESTS_CHAOS_LIB_DEEDS_H

#include "conformance.h"

/* Each succeeds, has been done once, and who waits for it, a claim of `other`, goes on soon. */
void deeds_do(hf_client *doer, hf_client *other);

#endif
