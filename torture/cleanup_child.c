/* SPDX-License-Identifier: Apache-2.0 */
/* What is begun and has to be ended, also if no other process is left to do it: the kernel tells a
 * child of its parent's death, and the child does it. */
#include "torture/cleanup_child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A session of its own, so that what kills its parent by the terminal or the group spares it. */
static _Noreturn void stand_guard(pid_t parent, void (*act)(const void *arg), const void *arg)
{
    sigset_t death, none;

    setsid();
    sigfillset(&death);
    sigprocmask(SIG_BLOCK, &death, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigemptyset(&death);
    sigaddset(&death, SIGTERM);
    while (getppid() == parent)
        if (sigwaitinfo(&death, NULL) < 0 && errno != EINTR)
            break;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    act(arg); /* mutant: driver-is-killed-and-none-acts */
    _exit(0);
}

pid_t torture_cleanup_post(void (*act)(const void *arg), const void *arg)
{
    pid_t parent = getpid(), pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0)
        stand_guard(parent, act, arg);
    return pid > 0 ? pid : 0;
}

void torture_cleanup_dismiss(pid_t guardian)
{
    if (guardian <= 0)
        return;
    kill(guardian, SIGKILL);
    while (waitpid(guardian, NULL, 0) < 0 && errno == EINTR)
        continue;
}
