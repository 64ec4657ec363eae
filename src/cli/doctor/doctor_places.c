/* SPDX-License-Identifier: Apache-2.0 */
/* The other directories in which this user may have state files, and the clients that use them
 * now. */
#include "doctor.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Any locked byte behind a state file's end is a session. Locks of other programs there do not
 * matter, nor the order in which the kernel names them. */
static unsigned count_locks(int file, off_t begin, off_t end)
{
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = begin, .l_len = end - begin
    };

    if (begin >= end || fcntl(file, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK)
        return 0;
    return 1 + count_locks(file, begin, lock.l_start) +
           count_locks(file, lock.l_len ? lock.l_start + lock.l_len : end, end);
}

bool cli_doctor_count_sessions(int directory, const char *name, unsigned *count)
{
    int file = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    struct stat about;
    bool good = file >= 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode);

    *count = good ? count_locks(file, about.st_size, INT64_MAX) : 0;
    if (file >= 0)
        close(file);
    return good;
}

static bool is_state_file(const char *name)
{
    size_t length = strlen(name);

    return length > 3 && strcmp(name + length - 3, ".hf") == 0;
}

static void doctor_places_tell(struct cli_doctor *doctor, const char *path, unsigned files,
                               unsigned clients)
{
    char what[PATH_MAX + 64];

    cli_doctor_fact(doctor, "other store", "%s, %u namespace%s, %u client%s", path, files,
                    cli_plural(files), clients, cli_plural(clients));
    if (clients == 0)
        return;
    snprintf(what, sizeof(what), "%u client%s of this machine use%s another store, %s", clients,
             cli_plural(clients), clients == 1 ? "s" : "", path);
    cli_doctor_finding(doctor, "other-store", what,
                       "a lock that they hold is free in this store, so both can run at once",
                       "use one store for all of them: the same user, HOLDFAST_DIR and URL");
}

/* A directory that is this store's own, is missing, or has no state file is not mentioned. */
static void check_place(struct cli_doctor *doctor, const struct stat *own, const char *path)
{
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    struct stat about;
    DIR *list = NULL;
    struct dirent *entry;
    unsigned files = 0, clients = 0, count;

    if (directory < 0)
        return;
    if (fstat(directory, &about) == 0 &&
        (about.st_ino != own->st_ino || about.st_dev != own->st_dev))
        list = fdopendir(directory);
    if (!list) {
        close(directory);
        return;
    }
    while ((entry = readdir(list)) != NULL) {
        if (!is_state_file(entry->d_name) ||
            !cli_doctor_count_sessions(directory, entry->d_name, &count))
            continue;
        files++;
        clients += count;
    }
    closedir(list);
    if (files)
        doctor_places_tell(doctor, path, files, clients);
}

/* A service with PrivateTmp= has a directory of systemd's as /tmp. The root of that mount, the
 * fourth word of its line, says so. */
static bool has_private_tmp(void)
{
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t size = 0;
    bool found = false;

    while (mounts && getline(&line, &size, mounts) > 0) {
        char root[PATH_MAX], point[PATH_MAX];
        if (sscanf(line, "%*s %*s %*s %4095s %4095s", root, point) == 2 &&
            strcmp(point, "/tmp") == 0)
            found = strstr(root, "systemd-private-") != NULL;
    }
    free(line);
    if (mounts)
        fclose(mounts);
    return found;
}

void cli_doctor_check_places(struct cli_doctor *doctor, const char *own_path)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR"), *login = getenv("SUDO_UID");
    char path[PATH_MAX];
    struct stat own;

    if (stat(own_path, &own) != 0)
        return;
    snprintf(path, sizeof(path), "/run/user/%u/holdfast", (unsigned)geteuid());
    check_place(doctor, &own, path);
    if (runtime && strncmp(path, runtime, strlen(runtime)) != 0) {
        snprintf(path, sizeof(path), "%s/holdfast", runtime);
        check_place(doctor, &own, path);
    }
    snprintf(path, sizeof(path), "/tmp/holdfast-%u", (unsigned)geteuid());
    check_place(doctor, &own, path);
    if (geteuid() == 0)
        check_place(doctor, &own, "/run/holdfast");
    if (geteuid() == 0 && login && strtoul(login, NULL, 10) != 0) {
        snprintf(path, sizeof(path), "/tmp/holdfast-%lu", strtoul(login, NULL, 10));
        check_place(doctor, &own, path);
    }
    if (strncmp(own_path, "/tmp/", 5) == 0 && has_private_tmp())
        cli_doctor_finding(doctor, "private-tmp",
                           "the store is in a /tmp of this service alone (PrivateTmp=)",
                           "processes outside of the service use another store in their own /tmp",
                           "name a directory outside of /tmp for all of them, by HOLDFAST_DIR or "
                           "the URL; RuntimeDirectory= makes one in /run");
}
