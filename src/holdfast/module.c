/* SPDX-License-Identifier: Apache-2.0 */
/* What each module of engines exports; the build names its engines in HF_MODULE_ENGINES. */
#include "core/engine_module.h"

#define HF_ENGINE(name) extern const struct hf_engine_ops hf__##name;
HF_MODULE_ENGINES
#undef HF_ENGINE

static const struct hf_engine_ops *const engines[] = {
#define HF_ENGINE(name) &hf__##name,
    HF_MODULE_ENGINES
#undef HF_ENGINE
        NULL,
};

extern const struct hf_engine_module hf_engine_module_v1;
HF_API const struct hf_engine_module hf_engine_module_v1 = {
    .abi = HF_ENGINE_MODULE_ABI,
    .version = HF_BUILD_VERSION,
    .engines = engines,
};
