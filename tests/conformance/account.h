/* SPDX-License-Identifier: Apache-2.0 */
/* An account of who believes to hold one name, in one process: it fails the test where beliefs
 * overlap that must not. A hold counts only while hf_held is true of it. */
#ifndef TESTS_CONFORMANCE_ACCOUNT_H
#define TESTS_CONFORMANCE_ACCOUNT_H

#include "conformance.h"

/* A semaphore's permits in all. */
#define ACCOUNT_LIMIT 3u

struct account {
    char name[128];
    bool fenced;
    pthread_mutex_t mutex;
    struct account_entry {
        hf_hold *hold;
        unsigned weight;
    } entries[64];
    unsigned count;
    uint64_t last_token; /* of the exclusive grants so far */
    _Atomic int grants;
};

void account_open(struct account *account, const hf_client *client, const char *stem);
/* A hold that was just granted in this mode. */
void account_enter(struct account *account, hf_hold *hold, hf_mode mode, uint32_t permits);
/* A hold that was upgraded, or is about to be downgraded, to this mode. */
void account_change(struct account *account, hf_hold *hold, hf_mode mode);
/* A hold that is about to be released. */
void account_leave(struct account *account, const hf_hold *hold);

#endif
