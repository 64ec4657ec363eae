/* SPDX-License-Identifier: Apache-2.0 */
/* What is stored for a lock: its key, its value and the value's flags, in our own format and in
 * those of other libraries. Nothing here knows a connection. */
#ifndef HF_ENGINES_MEMCACHED_FORMAT_H
#define HF_ENGINES_MEMCACHED_FORMAT_H

#include <holdfast.h>

#include <stdint.h>

/* memcached's own limit. */
#define MC_KEY_MAX 250
/* "OWNER TOKEN TEXT"; see docs/engines/memcached.md. */
#define MC_OWNER_MAX 255

enum mc_format_name { MC_HOLDFAST, MC_SYMFONY, MC_LARAVEL, MC_TOOZ };

struct mc_format {
    const char *prefix; /* of the key */
    uint32_t flags;     /* of the item; the other library reads the value by them */
    bool has_text;      /* the value has a token and the owner's text behind its key */
    bool hashes;        /* a name that no key can carry gets one by its hash; else it is refused */
    /* Writes the owner key of one claim: it is the claim's identity at the server. */
    void (*write_owner)(char owner[HF_OWNER_KEY_SIZE], const uint64_t client[2], uint64_t claim);
};

/* By enum mc_format_name. */
extern const struct mc_format hf__mc_formats[];

/* The key of a lock. False: this format cannot carry the name. */
bool hf__mc_write_key(char key[MC_KEY_MAX + 1], const struct mc_format *format, const char *name,
                      size_t length);

/* The value of an item; returns its length. `token` is the grant's, 0 in the item of the grant
 * itself, whose CAS id says it. */
size_t hf__mc_write_value(char value[MC_OWNER_MAX + 1], const struct mc_format *format,
                          const char *owner, uint64_t token, const char *text);

/* What a value says. Only our own format has the token and the text. */
struct mc_value {
    char owner[HF_OWNER_KEY_SIZE]; /* cut, where it is longer */
    uint64_t token;                /* 0: that of the item's CAS id */
    const char *text;              /* in the value; "" if there is none */
};

void hf__mc_read_value(struct mc_value *ret, const struct mc_format *format, const char *value,
                       size_t length);

/* Is the item with this value that of the owner? */
bool hf__mc_value_is_of(const struct mc_format *format, const char *value, size_t length,
                        const char *owner);

#endif
