/* SPDX-License-Identifier: Apache-2.0 */
/* Looking into a state file: opening the engine by itself, and checking that everything fits. */
#ifndef TESTS_CRASH_STATE_H
#define TESTS_CRASH_STATE_H

#include "engines/local/file.h"
#include "engines/local/local.h"

/* The engine on `directory`, without a client around it. Fails the test if it does not open. */
struct local *state_open(const char *directory);
void state_close(struct local *local);

/* Walks through everything that the file holds, and fails the test if something does not fit.
 * Nobody else may be at work in it. */
void state_check(struct local *local);

/* How many claims the file holds, of whomever. */
unsigned state_claims(struct local *local);

/* The token that `name` was last granted, or 0. */
uint64_t state_token(struct local *local, const char *name);

/* The whole file in memory of our own, changed by `change`, written back. */
void state_rewrite(const char *directory, void (*change)(unsigned char *bytes, size_t size));

#endif
