/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs that are programs of their own, so that all others start without them. */
#include "cli.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#define PLACE_SIZE (PATH_MAX + 128)

int cli_program_run(const char *name, char **argv)
{
    char place[PLACE_SIZE];

    /* Where it is installed, and where a build leaves it. */
    char self[PATH_MAX] = "";
    const char *folder;

    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
        self[0] = '\0';
    folder = dirname(self);
    snprintf(place, PLACE_SIZE, "%s/../../build.ninja", folder);
    if (access(place, F_OK) == 0) {
        snprintf(place, PLACE_SIZE, "%s/holdfast-%s", folder, name);
        if (access(place, F_OK) != 0)
            snprintf(place, PLACE_SIZE, "%s/../../%s/holdfast-%s", folder, name, name);
    } else
        snprintf(place, PLACE_SIZE, "%s/" CLI_PROGRAMS "/holdfast-%s", folder, name);
    execv(place, argv);
    if (errno == ENOENT)
        cli_complain("the program of 'holdfast %s' is not installed: there is no '%s'. Install it "
                     "%s",
                     name, place,
                     strcmp(name, "exporter") == 0
                         ? "by the package holdfast-exporter, or build with libmicrohttpd"
                         : "with the command's other files");
    else
        cli_complain("'%s' cannot be run: %s", place, strerror(errno));
    return errno == ENOENT ? CLI_NOT_FOUND : CLI_CANNOT_EXEC;
}
