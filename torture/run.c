/* SPDX-License-Identifier: Apache-2.0 */
/* A run from its beginning to its end: clients, faults, healing, the last turn, the audit. */
#include "torture/run.h"

#include "torture/driver.h"
#include "torture/nemesis/nemesis.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Records for each operation, with the faults and what else is noted. */
enum { RECORDS_PER_OPERATION = 4, SECONDS_BESIDES = 5 };

/* A history is in memory, at least while it is checked, and then more than once. */
enum { PART_OF_MEMORY = 4 };

/* For the last turn, which waits for leases, and for clients to end. */
enum { CALM_MS = 30000, CALM_LEASES = 6 };

/* ---- the beginning ---- */

static bool share_memory(struct torture_driver *driver)
{
    void *memory = mmap(NULL, sizeof *driver->arena, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        torture_driver_fail(driver, "no memory to share between processes: %s", strerror(errno));
        return false;
    }
    driver->arena = memory;
    return true;
}

static bool begin_history(struct torture_driver *driver)
{
    const struct torture_plan *plan = driver->plan;
    uint64_t seconds = (uint64_t)plan->time_ms / 1000 + SECONDS_BESIDES;
    uint64_t room = seconds * plan->rate * RECORDS_PER_OPERATION + TORTURE_RECORDS_BESIDES;
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t most = memory / PART_OF_MEMORY / sizeof(struct torture_record);

    if (room > most && most > TORTURE_RECORDS_BESIDES)
        room = most;
    driver->writer = torture_writer_create(plan->history, room, driver->run);
    if (!driver->writer)
        torture_driver_fail(driver, "the history file '%s' cannot be made: %s", plan->history,
                            strerror(errno));
    return driver->writer != NULL;
}

/* The later check of the history has to allow for what the run's leases are. */
static void write_lease(struct torture_driver *driver)
{
    struct torture_record record = { .kind = TORTURE_NOTE,
                                     .client = TORTURE_NOBODY,
                                     .text = TORTURE_LEASE_NOTE,
                                     .until_ns = driver->plan->lease_ms * 1000000 };

    torture_write(driver->writer, &record);
}

/* Session locks of databases. */
static void write_what_ends_holds(struct torture_driver *driver)
{
    struct torture_record record = { .kind = TORTURE_NOTE,
                                     .client = TORTURE_NOBODY,
                                     .text = TORTURE_CONNECTION_NOTE };

    if (strstr(driver->plan->url, "layout=session"))
        torture_write(driver->writer, &record);
}

/* Nor may he call a bug what the store does not promise. */
static void write_promises(struct torture_driver *driver)
{
    const struct torture_sandbox *sandbox = driver->plan->sandbox;
    unsigned unpromised =
        sandbox ? sandbox->deployment->faults & ~sandbox->deployment->promised_over : 0;

    for (unsigned i = 0; i < TORTURE_FAULTS; i++) {
        struct torture_record record = { .kind = TORTURE_NOTE, .client = TORTURE_NOBODY };
        if (!(unpromised & 1u << i))
            continue;
        snprintf(record.text, sizeof record.text, TORTURE_UNPROMISED_NOTE "%s",
                 torture_fault_name((enum torture_fault)i));
        torture_write(driver->writer, &record);
    }
}

static void write_locks(struct torture_driver *driver)
{
    for (unsigned i = 0; i < driver->arena->lock_count; i++) {
        struct torture_lock lock = driver->arena->locks[i];
        if (!torture_keeps_order(driver->plan))
            lock.flags &= (uint8_t)~TORTURE_FIFO;
        torture_write_lock(driver->writer, &lock, (uint16_t)i);
    }
}

/* Signals come when we ask for them. What was ignored when we were started stays so. */
static void hear_signals(struct torture_driver *driver)
{
    static const int signals[] = { SIGHUP, SIGINT, SIGTERM };
    struct sigaction action;

    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&driver->watched);
    sigaddset(&driver->watched, SIGCHLD);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (sigaction(signals[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&driver->watched, signals[i]);
    sigprocmask(SIG_BLOCK, &driver->watched, &driver->before);
    driver->original = driver->plan->mask ? *driver->plan->mask : driver->before;
}

static bool start_clients(struct torture_driver *driver)
{
    driver->begin_ns = driver->looked_ns = torture_clock_ns();
    driver->end_ns = driver->begin_ns + driver->plan->time_ms * 1000000;
    driver->arena->begin_ns = driver->begin_ns;
    for (unsigned i = 0; i < driver->plan->clients; i++)
        if (!torture_driver_start(driver, i))
            return false;
    return true;
}

/* ---- the end ---- */

static void write_healed(struct torture_driver *driver)
{
    struct torture_record record = { .kind = TORTURE_HEALED, .client = TORTURE_NOBODY };

    torture_write(driver->writer, &record);
}

static void kill_the_rest(struct torture_driver *driver)
{
    torture_set_phase(driver->arena, TORTURE_OVER);
    for (unsigned i = 0; i < driver->plan->clients; i++)
        torture_driver_kill(driver, i);
}

/* A client that was killed at the very end comes back, to have a last turn like all others. */
static void calm_down(struct torture_driver *driver)
{
    int64_t calm_ms = driver->plan->calm_ms ? driver->plan->calm_ms : CALM_MS;
    int64_t slow = driver->plan->slow ? driver->plan->slow : 1;
    int64_t patience_ms = calm_ms * slow + driver->plan->lease_ms * CALM_LEASES;

    torture_nemesis_heal(driver);
    write_healed(driver);
    torture_set_phase(driver->arena, TORTURE_CALM);
    driver->now = "calm";
    for (unsigned i = 0; i < driver->plan->clients && !driver->failed; i++)
        if (driver->clients[i] == 0)
            torture_driver_start(driver, i);
    driver->late = !torture_driver_wait_for_clients(driver, patience_ms) && !driver->failed;
    kill_the_rest(driver);
}

static void count(struct torture_driver *driver)
{
    struct torture_outcome *outcome = driver->outcome;

    outcome->operations = atomic_load(&driver->arena->operations);
    outcome->unreadable = !atomic_load(&driver->arena->relay.reads_names);
    outcome->tried[TORTURE_PAUSE] = atomic_load(&driver->arena->pauses_tried);
    outcome->hit[TORTURE_PAUSE] = atomic_load(&driver->arena->pauses_hit);
    for (unsigned i = 0; i < driver->arena->lock_count; i++) {
        struct torture_resource *resource = &driver->arena->resources[i];
        outcome->writes += atomic_load(&resource->writes);
        outcome->fenced_off += atomic_load(&resource->fenced_off);
        outcome->plain_writes += atomic_load(&resource->plain_writes);
        outcome->clobbers += atomic_load(&resource->clobbers);
    }
}

static void run(struct torture_driver *driver)
{
    snprintf(driver->arena->prefix, sizeof driver->arena->prefix,
             "holdfast:torture:%016llx:", (unsigned long long)driver->run);
    torture_choose_locks(driver->arena, driver->subject, driver->plan->faults);
    write_lease(driver);
    write_what_ends_holds(driver);
    write_promises(driver);
    write_locks(driver);
    bool relays =
        !(driver->plan->faults & TORTURE_WIRE_FAULTS) || torture_fault_proxy_start(driver);
    if (relays && start_clients(driver)) {
        while (!torture_driver_is_over(driver))
            torture_nemesis_strike(driver);
        calm_down(driver);
    }
    kill_the_rest(driver);
    torture_driver_end_relay(driver);
    /* Also after a failure: what the run has made must not stay. */
    torture_audit(driver);
    /* The audit may have found out why. */
    if (driver->late)
        torture_driver_fail(driver, "after the last fault some clients have not ended in time");
    count(driver);
}

bool torture_run(const struct torture_plan *plan, const struct torture_subject *subject,
                 struct torture_outcome *outcome)
{
    struct torture_driver driver = {
        .plan = plan,
        .subject = subject,
        .outcome = outcome,
        .dice = torture_prng(plan->seed, TORTURE_CLIENTS_MAX, 0),
    };
    struct torture_prng unique = { plan->seed ^ (uint64_t)torture_clock_ns() ^
                                   (uint64_t)getpid() << 40 };

    *outcome = (struct torture_outcome){ 0 };
    driver.run = torture_roll(&unique);
    if (!share_memory(&driver))
        return false;
    if (begin_history(&driver)) {
        outcome->begun = true;
        hear_signals(&driver);
        run(&driver);
        torture_writer_close(driver.writer);
        sigprocmask(SIG_SETMASK, &driver.before, NULL);
    }
    munmap(driver.arena, sizeof *driver.arena);
    return !driver.failed;
}
