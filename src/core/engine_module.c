/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and loads the modules that engines with a server are in. */
#include "core/engine_module.h"

#include "base/error.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The folder of modules beside the library at `library`. */
static bool beside(const char *library, char *folder)
{
    const char *slash = strrchr(library, '/');
    int length = slash ? (int)(slash - library) : 1;
    return snprintf(folder, PATH_MAX, "%.*s/holdfast", length, slash ? library : ".") < PATH_MAX;
}

/* $HOLDFAST_MODULES, which a set-user-ID program ignores; else beside the library, by the name that
 * it was loaded under, or where that name leads to. */
static bool find_module(const char *name, char *path)
{
    char folder[PATH_MAX], real[PATH_MAX];
    const char *told = secure_getenv("HOLDFAST_MODULES");
    Dl_info library;
    if (told && *told)
        return snprintf(path, PATH_MAX, "%s/%s.so", told, name) < PATH_MAX &&
               access(path, F_OK) == 0;
    if (!dladdr(hf_version(), &library) || !library.dli_fname)
        return false;
    if (beside(library.dli_fname, folder) &&
        snprintf(path, PATH_MAX, "%s/%s.so", folder, name) < PATH_MAX && access(path, F_OK) == 0)
        return true;
    return realpath(library.dli_fname, real) && beside(real, folder) &&
           snprintf(path, PATH_MAX, "%s/%s.so", folder, name) < PATH_MAX && access(path, F_OK) == 0;
}

/* Two threads may load the same module: the loader counts, and both get the same one. */
const struct hf_engine_module *hf__engine_module_load(const char *name, hf_error *error)
{
    char path[PATH_MAX];
    if (!find_module(name, path)) {
        hf__error_set(error, HF_EINVAL, 0,
                      "holdfast-engine-%s is not installed: there is no holdfast/%s.so beside the "
                      "library",
                      name, name);
        return NULL;
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const struct hf_engine_module *module = handle ? dlsym(handle, "hf_engine_module_v1") : NULL;
    if (!module) {
        hf__error_set(error, HF_EINVAL, 0, "holdfast-engine-%s cannot be loaded: %.300s", name,
                      dlerror());
        return NULL;
    }
    if (module->abi != HF_ENGINE_MODULE_ABI || strcmp(module->version, HF_BUILD_VERSION) != 0) {
        hf__error_set(error, HF_EINVAL, 0,
                      "%.300s belongs to holdfast %s (modules %u), and the library is %s (modules "
                      "%u); install holdfast-engine-%s of the same version",
                      path, module->version, module->abi, HF_BUILD_VERSION, HF_ENGINE_MODULE_ABI,
                      name);
        return NULL;
    }
    return module;
}

const char *hf__engine_module_path(const struct hf_engine_module *module, char *buffer, size_t size)
{
    Dl_info info;
    bool known = dladdr(module, &info) && info.dli_fname;
    snprintf(buffer, size, "%s", known ? info.dli_fname : "?");
    return buffer;
}
