/* SPDX-License-Identifier: Apache-2.0 */
/* Errors that leave open whether a request was executed: a relay in front of a real server lets it
 * execute each kind of request, and answers such an error in its place. */
#ifndef HF_TESTS_CHAOS_LIB_OPEN_ERRORS_H
#define HF_TESTS_CHAOS_LIB_OPEN_ERRORS_H

#include "attaching.h"
#include "relay.h"

struct open_errors {
    struct relay *relay;
    hf_client *client; /* at the relay */
    hf_client *direct; /* at the server */
    const char *error; /* the bytes of the reply */
    size_t length;
    const char *word; /* of the error, which the sentence repeats */
    int looks;        /* how many replies of a look are replaced; 0: all */
};

/* By the name "one": a wait asks again, a try and whatever has no wait is HF_UNREACHABLE, and
 * nothing is left, lost or busy by it. */
void open_errors_are_missing_replies(const struct open_errors *scene);
/* The same of a renewal that the client asks for by itself: `client` has this lease. */
void open_error_of_a_renewal_is_no_loss(const struct open_errors *scene, int64_t lease_ms);

#endif
