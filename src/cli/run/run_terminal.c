/* SPDX-License-Identifier: Apache-2.0 */
/* Job control: handing the terminal to the command and taking it back. A command that talks to a
 * person has it from the start; one in a pipeline only once it asks (SIGTTIN, SIGTTOU), so that a
 * pager beside us keeps it. */
#include "run.h"

#include <fcntl.h>
#include <unistd.h>

void cli_terminal_open(struct cli_terminal *terminal)
{
    *terminal = (struct cli_terminal){ .own_group = getpgrp() };
    terminal->fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (terminal->fd >= 0)
        terminal->has_modes = tcgetattr(terminal->fd, &terminal->modes) == 0;
}

void cli_terminal_close(struct cli_terminal *terminal)
{
    cli_terminal_take_back(terminal);
    if (terminal->fd >= 0)
        close(terminal->fd);
    terminal->fd = -1;
}

static bool in_foreground(const struct cli_terminal *terminal)
{
    return terminal->fd >= 0 && tcgetpgrp(terminal->fd) == terminal->own_group;
}

bool cli_terminal_interactive(const struct cli_terminal *terminal)
{
    return in_foreground(terminal) && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

bool cli_terminal_is_ours(const struct cli_terminal *terminal)
{
    return terminal->given || in_foreground(terminal);
}

bool cli_terminal_give(struct cli_terminal *terminal, pid_t group)
{
    if (!in_foreground(terminal) || tcsetpgrp(terminal->fd, group) != 0)
        return false;
    terminal->given = true;
    return true;
}

/* Only from the command: another job may have been given the terminal meanwhile. */
void cli_terminal_take_back(struct cli_terminal *terminal)
{
    if (!terminal->given)
        return;
    terminal->given = false;
    tcsetpgrp(terminal->fd, terminal->own_group);
}

void cli_terminal_restore_modes(const struct cli_terminal *terminal)
{
    if (terminal->has_modes)
        tcsetattr(terminal->fd, TCSADRAIN, &terminal->modes);
}

/* On a terminal the rest of our job (a script that called us) stops too; a nested one leaves that
 * to the outer one. Where no process could continue us the kernel ignores SIGTSTP, and we go on at
 * once. To stop would be to forget a SIGCONT that has arrived already. */
void cli_terminal_suspend(const struct cli_terminal *terminal, bool nested)
{
    sigset_t stop, pending;

    sigpending(&pending);
    if (sigismember(&pending, SIGCONT))
        return;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    kill(terminal->fd >= 0 && !nested ? 0 : getpid(), SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stop, NULL);
    sigprocmask(SIG_BLOCK, &stop, NULL);
}
