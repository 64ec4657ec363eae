/* SPDX-License-Identifier: Apache-2.0 */
/* Faults that need nothing but the clients' processes, one after another, aimed. */
#include "torture/nemesis/nemesis.h"

#include "torture/driver.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* Pauses that have begun go on for up to one and a half leases. */
enum { REST_LEASES = 4, DEPTH_MAX = 3 };

/* ---- records ---- */

struct shot {
    struct torture_driver *driver;
    enum torture_fault fault;
    int client;
    uint64_t number;
};

static void write_fault(const struct shot *shot, enum torture_kind kind)
{
    struct torture_record record = { .kind = (uint8_t)kind,
                                     .client = (uint32_t)shot->client,
                                     .operation = shot->number };

    snprintf(record.text, sizeof record.text, "%s", torture_fault_name(shot->fault));
    torture_write(shot->driver->writer, &record);
}

static void begin(struct shot *shot)
{
    shot->number = torture_roll(&shot->driver->dice);
    shot->driver->now = torture_fault_name(shot->fault);
    shot->driver->outcome->tried[shot->fault]++;
    write_fault(shot, TORTURE_FAULT_ON);
}

static void hit(const struct shot *shot)
{
    shot->driver->outcome->hit[shot->fault]++;
    write_fault(shot, TORTURE_FAULT_HIT);
}

static void end(const struct shot *shot)
{
    write_fault(shot, TORTURE_FAULT_OFF);
    shot->driver->now = NULL;
}

/* ---- aiming ---- */

static uint64_t doing(const struct shot *shot)
{
    return atomic_load(&shot->driver->arena->seats[shot->client].doing);
}

/* ---- which is next ---- */

static void strike_with(struct torture_driver *driver, unsigned fault);

/* Those of one client, which leave the others to other faults. */
static bool goes_beside(unsigned fault)
{
    return fault < TORTURE_LATE_RELEASE && fault != TORTURE_PAUSE;
}

/* Lets that much time pass in a fault of one client. In a hurry the next ones, of other clients,
 * come meanwhile, and it may last longer. False: the rough part is over. */
static bool last(struct torture_driver *driver, int64_t ms)
{
    int64_t until_ns = torture_clock_ns() + ms * 1000000;

    driver->depth++;
    while (driver->depth < DEPTH_MAX && torture_nemesis_hurries(driver) &&
           torture_clock_ns() < until_ns && goes_beside(driver->next_fault % TORTURE_FAULT_KINDS)) {
        unsigned fault = driver->next_fault++ % TORTURE_FAULT_KINDS;
        if (torture_nemesis_is_next(driver, fault))
            strike_with(driver, fault);
    }
    driver->depth--;
    return torture_driver_wait(driver, (until_ns - torture_clock_ns()) / 1000000);
}

/* ---- stopping ---- */

/* Until the kernel says so. False: it has ended instead. */
static bool stop(const struct shot *shot)
{
    pid_t pid = shot->driver->clients[shot->client];
    siginfo_t information = { 0 };

    return kill(pid, SIGSTOP) == 0 &&
           waitid(P_PID, (id_t)pid, &information, WSTOPPED | WEXITED | WNOWAIT) == 0 &&
           information.si_code == CLD_STOPPED &&
           waitid(P_PID, (id_t)pid, &information, WSTOPPED) == 0;
}

/* Once it is stopped: is it what we wanted to hit? A client inside the resource would make the
 * others wait for a reason that has nothing to do with locks. */
static bool is_hit(const struct shot *shot, enum torture_doing wanted)
{
    return torture_doing_of(doing(shot)) == wanted &&
           !atomic_load(&shot->driver->arena->seats[shot->client].in_resource);
}

static void stop_somebody(struct torture_driver *driver, enum torture_fault fault,
                          enum torture_doing wanted)
{
    struct shot shot = { .driver = driver, .fault = fault };
    int64_t lease_ns = driver->plan->lease_ms * 1000000, begin_ns;

    shot.client = torture_nemesis_aim(driver, wanted);
    if (shot.client == TORTURE_NO_CLIENT)
        return;
    begin(&shot);
    begin_ns = torture_clock_ns();
    if (stop(&shot) && is_hit(&shot, wanted)) {
        last(driver, torture_nemesis_over_lease_ms(driver));
        if (torture_clock_ns() - begin_ns >= lease_ns)
            hit(&shot);
    }
    if (driver->clients[shot.client] > 0)
        kill(driver->clients[shot.client], SIGCONT);
    end(&shot);
}

/* ---- killing ---- */

static void kill_somebody(struct torture_driver *driver, enum torture_fault fault,
                          enum torture_doing wanted)
{
    struct shot shot = { .driver = driver, .fault = fault };

    shot.client = torture_nemesis_aim(driver, wanted);
    if (shot.client == TORTURE_NO_CLIENT)
        return;
    begin(&shot);
    /* Stopped first, so that what it was doing when it died is known. */
    bool hits = stop(&shot) && torture_doing_of(doing(&shot)) == wanted;
    torture_driver_kill(driver, (unsigned)shot.client);
    if (hits)
        hit(&shot);
    if (torture_driver_wait(driver, torture_between(&driver->dice, 0, driver->plan->lease_ms / 4)))
        torture_driver_start(driver, (unsigned)shot.client);
    end(&shot);
}

/* ---- what goes on by itself for a while ---- */

/* While other faults come: two at a time find more than one after the other. */
static void pause_at_points(struct torture_driver *driver)
{
    struct torture_shared *arena = driver->arena;
    int64_t lease_ns = driver->plan->lease_ms * 1000000;

    driver->pauses_end_ns =
        torture_clock_ns() + torture_between(&driver->dice, lease_ns, lease_ns * 3);
    atomic_store(&arena->pause_percent, (uint32_t)torture_between(&driver->dice, 5, 25));
    atomic_store(&arena->pauses, torture_roll(&driver->dice) | 1);
}

static void bend_a_clock(struct torture_driver *driver)
{
    struct shot shot = { .driver = driver, .fault = TORTURE_CLOCK };
    int64_t jump_ms = torture_between(&driver->dice, 1000, 3600 * 1000);
    struct torture_seat *seat;

    shot.client = torture_nemesis_aim(driver, TORTURE_HOLDING);
    if (shot.client == TORTURE_NO_CLIENT)
        return;
    begin(&shot);
    seat = &driver->arena->seats[shot.client];
    atomic_store(&seat->clock_seen, false);
    atomic_store(&seat->clock_ns,
                 torture_chance(&driver->dice, 50) ? jump_ms * 1000000 : -jump_ms * 1000000);
    last(driver, torture_nemesis_over_lease_ms(driver));
    if (atomic_load(&seat->clock_seen))
        hit(&shot);
    atomic_store(&seat->clock_ns, 0);
    end(&shot);
}

/* ---- all of them ---- */

static void strike_with(struct torture_driver *driver, unsigned fault)
{
    uint64_t struck = driver->struck;

    switch (fault) {
    case TORTURE_STOP_HOLDER:
        stop_somebody(driver, TORTURE_STOP_HOLDER, TORTURE_HOLDING);
        break;
    case TORTURE_STOP_WAITER:
        stop_somebody(driver, TORTURE_STOP_WAITER, TORTURE_ASKING);
        break;
    case TORTURE_KILL_HOLDER:
        kill_somebody(driver, TORTURE_KILL_HOLDER, TORTURE_HOLDING);
        break;
    case TORTURE_KILL_WAITER:
        kill_somebody(driver, TORTURE_KILL_WAITER, TORTURE_ASKING);
        break;
    case TORTURE_PAUSE:
        pause_at_points(driver);
        break;
    case TORTURE_CLOCK:
        bend_a_clock(driver);
        break;
    case TORTURE_RESET:
    case TORTURE_BLACKHOLE:
    case TORTURE_DROP_REPLIES:
    case TORTURE_TRICKLE:
        torture_nemesis_wire(driver, fault, last);
        break;
    case TORTURE_LATE_RELEASE:
    case TORTURE_ERROR_REPLY:
        torture_nemesis_quiet(driver, fault);
        break;
    case TORTURE_SERVER_STOP:
    case TORTURE_SERVER_KILL:
    case TORTURE_FAILOVER:
    case TORTURE_STORE_CLOCK:
    case TORTURE_PARTITION:
        torture_nemesis_server(driver, fault);
        break;
    default:
        torture_nemesis_hook(driver, fault - TORTURE_FAULTS);
    }
    driver->struck = struck;
}

/* Between two rounds of all faults there is none for a while: what is late then has no excuse. The
 * first rounds are one, in which each fault gets its chance to hit. False: the time for faults is
 * over. */
static bool rest_before_round(struct torture_driver *driver, unsigned round)
{
    if (round == driver->rounds)
        return true;
    driver->rounds = round;
    if (driver->plan->restless ||
        (round < TORTURE_FIRST_ROUNDS && torture_nemesis_missing(driver) > 0))
        return true;
    if (round < TORTURE_FIRST_ROUNDS) {
        driver->rounds = TORTURE_FIRST_ROUNDS;
        driver->next_fault =
            TORTURE_FIRST_ROUNDS * TORTURE_FAULT_KINDS + driver->next_fault % TORTURE_FAULT_KINDS;
    }
    torture_driver_wait(driver, (driver->pauses_end_ns - torture_clock_ns()) / 1000000);
    atomic_store(&driver->arena->pauses, 0);
    return torture_driver_wait(driver, driver->plan->lease_ms * REST_LEASES);
}

void torture_nemesis_strike(struct torture_driver *driver)
{
    int64_t lease_ms = driver->plan->lease_ms;
    int64_t most_ms = torture_nemesis_hurries(driver) ? lease_ms / 10 : lease_ms / 2;

    if (!torture_driver_wait(driver, torture_between(&driver->dice, lease_ms / 10, most_ms)))
        return;
    if (torture_clock_ns() >= driver->pauses_end_ns)
        atomic_store(&driver->arena->pauses, 0);
    for (unsigned i = 0; i <= TORTURE_FAULT_KINDS; i++) {
        /* mutant: fault-begins-when-time-is-over */
        if (!rest_before_round(driver, driver->next_fault / TORTURE_FAULT_KINDS))
            return;
        unsigned fault = driver->next_fault++ % TORTURE_FAULT_KINDS;
        if (torture_nemesis_is_next(driver, fault)) {
            strike_with(driver, fault);
            return;
        }
    }
}

void torture_nemesis_heal(struct torture_driver *driver)
{
    atomic_store(&driver->arena->pauses, 0);
    atomic_store(&driver->arena->quiet, 0);
    for (unsigned i = 0; i < driver->plan->clients; i++) {
        atomic_store(&driver->arena->seats[i].clock_ns, 0);
        torture_nemesis_heal_wire(&driver->arena->seats[i]);
        if (driver->clients[i] > 0)
            kill(driver->clients[i], SIGCONT);
    }
}
