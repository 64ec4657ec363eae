/* SPDX-License-Identifier: Apache-2.0 */
/* A client that reaches its Redis server through a relay, and what the server has meanwhile. */
#ifndef HF_TESTS_CHAOS_LIB_RELAYED_H
#define HF_TESTS_CHAOS_LIB_RELAYED_H

#include "conformance.h"
#include "relay.h"
#include "server.h"

struct relayed {
    struct server server;
    struct relay relay;
    hf_client *client;
};

/* The semaphore "sem" has 5 permits, the counter "count" 10 units. */
void begin_relayed(struct relayed *relayed);
void end_relayed(struct relayed *relayed);

/* What a Lua expression is at the server: a number. */
long value(const struct server *server, const char *expression);
long keys_like(const struct server *server, const char *pattern);

#endif
