/* SPDX-License-Identifier: Apache-2.0 */
/* Gives the servers of a sandbox a wall clock of the run's: a small library, which is kept in the
 * program and loaded into them from memory, since a directory may be one that nothing is run from.
 */
#include "torture/sandbox/sandbox_clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static const unsigned char shim[] = {
#include "torture/sandbox_clock_shim.inc"
};

struct kept {
    struct torture_sandbox_clock clock;
    int clock_fd, shim_fd;
};

static int make_shim(void)
{
    int fd = memfd_create("holdfast-clock.so", 0);

    if (fd >= 0 && write(fd, shim, sizeof shim) == (ssize_t)sizeof shim)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

struct torture_sandbox_clock *torture_sandbox_clock_new(void)
{
    struct kept *kept;
    int shim_fd = make_shim(), clock_fd = memfd_create("holdfast-clock", 0);

    if (shim_fd >= 0 && clock_fd >= 0 && ftruncate(clock_fd, sizeof *kept) == 0) {
        kept = mmap(NULL, sizeof *kept, PROT_READ | PROT_WRITE, MAP_SHARED, clock_fd, 0);
        if (kept != MAP_FAILED) {
            kept->clock_fd = clock_fd;
            kept->shim_fd = shim_fd;
            return &kept->clock;
        }
    }
    if (shim_fd >= 0)
        close(shim_fd);
    if (clock_fd >= 0)
        close(clock_fd);
    return NULL;
}

void torture_sandbox_clock_free(struct torture_sandbox_clock *clock)
{
    struct kept *kept = (struct kept *)clock;

    if (!kept)
        return;
    close(kept->clock_fd);
    close(kept->shim_fd);
    munmap(kept, sizeof *kept);
}

void torture_sandbox_clock_use(const struct torture_sandbox_clock *clock)
{
    const struct kept *kept = (const struct kept *)clock;
    char path[40];

    if (!kept)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", kept->shim_fd);
    setenv("LD_PRELOAD", path, 1);
    snprintf(path, sizeof path, "/proc/self/fd/%d", kept->clock_fd);
    setenv(TORTURE_SANDBOX_CLOCK, path, 1);
}
