/* SPDX-License-Identifier: Apache-2.0 */
/* The table of engines, made from the build's list. */
#include "core/engine_registry.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define HF_ENGINE(name) extern const struct hf_engine_ops hf__##name;
#include "engines.inc"
#undef HF_ENGINE

static const struct hf_engine_ops *const engines[] = {
#define HF_ENGINE(name) &hf__##name,
#include "engines.inc"
#undef HF_ENGINE
    NULL,
};

const struct hf_engine_ops *hf__engine_find(const char *scheme)
{
    for (const struct hf_engine_ops *const *engine = engines; *engine; engine++)
        for (const char *const *known = (*engine)->schemes; *known; known++)
            if (strcmp(*known, scheme) == 0)
                return *engine;
    return NULL;
}

#define SCHEME_LENGTH_MAX 20

static unsigned smaller(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* How many letters differ, are missing or are too many. */
static unsigned distance(const char *a, const char *b)
{
    unsigned above[SCHEME_LENGTH_MAX + 1], row[SCHEME_LENGTH_MAX + 1];
    size_t width = strlen(b), height = strlen(a);
    if (width > SCHEME_LENGTH_MAX || height > SCHEME_LENGTH_MAX)
        return SCHEME_LENGTH_MAX;
    for (unsigned i = 0; i <= width; i++)
        above[i] = i;
    for (unsigned j = 0; j < height; j++) {
        row[0] = j + 1;
        for (size_t i = 0; i < width; i++) {
            unsigned changed = above[i] + (tolower((unsigned char)a[j]) != b[i]);
            row[i + 1] = smaller(changed, 1 + smaller(above[i + 1], row[i]));
        }
        memcpy(above, row, sizeof row);
    }
    return above[width];
}

/* "pg" is short for "postgres"; nothing is for "redis+unix". */
static bool is_short_for(const char *part, const char *whole)
{
    if (strlen(part) < 2 || *part != *whole || strchr(whole, '+'))
        return false;
    for (; *whole; whole++)
        part += *part == *whole;
    return !*part;
}

const char *hf__engine_nearest_scheme(const char *scheme)
{
    const char *nearest = NULL, *abbreviated = NULL;
    size_t length = strlen(scheme);
    unsigned least = length > 3 ? 3 : length == 3 ? 2 : 1;
    for (const struct hf_engine_ops *const *engine = engines; *engine; engine++)
        for (const char *const *known = (*engine)->schemes; *known; known++) {
            unsigned here = distance(scheme, *known);
            if (here < least) {
                least = here;
                nearest = *known;
            }
            if (!abbreviated && (is_short_for(scheme, *known) || is_short_for(*known, scheme)))
                abbreviated = *known;
        }
    return abbreviated && (!nearest || least > 1) ? abbreviated : nearest;
}

const char *hf__engine_schemes(char *buffer, size_t size)
{
    size_t used = 0;
    buffer[0] = 0;
    for (const struct hf_engine_ops *const *engine = engines; *engine; engine++)
        for (const char *const *known = (*engine)->schemes; *known && used < size; known++)
            used += (size_t)snprintf(buffer + used, size - used, "%s%s:", used ? ", " : "", *known);
    return buffer;
}
