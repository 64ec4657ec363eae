/* SPDX-License-Identifier: Apache-2.0 */
/* The names of owners: the format keeps a client's UUID and nothing else of a holder, so a client
 * says what its owner is called in the name of its connection, and a look at locks looks at the
 * connections first. Clients of other kinds, and the dead, stay nameless. */
#ifndef HF_ENGINES_REDIS_SHOW_CLIENT_NAMES_H
#define HF_ENGINES_REDIS_SHOW_CLIENT_NAMES_H

#include "core/engine.h"
#include "engines/redis/wire/reply.h"

/* "holdfast:UUID:TEXT", cut where it is too long. */
#define REDIS_CONNECTION_NAME_SIZE 176u

struct owner;

/* Zero is an empty one. */
struct owners {
    struct owner *all; /* by their UUIDs */
    size_t count;
};

/* Does a UUID say that it is a client's of ours, and of one that wants tokens? */
bool hf__client_names_has_tokens(const char *uuid, size_t length);
void hf__client_names_write_name(char name[REDIS_CONNECTION_NAME_SIZE], const char *uuid,
                                 const char *text);
/* Takes over what CLIENT LIST has answered, in place of what was there. Without memory no client is
 * known. */
void hf__client_names_read(struct owners *owners, const redisReply *reply);
/* What the owner with that key says of itself, or NULL. Lives as long as `owners` is not changed.
 */
const char *hf__client_names_find(const struct owners *owners, const char *owner_key);
void hf__client_names_release(struct owners *owners);

#endif
