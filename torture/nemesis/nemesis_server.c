/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of the sandbox's servers: the store itself stands still, dies, or is replaced. */
#include "torture/driver.h"
#include "torture/nemesis/nemesis.h"
#include "torture/sandbox/sandbox.h"

#include <stdio.h>

#define MS INT64_C(1000000)
/* A holder that keeps its lock for this time keeps it for longer: most give it back at once. */
enum { KEEPS_IT_MS = 20, AIM_LEASES = 10, ANY_SIDE = TORTURE_SIDES };
/* Servers take seconds to choose another one to lead. */
enum { ELECTION_MS = 15000, LOOK_AGAIN_MS = 20 };

struct blow {
    struct torture_driver *driver;
    enum torture_fault fault;
    uint64_t number;
};

static void write_fault(const struct blow *blow, enum torture_kind kind)
{
    struct torture_record record = { .kind = (uint8_t)kind,
                                     .client = TORTURE_NOBODY,
                                     .operation = blow->number };

    snprintf(record.text, sizeof record.text, "%s", torture_fault_name(blow->fault));
    torture_write(blow->driver->writer, &record);
}

static void hit(const struct blow *blow)
{
    blow->driver->outcome->hit[blow->fault]++;
    write_fault(blow, TORTURE_FAULT_HIT);
}

static bool is_anybody_holding(const struct torture_driver *driver)
{
    for (unsigned i = 0; i < driver->plan->clients; i++)
        if (torture_doing_of(atomic_load(&driver->arena->seats[i].doing)) == TORTURE_HOLDING)
            return true;
    return false;
}

/* ---- aiming ---- */

/* A client there was granted a lock after operation `since`, and keeps it. */
static bool is_a_grant_kept(struct torture_driver *driver, uint64_t since, unsigned side)
{
    for (unsigned i = 0; i < driver->plan->clients; i++) {
        const _Atomic uint64_t *doing = &driver->arena->seats[i].doing;
        uint64_t word = atomic_load(doing);
        bool elsewhere = side != ANY_SIDE && torture_sandbox_side(driver->plan->sandbox, i) != side;
        if (torture_doing_of(word) != TORTURE_HOLDING || word >> 24 <= since || elsewhere)
            continue;
        torture_driver_wait(driver, KEEPS_IT_MS);
        if (atomic_load(doing) == word)
            return true;
    }
    return false;
}

static bool wait_for_a_grant(struct torture_driver *driver, uint64_t since, unsigned side)
{
    int64_t until_ns = torture_clock_ns() + driver->plan->lease_ms * AIM_LEASES * MS;

    while (!is_a_grant_kept(driver, since, side))
        if (torture_clock_ns() >= until_ns || !torture_driver_wait(driver, 1))
            return false;
    return true;
}

/* Servers that choose their leader may just be choosing. */
static bool wait_for_a_leader(struct torture_driver *driver)
{
    struct torture_sandbox *sandbox = driver->plan->sandbox;
    int64_t until_ns = torture_clock_ns() + ELECTION_MS * MS;

    while (!torture_sandbox_look_for_leader(sandbox))
        if (torture_clock_ns() >= until_ns || !torture_driver_wait(driver, LOOK_AGAIN_MS))
            return false;
    return true;
}

/* ---- standing still, and dying ---- */

static void stop_server(const struct blow *blow)
{
    struct torture_driver *driver = blow->driver;
    struct torture_sandbox *sandbox = driver->plan->sandbox;
    wait_for_a_leader(driver);
    int64_t lease_ms = driver->plan->lease_ms, begin_ns = torture_clock_ns();
    const struct torture_server *server = &sandbox->servers[sandbox->primary];

    torture_sandbox_signal(server, SIGSTOP);
    bool held = is_anybody_holding(driver);
    torture_driver_wait(driver, torture_nemesis_over_lease_ms(driver));
    torture_sandbox_signal(server, SIGCONT);
    if (held && torture_clock_ns() - begin_ns >= lease_ms * MS)
        hit(blow);
}

static void kill_server(const struct blow *blow)
{
    struct torture_driver *driver = blow->driver;
    struct torture_sandbox *sandbox = driver->plan->sandbox;
    char error[256];

    wait_for_a_leader(driver);
    /* Soon enough that a holder is still sure when it is back. */
    bool held = wait_for_a_grant(driver, 0, ANY_SIDE);
    torture_sandbox_kill(sandbox, sandbox->primary);
    torture_driver_wait(driver, torture_between(&driver->dice, 0, driver->plan->lease_ms / 8));
    if (!torture_sandbox_restart(sandbox, sandbox->primary, error))
        torture_driver_fail(driver, "%s", error);
    else if (held)
        hit(blow);
}

/* ---- a clock that jumps ---- */

/* Never back: leases that were counted by the clock before would stay for longer than any client
 * waits. */
static void set_clock(const struct blow *blow)
{
    struct torture_driver *driver = blow->driver;
    struct torture_sandbox_clock *clock = driver->plan->sandbox->clock;
    int64_t lease_ms = driver->plan->lease_ms;
    int64_t by_ns = torture_between(&driver->dice, lease_ms * 11 / 10, lease_ms * 100) * MS;

    bool held = wait_for_a_grant(driver, 0, ANY_SIDE);
    int64_t ahead_ns = atomic_fetch_add(&clock->ahead_ns, by_ns) + by_ns;
    torture_driver_wait(driver, lease_ms);
    if (held && atomic_load(&clock->seen_ns) == ahead_ns)
        hit(blow);
}

/* ---- failing over ---- */

/* Aimed: what the primary granted last, its replica has not heard of when it takes its place. */
static void fail_over(const struct blow *blow)
{
    struct torture_driver *driver = blow->driver;
    struct torture_sandbox *sandbox = driver->plan->sandbox;
    unsigned old = sandbox->primary;
    char error[256];

    if (!torture_sandbox_cut_replica(sandbox)) {
        torture_driver_fail(driver, "the replica of the sandbox could not be cut off");
        return;
    }
    bool is_aimed = wait_for_a_grant(driver, atomic_load(&driver->arena->operations), ANY_SIDE);
    torture_sandbox_kill(sandbox, old);
    if (!torture_sandbox_promote(sandbox)) {
        torture_driver_fail(driver, "the replica of the sandbox does not become a primary");
        return;
    }
    sandbox->deployment->kind->lead(sandbox);
    if (is_aimed)
        hit(blow);
    /* What is granted twice shows while its first holder still believes. */
    torture_driver_wait(driver, driver->plan->lease_ms * 2);
    if (!torture_sandbox_restart(sandbox, old, error))
        torture_driver_fail(driver, "%s", error);
}

/* ---- cutting off ---- */

/* Servers that can choose, do; a replica is told to lead, as its supervisor would. */
static bool replace_leader(struct torture_driver *driver)
{
    struct torture_sandbox *sandbox = driver->plan->sandbox;

    if (!sandbox->deployment->kind->find_leader)
        return torture_sandbox_promote(sandbox) &&
               torture_network_lead(sandbox->network, 1, sandbox->primary);
    if (!torture_network_take_side(sandbox->network, 1))
        return false;
    bool found = wait_for_a_leader(driver);
    return torture_network_take_side(sandbox->network, 0) && found;
}

/* One server leads again, and all know it. What the other has granted meanwhile is thrown away. */
static void reunite(struct torture_driver *driver, unsigned old)
{
    struct torture_sandbox *sandbox = driver->plan->sandbox;
    char error[256];

    if (!torture_network_heal(sandbox->network))
        torture_driver_fail(driver, "the network of the sandbox could not be healed");
    if (sandbox->deployment->kind->find_leader || sandbox->primary == old)
        return;
    torture_sandbox_kill(sandbox, old);
    sandbox->deployment->kind->lead(sandbox);
    if (!torture_sandbox_restart(sandbox, old, error))
        torture_driver_fail(driver, "%s", error);
}

/* Aimed: a client on the side that is cut off believes. */
static void cut_off(const struct blow *blow)
{
    struct torture_driver *driver = blow->driver;
    struct torture_sandbox *sandbox = driver->plan->sandbox;
    int64_t lease_ms = driver->plan->lease_ms;

    wait_for_a_leader(driver);
    unsigned old = sandbox->primary;
    bool held = wait_for_a_grant(driver, 0, 0);
    if (!torture_network_cut(sandbox->network, old))
        torture_driver_fail(driver, "the network of the sandbox could not be cut");
    int64_t begin_ns = torture_clock_ns();
    bool replaced = replace_leader(driver) && sandbox->primary != old;
    torture_driver_wait(driver, torture_between(&driver->dice, lease_ms * 2, lease_ms * 3));
    if (held && replaced && torture_clock_ns() - begin_ns >= lease_ms * MS)
        hit(blow);
    reunite(driver, old);
}

void torture_nemesis_server(struct torture_driver *driver, enum torture_fault fault)
{
    struct blow blow = { driver, fault, torture_roll(&driver->dice) };

    driver->now = torture_fault_name(fault);
    driver->outcome->tried[fault]++;
    write_fault(&blow, TORTURE_FAULT_ON);
    if (fault == TORTURE_SERVER_STOP)
        stop_server(&blow);
    else if (fault == TORTURE_SERVER_KILL)
        kill_server(&blow);
    else if (fault == TORTURE_STORE_CLOCK)
        set_clock(&blow);
    else if (fault == TORTURE_PARTITION)
        cut_off(&blow);
    else
        fail_over(&blow);
    write_fault(&blow, TORTURE_FAULT_OFF);
    driver->now = NULL;
}
