/* SPDX-License-Identifier: Apache-2.0 */
/* The engines that this build knows, by URL scheme: those in the library, and those in modules. */
#include "core/engine_tap.h"

#include "base/error.h"
#include "base/url.h"
#include "core/engine_module.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HF_MODULES
#define HF_ENGINE_TABLE "modules.inc"
#else
#define HF_ENGINE_TABLE "engines.inc"
#endif

#define HF_ENGINE(name) extern const struct hf_engine_ops hf__##name;
#define HF_MODULE(name, ...) static const char *const name##_schemes[] = { __VA_ARGS__, NULL };
#include HF_ENGINE_TABLE
#undef HF_ENGINE
#undef HF_MODULE

/* An engine of the library, or a module with the schemes of its engines. */
struct source {
    const struct hf_engine_ops *ops;
    const char *module;
    const char *const *schemes;
};

static const struct source sources[] = {
#define HF_ENGINE(name) { .ops = &hf__##name },
#define HF_MODULE(name, ...) { .module = #name, .schemes = name##_schemes },
#include HF_ENGINE_TABLE
#undef HF_ENGINE
#undef HF_MODULE
};

#define SOURCE_COUNT (sizeof sources / sizeof *sources)

static const char *const *schemes_of(const struct source *source)
{
    return source->ops ? source->ops->schemes : source->schemes;
}

static bool has_scheme(const char *const *schemes, const char *scheme)
{
    while (*schemes && strcmp(*schemes, scheme) != 0)
        schemes++;
    return *schemes;
}

#ifdef HF_MODULES
static const struct hf_engine_module *load(const struct source *source, hf_error *error)
{
    static _Atomic(const struct hf_engine_module *) loaded[SOURCE_COUNT];
    size_t index = (size_t)(source - sources);
    const struct hf_engine_module *module = atomic_load(&loaded[index]);
    if (!module)
        module = hf__engine_module_load(source->module, error);
    if (module)
        atomic_store(&loaded[index], module);
    return module;
}

static int find_in_module(const struct source *source, const char *scheme,
                          const struct hf_engine_ops **ret, hf_error *error)
{
    const struct hf_engine_module *module = load(source, error);
    if (!module)
        return error->code;
    for (const struct hf_engine_ops *const *engine = module->engines; *engine; engine++)
        if (has_scheme((*engine)->schemes, scheme)) {
            *ret = *engine;
            return HF_OK;
        }
    return hf__error_set(error, HF_EINTERNAL, 0, "holdfast-engine-%s has no engine for \"%s:\"",
                         source->module, scheme);
}
#endif

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

static const char *nearest_scheme(const char *scheme)
{
    const char *nearest = NULL, *abbreviated = NULL;
    size_t length = strlen(scheme);
    unsigned least = length > 3 ? 3 : length == 3 ? 2 : 1;
    for (size_t i = 0; i < SOURCE_COUNT; i++)
        for (const char *const *known = schemes_of(&sources[i]); *known; known++) {
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

/* "local:, redis:, rediss:" */
static const char *list_schemes(char *buffer, size_t size)
{
    size_t used = 0;
    buffer[0] = 0;
    for (size_t i = 0; i < SOURCE_COUNT; i++)
        for (const char *const *known = schemes_of(&sources[i]); *known && used < size; known++)
            used += (size_t)snprintf(buffer + used, size - used, "%s%s:", used ? ", " : "", *known);
    return buffer;
}

int hf__engine_find(const struct hf_engine_ops **ret, struct hf_url *url, hf_error *error)
{
    char known[400];
    *ret = NULL;
    for (const struct source *source = sources; source < sources + SOURCE_COUNT; source++) {
        if (!has_scheme(schemes_of(source), url->scheme))
            continue;
#ifdef HF_MODULES
        if (source->module)
            return find_in_module(source, url->scheme, ret, error);
#endif
        *ret = source->ops;
        return HF_OK;
    }
    const char *nearest = nearest_scheme(url->scheme);
    if (nearest)
        return hf__url_refuse(url, error,
                              "this build knows no scheme \"%.40s\"; did you mean \"%s:\"?",
                              url->scheme, nearest);
    return hf__url_refuse(url, error, "this build knows no scheme \"%.40s\"; it knows %s",
                          url->scheme, list_schemes(known, sizeof known));
}

/* One line of hf_engines. */
static void write_source(FILE *text, const struct source *source)
{
    for (const char *const *known = schemes_of(source); *known; known++)
        fprintf(text, "%s%s:", known == schemes_of(source) ? "" : ", ", *known);
#ifdef HF_MODULES
    if (source->module) {
        char path[4096];
        hf_error error = { 0 };
        const struct hf_engine_module *module = load(source, &error);
        fprintf(text, " %s\n",
                module ? hf__engine_module_path(module, path, sizeof path) : error.text);
        return;
    }
#endif
    fputs(" in the library\n", text);
}

char *hf_engines(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return NULL;
    for (size_t i = 0; i < SOURCE_COUNT; i++)
        write_source(stream, &sources[i]);
    if (secure_getenv("HOLDFAST_MODULES"))
        fputs("modules are looked for in $HOLDFAST_MODULES\n", stream);
    if (fclose(stream) == 0)
        return text;
    free(text);
    return NULL;
}
