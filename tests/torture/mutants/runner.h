/* SPDX-License-Identifier: Apache-2.0 */
/* One trial: runs of a mutant, until the rule that is to catch it does. */
#ifndef TESTS_TORTURE_MUTANTS_RUNNER_H
#define TESTS_TORTURE_MUTANTS_RUNNER_H

#include "mutants.h"

enum trial_result { TRIAL_CAUGHT, TRIAL_MISSED, TRIAL_STOPPED /* by a signal */ };

struct trial_outcome {
    enum trial_result result; /* the right one is "caught" if nothing was found */
    unsigned tries;
    int signal;
    double seconds;     /* of being tortured, until the history proves it */
    char sentence[400]; /* the finding's, or why there is none */
};

/* `sandbox`: whose server is the store, or NULL: it is in memory. `picture`: a file for the picture
 * of what was found, or NULL. */
void mutant_try(const struct mutant_trial *trial, struct torture_sandbox *sandbox, uint64_t seed,
                const char *picture, struct trial_outcome *outcome);

#endif
