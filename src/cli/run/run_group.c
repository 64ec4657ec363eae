/* SPDX-License-Identifier: Apache-2.0 */
/* Whether anything of the command's process group still runs. kill(2) alone does not tell: it
 * counts zombies, which stay for ever below a first process that reaps nothing. */
#include "run.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Enough for the fields of /proc/PID/stat that are read here. */
#define STAT_SIZE 512

/* False: the process has gone. */
static bool read_stat(const char *pid, char text[STAT_SIZE])
{
    char path[64];
    ssize_t got;
    int fd;

    snprintf(path, sizeof(path), "/proc/%.32s/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    got = read(fd, text, STAT_SIZE - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got > 0;
}

/* A process whose first thread has ended is shown as a zombie too, but has other threads. */
static bool runs_in_group(const char *pid, pid_t group)
{
    char text[STAT_SIZE], state;
    const char *fields;
    int its_group;
    long threads;

    if (!read_stat(pid, text) || !(fields = strrchr(text, ')')))
        return false;
    if (sscanf(fields, ") %c %*d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld",
               &state, &its_group, &threads) != 3 ||
        its_group != group)
        return false;
    return !strchr("ZXx", state) || threads > 1; /* mutant: zombies-of-group-count */
}

static bool any_runs(DIR *processes, pid_t group)
{
    const struct dirent *entry;

    rewinddir(processes);
    while ((entry = readdir(processes)))
        if (isdigit((unsigned char)entry->d_name[0]) && runs_in_group(entry->d_name, group))
            return true;
    return false;
}

/* It may be that of another PID namespace, or hide the processes of other users. */
static bool proc_shows_all(void)
{
    char self[32] = "";

    return readlink("/proc/self", self, sizeof(self) - 1) > 0 &&
           strtol(self, NULL, 10) == getpid() && access("/proc/1/stat", R_OK) == 0;
}

/* Two looks: one may miss a process that is forked while its parent ends. */
enum cli_group cli_group_state(const struct cli_job *job)
{
    bool is_foreign, runs;
    DIR *processes;

    if (job->nested)
        return CLI_GROUP_GONE;
    is_foreign = kill(-job->pid, 0) != 0;
    if (is_foreign && errno != EPERM)
        return CLI_GROUP_GONE;
    processes = proc_shows_all() ? opendir("/proc") : NULL;
    if (!processes)
        return is_foreign ? CLI_GROUP_ALIVE : CLI_GROUP_UNKNOWN;
    runs = any_runs(processes, job->pid) || any_runs(processes, job->pid);
    closedir(processes);
    return runs ? CLI_GROUP_ALIVE : CLI_GROUP_GONE;
}
