/* SPDX-License-Identifier: Apache-2.0 */
/* Faults at a lock with little contention. All first threads try for it, and none waits, so no
 * waiter in the store's queue protects its owner from a release that is another claim's. */
#include "torture/driver.h"
#include "torture/nemesis/nemesis.h"

#include <poll.h>
#include <stdio.h>

enum { PATIENCE_LEASES = 4, CUT_MS = 10000, LOCKS_MAX = 4 };
/* Longer than the workload has it (CLEANED_UP_NS). */
enum { CLEANED_UP_MS = 6000, CLEANED_UP_LEASES = 5 };
enum { ERROR_TURNS = 3 };

/* One client, at one lock. */
struct strike {
    struct torture_driver *driver;
    enum torture_fault fault;
    struct torture_seat *seat; /* NULL: none was found */
    uint32_t client;
    unsigned lock;
    uint64_t number;
    uint64_t
        since; /* the last operation when the victim had stepped into its trap; 0: it has not */
    bool lifted, hits;
};

static void write_fault(const struct strike *strike, enum torture_kind kind)
{
    struct torture_record record = { .kind = (uint8_t)kind,
                                     .client = strike->client,
                                     .operation = strike->number };

    snprintf(record.text, sizeof record.text, "%s", torture_fault_name(strike->fault));
    torture_write(strike->driver->writer, &record);
}

static void begin(struct strike *strike, unsigned client)
{
    strike->client = client;
    strike->seat = &strike->driver->arena->seats[client];
    strike->number = torture_roll(&strike->driver->dice);
    strike->driver->now = torture_fault_name(strike->fault);
    strike->driver->outcome->tried[strike->fault]++;
    atomic_store(&strike->seat->wire_hits, 0);
    write_fault(strike, TORTURE_FAULT_ON);
}

static void end(const struct strike *strike)
{
    if (strike->hits)
        write_fault(strike, TORTURE_FAULT_HIT);
    strike->driver->outcome->hit[strike->fault] += strike->hits;
    write_fault(strike, TORTURE_FAULT_OFF);
    strike->driver->now = NULL;
}

static void set_trap(const struct strike *strike, enum torture_trap trap, enum torture_wire wire)
{
    atomic_store(&strike->seat->trap_wire, wire);
    atomic_store(&strike->seat->trap, trap);
}

/* A client but the victim holds the lock by a later operation than this one. */
static bool finds_holder(const struct strike *strike, uint64_t since, unsigned *ret)
{
    const struct torture_driver *driver = strike->driver;

    for (unsigned i = 0; i < driver->plan->clients; i++) {
        uint64_t word = atomic_load(&driver->arena->seats[i].doing);
        if (&driver->arena->seats[i] == strike->seat || word >> 24 <= since ||
            torture_doing_of(word) != TORTURE_HOLDING || torture_doing_lock(word) != strike->lock)
            continue;
        *ret = i;
        return true;
    }
    return false;
}

/* ---- releases ---- */

/* Also when the run is over. */
static void lift(struct strike *strike)
{
    int64_t until_ns = torture_clock_ns() + CUT_MS * INT64_C(1000000);

    strike->lifted = true;
    atomic_store(&strike->seat->trap, TORTURE_NO_TRAP);
    if (atomic_load(&strike->seat->trap_wire) == TORTURE_WIRE_BLACKHOLE) {
        torture_nemesis_heal_wire(strike->seat);
        return;
    }
    atomic_store(&strike->seat->wire, TORTURE_WIRE_RESET);
    while (atomic_load(&strike->seat->wire) == TORTURE_WIRE_RESET && torture_clock_ns() < until_ns)
        poll(NULL, 0, 1);
}

/* One step further: from its first holder to the release in the trap, to the next holder. */
static void go_on(struct strike *strike, enum torture_wire wire)
{
    unsigned holder;

    if (!strike->seat) {
        if (finds_holder(strike, 0, &holder)) {
            begin(strike, holder);
            set_trap(strike, TORTURE_TRAP_RELEASE, wire);
        }
    } else if (strike->since == 0) {
        if (atomic_load(&strike->seat->trap) == TORTURE_NO_TRAP)
            strike->since = atomic_load(&strike->driver->arena->operations);
    } else if (atomic_load(&strike->seat->wire_hits) > 0 &&
               finds_holder(strike, strike->since, &holder)) {
        strike->hits = true;
        lift(strike);
        end(strike);
    }
}

/* Either releases are executed and their replies are lost, so that they are repeated; or they are
 * held up until the lease is over, and come then. At all locks at a time, if there are clients
 * enough. */
static void release_late(struct torture_driver *driver, unsigned locks)
{
    struct strike strikes[LOCKS_MAX] = { 0 };
    bool repeats = driver->outcome->tried[TORTURE_LATE_RELEASE] / locks % 2 == 1;
    enum torture_wire wire = repeats ? TORTURE_WIRE_DROP_REPLIES : TORTURE_WIRE_BLACKHOLE;
    int64_t until_ns =
        torture_clock_ns() + driver->plan->lease_ms * PATIENCE_LEASES * INT64_C(1000000);
    unsigned open = locks;

    for (unsigned i = 0; i < locks; i++)
        strikes[i] = (struct strike){ .driver = driver,
                                      .fault = TORTURE_LATE_RELEASE,
                                      .lock = torture_quiet_lock(driver->arena, i, locks) };
    while (open > 0 && torture_clock_ns() < until_ns && torture_driver_wait(driver, 1))
        for (unsigned i = 0; i < locks; i++)
            if (!strikes[i].lifted) {
                go_on(&strikes[i], wire);
                open -= strikes[i].lifted;
            }
    for (unsigned i = 0; i < locks; i++)
        if (strikes[i].seat && !strikes[i].lifted) {
            lift(&strikes[i]);
            end(&strikes[i]);
        }
}

/* ---- replies ---- */

static bool wait_for(const struct strike *strike, const _Atomic uint32_t *word, bool zero)
{
    int64_t limit_ms = strike->driver->plan->lease_ms * PATIENCE_LEASES / 2;
    int64_t until_ns = torture_clock_ns() + limit_ms * 1000000;

    while ((atomic_load(word) == 0) != zero)
        if (torture_clock_ns() >= until_ns || !torture_driver_wait(strike->driver, 1))
            return false;
    return true;
}

/* The client takes back what its try has left: then another one, which alone tries, holds, and the
 * next fault may come. If it does not, it is refused long enough that no excuse is left: where each
 * request is in a queue, refused tries of several clients would excuse each other. */
static void wait_for_cleaning(const struct strike *strike)
{
    struct torture_driver *driver = strike->driver;
    int64_t limit_ms = CLEANED_UP_MS + driver->plan->lease_ms * CLEANED_UP_LEASES;
    int64_t until_ns = torture_clock_ns() + limit_ms * 1000000;
    unsigned holder;

    atomic_store(&driver->arena->reserved, (strike->client + 1) % driver->plan->clients + 1);
    while (!finds_holder(strike, strike->since, &holder))
        if (torture_clock_ns() >= until_ns || !torture_driver_wait(driver, 1))
            break;
    atomic_store(&driver->arena->reserved, 0);
}

/* In turns: of a try that finds a quiet lock free, of a release there, and of any request of a
 * client that holds or waits. A client that takes the first for not executed leaves the lock
 * behind; one that takes the second for that tells its caller of a loss. */
static void reply_with_error(struct torture_driver *driver, bool quiet)
{
    struct strike strike = { .driver = driver,
                             .fault = TORTURE_ERROR_REPLY,
                             .lock = driver->arena->lock_count - 1 };
    bool holds = !quiet && torture_chance(&driver->dice, 50);
    bool releases = driver->outcome->tried[TORTURE_ERROR_REPLY] % ERROR_TURNS == 1;
    int client = torture_nemesis_aim(driver, holds ? TORTURE_HOLDING : TORTURE_ASKING);

    if (client == TORTURE_NO_CLIENT)
        return;
    begin(&strike, (unsigned)client);
    if (quiet) {
        atomic_store(&driver->arena->reserved, strike.client + 1);
        set_trap(&strike, releases ? TORTURE_TRAP_RELEASE : TORTURE_TRAP_TRY, TORTURE_WIRE_ERROR);
        wait_for(&strike, &strike.seat->trap, true);
    } else {
        atomic_store(&strike.seat->wire, TORTURE_WIRE_ERROR);
    }
    strike.hits = wait_for(&strike, &strike.seat->wire_hits, false);
    strike.since = atomic_load(&driver->arena->operations);
    atomic_store(&driver->arena->reserved, 0);
    atomic_store(&strike.seat->trap, TORTURE_NO_TRAP);
    torture_nemesis_heal_wire(strike.seat);
    end(&strike);
    if (quiet && strike.hits)
        wait_for_cleaning(&strike);
}

/* ---- both ---- */

void torture_nemesis_quiet(struct torture_driver *driver, enum torture_fault fault)
{
    struct torture_shared *arena = driver->arena;
    unsigned locks = arena->lock_count - arena->loud_count;
    unsigned most = (driver->plan->clients + 1) / 3;
    bool loud = driver->outcome->tried[TORTURE_ERROR_REPLY] % ERROR_TURNS == ERROR_TURNS - 1;
    bool quiet = fault == TORTURE_LATE_RELEASE || !loud;

    if (locks == 0 || (fault == TORTURE_ERROR_REPLY && !atomic_load(&arena->relay.reads_names)))
        return;
    locks = locks - 1 < most ? locks - 1 : most;
    if (locks == 0)
        locks = 1;
    if (fault == TORTURE_ERROR_REPLY)
        locks = TORTURE_LAST;
    atomic_store(&arena->quiet_first, (uint32_t)torture_roll(&driver->dice) % LOCKS_MAX);
    atomic_store(&arena->quiet, quiet ? locks : 0);
    if (fault == TORTURE_LATE_RELEASE)
        release_late(driver, locks);
    else
        reply_with_error(driver, quiet);
    /* What another client gets now shows whether the owner was robbed. */
    if (quiet)
        torture_driver_wait(driver, driver->plan->lease_ms / 2);
    atomic_store(&arena->quiet, 0);
}
