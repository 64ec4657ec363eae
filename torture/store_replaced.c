/* SPDX-License-Identifier: Apache-2.0 */
/* A store in a file is gone for a client that opens it anew when another program removes that file,
 * or puts another one in its place: two believers then have nothing to do with how it locks. */
#include "torture/driver.h"

#include <stdio.h>
#include <string.h>

enum { LOOK_AGAIN_MS = 50 };

/* What processes share that never had a name that stays, or is the run's own. */
static bool is_no_store(const struct torture_plan *plan, const char *path)
{
    static const char *const others[] = { "/memfd:", "/dev/zero", "/SYSV" };
    size_t length = strlen(path), tail = plan->history ? strlen(plan->history) : 0;

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strncmp(path, others[i], strlen(others[i])) == 0)
            return true;
    return tail > 0 && tail <= length && strcmp(path + length - tail, plan->history) == 0;
}

/* The path of a line of /proc/PID/maps, if it is of a shared file whose name is gone; else NULL. */
static char *removed_file(char *line)
{
    static const char mark[] = " (deleted)\n";
    char *path = strchr(line, '/'), *shared = strchr(line, ' ');
    size_t length = strlen(line);

    if (!path || !shared || shared[4] != 's' || length < sizeof mark ||
        strcmp(line + length - (sizeof mark - 1), mark) != 0)
        return NULL;
    line[length - (sizeof mark - 1)] = '\0';
    return path;
}

static bool look_at(struct torture_driver *driver, unsigned client)
{
    char place[32], line[512];
    bool found = false;
    FILE *maps;

    snprintf(place, sizeof place, "/proc/%d/maps", (int)driver->clients[client]);
    maps = fopen(place, "re");
    while (maps && !found && fgets(line, sizeof line, maps)) {
        const char *path = removed_file(line);
        found = path && !is_no_store(driver->plan, path);
        if (found)
            snprintf(driver->outcome->removed, sizeof driver->outcome->removed, "%.255s", path);
    }
    if (maps)
        fclose(maps);
    return found;
}

void torture_look_for_removed_files(struct torture_driver *driver)
{
    struct torture_record record = { .kind = TORTURE_NOTE,
                                     .client = TORTURE_NOBODY,
                                     .text = TORTURE_REMOVED_NOTE,
                                     .until_ns = driver->looked_ns };
    int64_t now_ns = torture_clock_ns();
    const char *url = driver->plan->url;
    bool in_a_file = url && strncmp(url, "local:", strlen("local:")) == 0;

    if (!in_a_file || driver->outcome->removed[0] ||
        now_ns - driver->looked_ns < LOOK_AGAIN_MS * INT64_C(1000000))
        return;
    for (unsigned i = 0; i < driver->plan->clients; i++)
        if (driver->clients[i] > 0 && look_at(driver, i)) {
            torture_write(driver->writer, &record);
            return;
        }
    driver->looked_ns = now_ns;
}
