/* SPDX-License-Identifier: Apache-2.0 */
/* A command that is in the middle of a vfork, as shells are for moments: when its group is stopped
 * the child stops, and the parent, which cannot before the child has gone on, does not. */
#include <signal.h>
#include <unistd.h>

int main(void)
{
    sigset_t going_on;
    int number;

    sigemptyset(&going_on);
    sigaddset(&going_on, SIGCONT);
    sigprocmask(SIG_BLOCK, &going_on, NULL);
    if (vfork() == 0) {
        if (write(STDOUT_FILENO, "ready\n", 6) == 6)
            sigwait(&going_on, &number);
        _exit(0);
    }
    return 3;
}
