/* SPDX-License-Identifier: Apache-2.0 */
/* Client processes: started, started again, watched, ended. None is left behind. */
#include "torture/driver.h"

#include "torture/workload/workload.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* What is left of a client that was killed is gone by then, on any store. */
#define LEASES_AFTER_DEATH 4

void torture_driver_fail(struct torture_driver *driver, const char *format, ...)
{
    va_list args;

    if (driver->failed)
        return;
    driver->failed = true;
    va_start(args, format);
    vsnprintf(driver->outcome->sentence, sizeof driver->outcome->sentence, format, args);
    va_end(args);
}

/* ---- starting ---- */

static _Noreturn void run_client(const struct torture_driver *driver, unsigned number, pid_t parent)
{
    static struct torture_client client;
    struct torture_seat *seat = &driver->arena->seats[number];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    /* A Ctrl-C is for the driver, which ends the run in good order. */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_SETMASK, &driver->original, NULL);
    client = (struct torture_client){ .plan = driver->plan,
                                      .subject = driver->subject,
                                      .arena = driver->arena,
                                      .writer = driver->writer,
                                      .seat = seat,
                                      .number = number,
                                      .incarnation = atomic_load(&seat->incarnation),
                                      .wait.mutex = PTHREAD_MUTEX_INITIALIZER };
    const struct torture_sandbox *sandbox = driver->plan->sandbox;
    unsigned side = torture_sandbox_side(sandbox, number);
    if (side > 0 && !torture_network_take_side(sandbox->network, side))
        _exit(1);
    if (driver->relay)
        torture_fault_proxy_through(&driver->arena->relay, number, side);
    client.dice = torture_prng(driver->plan->seed, number, client.incarnation);
    torture_client_live(&client);
}

bool torture_driver_start(struct torture_driver *driver, unsigned client)
{
    pid_t self = getpid(), pid;

    fflush(NULL);
    atomic_fetch_add(&driver->arena->seats[client].incarnation, 1);
    pid = fork();
    if (pid == 0)
        run_client(driver, client, self);
    if (pid < 0)
        torture_driver_fail(driver, "no further process can be started: %s", strerror(errno));
    driver->clients[client] = pid > 0 ? pid : 0;
    return pid > 0;
}

/* ---- ending ---- */

/* What a dead client was in the middle of, others must not wait for. */
static void clear_seat(struct torture_driver *driver, unsigned client)
{
    struct torture_shared *arena = driver->arena;
    uint32_t setter = client + 1;

    driver->clients[client] = 0;
    atomic_store(&arena->seats[client].in_resource, 0);
    atomic_store(&arena->seats[client].wire, TORTURE_WIRE_FINE);
    atomic_store(&arena->seats[client].trap, TORTURE_NO_TRAP);
    atomic_store(&arena->seats[client].doing, torture_doing_word(TORTURE_IDLE, 0, 0));
    atomic_compare_exchange_strong(&arena->latch_setter, &setter, 0);
    torture_fault_proxy_forget(&arena->relay, client);
}

static void write_crash(struct torture_driver *driver, unsigned client)
{
    struct torture_record record = { .kind = TORTURE_CRASH,
                                     .client = client,
                                     .process = (uint32_t)driver->clients[client] };

    record.until_ns =
        torture_clock_ns() + driver->plan->lease_ms * LEASES_AFTER_DEATH * INT64_C(1000000);
    torture_write(driver->writer, &record);
}

/* What a program does to itself; other signals are sent to it. */
static bool is_a_crash(int number)
{
    static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS };

    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++)
        if (crashes[i] == number)
            return true;
    return false;
}

/* A client that has ended by itself before it was told to. */
static void explain_end(struct torture_driver *driver, unsigned client, int status)
{
    const struct torture_seat *seat = &driver->arena->seats[client];

    if (atomic_load(&seat->broken))
        torture_driver_fail(driver, "%s", seat->sentence);
    else if (WIFSIGNALED(status) && !is_a_crash(WTERMSIG(status)))
        torture_driver_fail(driver,
                            "client %u was killed from outside by signal %d (%s): the kernel does "
                            "that when memory runs out",
                            client, WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WIFSIGNALED(status))
        torture_driver_fail(driver,
                            "client %u died by signal %d (%s): the library, or "
                            "this program, has a bug; please report it",
                            client, WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0 || atomic_load(&driver->arena->phase) == TORTURE_ROUGH)
        torture_driver_fail(driver, "client %u has ended by itself, with %d", client,
                            WEXITSTATUS(status));
}

void torture_driver_kill(struct torture_driver *driver, unsigned client)
{
    pid_t pid = driver->clients[client];
    int status = 0;

    if (pid == 0)
        return;
    kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    write_crash(driver, client);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        explain_end(driver, client, status);
    clear_seat(driver, client);
}

void torture_driver_end_relay(struct torture_driver *driver)
{
    if (!driver->relay)
        return;
    kill(driver->relay, SIGKILL);
    while (waitpid(driver->relay, NULL, 0) < 0 && errno == EINTR)
        continue;
    driver->relay = 0;
}

static void collect(struct torture_driver *driver)
{
    for (unsigned i = 0; i < driver->plan->clients; i++) {
        int status;
        if (driver->clients[i] == 0 || waitpid(driver->clients[i], &status, WNOHANG) <= 0)
            continue;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            write_crash(driver, i);
        explain_end(driver, i, status);
        clear_seat(driver, i);
    }
    if (driver->relay && waitpid(driver->relay, NULL, WNOHANG) > 0) {
        driver->relay = 0;
        torture_driver_fail(driver, "the relay of the connections has ended by itself");
    }
}

/* ---- waiting ---- */

bool torture_driver_is_over(const struct torture_driver *driver)
{
    return driver->failed || driver->outcome->ended_by || driver->outcome->is_full ||
           torture_clock_ns() >= driver->end_ns;
}

/* A history that is nearly full ends the run in good order, while there is room for the end. */
static void make_room(struct torture_driver *driver)
{
    int error = torture_writer_grow(driver->writer);

    if (error)
        torture_driver_fail(driver, "there is no room left for the history: %s", strerror(error));
    if (torture_writer_left(driver->writer) < TORTURE_RECORDS_BESIDES / 2)
        driver->outcome->is_full = true;
}

static void report_progress(const struct torture_driver *driver)
{
    const struct torture_plan *plan = driver->plan;
    struct torture_progress progress = {
        .at_ms = (torture_clock_ns() - driver->begin_ns) / 1000000,
        .of_ms = plan->time_ms,
        .operations = atomic_load(&driver->arena->operations),
        .grants = atomic_load(&driver->arena->grants),
        .faults = atomic_load(&driver->arena->pauses_tried),
        .hits = atomic_load(&driver->arena->pauses_hit),
        .now = driver->now ? driver->now : "",
    };

    for (unsigned i = 0; i < TORTURE_FAULTS + TORTURE_HOOKS_MAX; i++) {
        progress.faults += driver->outcome->tried[i];
        progress.hits += driver->outcome->hit[i];
    }
    if (plan->progress)
        plan->progress(plan->progress_arg, &progress);
}

/* One signal, or that much time. */
static void attend(struct torture_driver *driver, int64_t ns)
{
    const struct timespec limit = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
    int number = sigtimedwait(&driver->watched, NULL, &limit);

    if (number > 0 && number != SIGCHLD && !driver->outcome->ended_by)
        driver->outcome->ended_by = number;
    torture_look_for_removed_files(driver);
    collect(driver);
    make_room(driver);
    report_progress(driver);
}

bool torture_driver_wait(struct torture_driver *driver, int64_t ms)
{
    int64_t until_ns = torture_clock_ns() + ms * 1000000, left_ns;

    while (!torture_driver_is_over(driver) && (left_ns = until_ns - torture_clock_ns()) > 0)
        attend(driver, left_ns < 100000000 ? left_ns : 100000000);
    return !torture_driver_is_over(driver);
}

static bool any_left(const struct torture_driver *driver)
{
    for (unsigned i = 0; i < driver->plan->clients; i++)
        if (driver->clients[i] > 0)
            return true;
    return false;
}

bool torture_driver_wait_for_clients(struct torture_driver *driver, int64_t ms)
{
    int64_t until_ns = torture_clock_ns() + ms * 1000000;

    collect(driver);
    while (any_left(driver) && !driver->failed && torture_clock_ns() < until_ns)
        attend(driver, 100000000);
    return !any_left(driver);
}
