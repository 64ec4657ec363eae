/* SPDX-License-Identifier: Apache-2.0 */
/* The table of engines that this build has. */
#ifndef HF_CORE_ENGINE_REGISTRY_H
#define HF_CORE_ENGINE_REGISTRY_H

#include "core/engine_tap.h" /* hf__engine_find */

/* The scheme that was probably meant: one with few other letters, or that is short for `scheme`, or
 * that `scheme` is short for. NULL: there is none. */
const char *hf__engine_nearest_scheme(const char *scheme);
/* All schemes, "local:, redis:, rediss:", for sentences. */
const char *hf__engine_schemes(char *buffer, size_t size);

#endif
