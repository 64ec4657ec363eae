/* SPDX-License-Identifier: Apache-2.0 */
/* Where the state file lies: the URL's options, the default directories, and what is refused. */
#include "base/error.h"
#include "base/testing.h"
#include "local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { KEEP_ROUNDS = 100 };

int hf__local_errno_code(int native)
{
    switch (native) {
    case EACCES:
    case EPERM:
    case EROFS:
    case ELOOP:
        return HF_DENIED;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
        return HF_ELIMIT;
    case ENOMEM:
        return HF_ENOMEM;
    default:
        return HF_EINVAL;
    }
}

static int read_namespace(struct local *local, struct hf_url *url, hf_error *error)
{
    const char *name = hf__url_option(url, "ns", "default");
    size_t length = strlen(name);
    size_t good = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    if (!length || length > 64 || good != length || name[0] == '.')
        return hf__error_set(error, HF_EINVAL, 0,
                             "option 'ns' of local: takes 1 to 64 letters, digits, '.', '_' and "
                             "'-', not beginning with '.'; '%.64s' is not that",
                             name);
    snprintf(local->namespace_name, sizeof(local->namespace_name), "%s", name);
    snprintf(local->file_name, sizeof(local->file_name), "%s.hf", name);
    return HF_OK;
}

static int read_mode(struct local *local, struct hf_url *url, hf_error *error)
{
    const char *text = hf__url_option(url, "mode", NULL);
    local->mode = 0600;
    local->shared = text != NULL;
    if (!text)
        return HF_OK;
    char *end;
    unsigned long mode = strtoul(text, &end, 8);
    if (!*text || *end || *text == '-' || mode > 0666 || (mode & 0600) != 0600 || mode & 0111)
        return hf__error_set(error, HF_EINVAL, 0,
                             "option 'mode' of local: takes an octal file mode such as 0660, "
                             "which lets the owner read and write; '%.20s' is not that",
                             text);
    local->mode = (unsigned)mode;
    return HF_OK;
}

static bool set_path(struct local *local, const char *format, const char *a, unsigned uid)
{
    char *path = local->directory_path;
    int length = uid == (unsigned)-1
                     ? snprintf(path, sizeof(local->directory_path), "%s%s", a, format)
                     : snprintf(path, sizeof(local->directory_path), "%s%u", a, uid);
    while (length > 1 && (size_t)length < sizeof(local->directory_path) && path[length - 1] == '/')
        path[--length] = 0;
    return length > 0 && (size_t)length < sizeof(local->directory_path);
}

/* One default place for a user on a machine. It depends on the effective user alone: cron,
 * services, login sessions and sudo have different environments. *own: it is the default, which
 * must belong to this user alone. */
static bool choose_directory(struct local *local, const struct hf_url *url, bool *own)
{
    /* A program with raised privileges does not let its caller choose the store. */
    const char *chosen = secure_getenv("HOLDFAST_DIR");
    *own = false;
    if (url->path && url->path[0])
        return set_path(local, "", url->path, (unsigned)-1);
    if (chosen && chosen[0])
        return set_path(local, "", chosen, (unsigned)-1);
    *own = true;
    if (geteuid() == 0)
        return set_path(local, "", "/run/holdfast", (unsigned)-1);
    return set_path(local, "", "/tmp/holdfast-", geteuid());
}

/* Every user that may use the file must be able to reach it. */
static mode_t directory_mode(const struct local *local)
{
    return 0700 | (local->mode & 0060 ? 0070 : 0) | (local->mode & 0006 ? 0007 : 0);
}

static int check_owner(const struct local *local, hf_error *error)
{
    struct stat about;
    if (fstat(local->directory, &about) == 0 && about.st_uid == geteuid() &&
        !(about.st_mode & 0022))
        return HF_OK;
    return hf__error_set(error, HF_DENIED, 0,
                         "directory '%s' is not yours alone; remove it, or choose another by "
                         "HOLDFAST_DIR or the URL",
                         local->directory_path);
}

static int check_file_system(const struct local *local, hf_error *error)
{
    static const struct {
        unsigned long type;
        const char *name;
    } far[] = { { 0x6969, "NFS" },      { 0x517B, "SMB" },      { 0xFF534D42, "CIFS" },
                { 0xFE534D42, "SMB" },  { 0x01021997, "9p" },   { 0x65735546, "FUSE" },
                { 0x00c36400, "Ceph" }, { 0x5346414F, "AFS" },  { 0x0BD00BD0, "Lustre" },
                { 0x01161970, "GFS2" }, { 0x7461636f, "OCFS2" } };
    struct statfs about;
    if (fstatfs(local->directory, &about))
        return HF_OK;
    for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++) {
        if (((unsigned long)about.f_type & 0xffffffffu) == far[i].type)
            return hf__error_set(error, HF_DENIED, 0,
                                 "directory '%s' is on %s, where machines do not see each "
                                 "other's changes at once; choose one on a local disk or tmpfs",
                                 local->directory_path, far[i].name);
    }
    return HF_OK;
}

int hf__local_missing(const struct local *local, hf_error *error)
{
    return hf__error_set(error, HF_UNREACHABLE, ENOENT,
                         "there is no store '%s': its first lock makes it; if it has been used "
                         "before, the URL, the namespace or HOLDFAST_DIR is misspelt",
                         local->path);
}

/* Sets the mode of the directory that was just made. The umask may have taken bits away. The parent
 * may belong to another user, and something else may be put in its place meanwhile: therefore the
 * descriptor is changed, never the name. */
static int finish_directory(const struct local *local, mode_t mode, hf_error *error)
{
    struct stat about;
    if (fstat(local->directory, &about) || about.st_uid != geteuid() ||
        (about.st_mode & 01777 & ~mode))
        return hf__error_set(error, HF_DENIED, 0,
                             "directory '%s' was replaced while it was made; choose one in a "
                             "directory that no other user may write to",
                             local->directory_path);
    if (fchmod(local->directory, mode | (about.st_mode & S_ISGID)))
        return hf__error_set(error, hf__local_errno_code(errno), errno,
                             "cannot set the mode of directory '%s' (%s)", local->directory_path,
                             strerror(errno));
    return HF_OK;
}

static int cannot_open(const struct local *local, int native, hf_error *error)
{
    if (native == ENOENT && local->base.host->existing_only)
        return hf__local_missing(local, error);
    return hf__error_set(error, native == ENOTDIR ? HF_EINVAL : hf__local_errno_code(native),
                         native,
                         "cannot open directory '%s' (%s); check its owner and mode, or choose "
                         "another by HOLDFAST_DIR or the URL",
                         local->directory_path, strerror(native));
}

static int open_directory(struct local *local, bool own, hf_error *error)
{
    const char *path = local->directory_path;
    mode_t mode = own ? 0700 : directory_mode(local);
    bool made = !local->base.host->existing_only && mkdir(path, mode) == 0;
    if (!made && !local->base.host->existing_only && errno != EEXIST)
        return hf__error_set(error, errno == ENOENT ? HF_EINVAL : hf__local_errno_code(errno),
                             errno,
                             "cannot create directory '%s' (%s); create it, or choose another by "
                             "HOLDFAST_DIR or the URL",
                             path, strerror(errno));
    HF_POINT("local:directory:made");
    local->directory =
        open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (own || made ? O_NOFOLLOW : 0));
    if (local->directory < 0)
        return cannot_open(local, errno, error);
    int code = made ? finish_directory(local, mode, error) : HF_OK;
    return code == HF_OK && own ? check_owner(local, error) : code;
}

/* A clean-up may have removed it after it was opened and before it was protected. */
static bool is_in_place(const struct local *local)
{
    struct stat own, there;
    return !fstat(local->directory, &own) && !stat(local->directory_path, &there) &&
           own.st_ino == there.st_ino && own.st_dev == there.st_dev;
}

static int keep_directory(struct local *local, bool own, hf_error *error)
{
    for (unsigned round = 0; round < KEEP_ROUNDS; round++) {
        int code = open_directory(local, own, error);
        if (code)
            return code;
        hf__local_keep(local->directory);
        if (is_in_place(local))
            return HF_OK;
        close(local->directory);
        local->directory = -1;
    }
    return cannot_open(local, ENOENT, error);
}

int hf__local_place(struct local *local, struct hf_url *url, hf_error *error)
{
    bool own;
    int code = read_namespace(local, url, error);
    if (code == HF_OK)
        code = read_mode(local, url, error);
    if (code)
        return code;
    if (url->host_count || url->user)
        return hf__error_set(error, HF_EINVAL, 0,
                             "local: knows no hosts and users; write local:///directory");
    if (!choose_directory(local, url, &own))
        return hf__error_set(error, HF_EINVAL, 0,
                             "the directory's path is too long; the limit is "
                             "%zu bytes",
                             sizeof(local->directory_path) - 1);
    const char *path = local->directory_path;
    /* Elsewhere after a chdir, it would be another store, and exclude no other process. */
    if (path[0] != '/')
        return hf__error_set(error, HF_EINVAL, 0,
                             "the directory '%s' is relative; give its whole path, as in "
                             "local:///run/myapp or HOLDFAST_DIR=/run/myapp",
                             path);
    snprintf(local->path, sizeof(local->path), "%s/%s", path, local->file_name);
    code = keep_directory(local, own, error);
    return code ? code : check_file_system(local, error);
}
