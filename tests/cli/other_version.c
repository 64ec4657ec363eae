/* SPDX-License-Identifier: Apache-2.0 */
/* A module of engines as an older library's would begin: its version is all that may be read. */
#include <holdfast.h>

struct module {
    unsigned abi;
    const char *version;
};

extern const struct module hf_engine_module_v1;
HF_API const struct module hf_engine_module_v1 = { .abi = 0, .version = "0.0.9" };
