/* SPDX-License-Identifier: Apache-2.0 */
/* Which fault is next, which client it befalls, and for how long. */
#include "torture/nemesis/nemesis.h"

#include "torture/driver.h"

/* FAULT_LEASES: what a fault takes, with the time before it. */
enum { AIM_MS = 300, FAULT_LEASES = 3 };

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

/* At first each fault has to hit once: those that have, wait for the others. */
bool torture_nemesis_is_next(const struct torture_driver *driver, unsigned fault)
{
    return is_chosen(driver, fault) &&
           (driver->rounds >= TORTURE_FIRST_ROUNDS || !has_hit(driver, fault));
}

unsigned torture_nemesis_missing(const struct torture_driver *driver)
{
    unsigned count = 0;

    for (unsigned fault = 0; fault < TORTURE_FAULT_KINDS; fault++)
        count += is_chosen(driver, fault) && !has_hit(driver, fault);
    return count;
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

/* The time may be too short for one fault after the other. */
bool torture_nemesis_hurries(const struct torture_driver *driver)
{
    int64_t left_ms = (driver->end_ns - torture_clock_ns()) / 1000000;

    return driver->rounds < TORTURE_FIRST_ROUNDS &&
           left_ms < torture_nemesis_missing(driver) * driver->plan->lease_ms * FAULT_LEASES;
}

/* Longer than the lease, but not by much: that is where mistakes about it show. */
int64_t torture_nemesis_over_lease_ms(struct torture_driver *driver)
{
    int64_t lease_ms = driver->plan->lease_ms;
    int64_t most = torture_nemesis_hurries(driver) ? 12 : 16;

    return torture_between(&driver->dice, lease_ms * 11 / 10, lease_ms * most / 10);
}
