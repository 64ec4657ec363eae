/* SPDX-License-Identifier: Apache-2.0 */
/* The state file of the embedded engine: found among our own descriptors, so that doctor need not
 * know the rules by which the engine chooses it. */
#include "doctor.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

/* Each letter of a path may be a quote. */
#define QUOTED_MAX (4 * PATH_MAX + 3)
#define LITTLE_SPACE ((uint64_t)32 << 20)

struct file_system {
    unsigned long magic;
    const char *name;
    bool in_memory;
};

static const struct file_system file_systems[] = {
    { 0x01021994, "tmpfs", true },  { 0x858458f6, "ramfs", true },
    { 0xef53, "ext4", false },      { 0x58465342, "xfs", false },
    { 0x9123683e, "btrfs", false }, { 0x794c7630, "overlayfs", false },
    { 0x2fc12fc1, "zfs", false },   { 0xf2f52010, "f2fs", false },
};

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);

    return length > end_length && strcmp(text + length - end_length, end) == 0;
}

/* True if one of our descriptors is a state file; its path goes to `path`. */
static bool find_state_file(char path[PATH_MAX])
{
    DIR *directory = opendir("/proc/self/fd");
    struct dirent *entry;
    bool found = false;

    while (directory && !found && (entry = readdir(directory)) != NULL) {
        char link[300];
        ssize_t length;
        snprintf(link, sizeof(link), "/proc/self/fd/%s", entry->d_name);
        length = readlink(link, path, PATH_MAX - 1);
        path[length > 0 ? length : 0] = '\0';
        found = ends_with(path, ".hf");
    }
    if (directory)
        closedir(directory);
    return found;
}

static void check_file_system(struct cli_doctor *doctor, const char *path)
{
    struct statfs fs;
    const struct file_system *known = NULL;
    uint64_t space;

    if (statfs(path, &fs) != 0)
        return;
    for (size_t i = 0; i < sizeof(file_systems) / sizeof(file_systems[0]); i++)
        if (file_systems[i].magic == (unsigned long)fs.f_type)
            known = &file_systems[i];
    space = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
    cli_doctor_fact(doctor, "file system", "%s, %" PRIu64 " MB free", known ? known->name : "other",
                    space >> 20);
    if (!known || !known->in_memory)
        cli_doctor_fact(doctor, "hint",
                        "on tmpfs (/run, /dev/shm) the state causes no disk writes");
    if (space < LITTLE_SPACE)
        cli_doctor_finding(doctor, "disk-nearly-full",
                           "the state file's file system is nearly full",
                           "new names can be refused (exit 69); locks that are held stay safe",
                           "free some space, or choose another directory with $HOLDFAST_DIR");
}

/* A path as a shell takes it. */
static const char *quote(char buffer[QUOTED_MAX], const char *path)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-";
    size_t used = 1;

    if (!path[strspn(path, plain)])
        return path;
    buffer[0] = '\'';
    for (; *path && used < QUOTED_MAX - 6; path++)
        if (*path == '\'')
            used += (size_t)snprintf(buffer + used, QUOTED_MAX - used, "'\\''");
        else
            buffer[used++] = *path;
    snprintf(buffer + used, QUOTED_MAX - used, "'");
    return buffer;
}

static void check_permissions(struct cli_doctor *doctor, const char *path, const struct stat *file)
{
    char parent[PATH_MAX], quoted[QUOTED_MAX], cure[QUOTED_MAX + 64];
    struct stat directory;
    const char *name;

    snprintf(parent, sizeof(parent), "%s", path);
    name = dirname(parent);
    if (stat(name, &directory) != 0)
        return;
    cli_doctor_fact(doctor, "permissions", "file %04o of uid %u, directory %04o of uid %u",
                    (unsigned)file->st_mode & 07777, (unsigned)file->st_uid,
                    (unsigned)directory.st_mode & 07777, (unsigned)directory.st_uid);
    snprintf(cure, sizeof(cure), "chmod o-w %s, and share it by group with ?mode=0660",
             quote(quoted, path));
    if (file->st_mode & S_IWOTH)
        cli_doctor_finding(doctor, "file-open-to-all", "any user may write to the state file",
                           "any user of this machine can take, break or damage every lock in it",
                           cure);
    snprintf(cure, sizeof(cure), "chmod o-w %s, or give it the sticky bit", quote(quoted, name));
    if ((directory.st_mode & S_IWOTH) && !(directory.st_mode & S_ISVTX))
        cli_doctor_finding(doctor, "directory-open-to-all",
                           "any user may rename files in the state file's directory",
                           "after a replacement of the state file, a lock can have two holders",
                           cure);
}

/* Octal digits after "mode=" in the URL's options, or -1. */
static long mode_of(const char *url)
{
    const char *option = strchr(url, '?');

    while (option && strncmp(option + 1, "mode=", 5) != 0)
        option = strchr(option + 1, '&');
    return option ? strtol(option + 6, NULL, 8) : -1;
}

static void check_mode(struct cli_doctor *doctor, const char *path, const struct stat *file)
{
    long wanted = mode_of(hf_url(doctor->session->client)), mode = file->st_mode & 07777;
    char what[128], quoted[QUOTED_MAX], cure[QUOTED_MAX + 64];

    if (wanted < 0 || wanted == mode)
        return;
    snprintf(what, sizeof(what), "the URL says mode=%04lo, and the state file's mode is %04lo",
             (unsigned long)wanted, (unsigned long)mode);
    snprintf(cure, sizeof(cure), "chmod %04lo %s, or say mode=%04lo", (unsigned long)wanted,
             quote(quoted, path), (unsigned long)mode);
    cli_doctor_finding(doctor, "mode-differs", what,
                       "mode= counts when the file is made, and changes none that exists: others "
                       "may be let in, or kept out, against what it says",
                       cure);
}

static void print_boot(struct cli_doctor *doctor)
{
    char id[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (!file)
        return;
    if (fgets(id, sizeof(id), file))
        id[strcspn(id, "\n")] = '\0';
    fclose(file);
    cli_doctor_fact(doctor, "boot", "%s", id);
}

void cli_doctor_check_file(struct cli_doctor *doctor)
{
    char path[PATH_MAX];
    char parent[PATH_MAX];
    struct stat file;
    unsigned sessions;

    if (!find_state_file(path) || stat(path, &file) != 0)
        return;
    snprintf(parent, sizeof(parent), "%s", path);
    cli_doctor_fact(doctor, "state file", "%s, %lld kB", path, (long long)file.st_size >> 10);
    check_file_system(doctor, path);
    check_permissions(doctor, path, &file);
    check_mode(doctor, path, &file);
    if (cli_doctor_count_sessions(AT_FDCWD, path, &sessions))
        cli_doctor_fact(doctor, "sessions", "%u open, this one included", sessions);
    cli_doctor_check_places(doctor, dirname(parent));
    print_boot(doctor);
}
