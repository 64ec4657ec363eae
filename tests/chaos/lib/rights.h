/* SPDX-License-Identifier: Apache-2.0 */
/* A user of a Redis server who may not call each of the commands that our scripts call: bob. */
#ifndef HF_TESTS_CHAOS_LIB_RIGHTS_H
#define HF_TESTS_CHAOS_LIB_RIGHTS_H

#include "conformance.h"
#include "server.h"

/* What our scripts call. */
#define COMMANDS 34
extern const char *const commands[COMMANDS];

struct kind {
    const char *name;
    hf_mode mode;
    uint32_t permits, limit;
    const char *more;   /* of the URL */
    const char *free;   /* what the server is told before it is free to be taken, or NULL */
    const char *held;   /* the same before somebody else has it */
    const char *denies; /* among what may stop who takes it */
    const char *delays; /* among what may stop who begins to wait for it; or "" */
};

/* All that can be had at a server. */
#define KINDS 10
extern const struct kind kinds[KINDS];

/* A client of bob's, with leases far beyond any test's end; `more` of the URL may be NULL. */
#define LEASE_MS 600000
hf_client *open_as_bob(const struct server *server, const char *more, hf_driver driver);
/* He may do all but these: words like "-hset". */
void let_bob(const struct server *server, const char *rights);
void forbid(const struct server *server, const char *name);

/* Nothing but what the command makes; `known`: and a token that is counted on, and whose life
 * begins anew. */
void set_up(const struct server *server, const char *before, bool known);
int ask_for(hf_client *client, const struct kind *kind, int64_t wait_ms, hf_hold **hold);

/* All that there is, but for the token's key, if it ends by itself: the text is the test's until it
 * asks again twice. */
const char *snapshot(const struct server *server);
void check_unchanged(const struct kind *kind, const char *command, const char *before,
                     const char *after);

#endif
