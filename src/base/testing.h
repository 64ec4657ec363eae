/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks that exist in the test build only: sync points, at which a test may pause or kill the
 * process, an allocator that a test may make fail, and bounds that a test may lower. In the product
 * they cost nothing. */
#ifndef HF_BASE_TESTING_H
#define HF_BASE_TESTING_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifdef HF_TESTING

#define HF_TUNABLE

extern void (*hf__point_hook)(const char *name);
extern bool (*hf__alloc_hook)(size_t size); /* false: fail */

#define HF_POINT(name)                                                                             \
    do {                                                                                           \
        if (hf__point_hook)                                                                        \
            hf__point_hook(name);                                                                  \
    } while (0)

void *hf__calloc(size_t count, size_t size);
void *hf__realloc(void *old, size_t size);

#else

#define HF_TUNABLE const

#define HF_POINT(name) ((void)0)

static inline void *hf__calloc(size_t count, size_t size)
{
    return calloc(count, size);
}

static inline void *hf__realloc(void *old, size_t size)
{
    return realloc(old, size);
}

#endif

/* NULL: out of memory. */
static inline char *hf__copy_text(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = hf__calloc(1, size);
    return copy ? memcpy(copy, text, size) : NULL;
}

#endif
