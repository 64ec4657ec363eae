/* SPDX-License-Identifier: Apache-2.0 */
/* The table of engines that this build has. */
#ifndef HF_CORE_ENGINE_REGISTRY_H
#define HF_CORE_ENGINE_REGISTRY_H

#include "core/engine_tap.h" /* hf__engine_find */

/* All schemes, "local:, redis:, rediss:", for sentences. */
const char *hf__engine_schemes(char *buffer, size_t size);

#endif
