/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a holdfast, holds its child up between fork and exec until the FIFO
 * $HOLDFAST_TEST_GO is opened for writing: at the function that $HOLDFAST_TEST_AT names. As when
 * the command's file is on a network file system that hangs. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void wait_at(const char *place)
{
    const char *at = getenv("HOLDFAST_TEST_AT"), *go = getenv("HOLDFAST_TEST_GO");

    if (!at || !go || strcmp(at, place) != 0)
        return;
    close(open(go, O_RDONLY));
    unsetenv("LD_PRELOAD");
}

pid_t getppid(void)
{
    wait_at("getppid");
    return (pid_t)syscall(SYS_getppid);
}

int execvp(const char *file, char *const arguments[])
{
    union {
        void *found;
        int (*call)(const char *, char *const[]);
    } next = { dlsym(RTLD_NEXT, "execvp") };

    wait_at("execvp");
    return next.call(file, arguments);
}
