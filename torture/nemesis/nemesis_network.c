/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of a client's connections, aimed at a holder or a waiter. The relay does them, and counts
 * when they bite. */
#include "torture/driver.h"
#include "torture/nemesis/nemesis.h"

#include <poll.h>
#include <stdio.h>

enum { CUT_MS = 10000 };

struct cut {
    struct torture_driver *driver;
    enum torture_fault fault;
    struct torture_seat *seat;
    uint32_t client;
    uint64_t number;
    bool (*last)(struct torture_driver *driver, int64_t ms);
};

static void write_fault(const struct cut *cut, enum torture_kind kind)
{
    struct torture_record record = { .kind = (uint8_t)kind,
                                     .client = cut->client,
                                     .operation = cut->number };

    snprintf(record.text, sizeof record.text, "%s", torture_fault_name(cut->fault));
    torture_write(cut->driver->writer, &record);
}

static void make(const struct cut *cut, enum torture_wire wire)
{
    atomic_store(&cut->seat->wire, wire);
}

/* False: it has not bitten in that time. */
static bool wait_for_a_bite(const struct cut *cut, int64_t ms)
{
    int64_t until_ns = torture_clock_ns() + ms * 1000000;

    while (atomic_load(&cut->seat->wire_hits) == 0 && torture_clock_ns() < until_ns)
        if (!torture_driver_wait(cut->driver, 1))
            break;
    return atomic_load(&cut->seat->wire_hits) > 0;
}

/* Also when the run is over. A relay that does not get to it within that time does it later. */
static void cut_now(const struct cut *cut)
{
    int64_t until_ns = torture_clock_ns() + CUT_MS * INT64_C(1000000);

    make(cut, TORTURE_WIRE_RESET);
    while (atomic_load(&cut->seat->wire) == TORTURE_WIRE_RESET && torture_clock_ns() < until_ns)
        poll(NULL, 0, 1);
}

/* Bytes of a stream cannot be missing in its middle: answers that are lost are lost with all that
 * would have come after them. */
static bool lose_answers(const struct cut *cut)
{
    int64_t lease_ms = cut->driver->plan->lease_ms;

    make(cut, TORTURE_WIRE_DROP_REPLIES);
    bool bites = wait_for_a_bite(cut, lease_ms);
    torture_driver_wait(cut->driver, torture_between(&cut->driver->dice, 0, lease_ms / 2));
    cut_now(cut);
    return bites;
}

static bool hold_up(const struct cut *cut, enum torture_wire wire)
{
    int64_t lease_ms = cut->driver->plan->lease_ms, begin_ns = torture_clock_ns();

    make(cut, wire);
    cut->last(cut->driver, torture_nemesis_over_lease_ms(cut->driver));
    make(cut, TORTURE_WIRE_FINE);
    return atomic_load(&cut->seat->wire_hits) > 0 &&
           torture_clock_ns() - begin_ns >= lease_ms * 1000000;
}

static bool strike(const struct cut *cut)
{
    if (cut->fault == TORTURE_DROP_REPLIES)
        return lose_answers(cut);
    if (cut->fault != TORTURE_RESET)
        return hold_up(cut, cut->fault == TORTURE_BLACKHOLE ? TORTURE_WIRE_BLACKHOLE
                                                            : TORTURE_WIRE_TRICKLE);
    make(cut, TORTURE_WIRE_RESET);
    return wait_for_a_bite(cut, cut->driver->plan->lease_ms);
}

void torture_nemesis_wire(struct torture_driver *driver, enum torture_fault fault,
                          bool (*last)(struct torture_driver *driver, int64_t ms))
{
    enum torture_doing wanted =
        torture_chance(&driver->dice, 50) ? TORTURE_HOLDING : TORTURE_ASKING;
    int client = torture_nemesis_aim(driver, wanted);
    struct cut cut = { .driver = driver,
                       .fault = fault,
                       .seat = &driver->arena->seats[client < 0 ? 0 : client],
                       .client = (uint32_t)client,
                       .number = torture_roll(&driver->dice),
                       .last = last };

    if (client == TORTURE_NO_CLIENT)
        return;
    driver->now = torture_fault_name(fault);
    driver->outcome->tried[fault]++;
    write_fault(&cut, TORTURE_FAULT_ON);
    atomic_store(&cut.seat->wire_hits, 0);
    if (strike(&cut)) {
        driver->outcome->hit[fault]++;
        write_fault(&cut, TORTURE_FAULT_HIT);
    }
    write_fault(&cut, TORTURE_FAULT_OFF);
    driver->now = NULL;
}

void torture_nemesis_heal_wire(struct torture_seat *seat)
{
    uint32_t wire = atomic_load(&seat->wire);

    while (wire != TORTURE_WIRE_RESET && /* mutant: owner-heals-undoes-cut */
           !atomic_compare_exchange_weak(&seat->wire, &wire, TORTURE_WIRE_FINE))
        continue;
}
