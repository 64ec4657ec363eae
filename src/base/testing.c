/* SPDX-License-Identifier: Apache-2.0 */
/* The test build's hooks. Empty in the product. */
#include "base/testing.h"

#ifdef HF_TESTING

void (*hf__point_hook)(const char *name);
bool (*hf__alloc_hook)(size_t size);

void *hf__calloc(size_t count, size_t size)
{
    return hf__alloc_hook && !hf__alloc_hook(count * size) ? NULL : calloc(count, size);
}

void *hf__realloc(void *old, size_t size)
{
    return hf__alloc_hook && !hf__alloc_hook(size) ? NULL : realloc(old, size);
}

#else
/* ISO C wants a declaration in every translation unit. */
typedef int hf__testing_is_off;
#endif
