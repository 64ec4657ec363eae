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

/* ---- memory that is kept for its next use ---- */

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define HF_ADDRESS_SANITIZER
#endif
#elif defined __SANITIZE_ADDRESS__
#define HF_ADDRESS_SANITIZER
#endif

#ifdef HF_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, size) ((void)(memory), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(memory, size) ((void)(memory), (void)(size))
#endif

/* No part of the program may use it until it is taken again. What does so all the same finds
 * garbage in a test, and is reported by the address sanitizer, as with memory that was freed. */
static inline void hf__set_aside(void *memory, size_t size)
{
#ifdef HF_TESTING
    ASAN_UNPOISON_MEMORY_REGION(memory, size); /* a part may be set aside already */
    memset(memory, 0xdb, size);
#endif
    ASAN_POISON_MEMORY_REGION(memory, size);
}

static inline void hf__take_again(void *memory, size_t size)
{
    ASAN_UNPOISON_MEMORY_REGION(memory, size);
}

/* NULL: out of memory. */
static inline char *hf__copy_text(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = hf__calloc(1, size);
    return copy ? memcpy(copy, text, size) : NULL;
}

#endif
