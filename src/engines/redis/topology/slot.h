/* SPDX-License-Identifier: Apache-2.0 */
/* The slots of a Redis Cluster. */
#ifndef HF_ENGINES_REDIS_TOPOLOGY_SLOT_H
#define HF_ENGINES_REDIS_TOPOLOGY_SLOT_H

#include <stddef.h>

#define REDIS_SLOTS 16384

/* The one of a name or a key: by the part of it in braces, if there is one. */
unsigned hf__slot_of(const char *name, size_t length);

#endif
