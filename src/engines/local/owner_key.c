/* SPDX-License-Identifier: Apache-2.0 */
/* Owner keys as text: the client's 128 bits, and the owner's number in it. */
#include "local.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void hf__local_key(const struct local_node *node, char key[HF_OWNER_KEY_SIZE])
{
    snprintf(key, HF_OWNER_KEY_SIZE, "%016" PRIx64 "%016" PRIx64 ":%" PRIu64, node->id[0],
             node->id[1], node->owner);
}

static bool parse_digits(const char **at, unsigned count, unsigned base, uint64_t *value)
{
    static const char digits[] = "0123456789abcdef";
    *value = 0;
    unsigned seen = 0;
    for (; seen < count && **at; (*at)++, seen++) {
        const char *digit = memchr(digits, **at, base);
        if (!digit)
            break;
        if (*value > (UINT64_MAX - (uint64_t)(digit - digits)) / base)
            return false;
        *value = *value * base + (uint64_t)(digit - digits);
    }
    return seen > 0 && (base == 10 || seen == count);
}

bool hf__local_key_parse(const char *key, uint64_t id[2], uint64_t *owner)
{
    return parse_digits(&key, 16, 16, &id[0]) && parse_digits(&key, 16, 16, &id[1]) &&
           *key++ == ':' && parse_digits(&key, 20, 10, owner) && !*key;
}
