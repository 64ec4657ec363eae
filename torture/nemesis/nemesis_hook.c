/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of the user's own: a command that makes one, a command that ends it. */
#include "torture/cleanup_child.h"
#include "torture/driver.h"
#include "torture/nemesis/nemesis.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A hook that hangs must not keep the run from ending, nor from healing; and less so when the run
 * is over anyway. */
#define PATIENCE_NS INT64_C(60000000000)
#define LAST_PATIENCE_NS INT64_C(5000000000)

static void write_fault(const struct torture_driver *driver, enum torture_kind kind,
                        const char *name, uint64_t number)
{
    struct torture_record record = { .kind = (uint8_t)kind,
                                     .client = TORTURE_NOBODY,
                                     .operation = number };

    snprintf(record.text, sizeof record.text, "%s", name);
    torture_write(driver->writer, &record);
}

/* In a process group of its own, which a Ctrl-C does not reach: we end it, and heal. */
static pid_t start(const struct torture_driver *driver, const char *command)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid != 0)
        return pid;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigprocmask(SIG_SETMASK, &driver->original, NULL);
    /* What it prints is no part of the report. */
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

/* As a shell says it. */
static int exit_status(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* To its end, or to the end of our patience, whatever signals say meanwhile. 0: it went well. */
static int run(struct torture_driver *driver, const char *command, bool heals)
{
    int64_t until_ns = torture_clock_ns() + PATIENCE_NS;
    const struct timespec little = { .tv_nsec = 20000000 };
    pid_t pid = start(driver, command), ended;
    int status = -1;

    if (pid < 0)
        return -1;
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && torture_clock_ns() < until_ns) {
        if (torture_driver_wait(driver, 20))
            continue;
        if (!heals && until_ns - torture_clock_ns() > LAST_PATIENCE_NS)
            until_ns = torture_clock_ns() + LAST_PATIENCE_NS;
        nanosleep(&little, NULL);
    }
    if (ended == pid)
        return exit_status(status);
    kill(-pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return exit_status(status);
}

/* A killed client cannot heal what it has begun. */
static void heal_alone(const void *arg)
{
    const struct torture_hook *hook = arg;

    dup2(STDERR_FILENO, STDOUT_FILENO);
    execl("/bin/sh", "sh", "-c", hook->heal, (char *)NULL);
}

void torture_nemesis_hook(struct torture_driver *driver, unsigned index)
{
    const struct torture_hook *hook = &driver->plan->hooks[index];
    pid_t guardian = hook->heal ? torture_cleanup_post(heal_alone, hook) : 0;
    struct torture_outcome *outcome = driver->outcome;
    uint64_t number = torture_roll(&driver->dice);
    int64_t lease_ms = driver->plan->lease_ms;

    driver->now = hook->name;
    outcome->tried[TORTURE_FAULTS + index]++;
    write_fault(driver, TORTURE_FAULT_ON, hook->name, number);
    int status = run(driver, hook->start, false);
    if (status != 0) {
        outcome->hook_status[index] = status;
    } else {
        outcome->hit[TORTURE_FAULTS + index]++;
        write_fault(driver, TORTURE_FAULT_HIT, hook->name, number);
        torture_driver_wait(driver, torture_between(&driver->dice, lease_ms, lease_ms * 4));
    }
    if (hook->heal && run(driver, hook->heal, true) != 0)
        torture_driver_fail(driver, "the hook %s could not be healed: '%s' has failed", hook->name,
                            hook->heal);
    torture_cleanup_dismiss(guardian);
    write_fault(driver, TORTURE_FAULT_OFF, hook->name, number);
    driver->now = NULL;
}
