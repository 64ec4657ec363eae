/* SPDX-License-Identifier: Apache-2.0 */
/* An engine in a shared object of its own, in the folder "holdfast" beside the library. hf_open
 * loads it when a URL's scheme asks for it, and it stays. What it may use of the library is what
 * src/holdfast/exports.map exports to modules. */
#ifndef HF_CORE_ENGINE_MODULE_H
#define HF_CORE_ENGINE_MODULE_H

#include "core/engine.h"

/* Changes with what engines and the core say to each other: engine.h, known.h, base. */
#define HF_ENGINE_MODULE_ABI 1

/* What a module exports, as hf_engine_module_v1. */
struct hf_engine_module {
    unsigned abi;                               /* HF_ENGINE_MODULE_ABI, when it was built */
    const char *version;                        /* of the library that it belongs to */
    const struct hf_engine_ops *const *engines; /* ends with NULL */
};

/* Loads the module `name`, at any thread; again is cheap. NULL: *error says why, HF_EINVAL. */
const struct hf_engine_module *hf__engine_module_load(const char *name, hf_error *error);
/* Where it was loaded from. */
const char *hf__engine_module_path(const struct hf_engine_module *module, char *buffer,
                                   size_t size);

#endif
