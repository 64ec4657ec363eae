/* SPDX-License-Identifier: Apache-2.0 */
/* Faults, aimed: at the holder, at the next in line. */
#ifndef HF_TORTURE_NEMESIS_NEMESIS_H
#define HF_TORTURE_NEMESIS_NEMESIS_H

#include "torture/shared_state.h"

#include <stdatomic.h>
#include <stdint.h>

struct torture_driver;

enum { TORTURE_NO_CLIENT = -1 };

/* The next fault, from its beginning to its end, with a pause before it. */
void torture_nemesis_strike(struct torture_driver *driver);
/* Ends what goes on by itself: pauses at sync points, bent clocks, broken connections. */
void torture_nemesis_heal(struct torture_driver *driver);

/* ---- nemesis_aim.c ---- */

/* The user's hooks count as faults. A fault that has not hit is repeated in each of the first
 * rounds, which have no rest between them. */
enum { TORTURE_FAULT_KINDS = TORTURE_FAULTS + TORTURE_HOOKS_MAX, TORTURE_FIRST_ROUNDS = 5 };

bool torture_nemesis_is_next(const struct torture_driver *driver, unsigned fault);
/* How many faults have not hit. */
unsigned torture_nemesis_missing(const struct torture_driver *driver);
/* A client that does this just now; or TORTURE_NO_CLIENT, after a while. */
int torture_nemesis_aim(struct torture_driver *driver, enum torture_doing wanted);
/* The time is too short for one fault after the other. */
bool torture_nemesis_hurries(const struct torture_driver *driver);
/* How long a fault has to be that outlasts a lease. */
int64_t torture_nemesis_over_lease_ms(struct torture_driver *driver);

/* ---- nemesis_server.c ---- */

/* One of the TORTURE_SERVER_FAULTS, from its beginning to its end. */
void torture_nemesis_server(struct torture_driver *driver, enum torture_fault fault);

/* ---- nemesis_network.c ---- */

/* One of the TORTURE_WIRE_FAULTS, from its beginning to its end. `last` lets time pass in it. */
void torture_nemesis_wire(struct torture_driver *driver, enum torture_fault fault,
                          bool (*last)(struct torture_driver *driver, int64_t ms));
/* Ends what befalls its connections, but for a cut, which the relay is yet to make: after answers
 * that were lost, nothing may come. */
void torture_nemesis_heal_wire(struct torture_seat *seat);

/* ---- nemesis_quiet.c ---- */

/* One of the TORTURE_QUIET_FAULTS, from its beginning to its end. */
void torture_nemesis_quiet(struct torture_driver *driver, enum torture_fault fault);

/* ---- nemesis_hook.c ---- */

/* One of the user's faults. Its heal command runs whatever happens. */
void torture_nemesis_hook(struct torture_driver *driver, unsigned index);

/* ---- nemesis_clock.c ---- */

/* From now on the wall clock of this process is `offset_ns` ahead of the kernel's: time(),
 * gettimeofday() and clock_gettime(CLOCK_REALTIME) of this program and its shared libraries. What
 * the kernel does by itself (file times, absolute time-outs, timers) is not bent. */
void torture_bend_clock(const _Atomic int64_t *offset_ns);
/* The wall clock as the kernel has it. */
int64_t torture_true_clock_ns(void);

#endif
