/* SPDX-License-Identifier: Apache-2.0 */
/* A client that turns its loop itself, so that what it is asked before it turns is asked in one
 * turn. */
#ifndef HF_TESTS_CHAOS_LIB_TURNS_H
#define HF_TESTS_CHAOS_LIB_TURNS_H

#include "conformance.h"
#include "server.h"

/* What became of one request. */
struct told {
    int calls, code;
    hf_hold *hold;
};

/* With leases far beyond any test's end: nothing goes by itself. It has taken and given back the
 * name "warm". */
hf_client *open_at(const struct server *server, int timeout_ms);
/* The same with more in its URL, as in "&format=simple". */
hf_client *open_with(const struct server *server, const char *options);
void turn(hf_client *client);
/* Until the first `count` have been told; each is told once. */
void turn_until_told(hf_client *client, const struct told *told, int count);

void ask(hf_client *client, const char *name, int64_t wait_ms, struct told *told);
/* With a lease that nobody renews. */
void ask_leased(hf_client *client, const char *name, int64_t lease_ms, struct told *told);

/* A command to the server, which answers something. */
void run(const struct server *server, const char *command);

#endif
