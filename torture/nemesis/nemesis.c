/* SPDX-License-Identifier: Apache-2.0 */
/* Faults that need nothing but the clients' processes, one after another, aimed. */
#include "torture/nemesis/nemesis.h"

#include "torture/driver.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* Pauses that have begun go on for up to one and a half leases. */
enum { AIM_MS = 300, KINDS = TORTURE_FAULTS + TORTURE_HOOKS_MAX, REST_LEASES = 4 };

/* What a fault takes, with the time before it; and how often those that have not hit are repeated
 * before the first rest. */
enum { FAULT_LEASES = 3, FIRST_ROUNDS = 5, DEPTH_MAX = 3 };

const char *torture_fault_name(enum torture_fault fault)
{
    static const char *const names[] = {
        "stop-holder", "stop-waiter", "kill-holder", "kill-waiter", "pause",        "clock",
        "reset",       "hole",        "mute",        "drip",        "late-release", "error-reply",
        "server-stop", "server-kill", "failover",    "store-clock", "partition",
    };

    return names[fault];
}

const char *torture_fault_text(enum torture_fault fault)
{
    static const char *const texts[] = {
        "a holder is stopped for longer than the lease",
        "the longest waiter is stopped for longer than the lease",
        "a holder is killed, and replaced by a new process",
        "the longest waiter is killed, and replaced by a new process",
        "a pause inside the library, at its sync points, mostly longer than the lease",
        "the wall clock of a client jumps, up to an hour, both ways",
        "the connections of a holder or a waiter are cut",
        "its connections are a black hole for longer than the lease",
        "its requests are executed, but the replies are lost with the connection",
        "its connections carry a hundred bytes a second",
        "its release comes late, or twice, while another owner holds the lock",
        "its request is executed, but the reply is an error, as a proxy gives it",
        "the server is stopped for longer than the lease",
        "the server is killed, and started again",
        "a replica replaces its primary without the last grants",
        "the wall clock of the server jumps ahead, by more than a lease",
        "the server that leads is cut off from the others, with half of the clients",
    };

    return texts[fault];
}

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

/* Any client that does this; of those that wait, the one that has waited longest on its lock. */
static int look_for(struct torture_driver *driver, enum torture_doing wanted)
{
    unsigned count = driver->plan->clients;
    unsigned first = (unsigned)torture_between(&driver->dice, 0, count - 1);
    int found = TORTURE_NO_CLIENT;
    uint64_t word = 0;

    for (unsigned i = 0; i < count; i++) {
        unsigned client = (first + i) % count;
        uint64_t other = atomic_load(&driver->arena->seats[client].doing);
        if (torture_doing_of(other) != wanted || driver->clients[client] == 0 ||
            driver->struck >> client & 1)
            continue;
        if (found == TORTURE_NO_CLIENT || (wanted == TORTURE_ASKING && other >> 24 < word >> 24 &&
                                           torture_doing_lock(other) == torture_doing_lock(word))) {
            found = (int)client;
            word = other;
        }
    }
    return found;
}

int torture_nemesis_aim(struct torture_driver *driver, enum torture_doing wanted)
{
    int found = TORTURE_NO_CLIENT;

    for (int ms = 0; ms < AIM_MS && found == TORTURE_NO_CLIENT; ms++) {
        found = look_for(driver, wanted);
        if (found == TORTURE_NO_CLIENT && !torture_driver_wait(driver, 1))
            break;
    }
    if (found != TORTURE_NO_CLIENT)
        driver->struck |= UINT64_C(1) << found;
    return found;
}

/* ---- which is next ---- */

static bool is_chosen(const struct torture_driver *driver, unsigned fault)
{
    return fault < TORTURE_FAULTS ? driver->plan->faults & 1u << fault
                                  : fault - TORTURE_FAULTS < driver->plan->hook_count;
}

/* A hook is the user's: it is not repeated because it failed. */
static bool has_hit(const struct torture_driver *driver, unsigned fault)
{
    if (fault == TORTURE_PAUSE)
        return atomic_load(&driver->arena->pauses_hit) > 0;
    return (fault < TORTURE_FAULTS ? driver->outcome->hit : driver->outcome->tried)[fault] > 0;
}

static unsigned count_missing(const struct torture_driver *driver)
{
    unsigned count = 0;

    for (unsigned fault = 0; fault < KINDS; fault++)
        count += is_chosen(driver, fault) && !has_hit(driver, fault);
    return count;
}

/* At first each fault has to hit once: those that have, wait for the others. */
static bool is_next(const struct torture_driver *driver, unsigned fault)
{
    return is_chosen(driver, fault) && (driver->rounds >= FIRST_ROUNDS || !has_hit(driver, fault));
}

/* The time may be too short for one fault after the other. */
bool torture_nemesis_hurries(const struct torture_driver *driver)
{
    int64_t left_ms = (driver->end_ns - torture_clock_ns()) / 1000000;

    return driver->rounds < FIRST_ROUNDS &&
           left_ms < count_missing(driver) * driver->plan->lease_ms * FAULT_LEASES;
}

static void strike_with(struct torture_driver *driver, unsigned fault);

/* Those of one client, which leave the others to other faults. */
static bool goes_beside(unsigned fault)
{
    return fault < TORTURE_LATE_RELEASE && fault != TORTURE_PAUSE;
}

bool torture_nemesis_last(struct torture_driver *driver, int64_t ms)
{
    int64_t until_ns = torture_clock_ns() + ms * 1000000;

    driver->depth++;
    while (driver->depth < DEPTH_MAX && torture_nemesis_hurries(driver) &&
           torture_clock_ns() < until_ns && goes_beside(driver->next_fault % KINDS)) {
        unsigned fault = driver->next_fault++ % KINDS;
        if (is_next(driver, fault))
            strike_with(driver, fault);
    }
    driver->depth--;
    return torture_driver_wait(driver, (until_ns - torture_clock_ns()) / 1000000);
}

/* Longer than the lease, but not by much: that is where mistakes about it show. */
int64_t torture_nemesis_over_lease_ms(struct torture_driver *driver)
{
    int64_t lease_ms = driver->plan->lease_ms;
    int64_t most = torture_nemesis_hurries(driver) ? 12 : 16;

    return torture_between(&driver->dice, lease_ms * 11 / 10, lease_ms * most / 10);
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
        torture_nemesis_last(driver, torture_nemesis_over_lease_ms(driver));
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
    torture_nemesis_last(driver, torture_nemesis_over_lease_ms(driver));
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
        torture_nemesis_wire(driver, fault);
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
    if (driver->plan->restless || (round < FIRST_ROUNDS && count_missing(driver) > 0))
        return true;
    if (round < FIRST_ROUNDS) {
        driver->rounds = FIRST_ROUNDS;
        driver->next_fault = FIRST_ROUNDS * KINDS + driver->next_fault % KINDS;
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
    for (unsigned i = 0; i <= KINDS; i++) {
        /* mutant: fault-begins-when-time-is-over */
        if (!rest_before_round(driver, driver->next_fault / KINDS))
            return;
        unsigned fault = driver->next_fault++ % KINDS;
        if (is_next(driver, fault)) {
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
