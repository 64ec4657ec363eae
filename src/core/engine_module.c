/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and loads the modules that engines with a server are in. */
#include "core/engine_module.h"

#include "base/error.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* In the folder of modules beside the library at `library`. */
static bool is_beside(const char *library, const char *name, char *path)
{
    const char *slash = strrchr(library, '/');
    int length = slash ? (int)(slash - library) : 1;
    return snprintf(path, PATH_MAX, "%.*s/holdfast/%s.so", length, slash ? library : ".", name) <
               PATH_MAX &&
           access(path, F_OK) == 0;
}

/* In `told`; without that beside the library, by the name that it was loaded under, or where that
 * name leads to. If there is none, `path` is the last place that was looked at. */
static bool find_module(const char *told, const char *name, char *path)
{
    char real[PATH_MAX];
    Dl_info library;
    if (told && *told)
        return snprintf(path, PATH_MAX, "%s/%s.so", told, name) < PATH_MAX &&
               access(path, F_OK) == 0;
    return dladdr(hf_version(), &library) && library.dli_fname &&
           (is_beside(library.dli_fname, name, path) ||
            (realpath(library.dli_fname, real) && is_beside(real, name, path)));
}

/* What the loader has no number for, or does not survive: it maps a file that was cut off, as by a
 * full disk, and gets a signal. The table of sections ends such a file. Returns 0 or an errno. */
static int check_file(const char *path)
{
    struct stat about;
    ElfW(Ehdr) head;
    int code = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &about))
        code = errno;
    else if (!S_ISREG(about.st_mode))
        code = ENOEXEC;
    else if (read(fd, &head, sizeof head) == (ssize_t)sizeof head &&
             memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
             (uint64_t)about.st_size < head.e_shoff + (uint64_t)head.e_shnum * head.e_shentsize)
        code = EIO;
    if (fd >= 0)
        close(fd);
    return code;
}

static const struct hf_engine_module *refuse_file(const char *name, const char *path, int code,
                                                  const char *reason, hf_error *error)
{
    bool is_limit = code == EMFILE || code == ENFILE;
    hf__error_set(error, is_limit ? HF_ELIMIT : HF_EINVAL, is_limit ? EMFILE : 0,
                  "holdfast-engine-%s cannot be loaded: %.300s%s", name, reason ? reason : path,
                  is_limit          ? "; raise 'ulimit -n'"
                  : code == ENOEXEC ? " is not a file; install it again"
                  : code == EIO     ? " ends too early; install it again"
                                    : "");
    return NULL;
}

/* Two threads may load the same module: the loader counts, and both get the same one. */
const struct hf_engine_module *hf__engine_module_load(const char *name, hf_error *error)
{
    char path[PATH_MAX] = "";
    const char *told = secure_getenv("HOLDFAST_MODULES"); /* none for a set-user-ID program */
    if (!find_module(told, name, path)) {
        hf__error_set(error, HF_EINVAL, 0,
                      "holdfast-engine-%s is not installed: there is no %.240s%s", name, path,
                      told && *told ? " ($HOLDFAST_MODULES names the folder)" : "");
        return NULL;
    }
    int code = check_file(path);
    if (code == EIO || code == ENOEXEC)
        return refuse_file(name, path, code, NULL, error);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const struct hf_engine_module *module = handle ? dlsym(handle, "hf_engine_module_v1") : NULL;
    if (!module) {
        const char *reason = dlerror();
        return refuse_file(name, path, handle ? 0 : check_file(path), reason, error);
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
