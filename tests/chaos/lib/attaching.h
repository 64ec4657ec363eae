/* SPDX-License-Identifier: Apache-2.0 */
/* A call of hf_attach in a thread, for tests that lose its reply. */
#ifndef HF_TESTS_CHAOS_LIB_ATTACHING_H
#define HF_TESTS_CHAOS_LIB_ATTACHING_H

#include "conformance.h"

struct attaching {
    hf_client *client;
    const char *key;
    hf_hold *hold;
    _Atomic int code;
};

/* Of the name "one". For thread_start, with a struct attaching. */
void attach(void *arg);
/* Does the lock "one" have one holder, which is that of this key? */
bool is_held_under(hf_client *client, const char *key);

#endif
