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
/* A client that does this just now; or TORTURE_NO_CLIENT, after a while. */
int torture_nemesis_aim(struct torture_driver *driver, enum torture_doing wanted);
/* The time is too short for one fault after the other. */
bool torture_nemesis_hurries(const struct torture_driver *driver);
/* How long a fault has to be that outlasts a lease. */
int64_t torture_nemesis_over_lease_ms(struct torture_driver *driver);
/* Lets that much time pass in a fault of one client. In a hurry the next ones, of other clients,
 * come meanwhile, and it may last longer. False: the rough part is over. */
bool torture_nemesis_last(struct torture_driver *driver, int64_t ms);

/* ---- nemesis_server.c ---- */

/* One of the TORTURE_SERVER_FAULTS, from its beginning to its end. */
void torture_nemesis_server(struct torture_driver *driver, enum torture_fault fault);

/* ---- nemesis_network.c ---- */

/* One of the TORTURE_WIRE_FAULTS, from its beginning to its end. */
void torture_nemesis_wire(struct torture_driver *driver, enum torture_fault fault);
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
