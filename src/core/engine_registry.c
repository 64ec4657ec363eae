/* SPDX-License-Identifier: Apache-2.0 */
/* The table of engines, made from the build's list. */
#include "core/engine_registry.h"

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

const char *hf__engine_schemes(char *buffer, size_t size)
{
    size_t used = 0;
    buffer[0] = 0;
    for (const struct hf_engine_ops *const *engine = engines; *engine; engine++)
        for (const char *const *known = (*engine)->schemes; *known && used < size; known++)
            used += (size_t)snprintf(buffer + used, size - used, "%s%s:", used ? ", " : "", *known);
    return buffer;
}
